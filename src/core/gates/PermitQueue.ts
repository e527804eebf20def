/**
 * Moves tickets through their permits one after the other, in a fixed order.
 *
 * A released permit goes to exactly one waiting ticket. Tickets that hold everything continue in a loop and not inside
 * `release`: a settled call starts the next one, which may settle immediately, and thousands of them would overflow the
 * stack.
 */
import * as Effect from "effect/Effect"
import * as MutableList from "effect/MutableList"
import { findDeadlock } from "../../internal/deadlock.ts"
import { type Host, type Permit, Place, type Ticket } from "./Permit.ts"

/** The queue shared by pools that were derived from each other. */
export class PermitQueue implements Host {
  /** Those whose wait is over. */
  private readonly done = MutableList.make<Place>()
  private isDraining = false
  /** Live tickets made inside a handler. Without any, no ticket can wait for itself. */
  private nested = 0
  /** Tickets that may hold their permits for long: they wait, or have children. */
  private readonly heldUp = new Set<Ticket>()

  /** Takes the missing permits of a ticket, or a place in line; the effect waits for the rest. */
  take(ticket: Ticket, giveUp: (ticket: Ticket) => void): Effect.Effect<void> {
    this.advance(ticket)
    const wait = ticket.state === "ready" ? Effect.void : ticket.place?.wait(giveUp) ?? Effect.interrupt
    this.drain()
    return wait
  }

  /** Gives up the place in line, if there is one, and interrupts its wait. */
  quit(ticket: Ticket): void {
    const { place } = ticket
    if (place === undefined) return
    place.permit?.quit(place)
    this.end(place, Effect.interrupt)
    this.note(ticket)
  }

  /** Gives back the permits of a ticket from an index on. */
  release(ticket: Ticket, from: number): void {
    const { held, permits } = ticket
    ticket.held = Math.min(held, from)
    for (let i = held - 1; i >= from; i--) {
      const next = permits[i]!.release(ticket)
      if (next !== undefined) this.granted(next)
    }
  }

  readonly granted = (ticket: Ticket): void => {
    ticket.held++
    this.advance(ticket)
  }

  /** Resumes tickets whose wait ended. A nested call leaves this to the running loop. */
  readonly drain = (): void => {
    if (this.isDraining) return
    this.isDraining = true
    try {
      while (this.done.length > 0) {
        const next = MutableList.take(this.done)
        if (next !== MutableList.Empty) next.close()
      }
    } finally {
      this.isDraining = false
    }
  }

  /** A handler waits for the call that it made. */
  nest(ticket: Ticket): void {
    const { parent } = ticket
    if (parent === undefined) return
    const siblings = parent.children ??= new Set()
    if (!siblings.has(ticket)) this.nested++
    siblings.add(ticket)
    this.note(parent)
  }

  /** The handler no longer waits. */
  unnest(ticket: Ticket): void {
    if (ticket.parent?.children?.delete(ticket) !== true) return
    this.nested--
    this.note(ticket.parent)
  }

  /** Refuses tickets that wait for themselves, now that this ticket waits. */
  check(ticket: Ticket, waitsFor: string): void {
    if (this.nested > 0) findDeadlock(ticket, this.holders)?.onDeadlock(waitsFor)
  }

  /** Tells whether a nested call would wait forever, as if it waited now. */
  wouldWaitForEver(parent: Ticket, waits: Pick<Ticket, "permits"> | Pick<Ticket, "joined">): boolean {
    const children = parent.children ??= new Set()
    const waiting: Ticket = { ...probe, ...waits, parent }
    children.add(waiting)
    this.note(parent)
    const isDead = findDeadlock(waiting, this.holders) !== undefined
    children.delete(waiting)
    this.note(parent)
    return isDead
  }

  private advance(ticket: Ticket): void {
    const { permits } = ticket
    while (ticket.held < permits.length) {
      const permit = permits[ticket.held]!
      if (!permit.tryTake()) return this.queue(ticket, permit)
      ticket.held++
    }
    ticket.state = "ready"
    if (ticket.place !== undefined) {
      this.end(ticket.place, Effect.void)
      this.note(ticket)
    }
  }

  private queue(ticket: Ticket, permit: Permit): void {
    ticket.state = "waiting"
    // the end of an earlier wait may not have been delivered yet
    const place = ticket.place = ticket.place?.end === undefined ? ticket.place ?? new Place(ticket) : new Place(ticket)
    this.note(ticket)
    permit.wait(place)
    if (place.permit !== permit) return
    if (permit.blocked !== undefined) ticket.onBlocked(permit.blocked)
    else this.check(ticket, permit.name)
  }

  private end(place: Place, end: Effect.Effect<void>): void {
    if (place.end === undefined) MutableList.append(this.done, place)
    place.end = end
  }

  private note(ticket: Ticket): void {
    const isWaiting = ticket.state === "waiting" && ticket.held > 0
    if (isWaiting || (ticket.children?.size ?? 0) > 0) this.heldUp.add(ticket)
    else this.heldUp.delete(ticket)
  }

  /** The tickets that hold a permit, unless one of them will release it without help. */
  private readonly holders = (permit: Permit): ReadonlyArray<Ticket> | undefined => {
    if (permit.isShared) return undefined
    const found = Array.from(this.heldUp).filter((ticket) => {
      const place = ticket.permits.indexOf(permit)
      return place !== -1 && place < ticket.held
    })
    return found.length < permit.taken ? undefined : found
  }
}

/** A ticket that never gets anything. */
const probe: Omit<Ticket, "parent"> = {
  tool: undefined,
  resources: [],
  permits: [],
  held: 0,
  state: "waiting",
  children: undefined,
  joined: undefined,
  onDeadlock: () => {},
  onBlocked: () => {},
  onLost: () => {}
}
