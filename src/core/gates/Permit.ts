/**
 * A limit that calls wait for: a pool, a tool's cap or a resource key. Each is a number of permits, or a source of
 * permits, with a queue of waiting tickets.
 *
 * `Pools` decides which call needs which permits, in which order.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { causeText } from "../../internal/causeText.ts"
import { clip } from "../../internal/clip.ts"
import type { RegisteredTool } from "../vocabulary/ToolHandlers.ts"
import { PermitLeases } from "./PermitLeases.ts"
import type { PermitSource } from "./PermitSource.ts"

/** A call and the permits it needs. */
export interface Ticket {
  readonly tool: RegisteredTool | undefined
  /** The class whose permits it takes; absent: its tool's. */
  readonly class?: RegisteredTool["class"] | undefined
  /** The keys of what the call touches. */
  readonly resources: ReadonlyArray<string>
  /** The permits it needs, in order; filled by `enter`. */
  permits: ReadonlyArray<Permit>
  /** How many of `permits` are held, from the front. */
  held: number
  /** Not queued yet (`new`), `waiting` for `permits[held]`, holding all (`ready`), or gone (`left`). */
  state: "new" | "waiting" | "ready" | "left"
  /** Its place in line, until its wait has ended. */
  place?: Place | undefined
  /** The running call whose handler made this one. */
  readonly parent: Ticket | undefined
  /** Unfinished calls that the handler of this call made. */
  children: Set<Ticket> | undefined
  /** For a call that joined another one: the ticket it waits for. */
  joined: Ticket | undefined
  /** The call would wait forever because its caller holds the permit. It must leave. */
  readonly onDeadlock: (waitsFor: string) => void
  /** The permit cannot be had: a handler that does not stop holds it. The call must leave. */
  readonly onBlocked: (because: string) => void
  /** The call lost a permit that it held. It must end and leave. */
  readonly onLost: (because: string) => void
}

/** The place of a waiting ticket, which moves from one permit's queue to the next. */
export class Place {
  readonly ticket: Ticket
  /** The permit whose queue it is in. */
  permit: Permit | undefined = undefined
  before: Place | undefined = undefined
  after: Place | undefined = undefined
  /** How the wait ended. */
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

  /** Resumes the effect that waits for the end. */
  close(): void {
    if (this.ticket.place === this) this.ticket.place = undefined
    if (this.end !== undefined) this.resume?.(this.end)
  }
}

/** Receives tickets that get a permit later than they asked for it. */
export interface Host {
  /** A ticket got the permit it waited for. */
  readonly granted: (ticket: Ticket) => void
  /** Resumes tickets whose wait ended. */
  readonly drain: () => void
}

/** A number of permits with a queue. */
export class Permit {
  readonly kind: "resource" | "tool" | "class"
  /** Appears in refusals. */
  readonly name: string
  /** Counted permits that are held. */
  taken = 0
  /** Tickets that hold it or will. A resource key without any is removed. */
  users = 0
  /** Why tickets must not wait for it now. */
  blocked: string | undefined
  /** Counted permits; 0 for a pool of leases. */
  private readonly size: number
  private readonly leases: PermitLeases<Ticket> | undefined
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
    this.leases = typeof size === "number" ? undefined : new PermitLeases(size, context, {
      isWanted: () => this.first !== undefined,
      next: () => this.next(),
      granted: host.granted,
      failed: (ticket, cause) =>
        ticket.onBlocked(`${name} has no permits to give: ${clip(causeText(cause).split("\n")[0]!, 200)}`),
      lost: (ticket, reason) => ticket.onLost(lost(name, reason)),
      turned: host.drain
    })
  }

  /** Whether one more ticket would wait, as far as counted permits tell. */
  get isFull(): boolean {
    return this.taken >= this.size
  }

  /** Takes a free permit. If one is free, the queue is empty. */
  tryTake(): boolean {
    if (this.taken >= this.size) return false
    this.taken++
    return true
  }

  /** Puts a place at the end of the queue. A lease may be granted synchronously. */
  wait(place: Place): void {
    place.permit = this
    place.before = this.last
    if (this.last === undefined) this.first = place
    else this.last.after = place
    this.last = place
    this.leases?.ask()
  }

  /** Removes a place from the queue. */
  quit(place: Place): void {
    const { after, before } = place
    if (before === undefined) this.first = after
    else before.after = after
    if (after === undefined) this.last = before
    else after.before = before
    place.permit = place.before = place.after = undefined
    if (this.first === undefined) this.leases?.withdraw()
  }

  /** Releases a permit and returns the waiting ticket that gets it, if there is one. */
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

  /** Refuses the tickets that wait for it, here and in other processes, as long as this one holds it. */
  block(ticket: Ticket, because: string): void {
    this.blocked = because
    for (const waiting of this.line) if (waiting.place?.permit === this) waiting.onBlocked(because)
    this.leases?.block(ticket, because)
  }

  /** Why a ticket no longer holds what it was given, if that is so. */
  lostBy(ticket: Ticket): string | undefined {
    return this.leases?.isHeld(ticket) === false ? lost(this.name, "its lease has ended") : undefined
  }

  /** Other code takes from it too. */
  get isShared(): boolean {
    return this.leases !== undefined
  }

  /** Whether calls hold all permits. */
  get isTaken(): boolean {
    return this.leases === undefined && this.taken >= this.size
  }

  /** The waiting tickets, in order. */
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

/** Why a ticket lost a permit, as far as the clock tells; `undefined` if it has lost none. */
export const lostOf = (ticket: Ticket): string | undefined => {
  for (const permit of ticket.permits) {
    const because = permit.isShared ? permit.lostBy(ticket) : undefined
    if (because !== undefined) return because
  }
  return undefined
}

/** Whether a ticket may lose a permit that it holds. */
export const mayLose = ({ permits }: Ticket): boolean => permits.some(isShared)

const isShared = (permit: Permit): boolean => permit.isShared

const lost = (name: string, reason: string): string => `a permit of ${name} was lost: ${clip(reason, 200)}`
