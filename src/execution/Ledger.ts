/**
 * What calls ask of the state store. A store that fails, throws or does not
 * answer in time holds nobody up: a claim is refused, a note is logged as lost.
 *
 * @since 0.1.0
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Detached from "../internal/detached.ts"
import type { Grant } from "../store/Grant.ts"
import {
  type Answer,
  type Claim,
  type Refused,
  type Reservation,
  type Settlement,
  type StateStore,
  StateStoreError
} from "../store/StateStore.ts"

/** Milliseconds that a store has for an answer. */
const patience = 5_000

const nothing: Settlement = { started: false, key: "release", windowMillis: 0, value: undefined }

/**
 * What became of the claims of a call.
 *
 * @category models
 * @since 0.1.0
 */
export type Reserved = Reservation | Refused | StateStoreError

/**
 * The store as the calls of a wave use it.
 *
 * @category models
 * @since 0.1.0
 */
export class Ledger {
  private readonly store: StateStore["Service"]
  private readonly context: Context.Context<never>
  private readonly now: () => number

  constructor(store: StateStore["Service"], context: Context.Context<never>, now: () => number) {
    this.store = store
    this.context = context
    this.now = now
  }

  /**
   * Takes all claims or none, in place of what the call has reserved before: at
   * once, or by an effect if the store does not answer at once.
   */
  reserve(
    owner: string,
    claims: ReadonlyArray<Claim>,
    now: number,
    replaces?: Reservation
  ): Reserved | { readonly wait: Effect.Effect<Reserved> } {
    const answer = ask(() => this.store.reserve(owner, claims, now, replaces))
    if (!Effect.isEffect(answer)) return answer
    // the driver is not interrupted: an answer that comes when nobody waits any more has to be given back
    const asked = Effect.callback<Exit.Exit<Reservation | Refused, StateStoreError>>((resume) => {
      let isAwaited = true
      Effect.runForkWith(this.context)(answer).addObserver((exit) => {
        if (isAwaited) resume(Effect.succeed(exit))
        else if (Exit.isSuccess(exit) && !("_tag" in exit.value)) this.giveBack(exit.value)
      })
      return Effect.sync(() => {
        isAwaited = false
      })
    })
    return {
      wait: Effect.map(Effect.timeoutOption(asked, patience), (answered) => {
        if (Option.isNone(answered)) return new StateStoreError({ operation: "reserve", cause: "no answer in time" })
        const exit = answered.value
        return Exit.isSuccess(exit) ? exit.value : new StateStoreError({ operation: "reserve", cause: exit.cause })
      })
    }
  }

  /**
   * Gives the standing permissions of a principal that have not expired at a time:
   * at once, or by an effect; none where the store cannot tell.
   */
  grants(
    principal: string,
    at = this.now()
  ): ReadonlyArray<Grant> | { readonly wait: Effect.Effect<ReadonlyArray<Grant>> } {
    const answer = ask(() => this.store.grants(principal, at))
    if (!Effect.isEffect(answer)) return answer
    return {
      wait: Effect.map(
        Detached.within(answer, patience),
        (exit) => exit !== undefined && Exit.isSuccess(exit) ? exit.value : []
      )
    }
  }

  /** Keeps a standing permission. */
  grant(grant: Grant): void {
    this.note(() => this.store.grant(grant))
  }

  /** Settles what a call that started, or did not, has reserved. */
  settle(reservation: Reservation, settlement: Settlement, now: number, then?: () => void): void {
    this.note(() => this.store.settle(reservation, settlement, now), then)
  }

  /** Gives back what a call that never started has reserved. */
  giveBack(reservation: Reservation): void {
    this.settle(reservation, nothing, this.now())
  }

  /** The fiber of a reservation that was settled as running has ended. */
  release(reservation: Reservation): void {
    this.note(() => this.store.release(reservation, this.now()))
  }

  /** A mutating call starts or has ended: what was read before it is stale. */
  mutated(principal: string, then?: () => void): void {
    this.note(() => this.store.mutated(principal), then)
  }

  /** `then` comes when it is noted, at once if the store answers at once. */
  private note(question: () => Answer<void>, then?: () => void): void {
    const answer = ask(question)
    if (!Effect.isEffect(answer)) return then?.()
    // the outcome stands: what the store could not note is for the operator to see
    const noted = Effect.catchCause(answer, (cause) => Effect.logWarning("StateStore failed", cause))
    Detached.start(noted, this.context, patience, (exit) => {
      if (exit === undefined) Effect.runForkWith(this.context)(Effect.logWarning("StateStore did not answer"))
      then?.()
    })
  }
}

// Utilities

/** What the store answers; a driver that throws has failed like one that says so. */
const ask = <A>(question: () => Answer<A>): Answer<A> => {
  try {
    return question()
  } catch (cause) {
    return Effect.die(cause)
  }
}
