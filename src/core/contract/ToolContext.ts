/**
 * What a running tool can use: progress reports, its deadline, and writes that cannot happen after its outcome.
 *
 * A `Context.Reference` with a default, so handlers also run without an executor: reports are ignored, there is no
 * deadline, and `commit` just runs its effect.
 *
 * **Example** (Reporting and writing)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { ToolContext } from "effect-tool-executor"
 *
 * export const save = (write: Effect.Effect<void>) =>
 *   Effect.gen(function*() {
 *     const context = yield* ToolContext.ToolContext
 *     yield* context.progress({ progress: 1, total: 2, message: "prepared" })
 *     yield* context.commit(write)
 *   })
 * ```
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type { Target } from "../gates/PermissionPattern.ts"
import { ArtifactError } from "../output/ArtifactStore.ts"
import type { FileChange } from "../vocabulary/FileChange.ts"
import type { Given } from "../vocabulary/Grant.ts"
import type { ArtifactRef } from "../vocabulary/ToolOutcome.ts"
import type { Service as Executor } from "./Executor.ts"

/**
 * What a running tool can use. Reports after the outcome are dropped and counted. A handler never waits for a reader.
 */
export interface Service {
  /** The call's id, as the model gave it; `undefined` outside an executor. */
  readonly callId: string | undefined
  /** `undefined` outside an executor. */
  readonly tool: string | undefined
  /** `undefined` outside an executor. */
  readonly principal: string | undefined
  /** Names of the sub-agents from the root to the caller; empty for the root. */
  readonly agentPath: ReadonlyArray<string>
  /** `undefined` outside an executor. */
  readonly batch: string | undefined
  /** `undefined` outside an executor. */
  readonly process: string | undefined
  /**
   * A key unique to the call and the same for all of its attempts, for services that accept one. `undefined` outside an
   * executor.
   */
  readonly idempotencyKey: string | undefined
  /**
   * Metadata of the process. A process started by a handler, also through a sub-agent, inherits the call's metadata and
   * may override it.
   */
  readonly meta: Readonly<Record<string, unknown>>
  /** Epoch milliseconds at which the call is stopped; `Infinity` outside an executor. */
  readonly deadline: number
  /** Aborted when the call is stopped. */
  readonly signal: AbortSignal
  /** Reports progress; restarts the idle timeout. */
  readonly progress: (report: {
    readonly progress?: number | undefined
    readonly total?: number | undefined
    readonly message?: string | undefined
  }) => Effect.Effect<void>
  /** Reports what the tool is doing: a short status and a message. */
  readonly status: (status: string, message?: string) => Effect.Effect<void>
  /** Writes a log line. */
  readonly log: (
    level: "debug" | "info" | "warn" | "error",
    message: string,
    data?: unknown
  ) => Effect.Effect<void>
  /** Offers choices to the user interface. */
  readonly options: (options: unknown) => Effect.Effect<void>
  /** Shows part of the output early. */
  readonly partial: (value: unknown) => Effect.Effect<void>
  /**
   * Emits a custom event. The type is 1 to 64 characters of `a-z 0-9 _` and not the wire name of an executor event;
   * otherwise it throws a `RangeError`.
   */
  readonly emit: (type: string, data: unknown) => Effect.Effect<void>
  /**
   * Runs a write that must not be interrupted.
   *
   * Timeouts and cancellations wait for it, up to `commitTimeout` of `ExecutorSettings`, and the outcome counts it.
   * After the outcome the write does not run: the handler is interrupted, and the attempt is counted.
   */
  readonly commit: <A, E, R>(write: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /**
   * Requests confirmation of a write known only to the running handler: the policy decides on the files and, if needed,
   * an approver sees the diff.
   *
   * While approval is pending, the call releases its permits but keeps its resource keys, and its time limits pause.
   * Denial ends the call with `WriteDenied`, which cannot be caught. The next commit fails the call if the files differ
   * from those shown. Calling it inside a commit is a defect. Outside an executor it does nothing.
   */
  readonly confirmWrite: <E, R>(preview: Effect.Effect<ReadonlyArray<FileChange>, E, R>) => Effect.Effect<void, E, R>
  /**
   * Requests permission for one more target that only the running handler knows, such as a host that a command wants to
   * reach: the policy decides, then a lasting approval, then an approver. Returns whether it is given.
   *
   * While approval is pending, the call releases its permits but keeps its resource keys, and its time limits pause.
   * One request at a time is pending. Calling it inside a commit is a defect. Outside an executor it is false.
   */
  readonly confirmTarget: (target: Target) => Effect.Effect<boolean>
  /**
   * Returns the policy's current decision for one target of the call, as if the tool were called on it alone. Tools
   * with many targets use it to leave out those that are not `"allow"`. It never requests approval; standing
   * permissions count.
   *
   * Approving a call approves what its targets contain: with `within`, one of the call's targets, a target that needs
   * approval only for the same reasons is allowed. Default `within`: derived from the text of `target`. Denied targets
   * stay denied, and everything is denied after the outcome. Outside an executor everything is allowed.
   */
  readonly permits: (
    target: string | Target,
    options?: { readonly within?: string | undefined }
  ) => Effect.Effect<"allow" | "ask" | "deny">
  /** Tells whether the policy denies a target to every tool. Outside an executor it denies none. */
  readonly hides: (target: string) => boolean
  /**
   * The call was interrupted, and its handler runs again to continue it. Only for tools with
   * `ToolAnnotations.Continues`.
   */
  readonly isResumed: boolean
  /**
   * Ends the handler and leaves its call open, without an outcome, until it is submitted again. For tools with
   * `ToolAnnotations.Continues`; a call of another tool is `Cancelled`. Outside an executor it only interrupts.
   */
  readonly suspend: (reason: string) => Effect.Effect<never>
  /**
   * Lets the executor look whether the handler waits for nothing but approvals of calls that it makes: a host may then
   * suspend the call. For tools with `ToolAnnotations.Continues`.
   */
  readonly waits: (isWaiting: () => boolean) => Effect.Effect<void>
  /** The approval that allowed the call: a grant, or one for this call only. */
  readonly grant: Given | undefined
  /** What approvers said besides yes: the data of the tool's `Form`, and a note. `undefined`: nothing, or nobody did. */
  readonly answer: Answer | undefined
  /** Stores a payload as an artifact; `None` without a store, if it fails, or after the outcome. */
  readonly artifact: (payload: string) => Effect.Effect<Option.Option<ArtifactRef>>
  /**
   * Reads part of an artifact, in characters; fails with `ArtifactError` if the request has no such artifact, or
   * without a store.
   */
  readonly readArtifact: (
    id: string,
    range: { readonly offset: number; readonly length: number }
  ) => Effect.Effect<{ readonly text: string; readonly chars: number }, ArtifactError>
  /**
   * The executor of the call. Everything made with it acts for the call and ends with it. `undefined` outside an
   * executor.
   */
  readonly executor: Executor | undefined
}

/** What approvers said besides yes. */
export interface Answer {
  /** What they filled in: it fits the tool's `Form`. */
  readonly data: unknown
  /** What the model will read. */
  readonly note: string | undefined
  /** Names of the approvers, if known. */
  readonly people: ReadonlyArray<string>
}

/** What a running tool can use. Outside an executor the default reports and refuses nothing. */
export const ToolContext: Context.Reference<Service> = Context.Reference<Service>(
  "effect-tool-executor/ToolContext",
  {
    defaultValue: () => ({
      callId: undefined,
      tool: undefined,
      principal: undefined,
      agentPath: [],
      batch: undefined,
      process: undefined,
      idempotencyKey: undefined,
      meta: {},
      deadline: Infinity,
      signal: new AbortController().signal,
      progress: () => Effect.void,
      status: () => Effect.void,
      log: () => Effect.void,
      options: () => Effect.void,
      partial: () => Effect.void,
      emit: () => Effect.void,
      commit: (write) => write,
      confirmWrite: () => Effect.void,
      confirmTarget: () => Effect.succeed(false),
      permits: () => Effect.succeed("allow"),
      hides: () => false,
      isResumed: false,
      waits: () => Effect.void,
      suspend: () => Effect.interrupt,
      grant: undefined,
      answer: undefined,
      artifact: () => Effect.succeedNone,
      readArtifact: (id) => new ArtifactError({ reason: "NotFound", id }),
      executor: undefined
    })
  }
)
