/** Calls on record in words. */
import type { VNode } from "preact"
import { duration } from "../core/facts/Lanes.ts"
import type { CallState, RecordedCall } from "../server/api/ApiRecords.ts"
import { html } from "./html.ts"
import { SafeText } from "./parts/SafeText.ts"
import { StateMark } from "./pieces.ts"
import type { State } from "./states.ts"

const states: { readonly [S in CallState]: readonly [mark: State, word?: string] } = {
  queued: ["queued"],
  waiting: ["approval"],
  running: ["running", "Started"],
  suspended: ["suspended"],
  succeeded: ["succeeded"],
  failed: ["failed"],
  timedOut: ["timedOut"],
  denied: ["denied"],
  cancelled: ["cancelled"],
  skipped: ["cancelled", "Skipped"],
  unknown: ["unknown"]
}

/** The state of a call on record. A call that has no end may have lost its process. */
export const RecordMark = ({ of }: { readonly of: CallState }): VNode => {
  const [mark, word] = states[of]
  return html`<${StateMark} of=${mark} word=${word} />`
}

/** What a call is about: its targets, or else the beginning of its arguments. */
export const targetIn = ({ summary, targets, tool }: RecordedCall): string =>
  targets.length > 0 ? targets.join(", ") : summary === "" || summary === "{}" ? tool : summary

const deciders = {
  policy: "policy",
  person: "a person",
  reviewer: "reviewer",
  grant: "grant",
  gate: "rules",
  timeout: "nobody in time",
  closed: "end of caller",
  noApprover: "no approver"
} as const

/** What admitted or refused a call. */
export const decided = ({ decidedBy }: Pick<RecordedCall, "decidedBy">): string =>
  decidedBy === undefined
    ? "–"
    : (decidedBy.kind === "person" || decidedBy.kind === "gate") && decidedBy.name !== undefined
    ? decidedBy.name
    : deciders[decidedBy.kind]

/** How long a call ran. */
export const took = ({ endedAt, startedAt }: Pick<RecordedCall, "endedAt" | "startedAt">): string =>
  startedAt === undefined || endedAt === undefined ? "–" : duration(endedAt - startedAt)

/** The user and the agents of a call. Names are untrusted; separators are the page's. */
export const Path = ({ of }: { readonly of: ReadonlyArray<string> }): VNode =>
  html`<span>${of.map((name, at) => html`${at === 0 ? "" : " › "}<${SafeText} text=${name} />`)}</span>`

/** The day of a time, for a heading. */
export const dayOf = (at: number): string => {
  const day = new Date(at).toDateString()
  const [today, yesterday] = [new Date(), new Date(Date.now() - 86_400_000)].map((it) => it.toDateString())
  return day === today
    ? "Today"
    : day === yesterday
    ? "Yesterday"
    : new Date(at).toLocaleDateString([], { weekday: "long", day: "numeric", month: "long" })
}

/** The time of day with seconds. */
export const clockOf = (at: number): string => new Date(at).toLocaleTimeString([], { hour12: false })
