/** A server with agents that is stopped or killed, and started again over the same database. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import type { AgentSse } from "../../../src/server/api/ApiOperations.ts"
import { PendingApprovals } from "../../../src/server/approvals/PendingApprovals.ts"
import { type Handle, Operations } from "../../../src/server/operations/Operations.ts"
import * as ScriptedModel from "../../../src/testing/ScriptedModel.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { problemsOf } from "../../support/Agents.ts"
import { ada, begin, type Life, type Options } from "../../support/Served.ts"

const file = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "operations-"))),
    (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
  ),
  (folder) => join(folder, "server.db")
)

/** Tools whose slow one never ends in its first life. */
const world = () => {
  const ran: Array<string> = []
  const lives = { now: 1, isEnding: false, isForgetful: false }
  const tools = {
    fast: { class: "ReadOnly", handler: () => Effect.succeed("fast") },
    save: { class: "SerialMut", handler: () => Effect.sync(() => ran.push("save")) },
    slow: {
      class: "ReadOnly",
      handler: () => lives.now === 1 ? Effect.never : Effect.sync(() => ran.push("slow"))
    }
  } as const
  return { ran, lives, tools }
}

interface Env extends ReturnType<typeof world> {
  readonly filename: string
  readonly live: (script: ScriptedModel.Script, options?: Options) => Effect.Effect<Life, unknown, Scope.Scope>
}

const test = <A, E>(
  name: string,
  program: (env: Env) => Effect.Effect<A, E, Scope.Scope>,
  options?: { tags: Array<string> }
) =>
  it.effect(name, () =>
    VirtualTime.run(
      Effect.scoped(Effect.gen(function*() {
        const filename = yield* file
        const it = world()
        const live: Env["live"] = Effect.fnUntraced(function*(script, options) {
          const model = yield* ScriptedModel.make(script)
          const agents = { helper: { model: model.layer } }
          const policy = { default: "allow", ask: ["save"] } as const
          // of a life that is ending only what is submitted is stored in time
          const isLost = (key: string) =>
            it.lives.isForgetful
              ? /^served\.operation\.\w+\./.test(key)
              : it.lives.isEnding && !/^served\.(operation|conversation)\.\w+$/.test(key)
          return yield* begin(filename, it.tools, { isAlone: true, policy, agents, isLost, ...options })
        })
        return yield* program({ ...it, filename, live })
      })),
      { limit: "10 days" }
    ), options)

const operationsOf = ({ context }: Life) => Context.get(context, Operations)

const start = (life: Life, prompt = "go", id = "x") => operationsOf(life).start(ada, { agent: "helper", prompt, id })

const found = (life: Life, id = "x") => Effect.map(operationsOf(life).get(ada, id), Option.getOrThrow)

const eventsOf = (handle: Handle, after?: string) =>
  Stream.runCollect(Stream.filter(handle.events(after), ({ event }) => event !== "heartbeat"))

/** What a client has seen so far, as it would read it from its connection. */
const reading = Effect.fnUntraced(function*(handle: Handle) {
  const seen: Array<AgentSse> = []
  yield* Effect.forkScoped(Stream.runForEach(handle.events(undefined), (event) => Effect.sync(() => seen.push(event))))
  return seen
})

const call = (name: string) => ({ calls: [{ name, params: { index: 0 } }] })

const bob = { name: "bob", run: false, approve: ["*"], records: [], operate: false }

const approve = Effect.fnUntraced(function*({ context }: Life) {
  const approvals = Context.get(context, PendingApprovals)
  const { open: [request] } = yield* approvals.list(bob)
  return yield* approvals.answer(bob, { id: request!.id, hash: request!.hash, answer: { _tag: "ApproveOnce" } })
})

const drain = ({ context }: Life) =>
  Effect.all(
    [
      Context.get(context, Operations).drain("5 seconds"),
      Context.get(context, PendingApprovals).suspend("the server stops")
    ],
    { concurrency: "unbounded", discard: true }
  )

describe("a server with agents that is killed and started again", () => {
  test(
    "continues an operation in the middle of a call, under its name",
    ({ lives, live, ran }) =>
      Effect.gen(function*() {
        const first = yield* live([call("slow")])
        yield* start(first)
        yield* Effect.sleep("1 second")
        yield* first.kill
        lives.now++
        const second = yield* live([{ text: "done" }])
        const handle = yield* found(second)
        assert.deepInclude((yield* handle.ended).end, { text: "done" })
        assert.deepEqual(ran, ["slow"])
        const history = yield* operationsOf(second).history(ada)
        assert.deepEqual(problemsOf(history), [])
        assert.deepEqual(history.content.map(({ role }) => role), ["user", "assistant", "tool", "assistant"])
      }),
    { tags: ["SV24"] }
  )

  test(
    "has all other conversations where the records of one cannot be read, and says so in the log",
    ({ filename, lives, live }) =>
      Effect.gen(function*() {
        const errors: Array<string> = []
        const logger = Logger.make<unknown, void>(({ logLevel, message }) => {
          if (logLevel === "Error") errors.push(String(Array.isArray(message) ? message[0] : message))
        })
        const other = { ...ada, session: "two" }
        const first = yield* live([call("slow"), call("slow")])
        yield* start(first)
        yield* operationsOf(first).start(other, { agent: "helper", prompt: "go", id: "y" })
        yield* Effect.sleep("1 second")
        yield* first.kill
        lives.now++
        const db = new DatabaseSync(filename)
        const { changes } = db.prepare(
          `UPDATE tool_executor_session_rows SET value = '{' WHERE key LIKE 'served.operation.%' AND value LIKE '%"operation":"x"%'`
        ).run()
        assert.isAbove(Number(changes), 0)
        db.close()
        const second = yield* live([{ text: "done" }]).pipe(Effect.provide(Logger.layer([logger])))
        const ended = Effect.flatMap(operationsOf(second).get(other, "y"), (it) => Option.getOrThrow(it).ended)
        assert.deepInclude((yield* ended).end, { text: "done" })
        assert.deepStrictEqual(errors, ["A conversation could not be opened and is left for the next start"])
      }),
    { tags: ["SV7"] }
  )

  test("keeps a conversation whose model called with arguments nested too deeply", ({ live }) =>
    Effect.gen(function*() {
      const deep = JSON.parse("[".repeat(3_000) + "]".repeat(3_000)) as unknown
      const first = yield* live([{ calls: [{ name: "fast", params: { deep } }] }, { text: "refused" }])
      yield* start(first)
      const ended = yield* Effect.flatMap(found(first), (it) => it.ended)
      assert.deepInclude(ended.end, { text: "refused" })
      yield* first.close
      const second = yield* live([{ text: "and more" }])
      yield* start(second, "more", "y")
      const more = yield* Effect.flatMap(found(second, "y"), (it) => it.ended)
      assert.deepInclude(more.end, { text: "and more" })
    }))

  test(
    "has the same approval request, and runs its call once it is approved",
    ({ live, ran }) =>
      Effect.gen(function*() {
        const first = yield* live([call("save")])
        yield* start(first)
        yield* Effect.sleep("1 second")
        const { open: [before] } = yield* Context.get(first.context, PendingApprovals).list(bob)
        yield* first.kill
        const second = yield* live([{ text: "saved" }])
        yield* Effect.sleep("1 second")
        const { open: [after] } = yield* Context.get(second.context, PendingApprovals).list(bob)
        assert.equal(after?.id, before?.id)
        assert.equal(after?.operation, "x")
        assert.deepEqual(ran, [])
        yield* approve(second)
        assert.deepInclude((yield* (yield* found(second)).ended).end, { text: "saved" })
        assert.deepEqual(ran, ["save"])
      }),
    { tags: ["SV24"] }
  )

  test("reads messages that it had accepted and not read", ({ lives, live }) =>
    Effect.gen(function*() {
      const first = yield* live([call("slow")])
      const handle = yield* start(first)
      yield* Effect.sleep("1 second")
      yield* handle.say("and this", { id: "y" })
      yield* first.kill
      lives.now++
      const second = yield* live([{ text: "both" }])
      assert.deepInclude((yield* (yield* found(second)).ended).end, { text: "both" })
      const said = (yield* operationsOf(second).history(ada)).content.filter(({ role }) => role === "user")
      assert.lengthOf(said, 2)
      // submitted again, it is not read twice
      assert.equal((yield* start(second, "and this", "y")).id, "x")
    }), { tags: ["SV24"] })

  test("counts turns on, for its limit too", ({ lives, live }) =>
    Effect.gen(function*() {
      const model = yield* ScriptedModel.make(() => call("slow"))
      const agents = { helper: { model: model.layer, limits: { turns: 3 } } }
      const turns: Array<number> = []
      const first = yield* live([], { agents })
      yield* start(first)
      yield* Effect.sleep("1 second")
      turns.push((yield* (yield* found(first)).info).turn)
      yield* first.kill
      lives.now++
      const second = yield* live([], { agents })
      const handle = yield* found(second)
      const { end, turn } = yield* handle.ended
      assert.deepEqual(end?.reason, { _tag: "LimitReached", limit: "turns", max: 3 })
      assert.deepEqual([...turns, turn], [1, 3])
      const finals = (yield* eventsOf(handle)).filter(({ event }) => event === "assistant_message_final")
      assert.deepEqual(finals.map(({ data }) => "turn" in data ? data.turn : 0), [1, 2, 3])
    }), { tags: ["SV24"] })

  test(
    "gives a client that comes again every event once, or says that it must begin anew",
    ({ lives, live }) =>
      Effect.gen(function*() {
        const first = yield* live([{ text: "I look", ...call("slow") }])
        const seen = yield* reading(yield* start(first))
        yield* Effect.sleep("1 second")
        yield* first.kill
        lives.now++
        const second = yield* live([{ text: "done" }])
        const handle = yield* found(second)
        yield* handle.ended
        const all = yield* eventsOf(handle)
        const kept = all.filter(({ event }) => event !== "gap" && event !== "assistant_message_part")
        for (const { id } of seen) {
          if (id === undefined) continue
          const rest = yield* eventsOf(handle, id)
          if (rest[0]?.event === "reset") {
            assert.deepEqual(rest.slice(1), all)
            continue
          }
          const before = seen.slice(0, seen.findIndex((it) => it.id === id) + 1)
          const together = [...before, ...rest].filter(({ event }) =>
            !["gap", "heartbeat", "assistant_message_part"].includes(event)
          )
          assert.deepEqual(together.map(({ data }) => data), kept.map(({ data }) => data))
        }
        assert.isTrue(seen.some(({ id }) => id !== undefined))
        // positions of events that were stored are valid
        const stored = seen.findLast(({ event }) => event === "tool_call_start")!
        assert.notEqual((yield* eventsOf(handle, stored.id))[0]?.event, "reset")
      }),
    { tags: ["SV25"] }
  )

  test("tells what it did in the moment before it was killed", ({ lives, live }) =>
    Effect.gen(function*() {
      const tools = call("fast")
      const first = yield* live([{ text: "I look", ...tools }, { text: "and wait", ...call("slow") }])
      const handle = yield* start(first)
      // the transcript is stored before anything depends on it, events are not
      lives.isForgetful = true
      yield* Effect.sleep("1 second")
      assert.equal((yield* handle.info).turn, 2)
      yield* first.kill
      lives.now++
      lives.isForgetful = false
      const second = yield* live([{ text: "done" }])
      const again = yield* found(second)
      const { calls, turn, usage } = yield* again.ended
      assert.deepEqual({ calls, turn }, { calls: 2, turn: 3 })
      assert.equal(usage.outputTokens, 0)
      const events = yield* eventsOf(again)
      const told = (name: string) => events.flatMap(({ data, event }) => event === name ? [data] : [])
      assert.deepEqual(
        told("assistant_message_final").map((it) => "text" in it ? it.text : ""),
        ["I look", "and wait", "done"]
      )
      for (const name of ["tool_call_queued", "tool_call_complete", "tool_result_received"]) {
        assert.deepEqual(told(name).map((it) => "tool" in it ? it.tool : ""), ["fast", "slow"], name)
      }
      assert.equal(events.at(-1)?.event, "operation_end")
    }), { tags: ["SV25"] })

  test("does not repeat an operation that has ended, and knows its result and its events", ({ live }) =>
    Effect.gen(function*() {
      const first = yield* live([{ text: "done" }])
      const handle = yield* start(first)
      const ended = yield* handle.ended
      const events = yield* eventsOf(handle)
      yield* Effect.sleep("1 second")
      yield* first.kill
      const second = yield* live([])
      const again = yield* start(second)
      assert.deepEqual(yield* again.info, ended)
      const kept = yield* eventsOf(again)
      assert.deepEqual(kept.at(-1)?.data, events.at(-1)?.data)
      assert.deepEqual(yield* operationsOf(second).list(ada), [ended])
      const [conversation] = yield* operationsOf(second).conversations
      assert.deepInclude(conversation, { title: "go", state: "ended", usage: ended.usage })
    }))

  test("ends an operation that was interrupted, and runs the message that interrupted it", ({ live, lives }) =>
    Effect.gen(function*() {
      const first = yield* live([call("slow"), { text: "this", takes: "1 hour" }])
      yield* start(first)
      yield* Effect.sleep("1 second")
      yield* operationsOf(first).start(ada, { agent: "helper", prompt: "no, this", id: "y", onBusy: "interrupt" })
      yield* first.kill
      lives.now++
      const second = yield* live([{ text: "this" }, { text: "this" }])
      assert.deepInclude((yield* (yield* found(second, "y")).ended).end, { text: "this" })
      const all = yield* operationsOf(second).list(ada)
      assert.deepEqual(all.map(({ id, state }) => [id, state]), [["y", "ended"], ["x", "ended"]])
      assert.deepEqual(problemsOf(yield* operationsOf(second).history(ada)), [])
    }))

  test("cancels the operation of a user who may no longer run calls", ({ live, ran }) =>
    Effect.gen(function*() {
      const first = yield* live([call("save")])
      yield* start(first)
      yield* Effect.sleep("1 second")
      yield* first.kill
      const second = yield* live([], { mayRun: () => false })
      const { end } = yield* (yield* found(second)).ended
      assert.equal(end?.reason._tag, "Cancelled")
      assert.deepEqual(ran, [])
      assert.deepEqual(problemsOf(yield* operationsOf(second).history(ada)), [])
    }))

  test("ends the operation of an agent that is not there any more", ({ live }) =>
    Effect.gen(function*() {
      const first = yield* live([call("save")])
      yield* start(first)
      yield* Effect.sleep("1 second")
      yield* first.kill
      const second = yield* live([], { agents: {} })
      const { end } = yield* (yield* found(second)).ended
      assert.include(end?.message, "\"helper\" is not configured")
    }))
})

/** What the next start makes of an operation that was cancelled: its end, and nothing that runs. */
const isCancelled = Effect.fnUntraced(function*({ lives, live, ran }: Env, reason: string) {
  lives.now++
  lives.isEnding = false
  let requests = 0
  const life = yield* live(() => {
    requests++
    return { text: "I go on" }
  })
  const { end } = yield* (yield* found(life)).ended
  assert.deepEqual(end?.reason, { _tag: "Cancelled", reason })
  assert.deepEqual(ran, [])
  assert.equal(requests, 0)
  assert.deepEqual(problemsOf(yield* operationsOf(life).history(ada)), [])
  assert.deepEqual((yield* Context.get(life.context, PendingApprovals).list(bob)).open, [])
  return life
})

describe("a server with agents that is killed as soon as it has answered a cancellation", () => {
  for (const name of ["slow", "save"]) {
    test(`cancels the operation whose call ${name === "save" ? "waits for approval" : "runs"}`, (env) =>
      Effect.gen(function*() {
        const first = yield* env.live([call(name)])
        const handle = yield* start(first)
        yield* Effect.sleep("1 second")
        env.lives.isEnding = true
        yield* handle.cancel("wrong order")
        yield* first.kill
        const second = yield* isCancelled(env, "wrong order")
        yield* second.kill
        // and so in each later start
        yield* isCancelled(env, "wrong order")
      }))
  }

  test("does not ask the model about a message that it had accepted", (env) =>
    Effect.gen(function*() {
      const first = yield* env.live([call("slow")])
      const handle = yield* start(first)
      yield* Effect.sleep("1 second")
      yield* handle.say("and this", { id: "y" })
      env.lives.isEnding = true
      yield* handle.cancel("wrong order")
      yield* first.kill
      const second = yield* isCancelled(env, "wrong order")
      const said = (yield* operationsOf(second).history(ada)).content.filter(({ role }) => role === "user")
      assert.lengthOf(said, 2)
    }))

  test("cancels an operation that had not begun", ({ live, lives }) =>
    Effect.gen(function*() {
      const first = yield* live([call("slow")])
      yield* start(first)
      yield* Effect.sleep("1 second")
      lives.isEnding = true
      const next = yield* operationsOf(first).start(ada, { agent: "helper", prompt: "b", id: "y", onBusy: "interrupt" })
      yield* next.cancel("not this either")
      yield* first.kill
      lives.now++
      lives.isEnding = false
      const second = yield* live([])
      const { end } = yield* (yield* found(second, "y")).ended
      assert.deepEqual(end?.reason, { _tag: "Cancelled", reason: "not this either" })
      assert.deepEqual(problemsOf(yield* operationsOf(second).history(ada)), [])
    }), { tags: ["SV24"] })

  test("ends the operation that a message interrupts, and runs the message", (env) =>
    Effect.gen(function*() {
      const first = yield* env.live([call("slow")])
      yield* start(first)
      yield* Effect.sleep("1 second")
      const sent = { agent: "helper", prompt: "b", id: "y", onBusy: "interrupt" } as const
      env.lives.isEnding = true
      const next = yield* operationsOf(first).start(ada, sent)
      assert.equal((yield* next.info).state, "queued")
      yield* first.kill
      env.lives.now++
      env.lives.isEnding = false
      const second = yield* env.live([{ text: "this" }])
      assert.deepInclude((yield* (yield* found(second, "y")).ended).end, { text: "this" })
      const reason = { _tag: "Cancelled" as const, reason: "a new message was sent instead" }
      assert.deepEqual((yield* (yield* found(second)).info).end?.reason, reason)
      assert.deepEqual(env.ran, [])
      assert.deepEqual(problemsOf(yield* operationsOf(second).history(ada)), [])
    }), { tags: ["SV24"] })
})

describe("a server with agents that is told to stop", () => {
  test("suspends what waits for people and continues it at the next start", ({ live, ran }) =>
    Effect.gen(function*() {
      const first = yield* live([call("save")])
      const handle = yield* start(first)
      const seen = yield* reading(handle)
      yield* Effect.sleep("1 second")
      yield* drain(first)
      assert.equal((yield* handle.info).state, "suspended")
      const last = seen.findLast(({ id }) => id !== undefined)
      assert.deepInclude(last?.data, { _tag: "OperationEnd" })
      yield* first.close
      const second = yield* live([{ text: "saved" }])
      yield* Effect.sleep("1 second")
      const again = yield* found(second)
      assert.equal((yield* again.info).state, "waiting")
      yield* approve(second)
      yield* again.ended
      assert.deepEqual(ran, ["save"])
      // exactly what came since
      const rest = yield* eventsOf(again, last?.id)
      assert.notInclude(rest.map(({ event }) => event), "reset")
      assert.notInclude(rest.map(({ id }) => id), last?.id)
      assert.equal(rest.at(-1)?.event, "operation_end")
    }), { tags: ["SV24"] })

  test("cancels what does not end in time, with an answer to every call", ({ live }) =>
    Effect.gen(function*() {
      const first = yield* live([call("slow")])
      const handle = yield* start(first)
      yield* Effect.sleep("1 second")
      yield* drain(first)
      const { end } = yield* handle.info
      assert.equal(end?.reason._tag, "Cancelled")
      yield* first.close
      const second = yield* live([{ text: "go on" }])
      assert.deepEqual(problemsOf(yield* operationsOf(second).history(ada)), [])
      const next = yield* start(second, "again", "y")
      assert.deepInclude((yield* next.ended).end, { text: "go on" })
    }), { tags: ["SV24"] })

  test("accepts no message", ({ live }) =>
    Effect.gen(function*() {
      const first = yield* live([call("slow")])
      yield* start(first)
      yield* Effect.sleep("1 second")
      yield* Effect.forkScoped(drain(first))
      yield* Effect.sleep("1 second")
      assert.equal((yield* Effect.flip(start(first, "more", "y")))._tag, "Unavailable")
    }))
})
