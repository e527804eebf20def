/** How often a database is asked for a call, and that what was not asked is right all the same. */
import { assert, describe, it, layer } from "@effect/vitest"
import { SqlJournal } from "effect-tool-executor/sql"
import * as Sqlite from "effect-tool-executor/sqlite"
import type * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import * as TestClock from "effect/testing/TestClock"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { SharedPermits } from "../../src/core/gates/PermitSource.ts"
import * as Pools from "../../src/core/gates/Pools.ts"
import { SessionRegistry } from "../../src/core/store/SessionRegistry.ts"
import * as StateStore from "../../src/core/store/StateStore.ts"
import { ToolAnnotations } from "../../src/index.ts"
import * as SqlPermits from "../../src/sql/SqlPermits.ts"
import * as SqlSessionRegistry from "../../src/sql/SqlSessionRegistry.ts"
import * as SqlStateStore from "../../src/sql/SqlStateStore.ts"
import { call, open, tags, type ToolSpec } from "../support/Harness.ts"
import * as Postgres from "../support/Postgres.ts"
import { seeds } from "../support/seeds.ts"
import { until } from "../support/silentProxy.ts"
import { counted } from "../support/throughClient.ts"

type Store = StateStore.StateStore["Service"]

const specs: Record<string, ToolSpec> = {
  read: { class: "ReadOnly", handler: ({ n }) => Effect.succeed(n) },
  write: { class: "ConcurrentMut", handler: ({ n }) => Effect.succeed(n) }
}

layer(Postgres.layer)("shared permits in PostgreSQL", (it) => {
  const write = specs["write"]!
  const keyed = { ...write, annotate: (tool: Tool.Any) => tool.annotate(ToolAnnotations.Resources, keysOf) }
  const keysOf = (params: unknown) => ["a", "b"].map((it) => `${it} ${(params as { readonly n: number }).n}`)

  it.effect("are asked once before the calls of a wave start, and once when they have ended", () =>
    Effect.gen(function*() {
      const { client, state } = counted(yield* SqlClient.SqlClient)
      const permits = yield* Effect.provideService(SqlPermits.make(), SqlClient.SqlClient, client)
      const pools = Pools.layer().pipe(Layer.orDie, Layer.provide(Layer.succeed(SharedPermits, permits)))
      const tools = { ...specs, capped: write, keyed, both: keyed }
      const caps = { capped: { maxConcurrent: 8 }, both: { maxConcurrent: 8 } }
      const { process } = yield* open(tools, { dedupe: false, pools, tools: caps })
      const idle = until(Effect.sync(() => state.open === 0))
      const asks = (name: string) =>
        Effect.gen(function*() {
          const before = state.asked
          const calls = Array.from({ length: 8 }, (_, n) => call(`${name}-${n}`, name, { n }))
          const outcomes = tags(yield* process.executeWave(calls))
          assert.lengthOf(outcomes.filter((it) => it === "Succeeded"), 8)
          yield* TestClock.adjust(1)
          yield* idle
          return state.asked - before
        })
      assert.strictEqual(yield* asks("write"), 0)
      assert.strictEqual(yield* asks("capped"), 2)
      assert.strictEqual(yield* asks("keyed"), 2)
      // its keys, then its cap
      assert.strictEqual(yield* asks("both"), 3)
    }).pipe(Effect.scoped, Effect.provide(Postgres.client)))
})

layer(Postgres.layer)("a journal and a state store in PostgreSQL", (it) => {
  const processWith = Effect.fnUntraced(function*(registry: Option.Option<SessionRegistry["Service"]>) {
    const { client, state } = counted(yield* SqlClient.SqlClient)
    const provided = Effect.provideService(SqlClient.SqlClient, client)
    const shared = Option.match(registry, {
      onNone: () => Context.empty(),
      onSome: (it) => Context.make(SessionRegistry, it)
    })
    const made = Effect.provide(Effect.all([SqlJournal.make(), SqlStateStore.make()]), shared)
    const [journal, store] = yield* provided(made)
    const { process } = yield* open(specs, { journal, store })
    yield* process.executeWave([call("first", "write", { n: -1 })])
    const idle = until(Effect.sync(() => state.open === 0))
    /** What a wave asks, after what was asked before it was answered. */
    const asks = (...wave: Parameters<typeof process.executeWave>[0]) =>
      Effect.gen(function*() {
        yield* idle
        Object.assign(state, { asked: 0, inTurn: 0 })
        const outcomes = tags(yield* process.executeWave(wave))
        yield* idle
        return { outcomes, asked: state.asked, inTurn: state.inTurn }
      })
    return { asks }
  })
  const processOf = processWith(Option.none())

  it.effect("are asked as often where processes share sessions", () =>
    Effect.gen(function*() {
      const registry = yield* SqlSessionRegistry.make()
      yield* registry.activate("default")
      const { asks } = yield* processWith(Option.some(registry))
      let all = 0
      for (let n = 0; n < 24; n++) {
        const { asked, outcomes } = yield* asks(call(`${n}`, "write", { n }))
        assert.deepStrictEqual(outcomes, ["Succeeded"])
        all += asked
      }
      assert.isAtMost(all, 24 * 5 + 6)
    }).pipe(Effect.scoped, Effect.provide(Postgres.client)))

  it.effect("are asked five times for a write, three of them one after the other", () =>
    Effect.gen(function*() {
      const { asks } = yield* processOf
      const inTurns: Array<number> = []
      let all = 0
      for (let n = 0; n < 24; n++) {
        const { asked, inTurn, outcomes } = yield* asks(call(`${n}`, "write", { n }))
        assert.deepStrictEqual(outcomes, ["Succeeded"])
        all += asked
        inTurns.push(inTurn)
      }
      // what the first call has to look up, and what nobody waits for, may come on top
      assert.isAtMost(all, 24 * 5 + 6)
      // a connection may have to be opened first
      assert.isAtMost(Math.min(...inTurns), 3)
    }).pipe(Effect.scoped, Effect.provide(Postgres.client)), { tags: ["ST4"] })

  it.effect("are asked as often for many writes of a wave as for a few", () =>
    Effect.gen(function*() {
      const { asks } = yield* processOf
      const many = Array.from({ length: 8 }, (_, n) => call(`many-${n}`, "write", { n }))
      const { asked, outcomes } = yield* asks(...many)
      assert.lengthOf(outcomes.filter((it) => it === "Succeeded"), 8)
      assert.isAtMost(asked, 16)
    }).pipe(Effect.scoped, Effect.provide(Postgres.client)), { tags: ["ST4"] })

  it.effect("are asked once by the state for a read that has run already", () =>
    Effect.gen(function*() {
      const { asks } = yield* processOf
      yield* asks(call("first", "read", { n: 1 }))
      const all: Array<number> = []
      for (let n = 0; n < 8; n++) all.push((yield* asks(call(`${n}`, "read", { n: 1 }))).asked)
      // and the journal has its three entries, in two appends; in three now and then
      assert.isAtMost(Math.min(...all), 3)
    }).pipe(Effect.scoped, Effect.provide(Postgres.client)), { tags: ["ST4"] })
})

/** Numbers that are always the same. */
const numbers = (seed: number) => {
  let state = seed >>> 0
  return (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor(state / 2 ** 32 * below)
  }
}

/** Asks two stores over one database in turn, and one in memory the same: they answer alike. */
const alike = Effect.fnUntraced(function*(stores: ReadonlyArray<Store>, seed: number, steps: number) {
  const memory = StateStore.makeMemory()
  const below = numbers(seed)
  const pick = <A>(of: ReadonlyArray<A>): A => of[below(of.length)]!
  const held: Array<{ mine: StateStore.Reservation; its: StateStore.Reservation; isRunning: boolean }> = []
  /** Answers without what only one store can know. */
  const plain = (answer: unknown) =>
    JSON.stringify(answer, (name, value: unknown) => name === "reservation" ? undefined : value)
  const claimsOf = (): ReadonlyArray<StateStore.Claim> => {
    const [batch, tool] = [pick(["a", "b"]), pick(["s", "t"])]
    const all: ReadonlyArray<StateStore.Claim> = [
      {
        _tag: "Key",
        scope: pick(["wave", "process", "batch", "principal"]),
        principal: "p",
        batch,
        process: "x",
        tool,
        key: pick(["1", "2", "3"]),
        wave: pick(["1", "2"]),
        endsWithWave: below(3) === 0,
        endsWithChange: below(2) === 0,
        ignoreOtherProcesses: false
      },
      { _tag: "Calls", batch, tool, max: 3 },
      { _tag: "Group", batch, group: "g", tool },
      { _tag: "Cooldown", principal: "p", tool, millis: 5 }
    ]
    return all.filter((_, index) => index === 0 ? below(3) > 0 : below(3) === 0)
  }
  for (let step = 0, now = 0; step < steps; step++, now += below(4)) {
    // most often the same one, which remembers then
    const store = stores[below(8) === 0 ? 1 : 0]!
    const action = below(10)
    const one = held.length === 0 ? undefined : pick(held)
    const say = (what: string, mine: unknown, its: unknown) =>
      assert.strictEqual(plain(mine), plain(its), `seed ${seed}, step ${step}: ${what}`)
    if (action < 4) {
      const requests = Array.from({ length: 1 + below(2) }, (_, index) => ({
        owner: `${step}-${index}`,
        session: "s",
        claims: claimsOf(),
        starts: below(2) === 0 ? undefined : { mutates: below(2) === 0 ? undefined : "p" }
      }))
      const mine = yield* store.reserve(requests, now)
      const its: Array<StateStore.Reservation | StateStore.Refused> = []
      for (const [index, { starts, ...request }] of requests.entries()) {
        const [answer] = yield* memory.reserve([request], now)
        its.push(answer!)
        const isTaken = !("_tag" in answer!)
        if (isTaken && starts?.mutates !== undefined) {
          yield* memory.mutated("p", answer as StateStore.Reservation)
        }
        say("reserve", "_tag" in mine[index]! ? mine[index] : "held", isTaken ? "held" : answer)
      }
      for (const [index, it] of mine.entries()) {
        const other = its[index]!
        if (!("_tag" in it) && !("_tag" in other)) held.push({ mine: it, its: other, isRunning: false })
      }
    } else if (action < 7 && one !== undefined) {
      const settlement: StateStore.Settlement = {
        started: below(3) > 0,
        key: pick(["keep", "release", "running"]),
        windowMillis: below(20),
        value: undefined,
        mutates: below(2) === 0 ? "p" : undefined
      }
      if (one.isRunning) say("release", yield* store.release(one.mine, now), yield* memory.release(one.its, now))
      else {
        say("settle", yield* store.settle(one.mine, settlement, now), yield* memory.settle(one.its, settlement, now))
      }
      if (settlement.key === "running" && !one.isRunning) one.isRunning = true
      else held.splice(held.indexOf(one), 1)
    } else if (action === 7 && one !== undefined) {
      const [mine, its] = [yield* store.start([one.mine], now), yield* memory.start([one.its], now)]
      say("start", mine.length, its.length)
    } else if (action === 8) {
      const claims = claimsOf()
      say("check", yield* store.check(claims, now), yield* memory.check(claims, now))
    } else if (below(4) === 0) {
      yield* store.closeBatch("a")
      yield* memory.closeBatch("a")
    } else {
      yield* store.mutated("p", one?.mine)
      yield* memory.mutated("p", one?.its)
    }
  }
})

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "round-trips-"))),
  (it) => Effect.sync(() => rmSync(it, { recursive: true, force: true }))
)

const storesOver = (client: Layer.Layer<SqlClient.SqlClient, unknown>): Effect.Effect<
  ReadonlyArray<Store>,
  unknown,
  Scope.Scope
> => {
  const one = Effect.flatMap(
    Layer.build(Layer.fresh(client)),
    (context) =>
      Effect.provideService(
        SqlStateStore.make({ lease: "1 hour" }),
        SqlClient.SqlClient,
        Context.get(context, SqlClient.SqlClient)
      )
  )
  return Effect.all([one, one])
}

describe("stores that remember what they have changed, in SQLite", () => {
  it.effect("answer as one in memory does, whichever is asked", () =>
    Effect.gen(function*() {
      for (const seed of seeds(20)) {
        const filename = join(yield* folder, "state.db")
        yield* alike(yield* storesOver(Sqlite.layer({ filename })), seed, 150)
      }
    }), { tags: ["ST4"] })
})

layer(Postgres.layer)("stores that remember what they have changed, in PostgreSQL", (it) => {
  it.effect("answer as one in memory does, whichever is asked", () =>
    Effect.gen(function*() {
      const url = yield* (yield* Postgres.Postgres).database
      const client = Postgres.clientOf(url).pipe(Layer.provide(Postgres.realTime))
      yield* alike(yield* storesOver(client), 99, 200)
    }), { tags: ["ST4"] })

  it.effect(
    "give back a call that starts immediately and is not known to have started, once its session is abandoned",
    () =>
      Effect.gen(function*() {
        const store = yield* SqlStateStore.make()
        const claims: ReadonlyArray<StateStore.Claim> = [{ _tag: "Calls", batch: "b", tool: "t", max: 2 }]
        const request = { owner: "1", session: "s", claims, starts: { mutates: undefined } }
        const [one, other] = yield* store.reserve([request, request], 0)
        assert.deepInclude(one, { isStarted: true })
        yield* store.abandon("s", 1, [one as StateStore.Reservation])
        assert.isFalse(
          yield* store.settle(other as StateStore.Reservation, {
            started: true,
            key: "release",
            windowMillis: 0,
            value: undefined
          }, 2)
        )
        const [third, fourth] = yield* store.reserve([request, request], 3)
        assert.deepInclude(third, { isStarted: true })
        assert.deepStrictEqual(fourth, { _tag: "CallsUsedUp" })
      }).pipe(Effect.scoped, Effect.provide(Postgres.client)),
    { tags: ["ST4"] }
  )
})
