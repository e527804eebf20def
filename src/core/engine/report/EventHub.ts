/**
 * Distributes the events of a process to its readers and listeners.
 *
 * Lifecycle events are never dropped and never wait. Events that a tool emits are dropped for readers with too many
 * unread events; the handler never waits.
 */
import type * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { isEnd, type ToolEvent } from "../../facts/ToolEvent.ts"

/** Is called synchronously for each event and must not wait. Returns whether it accepted the event. */
export type Listener = (event: ToolEvent) => boolean

interface Reader {
  readonly queue: Queue.Queue<ToolEvent, Cause.Done>
}

/** The readers of one process, or of one wave. */
export class EventHub {
  readonly capacity: number
  /** Gets every event of this hub, too. */
  private readonly parent: EventHub | undefined
  /** For a process that a handler starts: the hub of the handler's call. It does not get the ends of these waves. */
  private readonly above: EventHub | undefined
  private readonly readers = new Set<Reader>()
  private readonly listeners = new Set<Listener>()
  private ended = false
  /** Called when a reader arrives or leaves. */
  declare onReaders?: () => void

  constructor(capacity: number, parent?: EventHub, above?: EventHub) {
    this.capacity = capacity
    this.parent = parent
    this.above = above
  }

  /** Whether this hub itself has readers, not only a parent. */
  get isRead(): boolean {
    return this.readers.size > 0
  }

  get isObserved(): boolean {
    return this.readers.size > 0 || this.listeners.size > 0 || this.parent?.isObserved === true ||
      this.above?.isObserved === true
  }

  /** Whether any observer wants the reports of tools. */
  get takesReports(): boolean {
    return this.isObserved
  }

  /** Passes a lifecycle event to every reader. */
  publish(event: ToolEvent): void {
    for (const tell of this.listeners) tell(event)
    for (const { queue } of this.readers) Queue.offerUnsafe(queue, event)
    this.parent?.publish(event)
    if (!isEnd(event)) this.above?.publish(event)
  }

  /** Passes an event of a tool to the readers with room for it; gives how many had none. */
  report(event: ToolEvent): number {
    let dropped = (this.parent?.report(event) ?? 0) + (this.above?.report(event) ?? 0)
    for (const tell of this.listeners) if (!tell(event)) dropped++
    for (const { queue } of this.readers) {
      if (Queue.sizeUnsafe(queue) >= this.capacity) dropped++
      else Queue.offerUnsafe(queue, event)
    }
    return dropped
  }

  /** Adds a listener for the rest of the scope. */
  listen(tell: Listener): Effect.Effect<void, never, Scope.Scope> {
    // an exception in a listener must not affect the calls
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

  /** Adds a reader for the rest of the scope; gives the events from now on. */
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

  /** The events from the moment the stream runs; ends with the hub. */
  get stream(): Stream.Stream<ToolEvent> {
    return Stream.unwrap(this.open)
  }

  /** Ends every stream after its unread events. */
  end(): void {
    this.ended = true
    for (const { queue } of this.readers) Queue.endUnsafe(queue)
  }
}
