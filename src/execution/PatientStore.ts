/**
 * The state store as an executor uses it: no driver fails, kills or holds up who
 * asks it, and what could not be noted is told again.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import { Grant } from "../store/Grant.ts"
import {
  type Answer,
  type Claim,
  type Refused,
  type Reservation,
  type Settlement,
  type StateStore,
  type StateStoreError
} from "../store/StateStore.ts"
import { ToolOutcome } from "../ToolOutcome.ts"
import * as Ports from "./Ports.ts"

/** Milliseconds between two tries: at first, and at most. */
const pause = { first: 1_000, most: 60_000 }

/** What so many calls could not have noted is kept, to be told again; more is lost. */
const maxUntold = 1_000

const nothing: Settlement = { started: false, key: "release", windowMillis: 0, value: undefined }

/** Something that a driver is told. */
interface Note {
  readonly operation: string
  readonly tell: () => Answer<void>
  /** What it says of the call's key. */
  readonly key?: Settlement["key"]
}

/** What has to be told of one thing, in this order; the first is being told. */
interface Notes {
  readonly all: Array<Note>
  hasFailed: boolean
}

/**
 * The state store of an executor.
 *
 * @category models
 * @since 0.1.0
 */
export class PatientStore {
  private readonly driver: StateStore["Service"]
  private readonly context: Context.Context<never>
  /** By what the notes are about; of a reservation, its id. */
  private readonly untold = new Map<string | number, Notes>()
  private readonly telling = new Set<Fiber.Fiber<unknown>>()
  private lastMutation = 0
  private isOver = false

  constructor(driver: StateStore["Service"], context: Context.Context<never>) {
    this.driver = driver
    this.context = context
  }

  /** Takes all claims or none. What is reserved once nobody waits any more is given back. */
  reserve(
    owner: string,
    claims: ReadonlyArray<Claim>,
    now: number,
    replaces?: Reservation
  ): Answer<Reservation | Refused> {
    return Ports.ask("reserve", () => {
      const answer = this.driver.reserve(owner, claims, now, replaces)
      return Effect.isEffect(answer) ? this.awaited(answer) : answer
    }, (it) => isReservation(it) || isRefusal(it, claims))
  }

  /** Tells which claim could not be had now; takes nothing. */
  check(claims: ReadonlyArray<Claim>, now: number): Answer<Refused | undefined> {
    return Ports.ask("check", () => this.driver.check(claims, now))
  }

  /** The driver is not interrupted: what it gives too late has to be given back. */
  private awaited(
    answer: Effect.Effect<Reservation | Refused, StateStoreError>
  ): Effect.Effect<Reservation | Refused, StateStoreError> {
    return Effect.contextWith((context: Context.Context<never>) =>
      Effect.callback<Reservation | Refused, StateStoreError>((resume) => {
        let isAwaited = true
        Effect.runForkWith(context)(answer).addObserver((exit) => {
          if (isAwaited) resume(exit)
          else if (Exit.isSuccess(exit) && isReservation(exit.value)) {
            Effect.runForkWith(this.context)(this.givenBack(exit.value))
          }
        })
        return Effect.sync(() => {
          isAwaited = false
        })
      })
    )
  }

  private givenBack(reservation: Reservation): Effect.Effect<void> {
    return Effect.flatMap(Clock.currentTimeMillis, (now) => noted(this.giveBack(reservation, now)))
  }

  /** Settles a reservation. */
  settle(reservation: Reservation, settlement: Settlement, now: number): Answer<void> {
    const { key } = settlement
    const tell = () => this.driver.settle(reservation, settlement, now)
    return this.note(reservation.id, { operation: "settle", tell, key })
  }

  /** The fiber of a reservation that was settled as running has ended. */
  release(reservation: Reservation, now: number): Answer<void> {
    const tell = () => this.driver.release(reservation, now)
    return this.note(reservation.id, { operation: "release", tell, key: "release" })
  }

  /** Gives back what a call that never started has reserved. */
  giveBack(reservation: Reservation, now: number): Answer<void> {
    return this.settle(reservation, nothing, now)
  }

  /**
   * What is to become of the key of a reservation, where the store could not be
   * told and still has its call running.
   */
  pendingKey(reservation: number): Settlement["key"] | undefined {
    const notes = this.untold.get(reservation)
    return notes?.hasFailed === true ? notes.all.at(-1)?.key : undefined
  }

  /** Keeps a standing permission. */
  grant(grant: Grant): Answer<void> {
    return this.note(`grant ${grant.id}`, { operation: "grant", tell: () => this.driver.grant(grant) })
  }

  /** Gives the standing permissions of a principal that have not expired at a time. */
  grants(principal: string, at: number): Answer<ReadonlyArray<Grant>> {
    return Ports.ask("grants", () => this.driver.grants(principal, at), areGrants)
  }

  /** Takes a standing permission back; false if there is none of that id. */
  revoke(principal: string, id: string): Answer<boolean> {
    return Ports.ask("revoke", () => this.driver.revoke(principal, id))
  }

  /** Lets the keys of what the principal has read die. */
  mutated(principal: string): Answer<void> {
    const tell = () => this.driver.mutated(principal)
    return this.note(`mutation ${++this.lastMutation}`, { operation: "mutated", tell })
  }

  /** Forgets a batch. It is told once: another of the same id may begin at any time. */
  closeBatch(batch: string): Answer<void> {
    return Ports.ask("closeBatch", () => this.driver.closeBatch(batch))
  }

  /** Forgets what is past its window; gives the number of entries dropped. */
  pruneExpired(now: number): Answer<number> {
    return Ports.ask("pruneExpired", () => this.driver.pruneExpired(now))
  }

  /** The executor is over: nothing is told again. */
  get close(): Effect.Effect<void> {
    return Effect.sync(() => {
      this.isOver = true
      for (const fiber of Array.from(this.telling)) fiber.interruptUnsafe()
    })
  }

  /** Notes something, at once or by an effect that ends with the first try, whatever comes of it. */
  private note(about: string | number, note: Note): Answer<void> {
    const before = this.untold.get(about)
    if (before !== undefined) return void before.all.push(note)
    const answer = Ports.ask(note.operation, note.tell)
    if (!Effect.isEffect(answer)) return
    const notes: Notes = { all: [note], hasFailed: false }
    this.untold.set(about, notes)
    const tried: { yet: boolean; then?: () => void } = { yet: false }
    const told = this.tellAll(notes, answer, () => {
      tried.yet = true
      tried.then?.()
    })
    const fiber = Effect.runForkWith(this.context)(told)
    this.telling.add(fiber)
    fiber.addObserver(() => {
      this.telling.delete(fiber)
      this.untold.delete(about)
    })
    return Effect.callback<void>((resume) => {
      tried.then = () => resume(Effect.void)
      if (tried.yet) tried.then()
    })
  }

  private readonly tellAll = Effect.fnUntraced(function*(
    this: PatientStore,
    notes: Notes,
    first: Effect.Effect<void, StateStoreError>,
    onTried: () => void
  ) {
    let answer: Answer<void> = first
    let millis = pause.first
    while (true) {
      const exit: Exit.Exit<void, StateStoreError> = Effect.isEffect(answer) ? yield* Effect.exit(answer) : Exit.void
      if (Exit.isSuccess(exit)) {
        notes.all.shift()
        millis = pause.first
      } else {
        // the outcome stands: what the store could not note is for the operator to see
        const isLost = this.isOver || this.untold.size > maxUntold
        if (isLost || !notes.hasFailed) {
          const next = isLost ? "what it was told is lost" : "it is told again later"
          yield* Effect.logWarning(`StateStore.${notes.all[0]!.operation} failed; ${next}`, exit.cause)
        }
        if (isLost) notes.all.length = 0
        notes.hasFailed = true
      }
      onTried()
      if (Exit.isFailure(exit) && notes.all.length > 0) {
        yield* Effect.sleep(millis)
        millis = Math.min(2 * millis, pause.most)
      }
      const next = notes.all[0]
      if (next === undefined) return
      answer = Ports.ask(next.operation, next.tell)
    }
  })
}

// Utilities

const areGrants = Schema.is(Schema.Array(Grant))

const isReservation = (answer: unknown): answer is Reservation =>
  typeof answer === "object" && answer !== null && "id" in answer && "claims" in answer

/** A refusal is of what was claimed. */
const isRefusal = (answer: unknown, claims: ReadonlyArray<Claim>): boolean =>
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
    reservation: Schema.Finite,
    process: Schema.String,
    untold: Schema.Boolean,
    running: Schema.Boolean,
    value: Schema.UndefinedOr(Schema.Struct({ outcome: ToolOutcome }))
  }),
  Schema.TaggedStruct("CallsUsedUp", {}),
  Schema.TaggedStruct("GroupTaken", { group: Schema.String, tool: Schema.String }),
  Schema.TaggedStruct("CoolingDown", { running: Schema.Boolean, remainingMillis: Schema.Finite })
]))

const noted = (answer: Answer<void>): Effect.Effect<void> =>
  Effect.isEffect(answer) ? Effect.ignore(answer) : Effect.void
