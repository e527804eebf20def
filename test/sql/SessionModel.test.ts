/**
 * Random interleavings of processes that hold sessions, against a plain model: takeovers, frozen processes that go on
 * later, messages that come twice, slow and fast clocks, lost statements and answers.
 */
import { assert, describe, it, layer } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as SqlClient from "effect/sql/SqlClient"
import * as Stream from "effect/Stream"
import type { Epoch, Left } from "../../src/core/store/Epoch.ts"
import * as Journal from "../../src/core/store/Journal.ts"
import * as MemorySessions from "../../src/core/store/MemorySessions.ts"
import type { SessionRegistry } from "../../src/core/store/SessionRegistry.ts"
import * as SqlJournal from "../../src/sql/SqlJournal.ts"
import * as Postgres from "../support/Postgres.ts"
import { seeds, timeout } from "../support/seeds.ts"
import { lineOf, LocalClock, type Loss, pass, Process, virtualTime } from "../support/sessionWorld.ts"

type Registry = SessionRegistry["Service"]

/** Numbers that are always the same. */
const numbers = (seed: number) => {
  let state = seed >>> 0
  return (below: number): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return Math.floor(state / 2 ** 32 * below)
  }
}

const principals = ["ann/1", "ann/2", "bob/1"]

/** A session, as it should be. */
interface Row {
  epoch: number
  state: "held" | "free" | "waiting" | "open"
  woken: boolean
  dueAt: number | undefined
}

/** What who holds sessions does, as plain data. */
class Model {
  now = 0
  readonly rows = new Map<string, Row>()

  activated(principal: string, epoch: number): void {
    const before = this.rows.get(principal)
    if (before !== undefined) assert.strictEqual(epoch, before.epoch + 1)
    this.rows.set(principal, { epoch, state: "held", woken: false, dueAt: undefined })
  }

  isCurrent({ number, principal }: Epoch): boolean {
    return this.rows.get(principal)?.epoch === number
  }

  released(epoch: Epoch, left: Left): string {
    const row = this.rows.get(epoch.principal)
    if (row === undefined || !this.isCurrent(epoch)) return "Lost"
    row.state = left._tag === "Nothing" ? "free" : left._tag === "Open" ? "open" : "waiting"
    row.dueAt = row.woken
      ? this.now + MemorySessions.heardWithin
      : left._tag === "Open"
      ? this.now
      : left._tag === "Waiting"
      ? left.until
      : undefined
    return row.woken ? "Ready" : "Released"
  }

  heard(epoch: Epoch): boolean {
    if (!this.isCurrent(epoch)) return false
    Object.assign(this.rows.get(epoch.principal)!, { woken: false, dueAt: undefined })
    return true
  }

  woken(principal: string): void {
    const row = this.rows.get(principal)
    if (row === undefined) return
    row.woken = true
    row.dueAt = Math.min(row.dueAt ?? Infinity, this.now + MemorySessions.heardWithin)
  }

  due(): ReadonlyArray<string> {
    return Array.from(this.rows).filter(([, { dueAt = Infinity }]) => dueAt <= this.now).map(([it]) => it)
  }

  given(principals: ReadonlyArray<string>): void {
    for (const it of principals) this.rows.get(it)!.dueAt = this.now + MemorySessions.dueAgain
  }
}

const leftOf = (below: (most: number) => number, now: number): Left => {
  const kind = below(3)
  if (kind === 0) return { _tag: "Nothing" }
  return kind === 1 ? { _tag: "Open" } : { _tag: "Waiting", until: below(2) === 0 ? undefined : now + below(4_000) }
}

describe("sessions in memory", () => {
  const play = Effect.fnUntraced(function*(seed: number, steps: number) {
    const below = numbers(seed)
    const pick = <A>(of: ReadonlyArray<A>): A => of[below(of.length)]!
    const clock = new LocalClock()
    const world = MemorySessions.world()
    const processes: ReadonlyArray<Registry> = [MemorySessions.make(world), MemorySessions.make(world)]
    const model = new Model()
    for (let step = 0; step < steps; step++) {
      const [process, principal] = [pick(processes), pick(principals)]
      const epoch = process.current(principal)
      const say = `seed ${seed}, step ${step}`
      const run = <A, E>(effect: Effect.Effect<A, E>) => Effect.provideService(effect, Clock.Clock, clock)
      switch (below(7)) {
        case 0:
        case 1: {
          const { number } = yield* run(process.activate(principal))
          model.activated(principal, number)
          break
        }
        case 2: {
          const left = leftOf(below, model.now)
          if (epoch === undefined) break
          assert.strictEqual(yield* run(process.release(epoch, left)), model.released(epoch, left), say)
          break
        }
        case 3:
          if (epoch !== undefined) assert.strictEqual(yield* run(process.heard(epoch)), model.heard(epoch), say)
          break
        case 4:
          yield* run(process.wake(principal))
          model.woken(principal)
          break
        case 5: {
          const due = yield* run(process.due(10))
          assert.deepStrictEqual(due.toSorted(), model.due().toSorted(), say)
          model.given(due)
          break
        }
        default: {
          const millis = below(3_000)
          clock.advance(millis)
          model.now += millis
        }
      }
      // one of them holds it at most, and knows
      for (const it of principals) {
        const holders = processes.map((one) => one.current(it)).filter((one) => one !== undefined)
        assert.isAtMost(holders.length, 1, say)
        for (const one of holders) assert.isTrue(one.isHeld && model.isCurrent(one), say)
      }
    }
  })

  it.effect(
    "are held by one process at a time, whatever they do",
    () => Effect.forEach(seeds(300), (seed) => play(seed, 100), { discard: true }),
    timeout
  )
})

layer(Postgres.layer)("sessions that processes over one PostgreSQL share", (it) => {
  const play = Effect.fnUntraced(function*(seed: number, steps: number) {
    const url = yield* (yield* Postgres.Postgres).database
    yield* Effect.provide(virtualTime, Postgres.clientOf(url), { local: true })
    const sql = Context.get(yield* Layer.build(Layer.fresh(Postgres.clientOf(url))), SqlClient.SqlClient)
    const below = numbers(seed)
    const pick = <A>(of: ReadonlyArray<A>): A => of[below(of.length)]!
    const say = (what: string) => `seed ${seed}, ${what}`
    // each as much slower or faster as leases allow for
    const processes = yield* Effect.forEach([0.88 + below(30) / 100, 1, 0.9 + below(30) / 100], (rate) => {
      const process = new Process(sql, rate)
      return Effect.map(process.stores, (stores) => ({ process, ...stores }))
    })
    yield* Effect.addFinalizer(() => Effect.sync(() => processes.forEach(({ process }) => process.thaw())))
    type One = typeof processes[number]
    const model = new Model()
    /** The latest epoch whose activation has ended, and what landed. */
    const activated = new Map<string, number>()
    const appended = new Map<string, { readonly principal: string; readonly number: number; isWritten: boolean }>()
    let lines = 0

    /** Waits until nothing is under way. */
    const settle = Effect.gen(function*() {
      for (let quiet = 0; quiet < 3;) {
        yield* Effect.callback<void>((resume) => void setImmediate(() => resume(Effect.void)))
        quiet = processes.every(({ process }) => process.isQuiet) ? quiet + 1 : 0
      }
    })
    const advance = Effect.fnUntraced(function*(millis: number) {
      yield* pass(sql, millis)
      model.now += millis
      for (const { process } of processes) process.clock.advance(millis)
      check()
      yield* settle
      check()
    })
    /** Who takes its lease for valid, also one that would go on just now, has the session. */
    const check = (): void => {
      for (const { registry } of processes) {
        for (const principal of principals) {
          const epoch = registry.current(principal)
          if (epoch?.isHeld !== true) continue
          assert.isAtLeast(epoch.number, activated.get(principal) ?? 0, say("a stale owner takes its lease for valid"))
        }
      }
    }
    /** Lets time pass until something has ended, or waits for a process that is frozen. */
    const ended = Effect.fnUntraced(function*<A, E>({ process }: One, fiber: Fiber.Fiber<A, E>) {
      yield* settle
      for (let passed = 0; fiber.pollUnsafe() === undefined && !process.clock.isFrozen; passed += 100) {
        assert.isBelow(passed, 15_000, say("something does not end"))
        yield* advance(100)
      }
      return fiber.pollUnsafe()
    })
    const start = <A, E>({ process }: One, effect: Effect.Effect<A, E>) =>
      Effect.forkDetach(process.run(effect), { startImmediately: true })

    const rowsNow = Effect.map(
      sql<{ principal: string; epoch: string; state: Row["state"]; woken: boolean; due_at: number | null }>`
        SELECT principal, epoch, state, woken,
          due_at - extract(epoch FROM '2030-01-01'::timestamptz) * 1000 AS due_at FROM tool_executor_sessions`,
      (rows) =>
        new Map(rows.map(({ due_at, epoch, principal, state, woken }) => [principal, {
          epoch: Number(epoch),
          state,
          woken,
          dueAt: due_at === null ? undefined : Math.round(Number(due_at))
        }]))
    )
    /** The model is what the database says, where an answer was lost or came late. */
    const lookUp = Effect.map(rowsNow, (rows) => {
      for (const [principal, row] of rows) {
        assert.isAtLeast(row.epoch, model.rows.get(principal)?.epoch ?? 0)
        model.rows.set(principal, row)
      }
    })
    /** A process that does not have a session any more makes it due; nothing else changes by itself. */
    const compare = Effect.fnUntraced(function*(what: string) {
      check()
      for (const [principal, row] of yield* rowsNow) {
        const known = model.rows.get(principal)
        const isGivenUp = row.state === "held" && row.epoch === known?.epoch && row.woken === known.woken &&
          row.dueAt !== known.dueAt && (row.dueAt ?? Infinity) <= model.now
        if (isGivenUp) model.rows.set(principal, row)
        else assert.deepStrictEqual(row, known, say(what))
      }
    })

    const activate = (one: One, principal: string) =>
      Effect.map(one.registry.activate(principal), (epoch) => {
        activated.set(principal, Math.max(epoch.number, activated.get(principal) ?? 0))
        return epoch
      })
    /** As a call commits: it looks at the lease, and asks if that has expired. */
    const commit = (epoch: Epoch) =>
      Effect.map(epoch.isHeld ? Effect.succeed(true) : epoch.renew, (isOurs) => {
        if (isOurs !== true) return false
        assert.isAtLeast(epoch.number, activated.get(epoch.principal) ?? 0, say("a stale owner has committed"))
        return true
      })
    const append = ({ journal, registry }: One, principal: string) =>
      Effect.suspend(() => {
        const id = `${++lines}`
        const number = registry.current(principal)?.number ?? -1
        const record = { principal, number, isWritten: false }
        appended.set(id, record)
        const line = lineOf(journal, principal, id, number)
        const written = journal.append([line], { durable: true })
        // what was not written comes again, as an executor has it
        const persistently = Effect.retry(written, { times: 3, while: () => !line.term.isOver })
        return Effect.map(persistently, () => {
          record.isWritten = !line.term.isOver
          return record.isWritten
        })
      })

    const waiting = new Map<One, Fiber.Fiber<unknown, unknown>>()
    for (let step = 0; step < steps; step++) {
      const [one, principal] = [pick(processes), pick(principals)]
      const { process, registry } = one
      const epoch = registry.current(principal)
      const action = below(16)
      const what = `step ${step}: ${action} of ${processes.indexOf(one)} for ${principal}`
      if (process.clock.isFrozen) {
        if (below(3) > 0) {
          yield* advance(pick([100, 1_000, 2_000]))
          yield* compare(what)
          continue
        }
        process.thaw()
        const fiber = waiting.get(one)
        waiting.delete(one)
        if (fiber !== undefined) yield* ended(one, fiber)
        yield* settle
        yield* lookUp
        continue
      }
      if (action === 0 || action === 1) {
        const exit = yield* ended(one, yield* start(one, activate(one, principal)))
        if (exit?._tag === "Success") model.activated(principal, exit.value.number)
        else yield* lookUp
      } else if (action === 2 && epoch !== undefined) {
        const left = leftOf(below, model.now)
        const until = left._tag === "Waiting" && left.until !== undefined
          ? { ...left, until: left.until + Date.parse("2030-01-01T00:00:00Z") }
          : left
        const exit = yield* ended(one, yield* start(one, registry.release(epoch, until)))
        if (exit?._tag === "Success") assert.strictEqual(exit.value, model.released(epoch, left), say(what))
        else yield* lookUp
      } else if (action === 3 && epoch !== undefined) {
        const exit = yield* ended(one, yield* start(one, registry.heard(epoch)))
        if (exit?._tag === "Success") assert.strictEqual(exit.value, model.heard(epoch), say(what))
      } else if (action === 4) {
        yield* ended(one, yield* start(one, registry.wake(principal)))
        model.woken(principal)
      } else if (action === 5) {
        const ripe = model.due()
        const exit = yield* ended(one, yield* start(one, registry.due(10)))
        if (exit?._tag === "Success") {
          assert.includeMembers(Array.from(exit.value), Array.from(ripe), say(what))
          model.given(exit.value)
        }
      } else if (action === 6 && epoch !== undefined) {
        const isCurrent = model.isCurrent(epoch)
        const { loss } = process
        const exit = yield* ended(one, yield* start(one, commit(epoch)))
        const hasLanded = exit?._tag === "Success" && exit.value
        if (isCurrent && loss === undefined) assert.isTrue(hasLanded, say(`${what}: the owner cannot commit`))
      } else if (action === 7) {
        // in one group: each ends by itself
        const fibers = yield* Effect.forEach(principals, (it) => start(one, append(one, it)))
        const owned = principals.map((it) => {
          const known = registry.current(it)
          return known !== undefined && model.isCurrent(known)
        })
        const { loss } = process
        for (const [index, fiber] of fibers.entries()) {
          const exit = yield* ended(one, fiber)
          if (loss !== undefined) continue
          assert.strictEqual(exit?._tag === "Success" && exit.value, owned[index], say(what))
        }
      } else if (action === 8) {
        const texts = ["tool_executor_journal_entries", "INSERT INTO tool_executor_sessions (", "SET lease_until", "$3"]
        process.loss = { text: pick(texts), what: pick<Loss["what"]>(["statement", "answer"]) }
      } else if (action === 9) {
        // frozen in the middle of something, before or after the database has heard of it
        const doing = pick<Effect.Effect<unknown, unknown>>([
          append(one, principal),
          activate(one, principal),
          registry.runner.renew,
          epoch === undefined ? registry.runner.renew : commit(epoch)
        ])
        if (below(2) === 0) process.freeze()
        const fiber = yield* start(one, doing)
        process.freeze()
        waiting.set(one, fiber)
        yield* settle
        yield* lookUp
      } else if (action === 10) {
        // several at once
        const fibers = yield* Effect.forEach(
          processes.filter((it) => !it.process.clock.isFrozen),
          (it) =>
            Effect.map(
              start(it, pick<Effect.Effect<unknown, unknown>>([activate(it, principal), append(it, principal)])),
              (fiber) => ({ it, fiber })
            )
        )
        for (const { fiber, it } of fibers) yield* ended(it, fiber)
        yield* lookUp
      } else yield* advance(pick([100, 500, 1_000]))
      yield* compare(what)
    }

    for (const { process } of processes) if (process.clock.isFrozen) process.thaw()
    for (const [one, fiber] of waiting) yield* ended(one, fiber)
    yield* settle
    const last = new Map<string, number>()
    const seen = new Set<string>()
    for (const { entry } of yield* Stream.runCollect(SqlJournal.read(sql, {}))) {
      if (!Journal.isOfCall(entry)) continue
      const { callId, principal, wave } = entry
      assert.isFalse(seen.has(callId), say("a line was written twice"))
      seen.add(callId)
      assert.isAtLeast(wave, last.get(principal) ?? 0, say("a stale owner has written behind a later one"))
      last.set(principal, wave)
    }
    for (const [id, { isWritten }] of appended) if (isWritten) assert.isTrue(seen.has(id), say("a line is missing"))
  })

  it.effect("are not confirmed by an answer that came late: another process may have them by then", () =>
    Effect.gen(function*() {
      const url = yield* (yield* Postgres.Postgres).database
      yield* Effect.provide(virtualTime, Postgres.clientOf(url), { local: true })
      const sql = Context.get(yield* Layer.build(Layer.fresh(Postgres.clientOf(url))), SqlClient.SqlClient)
      const [one, two] = [new Process(sql, 1), new Process(sql, 1)]
      const [mine, its] = [yield* one.stores, yield* two.stores]
      const epoch = yield* one.run(mine.registry.activate("ann/1"))
      const asked = yield* Effect.forkDetach(one.run(epoch.renew), { startImmediately: true })
      one.freeze()
      // the database has renewed the lease, and nobody hears of it
      yield* Effect.repeat(Effect.callback<void>((resume) => void setImmediate(() => resume(Effect.void))), {
        until: () => one.held > 0
      })
      yield* pass(sql, 4_000)
      for (const it of [one, two]) it.clock.advance(4_000)
      yield* two.run(its.registry.activate("ann/1"))
      one.gate.openUnsafe()
      assert.isUndefined(yield* Fiber.join(asked))
      one.thaw()
    }).pipe(Effect.scoped, Effect.provide(Postgres.realTime)))

  it.effect(
    "have one owner whose writes land, whatever freezes, is late or gets lost",
    () =>
      Effect.forEach(seeds(20), (seed) => Effect.scoped(play(seed, 100)), { discard: true }).pipe(
        Effect.provide(Postgres.realTime)
      ),
    { tags: ["SE1"], timeout }
  )
})
