/** Approval requests as clients see them, in events of agents and in the API of the server. */
import * as Schema from "effect/Schema"
import { Approvers } from "../vocabulary/Approvers.ts"

/**
 * Schema of a request without what may hold a secret: its arguments, targets, reason and preview. Events of the call
 * and the server's API have those redacted.
 */
export const ApprovalWire = Schema.Struct({
  id: Schema.String,
  /** Names of the sub-agents from the root down to the one that calls; empty: the root. */
  agentPath: Schema.Array(Schema.String),
  batch: Schema.String,
  process: Schema.String,
  callId: Schema.String,
  /** Place of the call in its wave. */
  index: Schema.Finite,
  tool: Schema.String,
  /** The tool's concurrency class. */
  class: Schema.String,
  /** The call is already running and waits with its write: its arguments can no longer be edited. */
  isRunning: Schema.Boolean,
  /** What an answer may be remembered for at most. */
  remember: Schema.Literals(["call", "resources", "tool"]),
  /** Approval is requested for each such call, whatever grants exist. */
  isAlways: Schema.optionalKey(Schema.Boolean),
  /** Who approves: all of these must be satisfied. */
  approvers: Schema.optionalKey(Schema.Array(Approvers)),
  /** Epoch milliseconds at which others may answer as well. */
  escalatesAt: Schema.optionalKey(Schema.Finite),
  /** Epoch milliseconds. */
  requestedAt: Schema.Finite,
  /** Epoch milliseconds at which it expires. */
  expiresAt: Schema.Union([Schema.Finite, Schema.Literal("unlimited")])
})
