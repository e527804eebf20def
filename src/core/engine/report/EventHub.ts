/**
 * Who reads the events of a process, and how they get them.
 *
 * Life-cycle events are never dropped and never wait. What a tool emits is dropped for a reader that has too much
 * unread; the handler never waits.
 */
import type * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { isEnd, type ToolEvent } from "../../facts/ToolEvent.ts"

/**
 * Somebody who is told at once, in the step in which it happens. It gives whether it took the event, and does not wait.
 */
export type Listener = (event: ToolEvent) => boolean

interface Reader {
  readonly queue: Queue.Queue<ToolEvent, Cause.Done>
}

/** The readers of one process, or of one wave. */
export class EventHub {
  readonly capacity: number
  /** Everything told here is told there, too. */
  private readonly parent: EventHub | undefined
  /** Of a process that a handler begins: who is told of the handler's call. They see the ends of their own waves alone. */
  private readonly above: EventHub | undefined
  private readonly readers = new Set<Reader>()
  private readonly listeners = new Set<Listener>()
  private ended = false
  /** Called when the first reader has come or the last one has gone. */
  declare onReaders?: () => void

  constructor(capacity: number, parent?: EventHub, above?: EventHub) {
    this.capacity = capacity
    this.parent = parent
    this.above = above
  }

  /** Somebody reads here, and not only further up. */
  get isRead(): boolean {
    return this.readers.size > 0
  }

  get isObserved(): boolean {
    return this.readers.size > 0 || this.listeners.size > 0 || this.parent?.isObserved === true ||
      this.above?.isObserved === true
  }

  /** Whether anybody wants what tools report. */
  get takesReports(): boolean {
    return this.isObserved
  }

  /** Passes a life-cycle event to every reader. */
  publish(event: ToolEvent): void {
    for (const tell of this.listeners) tell(event)
    for (const { queue } of this.readers) Queue.offerUnsafe(queue, event)
    this.parent?.publish(event)
    if (!isEnd(event)) this.above?.publish(event)
  }

  /** Passes an event of a tool to the readers that keep up; gives how many did not. */
  report(event: ToolEvent): number {
    let dropped = (this.parent?.report(event) ?? 0) + (this.above?.report(event) ?? 0)
    for (const tell of this.listeners) if (!tell(event)) dropped++
    for (const { queue } of this.readers) {
      if (Queue.sizeUnsafe(queue) >= this.capacity) dropped++
      else Queue.offerUnsafe(queue, event)
    }
    return dropped
  }

  /** Has somebody told of everything from now on, for the rest of the scope. */
  listen(tell: Listener): Effect.Effect<void, never, Scope.Scope> {
    // what a listener does wrong is no concern of the calls
    const safely: Listener = (event) => {
      try {
        return tell(event)
      } catch {
        return false
      }
    }
    return Effect.asVoid(Effect.acquireRelease(
      Effect.sync(() => this.listeners.add(safely)),
      () => Effect.sync(() => this.listeners.delete(safely))
    ))
  }

  /** Becomes a reader for the rest of the scope; gives the events from now on. */
  get open(): Effect.Effect<Stream.Stream<ToolEvent>, never, Scope.Scope> {
    return Effect.map(
      Effect.acquireRelease(
        Effect.map(Queue.unbounded<ToolEvent, Cause.Done>(), (queue) => {
          const reader = { queue }
          this.readers.add(reader)
          this.onReaders?.()
          if (this.ended) Queue.endUnsafe(queue)
          return reader
        }),
        (reader) =>
          Effect.suspend(() => {
            this.readers.delete(reader)
            this.onReaders?.()
            return Queue.shutdown(reader.queue)
          })
      ),
      ({ queue }) => Stream.fromQueue(queue)
    )
  }

  /** The events from the moment it is run; ends with the hub. */
  get stream(): Stream.Stream<ToolEvent> {
    return Stream.unwrap(this.open)
  }

  /** Ends every stream after what it has still to read. */
  end(): void {
    this.ended = true
    for (const { queue } of this.readers) Queue.endUnsafe(queue)
  }
}
