/** The states that marks are shown for. Pure. */
import type { Lane } from "../core/facts/Lanes.ts"
import type { Conversation } from "../server/api/ApiOperations.ts"

/** The state of a call, a run or a conversation. */
export type State =
  | "queued"
  | "approval"
  | "running"
  | "succeeded"
  | "failed"
  | "denied"
  | "timedOut"
  | "cancelled"
  | "suspended"
  | "unknown"

/** The state of a call as a mark. */
export const markOf = ({ isSuspended, outcome, spans }: Lane): State => {
  if (outcome !== undefined) return marks[outcome._tag]
  if (isSuspended) return "suspended"
  const open = spans.filter((it) => it.to === undefined)
  return open.some((it) => it.kind === "asking")
    ? "approval"
    : open.some((it) => it.kind === "running")
    ? "running"
    : "queued"
}

const marks: Readonly<Record<NonNullable<Lane["outcome"]>["_tag"], State>> = {
  Succeeded: "succeeded",
  Failed: "failed",
  TimedOut: "timedOut",
  Denied: "denied",
  Cancelled: "cancelled",
  Skipped: "cancelled",
  Unknown: "unknown"
}

/** The states of conversations and operations. */
export const ofOperation = {
  queued: "queued",
  running: "running",
  waiting: "approval",
  suspended: "suspended",
  ended: "succeeded"
} as const satisfies { readonly [S in Conversation["state"]]: State }
