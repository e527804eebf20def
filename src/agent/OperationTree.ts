/** What an operation shares with its sub-agents: events, limits and approval requests. */
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Context from "effect/Context"
import type { ToolEvent } from "../core/facts/ToolEvent.ts"
import type { ApprovalRequest } from "../core/gates/Approvals.ts"
import type { AgentEvent } from "./AgentEvent.ts"
import type { BackgroundCalls } from "./BackgroundCalls.ts"
import type { Checked } from "./CompactionOptions.ts"
import type { ModelId } from "./Conversation.ts"
import type { Spending } from "./Spending.ts"
import type { Branch } from "./TranscriptTree.ts"

export interface Model extends ModelId {
  readonly service: LanguageModel.LanguageModel
}

/** How a conversation is compacted, and by which model; absent: the operation's. */
export interface Compaction extends Checked {
  readonly model: Model | undefined
}

/** The operation a call belongs to, as its sub-agents see it. */
export interface OperationTree {
  /** Reports to the reader of the root; returns whether there was room. */
  readonly report: (event: AgentEvent) => boolean
  readonly spending: Spending
  readonly model: Model
  readonly compaction: Compaction | undefined
  /** The tools it has; absent: all. */
  readonly tools: ReadonlyArray<string> | undefined
  /** When approval is requested for the calls of a turn. */
  readonly approval: "perCall" | "upfront" | undefined
  /** Call events that an operation in the tree has already reported. */
  readonly reported: WeakSet<ToolEvent>
  /** Pending approval requests by id. */
  readonly requests: ReadonlyMap<string, ApprovalRequest>
  /** Messages that deny approval requests until they are taken, by id. */
  readonly settling: Set<string>
  /** Its calls that run in the background. */
  readonly background: BackgroundCalls
  /** The conversations of its sub-agents. */
  readonly branch: Branch
}

/** The operation that makes the current call; `undefined` outside an operation. */
export const Current = Context.Reference<OperationTree | undefined>("effect-tool-executor/agent/Current", {
  defaultValue: () => undefined
})
