/**
 * The state store as an executor uses it: no driver fails, kills or holds up who
 * asks it, and what could not be noted is told again.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Detached from "../internal/detached.ts"
import { exitOf } from "../internal/exitOf.ts"
import { Grant, isOpen } from "../store/Grant.ts"
import {
  type Claim,
  Kept,
  type Refused,
  type Request,
  type Reservation,
  type Settlement,
  type StateStore,
  StateStoreError
} from "../store/StateStore.ts"
import { Leases } from "./Leases.ts"
import * as Ports from "./Ports.ts"

/**
 * What became of the claims of a call.
 *
 * @category models
 * @since 0.1.0
 */
export type Reserved = Reservation | Refused | StateStoreError

/** Milliseconds between two tries: at first, and at most. */
const pause = { first: 1_000, most: 60_000 }

/** What so many calls could not have noted is kept, to be told again; more is lost. */
const maxUntold = 1_000

const nothing: Settlement = { started: false, key: "release", windowMillis: 0, value: undefined }

/** Something that a driver is told. */
interface Note {
  readonly operation: string
  /** The driver answers false where what it was told changes nothing. */
  readonly tell: () => Effect.Effect<boolean | void, StateStoreError>
  /** What it says of the call's key. */
  readonly key?: Settlement["key"]
}

/** What has to be told of one thing, in this order; the first is being told. */
interface Notes {
  readonly all: Array<Note>
  hasFailed: boolean
  /** Nothing is being told now: the next try comes later. */
  isPausing: boolean
}

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
  private readonly driver: StateStore["Service"]
  private readonly context: Context.Context<never>
  private readonly clock: Clock.Clock
  private readonly leases: Leases
  /** Standing permissions that the driver has not noted yet. */
  private readonly granted = new Map<string, Grant>()
  /** By what the notes are about, such as the id of a reservation; else by themselves. */
  private readonly untold = new Map<string | Notes, Notes>()
  private readonly telling = new Map<Fiber.Fiber<unknown>, Notes>()
  private isOver = false

  constructor(driver: StateStore["Service"], context: Context.Context<never>) {
    this.driver = driver
    this.context = context
    this.clock = Context.get(context, Clock.Clock)
    this.leases = new Leases(
      (held, now, patience) => Ports.ask("renew", () => driver.renew(held, now), areReservations, patience),
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
    patience = Ports.patience
  ): Effect.Effect<ReadonlyArray<Reserved>> {
    const judged = (answer: ReadonlyArray<Reservation | Refused> | StateStoreError) => this.judged(answer, requests)
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
            for (const it of exit.value.filter(isReservation)) this.runs(this.giveBack(it, this.now()))
          }
        })
        return Effect.sync(() => {
          isAwaited = false
        })
      })
    )
  }

  private judged(
    answer: ReadonlyArray<Reservation | Refused> | StateStoreError,
    requests: ReadonlyArray<Request>
  ): ReadonlyArray<Reserved> {
    if (answer instanceof StateStoreError) return requests.map(() => answer)
    return requests.map(({ claims }, index) => {
      const it: unknown = answer[index]
      if (isReservation(it)) {
        this.leases.add(it)
        return it
      }
      return isRefusal(it, claims) ? it : new StateStoreError({ operation: "reserve", cause: "it is no answer" })
    })
  }

  /** Tells which claim could not be had now; takes nothing. */
  check(
    claims: ReadonlyArray<Claim>,
    now: number,
    patience = Ports.patience
  ): Effect.Effect<Refused | undefined | StateStoreError> {
    const isAnswer = (it: unknown) => it === undefined || isRefusal(it, claims)
    return Ports.ask("check", () => this.driver.check(claims, now), isAnswer, patience)
  }

  /** Keeps a batch from being idle, from now on; the effect lets it go. */
  hold(batch: string): Effect.Effect<void> {
    const state: { isOver: boolean; reservation?: Reservation } = { isOver: false }
    const hold = ([reserved]: ReadonlyArray<Reserved>): void => {
      if (reserved !== undefined && isReservation(reserved)) state.reservation = reserved
      if (state.isOver) letGo()
    }
    const letGo = (): void => {
      state.isOver = true
      if (state.reservation !== undefined) this.runs(this.giveBack(state.reservation, this.now()))
    }
    const answer = this.reserve([{ owner: "", claims: [{ _tag: "Batch", batch }] }], this.now())
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
    patience = Ports.patience
  ): Effect.Effect<void> {
    const { key } = settlement
    if (key !== "running") this.leases.delete(reservation)
    const tell = () => this.driver.settle(reservation, settlement, now)
    return this.note({ operation: "settle", tell, key }, patience, reservation.id)
  }

  /** The fiber of a reservation that was settled as running has ended. */
  release(reservation: Reservation, now: number, patience = Ports.patience): Effect.Effect<void> {
    this.leases.delete(reservation)
    const tell = () => this.driver.release(reservation, now)
    return this.note({ operation: "release", tell, key: "release" }, patience, reservation.id)
  }

  /** Gives back what a call that never started has reserved. */
  giveBack(reservation: Reservation, now: number, patience = Ports.patience): Effect.Effect<void> {
    return this.settle(reservation, nothing, now, patience)
  }

  /**
   * What is to become of the key of a reservation, where the store could not be
   * told and still has its call running.
   */
  pendingKey(reservation: string): Settlement["key"] | undefined {
    const notes = this.untold.get(reservation)
    return notes?.hasFailed === true ? notes.all.at(-1)?.key : undefined
  }

  /** Keeps a standing permission: it counts from now on, whenever the driver has noted it. */
  grant(grant: Grant, patience = Ports.patience): Effect.Effect<void> {
    const { id } = grant
    this.granted.set(id, grant)
    return this.note({ operation: "grant", tell: () => this.driver.grant(grant) }, patience, grantKey(id), () => {
      this.granted.delete(id)
    })
  }

  /** Gives the standing permissions of a principal that have not expired at a time. */
  grants(
    principal: string,
    at: number,
    patience = Ports.patience
  ): Effect.Effect<ReadonlyArray<Grant> | StateStoreError> {
    const known = Ports.ask("grants", () => this.driver.grants(principal, at), areGrants, patience)
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
    const untold = this.granted.delete(id) ? this.untold.get(grantKey(id)) : undefined
    if (untold === undefined) return Ports.ask("revoke", tell)
    // behind what the driver has still to note, which would bring it back
    untold.all.push({ operation: "revoke", tell })
    return Effect.succeed(true)
  }

  /** Lets the keys of what the principal has read die. */
  mutated(principal: string, patience = Ports.patience): Effect.Effect<void> {
    return this.note({ operation: "mutated", tell: () => this.driver.mutated(principal) }, patience)
  }

  /** Forgets a batch. It is told once: another of the same id may begin at any time. */
  closeBatch(batch: string): Effect.Effect<void | StateStoreError> {
    return Ports.ask("closeBatch", () => this.driver.closeBatch(batch))
  }

  /** Forgets what is past its window; gives the number of entries dropped. */
  pruneExpired(now: number): Effect.Effect<number | StateStoreError> {
    return Ports.ask("pruneExpired", () => this.driver.pruneExpired(now))
  }

  /** The executor is over: what is being told comes to its end, in time; nothing is told again, no lease renewed. */
  get close(): Effect.Effect<void> {
    return Effect.suspend(() => {
      this.isOver = true
      this.leases.close()
      for (const [fiber, notes] of Array.from(this.telling)) if (notes.isPausing) fiber.interruptUnsafe()
      if (this.telling.size === 0) return Effect.void
      const told = Fiber.awaitAll(Array.from(this.telling.keys()))
      return Effect.asVoid(Detached.within(told, Ports.patience))
    })
  }

  private now(): number {
    return this.clock.currentTimeMillisUnsafe()
  }

  /** Runs what nobody waits for; what the driver answers at once is done already. */
  private runs(effect: Effect.Effect<void>): void {
    if (!Exit.isExit(effect)) Effect.runForkWith(this.context)(effect)
  }

  /** Notes something, at once or by an effect that ends with the first try, whatever comes of it; `onOver` is called once it is noted, or lost. */
  private note(note: Note, patience: number, about?: string, onOver?: () => void): Effect.Effect<void> {
    const before = about === undefined || this.untold.size === 0 ? undefined : this.untold.get(about)
    if (before !== undefined) {
      before.all.push(note)
      return Effect.void
    }
    const said = attempted(note.tell)
    const exit = exitOf(said)
    if (exit?._tag === "Success" && isNoted(exit.value)) {
      onOver?.()
      return Effect.void
    }
    const answer = Ports.ask(note.operation, () => said)
    const notes: Notes = { all: [note], hasFailed: false, isPausing: false }
    this.untold.set(about ?? notes, notes)
    const tried: { yet: boolean; then?: () => void } = { yet: false }
    const told = this.tellAll(notes, answer, () => {
      tried.yet = true
      tried.then?.()
    })
    const fiber = Effect.runForkWith(this.context)(told)
    this.telling.set(fiber, notes)
    fiber.addObserver(() => {
      this.telling.delete(fiber)
      this.untold.delete(about ?? notes)
      onOver?.()
    })
    if (tried.yet) return Effect.void
    const first = Effect.callback<void>((resume) => {
      tried.then = () => resume(Effect.void)
      if (tried.yet) tried.then()
    })
    return Effect.asVoid(Detached.within(first, patience))
  }

  private readonly tellAll = Effect.fnUntraced(function*(
    this: PatientStore,
    notes: Notes,
    first: Effect.Effect<boolean | void | StateStoreError>,
    onTried: () => void
  ) {
    let answer = first
    let millis = pause.first
    while (true) {
      const told: boolean | void | StateStoreError = yield* answer
      const { operation } = notes.all[0]!
      const hasFailed = told instanceof StateStoreError
      if (!hasFailed) {
        // it may have been told before, and the answer lost
        if (told === false && !notes.hasFailed) {
          yield* warn(`StateStore.${operation} changed nothing; the reservation was no longer held`)
        }
        notes.all.shift()
        millis = pause.first
      } else {
        // the outcome stands: what the store could not note is for the operator to see
        const isLost = this.isOver || this.untold.size > maxUntold
        if (isLost || !notes.hasFailed) {
          const next = isLost ? "what it was told is lost" : "it is told again later"
          yield* warn(`StateStore.${operation} failed; ${next}`, told.cause)
        }
        if (isLost) notes.all.length = 0
        notes.hasFailed = true
      }
      onTried()
      if (hasFailed && notes.all.length > 0) {
        notes.isPausing = true
        yield* Effect.sleep(millis)
        notes.isPausing = false
        millis = Math.min(2 * millis, pause.most)
      }
      const next = notes.all[0]
      if (next === undefined) return
      answer = Ports.ask(next.operation, next.tell)
    }
  })
}

// Utilities

const attempted = <A>(tell: () => Effect.Effect<A, StateStoreError>): Effect.Effect<A, StateStoreError> => {
  try {
    return tell()
  } catch (defect) {
    return Effect.die(defect)
  }
}

/** A logger may die of what a driver died of. */
const warn = (...message: ReadonlyArray<unknown>): Effect.Effect<void> =>
  Effect.ignoreCause(Effect.logWarning(...message))

/** The driver knows, and it counts. */
const isNoted = (told: boolean | void | StateStoreError): boolean =>
  told !== false && !(told instanceof StateStoreError)

const grantKey = (id: string): string => `grant ${id}`

const areGrants = Schema.is(Schema.Array(Grant))

const isReservation = (it: unknown): it is Reservation =>
  typeof it === "object" && it !== null && "id" in it && typeof it.id === "string" &&
  "epoch" in it && typeof it.epoch === "number" &&
  (!("leaseMillis" in it) || it.leaseMillis === undefined || Number(it.leaseMillis) > 0)

const areReservations = (it: unknown): boolean => Array.isArray(it) && it.every(isReservation)

/** A refusal is of what was claimed. */
const isRefusal = (answer: unknown, claims: ReadonlyArray<Claim>): answer is Refused =>
  isRefused(answer) &&
  claims.some((it) =>
    it._tag === "Group"
      ? answer._tag === "GroupTaken" && answer.group === it.group
      : answer._tag === refusals[it._tag]
  )

const refusals: { readonly [T in Claim["_tag"]]: Refused["_tag"] | undefined } = {
  Batch: undefined,
  Calls: "CallsUsedUp",
  Cooldown: "CoolingDown",
  Group: "GroupTaken",
  Key: "KeyTaken"
}

const isRefused = Schema.is(Schema.Union([
  Schema.TaggedStruct("KeyTaken", {
    owner: Schema.String,
    reservation: Schema.String,
    process: Schema.String,
    untold: Schema.Boolean,
    running: Schema.Boolean,
    value: Schema.UndefinedOr(Kept)
  }),
  Schema.TaggedStruct("CallsUsedUp", {}),
  Schema.TaggedStruct("GroupTaken", { group: Schema.String, tool: Schema.String }),
  Schema.TaggedStruct("CoolingDown", { running: Schema.Boolean, remainingMillis: Schema.Finite })
]))
