/** Options and handle of an agent's operation. Types only; `AgentExecutor` exports them. */
import type * as LanguageModel from "effect/ai/LanguageModel"
import type * as Prompt from "effect/ai/Prompt"
import type * as Tool from "effect/ai/Tool"
import type * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type * as Stream from "effect/Stream"
import type { HostArguments } from "../core/contract/ToolProcess.ts"
import type { Answer, ApprovalError, ApprovalRequest, Shown } from "../core/gates/Approvals.ts"
import type { AgentEvent, OperationEnd } from "./AgentEvent.ts"
import type { AgentLimits } from "./AgentLimits.ts"
import type { Compaction } from "./CompactionOptions.ts"

/**
 * How approval is requested in an operation.
 *
 * - `Automatic`: calls that need approval are refused immediately, at every depth.
 * - `Interactive`: one `RequestToolApprovals` per turn; no call of the turn runs before all are answered. If the reader
 * stops, they are denied.
 */
export type Mode = "Automatic" | "Interactive"

/** Options of an operation. */
export interface Options<ModelError = never, ModelServices = never> {
  /**
   * A text or a whole conversation, such as the `history` of an earlier operation plus a new message. Its open calls
   * are resumed from the executor's journal; without one the model reads that their outcome is unknown.
   */
  readonly prompt: Prompt.RawInput
  /** The system prompt, placed before everything else. */
  readonly system?: string | undefined
  /** The tools of the agent. Default: all the executor shows. Provider-executed tools are passed on. */
  readonly toolkit?: { readonly tools: Record<string, Tool.Any> } | undefined
  /** The model to call. Default: the one of the layer. */
  readonly model?: Layer.Layer<LanguageModel.LanguageModel, ModelError, ModelServices> | undefined
  /** Default `Automatic`. */
  readonly mode?: Mode | undefined
  readonly limits?: AgentLimits | undefined
  /** Metadata for handlers (`ToolContext.meta`), passed on to sub-agents. */
  readonly meta?: Readonly<Record<string, unknown>> | undefined
  /** The batch its calls count in. Default: a new one. */
  readonly batch?: string | undefined
  /** Starts another process, and so a new pass of the rules, for each model request. Default: one per operation. */
  readonly perHeartbeat?: boolean | undefined
  /** Arguments of the tools that rules require first, used when the host calls them. */
  readonly start?: HostArguments | undefined
  /** Arguments of the tools that rules require before the end, used when the host calls them. */
  readonly exit?: HostArguments | undefined
  /**
   * `rules` forces what the rules require next. `auto` forces nothing, for models that do not support it. What the
   * rules forbid is refused either way. Default `rules`.
   */
  readonly toolChoice?: "rules" | "auto" | undefined
  /** How often a failed model request is retried, as long as no part of an answer has arrived. Default 2. */
  readonly retries?: number | undefined
  /** Its name in events and approval requests, and of its batch. Default: a random one. */
  readonly id?: string | undefined
  /**
   * Summarises or drops older turns when the conversation nears the model's context window. The history keeps them. Also
   * holds for sub-agents that use the same model. Default: a conversation that is too long ends with `ModelFailed`.
   */
  readonly compaction?: Compaction<ModelError, ModelServices> | undefined
  /**
   * What becomes of agents in the background when the agent is done: the operation waits for them and continues with
   * their results, or cancels them. An operation that ends otherwise cancels them. Default `wait`.
   */
  readonly background?: "wait" | "cancel" | undefined
  /** Starts it cancelled, for this reason: open calls of the conversation are answered, and nothing starts. */
  readonly cancelled?: string | undefined
  /** The name its history is stored under (`Transcripts`). Earlier messages of that name are loaded first. */
  readonly session?: string | undefined
}

/** A running operation. */
export interface Agent {
  readonly id: string
  /**
   * All events from the start, for one reader; ends after `OperationEnd`. If the reader leaves early, all approval
   * requests are denied, unless the host provides `Approvals`.
   */
  readonly events: Stream.Stream<AgentEvent>
  /** Waits for the end. */
  readonly result: Effect.Effect<OperationEnd>
  /**
   * Sends a message; the model reads it before its next turn. `settle` denies approval requests until it is read, so that
   * the turn comes immediately. `id` names the message in events and in the history. Returns false, without sending, if the
   * operation has ended.
   */
  readonly say: (
    text: string,
    options?: { readonly settle?: boolean | undefined; readonly id?: string | undefined }
  ) => Effect.Effect<boolean>
  /** Ends the operation: running calls are cancelled, and no other call starts. */
  readonly cancel: (reason: string) => Effect.Effect<void>
  /** Answers an approval request, once; see `Approvals`. */
  readonly answer: (id: string, answer: Answer, of?: Shown) => Effect.Effect<void, ApprovalError>
  /** Pending approval requests, including those of sub-agents, oldest first. */
  readonly pending: Effect.Effect<ReadonlyArray<ApprovalRequest>>
  /** Whether nothing runs but calls that wait for approval, those of sub-agents included. */
  readonly isWaiting: () => boolean
  /** The conversation so far. */
  readonly history: Effect.Effect<Prompt.Prompt>
}
