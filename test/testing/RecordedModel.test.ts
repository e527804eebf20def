/** Conversations that were recorded from a server of a real protocol, through its real client, and are replayed. */
import { assert, describe, it } from "@effect/vitest"
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { layerLanguageModel } from "../../src/adapters/AiSdk.ts"
import { AgentExecutor, SubAgent } from "../../src/agent/index.ts"
import { LocalExecutor } from "../../src/index.ts"
import * as RecordedModel from "../../src/testing/RecordedModel.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { names, provider } from "../support/providers/providers.ts"
import type { Script } from "../support/providers/script.ts"

/** A folder for the test's file. */
const inFolder = <A, E>(program: (file: string, folder: string) => Effect.Effect<A, E>) =>
  Effect.acquireUseRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "recorded-"))),
    (folder) => program(join(folder, "kept", "talk.json"), folder),
    (folder) => Effect.sync(() => rmSync(folder, { recursive: true }))
  )

const Search = Tool.make("search", {
  description: "Finds documents",
  parameters: Schema.Struct({ query: Schema.String, since: Schema.optional(Schema.DateFromString) }),
  success: Schema.String
}).annotate(Tool.Readonly, true)

const kit = Toolkit.make(Search)
const handlers = kit.toLayer({ search: ({ query }) => Effect.succeed(`about ${query}`) })

const script: Script = [
  { reasoning: "Hm.", text: "Let me look.", calls: [{ name: "search", args: { query: "fish" } }] },
  { text: "Fish swim, é 🙂." }
]

const operation = (prompt = "What do fish do?") =>
  Effect.gen(function*() {
    const agents = yield* AgentExecutor.AgentExecutor
    const events = yield* Stream.runCollect(agents.runOperation({ prompt, system: "Be brief.", retries: 0 }))
    const end = events.at(-1)
    if (end?._tag !== "OperationEnd") throw new Error("no end")
    const deltas = events.flatMap((it) =>
      it._tag === "AssistantMessagePart" && it.part.type === "text-delta" ? [it.part.delta] : []
    )
    return { end, deltas, text: end.text, history: JSON.stringify(end.history), usage: end.usage }
  })

const agents = AgentExecutor.layer.pipe(Layer.provide(LocalExecutor.layer(kit)), Layer.provide(handlers))

const failureOf = <A, R>(effect: Effect.Effect<A, unknown, R>) =>
  Effect.map(Effect.flip(effect), (error) => error instanceof Error ? error.message : String(error))

describe.each(names)("a model recorded over %s", (name) => {
  it.live(
    "is replayed with the same parts, tokens and provider data, without its server",
    () =>
      inFolder((file) =>
        Effect.gen(function*() {
          const recorded = yield* Effect.scoped(Effect.gen(function*() {
            const { model, server } = yield* provider(name, script)
            const layer = layerLanguageModel(model).pipe(RecordedModel.record(file))
            const had = yield* operation().pipe(Effect.provide(Layer.provide(agents, layer)))
            assert.deepStrictEqual([server.requests.length, server.refusals.length], [2, 0])
            return had
          }))
          assert.include(recorded.text, "Fish swim, é 🙂.")
          const replayed = yield* Effect.gen(function*() {
            const had = yield* operation()
            return { ...had, left: yield* (yield* RecordedModel.RecordedModel).left }
          }).pipe(Effect.provide(Layer.provideMerge(agents, RecordedModel.replay(file))))
          assert.deepStrictEqual(
            [replayed.deltas, replayed.text, replayed.usage],
            [recorded.deltas, recorded.text, recorded.usage]
          )
          const sameRun = (history: string) => history.replace(/operation-\w+/g, "operation")
          assert.strictEqual(sameRun(replayed.history), sameRun(recorded.history))
          assert.strictEqual(replayed.left, 0)
          // what is not in the recording says where it differs, and how to record it
          const { end } = yield* operation("What do birds do?").pipe(
            Effect.provide(Layer.provide(agents, RecordedModel.replay(file)))
          )
          assert.strictEqual(end.reason._tag, "ModelFailed")
          const message = end.reason._tag === "ModelFailed" ? end.reason.message : ""
          assert.include(message, "Request 1 to the recorded model is not in")
          assert.include(message, "The closest one is exchange 1.")
          assert.include(message, "First difference, at prompt[1].content:")
          assert.include(message, "expected: \"What do fish do?\"")
          assert.include(message, "got:      \"What do birds do?\"")
          assert.include(message, "RecordedModel.auto")
        })
      ),
    { tags: ["AG23"] }
  )
})

const model = (turns: ScriptedModel.Script) => Layer.orDie(ScriptedModel.layer(turns))

describe("a recording", () => {
  it.live("can be read: a line per message and part, and only what is new of a request that continues another", () =>
    inFolder((file) =>
      Effect.gen(function*() {
        const layer = model([{ calls: [{ id: "c1", name: "search", params: { query: "fish" } }] }, {
          text: "Fish swim."
        }])
        yield* operation().pipe(Effect.provide(Layer.provide(agents, layer.pipe(RecordedModel.record(file)))))
        const text = readFileSync(file, "utf8")
        const recording = JSON.parse(text)
        assert.deepStrictEqual([recording.v, recording.provider, recording.model], [1, "scripted", "scripted"])
        assert.deepStrictEqual(recording.exchanges[1].after, 1)
        assert.deepStrictEqual(recording.exchanges[1].prompt.map((it: { role: string }) => it.role), [
          "assistant",
          "tool"
        ])
        assert.isUndefined(recording.exchanges[1].tools)
        assert.include(text, `    {"type":"text-delta","id":"text","deltas":["Fish"," swim."]}`)
        assert.isBelow(Math.max(...text.split("\n").map((it) => it.length)), 400)
      })
    ))

  it.live(
    "holds whole exchanges and nothing else, whatever breaks off",
    () =>
      inFolder((file) =>
        Effect.gen(function*() {
          const turns = [{ text: "One." }, { text: "Two words", cutAfter: 2 }, { fails: "overloaded" }, {
            text: "Four.",
            never: true as const
          }]
          const ask = (prompt: string) => Stream.runDrain(LanguageModel.streamText({ prompt }))
          yield* Effect.gen(function*() {
            yield* ask("1")
            yield* ask("2")
            yield* Effect.flip(ask("3"))
            yield* Effect.timeoutOption(ask("4"), 20)
          }).pipe(Effect.provide(model(turns).pipe(RecordedModel.record(file))))
          assert.deepStrictEqual(JSON.parse(readFileSync(file, "utf8")).exchanges.length, 1)
          assert.deepStrictEqual(readdirSync(join(file, "..")), ["talk.json"])
        })
      ),
    { tags: ["AG23"] }
  )

  it.live("has the errors that a model would give again", () =>
    inFolder((file) =>
      Effect.gen(function*() {
        const reason = new AiError.InvalidRequestError({
          description: "prompt is too long",
          http: {
            request: {
              method: "POST",
              url: "https://x",
              urlParams: [],
              hash: undefined,
              headers: { "x-api-key": "k-secret" }
            }
          } as never
        })
        const error = AiError.make({ module: "Test", method: "generateText", reason })
        const ask = LanguageModel.generateText({ prompt: "Hi" })
        const first = yield* Effect.flip(ask).pipe(
          Effect.provide(model([{ fails: error }]).pipe(RecordedModel.record(file)))
        )
        const again = yield* Effect.flip(ask).pipe(Effect.provide(RecordedModel.replay(file)))
        assert.strictEqual(first.reason._tag, "InvalidRequestError")
        assert.strictEqual(again.reason._tag, "InvalidRequestError")
        assert.include(again.message, "prompt is too long")
        assert.notInclude(readFileSync(file, "utf8"), "k-secret")
      })
    ))

  it.live("has no error of a wrong key", () =>
    inFolder((file) =>
      Effect.gen(function*() {
        const reason = new AiError.AuthenticationError({ kind: "InvalidKey" })
        const error = AiError.make({ module: "Test", method: "generateText", reason })
        const ask = LanguageModel.generateText({ prompt: "Hi" })
        yield* Effect.flip(ask).pipe(Effect.provide(model([{ fails: error }]).pipe(RecordedModel.record(file))))
        assert.isFalse(existsSync(file))
      })
    ))

  it.live(
    "has no secret, also where one is told later or is known to the test alone, and is replayed all the same",
    () =>
      inFolder((file) =>
        Effect.gen(function*() {
          const key = `sk-${"a1B2".repeat(10)}`
          const talk = Effect.gen(function*() {
            yield* LanguageModel.generateText({ prompt: "It opens with hunter2hunter2, account 4711-0815." })
            const { text } = yield* LanguageModel.generateText({
              prompt: `Use password=hunter2hunter2 and the key ${key}.`
            })
            return text
          })
          const turns = [{ text: "hunter2hunter2 it is." }, { text: `Bearer ${key}` }]
          yield* talk.pipe(Effect.provide(model(turns).pipe(RecordedModel.record(file, { secrets: ["4711-0815"] }))))
          const kept = readFileSync(file, "utf8")
          for (const secret of ["hunter2hunter2", key, "4711"]) assert.notInclude(kept, secret)
          assert.include(kept, "[redacted]")
          assert.strictEqual(yield* talk.pipe(Effect.provide(RecordedModel.replay(file))), "Bearer [redacted]")
        })
      ),
    { tags: ["AG23"] }
  )

  it.live("matches requests by content in any order, equal ones in theirs, and each once", () =>
    inFolder((file) =>
      Effect.gen(function*() {
        const ask = (prompt: string) => Effect.map(LanguageModel.generateText({ prompt }), (it) => it.text)
        const turns = ["a1", "b1", "a2"].map((text) => ({ text }))
        yield* Effect.forEach(["a", "b", "a"], ask).pipe(Effect.provide(model(turns).pipe(RecordedModel.record(file))))
        yield* Effect.gen(function*() {
          assert.deepStrictEqual(yield* Effect.forEach(["b", "a", "a"], ask, { concurrency: 3 }), ["b1", "a1", "a2"])
          assert.include(yield* failureOf(ask("a")), "It was recorded 2 times, and is made once more.")
          assert.include(yield* failureOf(ask("c")), "All 3 recorded exchanges have been replayed.")
          assert.strictEqual((yield* (yield* RecordedModel.RecordedModel).unexpected).length, 2)
        }).pipe(Effect.provide(RecordedModel.replay(file)))
      })
    ))

  it.live("matches what differs from run to run", () =>
    inFolder((file) =>
      Effect.gen(function*() {
        const ask = (id: string, day: string) =>
          Effect.map(LanguageModel.generateText({ prompt: `Order ${id} of ${day}, again ${id}` }), (it) => it.text)
        const options = { volatile: [/[0-9a-f]{8}/, /\d{4}-\d\d-\d\d/] }
        yield* ask("0123abcd", "2026-01-02").pipe(
          Effect.provide(model([{ text: "Sent." }]).pipe(RecordedModel.record(file, options)))
        )
        assert.notInclude(readFileSync(file, "utf8"), "0123abcd")
        const again = ask("99999999", "2027-03-04")
        assert.strictEqual(yield* again.pipe(Effect.provide(RecordedModel.replay(file, options))), "Sent.")
        assert.include(yield* failureOf(again.pipe(Effect.provide(RecordedModel.replay(file)))), "prompt[0]")
      })
    ))

  it.live("has objects and resolved calls of plain programs", () =>
    inFolder((file) =>
      Effect.gen(function*() {
        const Day = Schema.Struct({ day: Schema.String })
        const talk = Effect.gen(function*() {
          const { value } = yield* LanguageModel.generateObject({ prompt: "When?", schema: Day })
          const { toolResults } = yield* LanguageModel.generateText({ prompt: "Look.", toolkit: kit })
          return [value, toolResults.map((it) => it.result)]
        }).pipe(Effect.provide(handlers))
        const turns: ScriptedModel.Script = [
          { text: "{\"day\":\"Monday\"}" },
          { calls: [{ name: "search", params: { query: "fish", since: "2026-01-01T00:00:00.000Z" } }] }
        ]
        const had = yield* talk.pipe(Effect.provide(model(turns).pipe(RecordedModel.record(file))))
        assert.deepStrictEqual(had, [{ day: "Monday" }, ["about fish"]])
        assert.deepStrictEqual(yield* talk.pipe(Effect.provide(RecordedModel.replay(file))), had)
      })
    ))

  it.live("is made if it is missing, but never in CI, and needs no provider afterwards", () =>
    inFolder((file) =>
      Effect.gen(function*() {
        const ask = Effect.map(LanguageModel.generateText({ prompt: "Hi" }), (it) => it.text)
        const using = (layer: Layer.Layer<LanguageModel.LanguageModel>, env: Record<string, string>) =>
          ask.pipe(
            Effect.provide(layer.pipe(RecordedModel.auto(file))),
            Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromUnknown(env))
          )
        const broken = Layer.effect(LanguageModel.LanguageModel, Effect.die(new Error("there is no key")))
        const missing = yield* failureOf(using(model([{ text: "Hello." }]), { CI: "true" }))
        assert.include(missing, "RecordedModel.auto")
        assert.isFalse(existsSync(file))
        assert.strictEqual(yield* using(model([{ text: "Hello." }]), {}), "Hello.")
        assert.strictEqual(yield* using(broken, {}), "Hello.")
        assert.strictEqual(yield* using(broken, { CI: "1" }), "Hello.")
      })
    ))

  it.live("is refused if it cannot be read", () =>
    inFolder((_, folder) =>
      Effect.gen(function*() {
        const file = join(folder, "talk.json")
        const opened = Layer.build(RecordedModel.replay(file)).pipe(Effect.scoped)
        assert.include(yield* failureOf(opened), "it cannot be read")
        for (
          const [text, problem] of [["{", "not JSON"], ["{\"v\":9}", "version 9"], ["{\"v\":1}", "provider"]] as const
        ) {
          writeFileSync(file, text)
          assert.include(yield* failureOf(opened), problem)
        }
      })
    ))

  it.live("has the requests of sub-agents that run at the same time", () =>
    inFolder((file) =>
      Effect.gen(function*() {
        const research = SubAgent.make("research", {
          description: "Finds out",
          parameters: Schema.Struct({ topic: Schema.String }),
          prompt: ({ topic }) => `Find out about ${topic}.`,
          readOnly: true
        })
        const answers: ScriptedModel.Script = ({ prompt }) => {
          const text = JSON.stringify(prompt.content.filter((it) => it.role === "user"))
          const topic = /about (\w+)\./.exec(text)?.[1]
          if (topic !== undefined) return { text: `${topic} swim.`, takes: topic === "eels" ? 30 : 1 }
          return prompt.content.length > 2
            ? { text: "Both swim." }
            : { calls: ["eels", "cod"].map((topic) => ({ id: topic, name: "research", params: { topic } })) }
        }
        const run = (layer: Layer.Layer<LanguageModel.LanguageModel, unknown>) =>
          operation("Go").pipe(Effect.provide(AgentExecutor.layer.pipe(
            Layer.provide(LocalExecutor.layer(research.toolkit)),
            Layer.provide(research.layer),
            Layer.provide(layer)
          )))
        const recorded = yield* run(model(answers).pipe(RecordedModel.record(file)))
        const replayed = yield* run(RecordedModel.replay(file))
        assert.deepStrictEqual([recorded.text, replayed.text], ["Both swim.", "Both swim."])
        for (const text of ["eels swim.", "cod swim."]) assert.include(replayed.history, text)
      })
    ))
})
