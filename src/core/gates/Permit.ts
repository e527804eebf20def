/**
 * What calls wait for: a pool, a tool's cap, a resource key. Each is a number of
 * permits, or a source of them, and the line of those who wait.
 *
 * `Pools` says which call needs which, and in which order.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { causeText } from "../../internal/causeText.ts"
import { clip } from "../../internal/clip.ts"
import type { RegisteredTool } from "../vocabulary/ToolHandlers.ts"
import { Leases } from "./Leases.ts"
import type { PermitSource } from "./PermitSource.ts"

/** A call on its way through its permits. */
export interface Ticket {
  readonly tool: RegisteredTool | undefined
  /** The class whose permits it takes; absent: its tool's. */
  readonly class?: RegisteredTool["class"] | undefined
  /** The keys of what the call touches. */
  readonly resources: ReadonlyArray<string>
  /** What it needs, in the order in which it is taken; filled by `enter`. */
  permits: ReadonlyArray<Permit>
  /** How many of `permits` are held, from the front. */
  held: number
  /** Not queued yet (`new`), `waiting` for `permits[held]`, holding all (`ready`), or out of the game (`left`). */
  state: "new" | "waiting" | "ready" | "left"
  /** Its place in line, until its wait has ended. */
  place?: Place | undefined
  /** The running call whose handler made this one. */
  readonly parent: Ticket | undefined
  /** Calls that this one's handler made and that have not ended. */
  children: Set<Ticket> | undefined
  /** For a call that joined another one: the ticket it waits for. */
  joined: Ticket | undefined
  /** The call would wait for ever: its own caller holds what it needs. Called when it queues; it is to leave. */
  readonly onDeadlock: (waitsFor: string) => void
  /** What it waits for is not to be had: a handler that does not stop holds it. It is to leave. */
  readonly onBlocked: (because: string) => void
  /** A permit that it holds is not its own any more. It is to end, and to leave. */
  readonly onLost: (because: string) => void
}

/** The place of a ticket that waits, and what waits for it: it stands in the line of one permit after the other. */
export class Place {
  readonly ticket: Ticket
  /** In whose line it stands. */
  permit: Permit | undefined = undefined
  before: Place | undefined = undefined
  after: Place | undefined = undefined
  /** How the wait ends, once that is known. */
  end: Effect.Effect<void> | undefined = undefined
  private resume: ((end: Effect.Effect<void>) => void) | undefined = undefined

  constructor(ticket: Ticket) {
    this.ticket = ticket
  }

  /** Waits for the end; interruption calls `giveUp`. */
  wait(giveUp: (ticket: Ticket) => void): Effect.Effect<void> {
    return this.end ?? Effect.callback<void>((resume) => {
      if (this.end !== undefined) return resume(this.end)
      this.resume = resume
      return Effect.sync(() => {
        if (this.ticket.place === this) giveUp(this.ticket)
      })
    })
  }

  /** Lets go on whoever waits for the end. */
  close(): void {
    if (this.ticket.place === this) this.ticket.place = undefined
    if (this.end !== undefined) this.resume?.(this.end)
  }
}

/** What happens to those who get a permit later than they asked for it. */
export interface Host {
  /** A ticket was given what it waited for. */
  readonly granted: (ticket: Ticket) => void
  /** Lets those go on whose wait is over. */
  readonly drain: () => void
}

/** A number of permits with its line. */
export class Permit {
  readonly kind: "resource" | "tool" | "class"
  /** Read in refusals: what a call waits for. */
  readonly name: string
  /** How many are held, of those that are counted here. */
  taken = 0
  /** Tickets that hold it or will; a resource key without any is forgotten. */
  users = 0
  /** Why nobody is to wait for it now. */
  blocked: string | undefined
  /** How many there are; a pool of leases has none of its own. */
  private readonly size: number
  private readonly leases: Leases<Ticket> | undefined
  private first: Place | undefined
  private last: Place | undefined

  constructor(options: {
    readonly kind: Permit["kind"]
    readonly name: string
    readonly size: number | PermitSource
    readonly context: Context.Context<never>
    readonly host: Host
  }) {
    const { context, host, kind, name, size } = options
    this.kind = kind
    this.name = name
    this.size = typeof size === "number" ? size : 0
    this.leases = typeof size === "number" ? undefined : new Leases(size, context, {
      isWanted: () => this.first !== undefined,
      next: () => this.next(),
      granted: host.granted,
      failed: (ticket, cause) =>
        ticket.onBlocked(`${name} has no permits to give: ${clip(causeText(cause).split("\n")[0]!, 200)}`),
      lost: (ticket, reason) => ticket.onLost(`a permit of ${name} was lost: ${clip(reason, 200)}`),
      turned: host.drain
    })
  }

  /** Whether one more would have to wait, as far as that is known here. */
  get isFull(): boolean {
    return this.taken >= this.size
  }

  /** Takes a permit that is free. Where one is, nobody waits. */
  tryTake(): boolean {
    if (this.taken >= this.size) return false
    this.taken++
    return true
  }

  /** Puts a place at the end of the line. A lease may come at once. */
  wait(place: Place): void {
    place.permit = this
    place.before = this.last
    if (this.last === undefined) this.first = place
    else this.last.after = place
    this.last = place
    this.leases?.ask()
  }

  /** Takes a place out of the line. */
  quit(place: Place): void {
    const { after, before } = place
    if (before === undefined) this.first = after
    else before.after = after
    if (after === undefined) this.last = before
    else after.before = before
    place.permit = place.before = place.after = undefined
    if (this.first === undefined) this.leases?.withdraw()
  }

  /** Gives a permit back; one that is counted here goes to the first in line, who is given. */
  release(ticket: Ticket): Ticket | undefined {
    this.blocked = undefined
    if (this.leases !== undefined) {
      this.leases.release(ticket)
      return undefined
    }
    const next = this.next()
    if (next === undefined) this.taken--
    return next
  }

  /** Others take from it, too, so one may come back from outside. */
  get isShared(): boolean {
    return this.leases !== undefined
  }

  /** Whether calls hold all there are. */
  get isTaken(): boolean {
    return this.leases === undefined && this.taken >= this.size
  }

  /** Those that wait, in order. */
  get line(): ReadonlyArray<Ticket> {
    const tickets: Array<Ticket> = []
    for (let place = this.first; place !== undefined; place = place.after) tickets.push(place.ticket)
    return tickets
  }

  private next(): Ticket | undefined {
    const { first } = this
    if (first === undefined) return undefined
    this.quit(first)
    return first.ticket
  }
}
