/**
 * A history as laws look at it: what belongs to which call, and when it ran. Pure.
 */
import { isEnd, type ToolEvent } from "../../../src/core/facts/ToolEvent.ts"
import type { ToolOutcome } from "../../../src/core/vocabulary/ToolOutcome.ts"
import type { History, Moment, Start, WaveSeen } from "./LawHistory.ts"
import type { Params } from "./LawRun.ts"

/** A call, and everything that is known of it. */
export interface CallSeen {
  readonly id: string
  readonly tool: string
  readonly params: Params
  readonly index: number
  readonly wave: WaveSeen
  readonly starts: ReadonlyArray<Start>
  readonly queuedAt: number
  /** When it was over, and what became of it. */
  readonly end: { readonly at: number; readonly outcome: ToolOutcome } | undefined
}

/** From when to when something ran; ends before its end. */
export interface Interval {
  readonly from: number
  readonly to: number
}

/** A promise. */
export interface Law {
  /** What it is, as a sentence. */
  readonly name: string
  /** Parts of the kit that it is about: an executor that brings its own is not judged by it. */
  readonly about: ReadonlyArray<string>
  /** What is against it, a line each. */
  readonly against: (facts: Facts) => ReadonlyArray<string>
}

/** What laws ask of a history. */
export class Facts {
  readonly history: History
  readonly calls: ReadonlyArray<CallSeen>
  private readonly byId: ReadonlyMap<string, CallSeen>

  constructor(history: History) {
    this.history = history
    this.calls = history.waves.flatMap((wave) => wave.calls.map((_, index) => seen(history, wave, index)))
    this.byId = new Map(this.calls.map((it) => [it.id, it]))
  }

  call(id: string): CallSeen | undefined {
    return this.byId.get(id)
  }

  uses(...parts: ReadonlyArray<string>): boolean {
    return parts.every((it) => this.history.used.has(it))
  }

  class(tool: string): string | undefined {
    return this.history.tools.get(tool)?.class
  }

  /** Starts of a tool with the calls they belong to. */
  starts(of: (start: Start) => boolean): ReadonlyArray<{ readonly start: Start; readonly call: CallSeen }> {
    return this.history.starts.filter(of).flatMap((start) => {
      const call = this.call(start.callId)
      return call === undefined ? [] : [{ start, call }]
    })
  }

  /** While a call was running, by its handler and till it was over. */
  running({ end, starts }: CallSeen): Interval | undefined {
    const start = starts[0]
    if (start === undefined) return undefined
    return { from: start.begin.at, to: Math.min(start.end?.at ?? Infinity, end?.at ?? Infinity) }
  }
}

/** Whether a moment came before another, as far as is known. */
export const isBefore = (a: Moment, b: Moment): boolean =>
  a.at < b.at || a.at === b.at && a.order !== undefined && b.order !== undefined && a.order < b.order

/** Whether two intervals have more than a moment in common. */
export const overlap = (a: Interval, b: Interval): boolean =>
  a.from < a.to && b.from < b.to && a.from < b.to && b.from < a.to

/** The most intervals that hold at once. */
export const peak = (intervals: ReadonlyArray<Interval>): number => {
  const changes = intervals.filter((it) => it.from < it.to).flatMap(({ from, to }) => [
    { at: from, change: 1 },
    { at: to, change: -1 }
  ])
  let now = 0
  let most = 0
  for (const { change } of changes.toSorted((a, b) => a.at - b.at || a.change - b.change)) {
    now += change
    most = Math.max(most, now)
  }
  return most
}

/** Items by a key. */
export const grouped = <A, K>(items: ReadonlyArray<A>, by: (item: A) => K): ReadonlyMap<K, ReadonlyArray<A>> => {
  const groups = new Map<K, Array<A>>()
  for (const item of items) {
    const group = groups.get(by(item))
    if (group === undefined) groups.set(by(item), [item])
    else group.push(item)
  }
  return groups
}

/** Events of a call, in their order. */
export const eventsOf = ({ events }: WaveSeen, id: string): ReadonlyArray<ToolEvent> =>
  events.filter((it) => !isEnd(it) && it.callId === id)

// Utilities

const seen = (history: History, wave: WaveSeen, index: number): CallSeen => {
  const { id, name: tool, params } = wave.calls[index]!
  const complete = wave.events.find((it) => it._tag === "ToolCallComplete" && it.callId === id)
  const outcome = wave.outcomes?.find((it) => it.callId === id)
  return {
    id,
    tool,
    params: params as Params,
    index,
    wave,
    starts: history.starts.filter((it) => it.callId === id),
    queuedAt: wave.begin.at,
    end: complete?._tag === "ToolCallComplete"
      ? { at: complete.at, outcome: complete.outcome }
      : outcome === undefined
      ? undefined
      : { at: outcome.queuedAt + (outcome.duration ?? 0), outcome }
  }
}
