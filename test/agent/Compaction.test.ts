/** Conversations that near the model's context window: what is left out, what is kept, and what it costs. */
import { assert, describe, it } from "@effect/vitest"
import * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { Options } from "../../src/agent/AgentExecutor.ts"
import { type AgentEvent, SubAgent } from "../../src/agent/index.ts"
import * as Transcripts from "../../src/agent/Transcripts.ts"
import * as TranscriptStore from "../../src/agent/TranscriptStore.ts"
import { type ConfigurationError, Journal } from "../../src/index.ts"
import type * as ModelRequest from "../../src/testing/ModelRequest.ts"
import type * as ModelTurn from "../../src/testing/ModelTurn.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { agentTool, type Env, events, problemsOf, run, words } from "../support/Agents.ts"

const page = (n: unknown) => `page ${String(n)} ${"lorem ipsum ".repeat(400)}`
const read = { read: ({ n }: { readonly [key: string]: unknown }) => Effect.succeed(page(n)) }

const call = (n: number): ModelTurn.Turn => ({
  text: `Reading ${n}.`,
  calls: [{ id: `c${n}`, name: "read", params: { n } }]
})

/** Reads so many pages, then is done; a request for a summary is answered with one. */
const reader = (pages: number, summary: ModelTurn.Turn = { text: "Request: all.\nDone: read some." }) => {
  let read = 0
  return (request: ModelRequest.ModelRequest): ModelTurn.Turn =>
    isSummary(request) ? summary : read++ < pages ? call(read) : { text: "Done." }
}

const isSummary = ({ prompt }: ModelRequest.ModelRequest) =>
  prompt.content.some((it) => it.role === "system" && it.content.startsWith("You write the memory"))

const failing: ReadonlyArray<ModelTurn.Turn> = [{ fails: "overloaded" }, { text: " " }, { dies: "a bug" }]

const window = { window: 10_000, at: 0.5 }
const go: Options = { prompt: "Read all pages.", system: "Be brief.", compaction: window }

const compactions = (all: ReadonlyArray<AgentEvent.AgentEvent>) => all.filter((it) => it._tag === "HistoryCompacted")

const asked = ({ model }: Env) => Effect.map(model.requests, (all) => all.filter((it) => !isSummary(it)))

const withoutResults = (prompt: Prompt.Prompt) =>
  words(prompt).map((it) => it.replace(/(?<=page \d+) [^]*/, "").split("\n")[0])

describe("a conversation that nears the window", () => {
  it.effect(
    "is summarised: the system prompt, the request and the latest turns are kept word for word",
    () =>
      run(read, reader(8), (env) =>
        Effect.gen(function*() {
          const { end, events: all } = yield* events(env, { ...go, compaction: { window: 10_000, keepTurns: 2 } })
          assert.deepStrictEqual([end.reason._tag, end.text], ["Finished", "Done."])
          const [first] = compactions(all)
          assert.strictEqual(first?.by, "summary")
          assert.isAbove(first!.beforeTokens, 8_000)
          assert.isBelow(first!.afterTokens, 4_000)
          const requests = yield* asked(env)
          const compacted = requests.find(({ prompt }) => words(prompt).some((it) => it.includes("Done: read some")))!
          assert.deepStrictEqual(withoutResults(compacted.prompt).slice(0, 5), [
            "system: Be brief.",
            "user: Read all pages.",
            "user: The older part of this conversation was replaced with this summary. What it lists as done is done.",
            "assistant: Reading 6.",
            "calls read c6"
          ])
          for (const { prompt } of requests) assert.deepStrictEqual(problemsOf(prompt), [])
          assert.isBelow(Math.max(...requests.map(({ prompt }) => prompt.content.length)), 16)
        })),
    { tags: ["AG20"] }
  )

  it.effect(
    "keeps every message in the history, and the summariser reads what is left out and nothing else",
    () =>
      run(read, reader(8), (env) =>
        Effect.gen(function*() {
          const { end } = yield* events(env, go)
          for (let n = 1; n <= 8; n++) assert.include(words(end.history), `result c${n}: ${page(n)}`)
          const summaries = (yield* env.model.requests).filter(isSummary)
          assert.isAtLeast(summaries.length, 1)
          const [first, second] = summaries.map((it) => words(it.prompt).join("\n"))
          assert.include(first, "[user]\nRead all pages.")
          assert.include(first, "[call of read]\n{\"n\":1}")
          assert.include(first, "[result of read]\npage 1 ")
          assert.notInclude(first, "page 8")
          // what is known from the first summary is not forgotten by the second
          if (second !== undefined) assert.include(second, "Done: read some.")
          assert.deepStrictEqual(summaries.flatMap((it) => it.tools), [])
        })),
    { tags: ["AG20"] }
  )

  it.effect("is dropped by rule without asking a model", () =>
    run(read, reader(8), (env) =>
      Effect.gen(function*() {
        const { end, events: all } = yield* events(env, { ...go, compaction: { ...window, by: "drop" } })
        assert.strictEqual(end.reason._tag, "Finished")
        assert.deepStrictEqual(new Set(compactions(all).map((it) => it.by)), new Set(["drop"]))
        assert.strictEqual((yield* env.model.requests).filter(isSummary).length, 0)
        const last = (yield* env.model.requests).at(-1)!
        assert.isTrue(words(last.prompt).some((it) => it.includes("was removed because it no longer fits")))
      })))

  it.effect("is measured by what the provider reports, with an estimate for what came since", () => {
    const turns: ReadonlyArray<ModelTurn.Turn> = [
      { ...call(1), usage: { input: 100, output: 10 } },
      { ...call(2), usage: { input: 4_000, output: 900 } },
      { text: "Request: all." },
      { text: "Done.", usage: { input: 200, output: 1 } }
    ]
    return run({ read: () => Effect.succeed("x".repeat(1_000)) }, turns, (env) =>
      Effect.gen(function*() {
        const { events: all } = yield* events(env, go)
        const [only, ...others] = compactions(all)
        assert.deepStrictEqual([others.length, only?.turn], [0, 2])
        assert.isTrue(only!.beforeTokens > 5_150 && only!.beforeTokens < 5_200, String(only?.beforeTokens))
      }))
  })

  it.effect("counts the summary toward tokens and cost, and ends at a limit that it reaches", () =>
    run(
      read,
      reader(8, { text: "Request: all.", usage: { input: 900, output: 100 } }),
      (env) =>
        Effect.gen(function*() {
          const { end, events: all } = yield* events(env, { ...go, limits: { tokens: 1_000 } })
          assert.deepStrictEqual(end.reason, { _tag: "LimitReached", limit: "tokens", max: 1_000 })
          assert.strictEqual(end.usage.inputTokens, 900)
          assert.strictEqual(compactions(all)[0]?.usage.outputTokens, 100)
          assert.deepStrictEqual(problemsOf(end.history), [])
        })
    ))

  it.effect(
    "drops older turns and says why if the summary fails, comes back empty or is refused",
    () =>
      Effect.forEach(failing, (summary) =>
        run(read, reader(8, summary), (env) =>
          Effect.gen(function*() {
            const { end, events: all } = yield* events(env, { ...go, retries: 0 })
            assert.deepStrictEqual([end.reason._tag, end.text], ["Finished", "Done."])
            const [first] = compactions(all)
            assert.strictEqual(first?.by, "drop")
            assert.match(first!.problem ?? "", /overloaded|empty|a bug/)
          }))),
    { tags: ["AG21"] }
  )

  it.effect("is summarised by a model of its own, whose price is needed for a cost limit", () =>
    run(read, reader(8), (env) =>
      Effect.gen(function*() {
        const other = yield* ScriptedModel.make(() => ({ text: "By the other.", usage: { input: 500, output: 50 } }), {
          model: "small"
        })
        const compaction = { ...window, model: other.layer }
        const cost = { max: 1, prices: { scripted: { input: 1, output: 1 } } }
        const error = yield* Effect.flip(env.agents.run({ ...go, compaction, limits: { cost } }))
        assert.include((error as ConfigurationError.ConfigurationError).problems[0]?.problem, "scripted:small")
        const { end, events: all } = yield* events(env, { ...go, compaction })
        assert.strictEqual(end.reason._tag, "Finished")
        assert.isAtLeast((yield* other.requests).length, 1)
        assert.strictEqual((yield* env.model.requests).filter(isSummary).length, 0)
        assert.strictEqual(compactions(all)[0]?.usage.inputTokens, 500)
      })))

  it.effect("stays as it is below the window, and when only the last turn is too long", () =>
    run(
      { read: () => Effect.succeed("x".repeat(100_000)) },
      [call(1), { text: "Done." }],
      (env) =>
        Effect.gen(function*() {
          const { end, events: all } = yield* events(env, go)
          assert.deepStrictEqual([end.reason._tag, compactions(all).length], ["Finished", 0])
        })
    ))

  it.effect("is refused with the options that are wrong", () =>
    run({}, [], ({ agents }) =>
      Effect.gen(function*() {
        const compaction = { window: 0, at: 2, keepTurns: 0, by: "magic" as never, instructions: "" }
        const error = yield* Effect.flip(agents.run({ prompt: "Go", compaction }))
        assert.deepStrictEqual((error as ConfigurationError.ConfigurationError).problems.map((it) => it.path), [
          "compaction.at",
          "compaction.window",
          "compaction.keepTurns",
          "compaction.by",
          "compaction.instructions"
        ])
      })))
})

const tooLong = AiError.make({
  module: "Test",
  method: "streamText",
  reason: new AiError.InvalidRequestError({ description: "prompt is too long: 210000 tokens > 200000 maximum" })
})

describe("a request that the provider refuses as too long", () => {
  const huge = { window: 1_000_000 }

  it.effect("is compacted and sent again, once", () => {
    let refused = 0
    const answer = reader(6)
    const script = (request: ModelRequest.ModelRequest): ModelTurn.Turn => {
      if (isSummary(request) || request.prompt.content.length < 10 || refused > 0) return answer(request)
      refused++
      return { fails: tooLong }
    }
    return run(read, script, (env) =>
      Effect.gen(function*() {
        const { end, events: all } = yield* events(env, { ...go, compaction: huge })
        assert.deepStrictEqual([end.reason._tag, end.turns, refused], ["Finished", 7, 1])
        assert.deepStrictEqual(compactions(all).map((it) => it.by), ["summary"])
        assert.deepStrictEqual(problemsOf(end.history), [])
      }))
  })

  it.effect("ends the operation if nothing can be left out, or if the shorter one is refused, too", () =>
    Effect.gen(function*() {
      const alone = yield* run(read, () => ({ fails: tooLong }), (env) => events(env, { ...go, compaction: huge }))
      assert.deepStrictEqual(alone.end.reason, { _tag: "HistoryTooLong", window: 1_000_000 })
      const answer = reader(6)
      const always = (request: ModelRequest.ModelRequest): ModelTurn.Turn =>
        isSummary(request) || request.prompt.content.length < 8 ? answer(request) : { fails: tooLong }
      const script = (request: ModelRequest.ModelRequest): ModelTurn.Turn =>
        words(request.prompt).some((it) => it.includes("this summary")) && !isSummary(request)
          ? { fails: tooLong }
          : always(request)
      const again = yield* run(read, script, (env) => events(env, { ...go, compaction: huge }))
      assert.strictEqual(again.end.reason._tag, "HistoryTooLong")
      assert.strictEqual(compactions(again.events).length, 1)
    }))

  it.effect("ends it as any failure of the model without compaction", () =>
    run(read, () => ({ fails: tooLong }), (env) =>
      Effect.gen(function*() {
        const { end } = yield* events(env, { prompt: "Go" })
        assert.strictEqual(end.reason._tag, "ModelFailed")
      })))
})

describe("a compacted conversation", () => {
  it.effect("reads the same after a restart, without a second summary", () => {
    const store = TranscriptStore.layerMemory()
    return Effect.gen(function*() {
      const transcripts = Layer.succeed(
        Transcripts.Transcripts,
        Context.get(yield* Layer.build(store), Transcripts.Transcripts)
      ) as Layer.Layer<never>
      const options = { ...go, session: "s" }
      const before = yield* run(
        read,
        reader(6),
        (env) =>
          Effect.gen(function*() {
            yield* env.agents.run(options)
            return (yield* asked(env)).at(-1)!.prompt
          }),
        {},
        transcripts
      )
      const after = yield* run(
        read,
        reader(0),
        (env) =>
          Effect.gen(function*() {
            const { end, events: all } = yield* events(env, {
              ...options,
              prompt: "And now?",
              compaction: { window: 1e6 }
            })
            assert.deepStrictEqual([end.text, compactions(all).length], ["Done.", 0])
            assert.strictEqual((yield* env.model.requests).length, 1)
            return (yield* env.model.requests)[0]!.prompt
          }),
        {},
        transcripts
      )
      assert.deepStrictEqual(words(after).slice(0, words(before).length), words(before))
      assert.deepStrictEqual(words(after).slice(words(before).length), ["assistant: Done.", "user: And now?"])
    }).pipe(Effect.scoped)
  }, { tags: ["AG21"] })

  it.effect(
    "continues in its batch and counts its summary again when it was stopped right after it",
    () =>
      run(
        read,
        reader(8, { text: "Request: all.", usage: { input: 700, output: 0 } }),
        (env) =>
          Effect.gen(function*() {
            const { end } = yield* events(env, go)
            const at = end.history.content.findIndex((it) =>
              it.role === "user" && JSON.stringify(it.options).includes("compacted")
            )
            assert.isAbove(at, 0)
            const stopped = Prompt.fromMessages(end.history.content.slice(0, at + 1))
            const again = yield* events(env, { ...go, prompt: stopped, limits: { tokens: 700 } })
            assert.deepStrictEqual(again.end.reason, { _tag: "LimitReached", limit: "tokens", max: 700 })
          })
      ),
    { tags: ["AG21"] }
  )

  it.effect("has its open call resumed from the journal, though the model no longer reads what came before", () =>
    Effect.gen(function*() {
      const journal = Context.get(yield* Effect.orDie(Layer.build(Journal.layerMemory())), Journal.Journal)
      const ran: Array<unknown> = []
      const counted = {
        read: {
          class: "SerialMut" as const,
          handler: ({ n }: { readonly [key: string]: unknown }) => Effect.sync(() => (ran.push(n), page(n)))
        }
      }
      yield* run(counted, reader(8), (env) =>
        Effect.gen(function*() {
          const { end } = yield* events(env, go)
          const { content } = end.history
          const at = content.findLastIndex((it) =>
            it.role === "assistant" && it.content.some((part) => part.type === "tool-call")
          )
          assert.isTrue(content.slice(0, at).some((it) => JSON.stringify(it.options).includes("compacted")))
          // as if the host had been killed before it stored the answer
          const killed = Prompt.fromMessages(content.slice(0, at + 1))
          const again = yield* events(env, { ...go, prompt: killed })
          assert.strictEqual(again.end.reason._tag, "Finished")
          assert.deepStrictEqual(problemsOf(again.end.history), [])
          assert.include(words(again.end.history), `result c8: ${page(8)}`)
          assert.deepStrictEqual(ran, [1, 2, 3, 4, 5, 6, 7, 8])
        }), { journal })
    }).pipe(Effect.scoped))

  it.effect("is that of a sub-agent, too, as its caller's, if it uses the same model", () => {
    const research = SubAgent.make("research", {
      description: "Reads",
      parameters: Schema.Struct({ topic: Schema.String }),
      prompt: ({ topic }) => `Read about ${topic}.`
    })
    const below = reader(8)
    const script = (request: ModelRequest.ModelRequest): ModelTurn.Turn => {
      if (isSummary(request) || words(request.prompt)[0] === "user: Read about fish.") return below(request)
      return request.prompt.content.length > 3
        ? { text: "Done." }
        : { calls: [{ id: "r1", name: "research", params: { topic: "fish" } }] }
    }
    return run({ ...read, research: agentTool(research) }, script, (env) =>
      Effect.gen(function*() {
        const { end, events: all } = yield* events(env, go)
        assert.strictEqual(end.reason._tag, "Finished")
        assert.isAtLeast(compactions(all).length, 1)
        assert.deepStrictEqual(compactions(all)[0]?.agentPath, ["research"])
      }))
  })
})
