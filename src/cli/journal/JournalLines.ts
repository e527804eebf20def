/** A journal as text for people: entries and calls in a line each, a call whole, and the picture of waves. Pure. */
import * as Arr from "effect/Array"
import * as DateTime from "effect/DateTime"
import * as Lanes from "../../core/facts/Lanes.ts"
import type { Finding, RecordedCall } from "../../core/store/JournalCalls.ts"
import { type CallEntry, isOfCall, type JournalEntry, type Of } from "../../core/store/JournalEntry.ts"
import * as ToolOutcome from "../../core/vocabulary/ToolOutcome.ts"
import { escapeLines } from "../../internal/escape.ts"
import { clip } from "../../terminal/clip.ts"
import * as Timeline from "../../testing/Timeline.ts"

export const entryLine = (entry: JournalEntry): string =>
  [timeOf(entry.at), clip(entry.principal, nameColumns), ...nameOf(entry), clip(what(entry), textColumns)].join("  ")

/** A table of calls: one line each. */
export const table = (calls: ReadonlyArray<RecordedCall>): string => {
  const rows = calls.map((call) => [
    timeOf(call.first.at),
    clip(call.first.principal, nameColumns),
    clip(call.first.callId, nameColumns),
    clip(call.first.tool, nameColumns),
    clip(stateOf(call), textColumns),
    call.startedAt === undefined || call.endedAt === undefined ? "" : `${call.endedAt - call.startedAt} ms`
  ])
  const header = ["arrived", "principal", "id", "tool", "outcome", ""]
  const widths = header.map((it, column) => Math.max(it.length, ...rows.map((row) => row[column]!.length)))
  return [header, ...rows]
    .map((row) => row.map((it, column) => it.padEnd(widths[column]!)).join("  ").trimEnd())
    .join("\n")
}

/** One call in full: its data, every entry and the text for the model. */
export const whole = (call: RecordedCall): string => {
  const { args, entries, first, outcome } = call
  const path = first.agentPath.length === 0 ? "" : `, agent ${first.agentPath.join(" > ")}`
  const kept = args?._tag === "Full" ? JSON.stringify(args.value, null, 2) : "not kept"
  return escapeLines([
    `${first.callId} ${first.tool}: ${stateOf(call)}`,
    `principal ${first.principal}, batch ${first.batch}, process ${first.process}, wave ${first.wave}${path}`,
    "",
    ...entries.map((it) => `${timeOf(it.at)}  ${what(it)}`),
    "",
    `arguments: ${kept}`,
    ...entries.flatMap((it) => it._tag === "Asked" && it.preview !== undefined ? ["", "shown:", it.preview] : []),
    ...(outcome === undefined ? [] : ["", `told: ${ToolOutcome.text(outcome)}`])
  ].join("\n"))
}

/** The picture of each wave, as `simulate` draws it. */
export const timeline = (calls: ReadonlyArray<RecordedCall>): string => {
  const waves = Arr.groupBy(
    calls,
    ({ first: { agentPath, batch, principal, process, session, wave } }) =>
      JSON.stringify([principal, agentPath, batch, process, session, wave])
  )
  const show = (text: string) => clip(text, textColumns)
  const drawn = Object.values(waves).map((all) => {
    const { at, batch, principal, process, wave } = all[0].first
    const title = show(`${timeOf(at)}  ${principal}, batch ${batch}, process ${process}, wave ${wave}`)
    return [title, ...Timeline.bars(all.map(rowOf), { show }).map((line) => `  ${line}`)].join("\n")
  })
  return [...drawn, Timeline.legend].join("\n\n")
}

/** The line of something that does not go together. */
export const findingLine = ({ call, problem }: Finding): string => {
  if (call === undefined) return problem
  const { at, batch, callId, principal, tool } = call.first
  return clip(`${callId} ${tool} of ${principal}, batch ${batch}, ${timeOf(at)}: ${problem}`, 400)
}

/** What a call may be: its outcome, or where it stands. */
export const states = [
  "Succeeded",
  "Failed",
  "TimedOut",
  "Denied",
  "Cancelled",
  "Skipped",
  "Unknown",
  "Running",
  "Waiting",
  "Suspended"
] as const

/** The outcome of a call, or where it stands. */
export const outcomeOf = ({ entries, outcome, startedAt }: RecordedCall): typeof states[number] => {
  if (outcome !== undefined) return outcome._tag
  if (entries.some((it) => it._tag === "Suspended")) return "Suspended"
  return startedAt === undefined ? "Waiting" : "Running"
}

const nameColumns = 40

const textColumns = 120

const timeOf = (at: number): string => DateTime.formatIso(DateTime.makeUnsafe(at))

const nameOf = (entry: JournalEntry): ReadonlyArray<string> =>
  isOfCall(entry) ? [`${clip(entry.callId, nameColumns)} ${clip(entry.tool, nameColumns)}`] : []

const stateOf = (call: RecordedCall): string => {
  if (call.outcome !== undefined) return Lanes.summary(call.outcome)
  const state = outcomeOf(call)
  return state === "Running" ? "started, no end on record" : state === "Waiting" ? "not started" : "suspended"
}

const rowOf = (call: RecordedCall): Timeline.Row => {
  const { asking, endedAt, entries, first, startedAt } = call
  const end = endedAt ?? entries.at(-1)!.at
  return {
    label: `${first.callId} ${first.tool}`,
    queuedAt: first.at,
    asking: asking.map(([from, to]) => [from, to ?? end]),
    ...(startedAt === undefined ? {} : { startedAt }),
    end,
    result: stateOf(call)
  }
}

const what = (entry: JournalEntry): string => isOfCall(entry) ? ofCall(entry) : ofNone(entry)

const limitOf = ({ limitMillis }: Of<"Started">): string => limitMillis === "unlimited" ? "none" : `${limitMillis} ms`

const ofCall = (entry: CallEntry): string => {
  switch (entry._tag) {
    case "Arrived":
      return entry.isResumed === true ? "submitted again" : "arrived"
    case "Decided":
      return `${entry.verdict} by ${entry.gate}: ${entry.sentence}`
    case "Shadowed":
      return `the shadow policy ${entry.policy} would decide ${entry.would}, not ${entry.decided}${
        entry.because === undefined ? "" : ` (${entry.because})`
      }`
    case "Reviewed":
      return `reviewed by ${entry.model}: ${entry.verdict}${
        entry.decides === true ? "" : ", a person decides"
      } (${entry.reason})`
    case "Asked":
      return `asked, because ${entry.why}`
    case "ApprovedBy":
      return `approved by ${entry.approval.person}${
        entry.approval.note === undefined ? "" : ` (${entry.approval.note})`
      }`
    case "Answered":
      return `answered: ${entry.answer}${entry.person === undefined ? "" : ` by ${entry.person}`}${
        entry.reason === undefined ? "" : ` (${entry.reason})`
      }`
    case "Started":
      return `started, attempt ${entry.attempt}, limit ${limitOf(entry)}, allowed by ${entry.allowedBy}`
    case "Committed":
      return `write ${entry.commits} committed`
    case "Settled":
      return Lanes.summary(entry.outcome) + (entry.unseen === undefined ? "" : ` (invisible text: ${entry.unseen})`)
    case "Suspended":
      return `suspended: ${entry.reason}`
    case "LateWriteBlocked":
      return "a late write was blocked"
    case "OrphanEnded":
      return "its handler has ended"
  }
}

const ofNone = (entry: Exclude<JournalEntry, CallEntry>): string => {
  switch (entry._tag) {
    case "Granted": {
      const { answer, patterns = [], targets, tool } = entry.grant
      return `granted: ${tool}${targets === undefined ? "" : ` (${[...targets, ...patterns].join(", ")})`}, ${answer}`
    }
    case "Revoked":
      return `revoked: ${entry.tool}, permission ${entry.grant}`
    case "Heard": {
      const said = entry.from === "user" ? "the user said" : "the user pasted"
      return entry.text === undefined
        ? `${said} something that was not kept`
        : `${said}: ${clip(entry.text, textColumns)}`
    }
    case "RuleAccepted":
      return `rule accepted by ${entry.person}: allow ${entry.rule}`
    case "Gap":
      return `${entry.lost} entries are missing`
  }
}
