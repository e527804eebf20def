/** Draws calls as text, one bar per call, with waiting, asking and running marked. Pure. */
import * as Equal from "effect/Equal"
import * as Lanes from "../core/facts/Lanes.ts"
import { describe } from "../core/vocabulary/ToolRefusal.ts"
import type { Difference, Report, WaveReport } from "./ScenarioReport.ts"

/** One call to draw; all times are milliseconds of one clock. */
export interface Row {
  readonly label: string
  readonly queuedAt: number
  /** Times during which approval was pending. */
  readonly asking?: ReadonlyArray<readonly [from: number, to: number]>
  /** Absent if the call never started. */
  readonly startedAt?: number
  readonly end: number
  /** The result in a few words. */
  readonly result: string
}

export interface Options {
  /** Characters of a bar. Default 40. */
  readonly width?: number | undefined
  /** Escapes untrusted text. Default: control characters as in JSON. */
  readonly show?: ((text: string) => string) | undefined
}

/** What the characters of a bar mean. */
export const legend = "· waiting   ? asking   █ running   | refused or ended immediately"

/** Draws one bar per row, from the first arrival to the last end. */
export const bars = (rows: ReadonlyArray<Row>, options: Options = {}): ReadonlyArray<string> => {
  const show = options.show ?? showAsJson
  const began = Math.min(...rows.map((row) => row.queuedAt))
  const span = Math.max(...rows.map((row) => row.end)) - began
  const lines = rows.map((row) => ({
    label: show(row.label),
    bar: bar(row, began, span, options.width ?? 40),
    times: timesOf(row, began),
    result: show(row.result)
  }))
  const widest = (of: "label" | "times") => Math.max(...lines.map((line) => line[of].length))
  const label = widest("label")
  const times = widest("times")
  return lines.map((line) => `${line.label.padEnd(label)}  ${line.bar}  ${line.times.padEnd(times)}  ${line.result}`)
}

/** Draws the waves of a scenario, then the differences. */
export const render = (report: Report, options: Options = {}): string => {
  const show = options.show ?? showAsJson
  const waves = report.waves.flatMap((wave, index) => [
    "",
    ...drawWave(wave, index, options),
    ...refusals(report, wave).map((line) => indent(indent(show(line))))
  ])
  return [
    `${report.differences.length === 0 ? "✓" : "✗"} ${show(report.name)}`,
    ...waves.map(indent),
    ...(report.waves.some((wave) => wave.outcomes.length > 0) ? ["", indent(legend)] : []),
    ...section("Differences", report.differences.flatMap((it) => differenceLines(it, show)))
  ].join("\n")
}

/** Names, for each call refused by a rule, the rule and the model's text. */
export const refusals = (
  { rules }: Pick<Report, "rules">,
  { outcomes }: Pick<WaveReport, "outcomes">
): ReadonlyArray<string> =>
  outcomes.flatMap(({ outcome }) => {
    if (outcome._tag !== "Denied" || outcome.reason._tag !== "RuleViolation") return []
    const { rule } = outcome.reason
    const index = rules.findIndex((it) => Equal.equals(it, rule))
    const where = index === -1 ? rule._tag : `rules[${index}] ${rule._tag}`
    return [`${outcome.callId}: ${where}. ${describe(outcome.reason, outcome.tool)}`]
  })

export const rowsOf = (wave: WaveReport): ReadonlyArray<Row> => {
  const asking = new Map(
    Lanes.lanesOf(wave.events).map(({ callId, index, spans }) => [
      `${index} ${callId}`,
      spans.flatMap((it) =>
        it.kind === "asking" && it.to !== undefined ? [[it.from - wave.began, it.to - wave.began] as const] : []
      )
    ])
  )
  return wave.outcomes.map(({ end, outcome, start }) => ({
    label: `${outcome.callId} ${outcome.tool}`,
    queuedAt: outcome.queuedAt - wave.began,
    asking: asking.get(`${outcome.index} ${outcome.callId}`) ?? [],
    // a recorded outcome ran before the restart
    ...(start === undefined || start < 0 ? {} : { startedAt: start }),
    end,
    result: Lanes.summary(outcome)
  }))
}

const showAsJson = (text: string): string => JSON.stringify(text).slice(1, -1).replaceAll("\\\"", "\"")

const indent = (line: string): string => line === "" ? "" : `  ${line}`

const section = (title: string, lines: ReadonlyArray<string>): ReadonlyArray<string> =>
  lines.length === 0 ? [] : ["", `  ${title}`, ...lines.map((line) => `    ${line}`)]

const drawWave = (wave: WaveReport, index: number, options: Options): ReadonlyArray<string> => {
  const calls = wave.outcomes.length
  const kind = wave.agent === undefined ? "Wave" : "Agent"
  const end = wave.died === true ? ", died" : wave.agent === undefined ? "" : `, ${wave.agent.reason}`
  const count = `${calls} ${calls === 1 ? "call" : "calls"}`
  const title = `${kind} ${index + 1}, ${wave.where}: ${count}, ${millis(wave.elapsed)}${end}`
  return calls === 0 ? [title] : [title, ...bars(rowsOf(wave), options).map(indent)]
}

const differenceLines = (
  { expected, got, where }: Difference,
  show: (text: string) => string
): ReadonlyArray<string> => [
  show(where),
  `  expected ${show(jsonOf(expected))}`,
  `  got      ${show(jsonOf(got))}`
]

const jsonOf = (value: unknown): string => {
  try {
    return JSON.stringify(value) ?? "nothing"
  } catch {
    // a tool's value may be cyclic or hold a bigint
    return String(value)
  }
}

const bar = (row: Row, began: number, span: number, width: number): string => {
  const at = (time: number) => span === 0 ? 0 : (time - began) / span * width
  const cells = Array.from({ length: width }, () => " ")
  const fill = (from: number, to: number, mark: string) => {
    // any duration gets a cell, however short
    const first = Math.min(Math.floor(at(from)), width - 1)
    for (let cell = first; cell < Math.max(Math.round(at(to)), first + 1); cell++) cells[cell] = mark
  }
  if (row.end === row.queuedAt) fill(row.end, row.end, "|")
  if ((row.startedAt ?? row.end) > row.queuedAt) fill(row.queuedAt, row.startedAt ?? row.end, "·")
  for (const [from, to] of row.asking ?? []) if (to > from) fill(from, to, "?")
  if (row.startedAt !== undefined && row.end > row.startedAt) fill(row.startedAt, row.end, "█")
  else if (row.end > row.queuedAt) fill(row.end, row.end, "|")
  return cells.join("")
}

const timesOf = (row: Row, began: number): string =>
  row.startedAt === undefined || row.startedAt === row.end
    ? `${row.end - began} ms`
    : `${row.startedAt - began}–${row.end - began} ms`

const millis = (value: number): string => `${value} ms`
