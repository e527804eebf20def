/** What an operation has in common with those of its sub-agents: one stream of events, one purse, one way to ask. */
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Context from "effect/Context"
import type { ToolEvent } from "../core/facts/ToolEvent.ts"
import type { ApprovalRequest } from "../core/gates/Approvals.ts"
import type { AgentEvent } from "./AgentEvent.ts"
import type { ModelId } from "./Conversation.ts"
import type { Spending } from "./Spending.ts"

/** A model and its name in histories. */
export interface Model extends ModelId {
  readonly service: LanguageModel.LanguageModel
}

/** The operation that a call belongs to, as its sub-agents know it. */
export interface OperationTree {
  /** Tells whoever reads the events of the root, and gives whether there was room for it. */
  readonly report: (event: AgentEvent) => boolean
  readonly spending: Spending
  readonly model: Model
  /** The tools that it has; absent: all. */
  readonly tools: ReadonlyArray<string> | undefined
  /** When people are asked about the calls of a turn. */
  readonly approval: "perCall" | "upfront" | undefined
  /** Events of calls that one of them has told: those above hear them, too. */
  readonly reported: WeakSet<ToolEvent>
  /** What people are being asked, by the id of the request. */
  readonly requests: ReadonlyMap<string, ApprovalRequest>
  /** Ends the root, and everything that works for it: the host stops. */
  readonly halt: (reason: string) => void
}

/** The operation whose call runs this; `undefined` outside of one. */
export const Current = Context.Reference<OperationTree | undefined>("effect-tool-executor/agent/Current", {
  defaultValue: () => undefined
})
