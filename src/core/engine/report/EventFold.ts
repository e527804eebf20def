/** Turns facts into events. Pure. Kinds of facts without an event are listed, too. */
import type { CallFact, Of, Origin, WaveFact } from "../../facts/Fact.ts"
import type { ToolEvent } from "../../facts/ToolEvent.ts"

/** An event without the fields that come from its wave. */
export type Body = ToolEvent extends infer E ? E extends ToolEvent ? Omit<E, keyof Origin | "sequence"> : never : never

/** The call that a fact is about. */
export interface About {
  readonly callId: string
  readonly tool: string
  /** Place of the call in its wave, from 0. */
  readonly index: number
}

/** Gives the event of a fact about a call, if it has one. */
export const ofCall = (fact: CallFact, about: About): Body | undefined =>
  (calls[fact._tag] as (fact: CallFact, about: About) => Body | undefined)(fact, about)

/** Gives the event of a fact about a wave, if it has one. */
export const ofWave = (fact: WaveFact): Body | undefined =>
  (waves[fact._tag] as (fact: WaveFact) => Body | undefined)(fact)

const none = (): undefined => undefined

const calls: { readonly [T in CallFact["_tag"]]: (fact: Of<T>, about: About) => Body | undefined } = {
  Queued: ({ at, params }, about) => ({ _tag: "ToolCallQueued", ...about, at, params }),
  Resumed: none,
  Arrived: none,
  Decided: none,
  Shadowed: ({ at, because, decided, policy, would }, about) =>
    would === decided
      ? undefined
      : { _tag: "ToolShadowed", ...about, at, policy, would, decided, ...(because === undefined ? {} : { because }) },
  Reviewed: ({ at, decides, millis, model, reason, verdict }, about) => ({
    _tag: "ToolReviewed",
    ...about,
    at,
    verdict,
    reason,
    model,
    millis,
    decides
  }),
  Asked: none,
  Withdrawn: none,
  Presented: ({ at, diff, evidence, requestId, why }, about) => ({
    _tag: "ToolApprovalRequested",
    ...about,
    at,
    requestId,
    why,
    ...(diff === undefined ? {} : { diff }),
    ...(evidence === undefined ? {} : { evidence })
  }),
  ApprovedBy: none,
  Answered: ({ answer, at, by, requestId }, about) => ({
    _tag: "ToolApprovalResolved",
    ...about,
    at,
    requestId,
    answer: answer === "Deny" ? by : answer
  }),
  Granted: none,
  Starting: none,
  Started: ({ at, attempt, limitMillis }, about) => ({ _tag: "ToolCallStart", ...about, at, attempt, limitMillis }),
  AttemptFailed: none,
  Recalled: none,
  Reported: ({ at, report }, about) => ({ ...report, ...about, at }),
  Committed: none,
  LateWriteBlocked: none,
  Settled: none,
  Suspended: none,
  GivenBack: none,
  Concluded: ({ at, dropped, outcome }, about) => ({ _tag: "ToolCallComplete", ...about, at, outcome, dropped }),
  Orphaned: none,
  OrphanEnded: none
}

const waves: { readonly [T in WaveFact["_tag"]]: (fact: Of<T>) => Body | undefined } = {
  WaveStarted: none,
  WaveEnded: ({ at, executionResults, suspended, toolMessages }) =>
    suspended === undefined
      ? { _tag: "ToolsEnd", at, toolMessages, executionResults }
      : { _tag: "WaveSuspended", at, calls: suspended, executionResults }
}
