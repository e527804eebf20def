/** What a host gets hold of: an operation's own questions, its session, and an end that cannot be missed. */
import { assert, describe, it } from "@effect/vitest"
import * as Prompt from "effect/ai/Prompt"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { AgentExecutor, TranscriptStore } from "../../src/agent/index.ts"
import * as Transcripts from "../../src/agent/Transcripts.ts"
import * as ToolExecutor from "../../src/core/engine/ToolExecutor.ts"
import type { ConfigurationError } from "../../src/core/vocabulary/ConfigurationError.ts"
import { Approvals } from "../../src/index.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { reading, run, words } from "../support/Agents.ts"
import * as Harness from "../support/Harness.ts"

const done = { text: "Done." }
const asked: Harness.ToolSpec = { class: "SerialMut", handler: () => Effect.succeed("asked") }

describe("the handle of an operation", () => {
  it.effect("answers its own questions, and not those of another one that asks the same people", () =>
    run(
      { asked },
      ({ prompt }) => words(prompt).length > 1 ? done : { calls: [{ name: "asked" }] },
      ({ agents }) =>
        Effect.gen(function*() {
          const one = yield* agents.start({ prompt: "One", mode: "Interactive" })
          const other = yield* agents.start({ prompt: "Other", mode: "Interactive" })
          yield* Effect.sleep("1 second")
          const [question] = yield* other.pending
          const error = yield* Effect.flip(one.answer(question!.id, { _tag: "ApproveOnce" }))
          assert.deepStrictEqual([error._tag, error.reason], ["ApprovalError", "NotPending"])
          assert.strictEqual((yield* other.pending).length, 1)
          yield* Effect.orDie(other.answer(question!.id, { _tag: "ApproveOnce" }))
          assert.strictEqual((yield* other.result).reason._tag, "Finished")
        }),
      { policy: { default: "ask" } },
      Layer.orDie(Approvals.layer()) as Layer.Layer<never>
    ), { tags: ["AG14"] })

  it.effect("has its session no longer than it takes, and not at all where it could not begin", () =>
    run(
      {},
      () => done,
      ({ agents }) =>
        Effect.gen(function*() {
          const model: AgentExecutor.Options["model"] = Layer.unwrap(Effect.die("no model"))
          const next = (more: Partial<AgentExecutor.Options>) => agents.start({ prompt: "Go", session: "s", ...more })
          assert.isTrue(Exit.isFailure(yield* Effect.exit(next({ model }))))
          const error = yield* Effect.flip(next({ limits: { cost: { max: 1, prices: {} } } }))
          assert.include(error.message, "limits.cost.prices")
          const first = yield* next({})
          yield* first.result
          // whoever has read the end may go on at once, too
          const second = yield* next({})
          yield* Stream.runForEach(second.events, (event) =>
            event._tag === "OperationEnd"
              ? Effect.asVoid(Effect.flatMap(next({}), (it) => it.result))
              : Effect.void)
          const last = yield* (yield* next({})).result
          assert.strictEqual(words(last.history).length, 8)
        }),
      {},
      TranscriptStore.layerMemory() as Layer.Layer<never>
    ))

  it.effect("gives a history that stays what it was, and goes on from one that is there now", () =>
    run(
      { read: () => Effect.as(Effect.sleep("1 second"), "text") },
      ({ prompt }) => words(prompt).at(-1) === "user: Go" ? { calls: [{ id: "1", name: "read" }] } : done,
      ({ agents }) =>
        Effect.gen(function*() {
          const agent = yield* agents.start({ prompt: "Go" })
          yield* Effect.sleep("1 millis")
          const history = yield* agent.history
          assert.deepStrictEqual(words(history), ["user: Go", "calls read 1"])
          const { history: whole } = yield* agent.result
          assert.deepStrictEqual(words(history), ["user: Go", "calls read 1"])
          assert.deepStrictEqual(words(whole), ["user: Go", "calls read 1", "result 1: text", "assistant: Done."])
        })
    ), { tags: ["AG14"] })

  it.effect("says nothing to a model where nothing was said", () =>
    run({}, () => done, ({ agents, model }) =>
      Effect.gen(function*() {
        const agent = yield* agents.start({
          prompt: [{ role: "user", content: "Go" }, { role: "user", content: "" }, { role: "system", content: "" }],
          system: " "
        })
        yield* agent.result
        assert.deepStrictEqual((yield* model.requests).map((it) => words(it.prompt)), [["user: Go"]])
      })))

  it.effect("has a session of its principal's, whatever others call theirs", () => {
    const layer = AgentExecutor.layer.pipe(
      Layer.provide([Harness.layer({}), Layer.unwrap(Effect.map(ScriptedModel.make(() => done), (it) => it.layer))])
    )
    return Effect.gen(function*() {
      const transcripts = Context.get(yield* Layer.build(TranscriptStore.layerMemory()), Transcripts.Transcripts)
      const said = Effect.fnUntraced(function*(principal: string, prompt: string) {
        const whose = Layer.succeed(ToolExecutor.Principal, principal)
        const around = Layer.merge(whose, Layer.succeed(Transcripts.Transcripts, transcripts))
        const context = yield* Effect.orDie(Layer.build(Layer.fresh(Layer.provide(layer, around))))
        const { history } = yield* Context.get(context, AgentExecutor.AgentExecutor).run({ prompt, session: "main" })
        return words(history)
      })
      yield* said("ada", "I am Ada.")
      assert.deepStrictEqual(yield* said("bob", "Who am I?"), ["user: Who am I?", "assistant: Done."])
      assert.strictEqual((yield* said("ada", "Who am I?"))[0], "user: I am Ada.")
      const listed = (yield* transcripts.list).map((it) => [it.principal, it.name, it.words])
      assert.sameDeepMembers(listed, [["ada", "main", "I am Ada."], ["bob", "main", "Who am I?"]])
    }).pipe(Effect.scoped)
  }, { tags: ["AG16"] })

  it.effect("has events that fail where nobody has foreseen what happened: it is not taken for an end", () => {
    const transcript = {
      messages: [],
      append: () => Effect.die("the disk is gone"),
      below: [],
      appendBelow: () => Effect.void
    }
    const broken = Layer.succeed(Transcripts.Transcripts, {
      open: () => Effect.succeed(transcript),
      list: Effect.succeed([])
    })
    return run(
      {},
      () => done,
      ({ agents }) =>
        Effect.gen(function*() {
          const options = { prompt: "Go", session: "s" }
          for (const ended of [Stream.runDrain(agents.runOperation(options)), Effect.asVoid(agents.run(options))]) {
            const exit = yield* Effect.exit(ended)
            assert.include(Exit.isFailure(exit) ? Cause.pretty(exit.cause) : "it ended", "the disk is gone")
          }
          const agent = yield* agents.start(options)
          assert.isTrue(Exit.isFailure(yield* Effect.exit(agent.result)))
        }),
      {},
      broken as Layer.Layer<never>
    )
  })
})

describe("the prompt of an operation", () => {
  it.effect("that is none is a wrong option, and nothing has run", () =>
    run({}, () => done, ({ agents, model }) =>
      Effect.gen(function*() {
        const nothing: ReadonlyArray<unknown> = [
          undefined,
          null,
          5,
          {},
          [null],
          [{ role: "user" }],
          [{ role: "tool", content: [{ type: "text", text: "a" }] }],
          { ...Prompt.make("Go"), content: [{ role: "assistant" }] }
        ]
        for (const prompt of nothing) {
          const error = (yield* Effect.flip(agents.run({ prompt: prompt as never }))) as ConfigurationError
          assert.deepStrictEqual([error._tag, error.problems.map((it) => it.path)], ["ConfigurationError", ["prompt"]])
        }
        assert.deepStrictEqual(yield* model.requests, [])
      })))

  it.effect("may be a text, messages of any kind, or a history that went through JSON", () =>
    run({}, () => done, ({ agents }) =>
      Effect.gen(function*() {
        const { history } = yield* agents.run({ prompt: "Go" })
        const messages = history.content
        const all = [history, messages, new Set(messages), JSON.parse(JSON.stringify(messages)) as typeof messages]
        for (const prompt of all) {
          const end = yield* agents.run({ prompt: prompt as never })
          assert.deepStrictEqual(words(end.history), ["user: Go", "assistant: Done.", "assistant: Done."])
        }
      })))
})

describe("a reader", () => {
  it.effect("has every question of an operation for as long as it is one", () =>
    run(
      { asked },
      [{ calls: [{ id: "1", name: "asked" }] }, done],
      ({ agents }) =>
        Effect.gen(function*() {
          const agent = yield* agents.start({ prompt: "Go", mode: "Interactive" })
          const seen = yield* reading(agent)
          yield* Effect.sleep("1 second")
          yield* agent.cancel("enough")
          yield* agent.result
          assert.deepStrictEqual(yield* agent.pending, [])
          yield* Effect.yieldNow
          const [requested] = seen.flatMap((it) => it._tag === "RequestToolApprovals" ? it.requests : [])
          const error = yield* Effect.flip(agent.answer(requested!.id, { _tag: "ApproveOnce" }))
          assert.strictEqual(error.reason, "NotPending")
        }),
      { policy: { default: "ask" } }
    ))
})
