/**
 * What an executor is to those that use it. There is no engine in here: code that runs in one, such as a handler, needs
 * no more than this to know it. `ToolExecutor` is the service.
 */
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

/** Options of a process. */
export interface ProcessOptions {
  /**
   * Name of the process in its batch, such as the number of a turn: with a journal its calls are known by it after a
   * crash (`ToolProcess.resume`). Default: one of its own that no other process has.
   */
  readonly id?: string | undefined
  /** The turn's budget, instead of what the executor has (`TurnBudget`). */
  readonly turn?: TurnBudget.Options | undefined
  /** Metadata of the operation, for handlers (`ToolContext.meta`). */
  readonly meta?: Readonly<Record<string, unknown>> | undefined
  /** What an earlier process remembered (`ToolProcess.state`): this one goes on from there. */
  readonly state?: TurnState | undefined
  /** The tools that its calls may name: the others are none of its own, whatever the executor has. Default: all. */
  readonly tools?: ReadonlyArray<string> | undefined
  /**
   * Names of tools that the provider of the model executes itself: the rules choose among them, too
   * (`ToolProcess.toolChoice`). Default: none.
   */
  readonly provided?: ReadonlyArray<string> | undefined
  /**
   * Who is asked about its calls, and about those of its sub-agents, in the place of the executor's people. `"nobody"`:
   * what would be asked is refused at once.
   */
  readonly approvals?: Approvals["Service"] | "nobody" | undefined
  /** When they are asked. Default: the executor's setting. */
  readonly approval?: "perCall" | "upfront" | undefined
}

/** Options of a process that is begun in one step with its batch. */
export interface NewProcessOptions extends ProcessOptions {
  /** The batch it belongs to. Default: one of its own. */
  readonly batch?: string | undefined
}

/** Options of a sub-agent's executor. */
export interface ForkOptions {
  /** Name of the agent, as people who are asked see it. Default `"agent"`. */
  readonly name?: string | undefined
  /** What it may do at most: only what its parent's policy allows, too. Default: the parent's. */
  readonly policy?: Policy.Policy | undefined
  /** The turn's budget of its processes; never longer than the call that it works for. */
  readonly turn?: TurnBudget.Options | undefined
}

/** Options without those that may be wrong. */
export type Checked<Options extends ProcessOptions> =
  & Options
  & { readonly [K in "turn" | "state" | "tools" | "provided" | "approval"]?: undefined }

/** One user request with all its processes. Call limits live here. */
export interface Batch {
  readonly id: string
  /** Begins one pass of an agent; the turn's clock starts. Fails where an option that it is given is wrong. */
  readonly process: {
    (options?: Checked<ProcessOptions>): Effect.Effect<ToolProcess>
    (options: ProcessOptions | undefined): Effect.Effect<ToolProcess, ConfigurationError>
  }
}

/** A handler that still runs although its call has its outcome. */
export interface Orphan {
  readonly callId: string
  readonly tool: string
  /** Epoch milliseconds at which its call had its outcome. */
  readonly since: number
}

/** The orphans of an executor: those of now, and what there was. */
export interface Orphans {
  readonly running: ReadonlyArray<Orphan>
  /** How many there ever were. */
  readonly total: number
  /** Commits and reports that came after the outcome and were kept out. */
  readonly lateWritesBlocked: number
}

/** Options of a batch. */
export interface BatchOptions {
  /**
   * Leaving the batch forgets nothing: whoever enters one of its id later, also after a restart over a `StateStore`
   * that outlives the process, goes on with its counts. `completeBatch` forgets them, and the store by itself, some
   * time after the batch was used last. Default `false`.
   */
  readonly keep?: boolean | undefined
}

/** Error of a fork that would be nested too deeply. */
export class DepthExceeded extends Schema.TaggedError<DepthExceeded>("effect-tool-executor/DepthExceeded")(
  "DepthExceeded",
  { max: Schema.Finite, agentPath: Schema.Array(Schema.String) }
) {
  override get message(): string {
    return `Agents may be nested at most ${this.max} deep, and this one would be deeper: ${this.agentPath.join(" > ")}.`
  }
}

/** What an executor does. */
export interface Service {
  /** Whose executor it is. */
  readonly principal: string
  /**
   * Begins one pass of an agent, in a batch of its own or in the one of that id; the turn's clock starts. The batch is
   * open as long as the scope is. For several processes in one batch there is `batch`. Fails where an option that it is
   * given is wrong.
   */
  readonly process: {
    (options?: Checked<NewProcessOptions>): Effect.Effect<ToolProcess, never, Scope.Scope>
    (options: NewProcessOptions | undefined): Effect.Effect<ToolProcess, ConfigurationError, Scope.Scope>
  }
  /**
   * Begins a batch. Closing its scope cancels what still runs and forgets the batch's counts, unless they are to be
   * kept. Without an id it gets one of its own.
   */
  readonly batch: (id?: string, options?: BatchOptions) => Effect.Effect<Batch, never, Scope.Scope>
  /**
   * Forgets a batch whose scope may stay open: its processes are cancelled, its counts are gone. One that is not open
   * here, but that a store still has the counts of, is forgotten there.
   */
  readonly completeBatch: (id: string) => Effect.Effect<void>
  /** Tells whether an agent goes on after the tool only if the model asks for it: with `Heartbeats`, without a `ContinueLoop` rule. */
  readonly requiresHeartbeat: (tool: string) => boolean
  /**
   * The tools that the policy lets this agent see, with the JSON Schemas of their parameters as the rules leave them:
   * `AllowedOperations` limits values, prefilled arguments are the host's and not shown.
   */
  readonly tools: Effect.Effect<ReadonlyArray<RegisteredTool>>
  /** Tells, from now on, when this agent may see other tools than before: they, its policy or the rules were replaced. */
  readonly toolChanges: Stream.Stream<void>
  /** The standing permissions of the principal. */
  readonly grants: Effect.Effect<ReadonlyArray<Grant>, StateStoreError>
  /**
   * Takes standing permissions back: one by its id, or all of a tool. Calls that they let through and that have not
   * started are refused. Gives how many.
   */
  readonly revoke: (which: { readonly id?: string; readonly tool?: string }) => Effect.Effect<
    number,
    StateStoreError
  >
  /**
   * Makes an executor for a sub-agent; closing the scope ends it.
   *
   * **Details**
   *
   * Shared with this one: tools, rules, reads and serial writers, resource keys, people and their answers, cooldowns,
   * call counts, artifacts, checkpoints. Its own: the concurrent pool and the caps of tools (who waits for it holds
   * nothing it needs), equal calls, the state of its processes. Made by a handler, it belongs to the batch of the
   * handler's call, its turns end with that call, and so does it.
   *
   * Fails with `DepthExceeded` below eight levels, with `ConfigurationError` for a policy that is not valid.
   */
  readonly fork: (options?: ForkOptions) => Effect.Effect<
    Service,
    DepthExceeded | ConfigurationError,
    Scope.Scope
  >
  /** A fork that lets only ReadOnly, closed-world tools run, and nothing else whatever it is asked. */
  readonly readOnly: (options?: Omit<ForkOptions, "policy">) => Effect.Effect<
    Service,
    DepthExceeded | ConfigurationError,
    Scope.Scope
  >
  /** Forgets what is past its window; gives the number of entries dropped. */
  readonly pruneExpired: Effect.Effect<number, StateStoreError>
  /** Handlers that still run although their call has its outcome. */
  readonly orphans: Effect.Effect<Orphans>
}
