/**
 * An operation of an agent as its host sees it: what it is given, and how it is steered. Types only; `AgentExecutor`
 * has them again.
 */
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

/**
 * What people are asked in an operation.
 *
 * - `Automatic`: nobody is asked; what would need an answer is refused at once, at every
 *   depth.
 * - `Interactive`: one `RequestToolApprovals` for all calls of a turn that need an answer;
 *   nothing of the turn runs before all are answered. Who stops reading has said no.
 */
export type Mode = "Automatic" | "Interactive"

/** Options of an operation. */
export interface Options<ModelError = never, ModelServices = never> {
  /**
   * What is asked: a text, or a whole conversation, such as the `history` of an operation before with the next question
   * behind it. Calls that it has open are resumed, if the executor has the journal of the one that began them; else the
   * model is told that nobody knows what became of them.
   */
  readonly prompt: Prompt.RawInput
  /** What the model is told of its part, before everything else. */
  readonly system?: string | undefined
  /** The tools that it has. Default: all that the executor shows. Those that a provider executes itself are passed on. */
  readonly toolkit?: { readonly tools: Record<string, Tool.Any> } | undefined
  /** Which model is asked. Default: the one of the layer. */
  readonly model?: Layer.Layer<LanguageModel.LanguageModel, ModelError, ModelServices> | undefined
  /** Default `Automatic`. */
  readonly mode?: Mode | undefined
  readonly limits?: AgentLimits | undefined
  /** Metadata of the operation, for handlers (`ToolContext.meta`) and those of its sub-agents. */
  readonly meta?: Readonly<Record<string, unknown>> | undefined
  /** The batch that its calls count in. Default: one of its own. */
  readonly batch?: string | undefined
  /** Begins another process, with its order of rules, each time that the model is called again. Default: one for the operation. */
  readonly perHeartbeat?: boolean | undefined
  /** Arguments of the tools that rules demand first, for when the host has to call them itself. */
  readonly start?: HostArguments | undefined
  /** The same of those that rules demand before the end. */
  readonly exit?: HostArguments | undefined
  /**
   * What the model may call next: as the rules have it (`rules`), or whatever there is (`auto`), for models that cannot
   * be forced, such as some while they reason. What the rules forbid is refused either way. Default `rules`.
   */
  readonly toolChoice?: "rules" | "auto" | undefined
  /** How often a request that failed in a way worth another try is repeated, before any of its answer has come. Default 2. */
  readonly retries?: number | undefined
  /** The name under which its history is kept (`Transcripts`), and what was kept under it before goes first. */
  readonly session?: string | undefined
}

/** An operation under way. */
export interface Agent {
  readonly id: string
  /**
   * What happens, from the beginning on, for one reader; ends after `OperationEnd`. A reader that goes away before has
   * said no to whatever is asked, now and later, unless the host has `Approvals` of its own.
   */
  readonly events: Stream.Stream<AgentEvent>
  /** How it ended; waits for it. */
  readonly result: Effect.Effect<OperationEnd>
  /**
   * Says something while it works: the model hears it before its next turn. With `settle`, what people are being asked
   * is answered with no, so that it comes at once. False: it is over, and nothing was said.
   */
  readonly say: (text: string, options?: { readonly settle?: boolean | undefined }) => Effect.Effect<boolean>
  /** Ends it: what is under way is cancelled, no further call starts. */
  readonly cancel: (reason: string) => Effect.Effect<void>
  /** Answers a request, once: see `Approvals`. */
  readonly answer: (id: string, answer: Answer, of?: Shown) => Effect.Effect<void, ApprovalError>
  /** What people are being asked, its sub-agents' questions included; oldest first. */
  readonly pending: Effect.Effect<ReadonlyArray<ApprovalRequest>>
  /** The conversation so far. */
  readonly history: Effect.Effect<Prompt.Prompt>
}
