/** Notices of sessions in which something may have changed, for those who wait until nothing of a session runs. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import { type Owner, toPrincipal } from "../users/Principals.ts"

export class Stirs {
  private readonly waiting = new Map<string, Deferred.Deferred<void>>()

  /** Something may have changed. Costs nothing while nobody waits. */
  stir(owner: Owner): void {
    if (this.waiting.size === 0) return
    const principal = toPrincipal(owner)
    const next = this.waiting.get(principal)
    if (next === undefined) return
    this.waiting.delete(principal)
    Deferred.doneUnsafe(next, Effect.void)
  }

  /** Waits until something may have changed since this was called. */
  next(owner: Owner): Effect.Effect<void> {
    const principal = toPrincipal(owner)
    const next = this.waiting.get(principal) ?? Deferred.makeUnsafe<void>()
    this.waiting.set(principal, next)
    return Deferred.await(next)
  }
}
