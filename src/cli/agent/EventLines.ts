/** What happens to calls, as text for standard error. */
import * as Effect from "effect/Effect"
import * as Sse from "effect/encoding/Sse"
import * as Stdio from "effect/Stdio"
import * as Lanes from "../../core/facts/Lanes.ts"
import * as ToolEvent from "../../core/facts/ToolEvent.ts"
import * as ToolOutcome from "../../core/vocabulary/ToolOutcome.ts"
import { escapeJson } from "../../internal/escape.ts"
import { clip } from "../../terminal/clip.ts"
import { allowsColor } from "../../terminal/Keyboard.ts"
import * as PlainJson from "../../wire/PlainJson.ts"

/** Gives the text of an event, line breaks included; empty if it shows nothing. */
export type Writer = (event: ToolEvent.ToolEvent) => string

/** Writes nothing. */
export const none: Writer = () => ""

/** Writes one JSON object per line, the event's name under `event`. */
export const ndjson: Writer = (event) =>
  `${escapeJson(JSON.stringify({ event: ToolEvent.sseName(event), ...ToolEvent.toWire(event) }))}\n`

/** Writes server-sent events. */
export const sse: Writer = (event) =>
  Sse.encoder.write({
    _tag: "Event",
    event: ToolEvent.sseName(event),
    id: undefined,
    data: escapeJson(JSON.stringify(ToolEvent.toWire(event)))
  })

/**
 * Makes a writer for people: one line when a call ends, lines for progress in between, one for the wave.
 *
 * What models and tools chose is escaped and cut. Reports of progress are passed over if one of the same call was shown
 * less than half a second before.
 */
export const pretty = (options: { readonly color: boolean }): Writer => {
  const paint = (color: keyof typeof colors, text: string) =>
    options.color ? `\u001b[${colors[color]}m${text}\u001b[0m` : text
  const params = new Map<string, unknown>()
  const shownAt = new Map<string, number>()
  const line = (event: OfCall, text: string) => `${paint("dim", `… ${nameOf(event)}  ${clip(text, textColumns)}`)}\n`
  const report = (event: OfCall, text: string) => {
    const key = keyOf(event)
    if (event.at - (shownAt.get(key) ?? -Infinity) < progressMillis) return ""
    shownAt.set(key, event.at)
    return line(event, text.trimEnd())
  }
  const complete = (event: Extract<ToolEvent.ToolEvent, { readonly _tag: "ToolCallComplete" }>) => {
    const { at, dropped, outcome } = event
    const key = keyOf(event)
    const [color, mark] = outcome._tag === "Succeeded"
      ? ["green", "✓"] as const
      : outcome._tag === "Failed"
      ? ["red", "✗"] as const
      : ["yellow", "✗"] as const
    const result = Lanes.summary(outcome) + (outcome._tag === "Failed" ? `, ${ToolOutcome.text(outcome)}` : "")
    const args = clip(jsonOf(params.get(key)), argumentColumns)
    const time = timeOf(outcome.duration ?? at - outcome.queuedAt)
    const lost = dropped > 0 ? `  (${dropped} progress reports omitted)` : ""
    params.delete(key)
    shownAt.delete(key)
    return `${paint(color, mark)} ${nameOf(event)}  ${paint("dim", args)}  ${time}  ${
      paint(color, clip(result, textColumns))
    }${lost}\n`
  }
  const ended = ({ at, executionResults }: ToolEvent.End) => {
    // the calls of a wave arrive together; a wave of none took no time
    const [first] = executionResults
    return `${totalOf(executionResults)}${first === undefined ? "" : `, ${timeOf(at - first.queuedAt)}`}\n`
  }
  return (event) => {
    switch (event._tag) {
      case "ToolCallQueued":
        params.set(keyOf(event), event.params)
        return ""
      case "ToolProgress":
        return report(event, progressOf(event))
      case "ToolStatus":
        return report(event, event.message === undefined ? event.status : `${event.status}: ${event.message}`)
      case "ToolLog":
        return line(event, `${event.level}: ${event.message}`)
      case "ToolReviewed":
        return line(event, `reviewer: ${event.verdict}, ${event.reason}`)
      case "ToolShadowed":
        return line(event, `shadow policy ${event.policy}: ${event.would}, not ${event.decided}`)
      case "ToolCallComplete":
        return complete(event)
      case "ToolsEnd":
      case "WaveSuspended":
        return ended(event)
      default:
        return ""
    }
  }
}

/** Tells whether standard error takes colours: a terminal, and `NO_COLOR` unset (https://no-color.org). */
export const wantsColor = Effect.gen(function*() {
  const stdio = yield* Stdio.Stdio
  return (yield* stdio.stderrIsTerminal) && (yield* allowsColor)
})

const colors = { dim: "2", red: "31", green: "32", yellow: "33" }

const progressMillis = 500
const nameColumns = 40
const argumentColumns = 60
const textColumns = 120

type OfCall = Exclude<ToolEvent.ToolEvent, ToolEvent.End>

/** Distinguishes calls of sub-agents. */
const keyOf = ({ index, process, wave }: OfCall): string => `${process} ${wave} ${index}`

/** The tool, behind the sub-agents that call it. */
const nameOf = ({ agentPath, tool }: OfCall): string =>
  [...agentPath, tool].map((name) => clip(name, nameColumns)).join(" > ")

const jsonOf = (params: unknown): string => JSON.stringify(PlainJson.from(params))

const timeOf = (millis: number): string => millis < 1000 ? `${millis} ms` : `${(millis / 1000).toFixed(1)} s`

const progressOf = (event: Extract<ToolEvent.ToolEvent, { readonly _tag: "ToolProgress" }>): string => {
  const amount = event.progress === undefined
    ? []
    : [event.total === undefined ? `${event.progress}` : `${event.progress} of ${event.total}`]
  // of output, the last line says how far it is
  const lastLine = (event.message ?? "").trimEnd().split("\n").at(-1) ?? ""
  return [...amount, ...lastLine === "" ? [] : [lastLine]].join("  ")
}

const totalOf = (outcomes: ReadonlyArray<ToolOutcome.ToolOutcome>): string => {
  const counts = new Map<string, number>()
  for (const { _tag } of outcomes) counts.set(_tag, (counts.get(_tag) ?? 0) + 1)
  const parts = Array.from(counts, ([tag, count]) => `${count} ${tag}`)
  return [`${outcomes.length} ${outcomes.length === 1 ? "call" : "calls"}`, ...parts].join(", ")
}
