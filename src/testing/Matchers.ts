/** Compares what happened with what a test expects. Plain functions that throw, for any test runner. */
import * as Schema from "effect/Schema"
import { isEnd, type ToolEvent } from "../core/facts/ToolEvent.ts"
import type { ToolOutcome } from "../core/vocabulary/ToolOutcome.ts"
import * as Comparison from "./Comparison.ts"
import type { ExpectedOutcome } from "./Scenario.ts"

/** A difference from what a test expects. */
export class Mismatch extends Schema.TaggedError<Mismatch>("effect-tool-executor/testing/Mismatch")("Mismatch", {
  /** What was compared. */
  what: Schema.String,
  /** One line each. */
  differences: Schema.Array(Schema.String)
}) {
  override get message(): string {
    return `The ${this.what} are not as expected:\n${this.differences.map((it) => `  ${it}`).join("\n")}`
  }
}

/**
 * Expects these outcomes, complete and in order. A text is a tag or the reason of a refusal: `"Succeeded"`,
 * `"PermissionDenied"`. Omitted fields are not checked; `start` and `end` are virtual milliseconds since the epoch.
 */
export const expectOutcomes = (
  got: ReadonlyArray<ToolOutcome>,
  expected: ReadonlyArray<string | ExpectedOutcome>
): void => {
  const differences = expected.flatMap((want, index) => {
    const outcome = got[index]
    if (outcome === undefined) return [`outcome ${index}: expected ${shown(want)}, got no outcome`]
    if (typeof want === "string") {
      const is = wordOf(outcome)
      return is === want || outcome._tag === want
        ? []
        : [`outcome ${index} (${nameOf(outcome)}): expected ${want}, got ${is}`]
    }
    return Comparison.compareOutcome(want, timed(outcome)).map((it) =>
      `outcome ${index} (${nameOf(outcome)}), ${it.where}: expected ${shown(it.expected)}, got ${shown(it.got)}`
    )
  })
  const more = got.slice(expected.length).map((it, index) =>
    `outcome ${expected.length + index} (${nameOf(it)}): got ${wordOf(it)}, and nothing is expected`
  )
  fail("outcomes", [...differences, ...more])
}

/**
 * Expects events in order, each by tag with an optional tool and call id: `"ToolCallStart"`, `"ToolCallStart read"`,
 * `"ToolCallStart read 1"`. Kinds of events that no line names are ignored.
 */
export const expectEvents = (events: ReadonlyArray<ToolEvent>, expected: ReadonlyArray<string>): void => {
  const kinds = new Set(expected.map((it) => it.split(" ")[0]))
  const got = events.filter((it) => kinds.has(it._tag)).map((event) =>
    isEnd(event) ? [event._tag] : [event._tag, event.tool, event.callId]
  )
  compareLists(
    "events",
    expected,
    got.map((words) => words.join(" ")),
    (want, is) => is === want || is.startsWith(`${want} `)
  )
}

/**
 * Expects the tools whose handlers ran, in order of their start, each with an optional call id: `"read"`, `"read 1"`.
 */
export const ran = (events: ReadonlyArray<ToolEvent>, expected: ReadonlyArray<string>): void =>
  compareLists(
    "calls that ran",
    expected,
    events.flatMap((it) => it._tag === "ToolCallStart" && it.attempt === 1 ? [`${it.tool} ${it.callId}`] : []),
    (want, is) => is === want || is.startsWith(`${want} `)
  )

/**
 * Expects approval requests in order, each with an optional answer: `"publish"`, `"publish: ApproveOnce"`, `"publish:
 * Deny"`, `"publish: timeout"`.
 */
export const asked = (events: ReadonlyArray<ToolEvent>, expected: ReadonlyArray<string>): void => {
  const answers = new Map(
    // a person's denial is reported with their name
    events.flatMap((it) =>
      it._tag === "ToolApprovalResolved" ? [[it.requestId, it.answer === "user" ? "Deny" : it.answer]] : []
    )
  )
  compareLists(
    "questions",
    expected,
    events.flatMap((it) =>
      it._tag === "ToolApprovalRequested" ? [`${it.tool}: ${answers.get(it.requestId) ?? "no answer yet"}`] : []
    ),
    (want, is) => is === want || is.startsWith(`${want}: `)
  )
}

/** All outcomes in the events, in the order calls were queued. */
export const outcomesOf = (events: ReadonlyArray<ToolEvent>): ReadonlyArray<ToolOutcome> => {
  const keyOf = ({ index, process, wave }: Extract<ToolEvent, { readonly callId: string }>) =>
    JSON.stringify([process, wave, index])
  const complete = new Map(
    events.flatMap((it) => it._tag === "ToolCallComplete" ? [[keyOf(it), it.outcome] as const] : [])
  )
  return events.flatMap((it) => it._tag === "ToolCallQueued" ? complete.get(keyOf(it)) ?? [] : [])
}

const fail = (what: string, differences: ReadonlyArray<string>): void => {
  if (differences.length > 0) throw new Mismatch({ what, differences })
}

const wordOf = (outcome: ToolOutcome): string => outcome._tag === "Denied" ? outcome.reason._tag : outcome._tag

const nameOf = ({ callId, tool }: ToolOutcome): string => `call ${callId} of ${tool}`

const timed = (outcome: ToolOutcome) => ({
  ...outcome.startedAt === undefined ? {} : { start: outcome.startedAt },
  end: (outcome.startedAt ?? outcome.queuedAt) + (outcome.duration ?? 0),
  outcome
})

const shown = (value: unknown): string => {
  try {
    return JSON.stringify(value) ?? String(value)
  } catch {
    // a tool's value may be cyclic or hold a bigint
    return String(value)
  }
}

/** The lines to remove (-) and add (+), between those that match. */
const compareLists = (
  what: string,
  expected: ReadonlyArray<string>,
  got: ReadonlyArray<string>,
  isAs: (want: string, is: string) => boolean
): void => {
  // the longest common run of lines from each place
  const common = Array.from({ length: expected.length + 1 }, () => Array.from({ length: got.length + 1 }, () => 0))
  for (let i = expected.length - 1; i >= 0; i--) {
    for (let j = got.length - 1; j >= 0; j--) {
      common[i]![j] = isAs(expected[i]!, got[j]!)
        ? common[i + 1]![j + 1]! + 1
        : Math.max(common[i + 1]![j]!, common[i]![j + 1]!)
    }
  }
  const lines: Array<string> = []
  let differs = false
  for (let i = 0, j = 0; i < expected.length || j < got.length;) {
    if (i < expected.length && j < got.length && isAs(expected[i]!, got[j]!)) {
      lines.push(`  ${got[j]}`)
      i++
      j++
      continue
    }
    differs = true
    if (j >= got.length || (i < expected.length && common[i + 1]![j]! >= common[i]![j + 1]!)) {
      lines.push(`- ${expected[i++]} (expected)`)
    } else lines.push(`+ ${got[j++]} (got)`)
  }
  fail(what, differs ? lines : [])
}
