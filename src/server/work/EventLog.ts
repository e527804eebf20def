/**
 * The events of a wave or an operation, for readers that follow them from a position: all lifecycle events, and the
 * latest of the others.
 *
 * Every event has a position. Lifecycle events are never dropped, so missing positions are dropped events; that is how
 * gaps are counted. A reader is only a position, so a slow reader costs nothing.
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { noteNames, type StreamNote } from "../api/ApiModels.ts"

/** How many events are kept that are not lifecycle events. */
export interface Bounds {
  readonly events: number
  /** Characters of their JSON. */
  readonly chars: number
}

/** What a log must know of its events. */
export interface Kind<E, S> {
  /** The name for the `event:` line. */
  readonly nameOf: (event: E) => string
  /** Whether it is a lifecycle event, which is never dropped. */
  readonly isLifecycle: (event: E) => boolean
  /** Redacts events in order, for readers other than the owner; `undefined` hides an event. */
  readonly redact: (event: E) => S
}

/** A server-sent event. */
export interface LogSse<E> {
  readonly id?: string | undefined
  readonly event: string
  readonly data: E | StreamNote
}

/** A page of events; `next` is where the next page begins. */
export interface Happened<E> {
  readonly events: ReadonlyArray<E>
  readonly next?: number
}

/** The log of one wave or operation. Readers other than the owner get events of type `S`. */
export class EventLog<E, S extends E | undefined = E> {
  /** Unique per log. Positions from one log are invalid in another. */
  readonly id: string
  private readonly bounds: Bounds
  private readonly kind: Kind<E, S>
  protected readonly life: Array<Entry<E, S>> = []
  private lifeChars = 0
  private readonly emitted: Array<Entry<E, S>> = []
  private emittedChars = 0
  private last = 0
  private isClosed = false
  /** Events that were not read on the page yet, oldest first: redacting a large one takes long. */
  private readonly unread: Array<Entry<E, S>> = []
  /** The last numbers of earlier logs that this one continues, by their ids. */
  private readonly earlier = new Map<string, number>()
  private news = Deferred.makeUnsafe<void>()

  constructor(id: string, bounds: Bounds, kind: Kind<E, S>) {
    this.id = id
    this.bounds = bounds
    this.kind = kind
  }

  /** Characters of all kept events, as JSON. */
  get chars(): number {
    return this.lifeChars + this.emittedChars
  }

  /** The number of the latest event. */
  get place(): number {
    return this.last
  }

  /** The position after the latest event. */
  get cursor(): string {
    return this.idOf(this.last)
  }

  /** A page of redacted events after a position. */
  happened(after: number): Happened<E> {
    const found = this.entries(after, pageEvents, pageChars)
    const last = found.at(-1)?.place ?? this.last
    const events = found.flatMap((it): ReadonlyArray<E> => {
      const event = this.shared(it)
      return event === undefined ? [] : [event]
    })
    return { events, ...last < this.last ? { next: last } : {} }
  }

  /**
   * Adds an event; the result gives it redacted. `chars` is the length of its JSON, `place` its position in an earlier
   * log of the same id.
   */
  append(event: E, chars = JSON.stringify(event).length, place = this.last + 1): () => S {
    const entry: Entry<E, S> = { place, event, shared: unread, chars }
    this.last = place
    this.unread.push(entry)
    if (this.kind.isLifecycle(event)) {
      this.life.push(entry)
      this.lifeChars += chars
    } else this.emit(entry)
    this.wake()
    return () => this.shared(entry)
  }

  /** The lifecycle events after a position, with their positions. */
  kept(after: number): ReadonlyArray<readonly [place: number, event: E]> {
    return this.life.slice(firstBehind(this.life, after)).map(({ event, place }) => [place, event])
  }

  /** Positions of an earlier log are valid up to here. Its later events were not stored. */
  follows(log: string): void {
    this.earlier.set(log, this.last)
  }

  /** Ends all readers after the last event. */
  close(): void {
    this.isClosed = true
    this.wake()
  }

  /** Whether a position is one of this log. */
  has(id: string): boolean {
    return this.placeOf(id) !== undefined
  }

  /** Streams the events after a position, and then new ones until the end; redacted for readers other than the owner. */
  stream(after: string | undefined, isShared = false): Stream.Stream<LogSse<E>> {
    return Stream.unwrap(Effect.sync(() => {
      const place = after === undefined ? 0 : this.placeOf(after)
      const rest = Stream.paginate<number, LogSse<E>>(place ?? 0, (it) => this.page(it, isShared))
      return place === undefined ? Stream.concat(Stream.succeed(this.note(0, { _tag: "Reset" })), rest) : rest
    }))
  }

  private emit(entry: Entry<E, S>): void {
    this.emitted.push(entry)
    this.emittedChars += entry.chars
    while (this.emitted.length > this.bounds.events || this.emittedChars > this.bounds.chars) {
      const dropped = this.emitted.shift()!
      this.emittedChars -= dropped.chars
      this.shared(dropped)
    }
  }

  /** Redacts in order: a secret in one event is redacted in all that follow. */
  private shared(entry: Entry<E, S>): S {
    while (entry.shared === unread) {
      const next = this.unread.shift()!
      next.shared = this.kind.redact(next.event)
    }
    return entry.shared
  }

  private wake(): void {
    Deferred.doneUnsafe(this.news, Effect.void)
    this.news = Deferred.makeUnsafe()
  }

  /** The next items after a position; waits for one if necessary. */
  private page(at: number, isShared: boolean): Page<E> {
    return Effect.suspend((): Page<E> => {
      const { items, last } = this.behind(at, isShared)
      if (last > at) return Effect.succeed([items, Option.some(last)])
      if (this.isClosed) return Effect.succeed([[], Option.none()])
      const next = Option.some(at)
      return Effect.flatMap(
        Effect.timeoutOption(Deferred.await(this.news), heartbeat),
        (news): Page<E> =>
          Option.isSome(news)
            ? Effect.succeed([[], next])
            : Effect.map(Clock.currentTimeMillis, (now) => [[beat(now)], next])
      )
    })
  }

  private behind(after: number, isShared: boolean) {
    const items: Array<LogSse<E>> = []
    let last = after
    for (const entry of this.entries(after, streamEvents, streamChars)) {
      const { place } = entry
      const dropped = place - last - 1
      if (dropped > 0) items.push(this.note(place - 1, { _tag: "Gap", dropped }))
      const data: E | undefined = isShared ? this.shared(entry) : entry.event
      if (data !== undefined) items.push({ id: this.idOf(place), event: this.kind.nameOf(data), data })
      last = place
    }
    return { items, last }
  }

  /** Some entries after a position, in order: at least one, if there is any. */
  private entries(after: number, most: number, mostChars: number): ReadonlyArray<Entry<E, S>> {
    const found: Array<Entry<E, S>> = []
    let [life, emitted, chars] = [firstBehind(this.life, after), firstBehind(this.emitted, after), 0]
    while (found.length < most && chars < mostChars) {
      const [one, other] = [this.life[life], this.emitted[emitted]]
      const isEmitted = one === undefined || (other !== undefined && other.place < one.place)
      const entry = isEmitted ? other : one
      if (entry === undefined) break
      if (isEmitted) emitted++
      else life++
      chars += entry.chars
      found.push(entry)
    }
    return found
  }

  private note(place: number, data: { _tag: "Reset" } | { _tag: "Gap"; dropped: number }): LogSse<E> {
    return { id: this.idOf(place), event: noteNames[data._tag], data }
  }

  private idOf(place: number): string {
    return `${this.id}-${place}`
  }

  /** `undefined` if the id belongs to another log. */
  private placeOf(id: string): number | undefined {
    const at = id.lastIndexOf("-")
    const digits = id.slice(at + 1)
    const log = id.slice(0, at)
    const last = log === this.id ? this.last : this.earlier.get(log)
    if (last === undefined || !/^\d{1,15}$/.test(digits)) return undefined
    const place = Number(digits)
    return place <= last ? place : undefined
  }
}

/** The event has not been redacted yet. */
const unread = Symbol("unread")

interface Entry<E, S> {
  readonly place: number
  readonly event: E
  /** The redacted event, once it has been read. */
  shared: S | typeof unread
  readonly chars: number
}

type Page<E> = Effect.Effect<readonly [ReadonlyArray<LogSse<E>>, Option.Option<number>]>

/** Size of one read of a stream; the next read happens once it is sent. */
const [streamEvents, streamChars] = [100, 64_000]

/** Size of a page. */
const [pageEvents, pageChars] = [1_000, 1_000_000]

/** A reader hears something this often. */
export const heartbeat = "15 seconds"

export const beat = (at: number) => ({ event: noteNames.Heartbeat, data: { _tag: "Heartbeat", at } as const })

/** Index of the first entry after a position. */
const firstBehind = (entries: ReadonlyArray<{ readonly place: number }>, place: number): number => {
  let [from, to] = [0, entries.length]
  while (from < to) {
    const middle = (from + to) >> 1
    if (entries[middle]!.place <= place) from = middle + 1
    else to = middle
  }
  return from
}
