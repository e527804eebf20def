/** The waves of all sessions: handed over once, run to their end, found again. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Scheduler from "effect/Scheduler"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { type Approvals, Journal, ToolContext, type ToolExecutors } from "../../../src/index.ts"
import type { LiveItem } from "../../../src/server/api/ApiApprovals.ts"
import type { Wave } from "../../../src/server/api/ApiModels.ts"
import { PendingApprovals } from "../../../src/server/approvals/PendingApprovals.ts"
import * as Turns from "../../../src/server/waves/Turns.ts"
import { type Handle, Waves } from "../../../src/server/waves/Waves.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { ada, inMemory, message, type Options, type Tools } from "../../support/Served.ts"

type Provided = Effect.Services<Effect.Effect<void, never, Waves | PendingApprovals | ToolExecutors.ToolExecutors>>

const run = <A, E>(
  tools: Tools,
  program: Effect.Effect<A, E, Scope.Scope | Provided>,
  options?: Options
) => VirtualTime.run(Effect.scoped(Effect.provide(program, inMemory(tools, options))), { limit: "3 days" })

/** Tools, and which calls of them have begun. */
const world = () => {
  const begun: Array<string> = []
  const handler = (rest: Effect.Effect<unknown, unknown>) => () =>
    Effect.flatMap(ToolContext.ToolContext, ({ callId }) => {
      begun.push(String(callId))
      return rest
    })
  const tools: Tools = {
    read: { handler: handler(Effect.succeed("text")) },
    slow: { class: "SerialMut", handler: handler(Effect.sleep("1 minute")) },
    endless: { class: "SerialMut", handler: handler(Effect.never) },
    fail: { handler: handler(Effect.fail({ said: "no", cause: new Error("secret") })) },
    die: { handler: handler(Effect.die(new Error("secret"))) },
    ask: { class: "SerialMut", handler: handler(Effect.succeed("done")) },
    chatty: {
      handler: () =>
        Effect.flatMap(
          ToolContext.ToolContext,
          (context) =>
            Effect.forEach(Array.from({ length: 50 }, (_, n) => n), (n) => context.status(`at ${n}`), { discard: true })
        )
    }
  }
  return { begun, tools }
}

const tagsOf = (wave: Wave): ReadonlyArray<string> =>
  wave.end !== undefined && "executionResults" in wave.end ? wave.end.executionResults.map((it) => it._tag) : []

const namesOf = (handle: Handle) =>
  Effect.map(Stream.runCollect(handle.events(undefined)), (all) => all.map(({ event }) => event))

describe("a submitted message", () => {
  it.effect("has a result for each of its calls, in the provider's own format", () => {
    const told: Array<LiveItem> = []
    const { tools } = world()
    return run(
      tools,
      Effect.gen(function*() {
        const waves = yield* Waves
        const handle = yield* waves.submit(ada, { message: message("read", "none", "read") })
        const wave = yield* handle.ended
        assert.strictEqual(wave.status, "ended")
        assert.strictEqual(wave.format, "openai")
        const messages = wave.messages as ReadonlyArray<{ readonly role: string; readonly tool_call_id: string }>
        assert.deepStrictEqual(messages.map((it) => it.tool_call_id), ["c0", "c1", "c2"])
        const names = yield* namesOf(handle)
        assert.deepStrictEqual(names.slice(0, 3), ["tool_call_queued", "tool_call_queued", "tool_call_queued"])
        assert.strictEqual(names.filter((it) => it === "tool_call_complete").length, 3)
        assert.strictEqual(names.at(-1), "tools_end")
        assert.strictEqual(told[0]?._tag, "WaveBegan")
        assert.strictEqual(told.at(-1)?._tag, "WaveEnded")
        assert.strictEqual(told.filter(({ _tag }) => _tag === "WaveEvent").length, names.length)
      }),
      { told }
    )
  }, { tags: ["SV2"] })

  it.effect("ends at once where it has no calls", () =>
    run(
      world().tools,
      Effect.gen(function*() {
        const wave = yield* (yield* (yield* Waves).submit(ada, { message: message(), format: "openai" })).ended
        assert.deepStrictEqual([wave.status, wave.calls, wave.messages], ["ended", 0, []])
        assert.strictEqual(wave.end?._tag, "ToolsEnd")
      })
    ))

  it.effect("is refused where it is wrong, with the place, and nothing has begun", () => {
    const { begun, tools } = world()
    return run(
      tools,
      Effect.gen(function*() {
        const waves = yield* Waves
        const wrong = {
          role: "assistant",
          tool_calls: [...message("read").tool_calls, { id: 7, type: "function", function: { name: "read" } }]
        }
        const error = yield* Effect.flip(waves.submit(ada, { message: wrong, format: "openai" }))
        assert.strictEqual(error._tag, "Invalid")
        const [first] = error._tag === "Invalid" ? error.errors : []
        assert.strictEqual(first?.path, "message.tool_calls[1].id")
        assert.isString(first?.problem)
        assert.isString(first?.expected)
        assert.deepStrictEqual(begun, [])
        assert.deepStrictEqual(yield* waves.list, [])
        const many = yield* Effect.flip(waves.submit(ada, { message: message("read", "read", "read") }))
        assert.strictEqual(many._tag, "Invalid")
      }),
      { waves: { maxCalls: 2 } }
    )
  }, { tags: ["SV2"] })

  it.effect("is run once, wherever those who hand it over at once are interleaved", () =>
    Effect.forEach(Array.from({ length: 20 }, (_, steps) => steps + 5), (steps) => {
      const { begun, tools } = world()
      return run(
        tools,
        Effect.gen(function*() {
          const waves = yield* Waves
          const one = { message: message("read"), wave: "w" }
          const all = yield* Effect.forEach(
            Array.from({ length: 4 }),
            () => Effect.provideService(waves.submit(ada, one), Scheduler.MaxOpsBeforeYield, steps),
            { concurrency: "unbounded" }
          )
          yield* Effect.forEach(all, (it) => it.ended, { concurrency: "unbounded" })
          assert.deepStrictEqual(begun, ["c0"])
        })
      )
    }, { discard: true }))

  it.effect("is run once, however often and by how many it is submitted under its name", () => {
    const { begun, tools } = world()
    return run(
      tools,
      Effect.gen(function*() {
        const waves = yield* Waves
        const one = { message: message("slow"), wave: "w" }
        const all = yield* Effect.forEach(Array.from({ length: 20 }), () => waves.submit(ada, one), {
          concurrency: "unbounded"
        })
        const ended = yield* Effect.forEach(all, (it) => it.ended, { concurrency: "unbounded" })
        assert.strictEqual(new Set(ended.map((it) => JSON.stringify(it))).size, 1)
        // long after its end, too, and whatever the order of its keys
        yield* Effect.sleep("5 minutes")
        const { role, tool_calls } = one.message
        const late = yield* waves.submit(ada, { message: { tool_calls, role }, wave: "w" })
        assert.deepStrictEqual(yield* late.wave, ended[0])
        assert.deepStrictEqual(begun, ["c0"])
        const other = yield* Effect.flip(waves.submit(ada, { message: message("read"), wave: "w" }))
        assert.strictEqual(other._tag, "WaveConflict")
        const turn = yield* Effect.flip(waves.submit(ada, { ...one, turn: "t" }))
        assert.strictEqual(turn._tag, "WaveConflict")
        // of another session and another user it is another one
        yield* waves.submit({ ...ada, session: "two" }, { message: message("read"), wave: "w" })
        yield* waves.submit({ ...ada, user: "bob" }, { message: message("read"), wave: "w" })
        assert.lengthOf(yield* waves.list, 3)
      })
    )
  }, { tags: ["SV1"] })

  it.effect("runs on when its client is gone, and is there when it comes again", () =>
    run(
      world().tools,
      Effect.gen(function*() {
        const waves = yield* Waves
        const client = yield* Effect.forkChild(
          Effect.flatMap(
            waves.submit(ada, { message: message("slow", "read"), wave: "w" }),
            (it) => Stream.runDrain(it.events(undefined))
          )
        )
        yield* Effect.sleep("1 second")
        yield* Fiber.interrupt(client)
        const found = Option.getOrThrow(yield* waves.get(ada, "w"))
        assert.strictEqual((yield* found.info).status, "running")
        assert.deepStrictEqual(tagsOf(yield* found.ended), ["Succeeded", "Succeeded"])
        assert.isTrue(Option.isNone(yield* waves.get(ada, "other")))
        assert.isTrue(Option.isNone(yield* waves.get({ ...ada, user: "bob" }, "w")))
      })
    ), { tags: ["SV1"] })

  for (const format of ["native", "effect-ai"] as const) {
    it.effect(`says nothing in ${format} format of what failed inside of a tool, in no answer and no event`, () => {
      const told: Array<LiveItem> = []
      return run(
        world().tools,
        Effect.gen(function*() {
          const waves = yield* Waves
          const calls = [{ id: "1", name: "die", params: {} }, { id: "2", name: "fail", params: {} }]
          const parts = calls.map(({ id, name, params }) => ({ type: "tool-call", id, name, params, options: {} }))
          const handle = yield* waves.submit(ada, {
            message: format === "native" ? calls : { role: "assistant", content: parts, options: {} },
            format
          })
          const wave = yield* handle.ended
          const events = yield* Stream.runCollect(handle.events(undefined))
          assert.notInclude(JSON.stringify([wave, events, told]), "secret")
          assert.include(JSON.stringify(wave.messages), "\"said\":\"no\"")
        }),
        { told }
      )
    })
  }

  it.effect("is refused where there are too many already, and taken once there is room", () =>
    run(
      world().tools,
      Effect.gen(function*() {
        const waves = yield* Waves
        const bob = { user: "bob", session: "one" }
        const slow = { message: message("slow") }
        const tagOf = (effect: Effect.Effect<unknown, { readonly _tag: string }>) =>
          Effect.map(Effect.flip(effect), (it) => it._tag)
        yield* waves.submit(ada, slow)
        yield* waves.submit(ada, slow)
        assert.strictEqual(yield* tagOf(waves.submit(ada, slow)), "TooMany")
        yield* waves.submit(bob, slow)
        assert.strictEqual(yield* tagOf(waves.submit(bob, slow)), "TooMany")
        assert.deepStrictEqual(yield* waves.counts, { sessions: 2, waves: 3 })
        yield* Effect.sleep("3 minutes")
        assert.deepStrictEqual(yield* waves.counts, { sessions: 2, waves: 0 })
        // two sessions of one user, and three of all
        yield* waves.submit({ ...ada, session: "two" }, slow)
        assert.strictEqual(yield* tagOf(waves.submit({ ...ada, session: "three" }, slow)), "TooMany")
        assert.strictEqual(yield* tagOf(waves.tools({ ...ada, session: "three" })), "TooMany")
        assert.strictEqual(yield* tagOf(waves.submit({ user: "eve", session: "one" }, slow)), "TooMany")
        assert.deepStrictEqual((yield* waves.tools(ada)).map((it) => it.name).sort(), Object.keys(world().tools).sort())
        assert.deepStrictEqual(yield* waves.sessions("ada"), [{ session: "one", waves: 0 }, {
          session: "two",
          waves: 1
        }])
      }),
      { waves: { maxWaves: 3, maxWavesPerUser: 2, maxSessions: 3, maxSessionsPerUser: 2 } }
    ))

  it.effect("is forgotten some time after its end, and its session some time after that", () =>
    run(
      world().tools,
      Effect.gen(function*() {
        const waves = yield* Waves
        yield* Effect.flatMap(waves.submit(ada, { message: message("read"), wave: "w" }), (it) => it.ended)
        yield* Effect.sleep("5 minutes")
        assert.lengthOf(yield* waves.list, 1)
        yield* Effect.sleep("20 minutes")
        assert.lengthOf(yield* waves.list, 0)
        assert.isTrue(Option.isNone(yield* waves.get(ada, "w")))
        yield* Effect.sleep("2 hours")
        assert.deepStrictEqual(yield* waves.counts, { sessions: 0, waves: 0 })
      })
    ))

  it.effect("is let go of sooner where there are many that have ended, or large ones, and is found again", () =>
    run(
      world().tools,
      Effect.gen(function*() {
        const waves = yield* Waves
        const hand = (wave: string, padding = "") =>
          Effect.flatMap(
            waves.submit(ada, { message: { ...message("read"), content: padding }, wave }),
            (it) => it.ended
          )
        const names = Effect.flatMap(Effect.andThen(Effect.sleep(1), waves.list), (all) =>
          Effect.forEach(all, (it) => Effect.map(it.info, ({ wave }) => wave)))
        for (const name of ["a", "b", "c", "d"]) {
          yield* hand(name)
        }
        assert.deepStrictEqual(yield* names, ["b", "c", "d"])
        yield* hand("e", "x".repeat(15_000))
        assert.deepStrictEqual(yield* names, ["c", "d", "e"])
        yield* hand("f", "x".repeat(15_000))
        assert.deepStrictEqual(yield* names, ["f"])
        const found = Option.getOrThrow(yield* waves.get(ada, "a"))
        assert.deepStrictEqual(tagsOf(yield* found.wave), ["Succeeded"])
      }),
      { waves: { maxListed: 3, listedChars: 25_000 } }
    ))

  it.effect("counts what its tools emitted and was not kept", () =>
    run(
      world().tools,
      Effect.gen(function*() {
        const handle = yield* (yield* Waves).submit(ada, { message: message("chatty") })
        yield* handle.ended
        const events = yield* Stream.runCollect(handle.events(undefined))
        assert.deepStrictEqual(events.flatMap(({ data }) => data._tag === "Gap" ? [data.dropped] : []), [40])
        assert.strictEqual(events.filter(({ event }) => event === "tool_status").length, 10)
        assert.lengthOf((yield* handle.happened(0)).events, events.length - 1)
      }),
      { waves: { keptEvents: 10 } }
    ))
})

describe("a wave", () => {
  it.effect("is cancelled as a whole, or in the calls of an id while the others go on", () =>
    run(
      world().tools,
      Effect.gen(function*() {
        const waves = yield* Waves
        const handle = yield* waves.submit(ada, { message: message("endless", "slow", "endless") })
        yield* Effect.forkChild(handle.cancel({ callId: "c0", reason: "not that" }))
        yield* Effect.sleep("2 minutes")
        assert.strictEqual((yield* handle.info).status, "running")
        yield* handle.cancel({ reason: "enough" })
        assert.deepStrictEqual(tagsOf(yield* handle.ended), ["Cancelled", "Succeeded", "Cancelled"])
        // nothing is left to cancel
        yield* handle.cancel({ reason: "enough" })
        yield* handle.cancel({ callId: "c0", reason: "not that" })
      })
    ))

  it.effect("is cancelled with its session, for good", () =>
    run(
      world().tools,
      Effect.gen(function*() {
        const waves = yield* Waves
        const handle = yield* waves.submit(ada, { message: message("endless", "endless"), turn: "t" })
        const other = yield* waves.submit({ ...ada, session: "two" }, { message: message("slow") })
        yield* Effect.sleep("1 second")
        assert.isTrue(yield* waves.endSession(ada))
        const wave = yield* handle.ended
        assert.strictEqual(wave.status, "ended")
        assert.deepStrictEqual(tagsOf(wave), ["Cancelled", "Cancelled"])
        assert.deepStrictEqual(yield* waves.sessions("ada"), [{ session: "two", waves: 1 }])
        assert.isFalse(yield* waves.endSession(ada))
        assert.deepStrictEqual(tagsOf(yield* other.ended), ["Succeeded"])
        // and begins anew
        const again = yield* waves.submit(ada, { message: message("read"), turn: "t" })
        assert.deepStrictEqual(tagsOf(yield* again.ended), ["Succeeded"])
      })
    ))
})

describe("an answer that is confirmed", () => {
  const bob = { name: "bob", run: false, approve: ["*"], records: [], operate: false }

  /** A journal that takes a second for each append. */
  const slow = Layer.effect(
    Journal.Journal,
    Effect.map(Journal.Journal, (journal) => ({
      ...journal,
      append: (...args: Parameters<typeof journal.append>) => Effect.delay(journal.append(...args), "1 second")
    }))
  ).pipe(Layer.provide(Journal.layerMemory()))

  const options: Options = { policy: { default: "allow", ask: ["read", { tool: "ask", approvers: { count: 2 } }] } }

  /** What is on record as soon as the only request has been answered by each of these. */
  const recorded = (tool: string, answer: Approvals.Answer, ...names: ReadonlyArray<string>) =>
    VirtualTime.run(
      Effect.gen(function*() {
        const [journal, pending, waves] = [yield* Journal.Journal, yield* PendingApprovals, yield* Waves]
        yield* waves.submit(ada, { message: message(tool), wave: "w" })
        const open = Effect.map(pending.list(bob), (it) => it.open)
        yield* Effect.repeat(Effect.sleep("1 second"), { until: () => Effect.map(open, (it) => it.length > 0) })
        for (const name of names) {
          const [request] = yield* open
          yield* pending.answer({ ...bob, name }, { id: request!.id, hash: request!.hash, answer })
        }
        const all = yield* Stream.runCollect(journal.read({}))
        return all.flatMap(({ entry }) =>
          entry._tag === "Answered" || entry._tag === "ApprovedBy" ? [`${entry._tag} ${JSON.stringify(entry)}`] : []
        )
      }).pipe(Effect.provide(inMemory(world().tools, options, slow)), Effect.scoped),
      { limit: "3 days" }
    )

  it.effect("is on record, also a denial and the first of several approvals", () =>
    Effect.gen(function*() {
      const approved = yield* recorded("read", { _tag: "ApproveOnce" }, "bob")
      assert.lengthOf(approved, 1)
      assert.match(approved[0]!, /^Answered .*"ApproveOnce"/)
      const denied = yield* recorded("read", { _tag: "Deny" }, "bob")
      assert.match(denied[0]!, /^Answered .*"Deny"/)
      const [first, ...others] = yield* recorded("ask", { _tag: "ApproveOnce" }, "bob")
      assert.match(first!, /^ApprovedBy .*"bob"/)
      assert.lengthOf(others, 0)
      assert.lengthOf(yield* recorded("ask", { _tag: "ApproveOnce" }, "bob", "cy"), 3)
    }), { tags: ["SV10"] })
})

describe("a turn", () => {
  const rules = [
    { _tag: "MaxCalls", tool: "read", max: 2 },
    { _tag: "RequiresPrecedingTools", tool: "ask", tools: ["slow"] }
  ] as const

  const hand = Effect.fnUntraced(function*(turn: string | undefined, ...names: ReadonlyArray<string>) {
    const handle = yield* (yield* Waves).submit(ada, {
      message: message(...names),
      ...turn === undefined ? {} : { turn }
    })
    return tagsOf(yield* handle.ended)
  })

  it.effect("has its limits and the order of its rules over all of its waves, until it is ended or idle for long", () =>
    run(
      world().tools,
      Effect.gen(function*() {
        const waves = yield* Waves
        assert.deepStrictEqual(yield* hand("t", "ask", "read"), ["Denied", "Succeeded"])
        assert.deepStrictEqual(yield* hand("t", "slow", "read"), ["Succeeded", "Succeeded"])
        yield* Effect.sleep("30 minutes")
        assert.deepStrictEqual(yield* hand("t", "ask", "read"), ["Succeeded", "Denied"])
        // another one is on its own, and so is each without a name
        assert.deepStrictEqual(yield* hand("u", "ask", "read"), ["Denied", "Succeeded"])
        assert.deepStrictEqual(yield* hand(undefined, "ask", "read"), ["Denied", "Succeeded"])
        assert.isTrue(yield* waves.endTurn(ada, "t"))
        assert.isFalse(yield* waves.endTurn(ada, "t"))
        assert.isFalse(yield* waves.endTurn({ ...ada, user: "bob" }, "u"))
        assert.deepStrictEqual(yield* hand("t", "ask", "read"), ["Denied", "Succeeded"])
        assert.deepStrictEqual(yield* hand("u", "slow"), ["Succeeded"])
        yield* Effect.sleep("2 hours")
        assert.deepStrictEqual(yield* hand("u", "ask", "read", "read", "read"), [
          "Denied",
          "Succeeded",
          "Succeeded",
          "Denied"
        ])
      }),
      { rules }
    ))

  it.effect("that is ended cancels what runs of it", () =>
    run(
      world().tools,
      Effect.gen(function*() {
        const waves = yield* Waves
        const handle = yield* waves.submit(ada, { message: message("endless"), turn: "t" })
        yield* Effect.sleep("1 second")
        assert.isTrue(yield* waves.endTurn(ada, "t"))
        assert.deepStrictEqual(tagsOf(yield* handle.ended), ["Cancelled"])
      })
    ))

  it("remembers what waves side by side have seen, whichever ends first", () => {
    const state = (succeeded: ReadonlyArray<string>, calls: number, blocked: ReadonlyArray<string> = []) => ({
      rules: { succeeded, succeededInBatch: succeeded, exitWanted: false, held: 0, letThrough: false },
      blocked: blocked.map((tool) => ({ tool, because: "it failed" })),
      calls
    })
    const before = state(["a"], 3)
    const [one, other] = [state(["a", "b"], 5, ["x"]), state(["a", "c"], 4, ["x", "y"])]
    const first = Turns.joined(before, before, one)
    assert.strictEqual(first, one)
    assert.deepStrictEqual(Turns.joined(first, before, other), state(["a", "b", "c"], 6, ["x", "y"]))
    assert.strictEqual(Turns.joined(Turns.joined(before, before, other), before, one).calls, 6)
    assert.strictEqual(Turns.joined(undefined, undefined, one), one)
  })
})

describe("a server that stops", () => {
  it.effect("takes nothing more, gives what runs its time, and then suspends what has not begun", () => {
    const { begun, tools } = world()
    return run(
      tools,
      Effect.gen(function*() {
        const waves = yield* Waves
        const approvals = yield* PendingApprovals
        const hand = (session: string, ...names: ReadonlyArray<string>) =>
          waves.submit({ ...ada, session }, { message: message(...names), wave: "w" })
        const [done, running, asked, long] = [
          yield* hand("done", "slow"),
          yield* hand("running", "endless"),
          yield* hand("asked", "ask"),
          yield* hand("long", "slow", "slow", "slow")
        ]
        yield* Effect.sleep("1 second")
        const from = yield* VirtualTime.now
        const stopping = yield* Effect.forkChild(
          Effect.all([waves.drain("90 seconds"), approvals.suspend("the server is stopping")], { concurrency: 2 }),
          { startImmediately: true }
        )
        const refused = yield* Effect.flip(hand("new", "read"))
        assert.strictEqual(refused._tag, "Unavailable")
        // what waits for a person does not wait for the others
        const suspended = yield* asked.ended
        assert.strictEqual(suspended.status, "suspended")
        assert.strictEqual(suspended.end?._tag, "WaveSuspended")
        assert.isUndefined(suspended.messages)
        assert.strictEqual((yield* VirtualTime.now) - from, 0)
        yield* Fiber.join(stopping)
        assert.isAtMost((yield* VirtualTime.now) - from, 100_000)
        assert.deepStrictEqual(tagsOf(yield* done.wave), ["Succeeded"])
        const stopped = yield* running.wave
        assert.strictEqual(stopped.status, "ended")
        assert.deepStrictEqual(tagsOf(stopped), ["Cancelled"])
        assert.strictEqual((yield* namesOf(running)).at(-1), "tools_end")
        const rest = yield* long.wave
        assert.strictEqual(rest.status, "suspended")
        assert.deepStrictEqual(rest.end?._tag === "WaveSuspended" ? rest.end.calls : [], ["c2"])
        assert.strictEqual((yield* namesOf(long)).at(-1), "wave_suspended")
        assert.strictEqual(begun.length, 4)
        // those that are there are still found, by their names or handed over again
        assert.deepStrictEqual(tagsOf(yield* Effect.flatMap(hand("done", "slow"), (it) => it.wave)), ["Succeeded"])
        assert.strictEqual(
          (yield* Effect.flatMap(hand("long", "slow", "slow", "slow"), (it) => it.info)).status,
          "suspended"
        )
        assert.isTrue(Option.isSome(yield* waves.get({ ...ada, session: "long" }, "w")))
      }),
      { policy: { default: "allow", ask: ["ask"] } }
    )
  }, { tags: ["SV9"] })

  it.effect("waits no longer than what runs", () =>
    run(
      world().tools,
      Effect.gen(function*() {
        const waves = yield* Waves
        yield* waves.submit(ada, { message: message("slow") })
        const from = yield* VirtualTime.now
        yield* waves.drain("1 hour")
        assert.strictEqual((yield* VirtualTime.now) - from, 60_000)
        assert.isTrue(Exit.isSuccess(yield* Effect.exit(waves.drain(0))))
      })
    ))
})
