/** How resolved approval requests are shown. */
import type * as Approvals from "../../core/gates/Approvals.ts"
import * as WhoApproves from "../../core/vocabulary/WhoApproves.ts"
import type { AnsweredApproval, ApprovalSummary, ResolvedApproval } from "../api/ApiApprovals.ts"
import type { Kept } from "./RedactedRequest.ts"

/** How a request ended, and when (epoch milliseconds). */
export interface End {
  readonly at: number
  readonly ending: Approvals.Ending
}

/** Shows a request that ended. */
export const of = (summary: ApprovalSummary, { at, ending }: End): ResolvedApproval => ({
  ...aboutOf(summary),
  endedAt: at,
  ...endOf(ending)
})

/** Shows a request that a person has approved, and that others have to approve, too. */
export const waiting = ({ principal, summary }: Kept): AnsweredApproval => {
  const { approvals = [], approvers = [], requestedAt } = summary
  const last = approvals.at(-1)
  return {
    ...aboutOf(summary),
    endedAt: last?.at ?? requestedAt,
    how: "waiting",
    ...last === undefined ? {} : { answer: last.answer, by: last.person },
    next: WhoApproves.sentence(approvers, approvals, { principal, requestedAt })
  }
}

const aboutOf = (
  { agentPath, callId, facts, id, requestedAt, session, targets, tool, user }: ApprovalSummary
) => ({ id, user, session, callId, tool, agentPath, targets, facts, requestedAt })

/** Says in a sentence how a request ended. */
export const sentence = (
  { by, how }: { readonly how: ResolvedApproval["how"]; readonly by?: string | undefined }
): string => `It is resolved: ${saidOf({ how, by })}.`

/** The journal has the whole reason. */
const reasonChars = 1_000

type Shown = Pick<ResolvedApproval, "how" | "answer" | "by" | "reason" | "next">

const endOf = (how: Approvals.Ending): Shown => {
  const reason = "reason" in how && how.reason !== undefined ? { reason: how.reason.slice(0, reasonChars) } : {}
  const by = "person" in how && how.person !== undefined ? { by: how.person } : {}
  switch (how._tag) {
    case "Approved": {
      const answer = how.grant?.answer ?? "ApproveOnce"
      return how.isOwn
        ? { how: "approved", answer, ...by, next: approved(how) }
        : { how: "covered", answer, ...by, next: covered }
    }
    case "Denied":
      return how.by === "user"
        ? { how: "denied", answer: "Deny", ...by, ...reason, next: denied }
        : how.by === "timeout"
        ? { how: "expired", next: expired }
        : { how: "closed", ...reason, next: closed }
    case "Suspended":
      return { how: "suspended", ...reason, next: suspended }
    case "Withdrawn":
      return { how: "withdrawn", next: withdrawn }
  }
}

const approved = ({ edited, grant }: Extract<Approvals.Resolution, { readonly _tag: "Approved" }>): string =>
  edited !== undefined
    ? "The call continues with the edited arguments, if no other check refuses them. Nothing to do."
    : grant === undefined
    ? "The call continues. Nothing to do."
    : "The call continues, and calls like it do not need approval for now. The permission can be revoked under Grants."

const covered = "The answer to another request also applied to this one. The permission can be revoked under Grants."

const denied = "The model knows that the call was denied. To undo a mistake, ask it to try again."

const expired =
  "Nobody answered in time, and the call was denied. Ask the model to try again, or allow the call in the policy."

const withdrawn = "Its call was cancelled or no longer waits. Nothing to do."

const suspended =
  "The server stopped before an answer came. The request returns under the same id when the server resumes."

const closed = "The session ended, and the call was denied. Ask the model to try again."

const saidOf = ({ by, how }: { readonly how: ResolvedApproval["how"]; readonly by?: string | undefined }): string => {
  const who = by === undefined ? "" : ` by ${by}`
  switch (how) {
    case "approved":
      return `it was approved${who}`
    case "denied":
      return `it was denied${who}`
    case "covered":
      return `the answer to another request${by === undefined ? "" : ` by ${by}`} applied to it`
    case "expired":
      return "it expired"
    case "withdrawn":
      return "its call no longer waits for it"
    case "suspended":
      return "the server stopped, and it returns when the server resumes"
    case "closed":
      return "the session ended"
  }
}
