/**
 * The state store as an executor uses it. Every answer has a timeout, messages that must arrive are retried, and leases
 * are renewed. If a driver fails or hangs, calls are refused; waves are never held up.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Detached from "../../../internal/detached.ts"
import { exitOf } from "../../../internal/exitOf.ts"
import { Grouped } from "../../../internal/grouped.ts"
import type { Outages } from "../../../internal/outages.ts"
import type { KeptPast } from "../../rules/SharedPast.ts"
import {
  type BatchClaim,
  type Claim,
  type Refused,
  type Request,
  type Reservation,
  type Settlement,
  type StateStore,
  StateStoreError
} from "../../store/StateStore.ts"
import { type Grant, isOpen } from "../../vocabulary/Grant.ts"
import { StoreLeases } from "./StoreLeases.ts"
import { answered, type ForCall, isAccepted, storeError, StoreOutbox } from "./StoreOutbox.ts"
import { inTime } from "./TimedPorts.ts"

/** The answer to the claims of a call. */
export type Reserved = Reservation | Refused | StateStoreError

/** How a store is used. */
export interface Options {
  /** The owner of all that the executor and its sub-agents reserve; unique among executors over one store. */
  readonly session: string
  /** Whose calls they are. */
  readonly principal: string
  /** Milliseconds to wait for the driver, unless the caller gives another timeout. */
  readonly timeout: number
  /** Milliseconds before a message that failed is sent again, at first. */
  readonly retry: number
  /** Shared with other executors over the same driver. */
  readonly outages: Outages
}

/** A call that is about to start. */
interface Starting {
  readonly reservation: Reservation
  readonly now: number
}

const nothing: Settlement = { started: false, key: "release", windowMillis: 0, value: undefined }

/** Turns a `StateStoreError` that was returned into a failure. */
export const orFail = <A>(
  answer: Effect.Effect<A | StateStoreError>
): Effect.Effect<Exclude<A, StateStoreError>, StateStoreError> =>
  Effect.flatMap(
    answer,
    (it) => it instanceof StateStoreError ? Effect.fail(it) : Effect.succeed(it as Exclude<A, StateStoreError>)
  )

/**
 * The state store of an executor. Its methods never fail: they return a `StateStoreError` instead. Timeouts are in
 * milliseconds. An immediate answer of the driver is an `Exit`.
 */
export class RetryingStore {
  readonly session: string
  readonly outages: Outages
  private readonly principal: string
  private readonly timeout: number
  private readonly driver: StateStore["Service"]
  private readonly context: Context.Context<never>
  private readonly clock: Clock.Clock
  private readonly leases: StoreLeases
  private readonly outbox: StoreOutbox
  /** Whether the driver leases reservations; undefined until the first one. */
  private isLeased: boolean | undefined
  private readonly starting: Grouped<Starting, boolean | StateStoreError>
  /** The driver does not answer immediately. */
  private isSlow = false
  /** By principal, the callers that wait for its next `mutated`. */
  private readonly mutating = new Map<string, Array<() => void>>()
  /** By batch, calls that count here although they started elsewhere. */
  private readonly recounted = new Map<string, Set<string>>()
  /** Grants that the driver has not stored yet. */
  private readonly granted = new Map<string, Grant>()

  constructor(driver: StateStore["Service"], context: Context.Context<never>, options: Options) {
    const { outages, principal, retry, session, timeout } = options
    this.session = session
    this.principal = principal
    this.outages = outages
    this.timeout = timeout
    this.driver = driver
    this.context = context
    this.clock = Context.get(context, Clock.Clock)
    this.outbox = new StoreOutbox(context, { outages, timeout, retry })
    this.starting = new Grouped((all) => this.startAll(all), context)
    this.leases = new StoreLeases(
      (held, now, timeout) => this.ask("renew", () => driver.renew(held, now), timeout),
      context
    )
  }

  /** Takes, for each request, all of its claims or none. Reservations that arrive after the timeout are given back. */
  reserve(
    requests: ReadonlyArray<Request>,
    now: number,
    timeout = this.timeout
  ): Effect.Effect<ReadonlyArray<Reserved>> {
    const since = this.isLeased === false ? 0 : this.leases.now()
    const answer = answered(() => this.driver.reserve(requests, now, this.principal))
    const exit = exitOf(answer)
    if (exit?._tag === "Success") return Effect.succeed(this.noted(exit.value, requests, since))
    return Effect.map(
      this.ask("reserve", () => exit === undefined ? this.givenBackLate(answer) : answer, timeout),
      (it) => this.noted(it, requests, since)
    )
  }

  /** Does not interrupt the driver: late reservations have to be given back. */
  private givenBackLate(
    answer: Effect.Effect<ReadonlyArray<Reservation | Refused>, StateStoreError>
  ): Effect.Effect<ReadonlyArray<Reservation | Refused>, StateStoreError> {
    return Effect.contextWith((context: Context.Context<never>) =>
      Effect.callback((resume) => {
        let isAwaited = true
        Effect.runForkWith(context)(answer).addObserver((exit) => {
          if (isAwaited) resume(exit)
          else if (Exit.isSuccess(exit)) {
            for (const it of exit.value) if (isReservation(it)) this.runs(this.giveBack(it, this.now()))
          }
        })
        return Effect.sync(() => {
          isAwaited = false
        })
      })
    )
  }

  /** Whether the store outlives this process and is shared with others: its reservations are leased. */
  get outlives(): boolean {
    return this.isLeased === true
  }

  /** Whether it is not known yet that it does not. */
  get mayOutlive(): boolean {
    return this.isLeased !== false
  }

  private noted(
    answers: ReadonlyArray<Reserved> | StateStoreError,
    requests: ReadonlyArray<Request>,
    since: number
  ): ReadonlyArray<Reserved> {
    if (answers instanceof StateStoreError) return requests.map(() => answers)
    if (answers.length !== requests.length) {
      const cause = `${requests.length} requests have ${answers.length} answers`
      return requests.map(() => new StateStoreError({ operation: "reserve", cause }))
    }
    if (this.isLeased === false) return answers
    for (const it of answers) {
      if (!isReservation(it)) continue
      if (it.leaseMillis === undefined) this.isLeased ??= false
      else {
        this.isLeased = true
        this.leases.add(it, since)
      }
    }
    return answers
  }

  /**
   * Marks the reservation of a call as started: its claims are now spent. False means that the reservation was lost and
   * the call may not start. Calls that start at the same moment share one request.
   */
  start(reservation: Reservation, now: number, timeout = this.timeout): Effect.Effect<boolean | StateStoreError> {
    if (reservation.leaseMillis === undefined) return isHeld
    return Effect.map(
      Detached.within(this.starting.ask({ reservation, now }), timeout),
      (exit) => exit !== undefined && Exit.isSuccess(exit) ? exit.value : storeError("start", "no answer in time")
    )
  }

  private startAll(all: ReadonlyArray<Starting>): Effect.Effect<ReadonlyArray<boolean | StateStoreError>> {
    const reservations = all.map((it) => it.reservation)
    const now = Math.max(...all.map((it) => it.now))
    return Effect.map(this.ask("start", () => this.driver.start(reservations, now), this.timeout), (answer) => {
      if (answer instanceof StateStoreError) return reservations.map(() => answer)
      const held = new Set(answer.map(({ id }) => id))
      return reservations.map((it) => held.has(it.id) && this.leases.holds(it))
    })
  }

  /** Calls back once if a reservation is lost, or about to be, before it is settled. */
  watch(reservation: Reservation, onLost: () => void): void {
    this.leases.watch(reservation, onLost)
  }

  /** Whether a reservation still holds what it claims. */
  holds(reservation: Reservation): boolean {
    return this.leases.holds(reservation)
  }

  /** Whether the driver has said less than so many milliseconds ago that a reservation is held. */
  isFresh(reservation: Reservation, millis: number): boolean {
    return this.leases.isFresh(reservation, millis)
  }

  /** Frees what an ended session had reserved but not started. */
  abandon(
    session: string,
    now: number,
    started: ReadonlyArray<Reservation>,
    timeout = this.timeout
  ): Effect.Effect<void> {
    const send = () => this.driver.abandon(session, now, started)
    return this.outbox.send({ operation: "abandon", send, about: `session ${session}` }, timeout)
  }

  /** The first claim that would be refused now; takes nothing. */
  check(
    claims: ReadonlyArray<Claim>,
    now: number,
    timeout = this.timeout
  ): Effect.Effect<Refused | undefined | StateStoreError> {
    return this.ask("check", () => this.driver.check(claims, now), timeout)
  }

  /** Keeps a batch from being idle, from now until the effect is run. */
  hold(batch: string): Effect.Effect<void> {
    const state: { isOver: boolean; reservation?: Reservation } = { isOver: false }
    const hold = ([reserved]: ReadonlyArray<Reserved>): void => {
      if (reserved !== undefined && isReservation(reserved)) state.reservation = reserved
      if (state.isOver) free()
    }
    const free = (): void => {
      state.isOver = true
      if (state.reservation !== undefined) this.runs(this.giveBack(state.reservation, this.now()))
    }
    const claims = [{ _tag: "Batch", batch }] as const
    const answer = this.reserve([{ owner: "", session: this.session, claims }], this.now())
    const exit = exitOf(answer)
    if (exit !== undefined && Exit.isSuccess(exit)) hold(exit.value)
    else this.runs(Effect.map(answer, hold))
    return Effect.sync(free)
  }

  /** Settles a reservation. Ends with the first attempt, successful or not; later attempts run in the background. */
  settle(
    reservation: Reservation,
    settlement: Settlement,
    now: number,
    timeout = this.timeout,
    of?: ForCall
  ): Effect.Effect<void> {
    const { key } = settlement
    if (key !== "running") this.leases.delete(reservation)
    // called once per call: there is only a message if the driver has not accepted it immediately
    const first = this.outbox.isEmpty ? this.settled(reservation, settlement, now) : undefined
    if (first !== undefined && isAccepted(first)) return Effect.void
    const send = () => this.settled(reservation, settlement, now)
    return this.outbox.send({ operation: "settle", send, about: reservation.id, key, of }, timeout, first)
  }

  /** Reports a recorded end, in case the process that recorded it ended before the store heard of it. */
  recordedEnd(reservation: Reservation, settlement: Settlement, now: number): Effect.Effect<void> {
    const send = () => Effect.asVoid(this.driver.settle(reservation, { ...settlement, isRecorded: true }, now))
    return this.outbox.send({ operation: "settle", send, about: reservation.id }, this.timeout)
  }

  private settled(
    reservation: Reservation,
    settlement: Settlement,
    now: number
  ): Effect.Effect<boolean, StateStoreError> {
    try {
      return this.driver.settle(reservation, settlement, now)
    } catch (defect) {
      return Effect.die(defect)
    }
  }

  /** Reports that the fiber of a reservation that was settled as running has ended. */
  release(reservation: Reservation, now: number, timeout = this.timeout, of?: ForCall): Effect.Effect<void> {
    this.leases.delete(reservation)
    const send = () => this.driver.release(reservation, now)
    return this.outbox.send({ operation: "release", send, about: reservation.id, key: "release", of }, timeout)
  }

  /** Gives back what a call that never started has reserved. */
  giveBack(reservation: Reservation, now: number, timeout = this.timeout): Effect.Effect<void> {
    return this.settle(reservation, nothing, now, timeout)
  }

  /** The settlement of a reservation's key that has not reached the store yet, which still has the call as running. */
  pendingKey(reservation: string): Settlement["key"] | undefined {
    return this.outbox.pendingKey(reservation)
  }

  /** Keeps a grant. It counts immediately, even before the driver stores it. */
  grant(grant: Grant, timeout = this.timeout): Effect.Effect<void> {
    const { id } = grant
    this.granted.set(id, grant)
    const onOver = () => void this.granted.delete(id)
    const send = () => this.driver.grant(grant)
    return this.outbox.send({ operation: "grant", send, about: grantKey(id), onOver }, timeout)
  }

  /** The grants of a principal that have not expired at a time. */
  grants(
    principal: string,
    at: number,
    timeout = this.timeout
  ): Effect.Effect<ReadonlyArray<Grant> | StateStoreError> {
    const known = this.ask("grants", () => this.driver.grants(principal, at), timeout)
    if (this.granted.size === 0) return known
    // the driver may store them before it has answered, and not have them in its answer
    const unsent = Array.from(this.granted.values()).filter((it) => it.principal === principal && isOpen(it, at))
    return unsent.length === 0 ? known : Effect.map(known, (grants) =>
      grants instanceof StateStoreError
        ? grants
        : [...grants, ...unsent.filter(({ id }) => grants.every((it) => it.id !== id))])
  }

  /** Revokes a grant; false if the id is unknown. */
  revoke(principal: string, id: string): Effect.Effect<boolean | StateStoreError> {
    const send = () => this.driver.revoke(principal, id)
    // sent after a pending grant, which would otherwise bring the permission back
    const isBehind = this.granted.delete(id) && this.outbox.sendBehind(grantKey(id), { operation: "revoke", send })
    return isBehind ? Effect.succeed(true) : this.ask("revoke", send, this.timeout)
  }

  /**
   * Overtakes the dedupe keys of the principal, but for that of `by`. A slow driver gets one message for all calls of
   * one moment, which overtake each other.
   */
  mutated(
    principal: string,
    by: Reservation | undefined,
    timeout = this.timeout,
    of?: ForCall
  ): Effect.Effect<void> {
    const send = (own: Reservation | undefined) =>
      this.outbox.send({ operation: "mutated", send: () => this.driver.mutated(principal, own), of }, this.timeout)
    if (!this.isSlow) {
      const sent = send(by)
      this.isSlow = exitOf(sent) === undefined
      return sent
    }
    const waiting = this.mutating.get(principal) ?? []
    if (waiting.length === 0) {
      this.mutating.set(principal, waiting)
      // earlier messages arrive before it
      const later = Effect.andThen(
        Effect.yieldNow,
        Effect.suspend(() => {
          this.mutating.delete(principal)
          return send(waiting.length === 1 ? by : undefined)
        })
      )
      Effect.runForkWith(this.context)(later).addObserver(() => {
        for (const resume of waiting) resume()
      })
    }
    const sent = Effect.callback<void>((resume) => {
      waiting.push(() => resume(Effect.void))
    })
    return timeout >= this.timeout ? sent : Effect.asVoid(Effect.timeoutOption(sent, timeout))
  }

  /** Notes that what a call, known by its key, used up elsewhere counts in this batch. False if it does already. */
  recounts(batch: string, call: string): boolean {
    const calls = this.recounted.get(batch)
    if (calls === undefined) this.recounted.set(batch, new Set([call]))
    else if (calls.has(call)) return false
    else calls.add(call)
    return true
  }

  /** Forgets a batch. The message is sent once: another batch with this id may begin at any time. */
  closeBatch(batch: string): Effect.Effect<void | StateStoreError> {
    this.recounted.delete(batch)
    return this.ask("closeBatch", () => this.driver.closeBatch(batch, this.principal), this.timeout)
  }

  /** What is remembered of batches and sessions. */
  recall(
    of: ReadonlyArray<BatchClaim>,
    now: number,
    timeout = this.timeout
  ): Effect.Effect<ReadonlyArray<KeptPast | undefined> | StateStoreError> {
    return this.ask("recall", () => this.driver.recall(of, now), timeout)
  }

  /** Drops expired entries; gives their number. */
  pruneExpired(now: number): Effect.Effect<number | StateStoreError> {
    return this.ask("pruneExpired", () => this.driver.pruneExpired(now), this.timeout)
  }

  /** Waits for messages in flight, with a timeout. Stops retries and lease renewals. */
  get close(): Effect.Effect<void> {
    return Effect.suspend(() => {
      this.leases.close()
      return this.outbox.close
    })
  }

  private now(): number {
    return this.clock.currentTimeMillisUnsafe()
  }

  /** The driver's answer, or its failure, within the timeout. */
  private ask<A>(
    operation: string,
    question: () => Effect.Effect<A, StateStoreError>,
    timeout: number
  ): Effect.Effect<A | StateStoreError> {
    const answer = answered(question)
    const failed = (cause: unknown) => storeError(operation, cause)
    const exit = exitOf(answer)
    if (exit !== undefined) {
      return Effect.succeed(exit._tag === "Success" ? exit.value : failed(Cause.squash(exit.cause)))
    }
    return Effect.catch(inTime(answer, failed, timeout), Effect.succeed)
  }

  /** Runs an effect without waiting for it. */
  private runs(effect: Effect.Effect<void>): void {
    if (!Exit.isExit(effect)) Effect.runForkWith(this.context)(effect)
  }
}

const isHeld = Effect.succeed(true)

const isReservation = (it: Reserved): it is Reservation => "epoch" in it

const grantKey = (id: string): string => `grant ${id}`
