/** Sentences about operations of agents and their conversations. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Stream from "effect/Stream"
import { type Env, eventually, follow, type Sentence } from "./directoryWorld.ts"

const start = (env: Env, prompt: string, id: string, onBusy?: "interrupt" | "queue" | "reject" | "settle") =>
  env.at.start(env.owner, { agent: "helper", prompt, id, ...onBusy === undefined ? {} : { onBusy } })

const eventsOf = (env: Env, operation: string, from?: string) =>
  follow(
    (after) => env.at.watchOperation(env.owner, operation, after),
    ({ data }) => data._tag === "OperationEnd" && data.reason._tag !== "Suspended",
    from
  )

/** Waits for the end of an operation, and gives the model's last text. */
const endOf = (env: Env, operation: string) =>
  Effect.map(
    eventually(() => env.at.operation(env.owner, operation), ({ state }) => state === "ended"),
    ({ end }) => end
  )

export const sentences: ReadonlyArray<Sentence> = [
  [
    "an operation runs to its end, and its history is there for whoever reads it later",
    (env) =>
      Effect.gen(function*() {
        const { operation } = yield* start(env, "look a", "x")
        assert.deepInclude(operation, { id: "x", agent: "helper", session: "one", prompt: "look a" })
        const events = yield* eventsOf(env, "x")
        assert.deepInclude(yield* endOf(env, "x"), { text: "read 1" })
        yield* env.between
        assert.deepEqual(yield* env.at.running(env.owner), Option.none())
        const roles = (yield* env.at.history(env.owner)).map(({ role }) => role)
        assert.deepEqual(roles, ["user", "assistant", "tool", "assistant"])
        const tags = (all: typeof events) =>
          all.map(({ data }) => data._tag).filter((it) => it !== "AssistantMessagePart" && it !== "Gap")
        assert.deepEqual(tags(yield* eventsOf(env, "x")), tags(events))
      })
  ],

  ["events of an operation are read on behind an id", (env) =>
    Effect.gen(function*() {
      yield* start(env, "look a", "x")
      const all = yield* eventsOf(env, "x")
      const middle = all.findIndex(({ data }) => data._tag === "ExecutingTool")
      const rest = yield* eventsOf(env, "x", all[middle]!.id)
      assert.deepEqual(rest.at(-1)?.data, all.at(-1)?.data)
      assert.isFalse(rest.some(({ data }) => data._tag === "ExecutingTool"))
    })],

  [
    "a message sent again starts one operation, and another message under its id is refused",
    (env) =>
      Effect.gen(function*() {
        yield* start(env, "pay " + env.key("a"), "x")
        yield* env.pending()
        yield* env.between
        const again = yield* start(env, "pay " + env.key("a"), "x")
        assert.deepInclude(again.operation, { id: "x" })
        assert.strictEqual((yield* Effect.flip(start(env, "look a", "x")))._tag, "OperationConflict")
        yield* env.answer({ _tag: "ApproveOnce" })
        yield* endOf(env, "x")
        yield* env.between
        assert.deepInclude((yield* start(env, "pay " + env.key("a"), "x")).operation, { id: "x", state: "ended" })
        assert.strictEqual(env.runsOf("a"), 1)
        assert.lengthOf(yield* env.at.operations(env.owner), 1)
      })
  ],

  ["a message sent five times at the same moment starts one operation", (env) =>
    Effect.gen(function*() {
      const all = yield* Effect.forEach(
        Array.from({ length: 5 }, () => env.at),
        (at) => at.start(env.owner, { agent: "helper", prompt: `pay ${env.key("a")}`, id: "x" }),
        { concurrency: "unbounded" }
      )
      assert.deepEqual(all.map(({ operation }) => operation.id), Array.from({ length: 5 }, () => "x"))
      yield* env.answer({ _tag: "ApproveOnce" })
      yield* endOf(env, "x")
      assert.strictEqual(env.runsOf("a"), 1)
    })],

  [
    "an agent that does not exist is refused, and an operation without an id has one of its own",
    (env) =>
      Effect.gen(function*() {
        const refused = yield* Effect.flip(env.at.start(env.owner, { agent: "nobody", prompt: "hi" }))
        assert.strictEqual(refused._tag, "Invalid")
        assert.includeMembers((yield* env.at.agents).map(({ name }) => name), ["helper", "other"])
        const { operation } = yield* env.at.start(env.owner, { agent: "helper", prompt: "hi" })
        yield* env.between
        assert.deepInclude(yield* endOf(env, operation.id), { text: "You said: hi" })
      })
  ],

  [
    "a request of an operation returns under its id, is answered once, and the operation continues",
    (env) =>
      Effect.gen(function*() {
        yield* start(env, `pay ${env.key("a")}`, "x")
        const [before] = yield* env.pending()
        assert.deepInclude(before, { ...env.owner, operation: "x", tool: "pay" })
        yield* env.between
        const running = Option.getOrThrow(yield* env.at.running(env.owner))
        assert.deepInclude(running, { id: "x" })
        const of = { operation: "x", id: before!.id }
        assert.isTrue(yield* env.at.isPending(env.owner, of))
        assert.isFalse(yield* env.at.isPending(env.owner, { ...of, operation: "y" }))
        assert.isFalse(yield* env.at.isPending(env.theirs, of))
        const answer = { id: before!.id, hash: before!.hash, answer: { _tag: "ApproveOnce" } } as const
        yield* env.at.answer(env.boss, answer)
        assert.strictEqual((yield* Effect.flip(env.at.answer(env.boss, answer)))._tag, "AlreadyEnded")
        assert.deepInclude(yield* endOf(env, "x"), { text: "read 1" })
        assert.strictEqual(env.runsOf("a"), 1)
        assert.isFalse(yield* env.at.isPending(env.owner, of))
      })
  ],

  ["a sub-agent's request is the operation's, and its call runs once it is approved", (env) =>
    Effect.gen(function*() {
      yield* start(env, `delegate ${env.key("a")}`, "x")
      const [request] = yield* env.pending()
      assert.deepInclude(request, { operation: "x", agentPath: ["clerk"] })
      yield* env.between
      assert.isTrue(yield* env.at.isPending(env.owner, { operation: "x", id: request!.id }))
      yield* env.answer({ _tag: "ApproveOnce" })
      assert.deepInclude(yield* endOf(env, "x"), { text: "read 1" })
      assert.strictEqual(env.runsOf("a"), 1)
    })],

  [
    "an agent in the background continues after a move, and a grant that was revoked meanwhile covers nothing of it",
    (env) =>
      Effect.gen(function*() {
        const { owner } = env
        yield* start(env, `send ${env.key("a")}`, "x")
        const [request] = yield* env.pending()
        assert.deepInclude(request, { operation: "x", agentPath: ["courier"] })
        yield* env.between
        yield* env.answer({ _tag: "ApproveForScope", scope: "tool" })
        yield* env.world.held.runs(env.key("a-1"))
        const [grant] = yield* env.at.grants(env.boss)
        yield* env.at.revoke(owner, grant!.id)
        yield* env.world.held.release(env.key("a-1"))
        const [again] = yield* env.pending()
        assert.notStrictEqual(again!.id, request!.id)
        assert.strictEqual(env.runsOf("a-2"), 0)
        yield* env.between
        yield* env.answer({ _tag: "ApproveOnce" })
        assert.include((yield* endOf(env, "x"))?.text, "read 3")
        assert.deepEqual([env.runsOf("a-0"), env.runsOf("a-2")], [1, 1])
        const said = (yield* env.at.history(owner)).filter(({ role, text }) =>
          role === "user" && text.includes("read 3")
        )
        assert.lengthOf(said, 1)
      })
  ],

  ["a message that is queued is read in the next turn", (env) =>
    Effect.gen(function*() {
      yield* start(env, `pay ${env.key("a")}`, "x")
      yield* env.pending()
      yield* env.between
      const { after, operation } = yield* start(env, "look b", "y", "queue")
      assert.strictEqual(operation.id, "x")
      const events = yield* Effect.forkChild(eventsOf(env, "x", after))
      yield* env.between
      yield* env.answer({ _tag: "ApproveOnce" })
      yield* endOf(env, "x")
      const seen = (yield* Fiber.join(events)).map(({ data }) => data._tag)
      assert.includeMembers(seen, ["MessageTaken", "OperationEnd"])
      const said = (yield* env.at.history(env.owner)).filter(({ role }) => role === "user").map(({ text }) => text)
      assert.deepEqual(said, [`pay ${env.key("a")}`, "look b"])
      assert.strictEqual(env.runsOf("a"), 1)
    })],

  ["a message that settles denies what is pending, and is read at once", (env) =>
    Effect.gen(function*() {
      yield* start(env, `pay ${env.key("a")}`, "x")
      yield* env.pending()
      yield* env.between
      const { operation } = yield* start(env, "never mind", "y", "settle")
      assert.strictEqual(operation.id, "x")
      assert.deepInclude(yield* endOf(env, "x"), { text: "You said: never mind" })
      assert.strictEqual(env.runsOf("a"), 0)
      yield* env.pending(0)
    })],

  ["a message that interrupts cancels the operation and starts another one", (env) =>
    Effect.gen(function*() {
      yield* start(env, `pay ${env.key("a")}`, "x")
      yield* env.pending()
      yield* env.between
      const { operation } = yield* start(env, "hello", "y", "interrupt")
      assert.strictEqual(operation.id, "y")
      assert.deepInclude((yield* endOf(env, "x"))?.reason, { _tag: "Cancelled" })
      assert.deepInclude(yield* endOf(env, "y"), { text: "You said: hello" })
      assert.strictEqual(env.runsOf("a"), 0)
    })],

  ["a message is refused while an operation runs, if it may not join it", (env) =>
    Effect.gen(function*() {
      yield* start(env, `pay ${env.key("a")}`, "x")
      yield* env.pending()
      yield* env.between
      const refused = yield* Effect.flip(start(env, "hello", "y", "reject"))
      assert.deepInclude(refused, { _tag: "SessionBusy", operation: "x" })
      const other = yield* Effect.flip(env.at.start(env.owner, { agent: "other", prompt: "hello" }))
      assert.deepInclude(other, { _tag: "SessionBusy", operation: "x" })
    })],

  ["a message to an operation is said once under its id, and not after its end", (env) =>
    Effect.gen(function*() {
      yield* start(env, `pay ${env.key("a")}`, "x")
      yield* env.pending()
      const said = { text: "look b", id: "m" }
      assert.strictEqual(yield* env.at.say(env.owner, "x", said), "m")
      yield* env.between
      assert.strictEqual(yield* env.at.say(env.owner, "x", said), "m")
      const other = yield* Effect.flip(env.at.say(env.owner, "x", { ...said, text: "look c" }))
      assert.strictEqual(other._tag, "OperationConflict")
      yield* env.answer({ _tag: "ApproveOnce" })
      yield* endOf(env, "x")
      yield* env.between
      const texts = (yield* env.at.history(env.owner)).filter(({ role }) => role === "user").map(({ text }) => text)
      assert.deepEqual(texts, [`pay ${env.key("a")}`, "look b"])
      const late = yield* Effect.flip(env.at.say(env.owner, "x", { text: "too late" }))
      assert.strictEqual(late._tag, "OperationEnded")
    })],

  ["an operation is cancelled while it waits, and answers each of its calls", (env) =>
    Effect.gen(function*() {
      yield* start(env, `pay ${env.key("a")}`, "x")
      yield* env.pending()
      yield* env.between
      yield* env.at.cancelOperation(env.owner, "x", "not today")
      assert.deepInclude((yield* endOf(env, "x"))?.reason, { _tag: "Cancelled", reason: "not today" })
      yield* env.pending(0)
      yield* env.between
      const history = yield* env.at.history(env.owner)
      const answered = history.flatMap(({ results = [] }) => results.map(({ id }) => id))
      assert.deepEqual(answered, history.flatMap(({ calls = [] }) => calls.map(({ id }) => id)))
    })],

  ["the end of a session cancels its operation", (env) =>
    Effect.gen(function*() {
      yield* start(env, `pay ${env.key("a")}`, "x")
      yield* env.pending()
      yield* env.between
      yield* env.at.endSession(env.owner)
      assert.deepInclude((yield* endOf(env, "x"))?.reason, { _tag: "Cancelled" })
      assert.strictEqual(env.runsOf("a"), 0)
    })],

  ["an operation belongs to its session: for another user it does not exist", (env) =>
    Effect.gen(function*() {
      yield* start(env, `pay ${env.key("a")}`, "x")
      yield* env.pending()
      const { theirs } = env
      for (
        const missing of [
          env.at.operation(theirs, "x"),
          env.at.watchOperation(theirs, "x"),
          env.at.say(theirs, "x", { text: "hi" }),
          env.at.cancelOperation(theirs, "x", "no"),
          env.at.conversationDetail(theirs, true),
          env.at.watchConversation(theirs, true)
        ]
      ) assert.strictEqual((yield* Effect.flip(missing))._tag, "NotFound")
      assert.deepEqual(yield* env.at.operations(theirs), [])
      assert.deepEqual(yield* env.at.history(theirs), [])
      assert.deepEqual(yield* env.at.running(theirs), Option.none())
    })],

  ["conversations are listed to their user and to those who look after them", (env) =>
    Effect.gen(function*() {
      yield* start(env, "hello", "x")
      yield* endOf(env, "x")
      yield* start(env, `pay ${env.key("a")}`, "y")
      yield* env.pending()
      yield* env.between
      const expected = { ...env.owner, agent: "helper", title: "hello", pending: 1, operation: "y" }
      const of = (user: Env["user"]) =>
        eventually(() => env.at.conversations(user), ([it]) => it === undefined || it.pending === 1)
      for (const user of [env.user, env.boss]) {
        const [conversation, ...others] = yield* of(user)
        assert.deepInclude(conversation, expected)
        assert.deepEqual(others, [])
      }
      assert.deepEqual(yield* of(env.stranger), [])
      const found = yield* eventually(
        () => Effect.map(env.at.conversation(env.owner), Option.getOrThrow),
        ({ pending }) => pending === 1
      )
      assert.deepInclude(found, expected)
    })],

  [
    "a conversation has its messages and operations, and other readers do not see its secrets",
    (env) =>
      Effect.gen(function*() {
        yield* start(env, "hello password=hunter2hunter2", "x")
        yield* endOf(env, "x")
        yield* env.between
        const own = yield* env.at.conversationDetail(env.owner, false)
        assert.include(JSON.stringify(own.history), "hunter2")
        assert.deepEqual(own.operations.map(({ id }) => id), ["x"])
        const shared = yield* env.at.conversationDetail(env.owner, true)
        assert.lengthOf(shared.history, own.history.length)
        assert.notInclude(JSON.stringify(shared), "hunter2")
      })
  ],

  [
    "a reader of a conversation sees the operations that run in it, one after the other",
    (env) =>
      Effect.gen(function*() {
        yield* start(env, `pay ${env.key("a")}`, "x")
        yield* env.pending()
        const ends = yield* Queue.unbounded<string>()
        const events = yield* env.at.watchConversation(env.owner, false)
        yield* Effect.forkChild(
          Stream.runForEach(
            events,
            ({ data }) => data._tag === "OperationEnd" ? Queue.offer(ends, data.text) : Effect.void
          )
        )
        yield* env.answer({ _tag: "ApproveOnce" })
        assert.strictEqual(yield* Queue.take(ends), "read 1")
        yield* start(env, "again", "y")
        assert.strictEqual(yield* Queue.take(ends), "You said: again")
      })
  ]
]
