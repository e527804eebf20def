/** Pending and recently resolved approval requests. */
import type * as Approvals from "../core/gates/Approvals.ts"
import type { ResolvedApproval } from "./ApiApprovals.ts"
import type * as Principals from "./Principals.ts"
import type { RedactedRequest } from "./RedactedRequest.ts"

/** A resolved approval request and its owner. */
export interface Ended {
  readonly owner: Principals.Owner
  readonly approval: ResolvedApproval
}

/** How many resolved requests are kept, and for how many milliseconds. */
export interface Bounds {
  readonly number: number
  readonly millis: number
}

export class ApprovalRecord {
  private readonly bounds: Bounds
  private readonly now: () => number
  // oldest first
  private readonly waiting = new Map<string, RedactedRequest>()
  private readonly over = new Map<string, Ended>()

  constructor(bounds: Bounds, now: () => number) {
    this.bounds = bounds
    this.now = now
  }

  /** Pending requests, oldest first. */
  get open(): ReadonlyMap<string, RedactedRequest> {
    return this.waiting
  }

  /** Resolved requests, oldest first, until the next `begin` or `forget`. */
  get ended(): ReadonlyMap<string, Ended> {
    return this.over
  }

  /** Adds a request, or reopens one that was suspended. */
  begin(shown: RedactedRequest): void {
    const { id } = shown.request
    this.forget()
    this.over.delete(id)
    this.waiting.set(id, shown)
  }

  end({ owner, summary }: RedactedRequest, how: Approvals.Ending): Ended {
    const { agentPath, callId, facts, id, requestedAt, targets, tool } = summary
    const about = { id, ...owner, callId, tool, agentPath, targets, facts, requestedAt }
    const ended = { owner, approval: { ...about, endedAt: this.now(), ...endOf(how) } }
    this.waiting.delete(id)
    this.over.set(id, ended)
    return ended
  }

  /** Evicts resolved requests that are too old or too many. */
  forget(): void {
    const oldest = this.now() - this.bounds.millis
    for (const [id, { approval }] of this.over) {
      if (this.over.size <= this.bounds.number && approval.endedAt > oldest) return
      this.over.delete(id)
    }
  }
}

/** The journal has the whole reason. */
const reasonChars = 1_000

type End = Pick<ResolvedApproval, "how" | "answer" | "by" | "reason" | "next">

const endOf = (how: Approvals.Ending): End => {
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
