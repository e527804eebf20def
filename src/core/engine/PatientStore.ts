/**
 * The state store as an executor uses it: no driver fails, kills or holds up those
 * who ask it, and an answer that makes no sense is an error like any other.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Detached from "../../internal/detached.ts"
import { exitOf } from "../../internal/exitOf.ts"
import { Grouped } from "../../internal/grouped.ts"
import type { Outages } from "../../internal/outages.ts"
import {
  type Claim,
  type Refused,
  type Request,
  type Reservation,
  type Settlement,
  type StateStore,
  StateStoreError
} from "../store/StateStore.ts"
import { type Grant, isOpen } from "../vocabulary/Grant.ts"
import { Leases } from "./Leases.ts"
import * as Ports from "./Ports.ts"
import * as StoreAnswers from "./StoreAnswers.ts"
import { Telling, type Told } from "./Telling.ts"

/**
 * What became of the claims of a call.
 *
 * @category models
 * @since 0.1.0
 */
export type Reserved = Reservation | Refused | StateStoreError

/**
 * Whose reservations they are, and how a store is waited for.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** What the executor and its sub-agents reserve is this session's; no other executor's over the same store. */
  readonly session: string
  /** Milliseconds that the driver has for an answer, where who asks says nothing else. */
  readonly patience: number
  /** Milliseconds after which what the driver could not take down is told again, at first. */
  readonly retry: number
  /** The driver's, together with other executors over it. */
  readonly outages: Outages
}

/** A call that is about to start. */
interface Starting {
  readonly reservation: Reservation
  readonly now: number
}

const nothing: Settlement = { started: false, key: "release", windowMillis: 0, value: undefined }

/**
 * Lets an answer that could not be had fail.
 *
 * @category asking
 * @since 0.1.0
 */
export const orFail = <A>(
  answer: Effect.Effect<A | StateStoreError>
): Effect.Effect<Exclude<A, StateStoreError>, StateStoreError> =>
  Effect.flatMap(
    answer,
    (it) => it instanceof StateStoreError ? Effect.fail(it) : Effect.succeed(it as Exclude<A, StateStoreError>)
  )

/**
 * The state store of an executor. Its methods never fail: an answer that could not
 * be had is a `StateStoreError`. Each waits as long as its caller has patience, in
 * milliseconds; what the driver answers at once is an `Exit`.
 *
 * @category models
 * @since 0.1.0
 */
export class PatientStore {
  readonly session: string
  readonly outages: Outages
  private readonly patience: number
  private readonly driver: StateStore["Service"]
  private readonly context: Context.Context<never>
  private readonly clock: Clock.Clock
  private readonly leases: Leases
  private readonly telling: Telling
  /** Whether the driver leases what it gives; undefined until it has given something. */
  private isLeased: boolean | undefined
  private readonly starting: Grouped<Starting, boolean | StateStoreError>
  /** The driver does not have its answers at once. */
  private isSlow = false
  /** By principal, those who wait for what is told of it next. */
  private readonly mutating = new Map<string, Array<() => void>>()
  /** By batch, calls that count here although they started elsewhere. */
  private readonly recounted = new Map<string, Set<string>>()
  /** Standing permissions that the driver has not noted yet. */
  private readonly granted = new Map<string, Grant>()

  constructor(driver: StateStore["Service"], context: Context.Context<never>, options: Options) {
    const { outages, patience, retry, session } = options
    this.session = session
    this.outages = outages
    this.patience = patience
    this.driver = driver
    this.context = context
    this.clock = Context.get(context, Clock.Clock)
    this.telling = new Telling(context, { outages, patience, retry })
    this.starting = new Grouped((all) => this.startAll(all), context)
    this.leases = new Leases(
      (held, now, patience) =>
        Ports.ask("renew", () => driver.renew(held, now), StoreAnswers.areReservations, patience),
      context
    )
  }

  /**
   * Takes for each request all of its claims or none. What is reserved once nobody
   * waits any more is given back.
   */
  reserve(
    requests: ReadonlyArray<Request>,
    now: number,
    patience = this.patience
  ): Effect.Effect<ReadonlyArray<Reserved>> {
    const since = this.isLeased === false ? undefined : this.leases.now()
    const judged = (answer: ReadonlyArray<Reservation | Refused> | StateStoreError) =>
      this.judged(answer, requests, since)
    const answer = Ports.ask(
      "reserve",
      () => {
        const answer = this.driver.reserve(requests, now)
        return Exit.isExit(answer) || !Effect.isEffect(answer) ? answer : this.awaited(answer)
      },
      Array.isArray,
      patience
    )
    const exit = exitOf(answer)
    return exit !== undefined && Exit.isSuccess(exit) ? Effect.succeed(judged(exit.value)) : Effect.map(answer, judged)
  }

  /** The driver is not interrupted: what it gives too late has to be given back. */
  private awaited<A>(answer: Effect.Effect<A, StateStoreError>): Effect.Effect<A, StateStoreError> {
    return Effect.contextWith((context: Context.Context<never>) =>
      Effect.callback<A, StateStoreError>((resume) => {
        let isAwaited = true
        Effect.runForkWith(context)(answer).addObserver((exit) => {
          if (isAwaited) resume(exit)
          else if (Exit.isSuccess(exit) && Array.isArray(exit.value)) {
            for (const it of exit.value.filter(StoreAnswers.isReservation)) this.runs(this.giveBack(it, this.now()))
          }
        })
        return Effect.sync(() => {
          isAwaited = false
        })
      })
    )
  }

  /** What is reserved is held for a time, by a store that others have, too. */
  get outlives(): boolean {
    return this.isLeased === true
  }

  private judged(
    answer: ReadonlyArray<Reservation | Refused> | StateStoreError,
    requests: ReadonlyArray<Request>,
    since: number | undefined
  ): ReadonlyArray<Reserved> {
    if (answer instanceof StateStoreError) return requests.map(() => answer)
    return requests.map(({ claims }, index) => {
      const it: unknown = answer[index]
      if (StoreAnswers.isReservation(it)) {
        if (it.leaseMillis === undefined) this.isLeased ??= false
        else {
          this.isLeased = true
          this.leases.add(it, since ?? this.leases.now())
        }
        return it
      }
      return StoreAnswers.isRefusal(it, claims)
        ? it
        : new StateStoreError({ operation: "reserve", cause: "it is no answer" })
    })
  }

  /**
   * A call is about to start: what it has reserved is spent. False if that is not held
   * any more, so that it may not start. Those who start at one moment ask at once.
   */
  start(
    reservation: Reservation,
    now: number,
    patience = this.patience
  ): Effect.Effect<boolean | StateStoreError> {
    if (reservation.leaseMillis === undefined) return isHeld
    return Effect.map(
      Detached.within(this.starting.ask({ reservation, now }), patience),
      (exit) => exit !== undefined && Exit.isSuccess(exit) ? exit.value : noAnswer("start")
    )
  }

  private startAll(all: ReadonlyArray<Starting>): Effect.Effect<ReadonlyArray<boolean | StateStoreError>> {
    const reservations = all.map((it) => it.reservation)
    const now = Math.max(...all.map((it) => it.now))
    const asked = Ports.ask(
      "start",
      () => this.driver.start(reservations, now),
      StoreAnswers.areReservations,
      this.patience
    )
    return Effect.map(asked, (answer) => {
      if ("operation" in answer) return reservations.map(() => answer)
      const held = new Set(answer.map(({ id }) => id))
      return reservations.map((it) => held.has(it.id) && this.leases.holds(it))
    })
  }

  /** Calls back once, if a reservation is lost, or about to be, before it is settled. */
  watch(reservation: Reservation, onLost: () => void): void {
    this.leases.watch(reservation, onLost)
  }

  /** Tells whether nobody else can have what a reservation holds. */
  holds(reservation: Reservation): boolean {
    return this.leases.holds(reservation)
  }

  /** Frees what a session that is over has reserved and not started. */
  abandon(
    session: string,
    now: number,
    started: ReadonlyArray<Reservation>,
    patience = this.patience
  ): Effect.Effect<void> {
    return this.telling.tell("abandon", () => this.driver.abandon(session, now, started), patience, {
      about: `session ${session}`
    })
  }

  /** Tells which claim could not be had now; takes nothing. */
  check(
    claims: ReadonlyArray<Claim>,
    now: number,
    patience = this.patience
  ): Effect.Effect<Refused | undefined | StateStoreError> {
    const isAnswer = (it: unknown) => it === undefined || StoreAnswers.isRefusal(it, claims)
    return Ports.ask("check", () => this.driver.check(claims, now), isAnswer, patience)
  }

  /** Keeps a batch from being idle, from now on; the effect lets it go. */
  hold(batch: string): Effect.Effect<void> {
    const state: { isOver: boolean; reservation?: Reservation } = { isOver: false }
    const hold = ([reserved]: ReadonlyArray<Reserved>): void => {
      if (reserved !== undefined && StoreAnswers.isReservation(reserved)) state.reservation = reserved
      if (state.isOver) letGo()
    }
    const letGo = (): void => {
      state.isOver = true
      if (state.reservation !== undefined) this.runs(this.giveBack(state.reservation, this.now()))
    }
    const claims = [{ _tag: "Batch", batch }] as const
    const answer = this.reserve([{ owner: "", session: this.session, claims }], this.now())
    const exit = exitOf(answer)
    if (exit !== undefined && Exit.isSuccess(exit)) hold(exit.value)
    else this.runs(Effect.map(answer, hold))
    return Effect.sync(letGo)
  }

  /** Settles a reservation; ends with the first try, whatever comes of it. */
  settle(
    reservation: Reservation,
    settlement: Settlement,
    now: number,
    patience = this.patience,
    of?: Told
  ): Effect.Effect<void> {
    const { key } = settlement
    if (key !== "running") this.leases.delete(reservation)
    const tell = () => this.driver.settle(reservation, settlement, now)
    return this.telling.tell("settle", tell, patience, { about: reservation.id, key, of })
  }

  /** The fiber of a reservation that was settled as running has ended. */
  release(reservation: Reservation, now: number, patience = this.patience, of?: Told): Effect.Effect<void> {
    this.leases.delete(reservation)
    const tell = () => this.driver.release(reservation, now)
    return this.telling.tell("release", tell, patience, { about: reservation.id, key: "release", of })
  }

  /** Gives back what a call that never started has reserved. */
  giveBack(reservation: Reservation, now: number, patience = this.patience): Effect.Effect<void> {
    return this.settle(reservation, nothing, now, patience)
  }

  /**
   * What is to become of the key of a reservation, where the store could not be
   * told and still has its call running.
   */
  pendingKey(reservation: string): Settlement["key"] | undefined {
    return this.telling.pendingKey(reservation)
  }

  /** Keeps a standing permission: it counts from now on, whenever the driver has noted it. */
  grant(grant: Grant, patience = this.patience): Effect.Effect<void> {
    const { id } = grant
    this.granted.set(id, grant)
    const onOver = () => void this.granted.delete(id)
    return this.telling.tell("grant", () => this.driver.grant(grant), patience, { about: grantKey(id), onOver })
  }

  /** Gives the standing permissions of a principal that have not expired at a time. */
  grants(
    principal: string,
    at: number,
    patience = this.patience
  ): Effect.Effect<ReadonlyArray<Grant> | StateStoreError> {
    const known = Ports.ask("grants", () => this.driver.grants(principal, at), StoreAnswers.areGrants, patience)
    if (this.granted.size === 0) return known
    // the driver may note them before it has answered, and not have them in its answer
    const untold = Array.from(this.granted.values()).filter((it) => it.principal === principal && isOpen(it, at))
    return untold.length === 0 ? known : Effect.map(known, (grants) =>
      "operation" in grants
        ? grants
        : [...grants, ...untold.filter(({ id }) => grants.every((it) => it.id !== id))])
  }

  /** Takes a standing permission back; false if there is none of that id. */
  revoke(principal: string, id: string): Effect.Effect<boolean | StateStoreError> {
    const tell = () => this.driver.revoke(principal, id)
    // behind what the driver has still to note, which would bring it back
    const isBehind = this.granted.delete(id) &&
      this.telling.tellBehind(grantKey(id), { operation: "revoke", tell, key: undefined, of: undefined })
    return isBehind ? Effect.succeed(true) : Ports.ask("revoke", tell, undefined, this.patience)
  }

  /** Lets the keys of what the principal has read die. A driver that takes its time is told once for all of one moment. */
  mutated(principal: string, patience = this.patience, of?: Told): Effect.Effect<void> {
    const tell = () => this.telling.tell("mutated", () => this.driver.mutated(principal), this.patience, { of })
    if (!this.isSlow) {
      const told = tell()
      this.isSlow = !Exit.isExit(told)
      return told
    }
    const waiting = this.mutating.get(principal) ?? []
    if (waiting.length === 0) {
      this.mutating.set(principal, waiting)
      // what came until then is before it
      const later = Effect.andThen(
        Effect.yieldNow,
        Effect.suspend(() => {
          this.mutating.delete(principal)
          return tell()
        })
      )
      Effect.runForkWith(this.context)(later).addObserver(() => {
        for (const resume of waiting) resume()
      })
    }
    const told = Effect.callback<void>((resume) => {
      waiting.push(() => resume(Effect.void))
    })
    return patience >= this.patience ? told : Effect.asVoid(Effect.timeoutOption(told, patience))
  }

  /** Notes that what a call of a batch, known by its key, used up elsewhere counts here; false if it does already. */
  recounts(batch: string, call: string): boolean {
    const calls = this.recounted.get(batch)
    if (calls === undefined) this.recounted.set(batch, new Set([call]))
    else if (calls.has(call)) return false
    else calls.add(call)
    return true
  }

  /** Forgets a batch. It is told once: another of the same id may begin at any time. */
  closeBatch(batch: string): Effect.Effect<void | StateStoreError> {
    this.recounted.delete(batch)
    return Ports.ask("closeBatch", () => this.driver.closeBatch(batch), undefined, this.patience)
  }

  /** Forgets what is past its window; gives the number of entries dropped. */
  pruneExpired(now: number): Effect.Effect<number | StateStoreError> {
    return Ports.ask("pruneExpired", () => this.driver.pruneExpired(now), undefined, this.patience)
  }

  /** The executor is over: what is being told comes to its end, in time; nothing is told again, no lease renewed. */
  get close(): Effect.Effect<void> {
    return Effect.suspend(() => {
      this.leases.close()
      return this.telling.close
    })
  }

  private now(): number {
    return this.clock.currentTimeMillisUnsafe()
  }

  /** Runs what nobody waits for; what the driver answers at once is done already. */
  private runs(effect: Effect.Effect<void>): void {
    if (!Exit.isExit(effect)) Effect.runForkWith(this.context)(effect)
  }
}

// Utilities

const isHeld = Effect.succeed(true)

const noAnswer = (operation: string) => new StateStoreError({ operation, cause: "no answer in time" })

const grantKey = (id: string): string => `grant ${id}`
