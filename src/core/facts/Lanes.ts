/**
 * Folds the events of waves into lanes, one per call: when it waited for its turn, for approval and for permits, and
 * when it ran. Events may come in any order and more than once. Used by the page and by timelines on a terminal. Pure.
 */
import type { ToolEvent, Wire } from "./ToolEvent.ts"

/** An event, as the host has it or as clients see it. */
export type Event = ToolEvent | Wire

export type CallEvent = Extract<Event, { readonly callId: string }>

/** The outcome of a call, as the host has it or as clients see it. */
export type Outcome = Extract<Event, { readonly _tag: "ToolCallComplete" }>["outcome"]

/** One state of a call over time. */
export interface Span {
  /**
   * `waiting`: for its turn; `asking`: for an approval; `permits`: approved, waiting for permits; `running`: one
   * attempt.
   */
  readonly kind: "waiting" | "asking" | "permits" | "running"
  /** The attempt, from 1; 0 if not running. */
  readonly attempt: number
  readonly from: number
  /** Absent while the state lasts. */
  readonly to: number | undefined
}

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
  /** The latest status or progress that the tool reported. */
  readonly status: string | undefined
}

/** Returns the lanes of all calls; lanes of a sub-agent follow those of its agent. */
export const lanesOf = (events: ReadonlyArray<Event>): ReadonlyArray<Lane> => {
  const calls = new Map<string, Map<number, CallEvent>>()
  const suspended = new Map<string, number>()
  for (const event of events) {
    if (event._tag === "WaveSuspended") suspended.set(waveKey(event), event.at)
    if (!("callId" in event) || ignored.has(event._tag)) continue
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

/** Describes the current state of a call in a few words. */
export const stateOf = ({ isSuspended, outcome, spans }: Lane): string => {
  if (outcome !== undefined) return summary(outcome)
  if (isSuspended) return "Suspended"
  const last = spans.findLast((it) => it.to === undefined)
  return last === undefined
    ? "Waiting"
    : last.kind === "asking"
    ? "Waiting for approval"
    : last.kind === "permits"
    ? "Waiting for permits"
    : last.kind === "running"
    ? last.attempt > 1 ? `Running, attempt ${last.attempt}` : "Running"
    : "Waiting"
}

/** Describes an outcome in a few words. The result may contain untrusted text. */
export const summary = (outcome: Outcome): string => {
  const replay = "replayOf" in outcome && outcome.replayOf !== undefined ? ` (as ${outcome.replayOf})` : ""
  switch (outcome._tag) {
    case "Succeeded":
      return `Succeeded${outcome.output._tag === "Inline" ? "" : `, ${outcome.output._tag}`}${replay}`
    case "Failed":
      return `Failed: ${outcome.origin}${replay}`
    case "TimedOut":
      return `TimedOut: ${outcome.which} limit of ${duration(outcome.limitMillis)}${replay}`
    case "Denied":
      return `Denied: ${because(outcome.reason)}`
    case "Cancelled":
      return `Cancelled: ${outcome.reason}${replay}`
    case "Skipped":
      return `Skipped: ${outcome.because}`
    case "Unknown":
      return `Unknown: no end on record${replay}`
  }
}

/** Returns how long a call was in one state in total, in milliseconds. */
export const timeOf = ({ spans }: Lane, kind: Span["kind"], now: number): number =>
  spans.reduce((sum, span) => span.kind === kind ? sum + Math.max(0, (span.to ?? now) - span.from) : sum, 0)

/** Formats a duration, such as `350 ms`, `4.2 s` or `3 min 5 s`. */
export const duration = (millis: number): string => {
  if (millis < 1_000) return `${Math.round(millis)} ms`
  if (millis < 59_950) return `${Number((millis / 1_000).toFixed(1))} s`
  const seconds = Math.round(millis / 1_000)
  const minutes = Math.floor(seconds / 60)
  if (minutes < 60) return seconds % 60 === 0 ? `${minutes} min` : `${minutes} min ${seconds % 60} s`
  return minutes % 60 === 0 ? `${minutes / 60} h` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}

/** Events that tools emit and that do not affect time. */
const ignored: ReadonlySet<string> = new Set(["ToolLog", "ToolOptions", "ToolPartialResult", "ToolCustom"])

const waveKey = ({ agentPath, batch, process, wave }: Event): string =>
  JSON.stringify([agentPath, batch, process, wave])

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
  // a running call may also request approval, before a write
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

/** Agents before their sub-agents, then by time, wave and index. */
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

const because = (reason: Extract<Outcome, { readonly _tag: "Denied" }>["reason"]): string => {
  switch (reason._tag) {
    case "PolicyDenied":
      return `PolicyDenied, ${reason.rule}`
    case "DuplicateCall":
      return `DuplicateCall of ${reason.of}${reason.running ? ", which is still running" : ""}`
    case "RuleViolation":
      return `RuleViolation, ${reason.rule._tag}`
    case "PermissionDenied":
      return `PermissionDenied by ${reason.by}`
    case "InvalidParameters":
      return ["InvalidParameters,", ...reason.issues.slice(0, 1).flatMap((it) => [it.path, it.message])]
        .filter((part) => part !== "").join(" ")
    case "GuardRejected":
      return `GuardRejected by ${reason.guard}`
    case "SandboxUnavailable":
      return `SandboxUnavailable, ${reason.reason}`
    case "StoreUnavailable":
      return `StoreUnavailable at ${reason.operation}`
    case "ToolBlocked":
      return `ToolBlocked, ${reason.because}`
    default:
      return reason._tag
  }
}
