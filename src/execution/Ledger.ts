/**
 * What the calls of a wave ask of the state store, and how long they wait for it:
 * never longer than their turn lasts.
 *
 * @since 0.1.0
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Detached from "../internal/detached.ts"
import type { Grant } from "../store/Grant.ts"
import {
  type Answer,
  type Claim,
  type Refused,
  type Reservation,
  type Settlement,
  StateStoreError
} from "../store/StateStore.ts"
import type { PatientStore } from "./PatientStore.ts"

/**
 * What became of the claims of a call.
 *
 * @category models
 * @since 0.1.0
 */
export type Reserved = Reservation | Refused | StateStoreError

/**
 * An answer of the store, or its trouble: at once, or by an effect.
 *
 * @category models
 * @since 0.1.0
 */
export type Told<A> = A | StateStoreError | { readonly wait: Effect.Effect<A | StateStoreError> }

/**
 * The store as the calls of a wave use it.
 *
 * @category models
 * @since 0.1.0
 */
export class Ledger {
  private readonly store: PatientStore
  private readonly context: Context.Context<never>
  private readonly now: () => number
  /** Milliseconds that a call waits for an answer. */
  private readonly patience: () => number

  constructor(store: PatientStore, context: Context.Context<never>, now: () => number, patience: () => number) {
    this.store = store
    this.context = context
    this.now = now
    this.patience = patience
  }

  /** Takes all claims or none, in place of what the call has reserved before. */
  reserve(
    owner: string,
    claims: ReadonlyArray<Claim>,
    now: number,
    replaces?: Reservation
  ): Told<Reservation | Refused> {
    return this.told("reserve", this.store.reserve(owner, claims, now, replaces))
  }

  /** Gives the standing permissions of a principal that have not expired at a time. */
  grants(principal: string, at = this.now()): Told<ReadonlyArray<Grant>> {
    return this.told("grants", this.store.grants(principal, at))
  }

  /** Keeps a batch from being idle; gives how to let it go. */
  hold(batch: string): () => void {
    const answer = this.store.reserve("", [{ _tag: "Batch", batch }], this.now())
    let isHeld = true
    const end = (it: Reservation | Refused) => {
      if (!("_tag" in it)) this.giveBack(it)
    }
    if (!Effect.isEffect(answer)) return () => end(answer)
    let held: Reservation | Refused | undefined
    Effect.runForkWith(this.context)(answer).addObserver((exit) => {
      if (Exit.isFailure(exit)) return
      if (isHeld) held = exit.value
      else end(exit.value)
    })
    return () => {
      isHeld = false
      if (held !== undefined) end(held)
    }
  }

  /** Keeps a standing permission. */
  grant(grant: Grant): void {
    this.noted(this.store.grant(grant))
  }

  /** Settles what a call that started, or did not, has reserved. */
  settle(reservation: Reservation, settlement: Settlement, now: number, then?: () => void): void {
    this.noted(this.store.settle(reservation, settlement, now), then)
  }

  /** Gives back what a call that never started has reserved. */
  giveBack(reservation: Reservation): void {
    this.noted(this.store.giveBack(reservation, this.now()))
  }

  /** The fiber of a reservation that was settled as running has ended. */
  release(reservation: Reservation): void {
    this.noted(this.store.release(reservation, this.now()))
  }

  /** A mutating call starts or has ended: what was read before it is stale. */
  mutated(principal: string, then?: () => void): void {
    this.noted(this.store.mutated(principal), then)
  }

  private told<A>(operation: string, answer: Answer<A>): Told<A> {
    if (!Effect.isEffect(answer)) return answer
    return {
      wait: Effect.map(Detached.within(answer, this.patience()), (exit) => {
        if (exit === undefined) return new StateStoreError({ operation, cause: "no answer in time" })
        return Exit.isSuccess(exit) ? exit.value : new StateStoreError({ operation, cause: exit.cause })
      })
    }
  }

  /** `then` comes when it is noted, at once if the store answers at once; the store cannot hold it up for long. */
  private noted(answer: Answer<void>, then?: () => void): void {
    if (!Effect.isEffect(answer)) return then?.()
    Detached.start(answer, this.context, this.patience(), () => then?.())
  }
}
