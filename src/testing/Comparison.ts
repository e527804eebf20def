/** Compares a wave with what a scenario expects. Pure. */
import { isEnd } from "../core/facts/ToolEvent.ts"
import * as ToolOutcome from "../core/vocabulary/ToolOutcome.ts"
import { canonicalJson } from "../internal/canonicalJson.ts"
import type { Expected, ExpectedOutcome } from "./Scenario.ts"
import type { Difference, TimedOutcome, WaveReport } from "./ScenarioReport.ts"

export type { Difference } from "./ScenarioReport.ts"

/** Returns all differences of a wave. */
export const compare = (
  expected: Expected,
  wave: WaveReport,
  classes: ReadonlyMap<string, string>
): ReadonlyArray<Difference> => {
  const { where } = wave
  const differences: Array<Difference> = []
  const check = checkInto(differences, `${where}.expect.`)
  check("elapsed", expected.elapsed, wave.elapsed)
  check("needsContinuation", expected.needsContinuation, wave.needsContinuation)
  check("shouldExit", expected.shouldExit, wave.shouldExit)
  check("reason", expected.reason, wave.agent?.reason)
  check("turns", expected.turns, wave.agent?.turns)
  check("text", expected.text, wave.agent?.text)
  check("prompts", expected.prompts, promptsOf(wave))
  if (expected.outcomes !== undefined) {
    // outcomes omitted at the end are not checked, like omitted fields
    check("outcomes.length", Math.max(expected.outcomes.length, wave.outcomes.length), wave.outcomes.length)
    expected.outcomes.forEach((want, index) => {
      const got = wave.outcomes[index]
      if (got === undefined) return
      for (const it of compareOutcome(want, got)) {
        differences.push({ ...it, where: `${where}.expect.outcomes[${index}].${it.where}` })
      }
    })
  }
  const peaks = peaksOf(wave, classes)
  for (const [name, peak] of Object.entries(expected.peak ?? {})) check(`peak.${name}`, peak, peaks.get(name) ?? 0)
  const events = expected.events ?? []
  for (const { id, tags } of "id" in events ? [events] : events) {
    check(
      `events.${id}`,
      tags,
      wave.events.flatMap((event) => !isEnd(event) && event.callId === id ? [event._tag] : [])
    )
  }
  return differences
}

/** Returns all differences of an outcome, by field. */
export const compareOutcome = (
  want: ExpectedOutcome,
  { end, outcome, start }: TimedOutcome
): ReadonlyArray<Difference> => {
  const differences: Array<Difference> = []
  const check = checkInto(differences, "")
  const reason = outcome._tag === "Denied" ? outcome.reason : undefined
  check("id", want.id, outcome.callId)
  check("tag", want.tag, outcome._tag)
  check("reason", want.reason, reason?._tag)
  check("violation", want.violation, reason?._tag === "RuleViolation" ? reason.rule._tag : undefined)
  check("by", want.by, reason?._tag === "PermissionDenied" ? reason.by : undefined)
  check("which", want.which, outcome._tag === "TimedOut" ? outcome.which : undefined)
  check("origin", want.origin, outcome._tag === "Failed" ? outcome.origin : undefined)
  check("retryable", want.retryable, "retryable" in outcome ? outcome.retryable : undefined)
  check("kind", want.kind, outcome._tag === "Succeeded" ? outcome.output._tag : undefined)
  check(
    "output",
    want.output,
    outcome._tag === "Succeeded" && "value" in outcome.output ? outcome.output.value : undefined
  )
  check("continuation", want.continuation, "requestsContinuation" in outcome ? outcome.requestsContinuation : false)
  check("commits", want.commits, outcome.commits)
  check("start", want.start, start)
  check("end", want.end, end)
  const text = ToolOutcome.text(outcome)
  if (want.textIncludes !== undefined && !text.includes(want.textIncludes)) {
    differences.push({ where: "textIncludes", expected: want.textIncludes, got: text })
  }
  return differences
}

const checkInto =
  (differences: Array<Difference>, prefix: string) => (at: string, want: unknown, got: unknown): void => {
    if (want !== undefined && canonicalJson(want) !== canonicalJson(got ?? null)) {
      differences.push({ where: `${prefix}${at}`, expected: want, got })
    }
  }

const promptsOf = (wave: WaveReport): ReadonlyArray<string> =>
  wave.events.flatMap((event) => event._tag === "ToolApprovalRequested" ? [event.tool] : [])

/** Maximum concurrency by tool and class; a call counts from start to outcome. */
const peaksOf = (wave: WaveReport, classes: ReadonlyMap<string, string>): ReadonlyMap<string, number> => {
  const now = new Map<string, number>()
  const peaks = new Map<string, number>()
  const started = new Set<number>()
  const add = (name: string | undefined, change: number) => {
    if (name === undefined) return
    const count = (now.get(name) ?? 0) + change
    now.set(name, count)
    peaks.set(name, Math.max(peaks.get(name) ?? 0, count))
  }
  for (const event of wave.events) {
    if (event._tag !== "ToolCallStart" && event._tag !== "ToolCallComplete") continue
    // an automatic retry starts no new call
    if (started.has(event.index) !== (event._tag === "ToolCallComplete")) continue
    started.add(event.index)
    const change = event._tag === "ToolCallStart" ? 1 : -1
    add(event.tool, change)
    add(classes.get(event.tool), change)
  }
  return peaks
}
