/** Operations of agents on a server, in memory: started once, joined, steered and cancelled. */
import { assert, describe, it } from "@effect/vitest"
import { AiError } from "effect/ai"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Operation } from "../../../src/server/api/ApiOperations.ts"
import { PendingApprovals } from "../../../src/server/approvals/PendingApprovals.ts"
import type * as Agents from "../../../src/server/operations/Agents.ts"
import { type Handle, Operations } from "../../../src/server/operations/Operations.ts"
import { Waves } from "../../../src/server/waves/Waves.ts"
import * as ScriptedModel from "../../../src/testing/ScriptedModel.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { ada, inMemory, message, type Options } from "../../support/Served.ts"

const tools = {
  look: { class: "ReadOnly", handler: () => Effect.succeed("seen") },
  save: { class: "SerialMut", handler: () => Effect.succeed("saved") },
  slow: { class: "ReadOnly", handler: () => Effect.as(Effect.sleep("1 minute"), "slow") }
} as const

const policy = { default: "allow", ask: ["save"] } as const

const call = (name: string) => ({ calls: [{ name, params: { index: 0 } }] })

interface Env {
  readonly operations: Operations["Service"]
  readonly approvals: PendingApprovals["Service"]
  readonly model: ScriptedModel.Scripted
  readonly waves: Waves["Service"]
}

const test = <A, E>(
  name: string,
  script: ScriptedModel.Script,
  program: (env: Env) => Effect.Effect<A, E, Scope.Scope>,
  agent: Partial<Agents.Options> = {},
  options: Options = {}
) =>
  it.effect(name, () =>
    VirtualTime.run(
      Effect.gen(function*() {
        const model = yield* ScriptedModel.make(script)
        const agents = { helper: { ...agent, model: model.layer } }
        const layer = inMemory(tools, { policy, ...options, agents })
        return yield* Effect.gen(function*() {
          return yield* program({
            operations: yield* Operations,
            approvals: yield* PendingApprovals,
            waves: yield* Waves,
            model
          })
        }).pipe(Effect.provide(layer), Effect.scoped)
      }),
      { limit: "1 day" }
    ))

const start = (operations: Operations["Service"], prompt: string, id?: string) =>
  operations.start(ada, { agent: "helper", prompt, ...id === undefined ? {} : { id } })

const tagsOf = (handle: Handle) =>
  Effect.map(
    Stream.runCollect(Stream.filter(handle.events(undefined), ({ event }) => event !== "heartbeat")),
    (events) => events.map(({ event }) => event)
  )

const reasonOf = ({ end }: Operation) => end?.reason._tag

const bob = { name: "bob", run: false, approve: ["*"], records: [], operate: false }

describe("an operation on a server", { tags: ["R13", "SV22", "SV23", "SV26"] }, () => {
  test("runs without a client, and is found with its events and its messages", [call("look"), { text: "done" }], (
    { operations }
  ) =>
    Effect.gen(function*() {
      const handle = yield* start(operations, "look around", "first")
      const ended = yield* handle.ended
      assert.deepInclude(ended, { id: "first", state: "ended", turn: 2, calls: 1, pending: 0, prompt: "look around" })
      assert.deepInclude(ended.end, { text: "done" })
      const events = yield* tagsOf(Option.getOrThrow(yield* operations.get(ada, "first")))
      assert.includeMembers([...events], ["assistant_message_final", "tool_result_received", "operation_end"])
      assert.equal(events.at(-1), "operation_end")
      const { content } = yield* operations.history(ada)
      assert.deepEqual(content.map(({ role }) => role), ["user", "assistant", "tool", "assistant"])
      assert.isTrue(Option.isNone(yield* operations.get({ ...ada, user: "eve" }, "first")))
    }))

  const shared: Options = {
    policy: { default: "allow" },
    rules: [{ _tag: "RequiresPrecedingTools", tool: "save", tools: ["look"], scope: "session" }]
  }

  test(
    "shares the rules of its conversation with the waves of its session, and with no other session",
    [call("save"), { text: "no" }, call("look"), { text: "seen" }],
    ({ operations, waves }) =>
      Effect.gen(function*() {
        yield* (yield* start(operations, "save it")).ended
        const tagOf = Effect.fnUntraced(function*(session: string) {
          const { end } = yield* (yield* waves.submit({ ...ada, session }, { message: message("save") })).ended
          return end !== undefined && "executionResults" in end ? end.executionResults[0]?._tag : undefined
        })
        assert.strictEqual(yield* tagOf(ada.session), "Denied")
        yield* (yield* start(operations, "look first")).ended
        assert.strictEqual(yield* tagOf(ada.session), "Succeeded")
        assert.strictEqual(yield* tagOf("other"), "Denied")
      }),
    {},
    shared
  )

  test("is started once under an id, and another message under that id is a conflict", [{ text: "one" }], (
    { model, operations }
  ) =>
    Effect.gen(function*() {
      const [one, other] = yield* Effect.all([start(operations, "go", "x"), start(operations, "go", "x")], {
        concurrency: "unbounded"
      })
      assert.equal((yield* one.ended).id, (yield* other.ended).id)
      yield* (yield* start(operations, "go", "x")).ended
      assert.lengthOf(yield* model.requests, 1)
      const problem = yield* Effect.flip(start(operations, "other", "x"))
      assert.equal(problem._tag, "OperationConflict")
    }))

  test(
    "takes a message that arrives while it runs as its next turn, once",
    [call("slow"), { text: "both" }],
    ({ model, operations }) =>
      Effect.gen(function*() {
        const handle = yield* start(operations, "go", "x")
        yield* Effect.sleep("1 second")
        const joined = yield* start(operations, "and this", "y")
        assert.equal(joined.id, "x")
        assert.equal((yield* start(operations, "and this", "y")).id, "x")
        assert.equal(reasonOf(yield* handle.ended), "Finished")
        const requests = yield* model.requests
        assert.lengthOf(requests, 2)
        assert.equal(JSON.stringify(requests[1]).split("and this").length, 2)
        // also once it has ended
        assert.equal((yield* start(operations, "and this", "y")).id, "x")
      })
  )

  test(
    "denies what waits for approval before a message that settles",
    [call("save"), { text: "all right" }],
    ({ approvals, operations }) =>
      Effect.gen(function*() {
        const handle = yield* start(operations, "save it")
        yield* Effect.sleep("1 second")
        assert.deepInclude(yield* handle.info, { state: "waiting", pending: 1 })
        const { open: [request] } = yield* approvals.list(bob)
        assert.deepInclude(request, { operation: handle.id, session: ada.session, agentPath: [] })
        yield* operations.start(ada, { agent: "helper", prompt: "no, leave it", onBusy: "settle" })
        assert.deepInclude(yield* handle.ended, { state: "ended", pending: 0 })
        const { ended } = yield* approvals.list(bob)
        assert.equal(ended[0]?.how, "denied")
      })
  )

  test(
    "is cancelled by a message that interrupts, which runs after it",
    [call("slow"), { text: "second" }],
    ({ operations }) =>
      Effect.gen(function*() {
        const first = yield* start(operations, "go")
        yield* Effect.sleep("1 second")
        const second = yield* operations.start(ada, { agent: "helper", prompt: "stop, do this", onBusy: "interrupt" })
        assert.notEqual(second.id, first.id)
        assert.equal(reasonOf(yield* first.ended), "Cancelled")
        assert.deepInclude((yield* second.ended).end, { text: "second" })
        assert.deepEqual((yield* operations.list(ada)).map(({ id }) => id), [second.id, first.id])
        const { content } = yield* operations.history(ada)
        assert.deepEqual(content.map(({ role }) => role), ["user", "assistant", "tool", "user", "assistant"])
      })
  )

  test(
    "refuses a message while it runs, if the agent says so",
    [call("slow"), { text: "done" }],
    ({ operations }) =>
      Effect.gen(function*() {
        const first = yield* start(operations, "go")
        const problem = yield* Effect.flip(start(operations, "more"))
        assert.deepInclude(problem, { _tag: "SessionBusy", operation: first.id })
        yield* first.ended
      }),
    { onBusy: "reject" }
  )

  test("is cancelled, and says no more", [call("slow")], ({ operations }) =>
    Effect.gen(function*() {
      const handle = yield* start(operations, "go")
      const reading = yield* Effect.forkScoped(tagsOf(handle))
      yield* Effect.sleep("1 second")
      yield* handle.cancel("enough")
      const ended = yield* handle.ended
      assert.deepEqual(ended.end?.reason, { _tag: "Cancelled", reason: "enough" })
      assert.equal((yield* Fiber.join(reading)).at(-1), "operation_end")
      assert.equal((yield* Effect.flip(handle.say("too late")))._tag, "OperationEnded")
    }))

  test("tells that there is no such agent, and which there are", [], ({ operations }) =>
    Effect.gen(function*() {
      const problem = yield* Effect.flip(operations.start(ada, { agent: "nobody", prompt: "go" }))
      assert.equal(problem._tag, "Invalid")
      assert.include(JSON.stringify(problem), "one of helper")
      assert.deepEqual(yield* operations.conversations, [])
    }))

  test(
    "tells a failure of the model by its kind, and never the key",
    () =>
      Effect.fail(AiError.make({
        module: "Provider",
        method: "streamText",
        reason: new AiError.AuthenticationError({ kind: "InvalidKey", description: `the key ${key} is wrong` })
      })),
    ({ operations }) =>
      Effect.gen(function*() {
        const handle = yield* start(operations, "go")
        const ended = yield* handle.ended
        assert.deepEqual(ended.end?.reason, { _tag: "ModelFailed", error: "AuthenticationError" })
        const events = yield* Stream.runCollect(handle.events(undefined))
        assert.include(JSON.stringify([ended, events]), "the key [redacted] is wrong")
        assert.notInclude(JSON.stringify([ended, events]), key)
      }),
    { secrets: [Redacted.make("hunter2-is-no-usual-key")], retries: 0 }
  )

  it.effect("tells no key when its model breaks, to clients or the log", () => {
    const lines: Array<string> = []
    const logger = Logger.map(Logger.formatLogFmt, (line) => void lines.push(line))
    return VirtualTime.run(
      Effect.gen(function*() {
        const { layer: model } = yield* ScriptedModel.make(() => Effect.die(new TypeError(`invalid header: ${key}`)))
        const agents = { helper: { model, secrets: [Redacted.make(key)], retries: 0 } }
        yield* Effect.gen(function*() {
          const operations = yield* Operations
          const handle = yield* start(operations, "go")
          const ended = yield* handle.ended
          const events = yield* Stream.runCollect(handle.events(undefined))
          assert.include(JSON.stringify([ended, events]), "invalid header: [redacted]")
          assert.notInclude(JSON.stringify([ended, events]), key)
        }).pipe(Effect.provide(inMemory(tools, { agents })), Effect.scoped)
      }).pipe(Effect.provide(Logger.layer([logger]))),
      { limit: "1 day" }
    ).pipe(Effect.tap(() =>
      Effect.sync(() => {
        assert.notInclude(lines.join("\n"), key)
      })
    ))
  }, { tags: ["SV26"] })
})

const key = "hunter2-is-no-usual-key"

describe("conversations", { tags: ["SV9"] }, () => {
  test("are listed with what runs in them, and without what other users may not see", [call("save"), {
    text: "saved"
  }], ({ approvals, operations }) =>
    Effect.gen(function*() {
      const handle = yield* start(operations, "save this   please")
      yield* Effect.sleep("1 second")
      const [conversation] = yield* operations.conversations
      assert.deepInclude(conversation, {
        ...ada,
        agent: "helper",
        title: "save this please",
        state: "waiting",
        pending: 1,
        operation: handle.id
      })
      const { open: [request] } = yield* approvals.list(bob)
      yield* approvals.answer(bob, { id: request!.id, hash: request!.hash, answer: { _tag: "ApproveOnce" } })
      yield* handle.ended
      const [after] = yield* operations.conversations
      assert.deepInclude(after, { state: "ended", pending: 0 })
      assert.notProperty(after, "operation")
    }))

  test(
    "stream the events of one operation after the other",
    [{ text: "one" }, { text: "two" }],
    ({ operations }) =>
      Effect.gen(function*() {
        yield* (yield* start(operations, "first")).ended
        const events = Option.getOrThrow(yield* operations.events(ada, undefined, false))
        const reading = yield* Effect.forkScoped(Stream.runCollect(
          Stream.take(Stream.filter(events, ({ event }) => event === "operation_end"), 1)
        ))
        yield* Effect.yieldNow
        const second = yield* start(operations, "second")
        yield* second.ended
        const [end] = yield* Fiber.join(reading)
        assert.deepInclude(end?.data, { operation: second.id, text: "two" })
      })
  )

  test(
    "stream a heartbeat while nothing runs, and end with the server",
    [{ text: "one" }, { text: "two" }],
    ({ operations }) =>
      Effect.gen(function*() {
        yield* (yield* start(operations, "first")).ended
        const events = Option.getOrThrow(yield* operations.events(ada, undefined, false))
        const reading = yield* Effect.forkScoped(Stream.runCollect(Stream.map(events, ({ event }) => event)))
        yield* Effect.sleep("40 seconds")
        yield* (yield* start(operations, "second")).ended
        yield* operations.drain("1 second")
        const all = yield* Effect.timeout(Fiber.join(reading), "1 second")
        assert.deepEqual(all.slice(0, 2), ["heartbeat", "heartbeat"])
        assert.equal(all.at(-1), "operation_end")
        const late = Option.getOrThrow(yield* operations.events(ada, undefined, false))
        assert.deepEqual(yield* Stream.runCollect(late), [])
      })
  )
})

describe("agents", () => {
  it.effect("with a wrong option do not start a server, and it says of which agent", () =>
    Effect.gen(function*() {
      const { layer } = yield* ScriptedModel.make([])
      const failure = yield* Effect.flip(
        Effect.scoped(Layer.build(inMemory(tools, { agents: { helper: { model: layer, limits: { turns: 0 } } } })))
      )
      assert.include(String(failure), "helper.limits.turns")
    }))

  test(
    "with rules of their own have them beside those of the server",
    [call("save"), call("look"), call("save"), { text: "done" }],
    ({ operations }) =>
      Effect.gen(function*() {
        const handle = yield* start(operations, "go")
        const ended = yield* handle.ended
        assert.equal(ended.calls, 2)
        const history = JSON.stringify(yield* operations.history(ada))
        assert.include(history, "look")
      }),
    { rules: [{ _tag: "RequiresPrecedingTools", tool: "save", tools: ["look"] }] },
    { policy: { default: "allow" } }
  )
})
