/**
 * One semaphore with an admission queue of plain objects in front of it.
 *
 * What calls wait for: a pool, a tool's cap, a resource key. `Pools` says which
 * call needs which, and in which order.
 *
 * @since 0.1.0
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as MutableList from "effect/MutableList"
import * as Semaphore from "effect/Semaphore"
import type { RegisteredTool } from "../ToolHandlers.ts"

/**
 * A call on its way through its permits.
 *
 * @category models
 * @since 0.1.0
 */
export interface Ticket {
  readonly tool: RegisteredTool | undefined
  /** The keys of what the call touches. */
  readonly resources: ReadonlyArray<string>
  /** What it needs, in the order in which it is taken; filled by `enter`. */
  permits: ReadonlyArray<Permit>
  /** How many of `permits` are held, from the front. */
  held: number
  /** Not queued yet (`new`), `waiting` for `permits[held]`, holding all (`ready`), or out of the game (`left`). */
  state: "new" | "waiting" | "ready" | "left"
  /** The running call whose handler made this one. */
  readonly parent: Ticket | undefined
  /** Calls that this one's handler made and that have not ended. */
  children: Set<Ticket> | undefined
  /** For a call that joined another one: the ticket it waits for. */
  joined: Ticket | undefined
  /** All permits are held. */
  readonly onReady: () => void
  /** The call would wait for ever: its own caller holds what it needs. */
  readonly onDeadlock: (waitsFor: string) => void
  /** What the call touches is held by a handler that does not stop. */
  readonly onBlocked: (because: string) => void
}

/**
 * One semaphore with its admission queue.
 *
 * @category models
 * @since 0.1.0
 */
export class Permit {
  readonly kind: "resource" | "tool" | "class"
  /** Read in refusals: what a call waits for. */
  readonly name: string
  readonly holders = new Set<Ticket>()
  /** Others take from the semaphore, too, so a release may come from outside. */
  readonly isShared: boolean
  /** Tickets that hold it or will; a resource key without any is forgotten. */
  users = 0
  /** Why nobody is to wait for it now. */
  blocked: string | undefined
  /** How many there are; of a semaphore that others take from, nobody knows. */
  private readonly size: number
  private readonly semaphore: Semaphore.Semaphore
  private readonly context: Context.Context<never>
  private readonly waiting = MutableList.make<Ticket>()
  private taking = false
  /** Stands in the semaphore's own queue already. */
  private outside: Fiber.Fiber<number> | undefined

  constructor(options: {
    readonly kind: Permit["kind"]
    readonly name: string
    readonly size: number | Semaphore.Semaphore
    readonly context: Context.Context<never>
  }) {
    this.kind = options.kind
    this.name = options.name
    this.isShared = typeof options.size !== "number"
    this.size = typeof options.size === "number" ? options.size : Infinity
    this.semaphore = typeof options.size === "number" ? Semaphore.makeUnsafe(options.size) : options.size
    this.context = options.context
  }

  /** Takes a permit now, unless others wait or none is free. */
  tryTake(ticket: Ticket): boolean {
    if (this.waiting.length > 0 || this.taking) return false
    if (this.isShared) {
      // in turn with code outside, not ahead of it
      const fiber = this.run(this.semaphore.take(1))
      if (fiber.pollUnsafe() === undefined) {
        this.outside = fiber
        return false
      }
    } else {
      const taken = this.run(this.semaphore.takeIfAvailable(1)).pollUnsafe()
      if (taken?._tag !== "Success" || !taken.value) return false
    }
    this.holders.add(ticket)
    return true
  }

  /** Queues the ticket. `granted` is called if a shared semaphore lets one in; else `release` hands over. */
  wait(ticket: Ticket, granted: (ticket: Ticket) => void): void {
    MutableList.append(this.waiting, ticket)
    if (this.isShared) this.takeFromOutside(granted)
  }

  /** Hands the permit to the next in the queue, or back to the semaphore. */
  release(ticket: Ticket, granted: (ticket: Ticket) => void): void {
    if (!this.holders.delete(ticket)) return
    this.blocked = undefined
    // a shared semaphore says itself whose turn it is
    const next = this.isShared ? undefined : this.next()
    if (next === undefined) {
      this.run(this.semaphore.release(1))
    } else {
      this.holders.add(next)
      granted(next)
    }
  }

  /** Whether calls hold all there are. */
  get isTaken(): boolean {
    return this.holders.size >= this.size
  }

  /** Those that wait, in order. */
  get queue(): ReadonlyArray<Ticket> {
    return MutableList.toArray(this.waiting)
  }

  private next(): Ticket | undefined {
    while (this.waiting.length > 0) {
      const next = MutableList.take(this.waiting)
      if (next !== MutableList.Empty && next.state === "waiting") return next
    }
    return undefined
  }

  /** One fiber per shared semaphore waits on behalf of the whole queue. */
  private takeFromOutside(granted: (ticket: Ticket) => void): void {
    if (this.taking) return
    this.taking = true
    const fiber = this.outside ?? this.run(this.semaphore.take(1))
    this.outside = undefined
    fiber.addObserver(() => {
      this.taking = false
      const next = this.next()
      if (next === undefined) {
        this.run(this.semaphore.release(1))
        return
      }
      this.holders.add(next)
      granted(next)
      if (this.waiting.length > 0) this.takeFromOutside(granted)
    })
  }

  private run<A>(effect: Effect.Effect<A>) {
    return Effect.runForkWith(this.context)(effect)
  }
}
