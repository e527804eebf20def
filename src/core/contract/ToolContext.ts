/**
 * What a running tool may ask: report progress, learn its deadline, write under the fence that keeps late writes out.
 *
 * A `Context.Reference` with a working default, so the same handler runs without the executor: then nothing is
 * reported, there is no deadline, and `commit` just runs its effect.
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
 * What a running tool may ask.
 *
 * **Details**
 *
 * Everything reported after the call has its outcome is dropped and counted. A handler never waits for a reader.
 */
export interface Service {
  /** Id of the call, as the model gave it; `undefined` outside an executor. */
  readonly callId: string | undefined
  /** Name of the tool; `undefined` outside an executor. */
  readonly tool: string | undefined
  /** Whose call it is; `undefined` outside an executor. */
  readonly principal: string | undefined
  /** Names of the sub-agents from the root down to the one that calls; empty: the root. */
  readonly agentPath: ReadonlyArray<string>
  /** Id of the batch; `undefined` outside an executor. */
  readonly batch: string | undefined
  /** Id of the process; `undefined` outside an executor. */
  readonly process: string | undefined
  /**
   * A text that no other call has, of this or another principal, whatever ids their models gave; the same for each
   * attempt of the call. For services that do a thing once per key. `undefined` outside an executor.
   */
  readonly idempotencyKey: string | undefined
  /**
   * Metadata of the operation, as the host gave it to the process. A process that a handler begins, itself or by a
   * sub-agent, has that of the call, and its own over it.
   */
  readonly meta: Readonly<Record<string, unknown>>
  /** Epoch milliseconds at which the call is stopped; `Infinity` outside an executor. */
  readonly deadline: number
  /** Aborted when the call is stopped. */
  readonly signal: AbortSignal
  /** Reports how far the work is; resets the idle limit. */
  readonly progress: (report: {
    readonly progress?: number | undefined
    readonly total?: number | undefined
    readonly message?: string | undefined
  }) => Effect.Effect<void>
  /** Says what the tool is doing: in a word or two, and in a message beside them. */
  readonly status: (status: string, message?: string) => Effect.Effect<void>
  /** Writes a log line. */
  readonly log: (
    level: "debug" | "info" | "warn" | "error",
    message: string,
    data?: unknown
  ) => Effect.Effect<void>
  /** Offers choices to the user interface. */
  readonly options: (options: unknown) => Effect.Effect<void>
  /** Shows a part of the output before the end. */
  readonly partial: (value: unknown) => Effect.Effect<void>
  /**
   * Emits an event of the tool's own type: `a-z 0-9 _`, at most 64 characters, and none of the names that the
   * executor's own events have on the wire. Any other type throws a `RangeError` where `emit` is called.
   */
  readonly emit: (type: string, data: unknown) => Effect.Effect<void>
  /**
   * Runs a write that is not to be cut in half. It cannot be interrupted from outside and has its own bound
   * (`commitTimeout` in `ExecutorSettings`); a timeout or cancellation that comes while it runs waits for it, and the
   * outcome counts it. Once the call has its outcome the write does not run: the caller is interrupted instead, and the
   * attempt is counted.
   */
  readonly commit: <A, E, R>(write: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /**
   * Has a write confirmed from inside the handler, where only that knows what it will write: the policy decides about
   * the files it names, and asks a person where it says so, with the diff. While they think the call gives up its
   * permits (it keeps its resource keys) and its limits stand still. A no ends the call with `WriteDenied`; there is
   * nothing to catch, and later commits are refused. The next commit looks at the files once more and fails the call if
   * they are not as they were shown. Inside a commit it is a defect: the write has begun. Outside an executor it
   * confirms nothing.
   */
  readonly confirmWrite: <E, R>(preview: Effect.Effect<ReadonlyArray<FileChange>, E, R>) => Effect.Effect<void, E, R>
  /**
   * What the policy says now of one thing that the call touches: what a call of the tool about that alone would meet. A
   * tool that touches many things asks about each and leaves out what is not `"allow"`; nobody is asked, and a standing
   * permission that covers it counts.
   *
   * A person who allowed the call allowed what is in it: with `within`, one of the call's own targets, what is only
   * asked about for the same reasons as that is allowed, too. It is read from the text `target` itself where `within`
   * is left out. What is denied is denied within as well, and so is everything once the call has its outcome. Outside
   * an executor everything is allowed.
   */
  readonly permits: (
    target: string | Target,
    options?: { readonly within?: string | undefined }
  ) => Effect.Effect<"allow" | "ask" | "deny">
  /** What a person allowed that let the call through: a standing permission, or this call alone. */
  readonly grant: Given | undefined
  /** Keeps a payload in the artifact store; `None` without a store, with a failing one, or after the outcome. */
  readonly artifact: (payload: string) => Effect.Effect<Option.Option<ArtifactRef>>
  /**
   * Reads a part of an artifact of the request, in characters; fails with `ArtifactError` if it has no artifact with
   * that id, or there is no store.
   */
  readonly readArtifact: (
    id: string,
    range: { readonly offset: number; readonly length: number }
  ) => Effect.Effect<{ readonly text: string; readonly chars: number }, ArtifactError>
  /**
   * The executor that runs the call, as a handle that acts for the call and ends with it: after that nothing made with
   * it does anything. `undefined` outside an executor.
   */
  readonly executor: Executor | undefined
}

/** What the running tool may ask; outside an executor a default that reports nothing and refuses nothing. */
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
      permits: () => Effect.succeed("allow"),
      grant: undefined,
      artifact: () => Effect.succeedNone,
      readArtifact: (id) => new ArtifactError({ reason: "NotFound", id }),
      executor: undefined
    })
  }
)
