/**
 * The leases that one pool holds of a `PermitSource`: one per holder, and one place in the queue of the source for all
 * waiting tickets.
 */
import type * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Scope from "effect/Scope"
import type { Lease, PermitSource } from "./PermitSource.ts"

/** The queue of holders that wait for leases. */
export interface Line<Holder> {
  readonly isWanted: () => boolean
  /** Removes the first holder, to give it a lease or a failure. */
  readonly next: () => Holder | undefined
  readonly granted: (holder: Holder) => void
  readonly failed: (holder: Holder, cause: Cause.Cause<never>) => void
  readonly lost: (holder: Holder, reason: string) => void
  /** Called after any of these, unless it happened synchronously. */
  readonly turned: () => void
}

/** The leases of one pool. */
export class PermitLeases<Holder> {
  private readonly source: PermitSource
  private readonly context: Context.Context<never>
  private readonly line: Line<Holder>
  private readonly held = new Map<Holder, Held>()
  /** Stands in the line of the source on behalf of our own. */
  private asking: Fiber.Fiber<Lease> | undefined

  constructor(source: PermitSource, context: Context.Context<never>, line: Line<Holder>) {
    this.source = source
    this.context = context
    this.line = line
  }

  /** Asks the source for as long as anybody waits. */
  ask(): void {
    while (this.asking === undefined && this.line.isWanted()) {
      const scope = Scope.makeUnsafe()
      const asking = this.run(Scope.provide(this.source.lease, scope))
      const exit = asking.pollUnsafe()
      if (exit !== undefined) this.answered(scope, exit)
      else this.await(scope, asking)
    }
  }

  /** Nobody waits any more. */
  withdraw(): void {
    const { asking } = this
    this.asking = undefined
    asking?.interruptUnsafe()
  }

  /** Whether the lease of a holder still holds; true for those that have none. */
  isHeld(holder: Holder): boolean {
    return this.held.get(holder)?.isHeld?.() !== false
  }

  /** Has those refused that wait elsewhere for the permit of a holder. */
  block(holder: Holder, because: string): void {
    this.held.get(holder)?.block?.(because)
  }

  release(holder: Holder): void {
    const lease = this.held.get(holder)
    if (lease === undefined) return
    this.held.delete(holder)
    lease.watch?.interruptUnsafe()
    this.close(lease.scope)
  }

  private await(scope: Scope.Closeable, asking: Fiber.Fiber<Lease>): void {
    this.asking = asking
    asking.addObserver((exit) => {
      const isWithdrawn = this.asking !== asking
      if (isWithdrawn && Exit.isFailure(exit)) return this.close(scope)
      if (!isWithdrawn) this.asking = undefined
      this.answered(scope, exit)
      this.ask()
      this.line.turned()
    })
  }

  private answered(scope: Scope.Closeable, exit: Exit.Exit<Lease>): void {
    const holder = this.line.next()
    if (holder === undefined || Exit.isFailure(exit)) {
      this.close(scope)
      if (holder !== undefined && Exit.isFailure(exit)) this.line.failed(holder, exit.cause)
      return
    }
    const lease: Held = { scope, isHeld: exit.value.isHeld, block: exit.value.block, watch: undefined }
    this.held.set(holder, lease)
    this.line.granted(holder)
    const { lost } = exit.value
    if (lost === undefined || this.held.get(holder) !== lease) return
    lease.watch = this.run(Effect.map(lost, (reason) => {
      this.line.lost(holder, reason)
      this.line.turned()
    }))
  }

  private close(scope: Scope.Closeable): void {
    this.run(Scope.close(scope, Exit.void))
  }

  private run<A>(effect: Effect.Effect<A>): Fiber.Fiber<A> {
    return Effect.runForkWith(this.context)(effect)
  }
}

interface Held {
  readonly scope: Scope.Closeable
  readonly isHeld: Lease["isHeld"]
  readonly block: Lease["block"]
  /** Waits for the loss of the lease. */
  watch: Fiber.Fiber<void> | undefined
}
