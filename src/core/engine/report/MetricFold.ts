/** Turns facts about calls into metrics. */
import type { CallFact, Of } from "../../facts/Fact.ts"
import { type CallTimes, errorOf, seconds } from "./CallTimes.ts"
import type { Meters, ToolMeters } from "./Meters.ts"

/** The metrics that a call changes: those of its tool, and those of all calls. */
export interface CallMeters {
  readonly all: Meters
  readonly tool: ToolMeters
}

type Fold<F extends CallFact> = (meters: CallMeters, times: CallTimes, fact: F) => void

/** Gives how a fact changes metrics, if it does. The times must already include the fact. */
export const of = (fact: CallFact): Fold<never> | undefined => folds[fact._tag]

const attempt: Fold<Of<"Started" | "Recalled">> = ({ all, tool }, { isFirst, queued }) => {
  tool.attempt()
  if (!isFirst) return
  all.waiting(-1)
  tool.running(1)
  tool.queued(seconds(queued))
}

const executed = (tool: ToolMeters, { ran }: CallTimes, error: string | undefined): void => {
  if (ran !== undefined) tool.executed(seconds(ran), error)
}

const end: Fold<Of<"Settled" | "Suspended">> = ({ all, tool }, times, { outcome }) => {
  const error = errorOf(outcome)
  executed(tool, times, error)
  tool.outcome(outcome._tag, error)
  if (times.hasStarted) tool.running(-1)
  else all.waiting(-1)
}

const folds: { readonly [T in CallFact["_tag"]]: Fold<Of<T>> | undefined } = {
  // counted for the whole wave when it starts
  Queued: undefined,
  Resumed: undefined,
  Arrived: undefined,
  Decided: undefined,
  Shadowed: ({ all }, _, { decided, policy, would }) => all.shadow(policy, would, decided),
  Reviewed: ({ all }, _, { decides, millis, problem, verdict }) => all.review(verdict, decides, problem, millis / 1e3),
  Asked: undefined,
  Withdrawn: undefined,
  Presented: ({ all }) => all.questions(1),
  ApprovedBy: undefined,
  Answered: ({ all }) => all.questions(-1),
  Granted: undefined,
  Starting: undefined,
  Started: attempt,
  AttemptFailed: ({ tool }, times) => executed(tool, times, "Failed"),
  Recalled: attempt,
  Reported: undefined,
  Committed: undefined,
  LateWriteBlocked: undefined,
  Settled: end,
  Suspended: end,
  GivenBack: undefined,
  Concluded: undefined,
  Orphaned: ({ tool }) => tool.orphaned(1),
  OrphanEnded: ({ tool }) => tool.orphaned(-1)
}
