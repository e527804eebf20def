/** Conversations that are kept, that could not be kept, and that are gone on with. */
import { assert, describe, it } from "@effect/vitest"
import * as Prompt from "effect/ai/Prompt"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { AgentExecutor } from "../../src/agent/index.ts"
import * as Transcripts from "../../src/agent/Transcripts.ts"
import { type Approvals, type ConfigurationError as Configuration, Journal } from "../../src/index.ts"
import type * as ModelTurn from "../../src/testing/ModelTurn.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as VirtualTime from "../../src/testing/VirtualTime.ts"
import { problemsOf, run, words } from "../support/Agents.ts"
import * as Harness from "../support/Harness.ts"

const call = (id: string, name: string, params: unknown = {}) => ({ id, name, params })
const done: ModelTurn.Turn = { text: "Done." }

/** Sessions in memory, which fail from the n-th append on, or take their time. */
const keeping = (
  { failsAt = Infinity, kept = [] as Array<Prompt.Message>, log = [] as Array<string>, takes = 0 } = {}
) => {
  let appends = 0
  const service = Transcripts.Transcripts.of({
    list: Effect.succeed([]),
    open: (session) =>
      Effect.sync(() => ({
        messages: [...kept],
        below: [],
        appendBelow: () => Effect.void,
        append: (messages) =>
          Effect.suspend(() => {
            if (++appends >= failsAt) {
              return Effect.fail(new Transcripts.TranscriptError({ session, operation: "append", cause: "full" }))
            }
            kept.push(...messages)
            log.push(...messages.map((it) => `kept ${it.role}`))
            return Effect.sleep(takes)
          })
      }))
  })
  return { kept, layer: Layer.succeed(Transcripts.Transcripts, service) as Layer.Layer<never> }
}

const noting = (log: Array<string>) => ({
  read: () => Effect.sync(() => (log.push("ran"), "text")),
  write: { handler: () => Effect.sync(() => (log.push("wrote"), "written")), class: "SerialMut" as const },
  hangs: {
    handler: () => Effect.andThen(Effect.sync(() => log.push("hangs")), Effect.never),
    class: "SerialMut" as const
  }
})

describe("a session", () => {
  it.effect("without any message is refused before the model is asked, and continues once there is one", () => {
    const { kept, layer } = keeping()
    return run(
      {},
      [done, done, { text: "Again." }],
      ({ agents, model }) =>
        Effect.gen(function*() {
          const none = Prompt.make([{ role: "user", content: [{ type: "text", text: " " }] }])
          for (const prompt of [[], "", " \n", none]) {
            for (const session of [undefined, "s"]) {
              const error = yield* Effect.flip(agents.run({ prompt, session, system: "Be kind." }))
              assert.include((error as Configuration.ConfigurationError).problems[0]?.problem, "nothing to ask")
              const started = yield* Effect.flip(Effect.scoped(agents.start({ prompt, session })))
              assert.strictEqual((started as Configuration.ConfigurationError).problems[0]?.path, "prompt")
            }
          }
          assert.deepStrictEqual([kept, (yield* model.requests).length], [[], 0])
          const files = [{
            role: "user" as const,
            content: [Prompt.filePart({ mediaType: "text/plain", data: "AA==" })]
          }]
          assert.strictEqual((yield* agents.run({ prompt: files })).text, "Done.")
          yield* agents.run({ prompt: "Go", session: "s" })
          assert.strictEqual((yield* agents.run({ prompt: [], session: "s" })).text, "Again.")
        }),
      {},
      layer
    )
  }, { tags: ["AG5"] })

  it.effect("has what was said, what was called before it ran, and what became of it", () => {
    const log: Array<string> = []
    const { kept, layer } = keeping({ log })
    const script = [{ calls: [call("1", "read")] }, done, { text: "Yes." }]
    return run(
      noting(log),
      script,
      ({ agents, model }) =>
        Effect.gen(function*() {
          yield* agents.run({ prompt: "Go", session: "s" })
          assert.deepStrictEqual(log, ["kept user", "kept assistant", "ran", "kept tool", "kept assistant"])
          const { history } = yield* agents.run({ prompt: "Really?", session: "s" })
          const all = [
            "user: Go",
            "calls read 1",
            "result 1: text",
            "assistant: Done.",
            "user: Really?",
            "assistant: Yes."
          ]
          assert.deepStrictEqual(words(history), all)
          assert.deepStrictEqual(words(Prompt.fromMessages(kept)), all)
          assert.deepStrictEqual(words((yield* model.requests)[2]!.prompt), all.slice(0, 5))
        }),
      {},
      layer
    )
  })

  it.effect("that cannot be kept ends the operation, and nothing runs that is not in it", () =>
    Effect.gen(function*() {
      for (let failsAt = 1; failsAt <= 7; failsAt++) {
        const log: Array<string> = []
        const { kept, layer } = keeping({ failsAt, log })
        const script = [{ calls: [call("1", "read")] }, { calls: [call("2", "write")] }, done]
        const end = yield* run(
          noting(log),
          script,
          ({ agents }) => agents.run({ prompt: "Go", session: "s" }),
          {},
          layer
        )
        assert.strictEqual(end.reason._tag, failsAt === 7 ? "Finished" : "NotKept", `append ${failsAt}`)
        assert.deepStrictEqual(problemsOf(end.history), [])
        const ran = log.filter((it) => it === "ran" || it === "wrote").length
        const asked = kept.filter((it) =>
          it.role === "assistant" && it.content.some((part) => part.type === "tool-call")
        )
        assert.strictEqual(ran, asked.length, `append ${failsAt}`)
      }
    }), { tags: ["AG13"] })

  it.effect("that cannot be kept says of a call that ran nothing else than what became of it", () => {
    const log: Array<string> = []
    const { layer } = keeping({ failsAt: 3, log })
    return run(
      noting(log),
      [{ calls: [call("1", "write")] }, done],
      ({ agents }) =>
        Effect.gen(function*() {
          const { history } = yield* agents.run({ prompt: "Go", session: "s" })
          assert.include(log, "wrote")
          assert.strictEqual(words(history).at(-1), "result 1: written")
        }),
      {},
      layer
    )
  })

  it.effect("that takes its time holds up an operation, which can be cancelled before it asks its model", () => {
    const { layer } = keeping({ takes: 5_000 })
    return run(
      {},
      [done],
      ({ agents, model }) =>
        Effect.gen(function*() {
          const agent = yield* agents.start({ prompt: "Go", session: "s" })
          yield* Effect.sleep("1 second")
          yield* agent.cancel("enough")
          const end = yield* agent.result
          assert.strictEqual(end.reason._tag, "Cancelled")
          assert.strictEqual((yield* model.requests).length, 0)
        }),
      {},
      layer
    )
  })

  it.effect("cancelled while its calls are being kept runs none of them", () => {
    const log: Array<string> = []
    const { layer } = keeping({ takes: 5_000, log })
    return run(
      noting(log),
      [{ calls: [call("1", "write")] }],
      ({ agents }) =>
        Effect.gen(function*() {
          const agent = yield* agents.start({ prompt: "Go", session: "s" })
          yield* Effect.sleep("7 seconds")
          yield* agent.cancel("enough")
          const end = yield* agent.result
          assert.strictEqual(end.reason._tag, "Cancelled")
          assert.notInclude(log, "wrote")
          assert.match(words(end.history).at(-1)!, /^error 1: .*enough/)
        }),
      {},
      layer
    )
  })

  it.effect("without anybody who keeps it is an error before anything runs", () =>
    run({}, [done], ({ agents, model }) =>
      Effect.gen(function*() {
        const error = yield* Effect.flip(agents.run({ prompt: "Go", session: "s" }))
        assert.deepStrictEqual((error as Configuration.ConfigurationError).problems.map((it) => it.path), ["session"])
        assert.strictEqual((yield* model.requests).length, 0)
      })))
})

/** One life of a host: its executor over a journal, until its scope is closed. */
const live = Effect.fnUntraced(function*(
  journal: Journal.Journal["Service"] | undefined,
  log: Array<string>,
  script: ScriptedModel.Script,
  around: Layer.Layer<never> = Layer.empty
) {
  const scope = yield* Scope.make()
  const model = yield* Effect.orDie(ScriptedModel.make(script))
  const options = { policy: { default: "allow", ask: ["write"] }, ...journal === undefined ? {} : { journal } } as const
  const layer = AgentExecutor.layer.pipe(
    Layer.provide([Layer.fresh(Harness.layer(noting(log), options)), model.layer]),
    Layer.provide(around)
  )
  const context = yield* Scope.provide(Effect.orDie(Layer.build(layer)), scope)
  return { agents: Context.get(context, AgentExecutor.AgentExecutor), model, stop: Scope.close(scope, Exit.void) }
})

const journalOf = (options?: Journal.MemoryOptions) =>
  Effect.map(
    Effect.orDie(Effect.scoped(Layer.build(Layer.fresh(Journal.layerMemory(options))))),
    (context) => Context.get(context, Journal.Journal)
  )

const test = <A, E>(name: string, program: () => Effect.Effect<A, E, Scope.Scope>) =>
  it.effect(name, () => VirtualTime.run(Effect.scoped(Effect.suspend(program)), { limit: "1 day" }))

const two = { calls: [call("1", "read"), call("2", "write")] }

describe("a host that stops while people are asked", () => {
  for (const how of ["a history", "a session"] as const) {
    test(`has suspended the operation, and the next one goes on from ${how}`, () =>
      Effect.gen(function*() {
        const log: Array<string> = []
        const journal = yield* journalOf()
        const { layer } = keeping()
        const session = how === "a session" ? "s" : undefined
        const first = yield* live(journal, log, [two], layer)
        const agent = yield* first.agents.start({ prompt: "Go", mode: "Interactive", session })
        yield* Effect.sleep("1 second")
        assert.strictEqual((yield* agent.pending).length, 1)
        yield* first.stop
        const end = yield* agent.result
        assert.deepStrictEqual(end.reason, { _tag: "Suspended", calls: ["1", "2"] })
        assert.deepStrictEqual(problemsOf(end.history), ["1 has no answer", "2 has no answer"])
        assert.notInclude(log, "wrote")
        const before = [...log]

        const second = yield* live(journal, log, [done], layer)
        const prompt = how === "a session"
          ? "And?"
          : [...end.history.content, { role: "user" as const, content: "And?" }]
        const next = yield* second.agents.start({ prompt, mode: "Interactive", session })
        yield* Effect.sleep("1 second")
        const [{ callId, id }] = yield* next.pending as Effect.Effect<[Approvals.ApprovalRequest]>
        assert.strictEqual(callId, "2")
        yield* Effect.orDie(next.answer(id, { _tag: "ApproveOnce" }))
        const { history, reason } = yield* next.result
        assert.strictEqual(reason._tag, "Finished")
        assert.strictEqual(log.filter((it) => it === "wrote").length, 1)
        assert.isAtMost(log.filter((it) => it === "ran").length, before.length + 1)
        assert.deepStrictEqual(words(history), [
          "user: Go",
          "calls read 1",
          "calls write 2",
          "result 1: text",
          "result 2: written",
          "user: And?",
          "assistant: Done."
        ])
        yield* second.stop
      }))
  }

  test("without a journal tells the model of the next operation that nobody knows", () =>
    Effect.gen(function*() {
      const log: Array<string> = []
      const history = Prompt.fromMessages([
        Prompt.userMessage({ content: [Prompt.textPart({ text: "Go" })] }),
        Prompt.assistantMessage({
          content: [Prompt.toolCallPart({ id: "1", name: "write", params: {}, providerExecuted: false })]
        }),
        Prompt.userMessage({ content: [Prompt.textPart({ text: "And?" })] })
      ])
      const { agents } = yield* live(undefined, log, [{ calls: [call("1", "read")] }, done])
      const end = yield* agents.run({ prompt: history })
      const said = words(end.history)
      assert.match(said[2]!, /^error 1: .*may or may not have happened/)
      assert.strictEqual(said[3], "user: And?")
      // and its id is taken
      assert.deepStrictEqual(problemsOf(end.history), [])
      const ids = said.filter((it) => it.startsWith("calls")).map((it) => it.split(" ")[2])
      assert.strictEqual(new Set(ids).size, 2)
    }))

  test("and is cancelled before it goes on starts none of the calls", () =>
    Effect.gen(function*() {
      const log: Array<string> = []
      const journal = yield* journalOf()
      const first = yield* live(journal, log, [two])
      const agent = yield* first.agents.start({ prompt: "Go", mode: "Interactive" })
      yield* Effect.sleep("1 second")
      yield* first.stop
      const { history } = yield* agent.result
      const slow = keeping({ takes: 5_000 })
      const second = yield* live(journal, log, [done], slow.layer)
      const next = yield* second.agents.start({ prompt: history, mode: "Interactive", session: "s" })
      yield* Effect.sleep("1 second")
      yield* next.cancel("enough")
      const end = yield* next.result
      assert.strictEqual(end.reason._tag, "Cancelled")
      assert.deepStrictEqual(problemsOf(end.history), [])
      // nobody was asked either
      assert.isAtMost(end.at, 11_000)
      assert.notInclude(log, "wrote")
      yield* second.stop
    }))
})

describe("a host that dies in the middle of a turn", () => {
  test("runs nothing again that is on record, and tells the model what nobody knows", () =>
    Effect.gen(function*() {
      const log: Array<string> = []
      const { kept, layer } = keeping()
      const journal = yield* journalOf()
      const calls = [call("1", "read"), call("2", "hangs")]
      const first = yield* live(journal, log, [{ calls }], layer)
      yield* first.agents.start({ prompt: "Go", session: "s" })
      yield* Effect.sleep("1 second")
      // nobody hears of it any more
      const entries = yield* Effect.orDie(Stream.runCollect(journal.read({})))
      const messages = [...kept]
      assert.deepStrictEqual(log, ["ran", "hangs"])

      const again = yield* journalOf({ entries: entries.map((it) => it.entry) })
      const after = keeping({ kept: messages })
      const second = yield* live(again, log, [done], after.layer)
      const { history } = yield* second.agents.run({ prompt: "And?", session: "s" })
      assert.deepStrictEqual(log, ["ran", "hangs"])
      const said = words(history)
      assert.strictEqual(said[3], "result 1: text")
      assert.match(said[4]!, /^error 2: .*may or may not/)
      yield* second.stop
    }))
})
