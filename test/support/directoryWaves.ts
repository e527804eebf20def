/** Sentences about waves. */
import { assert } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import type { WaveSse } from "../../src/server/api/ApiModels.ts"
import { type Env, eventually, follow, message, type Sentence } from "./directoryWorld.ts"

const pay = (env: Env, key: string) => message(["c1", "pay", { key: env.key(key) }])

const look = (key: string) => message(["c1", "look", { key }])

/** The events of a wave, as a client reads them. */
const eventsOf = (env: Env, wave: string, from?: string) =>
  follow((after) => env.at.watch(env.owner, wave, after), ({ data }) => data._tag === "ToolsEnd", from)

const told = (events: ReadonlyArray<WaveSse>) =>
  events.map(({ data }) => data._tag).filter((it) => it !== "ToolStatus" && it !== "WaveSuspended")

export const sentences: ReadonlyArray<Sentence> = [
  ["a submitted wave runs, and its result is there for whoever reads it later", (env) =>
    Effect.gen(function*() {
      const { at, owner } = env
      const info = yield* at.submit(owner, { wave: "w", message: look("a") })
      assert.deepInclude(info, { ...owner, wave: "w", calls: 1, tools: ["look"] })
      const { end, messages, status } = yield* env.at.result(owner, "w")
      assert.strictEqual(status, "ended")
      assert.strictEqual(end?._tag, "ToolsEnd")
      assert.include(JSON.stringify(messages), "seen a")
      yield* env.between
      assert.deepEqual((yield* env.at.wave(owner, "w")).messages, messages)
      assert.deepEqual((yield* env.at.result(owner, "w")).messages, messages)
    })],

  ["a wave without a name has one of its own", (env) =>
    Effect.gen(function*() {
      const { wave } = yield* env.at.submit(env.owner, { message: look("a") })
      const other = yield* env.at.submit(env.owner, { message: look("a") })
      assert.notStrictEqual(other.wave, wave)
      yield* env.between
      assert.include(JSON.stringify((yield* env.at.result(env.owner, wave)).messages), "seen a")
    })],

  ["a wave submitted again runs once", (env) =>
    Effect.gen(function*() {
      const submission = { wave: "w", message: pay(env, "a") }
      yield* env.at.submit(env.owner, submission)
      yield* env.pending()
      yield* env.between
      const again = yield* env.at.submit(env.owner, submission)
      assert.deepInclude(again, { wave: "w", status: "running" })
      yield* env.answer({ _tag: "ApproveOnce" })
      const { messages } = yield* env.at.result(env.owner, "w")
      yield* env.between
      const later = yield* env.at.submit(env.owner, submission)
      assert.strictEqual(later.status, "ended")
      assert.deepEqual((yield* env.at.result(env.owner, "w")).messages, messages)
      assert.strictEqual(env.runsOf("a"), 1)
    })],

  ["a wave submitted five times at the same moment runs once", (env) =>
    Effect.gen(function*() {
      const submission = { wave: "w", message: pay(env, "a") }
      const all = yield* Effect.forEach(
        Array.from({ length: 5 }, () => env.at),
        (at) => at.submit(env.owner, submission),
        { concurrency: "unbounded" }
      )
      assert.deepEqual(all.map(({ wave }) => wave), Array.from({ length: 5 }, () => "w"))
      yield* env.answer({ _tag: "ApproveOnce" })
      yield* env.at.result(env.owner, "w")
      assert.strictEqual(env.runsOf("a"), 1)
      assert.lengthOf((yield* env.at.approvals(env.boss)).open, 0)
    })],

  ["another message under the name of a wave is refused, and changes nothing", (env) =>
    Effect.gen(function*() {
      yield* env.at.submit(env.owner, { wave: "w", message: look("a") })
      yield* env.at.result(env.owner, "w")
      yield* env.between
      const refused = yield* Effect.flip(env.at.submit(env.owner, { wave: "w", message: look("b") }))
      assert.strictEqual(refused._tag, "WaveConflict")
      const turn = yield* Effect.flip(env.at.submit(env.owner, { wave: "w", message: look("a"), turn: "other" }))
      assert.strictEqual(turn._tag, "WaveConflict")
      assert.include(JSON.stringify((yield* env.at.result(env.owner, "w")).messages), "seen a")
    })],

  ["a message that is not valid is refused, with where it is wrong", (env) =>
    Effect.gen(function*() {
      const refused = yield* Effect.flip(env.at.submit(env.owner, { wave: "w", message: { tool_calls: [17] } }))
      assert.strictEqual(refused._tag, "Invalid")
      assert.strictEqual((yield* Effect.flip(env.at.wave(env.owner, "w")))._tag, "NotFound")
    })],

  ["a wave that does not exist is not found, whatever is done with it", (env) =>
    Effect.gen(function*() {
      const { owner } = env
      for (
        const missing of [
          env.at.wave(owner, "none"),
          env.at.result(owner, "none"),
          env.at.watch(owner, "none"),
          env.at.happened(owner, "none", 0),
          env.at.cancel(owner, "none", { reason: "no" }),
          env.at.endTurn(owner, "none")
        ]
      ) assert.strictEqual((yield* Effect.flip(missing))._tag, "NotFound")
    })],

  ["a wave belongs to its session: the same name is another wave for another user", (env) =>
    Effect.gen(function*() {
      yield* env.at.submit(env.owner, { wave: "w", message: pay(env, "a") })
      yield* env.pending()
      assert.strictEqual((yield* Effect.flip(env.at.wave(env.theirs, "w")))._tag, "NotFound")
      assert.strictEqual((yield* Effect.flip(env.at.cancel(env.theirs, "w", { reason: "no" })))._tag, "NotFound")
      assert.strictEqual((yield* Effect.flip(env.at.endSession(env.theirs)))._tag, "NotFound")
      yield* env.at.submit(env.theirs, { wave: "w", message: look("b") })
      assert.include(JSON.stringify((yield* env.at.result(env.theirs, "w")).messages), "seen b")
      yield* env.between
      yield* env.answer({ _tag: "ApproveOnce" })
      assert.include(JSON.stringify((yield* env.at.result(env.owner, "w")).messages), "paid")
    })],

  ["events are read from the beginning, and on behind an id", (env) =>
    Effect.gen(function*() {
      yield* env.at.submit(env.owner, { wave: "w", message: look("a") })
      const all = yield* eventsOf(env, "w")
      const tags = told(all)
      assert.deepEqual(tags, ["ToolCallQueued", "ToolCallStart", "ToolCallComplete", "ToolsEnd"])
      const rest = yield* eventsOf(env, "w", all[1]!.id)
      assert.deepEqual(told(rest), tags.slice(2))
      yield* env.between
      assert.deepEqual(told(yield* eventsOf(env, "w")), tags)
    })],

  [
    "a reader who follows sees every step once, also if the session is closed or moved meanwhile",
    (env) =>
      Effect.gen(function*() {
        yield* env.at.submit(env.owner, { wave: "w", message: pay(env, "a") })
        const reader = yield* Effect.forkChild(eventsOf(env, "w"))
        yield* env.pending()
        yield* env.between
        yield* env.answer({ _tag: "ApproveOnce" })
        const seen = told(yield* Fiber.join(reader))
        for (const step of ["ToolApprovalRequested", "ToolApprovalResolved", "ToolCallComplete", "ToolsEnd"]) {
          assert.isAtLeast(seen.filter((it) => it === step).length, 1, step)
        }
        assert.strictEqual(seen.filter((it) => it === "ToolCallComplete").length, 1)
        assert.strictEqual(env.runsOf("a"), 1)
      })
  ],

  ["an unknown position gives a reset and all events", (env) =>
    Effect.gen(function*() {
      yield* env.at.submit(env.owner, { wave: "w", message: look("a") })
      yield* env.at.result(env.owner, "w")
      yield* env.between
      assert.deepEqual(told(yield* eventsOf(env, "w", "nobody-17")).at(-1), "ToolsEnd")
    })],

  ["a wave is cancelled while it waits, and has an outcome for each call", (env) =>
    Effect.gen(function*() {
      yield* env.at.submit(env.owner, { wave: "w", message: pay(env, "a") })
      yield* env.pending()
      yield* env.between
      yield* env.at.cancel(env.owner, "w", { reason: "changed my mind" })
      const { messages, status } = yield* env.at.result(env.owner, "w")
      assert.strictEqual(status, "ended")
      assert.include(JSON.stringify(messages), "changed my mind")
      yield* env.pending(0)
      assert.strictEqual(env.runsOf("a"), 0)
    })],

  ["one call of a wave is cancelled, and the others continue", (env) =>
    Effect.gen(function*() {
      const [a, b] = [env.key("a"), env.key("b")]
      const both = message(["c1", "pay", { key: a }], ["c2", "pay", { key: b }])
      yield* env.at.submit(env.owner, { wave: "w", message: both })
      yield* eventually(() => env.at.approvals(env.boss), ({ open }) => open.length >= 1)
      yield* env.between
      yield* env.at.cancel(env.owner, "w", { callId: "c1", reason: "not this one" })
      const [request] = yield* eventually(
        () => Effect.map(env.at.approvals(env.boss), ({ open }) => open),
        (open) => open.length === 1 && open[0]!.callId === "c2"
      )
      yield* env.at.answer(env.boss, { id: request!.id, hash: request!.hash, answer: { _tag: "ApproveOnce" } })
      const { messages } = yield* env.at.result(env.owner, "w")
      assert.include(JSON.stringify(messages), "not this one")
      assert.deepEqual([env.runsOf("a"), env.runsOf("b")], [0, 1])
    })],

  ["a running call is cancelled where it runs", (env) =>
    Effect.gen(function*() {
      const key = env.key("held")
      yield* env.at.submit(env.owner, { wave: "w", message: message(["c1", "hold", { key }]) })
      yield* env.world.held.runs(key)
      yield* env.at.cancel(env.owner, "w", { reason: "stop it" })
      assert.include(JSON.stringify((yield* env.at.result(env.owner, "w")).messages), "stop it")
    })],

  ["the end of a turn cancels its calls", (env) =>
    Effect.gen(function*() {
      yield* env.at.submit(env.owner, { wave: "w", turn: "t", message: pay(env, "a") })
      yield* env.pending()
      yield* env.between
      yield* env.at.endTurn(env.owner, "t")
      assert.strictEqual((yield* env.at.result(env.owner, "w")).status, "ended")
      assert.strictEqual(env.runsOf("a"), 0)
      yield* env.pending(0)
      assert.strictEqual((yield* Effect.flip(env.at.endTurn(env.owner, "t")))._tag, "NotFound")
    })],

  ["the end of a session cancels everything in it", (env) =>
    Effect.gen(function*() {
      yield* env.at.submit(env.owner, { wave: "w", message: pay(env, "a") })
      yield* env.pending()
      yield* env.between
      yield* env.at.endSession(env.owner)
      assert.strictEqual((yield* env.at.result(env.owner, "w")).status, "ended")
      assert.strictEqual(env.runsOf("a"), 0)
      yield* env.pending(0)
    })],

  ["the tools of a session are those that a model sees", (env) =>
    Effect.gen(function*() {
      const tools = yield* env.at.tools(env.owner)
      assert.includeMembers(tools.map(({ name }) => name), ["look", "pay"])
      assert.isTrue(tools.find(({ name }) => name === "look")?.readOnly)
      assert.isFalse(tools.find(({ name }) => name === "pay")?.readOnly)
    })],

  ["waves are listed to their user and to those who look after them", (env) =>
    Effect.gen(function*() {
      yield* env.at.submit(env.owner, { wave: "first", message: look("a") })
      yield* env.at.result(env.owner, "first")
      yield* env.at.submit(env.owner, { wave: "second", message: pay(env, "a") })
      yield* env.pending()
      yield* env.between
      const named = (user: Env["user"]) =>
        Effect.map(env.at.waves(user), (all) => all.map(({ status, wave }) => [wave, status === "ended"]))
      const expected = [["first", true], ["second", false]]
      assert.deepEqual(yield* named(env.user), expected)
      assert.deepEqual(yield* named(env.boss), expected)
      assert.deepEqual(yield* named(env.stranger), [])
    })],

  ["what happened in a wave is read in pages, without secrets", (env) =>
    Effect.gen(function*() {
      yield* env.at.submit(env.owner, { wave: "w", message: look("password=hunter2hunter2") })
      yield* env.at.result(env.owner, "w")
      yield* env.between
      const { events, wave } = yield* env.at.happened(env.owner, "w", 0)
      assert.deepInclude(wave, { wave: "w", status: "ended" })
      assert.strictEqual(events.at(-1)?._tag, "ToolsEnd")
      assert.notInclude(JSON.stringify(events), "hunter2")
    })]
]
