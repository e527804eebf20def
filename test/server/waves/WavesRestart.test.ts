/** A server that is stopped or killed, and started again over the same database. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Approvals, ToolContext, type ToolRule } from "../../../src/index.ts"
import type { Wave } from "../../../src/server/api/ApiModels.ts"
import { PendingApprovals } from "../../../src/server/approvals/PendingApprovals.ts"
import { type Handle, Waves } from "../../../src/server/waves/Waves.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import type { ToolSpec } from "../../support/Harness.ts"
import { ada, begin, type Life, message, type Options, type Tools } from "../../support/Served.ts"

/** Tools whose slow ones never end in their first life, and the calls of them that have begun. */
const world = () => {
  const begun: Array<string> = []
  const spec = (how: Partial<ToolSpec>, rest: (life: number) => Effect.Effect<unknown>): ToolSpec => ({
    class: "SerialMut",
    ...how,
    handler: ({ index }) =>
      Effect.flatMap(ToolContext.ToolContext, () => {
        begun.push(String(index))
        return rest(lives.now)
      })
  })
  const lives = { now: 1 }
  const tools: Tools = {
    read: spec({ class: "ReadOnly" }, () => Effect.succeed("text")),
    write: spec({}, () => Effect.succeed("written")),
    slow: spec({}, (life) => life === 1 ? Effect.never : Effect.succeed("slow")),
    patient: spec({ class: "ReadOnly" }, (life) => life === 1 ? Effect.never : Effect.succeed("at last"))
  }
  return { begun, tools, lives }
}

const file = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "waves-"))),
    (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
  ),
  (folder) => join(folder, "server.db")
)

const test = <A, E>(
  name: string,
  program: (filename: string) => Effect.Effect<A, E, Scope.Scope>,
  options?: { tags: Array<string> }
) => it.effect(name, () => VirtualTime.run(Effect.scoped(Effect.flatMap(file, program)), { limit: "10 days" }), options)

const wavesOf = ({ context }: Life) => Context.get(context, Waves)

const tagsOf = (wave: Wave): ReadonlyArray<string> =>
  wave.end !== undefined && "executionResults" in wave.end ? wave.end.executionResults.map((it) => it._tag) : []

/** Without heartbeats: how many there are is a matter of how long a lease takes. */
const eventsOf = (handle: Handle, after?: string) =>
  Stream.runCollect(Stream.filter(handle.events(after), ({ event }) => event !== "heartbeat"))

const found = (life: Life, wave: string) => Effect.map(wavesOf(life).get(ada, wave), Option.getOrThrow)

const everybody = { name: "bob", run: false, approve: ["*"], records: [], operate: false }

describe("a server that is killed and started again", () => {
  test("continues what had no end, once the dead one is taken for dead", (filename) =>
    Effect.gen(function*() {
      const { begun, lives, tools } = world()
      const first = yield* begin(filename, tools)
      yield* wavesOf(first).submit(ada, { message: message("write", "slow", "write"), wave: "w", turn: "t" })
      yield* wavesOf(first).submit({ ...ada, session: "two" }, { message: message("patient"), wave: "w" })
      yield* Effect.sleep("1 second")
      yield* first.kill
      assert.deepStrictEqual(begun.toSorted(), ["0", "0", "1"])
      lives.now++
      const second = yield* begin(filename, tools)
      assert.lengthOf(yield* wavesOf(second).list, 2)
      const handle = yield* found(second, "w")
      const wave = yield* handle.ended
      // what was written is not written again, and what may have been nobody knows
      assert.deepStrictEqual(tagsOf(wave), ["Succeeded", "Unknown", "Succeeded"])
      assert.strictEqual(wave.status, "ended")
      assert.lengthOf(wave.messages as ReadonlyArray<unknown>, 3)
      const [other] = (yield* wavesOf(second).list).filter(({ owner }) => owner.session === "two")
      assert.deepStrictEqual(tagsOf(yield* other!.ended), ["Succeeded"])
      assert.deepStrictEqual(begun.toSorted(), ["0", "0", "0", "1", "2"])
      const events = yield* eventsOf(handle)
      const names = events.map(({ event }) => event)
      assert.deepStrictEqual(names.slice(0, 3), ["tool_call_queued", "tool_call_queued", "tool_call_queued"])
      assert.strictEqual(names.filter((it) => it === "tool_call_complete").length, 3)
      assert.strictEqual(names.filter((it) => it === "tools_end" || it === "wave_suspended").length, 1)
      assert.strictEqual(names.at(-1), "tools_end")
    }), { tags: ["SV7"] })

  test(
    "continues a message with a call whose arguments are nested too deeply, which is refused",
    (filename) =>
      Effect.gen(function*() {
        const { lives, tools } = world()
        const first = yield* begin(filename, tools)
        const { tool_calls: [deep, ...others], ...rest } = message("patient", "patient", "write")
        const nested = { ...deep!, function: { name: "write", arguments: "[".repeat(20_000) + "]".repeat(20_000) } }
        yield* wavesOf(first).submit(ada, { message: { ...rest, tool_calls: [nested, ...others] }, wave: "w" })
        yield* Effect.sleep("1 second")
        yield* first.kill
        lives.now++
        const second = yield* begin(filename, tools)
        const wave = yield* Effect.flatMap(found(second, "w"), ({ ended }) => ended)
        assert.deepStrictEqual(tagsOf(wave), ["Denied", "Succeeded", "Succeeded"])
      }),
    { tags: ["SV7"] }
  )

  test("goes on at once where nobody else can be there, however long leases are", (filename) =>
    Effect.gen(function*() {
      const { lives, tools } = world()
      const alone = {
        lease: "10 hours",
        isAlone: true,
        rules: [{ _tag: "Cooldown", tool: "patient", duration: "1 second" }]
      } as const
      const first = yield* begin(filename, tools, alone)
      yield* wavesOf(first).submit(ada, { message: message("write", "patient", "write"), wave: "w", turn: "t" })
      yield* Effect.sleep("1 second")
      yield* first.kill
      lives.now++
      const second = yield* begin(filename, tools, alone)
      assert.deepStrictEqual(tagsOf(yield* (yield* found(second, "w")).ended), ["Succeeded", "Succeeded", "Succeeded"])
    }))

  test("says to whoever followed it before that all is void, and tells everything anew", (filename) =>
    Effect.gen(function*() {
      const { lives, tools } = world()
      const first = yield* begin(filename, tools)
      const handle = yield* wavesOf(first).submit(ada, { message: message("write", "patient"), wave: "w" })
      yield* Effect.sleep("1 second")
      const seen = yield* Stream.runCollect(Stream.take(handle.events(undefined), 3))
      const last = seen.at(-1)!.id
      yield* first.kill
      lives.now++
      const second = yield* begin(filename, tools)
      const again = yield* found(second, "w")
      const rest = yield* eventsOf(again, last)
      assert.strictEqual(rest[0]?.event, "reset")
      assert.strictEqual(rest[1]?.event, "tool_call_queued")
      assert.strictEqual(rest.at(-1)?.event, "tools_end")
      // and goes on behind that, in this life
      assert.deepStrictEqual(yield* eventsOf(again, rest.at(-3)!.id), rest.slice(-2))
    }))

  test("asks a person again under the same id, and only once", (filename) =>
    Effect.gen(function*() {
      const { begun, lives, tools } = world()
      const options: Options = { policy: { default: "allow", ask: ["write"] } }
      const first = yield* begin(filename, tools, options)
      yield* wavesOf(first).submit(ada, { message: message("write"), wave: "w" })
      yield* Effect.sleep("1 minute")
      const [asked] = yield* Context.get(first.context, Approvals.Approvals).list
      yield* first.kill
      lives.now++
      const second = yield* begin(filename, tools, options)
      const approvals = Context.get(second.context, Approvals.Approvals)
      yield* Effect.repeat(Effect.sleep("1 second"), { until: () => Effect.map(approvals.list, (it) => it.length > 0) })
      const requests = yield* approvals.list
      assert.deepStrictEqual(requests.map((it) => [it.id, it.requestedAt, it.expiresAt]), [
        [asked!.id, asked!.requestedAt, asked!.expiresAt]
      ])
      const [approval] = (yield* Context.get(second.context, PendingApprovals).list(everybody)).open
      assert.strictEqual(approval?.id, asked?.id)
      yield* approvals.answer(asked!.id, { _tag: "ApproveOnce" })
      assert.deepStrictEqual(tagsOf(yield* (yield* found(second, "w")).ended), ["Succeeded"])
      assert.deepStrictEqual(begun, ["0"])
    }), { tags: ["SV7"] })

  test(
    "goes on with nothing of a user who may not run calls any more: recorded outcomes are returned",
    (filename) =>
      Effect.gen(function*() {
        const { begun, lives, tools } = world()
        const options: Options = { policy: { default: "allow", ask: ["patient"] } }
        const first = yield* begin(filename, tools, options)
        const open = message("write", "slow", "read", "write", "patient")
        yield* wavesOf(first).submit(ada, { message: open, wave: "w", turn: "t" })
        yield* wavesOf(first).submit({ ...ada, session: "two" }, { message: message("patient"), wave: "asks" })
        yield* wavesOf(first).submit({ user: "bob", session: "one" }, { message: message("slow"), wave: "w" })
        yield* Effect.sleep("1 second")
        yield* first.kill
        lives.now++
        const second = yield* begin(filename, tools, { ...options, mayRun: (user) => user === "bob" })
        const handle = yield* found(second, "w")
        assert.deepStrictEqual(tagsOf(yield* handle.ended), [
          "Succeeded",
          "Unknown",
          "Cancelled",
          "Cancelled",
          "Cancelled"
        ])
        const asks = Option.getOrThrow(yield* wavesOf(second).get({ ...ada, session: "two" }, "asks"))
        assert.deepStrictEqual(tagsOf(yield* asks.ended), ["Cancelled"])
        // those of others go on
        const bobs = Option.getOrThrow(yield* wavesOf(second).get({ user: "bob", session: "one" }, "w"))
        assert.deepStrictEqual(tagsOf(yield* bobs.ended), ["Unknown"])
        // what was killed may still read; nothing behind it was begun by anybody
        assert.deepStrictEqual(begun.filter((index) => index === "3" || index === "4"), [])
        assert.lengthOf(yield* Context.get(second.context, Approvals.Approvals).list, 0)
        assert.lengthOf((yield* Context.get(second.context, PendingApprovals).list(everybody)).open, 0)
        // it has its end: the next start does not find it open
        yield* second.close
        const third = yield* begin(filename, tools, options)
        assert.lengthOf(yield* wavesOf(third).list, 0)
      }),
    { tags: ["SV8"] }
  )

  test(
    "has the same wave, results and events for a client that submits it again or asks",
    (filename) =>
      Effect.gen(function*() {
        const { begun, tools } = world()
        const first = yield* begin(filename, tools, { lease: "10 hours" })
        const one = { message: message("write", "read", "none"), wave: "w" }
        const handle = yield* wavesOf(first).submit(ada, one)
        const wave = yield* handle.ended
        const events = (yield* eventsOf(handle)).map(({ data }) => data)
        yield* first.kill
        yield* Effect.sleep("2 hours")
        const second = yield* begin(filename, tools, { lease: "10 hours" })
        assert.lengthOf(yield* wavesOf(second).list, 0)
        const again = yield* wavesOf(second).submit(ada, one)
        assert.deepStrictEqual(yield* again.wave, wave)
        assert.deepStrictEqual((yield* eventsOf(again)).map(({ data }) => data), events)
        const other = yield* Effect.flip(wavesOf(second).submit(ada, { ...one, message: message("read") }))
        assert.strictEqual(other._tag, "WaveConflict")
        assert.deepStrictEqual(begun, ["0", "1"])
        // a day later nobody knows it any more
        yield* Effect.sleep("25 hours")
        assert.isTrue(Option.isNone(yield* wavesOf(second).get(ada, "w")))
      }),
    { tags: ["SV7"] }
  )

  const rules: ReadonlyArray<ToolRule.ToolRule> = [{ _tag: "RequiresPrecedingTools", tool: "read", tools: ["write"] }]

  test("goes on with an open turn where its rules were", (filename) =>
    Effect.gen(function*() {
      const { tools } = world()
      const hand = (life: Life, turn: string, ...names: ReadonlyArray<string>) =>
        Effect.flatMap(wavesOf(life).submit(ada, { message: message(...names), turn }), (it) => it.ended)
      const first = yield* begin(filename, tools, { rules })
      yield* hand(first, "t", "write")
      yield* hand(first, "over", "write")
      assert.isTrue(yield* wavesOf(first).endTurn(ada, "over"))
      yield* first.kill
      const second = yield* begin(filename, tools, { rules })
      assert.deepStrictEqual(tagsOf(yield* hand(second, "t", "read")), ["Succeeded"])
      assert.deepStrictEqual(tagsOf(yield* hand(second, "over", "read")), ["Denied"])
      yield* second.close
      const third = yield* begin(filename, tools, { rules })
      assert.deepStrictEqual(tagsOf(yield* hand(third, "t", "read")), ["Succeeded"])
      yield* third.close
      const fourth = yield* begin(filename, tools, { rules })
      assert.isTrue(yield* wavesOf(fourth).endTurn(ada, "t"))
      assert.isFalse(yield* wavesOf(fourth).endTurn(ada, "t"))
      assert.deepStrictEqual(tagsOf(yield* hand(fourth, "t", "read")), ["Denied"])
    }))

  test("says of calls that nobody has a record of that nobody knows", (filename) =>
    Effect.gen(function*() {
      const { begun, tools } = world()
      const first = yield* begin(filename, tools, { hasJournal: false })
      yield* wavesOf(first).submit(ada, { message: message("write", "slow"), wave: "w" })
      yield* Effect.sleep("1 second")
      yield* first.kill
      const second = yield* begin(filename, tools, { hasJournal: false })
      const handle = yield* found(second, "w")
      const wave = yield* handle.ended
      assert.deepStrictEqual(tagsOf(wave), ["Unknown", "Unknown"])
      assert.lengthOf(wave.messages as ReadonlyArray<unknown>, 2)
      assert.strictEqual((yield* eventsOf(handle)).length, 5)
      assert.deepStrictEqual(begun, ["0", "1"])
    }))
})

describe("a server that is stopped and started again", () => {
  const limits: ReadonlyArray<ToolRule.ToolRule> = [
    { _tag: "MaxCalls", tool: "read", max: 2 },
    { _tag: "ExclusiveGroup", tools: ["write", "also"] }
  ]
  const hand = (life: Life, turn: string | undefined, ...names: ReadonlyArray<string>) =>
    Effect.flatMap(
      wavesOf(life).submit(ada, { message: message(...names), ...turn === undefined ? {} : { turn } }),
      (it) => Effect.map(it.ended, tagsOf)
    )

  test("lets no turn pass its limits, until it is ended or was idle for long", (filename) =>
    Effect.gen(function*() {
      const { lives, tools: some } = world()
      const tools = { ...some, also: { class: "SerialMut", handler: () => Effect.succeed("also") } } as const
      const options = { rules: limits, waves: { turnIdle: "40 minutes" } } as const
      const first = yield* begin(filename, tools, options)
      for (const turn of ["t", "ended", "later", "idle"]) {
        assert.deepStrictEqual(yield* hand(first, turn, "read", "write"), ["Succeeded", "Succeeded"])
      }
      // the executor is told to end, while those turns are open
      yield* wavesOf(first).submit(ada, { message: message("slow") })
      yield* Effect.sleep("1 second")
      yield* wavesOf(first).drain("1 second")
      yield* first.close
      lives.now++
      const second = yield* begin(filename, tools, options)
      assert.deepStrictEqual(yield* hand(second, "t", "read", "read", "also", "write"), [
        "Succeeded",
        "Denied",
        "Denied",
        "Succeeded"
      ])
      assert.deepStrictEqual(yield* hand(second, "idle", "also"), ["Denied"])
      assert.isTrue(yield* wavesOf(second).endTurn(ada, "ended"))
      yield* second.close
      // nobody takes it for dead in all that time, and it need not say so
      const third = yield* begin(filename, tools, { ...options, lease: "2 hours" })
      assert.deepStrictEqual(yield* hand(third, "t", "read"), ["Denied"])
      assert.deepStrictEqual(yield* hand(third, "ended", "read", "read", "also"), [
        "Succeeded",
        "Succeeded",
        "Succeeded"
      ])
      assert.deepStrictEqual(yield* hand(third, "idle", "read"), ["Succeeded"])
      yield* Effect.sleep("45 minutes")
      assert.deepStrictEqual(yield* hand(third, "idle", "read", "read", "also"), [
        "Succeeded",
        "Succeeded",
        "Succeeded"
      ])
    }), { tags: ["SV15"] })

  test("counts anew in a turn that is ended while it runs", (filename) =>
    Effect.gen(function*() {
      const { tools } = world()
      const first = yield* begin(filename, tools, { rules: limits.slice(0, 1) })
      const running = yield* wavesOf(first).submit(ada, { message: message("read", "read", "slow"), turn: "t" })
      yield* Effect.sleep("1 second")
      assert.isTrue(yield* wavesOf(first).endTurn(ada, "t"))
      assert.deepStrictEqual(tagsOf(yield* running.ended), ["Succeeded", "Succeeded", "Cancelled"])
      assert.deepStrictEqual(yield* hand(first, "t", "read"), ["Succeeded"])
    }))

  test("goes on with what had not begun, and asks again what was unanswered", (filename) =>
    Effect.gen(function*() {
      const { begun, lives, tools } = world()
      const options: Options = { policy: { default: "allow", ask: ["write"] } }
      const first = yield* begin(filename, tools, options)
      const waves = wavesOf(first)
      const asked = yield* waves.submit(ada, { message: message("write"), wave: "asked" })
      const long = yield* waves.submit({ ...ada, session: "two" }, { message: message("slow", "slow"), wave: "long" })
      yield* Effect.sleep("1 second")
      const [before] = yield* Context.get(first.context, Approvals.Approvals).list
      yield* Effect.all([
        waves.drain("5 seconds"),
        Context.get(first.context, PendingApprovals).suspend("the server is stopping")
      ], { concurrency: 2 })
      assert.deepStrictEqual([(yield* asked.info).status, (yield* long.info).status], ["suspended", "suspended"])
      assert.strictEqual((yield* eventsOf(asked)).at(-1)?.event, "wave_suspended")
      yield* first.close
      lives.now++
      const second = yield* begin(filename, tools, options)
      yield* Effect.sleep("1 second")
      const approvals = Context.get(second.context, Approvals.Approvals)
      const [again] = yield* approvals.list
      assert.deepStrictEqual([again?.id, again?.expiresAt], [before?.id, before?.expiresAt])
      yield* approvals.answer(again!.id, { _tag: "ApproveOnce" })
      assert.deepStrictEqual(tagsOf(yield* (yield* found(second, "asked")).ended), ["Succeeded"])
      const [other] = (yield* wavesOf(second).list).filter(({ owner }) => owner.session === "two")
      // what ran when it was told to stop has that for its end
      assert.deepStrictEqual(tagsOf(yield* other!.ended), ["Cancelled", "Succeeded"])
      assert.deepStrictEqual(begun.toSorted(), ["0", "0", "1"])
    }), { tags: ["SV9"] })

  test("goes on even where nobody waited for anything to end", (filename) =>
    Effect.gen(function*() {
      const { lives, tools } = world()
      const first = yield* begin(filename, tools)
      const handle = yield* wavesOf(first).submit(ada, { message: message("write", "patient", "write"), wave: "w" })
      yield* Effect.sleep("1 second")
      yield* first.close
      assert.strictEqual((yield* handle.info).status, "suspended")
      assert.strictEqual((yield* eventsOf(handle)).at(-1)?.event, "wave_suspended")
      lives.now++
      const second = yield* begin(filename, tools)
      const wave = yield* (yield* found(second, "w")).ended
      assert.deepStrictEqual(tagsOf(wave), ["Succeeded", "Cancelled", "Succeeded"])
    }))
})
