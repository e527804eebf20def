/**
 * What is on record of a call that was submitted before. The steps of a call ask it first: what was decided, used or
 * answered then is not decided again.
 */
import type { ReviewProblem, ReviewVerdict } from "../../facts/Fact.ts"
import type { ApprovalRequest, Resolution } from "../../gates/ApprovalRequest.ts"
import type { Success } from "../../rules/RuleSet.ts"
import type { ToolClass } from "../../vocabulary/ToolHandlers.ts"
import type { End } from "./CallEnd.ts"

export type Memory = Asked | Started | Ended

/** It never started, and takes the path of any call. */
export interface Asked {
  readonly _tag: "Asked"
  readonly answers: Answers
}

/** It had started, and may run again. Neither order nor limits refuse it, and what it used stays used. */
export interface Started {
  readonly _tag: "Started"
  readonly counted: Counted
  /** The key that services know its earlier attempts by; absent: it is another call now. */
  idempotencyKey: string | undefined
  /** Its end unless it starts again: it may have changed things. */
  readonly unless: End | undefined
  /** Why approval is requested before it runs again. */
  readonly why: string | undefined
  readonly answers: Answers
}

/** It does not run again. It ends at its place in the wave, as it is decided or as its tool confirms. */
export interface Ended {
  readonly _tag: "Ended"
  /** Absent: it ended without a start. */
  readonly counted: Counted | undefined
  /** Its end, whatever happens to it now. */
  readonly unless: End | undefined
  /** The class that it had in its wave when it was submitted before. */
  readonly class: ToolClass | "ShortCircuit"
  /** Epoch milliseconds at which it ended, or at which it started if its end is unknown. */
  readonly endedAt: number
  /** Routes of its output, if recorded. */
  readonly routes?: Success["routes"] | undefined
  /** Its end is not on record, but its tool confirms that it ran and returns its result. */
  readonly happened?: { readonly result: unknown; readonly attempt: number } | undefined
}

/** Whether the store has counted a start: `spent`, or it may have to count it again. */
export type Counted = "spent" | "unknown"

/** What approvers and a reviewer were asked about a call. */
export interface Answers {
  /** The request that was pending; a later one is a new one. */
  open?:
    | Pick<ApprovalRequest, "id" | "requestedAt" | "expiresAt" | "approvals"> & {
      /** What approvers were shown of it, as recorded. */
      readonly shown: string
    }
    | undefined
  /** Earlier answers that still hold. */
  readonly given?: ReadonlyArray<Answered> | undefined
  /** The last verdict of a reviewer. */
  readonly reviewed?: Reviewed | undefined
}

/** An answer on record. It holds for the same request about the same call. */
export interface Answered {
  /** What approvers were shown, as recorded. */
  readonly shown: string
  /** The request was about running the call again. */
  readonly again: boolean
  readonly resolution: Resolution
}

/** A verdict of a reviewer on record. It holds for the same request. */
export interface Reviewed {
  /** What approvers would have been shown, as recorded. */
  readonly shown: string
  readonly verdict: typeof ReviewVerdict.Type
  readonly reason: string
  readonly model: string
  /** Why there was no verdict. */
  readonly problem?: typeof ReviewProblem.Type
}
