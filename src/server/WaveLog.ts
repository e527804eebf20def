/**
 * The events of a wave, for readers that follow it from a position: all lifecycle events, and the latest events that
 * tools emit.
 *
 * Every event has a position. Lifecycle events are never dropped, so missing positions are dropped tool events; that is
 * how gaps are counted. A reader is only a position, so a slow reader costs nothing.
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as ToolEvent from "../core/facts/ToolEvent.ts"
import { noteNames, type WaveSse } from "./ApiModels.ts"
import { RedactedEvents } from "./RedactedEvents.ts"
import { isLifecycle } from "./WaveText.ts"

/** How many tool events are kept. */
export interface Bounds {
  readonly events: number
  /** Characters of their JSON. */
  readonly chars: number
}

/** The log of one wave. */
export class WaveLog {
  /** Unique per log. Positions from one log are invalid in another. */
  readonly id: string
  private readonly bounds: Bounds
  private readonly life: Array<Entry> = []
  private lifeChars = 0
  private readonly emitted: Array<Entry> = []
  private emittedChars = 0
  private last = 0
  private isClosed = false
  private readonly redacted = new RedactedEvents()
  /** Events that were not read on the page yet, oldest first: redacting a large one takes long. */
  private readonly unread: Array<Entry> = []
  private news = Deferred.makeUnsafe<void>()

  constructor(id: string, bounds: Bounds) {
    this.id = id
    this.bounds = bounds
  }

  /** Characters of all kept events, as JSON. */
  get chars(): number {
    return this.lifeChars + this.emittedChars
  }

  /** A page of redacted events after a position. */
  happened(after: number): { readonly events: ReadonlyArray<ToolEvent.Wire>; readonly next?: number } {
    const found = this.entries(after, pageEvents, pageChars)
    const last = found.at(-1)?.place ?? this.last
    return { events: found.map((it) => this.shared(it)), ...last < this.last ? { next: last } : {} }
  }

  /** The last event of the wave; absent until it has ended. */
  get end(): ToolEvent.Wire | undefined {
    const event = this.life.at(-1)?.event
    return event !== undefined && ToolEvent.isEnd(event) && event.agentPath.length === 0 ? event : undefined
  }

  /** Adds an event; the result gives it redacted. `chars` is the length of its JSON. */
  append(event: ToolEvent.Wire, chars = JSON.stringify(event).length): () => ToolEvent.Wire {
    const entry: Entry = { place: ++this.last, event, shared: undefined, chars }
    this.unread.push(entry)
    if (isLifecycle(event)) {
      this.life.push(entry)
      this.lifeChars += chars
    } else this.emit(entry)
    this.wake()
    return () => this.shared(entry)
  }

  /** Ends all readers after the last event. */
  close(): void {
    this.isClosed = true
    this.wake()
  }

  /** Streams the events after a position, and then new ones until the end. */
  stream(after: string | undefined): Stream.Stream<WaveSse> {
    return Stream.unwrap(Effect.sync(() => {
      const place = after === undefined ? 0 : this.placeOf(after)
      const rest = Stream.paginate<number, WaveSse>(place ?? 0, (it) => this.page(it))
      return place === undefined ? Stream.concat(Stream.succeed(this.note(0, { _tag: "Reset" })), rest) : rest
    }))
  }

  private emit(entry: Entry): void {
    this.emitted.push(entry)
    this.emittedChars += entry.chars
    while (this.emitted.length > this.bounds.events || this.emittedChars > this.bounds.chars) {
      const dropped = this.emitted.shift()!
      this.emittedChars -= dropped.chars
      this.shared(dropped)
    }
  }

  /** Redacts in order: a secret in one event is redacted in all that follow. */
  private shared(entry: Entry): ToolEvent.Wire {
    while (entry.shared === undefined) {
      const next = this.unread.shift()!
      next.shared = this.redacted.of(next.event)
    }
    return entry.shared
  }

  private wake(): void {
    Deferred.doneUnsafe(this.news, Effect.void)
    this.news = Deferred.makeUnsafe()
  }

  /** The next items after a position; waits for one if necessary. */
  private page(at: number): Page {
    return Effect.suspend((): Page => {
      const items = this.behind(at)
      const last = items.at(-1)
      if (last !== undefined) {
        return Effect.succeed([items.map(({ sse }) => sse), Option.some(last.place)])
      }
      if (this.isClosed) return Effect.succeed([[], Option.none()])
      const next = Option.some(at)
      return Effect.flatMap(
        Effect.timeoutOption(Deferred.await(this.news), heartbeat),
        (news): Page =>
          Option.isSome(news)
            ? Effect.succeed([[], next])
            : Effect.map(Clock.currentTimeMillis, (now) => [[beat(now)], next])
      )
    })
  }

  private behind(after: number): ReadonlyArray<Item> {
    const items: Array<Item> = []
    let at = after
    for (const { event, place } of this.entries(after, streamEvents, streamChars)) {
      const dropped = place - at - 1
      if (dropped > 0) items.push({ place: place - 1, sse: this.note(place - 1, { _tag: "Gap", dropped }) })
      items.push({ place, sse: { id: this.idOf(place), event: ToolEvent.sseName(event), data: event } })
      at = place
    }
    return items
  }

  /** Some entries after a position, in order: at least one, if there is any. */
  private entries(after: number, most: number, mostChars: number): ReadonlyArray<Entry> {
    const found: Array<Entry> = []
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

  private note(place: number, data: { _tag: "Reset" } | { _tag: "Gap"; dropped: number }): WaveSse {
    return { id: this.idOf(place), event: noteNames[data._tag], data }
  }

  private idOf(place: number): string {
    return `${this.id}-${place}`
  }

  /** `undefined` if the id belongs to another log. */
  private placeOf(id: string): number | undefined {
    const at = id.lastIndexOf("-")
    const digits = id.slice(at + 1)
    if (id.slice(0, at) !== this.id || !/^\d{1,15}$/.test(digits)) return undefined
    const place = Number(digits)
    return place <= this.last ? place : undefined
  }
}

interface Entry {
  readonly place: number
  readonly event: ToolEvent.Wire
  /** The redacted event, once it has been read. */
  shared: ToolEvent.Wire | undefined
  readonly chars: number
}

interface Item {
  readonly place: number
  readonly sse: WaveSse
}

type Page = Effect.Effect<readonly [ReadonlyArray<WaveSse>, Option.Option<number>]>

/** Size of one read of a stream; the next read happens once it is sent. */
const [streamEvents, streamChars] = [100, 64_000]

/** Size of a page. */
const [pageEvents, pageChars] = [1_000, 1_000_000]

const heartbeat = "15 seconds"

const beat = (at: number): WaveSse => ({ event: noteNames.Heartbeat, data: { _tag: "Heartbeat", at } })

/** Index of the first entry after a position. */
const firstBehind = (entries: ReadonlyArray<Entry>, place: number): number => {
  let [from, to] = [0, entries.length]
  while (from < to) {
    const middle = (from + to) >> 1
    if (entries[middle]!.place <= place) from = middle + 1
    else to = middle
  }
  return from
}
