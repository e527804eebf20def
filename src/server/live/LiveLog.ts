/**
 * Live events of the whole server, for pages: a bounded log that readers follow from a position. A reader that falls
 * behind what is kept starts over (`Reset`); no reader slows down the server.
 *
 * A position is `<id>-<number>`. Every start of the server has another id, so old positions are recognised. Events that
 * a reader may not see are skipped, but they have numbers, too.
 *
 * With a `LiveTable` in the context, several processes tell one another (`SharedLive`). Each keeps a log of its own, so
 * a reader that changes the process starts over.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import { LiveTable } from "../../core/store/LiveTable.ts"
import { ConfigurationError } from "../../core/vocabulary/ConfigurationError.ts"
import { OptionReader } from "../../internal/OptionReader.ts"
import { type LiveItem, liveNames, type LiveSse } from "../api/ApiApprovals.ts"
import * as SharedLive from "./SharedLive.ts"

/** The log. */
export class LiveLog extends Context.Service<LiveLog, {
  /** Adds an item of a user without waiting. `chars` is the length of its JSON, if known. */
  readonly tell: (user: string, item: LiveItem, chars?: number) => void
  /** The position after the latest item. */
  readonly cursor: Effect.Effect<string>
  /**
   * Streams the items after a position that pass `sees`, then new ones, with ids and a heartbeat immediately and every
   * 15 seconds. For an unknown position, or after falling behind, a `Reset` precedes new items. Default position: now.
   */
  readonly stream: (
    after: string | undefined,
    sees: (user: string, item: LiveItem) => boolean
  ) => Stream.Stream<LiveSse>
  /** Ends all streams, including later ones, after the existing items and a `Stopping`. */
  readonly stop: Effect.Effect<void>
}>()("effect-tool-executor/server/LiveLog") {}

/** How much the log keeps. */
export interface Options {
  /** Items. Default 5,000. */
  readonly maxItems?: number | undefined
  /** Characters of all items, as JSON. Default 8,000,000. */
  readonly maxChars?: number | undefined
}

/** Default options. */
export const defaults = { maxItems: 5_000, maxChars: 8_000_000 } as const

/** Layer of the log, in memory. */
export const layer = (options: Options = {}): Layer.Layer<LiveLog, ConfigurationError> =>
  Layer.effect(
    LiveLog,
    Effect.gen(function*() {
      const reader = new OptionReader()
      const maxItems = reader.count("maxItems", options.maxItems ?? defaults.maxItems, 1)
      const maxChars = reader.count("maxChars", options.maxChars ?? defaults.maxChars, 1)
      const { problems } = reader
      if (problems.length > 0) return yield* new ConfigurationError({ subject: "LiveLog", problems })
      const clock = yield* Clock.Clock
      const random = yield* Effect.provide(SecureRandom.SecureRandom, SecureRandom.layerWebCrypto)
      const run = Effect.runForkWith(yield* Effect.context<never>())
      const log = new Log((yield* random.uuidV4()).slice(0, 8), maxItems, maxChars, run)
      yield* Effect.addFinalizer(() => Effect.sync(() => log.stop()))
      const cursor = Effect.sync(() => log.idOf(log.end - 1))
      const stream: LiveLog["Service"]["stream"] = (after, sees) =>
        Stream.suspend(() => {
          const from = log.placeOf(after)
          const next = new Reader(log, from, sees, () => clock.currentTimeMillisUnsafe())
          return Stream.fromPull(Effect.succeed(next.pull))
        })
      const stop = Effect.sync(() => log.stop())
      const table = Option.getOrUndefined(yield* Effect.serviceOption(LiveTable))
      if (table === undefined) {
        return LiveLog.of({ tell: (user, item, chars) => log.add(user, item, chars), cursor, stream, stop })
      }
      const shared = yield* SharedLive.make(table, { add: (user, item) => log.add(user, item), skip: () => log.skip() })
      return LiveLog.of({
        tell: (user, item, chars) => {
          log.add(user, item, chars)
          shared.tell(user, item)
        },
        cursor: Effect.andThen(shared.follow, cursor),
        stream: (after, sees) => Stream.unwrap(Effect.as(shared.following, stream(after, sees))),
        stop
      })
    })
  )

/** Items per read at most. The next read happens once these are sent. */
const atOnce = 64

/** Characters per read, but at least one item. */
const charsAtOnce = 64_000

/** The position is unknown: the reader starts over. */
const unknown = -1

class Log {
  private readonly life: string
  private readonly maxItems: number
  private readonly maxChars: number
  private readonly run: (effect: Effect.Effect<void>) => Fiber.Fiber<void>
  private items: Array<{ readonly user: string; readonly item: LiveItem; readonly chars: number }> = []
  /** Items before this index are evicted; the array is cut now and then. */
  private gone = 0
  private chars = 0
  private readonly waiting = new Set<(effect: Effect.Effect<void>) => void>()
  /** One timer for all readers. */
  private timer: Fiber.Fiber<void> | undefined
  /** Number of the first item that is kept. */
  start = 1
  beats = 0
  isOver = false

  constructor(life: string, maxItems: number, maxChars: number, run: Log["run"]) {
    this.life = life
    this.maxItems = maxItems
    this.maxChars = maxChars
    this.run = run
  }

  /** Number of the next item. */
  get end(): number {
    return this.start + this.items.length - this.gone
  }

  add(user: string, item: LiveItem, chars = JSON.stringify(item).length): void {
    this.items.push({ user, item, chars })
    this.chars += chars
    while (this.end - this.start > this.maxItems || this.chars > this.maxChars) {
      this.chars -= this.items[this.gone]!.chars
      this.gone++
      this.start++
    }
    if (this.gone > this.maxItems) {
      this.items = this.items.slice(this.gone)
      this.gone = 0
    }
    // in separate turns: an answer to the event must find the request pending
    this.wake(Effect.yieldNow)
  }

  /** Items may be missing: every reader starts over. */
  skip(): void {
    this.start = this.end + 1
    this.items = []
    this.gone = 0
    this.chars = 0
    this.wake()
  }

  at(number: number) {
    return this.items[number - this.start + this.gone]!
  }

  idOf(number: number): string {
    return `${this.life}-${number}`
  }

  /** Number of the first item after a position. */
  placeOf(after: string | undefined): number {
    if (after === undefined) return this.end
    const number = Number(/^[0-9a-f]+-(\d{1,15})$/.exec(after)?.[1])
    return this.idOf(number) === after && number >= this.start - 1 && number < this.end ? number + 1 : unknown
  }

  stop(): void {
    this.isOver = true
    this.timer?.interruptUnsafe()
    this.wake()
  }

  /** Waits for the next item. */
  readonly news = Effect.callback<void>((resume) => {
    this.waiting.add(resume)
    this.timer ??= this.run(Effect.andThen(Effect.sleep("15 seconds"), Effect.sync(() => this.beat())))
    return Effect.sync(() => void this.waiting.delete(resume))
  })

  private beat(): void {
    this.timer = undefined
    this.beats++
    this.wake()
  }

  private wake(first: Effect.Effect<void> = Effect.void): void {
    const all = Array.from(this.waiting)
    this.waiting.clear()
    for (const resume of all) resume(first)
  }
}

/** A reader: a position in the log. */
class Reader {
  private readonly log: Log
  private readonly sees: (user: string, item: LiveItem) => boolean
  private readonly now: () => number
  private next: number
  private beats: number
  private hasEnded = false

  constructor(log: Log, from: number, sees: (user: string, item: LiveItem) => boolean, now: () => number) {
    this.log = log
    this.sees = sees
    this.now = now
    this.next = from
    // the first heartbeat comes immediately: servers may send headers only with the first bytes
    this.beats = log.beats - 1
  }

  readonly pull: Effect.Effect<readonly [LiveSse, ...Array<LiveSse>], Cause.Done> = Effect.suspend(() => {
    if (this.hasEnded) return Cause.done()
    const [first, ...rest] = this.read()
    if (first !== undefined) return Effect.succeed([first, ...rest] as const)
    // lets others run although all items were hidden from this reader
    return Effect.andThen(this.next < this.log.end ? Effect.yieldNow : this.log.news, this.pull)
  })

  private read(): ReadonlyArray<LiveSse> {
    const { log } = this
    if (this.next < log.start) {
      this.next = log.end
      return [this.note({ _tag: "Reset" })]
    }
    const found: Array<LiveSse> = []
    let read = 0
    for (const until = Math.min(log.end, this.next + atOnce); this.next < until && read < charsAtOnce; this.next++) {
      const { chars, item, user } = log.at(this.next)
      if (!this.sees(user, item)) continue
      read += chars
      found.push(sseOf(log.idOf(this.next), item))
    }
    if (this.beats < log.beats) {
      this.beats = log.beats
      // with an id, so that a reader without items keeps up with the log
      found.push(this.note({ _tag: "Heartbeat", at: this.now() }))
    }
    if (log.isOver && this.next === log.end) {
      this.hasEnded = true
      found.push(this.note({ _tag: "Stopping" }))
    }
    return found
  }

  private note(item: LiveItem): LiveSse {
    return sseOf(this.log.idOf(this.next - 1), item)
  }
}

const sseOf = (id: string, data: LiveItem): LiveSse => ({ id, event: liveNames[data._tag], data })
