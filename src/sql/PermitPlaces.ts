/**
 * The places of one process in the lines of shared permits, and the one fiber that asks the database about them.
 *
 * Whatever there is to say goes into one statement: places that are new, that are renewed, and that are left. While
 * calls wait and there is nothing to say, the lines are read, once per interval for all of them. A process that neither
 * holds nor wants a permit asks nothing.
 *
 * A permit that is released goes to the next call of this process without a round trip, as long as no other process
 * waits for it; where one does, for at most `turnMillis`.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Latch from "effect/Latch"
import type * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { randomUUID } from "node:crypto"
import type { Lease, PermitSource, SharedPool } from "../core/gates/PermitSource.ts"
import { keyOf } from "../internal/textBytes.ts"
import { deadline, own } from "./OwnConnection.ts"
import * as Lines from "./PermitLines.ts"

/** Durations, in milliseconds. */
export interface Times {
  readonly leaseMillis: number
  readonly pollMillis: number
  readonly patienceMillis: number
}

/** A place in the lines of some pools, under one id. It holds a permit of each of them, or waits for all. */
interface Place {
  readonly id: string
  pools: ReadonlyArray<SharedPool>
  /** When its lease was last renewed, by the monotonic clock; not in line yet as far as is known: `-Infinity`. */
  since: number
  /** The database may know of it. */
  isAsked: boolean
  /** When it was given a permit of each pool. */
  grantedAt: number
  /** When its lines were last seen. */
  seenAt: number
  /** Another process waited in one of the lines then. */
  isWanted: boolean
  /** Since when it is the first that waits, in all of its lines. */
  nextSince: number
  /** Why its permits were lost. */
  readonly lost: Deferred.Deferred<string>
  isLost: boolean
  /** Why those who wait for it are to be refused, until the database knows. */
  blocked: string | undefined
}

/** A call that waits. */
interface Request {
  readonly pools: ReadonlyArray<SharedPool>
  readonly since: number
  /** Its place in line, and later the place that it was given. */
  place: Place
  resume: (end: Exit.Exit<Place>) => void
}

/** The places of one process. */
export class PermitPlaces {
  private readonly sql: SqlClient.SqlClient
  private readonly times: Times
  private readonly clock: Clock.Clock
  private readonly name = randomUUID().slice(0, 18)
  private readonly waiting = new Set<Request>()
  private readonly inUse = new Set<Place>()
  /** Released a moment ago: calls that are about to ask may have them. */
  private readonly idle = new Set<Place>()
  private readonly leaving = new Map<string, Set<string>>()
  /** Lines with places whose lease has ended. */
  private readonly stale = new Set<string>()
  private readonly bell = Latch.makeUnsafe()
  private places = 0
  private askedAt = -Infinity
  private answeredAt = -Infinity
  private prunedAt: number
  private hasFailed = false
  private isClosed = false

  constructor(sql: SqlClient.SqlClient, times: Times, context: Context.Context<never>) {
    this.sql = sql
    this.times = times
    this.clock = Context.get(context, Clock.Clock)
    this.prunedAt = this.now()
  }

  source(pools: ReadonlyArray<SharedPool>): PermitSource {
    const hashed = pools.map(({ name, size }) => ({ name: keyOf(name), size }))
    return { lease: hashed.length === 0 ? Effect.succeed({}) : Effect.suspend(() => this.lease(hashed)) }
  }

  private lease(pools: ReadonlyArray<SharedPool>): PermitSource["lease"] {
    return Effect.uninterruptibleMask((restore) => {
      const found = this.found(pools)
      const given = found === undefined ? this.wait(pools, restore) : Effect.succeed(found)
      return Effect.flatMap(given, (place) =>
        Effect.as(
          Effect.addFinalizer(() => Effect.sync(() => this.free(place))),
          this.leaseOf(place)
        ))
    })
  }

  private leaseOf(place: Place): Lease {
    return {
      isHeld: () => this.isHeld(place),
      lost: this.lostOf(place),
      block: (because) => {
        place.blocked = because
        this.ring()
      }
    }
  }

  /** Asks the database, for as long as it runs. */
  readonly running: Effect.Effect<never> = Effect.gen({ self: this }, function*() {
    while (true) {
      yield* this.due
      // what is released and what is asked for in the same moment goes into one statement
      yield* Effect.yieldNow
      for (const place of this.idle) this.leave(place)
      this.idle.clear()
      this.replacePlaces()
      const asked = this.now()
      const changes = this.changes(asked)
      if (changes.length > 0) yield* this.change(changes, asked)
      else if (this.waiting.size > 0) yield* this.look
    }
  })

  /** Leaves all lines; a line that cannot be left is left when the lease ends. */
  readonly close: Effect.Effect<void> = Effect.suspend(() => {
    this.isClosed = true
    for (const { place, resume } of this.waiting) {
      this.leave(place)
      resume(closed)
    }
    this.waiting.clear()
    for (const place of [...this.inUse, ...this.idle]) this.leave(place)
    const changes = this.changes(-Infinity)
    return changes.length === 0
      ? Effect.void
      : Effect.ignore(own(this.sql, closeMillis)(Lines.change(this.sql, changes, this.times.leaseMillis)))
  })

  private now(): number {
    return Number(this.clock.monotonicTimeNanosUnsafe()) / 1e6
  }

  /** A place that was just released and has what a call needs. */
  private found(pools: ReadonlyArray<SharedPool>): Place | undefined {
    for (const place of this.idle) {
      if (!has(place, pools) || !this.isHeld(place)) continue
      this.idle.delete(place)
      this.use(place, pools)
      return place
    }
    return undefined
  }

  private wait(
    pools: ReadonlyArray<SharedPool>,
    restore: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  ): Effect.Effect<Place> {
    if (this.isClosed) return closed
    let end: Exit.Exit<Place> | undefined
    let resume: Request["resume"] = () => {}
    const request: Request = {
      pools,
      since: this.now(),
      place: this.newPlace(pools),
      resume: (exit) => {
        end = exit
        resume(exit)
      }
    }
    this.waiting.add(request)
    this.ring()
    const answered = Effect.callback<Place>((done) => {
      if (end === undefined) resume = done
      else done(end)
    })
    return Effect.onInterrupt(restore(answered), () =>
      Effect.sync(() => {
        if (end?._tag === "Success") return this.free(end.value)
        if (!this.waiting.delete(request)) return
        this.leave(request.place)
        this.ring()
      }))
  }

  private newPlace(pools: ReadonlyArray<SharedPool>): Place {
    return {
      id: `${this.name}.${++this.places}`,
      pools,
      since: -Infinity,
      isAsked: false,
      grantedAt: -Infinity,
      seenAt: -Infinity,
      isWanted: false,
      nextSince: Infinity,
      lost: Deferred.makeUnsafe(),
      isLost: false,
      blocked: undefined
    }
  }

  private isHeld({ isLost, since }: Place): boolean {
    return !isLost && this.now() < since + this.times.leaseMillis * givenUp
  }

  private lostOf(place: Place): Effect.Effect<string> {
    const ends = Effect.gen({ self: this }, function*() {
      while (this.isHeld(place)) yield* Effect.sleep(Math.max(1, this.endOf(place) - this.now()))
      if (!place.isLost) this.lose(place, "the database could not be reached to renew its lease")
    })
    return Effect.raceFirst(Deferred.await(place.lost), Effect.andThen(ends, Deferred.await(place.lost)))
  }

  private endOf({ since }: Place): number {
    return since + this.times.leaseMillis * givenUp
  }

  private lose(place: Place, because: string): void {
    place.isLost = true
    Deferred.doneUnsafe(place.lost, Exit.succeed(because))
  }

  /** A call has what it needs of a place; the rest goes back. */
  private use(place: Place, pools: ReadonlyArray<SharedPool>): void {
    const rest = place.pools.filter(({ name }) => !pools.some((it) => it.name === name))
    for (const { name } of rest) this.leaveLine(name, place.id)
    if (rest.length > 0) this.ring()
    place.pools = pools
    this.inUse.add(place)
  }

  private grant(request: Request, place: Place): void {
    this.waiting.delete(request)
    if (request.place !== place) this.leave(request.place)
    this.use(place, request.pools)
    request.resume(Exit.succeed(place))
  }

  private free(place: Place): void {
    this.inUse.delete(place)
    this.ring()
    if (this.isClosed) return
    const now = this.now()
    const isInTurn = now < place.grantedAt + turnMillis || (!place.isWanted && now < place.seenAt + turnMillis)
    if (!isInTurn || !this.isHeld(place)) return this.leave(place)
    for (const request of this.waiting) {
      if (has(place, request.pools)) return this.grant(request, place)
    }
    this.idle.add(place)
  }

  private leave(place: Place): void {
    if (!place.isAsked) return
    for (const { name } of place.pools) this.leaveLine(name, place.id)
  }

  private leaveLine(pool: string, id: string): void {
    const ids = this.leaving.get(pool)
    if (ids === undefined) this.leaving.set(pool, new Set([id]))
    else ids.add(id)
  }

  private ring(): void {
    this.bell.openUnsafe()
  }

  /** Ends when there is something to ask. */
  private readonly due: Effect.Effect<void> = Effect.suspend(() => {
    const { pollMillis } = this.times
    if (this.hasFailed) return Effect.sleep(pollMillis)
    const now = this.now()
    let polled = this.waiting.size === 0 ? Infinity : this.askedAt + pollMillis
    // of all processes, one per line asks sooner; less and less so if a permit is held for long
    for (const { place: { nextSince } } of this.waiting) {
      if (nextSince < Infinity) {
        polled = Math.min(polled, this.askedAt + Math.max(pollMillis / 4, (now - nextSince) / 4))
      }
    }
    let at = this.stale.size > 0 ? -Infinity : polled
    for (const place of this.members()) at = Math.min(at, place.since + this.times.leaseMillis / 3)
    const rung = Effect.andThen(this.bell.await, Effect.sync(() => void this.bell.closeUnsafe()))
    const left = at - now
    return left === Infinity ? rung : Effect.raceFirst(rung, Effect.sleep(Math.max(0, left)))
  })

  private *members(): Generator<Place> {
    for (const { place } of this.waiting) if (place.since > -Infinity) yield place
    for (const place of this.inUse) if (!place.isLost) yield place
  }

  /** Calls whose place in line may be gone get a new one at the end. */
  private replacePlaces(): void {
    for (const request of this.waiting) {
      const { place } = request
      if (place.since === -Infinity || this.isHeld(place)) continue
      this.leave(place)
      request.place = this.newPlace(request.pools)
    }
  }

  private changes(asked: number): ReadonlyArray<Lines.Change> {
    const { leaseMillis } = this.times
    const changes = new Lines.Changes()
    for (const [pool, ids] of this.leaving) changes.of(pool).leaves.push(...ids)
    for (const pool of this.stale) changes.of(pool)
    for (const { place } of this.waiting) {
      if (place.since > -Infinity) continue
      place.isAsked = true
      for (const { name } of place.pools) changes.of(name).joins.push(place.id)
    }
    for (const { blocked: because, id, pools } of this.inUse) {
      if (because !== undefined) { for (const { name } of pools) changes.of(name).blocks.push({ id, because }) }
    }
    const members = Array.from(this.members())
    // all together, so that they are due together from then on
    if (members.some(({ since }) => asked >= since + leaseMillis / 3)) {
      for (const { id, pools, since } of members) {
        if (asked >= since + leaseMillis / 6) { for (const { name } of pools) changes.of(name).keeps.push(id) }
      }
    }
    return changes.all
  }

  private change(changes: ReadonlyArray<Lines.Change>, asked: number): Effect.Effect<void> {
    const sent = new Set(changes.flatMap(({ joins, keeps }) => [...joins, ...keeps]))
    const blocked = new Set(changes.flatMap(({ blocks }) => blocks.map(({ id }) => id)))
    return this.ask(Lines.change(this.sql, changes, this.times.leaseMillis), (lines) => {
      for (const { leaves, pool } of changes) {
        this.stale.delete(pool)
        const left = this.leaving.get(pool)
        for (const id of leaves) left?.delete(id)
        if (left?.size === 0) this.leaving.delete(pool)
      }
      for (const place of this.inUse) if (blocked.has(place.id)) place.blocked = undefined
      this.saw(lines, (place) => {
        if (sent.has(place.id)) place.since = Math.max(place.since, asked)
      })
    }, this.pruning)
  }

  private readonly look: Effect.Effect<void> = Effect.suspend(() => {
    const pools = new Set(Array.from(this.waiting, (it) => it.pools.map(({ name }) => name)).flat())
    return this.ask(Lines.read(this.sql, Array.from(pools)), (lines) => this.saw(lines, () => {}))
  })

  private ask(
    statement: Effect.Effect<ReadonlyArray<Lines.Line>, SqlError>,
    answered: (lines: ReadonlyArray<Lines.Line>) => void,
    then: Effect.Effect<void> = Effect.void
  ): Effect.Effect<void> {
    const { leaseMillis, patienceMillis } = this.times
    this.askedAt = this.now()
    return Effect.matchCauseEffect(own(this.sql, Math.min(deadline, leaseMillis / 4))(statement), {
      onSuccess: (lines) => {
        const isBack = this.hasFailed
        this.hasFailed = false
        this.answeredAt = this.now()
        answered(lines)
        return isBack ? Effect.andThen(Effect.logInfo("SqlPermits: the database answers again"), then) : then
      },
      onFailure: (cause) => {
        const isNew = !this.hasFailed
        this.hasFailed = true
        const now = this.now()
        for (const request of this.waiting) {
          if (now < Math.max(request.since, this.answeredAt) + patienceMillis) continue
          this.waiting.delete(request)
          this.leave(request.place)
          request.resume(away)
        }
        const [held, waiting] = [this.inUse.size, this.waiting.size]
        return isNew
          ? Effect.logWarning(
            `SqlPermits: the database does not answer; ${held} permits held, ${waiting} calls wait`,
            cause
          )
          : Effect.void
      }
    })
  }

  /** Takes in what lines are like. */
  private saw(lines: ReadonlyArray<Lines.Line>, present: (place: Place) => void): void {
    const now = this.now()
    const byPool = new Map(lines.map((it) => [it.pool, it]))
    for (const { now: at, places, pool } of lines) {
      if (places.some(({ id, until }) => until <= at && !Lines.isOf(id, this.name))) this.stale.add(pool)
    }
    for (const place of [...this.inUse, ...Array.from(this.waiting, (it) => it.place)]) {
      if (!place.isAsked || place.isLost || !place.pools.every(({ name }) => byPool.has(name))) continue
      const all = place.pools.map(({ name, size }) => Lines.standing(byPool.get(name)!, place.id, size, this.name))
      if (all.every(({ at }) => at >= 0)) present(place)
      else if (this.inUse.has(place)) this.lose(place, "its lease has ended")
      else place.since = -Infinity
      place.seenAt = now
      place.isWanted = all.some((it) => it.isWanted)
      place.nextSince = all.every(({ at, size }) => at >= 0 && at <= size) ? Math.min(place.nextSince, now) : Infinity
      const blocked = all.find((it) => it.blocked !== undefined)?.blocked
      if (all.every(({ at, size }) => at >= 0 && at < size)) this.given(place, now)
      else if (blocked !== undefined) this.refuse(place, blocked)
    }
  }

  private given(place: Place, now: number): void {
    for (const request of this.waiting) {
      if (request.place !== place || !this.isHeld(place)) continue
      place.grantedAt = now
      this.grant(request, place)
    }
  }

  private refuse(place: Place, because: string): void {
    for (const request of this.waiting) {
      if (request.place !== place) continue
      this.waiting.delete(request)
      this.leave(place)
      request.resume(Exit.die(new Error(because)))
    }
  }

  private readonly pruning: Effect.Effect<void> = Effect.suspend(() => {
    const now = this.now()
    if (now < this.prunedAt + pruneMillis) return Effect.void
    this.prunedAt = now
    return Effect.ignore(own(this.sql)(Lines.prune(this.sql)))
  })
}

/** A lease is given up after this part of its duration. */
const givenUp = 7 / 8

/** Milliseconds for which permits stay in a process while another one waits for them. */
const turnMillis = 500

/** Milliseconds that leaving all lines may take when the process ends. */
const closeMillis = 1_000

const pruneMillis = 10 * 60_000

const has = (place: Place, pools: ReadonlyArray<SharedPool>): boolean =>
  pools.every(({ name }) => place.pools.some((it) => it.name === name))

const away = Exit.die(new Error("the database with the shared permits cannot be reached"))

const closed = Exit.die(new Error("the shared permits are closed"))
