/** The interface of an executor, without its engine. Handlers need only this; `ToolExecutor` is the service. */
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type { Approvals } from "../gates/Approvals.ts"
import type * as Policy from "../gates/Policy.ts"
import type * as TurnBudget from "../gates/TurnBudget.ts"
import type { TurnState } from "../gates/TurnState.ts"
import type { StateStoreError } from "../store/StateStore.ts"
import type { ConfigurationError } from "../vocabulary/ConfigurationError.ts"
import type { Grant } from "../vocabulary/Grant.ts"
import type { RegisteredTool } from "../vocabulary/ToolHandlers.ts"
import type { ToolProcess } from "./ToolProcess.ts"

export interface ProcessOptions {
  /**
   * Name of the process in its batch, such as a turn number. With a journal, its calls can be resumed under it after a
   * crash (`ToolProcess.resume`). Default: a unique id.
   */
  readonly id?: string | undefined
  /** The turn's budget. Default: the executor's (`TurnBudget`). */
  readonly turn?: TurnBudget.Options | undefined
  /** Metadata of the operation, for handlers (`ToolContext.meta`). */
  readonly meta?: Readonly<Record<string, unknown>> | undefined
  /**
   * The conversation that the process belongs to, for rules with the scope `"session"`. Processes of the same name share
   * it, whatever their batches, also after a restart. Default: all that the principal does is one conversation.
   * Processes that a handler begins, and those of sub-agents, belong to the conversation of the call.
   */
  readonly session?: string | undefined
  /**
   * What the user says: the messages that this process answers. `Provenance` and reviewers read it. Texts that the user
   * pasted are `{ text, from: "foreign" }`. Default: nothing, so that no value of a call is the user's.
   */
  readonly heard?: ReadonlyArray<string | Heard> | undefined
  /** State of an earlier process to continue from (`ToolProcess.state`). */
  readonly state?: TurnState | undefined
  /** The tools its calls may name. Default: all. */
  readonly tools?: ReadonlyArray<string> | undefined
  /**
   * Tools that the model's provider executes, so that rules can choose them (`ToolProcess.toolChoice`). Default: none.
   */
  readonly provided?: ReadonlyArray<string> | undefined
  /**
   * Answers approval requests of its calls and its sub-agents instead of the executor's approvers. `"nobody"`: calls
   * that need approval are refused immediately.
   */
  readonly approvals?: Approvals["Service"] | "nobody" | undefined
  /** When approval is requested. Default: the executor's setting. */
  readonly approval?: "perCall" | "upfront" | undefined
}

/** A text of the user's conversation. */
export interface Heard {
  readonly text: string
  /** `foreign`: the user did not write it, such as a pasted mail. Default `user`. */
  readonly from?: "user" | "foreign" | undefined
}

/** Options of a process that also opens its batch. */
export interface NewProcessOptions extends ProcessOptions {
  /** Default: a new batch. */
  readonly batch?: string | undefined
}

/** Options of a sub-agent's executor. */
export interface ForkOptions {
  /** The agent's name, shown to approvers. Default `"agent"`. */
  readonly name?: string | undefined
  /** Restricts it further than its parent's policy. Default: the parent's. */
  readonly policy?: Policy.Policy | undefined
  /** The turn budget of its processes; never longer than the call it works for. */
  readonly turn?: TurnBudget.Options | undefined
}

/** Options that need no validation. */
export type Checked<Options extends ProcessOptions> =
  & Options
  & { readonly [K in "turn" | "session" | "state" | "tools" | "provided" | "approval"]?: undefined }

/** One user request with all its processes, the unit of call limits. */
export interface Batch {
  readonly id: string
  /** Starts a process and the turn's clock. Fails with `ConfigurationError` if an option is invalid. */
  readonly process: {
    (options?: Checked<ProcessOptions>): Effect.Effect<ToolProcess>
    (options: ProcessOptions | undefined): Effect.Effect<ToolProcess, ConfigurationError>
  }
}

/** A handler that still runs after its call has an outcome. */
export interface Orphan {
  readonly callId: string
  readonly tool: string
  /** Epoch milliseconds of the outcome. */
  readonly since: number
}

/** Current orphans and totals. */
export interface Orphans {
  readonly running: ReadonlyArray<Orphan>
  /** How many there have been. */
  readonly total: number
  /** Commits and reports blocked because they came after the outcome. */
  readonly lateWritesBlocked: number
}

export interface BatchOptions {
  /**
   * Keeps the counts after the scope closes, for a later batch of the same id, also after a restart with a durable
   * `StateStore`. They are removed by `completeBatch`, or by the store some time after the last use. Default `false`.
   */
  readonly keep?: boolean | undefined
}

/** A fork would be nested too deeply. */
export class DepthExceeded extends Schema.TaggedError<DepthExceeded>("effect-tool-executor/DepthExceeded")(
  "DepthExceeded",
  { max: Schema.Finite, agentPath: Schema.Array(Schema.String) }
) {
  override get message(): string {
    return `Agents may be nested at most ${this.max} deep, and this one would be deeper: ${this.agentPath.join(" > ")}.`
  }
}

export interface Service {
  readonly principal: string
  /**
   * Starts a process and the turn's clock, in a new batch or the one with that id. The batch is open as long as the
   * scope; use `batch` for several processes. Fails with `ConfigurationError` if an option is invalid.
   */
  readonly process: {
    (options?: Checked<NewProcessOptions>): Effect.Effect<ToolProcess, never, Scope.Scope>
    (options: NewProcessOptions | undefined): Effect.Effect<ToolProcess, ConfigurationError, Scope.Scope>
  }
  /**
   * Opens a batch; the default id is unique. Closing its scope cancels what runs and, without `keep`, removes the
   * counts.
   */
  readonly batch: (id?: string, options?: BatchOptions) => Effect.Effect<Batch, never, Scope.Scope>
  /**
   * Cancels a batch's processes and removes its counts, even while its scope is open. Counts of a batch that is not
   * open here are removed from the store.
   */
  readonly completeBatch: (id: string) => Effect.Effect<void>
  /**
   * Removes what is kept of a conversation for rules with the scope `"session"`, when it is deleted. Without a name:
   * that of processes without one.
   */
  readonly forgetSession: (session?: string) => Effect.Effect<void>
  /**
   * Whether the agent continues after the tool only if the model requests it: with `Heartbeats`, and without a
   * `ContinueLoop` rule.
   */
  readonly requiresHeartbeat: (tool: string) => boolean
  /**
   * The tools this agent may see. Their JSON Schemas reflect the rules: `AllowedOperations` limits values, and
   * prefilled arguments are hidden.
   */
  readonly tools: Effect.Effect<ReadonlyArray<RegisteredTool>>
  /** Emits when the visible tools change because tools, policy or rules were replaced. */
  readonly toolChanges: Stream.Stream<void>
  /** The grants of the principal. */
  readonly grants: Effect.Effect<ReadonlyArray<Grant>, StateStoreError>
  /**
   * Revokes grants: one by id, or all of a tool. Returns how many. Calls they allowed that have not
   * started are refused.
   */
  readonly revoke: (which: { readonly id?: string; readonly tool?: string }) => Effect.Effect<
    number,
    StateStoreError
  >
  /**
   * Creates an executor for a sub-agent; closing the scope ends it.
   *
   * Shared: tools, rules, the pools of reads and serial writers, resource keys, approvers and answers, cooldowns, call
   * counts, artifacts and checkpoints. Separate: the concurrent pool, tool concurrency limits, dedupe and process
   * state. A fork made by a handler joins the batch of the handler's call and ends with that call.
   *
   * Fails with `DepthExceeded` below eight levels, and with `ConfigurationError` for an invalid policy.
   */
  readonly fork: (options?: ForkOptions) => Effect.Effect<
    Service,
    DepthExceeded | ConfigurationError,
    Scope.Scope
  >
  /** Creates a fork that runs only ReadOnly, closed-world tools. */
  readonly readOnly: (options?: Omit<ForkOptions, "policy">) => Effect.Effect<
    Service,
    DepthExceeded | ConfigurationError,
    Scope.Scope
  >
  /** Removes expired entries; returns how many. */
  readonly pruneExpired: Effect.Effect<number, StateStoreError>
  /** Handlers that still run after their call has an outcome. */
  readonly orphans: Effect.Effect<Orphans>
}
