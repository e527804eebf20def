/**
 * This process in the session registry: its lease, and the sessions and shards that it holds.
 *
 * A renewal reads which sessions were taken meanwhile, and which shards and other processes there are. It checks all
 * sessions if the lease had expired in the database, or if that is not known because an answer was lost. Only then does
 * the lease count for longer here.
 */
import type * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { HeldSessions } from "../core/store/HeldSessions.ts"
import type { Epoch, Runner } from "../core/store/SessionRegistry.ts"
import { deadline, own } from "./OwnConnection.ts"
import * as Tables from "./RunnerTables.ts"
import * as SessionTables from "./SessionTables.ts"
import { SqlShards } from "./SqlShards.ts"

/** The part of a lease after which a process takes it for expired: its clock may be so much slower. */
const heldPart = 7 / 8

/** So many renewals give up a session: a statement whose answer was lost may still be on its way. */
const looseFor = 3

/** A process with its lease. */
export class SqlRunner implements Runner {
  readonly name: string
  readonly leaseMillis: number
  /** Where other processes reach it. */
  address: string | undefined
  readonly held: HeldSessions
  readonly shards: SqlShards
  private readonly sql: SqlClient.SqlClient
  private readonly registration: Tables.Registration
  private readonly clock: Clock.Clock
  /** What others need to know to reach its shards; absent: it has none. */
  private place: string | undefined
  /** Monotonic milliseconds from before its lease was last renewed. */
  private since = -Infinity
  /** Whether nobody can have taken a session unnoticed since the last renewal. */
  private isSure = true
  /** Sessions that it no longer has, and may still have in the database; with how often they are given up yet. */
  private readonly loose = new Map<string, number>()
  /** The processes that have shards, and the time before they were read. */
  private seen: { readonly at: number; readonly members: ReadonlyArray<Tables.Member> } | undefined
  /** The same, also if they have to be read anew. */
  private before: { readonly at: number; readonly members: ReadonlyArray<Tables.Member> } | undefined
  private departure = Deferred.makeUnsafe<void>()
  private renewal: Deferred.Deferred<boolean> | undefined
  /** How many renewals have begun. */
  renewals = 0
  /** How often the lease may have expired and been renewed again. */
  lapses = 0

  constructor(sql: SqlClient.SqlClient, registration: Tables.Registration, clock: Clock.Clock) {
    this.sql = sql
    this.registration = registration
    this.clock = clock
    this.name = registration.name
    this.leaseMillis = registration.leaseMillis
    this.shards = new SqlShards(sql, this)
    this.held = new HeldSessions(this, ({ principal }) => this.loose.set(principal, looseFor))
  }

  get isHeld(): boolean {
    return this.now() < this.since + this.registration.leaseMillis * heldPart
  }

  /** Registers the process. */
  readonly register: Effect.Effect<void, SqlError> = Effect.suspend(() => {
    const since = this.now()
    return Effect.map(this.own(Tables.register(this.sql, this.registration)), () => {
      this.since = since
    })
  })

  /** Ends its lease: others may have its sessions at once. */
  readonly close: Effect.Effect<void> = Effect.suspend(() => {
    this.since = -Infinity
    for (const { principal } of this.held.epochs) this.held.end(principal)
    return Effect.ignore(own(this.sql)(Tables.unregister(this.sql, this.name)))
  })

  /** Renews the lease; false if that failed. Those who ask meanwhile get the same answer. */
  readonly renew: Effect.Effect<boolean> = Effect.uninterruptibleMask((restore) => {
    if (this.renewal !== undefined) return restore(Deferred.await(this.renewal))
    const renewal = this.renewal = Deferred.makeUnsafe<boolean>()
    this.renewals++
    const renewed = Effect.match(this.renewing, {
      onFailure: () => {
        this.isSure = false
        return false
      },
      onSuccess: () => true
    })
    return Effect.onExit(renewed, (exit) =>
      Effect.suspend(() => {
        this.renewal = undefined
        return Deferred.done(renewal, exit)
      }))
  })

  /** Ends once no renewal is under way; gives how many have begun. */
  readonly renewed: Effect.Effect<number> = Effect.suspend(() =>
    this.renewal === undefined
      ? Effect.succeed(this.renewals)
      : Effect.andThen(Deferred.await(this.renewal), this.renewed)
  )

  /** Renews the lease before it expires. */
  readonly background: Effect.Effect<never> = Effect.gen({ self: this }, function*() {
    const { leaseMillis } = this.registration
    while (true) {
      yield* Effect.sleep(leaseMillis / 3)
      // a database that could not be reached is asked again before the lease has expired, more than once
      while (!(yield* this.renew)) yield* Effect.sleep(leaseMillis / 10)
      yield* Effect.ignore(this.giveUp)
      yield* Effect.ignore(this.shards.tidy)
    }
  })

  /**
   * The processes that have shards and are alive. All see the same: who is read with a renewal and is not heard of
   * until the end of its lease is asked for again.
   */
  readonly members: Effect.Effect<ReadonlyArray<Tables.Member>, SqlError> = Effect.suspend(() => {
    const at = this.now()
    if (this.seen !== undefined) {
      const age = at - this.seen.at
      const { members } = this.seen
      if (age < this.leaseMillis / 2 && members.every(({ left }) => left > age)) return Effect.succeed(members)
    }
    return Effect.map(this.own(Tables.members(this.sql)), (members) => {
      this.see(at, members)
      return members
    })
  })

  /** Ends as soon as the lease of one of them has expired. */
  readonly departed: Effect.Effect<void> = Effect.suspend(() => Deferred.await(this.departure))

  /** Takes shards from now on, and says where it is; gives a number that no other process has, if its lease is valid. */
  join(place: string): Effect.Effect<number | undefined, SqlError> {
    return Effect.suspend(() => {
      this.place = place
      return Effect.flatMap(this.renew, (isRenewed) => {
        this.seen = undefined
        return isRenewed ? this.own(Tables.join(this.sql, this.name, place)) : Effect.succeed(undefined)
      })
    })
  }

  /** Takes no shards any more. Each renewal says so: others must not send sessions here while it ends. */
  readonly leave: Effect.Effect<void> = Effect.suspend(() => {
    this.place = undefined
    return Effect.asVoid(Effect.andThen(this.renewed, this.renew))
  })

  /** Notes how it places sessions; gives how others do that are alive. */
  placed(placing: Tables.Placing): Effect.Effect<ReadonlyArray<Tables.Placing>, SqlError> {
    return this.own(Tables.placed(this.sql, this.name, placing))
  }

  /** Those that came before under an address and are alive; it has the address from now on. */
  namesakes(address: string): Effect.Effect<ReadonlyArray<Tables.Namesake>, SqlError> {
    this.address = address
    return this.own(Tables.namesakes(this.sql, this.name, address))
  }

  /** Notes whether another process can be reached, if this one is alive itself. */
  reach(address: string, isReachable: boolean): Effect.Effect<void, SqlError> {
    if (!this.isHeld) return Effect.void
    this.seen = undefined
    return Effect.asVoid(this.own(Tables.reach(this.sql, address, isReachable)))
  }

  /** Whether an epoch is current, by the database. */
  readonly isCurrent = (epoch: Epoch): Effect.Effect<boolean | undefined> =>
    Effect.map(this.renew, (isRenewed) => isRenewed && this.isHeld ? !epoch.isOver : undefined)

  /** Runs a change of who holds a session. After a failure nobody knows; the session is then given up. */
  settled<A, E>(principal: string, change: Effect.Effect<A, E>): Effect.Effect<A, E> {
    return Effect.onExit(
      Effect.suspend(() => {
        this.loose.delete(principal)
        return change
      }),
      (exit) =>
        Effect.sync(() => {
          if (exit._tag === "Success") this.loose.delete(principal)
          else this.loose.set(principal, looseFor)
        })
    )
  }

  private readonly renewing: Effect.Effect<void, SqlError> = Effect.gen({ self: this }, function*() {
    const since = this.now()
    const hadExpired = yield* this.own(Tables.renew(this.sql, this.registration, this.place))
    if (hadExpired !== false || !this.isSure) this.lapses++
    if (hadExpired === undefined) {
      // it was removed long after its lease had expired: others have its sessions, or may have them
      for (const epoch of this.held.epochs) epoch.lose()
      this.shards.note(this.shards.mark(), [])
      yield* this.own(Tables.register(this.sql, this.registration))
    } else {
      const [mark, at] = [this.shards.mark(), this.now()]
      const { members, shards, taken } = yield* this.own(Tables.news(this.sql, this.name))
      this.see(at, members)
      this.shards.note(mark, shards)
      for (const it of taken) this.lose(it)
      if (taken.length > 0) yield* this.own(Tables.forgetTaken(this.sql, this.name, taken))
      if (hadExpired || !this.isSure) yield* this.check
    }
    this.isSure = true
    this.since = Math.max(this.since, since)
  })

  private see(at: number, members: ReadonlyArray<Tables.Member>): void {
    const there = new Map(members.map(({ machine, place }) => [place, machine]))
    const { before } = this
    this.seen = this.before = { at, members }
    // one that has left in time answers what it was sent
    const isOver = ({ left, machine, place }: Tables.Member) =>
      there.has(place) ? there.get(place) !== machine : left <= at - before!.at
    if (before?.members.some(isOver) !== true) return
    const departure = this.departure
    this.departure = Deferred.makeUnsafe()
    Deferred.doneUnsafe(departure, Exit.void)
  }

  /** Ends the epoch of a session that was taken. */
  private lose(taken: Tables.Taken): void {
    for (const epoch of this.held.epochs) {
      if (epoch.number <= taken.epoch && SessionTables.sessionId(epoch.principal) === taken.id) epoch.lose()
    }
  }

  /** Ends the epochs that are not current in the database. */
  private readonly check: Effect.Effect<void, SqlError> = Effect.suspend(() => {
    const { epochs } = this.held
    if (epochs.length === 0) return Effect.void
    return Effect.map(this.own(SessionTables.currentOf(this.sql, epochs)), (current) => {
      for (const epoch of epochs) if (!current.has(SessionTables.sessionId(epoch.principal))) epoch.lose()
    })
  })

  private readonly giveUp: Effect.Effect<unknown, SqlError> = Effect.suspend(() => {
    const loose = Array.from(this.loose.keys())
    if (loose.length === 0) return Effect.void
    return Effect.map(own(this.sql)(SessionTables.giveUp(this.sql, this.name, loose)), () => {
      for (const principal of loose) {
        const left = (this.loose.get(principal) ?? 0) - 1
        if (left > 0) this.loose.set(principal, left)
        else this.loose.delete(principal)
      }
    })
  })

  /** Milliseconds of a monotonic clock. */
  private now(): number {
    return Number(this.clock.monotonicTimeNanosUnsafe()) / 1e6
  }

  private own<A>(statement: Effect.Effect<A, SqlError>): Effect.Effect<A, SqlError> {
    return own(this.sql, Math.min(deadline, this.registration.leaseMillis / 3))(statement)
  }
}
