/**
 * The events of waves as lanes, one for a call: when it waited, when people were asked about it,
 * and when it ran. Events may come in any order and more than once. Pure.
 */
import type { Wire } from "../../core/facts/ToolEvent.ts"

/** What a call does for a while. */
export interface Span {
  /**
   * `waiting`: for its turn; `asking`: for a person; `permits`: it was allowed, and waits for what it needs to run;
   * `running`: one attempt.
   */
  readonly kind: "waiting" | "asking" | "permits" | "running"
  /** Which attempt, from 1, or 0. */
  readonly attempt: number
  readonly from: number
  /** Absent: it goes on. */
  readonly to: number | undefined
}

/** An event of a call. */
export type CallEvent = Extract<Wire, { readonly callId: string }>

/** What became of a call. */
export type Outcome = Extract<Wire, { readonly _tag: "ToolCallComplete" }>["outcome"]

/** A call over time. */
export interface Lane {
  readonly key: string
  readonly agentPath: ReadonlyArray<string>
  readonly process: string
  readonly wave: number
  readonly index: number
  readonly callId: string
  readonly tool: string
  readonly from: number
  readonly to: number | undefined
  readonly spans: ReadonlyArray<Span>
  readonly outcome: Outcome | undefined
  /** The wave was suspended before the call had its outcome. */
  readonly isSuspended: boolean
  /** What the tool said last of how far it is. */
  readonly status: string | undefined
}

/** Gives the lanes of all calls, those of sub-agents behind those of their agents. */
export const lanesOf = (events: ReadonlyArray<Wire>): ReadonlyArray<Lane> => {
  const calls = new Map<string, Map<number, CallEvent>>()
  const suspended = new Map<string, number>()
  for (const event of events) {
    if (event._tag === "WaveSuspended") suspended.set(waveKey(event), event.at)
    if (!("callId" in event) || told.has(event._tag)) continue
    const key = `${waveKey(event)} ${event.index}`
    const known = calls.get(key) ?? new Map<number, CallEvent>()
    calls.set(key, known.set(event.sequence, event))
  }
  return [...calls]
    .map(([key, known]) => {
      const own = [...known.values()].sort((a, b) => a.sequence - b.sequence)
      return laneOf(key, own, suspended.get(waveKey(own[0]!)))
    })
    .sort(byPlace)
}

/** Says in a few words where a call stands. */
export const stateOf = ({ isSuspended, outcome, spans }: Lane): string => {
  if (outcome !== undefined) return outcomeWords(outcome)
  if (isSuspended) return "Suspended"
  const last = spans.findLast((it) => it.to === undefined)
  return last === undefined
    ? "Waiting"
    : last.kind === "asking"
    ? "A person is asked"
    : last.kind === "permits"
    ? "Allowed, waiting for its permits"
    : last.kind === "running"
    ? last.attempt > 1 ? `Running, attempt ${last.attempt}` : "Running"
    : "Waiting"
}

/** Says in a few words what became of a call; may hold text of the model. */
export const outcomeWords = (outcome: Outcome): string => {
  const replay = "replayOf" in outcome && outcome.replayOf !== undefined ? ` (as ${outcome.replayOf})` : ""
  switch (outcome._tag) {
    case "Succeeded":
      return `Succeeded${outcome.output._tag === "Inline" ? "" : `, ${outcome.output._tag}`}${replay}`
    case "Failed":
      return `Failed: ${outcome.origin}${replay}`
    case "TimedOut":
      return `TimedOut: ${outcome.which} limit of ${duration(outcome.limitMillis)}${replay}`
    case "Denied":
      return `Denied: ${outcome.reason._tag}`
    case "Cancelled":
      return `Cancelled: ${outcome.reason}${replay}`
    case "Skipped":
      return `Skipped: ${outcome.because}`
    case "Unknown":
      return `Unknown: no end on record${replay}`
  }
}

/** How long a call did one thing in all, in milliseconds. */
export const timeOf = ({ spans }: Lane, kind: Span["kind"], now: number): number =>
  spans.reduce((sum, span) => span.kind === kind ? sum + Math.max(0, (span.to ?? now) - span.from) : sum, 0)

/** A span of time, such as `350 ms`, `4.2 s` or `3 min 5 s`. */
export const duration = (millis: number): string => {
  if (millis < 1_000) return `${Math.round(millis)} ms`
  if (millis < 59_950) return `${(millis / 1_000).toFixed(1)} s`
  const seconds = Math.round(millis / 1_000)
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return seconds % 60 === 0 ? `${minutes} min` : `${minutes} min ${seconds % 60} s`
  return minutes % 60 === 0 ? `${minutes / 60} h` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}

/** The part of time that a picture shows. */
export interface View {
  readonly from: number
  readonly to: number
}

/** All of the time of the lanes. */
export const fit = (lanes: ReadonlyArray<Lane>, now: number): View => {
  let from = Infinity
  let to = -Infinity
  for (const lane of lanes) {
    from = Math.min(from, lane.from)
    to = Math.max(to, lane.to ?? now)
  }
  return from === Infinity ? { from: now, to: now + 1 } : { from, to: Math.max(to, from + 1) }
}

/** Shows less or, with a factor above 1, more time around a point, from a millisecond to a week. */
export const zoom = ({ from, to }: View, factor: number, around: number = (from + to) / 2): View => {
  const span = Math.min(604_800_000, Math.max(1, (to - from) * factor))
  const share = to === from ? 0.5 : (around - from) / (to - from)
  return { from: around - span * share, to: around + span * (1 - share) }
}

/** Shows time further on, or back, by a share of what is shown. */
export const pan = ({ from, to }: View, share: number): View => ({
  from: from + (to - from) * share,
  to: to + (to - from) * share
})

/** Gives round times to mark on an axis, some `count` of them. */
export const ticksOf = ({ from, to }: View, start: number, count: number): ReadonlyArray<number> => {
  const rough = (to - from) / Math.max(1, count)
  const step = steps.find((it) => it >= rough) ?? 86_400_000 * Math.ceil(rough / 86_400_000)
  const first = start + Math.ceil((from - start) / step) * step
  return Array.from({ length: Math.max(0, Math.floor((to - first) / step) + 1) }, (_, at) => first + at * step)
}

// Utilities

const steps = [
  1,
  2,
  5,
  10,
  20,
  50,
  100,
  200,
  500,
  1e3,
  2e3,
  5e3,
  1e4,
  2e4,
  3e4,
  6e4,
  12e4,
  3e5,
  6e5,
  18e5,
  36e5,
  108e5,
  216e5,
  864e5
]

/** Events that tools emit in any number, and that say nothing of time. */
const told: ReadonlySet<string> = new Set(["ToolLog", "ToolOptions", "ToolPartialResult", "ToolCustom"])

const waveKey = ({ agentPath, batch, process, wave }: Wire): string => JSON.stringify([agentPath, batch, process, wave])

const laneOf = (key: string, events: ReadonlyArray<CallEvent>, suspendedAt: number | undefined): Lane => {
  const first = events[0]!
  const complete = events.findLast((it) => it._tag === "ToolCallComplete")
  const outcome = complete?.outcome
  const from = outcome?.queuedAt ?? Math.min(...events.map(({ at }) => at))
  const to = complete?.at ?? suspendedAt
  const status = events.findLast((it) => it._tag === "ToolStatus" || it._tag === "ToolProgress")
  return {
    key,
    agentPath: first.agentPath,
    process: first.process,
    wave: first.wave,
    index: first.index,
    callId: first.callId,
    tool: first.tool,
    from,
    to,
    spans: spansOf(events, from, to),
    outcome,
    isSuspended: outcome === undefined && suspendedAt !== undefined,
    status: status === undefined ? undefined : status._tag === "ToolStatus" ? status.status : progressOf(status)
  }
}

const spansOf = (events: ReadonlyArray<CallEvent>, from: number, to: number | undefined): ReadonlyArray<Span> => {
  const asking: Array<Span> = []
  const asked = new Map<string, number>()
  for (const event of events) {
    if (event._tag === "ToolApprovalRequested") asked.set(event.requestId, event.at)
    if (event._tag !== "ToolApprovalResolved") continue
    asking.push({ kind: "asking", attempt: 0, from: asked.get(event.requestId) ?? event.at, to: event.at })
    asked.delete(event.requestId)
  }
  for (const at of asked.values()) asking.push({ kind: "asking", attempt: 0, from: at, to })
  const starts = events.filter((it) => it._tag === "ToolCallStart")
  const begun = starts[0]?.at ?? to
  // a call that runs may ask, too: before its write
  const before = asking.filter((it) => begun === undefined || it.from < begun)
  const [firstAsked, lastHeard] = [before[0]?.from, before.at(-1)?.to]
  return [
    ...spanIf("waiting", from, firstAsked ?? begun),
    ...lastHeard === undefined ? [] : spanIf("permits", lastHeard, begun),
    ...starts.map(({ at, attempt }, index): Span => ({
      kind: "running",
      attempt,
      from: at,
      to: starts[index + 1]?.at ?? to
    })),
    ...asking
  ]
}

const spanIf = (kind: "waiting" | "permits", from: number, to: number | undefined): ReadonlyArray<Span> =>
  to !== undefined && to <= from ? [] : [{ kind, attempt: 0, from, to }]

const progressOf = (event: Extract<CallEvent, { readonly _tag: "ToolProgress" }>): string | undefined => {
  const far = event.progress === undefined || event.progress === null
    ? ""
    : event.total === undefined || event.total === null
    ? String(event.progress)
    : `${event.progress} of ${event.total}`
  return [far, event.message ?? ""].filter((it) => it !== "").join(": ") || undefined
}

/** Agents before their sub-agents, waves in order, calls in their place. */
const byPlace = (a: Lane, b: Lane): number => {
  const depth = Math.min(a.agentPath.length, b.agentPath.length)
  for (let at = 0; at < depth; at++) {
    const order = compareText(a.agentPath[at]!, b.agentPath[at]!)
    if (order !== 0) return order
  }
  return a.agentPath.length - b.agentPath.length || a.from - b.from || compareText(a.process, b.process) ||
    a.wave - b.wave || a.index - b.index
}

const compareText = (a: string, b: string): number => a < b ? -1 : a > b ? 1 : 0
