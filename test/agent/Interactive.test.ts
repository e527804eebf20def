/** What people are asked in an operation, and what becomes of their answers. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { AgentEvent } from "../../src/agent/index.ts"
import * as Approvals from "../../src/core/gates/Approvals.ts"
import type * as ModelTurn from "../../src/testing/ModelTurn.ts"
import { events, problemsOf, reading, run, tagsOf, words } from "../support/Agents.ts"
import type { Handler, ToolSpec } from "../support/Harness.ts"

const call = (id: string, name: string, params: unknown = {}) => ({ id, name, params })
const done: ModelTurn.Turn = { text: "Done." }
const ask = { policy: { default: "ask", allow: ["free"], deny: ["bad"] } } as const

/** Tools that say with what they ran. */
const tools = () => {
  const ran: Array<string> = []
  const noted = (name: string): Handler => (params) =>
    Effect.sync(() => (ran.push(`${name} ${JSON.stringify(params)}`), name))
  const write: ToolSpec = { handler: noted("write"), class: "SerialMut" }
  return { ran, tools: { free: noted("free"), read: noted("read"), bad: noted("bad"), write } }
}

const asked = (all: ReadonlyArray<AgentEvent.AgentEvent>) =>
  all.flatMap((it) => it._tag === "RequestToolApprovals" ? [it.requests] : [])

describe("an interactive operation", () => {
  it.effect("asks once for all calls of a turn, and nothing of it runs before all are answered", () => {
    const { ran, tools: specs } = tools()
    const turn = {
      calls: [call("1", "free"), call("2", "read"), call("3", "bad"), call("4", "write"), call("5", "no")]
    }
    return run(specs, [turn, done], ({ agents }) =>
      Effect.gen(function*() {
        const agent = yield* agents.start({ prompt: "Go", mode: "Interactive" })
        const seen = yield* reading(agent)
        yield* Effect.sleep("1 second")
        // who would be refused in any case is not asked about
        assert.deepStrictEqual(asked(seen).map((all) => all.map((it) => it.callId)), [["2", "4"]])
        const [read, write] = yield* agent.pending
        yield* Effect.orDie(agent.answer(write!.id, { _tag: "ApproveOnce" }))
        yield* Effect.sleep("1 second")
        assert.deepStrictEqual(ran, [])
        yield* Effect.orDie(agent.answer(read!.id, { _tag: "Deny", reason: "not that one" }))
        const { history } = yield* agent.result
        assert.deepStrictEqual(ran, ["free {}", "write {}"])
        assert.match(words(history).join("\n"), /error 2: .*not that one/)
        assert.deepStrictEqual(problemsOf(history), [])
      }), ask)
  }, { tags: ["AG8"] })

  it.effect("tells of all questions of a long turn in one event", () => {
    const { tools: specs } = tools()
    const calls = Array.from({ length: 300 }, (_, n) => call(String(n), "read", { n }))
    return run(specs, [{ calls }, done], ({ agents }) =>
      Effect.gen(function*() {
        const agent = yield* agents.start({ prompt: "Go", mode: "Interactive" })
        const seen = yield* reading(agent)
        yield* Effect.sleep("1 second")
        assert.deepStrictEqual(asked(seen).map((it) => it.length), [300])
        assert.strictEqual((yield* agent.pending).length, 300)
        for (const { id } of yield* agent.pending) yield* Effect.orDie(agent.answer(id, { _tag: "ApproveOnce" }))
        const { history } = yield* agent.result
        assert.strictEqual(words(history).filter((it) => it.startsWith("result")).length, 300)
      }), ask)
  })

  it.effect("takes an answer once, to what was shown, and to nothing else", () => {
    const { ran, tools: specs } = tools()
    return run(
      specs,
      [{ calls: [call("1", "read"), call("2", "write")] }, done],
      ({ agents }) =>
        Effect.gen(function*() {
          const agent = yield* agents.start({ prompt: "Go", mode: "Interactive" })
          yield* Effect.sleep("1 second")
          const [read, write] = yield* agent.pending
          const refused = (id: string, answer: Approvals.Answer, of?: Approvals.Shown) =>
            Effect.map(Effect.flip(agent.answer(id, answer, of)), (it) => it.reason)
          assert.strictEqual(yield* refused("another", { _tag: "ApproveOnce" }), "NotPending")
          const other = { tool: "write", args: { path: "elsewhere" } }
          assert.strictEqual(yield* refused(write!.id, { _tag: "ApproveOnce" }, other), "NotTheSame")
          yield* Effect.orDie(agent.answer(read!.id, { _tag: "Deny" }, read!))
          assert.strictEqual(yield* refused(read!.id, { _tag: "ApproveOnce" }), "NotPending")
          assert.deepStrictEqual((yield* agent.pending).map((it) => it.id), [write!.id])
          yield* Effect.orDie(agent.answer(write!.id, { _tag: "ApproveOnce" }, write!))
          yield* agent.result
          assert.deepStrictEqual(ran, ["write {}"])
        }),
      ask
    )
  })

  it.effect("runs a call with the arguments that a person has edited", () => {
    const { ran, tools: specs } = tools()
    return run(specs, [{ calls: [call("1", "write", { path: "/" })] }, done], ({ agents }) =>
      Effect.gen(function*() {
        const agent = yield* agents.start({ prompt: "Go", mode: "Interactive" })
        yield* Effect.sleep("1 second")
        const [{ id }] = yield* agent.pending as Effect.Effect<[Approvals.ApprovalRequest]>
        yield* Effect.orDie(agent.answer(id, { _tag: "ApproveOnce", params: { path: "tmp" } }))
        yield* agent.result
        assert.deepStrictEqual(ran, ["write {\"path\":\"tmp\"}"])
      }), ask)
  })

  it.effect("takes silence for a no", () => {
    const { ran, tools: specs } = tools()
    return run(specs, [{ calls: [call("1", "read")] }, done], (env) =>
      Effect.gen(function*() {
        const agent = yield* env.agents.start({ prompt: "Go", mode: "Interactive" })
        const end = yield* agent.result
        assert.strictEqual(end.at, 300_000)
        assert.strictEqual(end.reason._tag, "Finished")
        assert.deepStrictEqual(ran, [])
      }), ask)
  })

  it.effect("ends with its reader, and nothing of it runs", () => {
    const { ran, tools: specs } = tools()
    return run(
      specs,
      [{ calls: [call("1", "read")] }, done],
      ({ agents, model }) =>
        Effect.gen(function*() {
          const stream = agents.runOperation({ prompt: "Go", mode: "Interactive" })
          const untilAsked = Stream.takeUntil(stream, (it) => it._tag === "RequestToolApprovals")
          const seen = yield* Stream.runCollect(untilAsked)
          assert.strictEqual(tagsOf(seen).at(-1), "RequestToolApprovals")
          yield* Effect.sleep("1 hour")
          assert.deepStrictEqual(ran, [])
          assert.strictEqual((yield* model.requests).length, 1)
        }),
      ask,
      Layer.orDie(Approvals.layer()) as unknown as Layer.Layer<never>
    )
  })

  it.effect("takes a reader of its events that goes away for a no, now and later", () => {
    const { ran, tools: specs } = tools()
    const script: ReadonlyArray<ModelTurn.Turn> = [
      { calls: [call("1", "read", { n: 1 })] },
      { calls: [call("2", "read", { n: 2 })] },
      done
    ]
    return run(specs, script, ({ agents }) =>
      Effect.gen(function*() {
        const agent = yield* agents.start({ prompt: "Go", mode: "Interactive" })
        const reader = yield* Effect.forkChild(Stream.runDrain(agent.events))
        yield* Effect.sleep("1 second")
        yield* Fiber.interrupt(reader)
        const end = yield* agent.result
        assert.deepStrictEqual([end.reason._tag, end.at], ["Finished", 1_000])
        assert.deepStrictEqual(ran, [])
        assert.deepStrictEqual(words(end.history).filter((it) => it.startsWith("error")).length, 2)
      }), ask)
  }, { tags: ["AG8"] })

  it.effect("with nobody who could answer asks nobody", () => {
    const { ran, tools: specs } = tools()
    return run(specs, [{ calls: [call("1", "read")] }, done], ({ agents }) =>
      Effect.gen(function*() {
        const end = yield* agents.run({ prompt: "Go", mode: "Interactive" })
        assert.strictEqual(end.at, 0)
        assert.deepStrictEqual(ran, [])
      }), ask)
  })

  it.effect("without a handle asks those whom the executor asks, at once where there is nobody", () => {
    const { ran, tools: specs } = tools()
    const operation = (approvals?: Approvals.Approvals["Service"]) =>
      run(
        specs,
        [{ calls: [call("1", "write")] }, done],
        (env) => Effect.map(events(env, { prompt: "Go", mode: "Interactive" }), ({ end }) => end.at),
        { ...ask, ...approvals === undefined ? {} : { approvals } }
      )
    return Effect.scoped(Effect.gen(function*() {
      assert.strictEqual(yield* operation(), 0)
      assert.deepStrictEqual(ran, [])
      const people = yield* Approvals.makeApprover(() => Effect.succeed({ _tag: "ApproveOnce" }))
      assert.strictEqual(yield* operation(people), 0)
      assert.deepStrictEqual(ran, ["write {}"])
    }))
  })

  it.effect("asks those whom the host has, and tells of it even if they answer at once", () => {
    const { ran, tools: specs } = tools()
    const people = Approvals.layerApprover(() => Effect.succeed({ _tag: "ApproveOnce" as const }))
    return run(
      specs,
      [{ calls: [call("1", "read"), call("2", "write")] }, done],
      (env) =>
        Effect.gen(function*() {
          const { events: all } = yield* events(env, { prompt: "Go", mode: "Interactive" })
          assert.deepStrictEqual(ran, ["read {}", "write {}"])
          assert.deepStrictEqual(asked(all).map((it) => it.map(({ callId }) => callId)), [["1", "2"]])
        }),
      ask,
      Layer.orDie(people) as unknown as Layer.Layer<never>
    )
  })

  it.effect("asks a question of a remembered answer no more", () => {
    const { ran, tools: specs } = tools()
    const script: ReadonlyArray<ModelTurn.Turn> = [
      { calls: [call("1", "read", { n: 1 })] },
      { calls: [call("2", "read", { n: 2 })] },
      done
    ]
    return run(specs, script, ({ agents }) =>
      Effect.gen(function*() {
        const agent = yield* agents.start({ prompt: "Go", mode: "Interactive" })
        const seen = yield* reading(agent)
        yield* Effect.sleep("1 second")
        const [{ id }] = yield* agent.pending as Effect.Effect<[Approvals.ApprovalRequest]>
        yield* Effect.orDie(agent.answer(id, { _tag: "ApproveForScope" }))
        yield* agent.result
        yield* Effect.sleep("1 millis")
        assert.strictEqual(ran.length, 2)
        assert.strictEqual(asked(seen).length, 1)
      }), ask)
  })

  it.effect("leaves no question behind when its scope closes", () => {
    const { ran, tools: specs } = tools()
    return run(specs, [{ calls: [call("1", "read")] }, done], ({ agents }) =>
      Effect.gen(function*() {
        const scope = yield* Scope.make()
        const agent = yield* Scope.provide(agents.start({ prompt: "Go", mode: "Interactive" }), scope)
        yield* Effect.sleep("1 second")
        yield* Scope.close(scope, Exit.void)
        assert.deepStrictEqual(yield* agent.pending, [])
        yield* Effect.sleep("1 hour")
        assert.deepStrictEqual(ran, [])
      }), ask)
  })
})

describe("an automatic operation", () => {
  it.effect("asks nobody, also not those whom the host has, and continues immediately", () => {
    const { ran, tools: specs } = tools()
    const people = Approvals.layerApprover(() => Effect.succeed({ _tag: "ApproveOnce" as const }))
    return run(
      specs,
      [{ calls: [call("1", "read"), call("2", "free")] }, done],
      (env) =>
        Effect.gen(function*() {
          const { end, events: all } = yield* events(env, { prompt: "Go" })
          assert.strictEqual(end.at, 0)
          assert.deepStrictEqual(ran, ["free {}"])
          assert.deepStrictEqual(asked(all), [])
          assert.notInclude(tagsOf(all), "ToolApprovalRequested")
        }),
      ask,
      Layer.orDie(people) as unknown as Layer.Layer<never>
    )
  }, { tags: ["AG8"] })
})
