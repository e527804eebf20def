/**
 * What a journal says of calls to somebody who decides them again: what they were about, what became of them, and who
 * approved them. Pure.
 */
import type { GateCall } from "../core/gates/Gate.ts"
import type { RecordedCall } from "../core/store/JournalCalls.ts"
import type { CallEntry, KeptArguments, Of } from "../core/store/JournalEntry.ts"
import { mark } from "../internal/secrets/index.ts"

/** What the policy of that time did with a call; `other`: something else ended it, or the record does not say. */
export type Happened = "allow" | "ask" | "deny" | "other"

/** A call on record. */
export interface Recorded {
  readonly at: number
  readonly callId: string
  readonly principal: string
  readonly tool: string
  readonly class: string | undefined
  readonly args: KeptArguments
  /** Texts of its targets; `undefined` if they are not on record. */
  readonly targets: ReadonlyArray<string> | undefined
  readonly happened: Happened
  /** Why approval was requested, the last time. */
  readonly why: string | undefined
  /** How its approval request ended: by a person, a grant, a reviewer, or something else; absent: there was none. */
  readonly answer: Answer | undefined
  /** Who answered, where that is known. */
  readonly person: string | undefined
  /** How it was confined; `none`: not at all. Absent: that is not on record. */
  readonly sandbox: Confinement | undefined
  /** Approval was requested whatever grants exist, or of several people. */
  readonly isGuarded: boolean
}

/** What a sandbox let a call reach, or `none`: the call had no sandbox. */
export type Confinement = GateCall["sandbox"] | "none"

/** How an approval request ended. */
export type Answer = "approved" | "denied" | "grant" | "reviewer" | "other"

/** Gives what a journal says of a call; `undefined` if its first entries are missing. */
export const of = ({ entries }: RecordedCall): Recorded | undefined => {
  const arrived = find(entries, "Arrived")
  if (arrived === undefined) return undefined
  const asked = find(entries, "Asked")
  const started = find(entries, "Started")
  const settled = find(entries, "Settled")
  const answered = entries.findLast((it): it is Of<"Answered"> => it._tag === "Answered" && it.by !== "withdrawn")
  const answer = answerOf(answered, asked, started)
  return {
    at: arrived.at,
    callId: arrived.callId,
    principal: arrived.principal,
    tool: arrived.tool,
    class: arrived.class,
    args: arrived.args,
    targets: arrived.targets,
    happened: answer !== undefined
      ? "ask"
      : started !== undefined
      ? started.allowedBy === "policy" ? "allow" : "other"
      : settled?.outcome._tag === "Denied" && settled.outcome.reason._tag === "PolicyDenied"
      ? "deny"
      : "other",
    why: asked?.why,
    answer,
    person: answered?.person,
    sandbox: confinementOf(asked, started),
    isGuarded: asked?.isAlways === true || (asked?.approvers ?? []).length > 0
  }
}

/** Whether a value on record is not as it was: a secret was taken out of it. */
export const isRedacted = (value: unknown): boolean => value !== undefined && JSON.stringify(value).includes(mark)

const confinementOf = (
  asked: Of<"Asked"> | undefined,
  started: Of<"Started"> | undefined
): Confinement | undefined => {
  const found = started === undefined ? asked?.evidence?.find((it) => it._tag === "Sandboxed") : started.sandbox
  if (found === undefined) return started === undefined && asked === undefined ? undefined : "none"
  const { driver, network } = found
  return { _tag: network === "open" ? "Open" : "Confined", driver, network, holds: [], missing: [] }
}

const answerOf = (
  answered: Of<"Answered"> | undefined,
  asked: Of<"Asked"> | undefined,
  started: Of<"Started"> | undefined
): Answer | undefined => {
  if (started?.allowedBy === "reviewer") return "reviewer"
  if (answered?.by === "grant") return "grant"
  // what a person has edited is another call
  if (answered?.isEdited === true) return "other"
  if (answered?.by === "user") return answered.answer === "Deny" ? "denied" : "approved"
  if (answered !== undefined || asked !== undefined) return "other"
  // a grant covers a call that nobody was asked about
  return started !== undefined && started.allowedBy !== "policy" && started.allowedBy !== "answer" ? "grant" : undefined
}

const find = <T extends CallEntry["_tag"]>(entries: ReadonlyArray<CallEntry>, tag: T): Of<T> | undefined =>
  entries.findLast((it): it is Extract<CallEntry, Of<T>> => it._tag === tag)
