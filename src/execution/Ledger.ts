/**
 * What the calls of a wave ask of the state store, and how long they wait for it:
 * never longer than their turn lasts.
 *
 * @since 0.1.0
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { exitOf } from "../internal/exitOf.ts"
import type { Grant } from "../store/Grant.ts"
import type { Claim, Refused, Reservation, Settlement, StateStoreError } from "../store/StateStore.ts"
import type { PatientStore } from "./PatientStore.ts"

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
    const answer = this.store.reserve([{ owner, claims, replaces }], now, this.patience())
    const exit = exitOf(answer)
    if (exit !== undefined && Exit.isSuccess(exit)) return exit.value[0]!
    return { wait: Effect.map(answer, ([it]) => it!) }
  }

  /** Gives the standing permissions of a principal that have not expired at a time. */
  grants(principal: string, at = this.now()): Told<ReadonlyArray<Grant>> {
    const answer = this.store.grants(principal, at, this.patience())
    const exit = exitOf(answer)
    return exit !== undefined && Exit.isSuccess(exit) ? exit.value : { wait: answer }
  }

  /** Keeps a batch from being idle; gives how to let it go. */
  hold(batch: string): () => void {
    const letGo = this.store.hold(batch)
    return () => void Effect.runForkWith(this.context)(letGo)
  }

  /** Keeps a standing permission. */
  grant(grant: Grant): void {
    this.noted(this.store.grant(grant, this.patience()))
  }

  /** Settles what a call that started, or did not, has reserved. */
  settle(reservation: Reservation, settlement: Settlement, now: number, then?: () => void): void {
    this.noted(this.store.settle(reservation, settlement, now, this.patience()), then)
  }

  /** Gives back what a call that never started has reserved. */
  giveBack(reservation: Reservation): void {
    this.noted(this.store.giveBack(reservation, this.now(), this.patience()))
  }

  /** The fiber of a reservation that was settled as running has ended. */
  release(reservation: Reservation): void {
    this.noted(this.store.release(reservation, this.now(), this.patience()))
  }

  /** A mutating call starts or has ended: what was read before it is stale. */
  mutated(principal: string, then?: () => void): void {
    this.noted(this.store.mutated(principal, this.patience()), then)
  }

  /** `then` comes when it is noted, at once if the store answers at once; the store cannot hold it up for long. */
  private noted(answer: Effect.Effect<void>, then?: () => void): void {
    if (Exit.isExit(answer)) return then?.()
    Effect.runForkWith(this.context)(answer).addObserver(() => then?.())
  }
}
