/** The metrics that the facts about one call make. */
import type { CallFact, Of } from "../../facts/Fact.ts"
import { type CallTimes, errorOf, seconds } from "./CallTimes.ts"
import type { Meters, ToolMeters } from "./Meters.ts"

/** The metrics of a call: those of its tool, and those of all calls. */
export interface CallMeters {
  readonly all: Meters
  readonly tool: ToolMeters
}

type Fold<F extends CallFact> = (meters: CallMeters, times: CallTimes, fact: F) => void

/** Gives what a kind of fact does to metrics; `undefined` if that is nothing. It runs with times that have the fact. */
export const of = (fact: CallFact): Fold<never> | undefined => folds[fact._tag]

// Utilities

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
  // all calls of a wave count as waiting at once
  Queued: undefined,
  Resumed: undefined,
  Arrived: undefined,
  Decided: undefined,
  Asked: undefined,
  Withdrawn: undefined,
  Presented: ({ all }) => all.questions(1),
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
