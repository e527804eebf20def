/**
 * What a tool declares beyond `effect/ai`: annotations that the executor reads beside effect's own `Tool.Readonly`,
 * `Tool.Idempotent` and `Tool.OpenWorld`.
 *
 * A host overrides them by name (`ToolHandlers` option `tools`), so tools that one does not own can be tuned.
 *
 * **Example** (Annotating a tool)
 *
 * ```ts
 * import { Schema } from "effect"
 * import { Tool } from "effect/ai"
 * import { ToolAnnotations } from "effect-tool-executor"
 *
 * export const Fetch = Tool.make("fetch", { parameters: Schema.Struct({ url: Schema.String }) })
 *   .annotate(Tool.Readonly, true)
 *   .annotate(ToolAnnotations.Timeout, "10 seconds")
 *   .annotate(ToolAnnotations.MaxConcurrent, 4)
 * ```
 */
import type * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Schedule from "effect/Schedule"
import type { Declared } from "../../internal/secrets/index.ts"
import type { Own } from "../rules/ToolRule.ts"
import type { FileChange } from "./FileChange.ts"
import type { Circuit, ToolRate } from "./ToolLimits.ts"

/**
 * Whether a mutating tool may run beside others (`ConcurrentMut`) instead of alone (`SerialMut`). Default false:
 * unknown is never taken for safe.
 */
export const Promoted = Context.Reference<boolean>("effect-tool-executor/ToolAnnotations/Promoted", {
  defaultValue: () => false
})

/** Whether the tool itself makes tool calls, as a sub-agent does. Such a tool runs in the concurrent pool. */
export const Recursive = Context.Reference<boolean>("effect-tool-executor/ToolAnnotations/Recursive", {
  defaultValue: () => false
})

/** How many calls of the tool may run at once; 1 or more. Default: as many as the pool of its class has. */
export const MaxConcurrent = Context.Reference<number | undefined>(
  "effect-tool-executor/ToolAnnotations/MaxConcurrent",
  { defaultValue: () => undefined }
)

/**
 * The keys of what a mutating call touches, such as real paths, from its decoded parameters. Mutating calls that share
 * a key wait for each other, across waves and executors; ReadOnly calls take no keys. Where the keys cannot be had (a
 * defect), calls of the tool wait for each other.
 */
export const Resources = Context.Reference<
  ((params: unknown) => ReadonlyArray<string> | Effect.Effect<ReadonlyArray<string>>) | undefined
>("effect-tool-executor/ToolAnnotations/Resources", { defaultValue: () => undefined })

/**
 * What a call is about, from its decoded parameters, for the patterns of a policy: paths relative to the root, hosts, a
 * command line, each in its one canonical text. Default: the texts of `Resources`. Where it cannot be found out (a
 * defect), nothing allows the call without asking.
 *
 * A target may be `exact` (a shell line: no pattern with a target allows it) or `protected` (it guards other things:
 * nothing allows it without asking). With `spellings` it is denied and asked about under other names, too; with `runBy`
 * it is protected while the policy lets a call of that tool run without asking.
 */
export const Targets = Context.Reference<((params: unknown) => TargetsOf | Effect.Effect<TargetsOf>) | undefined>(
  "effect-tool-executor/ToolAnnotations/Targets",
  { defaultValue: () => undefined }
)

/** What a call is about. */
export type TargetsOf = ReadonlyArray<{
  readonly text: string
  readonly kind?: "exact" | "protected" | undefined
  readonly spellings?: ReadonlyArray<string> | undefined
  readonly runBy?: string | undefined
}>

/**
 * Names of tools that give what this one gives, too, in another way: a search shows what reading shows. What a policy's
 * `deny` and `ask` say of them holds for this tool as well; what `allow` says does not. Default: none.
 */
export const ActsAs = Context.Reference<ReadonlyArray<string>>("effect-tool-executor/ToolAnnotations/ActsAs", {
  defaultValue: () => []
})

/**
 * Names of tools that show what this one changes. Whether a write would change anything tells what is there: one that
 * would not asks nobody only where each of these could be called about the same without asking. Default: none.
 */
export const ShownBy = Context.Reference<ReadonlyArray<string>>("effect-tool-executor/ToolAnnotations/ShownBy", {
  defaultValue: () => []
})

/**
 * Whether the tool does nothing but change the files that its targets name: then the mode `acceptEdits` does not ask.
 * Default false.
 */
export const Edits = Context.Reference<boolean>("effect-tool-executor/ToolAnnotations/Edits", {
  defaultValue: () => false
})

/**
 * What the write of a call would do, from its decoded parameters: read-only, at most five seconds. A person who is
 * asked about the call sees the diff; the files must still be the same when the call commits, else it fails and nothing
 * is written; what is there before is kept where there are `Checkpoints`.
 *
 * Such a tool writes through `ToolContext.commit`. A tool that knows only while it runs what it will write calls
 * `ToolContext.confirmWrite` instead.
 */
export const Preview = Context.Reference<
  ((params: unknown) => Effect.Effect<ReadonlyArray<FileChange>, unknown>) | undefined
>("effect-tool-executor/ToolAnnotations/Preview", { defaultValue: () => undefined })

/**
 * Whether calls of the tool may change files without saying which, as a shell does: then they are noted where there are
 * `Checkpoints`, so that an undo can tell what it does not cover. Default: yes for a tool that may change things, where
 * another tool of the executor has a `Preview`; else there is nothing to undo.
 */
export const ChangesFiles = Context.Reference<boolean | undefined>(
  "effect-tool-executor/ToolAnnotations/ChangesFiles",
  { defaultValue: () => undefined }
)

/** How long a call may run. Default: the executor's `executionTimeout` (120 s). */
export const Timeout = Context.Reference<Duration.Input | undefined>("effect-tool-executor/ToolAnnotations/Timeout", {
  defaultValue: () => undefined
})

/** How long a call may go without reporting anything; every progress event starts it anew. Default: no such limit. */
export const IdleTimeout = Context.Reference<Duration.Input | undefined>(
  "effect-tool-executor/ToolAnnotations/IdleTimeout",
  { defaultValue: () => undefined }
)

/**
 * Whether a call that timed out may be tried again by the model. Default true; false blocks the tool for the rest of
 * the process.
 */
export const RetryOnTimeout = Context.Reference<boolean>("effect-tool-executor/ToolAnnotations/RetryOnTimeout", {
  defaultValue: () => true
})

/**
 * Schedule of automatic retries after a retryable failure, within the call's one limit. Only for tools that are
 * `Tool.Idempotent` or ReadOnly; for any other it is a build error.
 */
export const Retry = Context.Reference<Schedule.Schedule<unknown> | undefined>(
  "effect-tool-executor/ToolAnnotations/Retry",
  { defaultValue: () => undefined }
)

/** When the tool is not to be called for a while, because it keeps failing. Default: never. */
export const CircuitBreaker = Context.Reference<Circuit | undefined>(
  "effect-tool-executor/ToolAnnotations/CircuitBreaker",
  { defaultValue: () => undefined }
)

/** How many calls of the tool may start within a time. Default: no limit. */
export const RateLimit = Context.Reference<ToolRate | undefined>("effect-tool-executor/ToolAnnotations/RateLimit", {
  defaultValue: () => undefined
})

/** What a tool knows of a call that was started and has no end on record. */
export type Reconciled<A> =
  /** It happened, and this is what its handler would have given. */
  | { readonly _tag: "Happened"; readonly result: A }
  | { readonly _tag: "DidNotHappen" }
  | { readonly _tag: "CannotTell" }

/** By what a tool finds out whether a call has happened. */
export interface Earlier {
  /** What its handler had as `ToolContext.idempotencyKey`. */
  readonly idempotencyKey: string
  /** Epoch milliseconds at which its handler was started. */
  readonly startedAt: number
  readonly callId: string
}

/** Finds out whether a call has happened. */
export type Reconciler = (params: unknown, earlier: Earlier) => Effect.Effect<Reconciled<unknown>, unknown>

/**
 * Tells whether a call has happened that was started before a crash and has no end on record, from its decoded
 * parameters: asked when the call is resumed, at most ten seconds, and only of tools that may not simply be run again.
 * One that fails or takes longer cannot tell. Without it such a call is `Unknown`.
 */
export const Reconcile = Context.Reference<Reconciler | undefined>(
  "effect-tool-executor/ToolAnnotations/Reconcile",
  { defaultValue: () => undefined }
)

/**
 * Whether the handler hands `ToolContext.idempotencyKey` to the service that it calls, and that service does nothing a
 * second time under the same key. Such a call is run again after a crash. Default false.
 */
export const UsesIdempotencyKey = Context.Reference<boolean>(
  "effect-tool-executor/ToolAnnotations/UsesIdempotencyKey",
  { defaultValue: () => false }
)

/**
 * Whether the tool bounds its outputs itself: one that is still over the limit is cut, and never becomes an artifact.
 * Default false.
 */
export const Bounded = Context.Reference<boolean>("effect-tool-executor/ToolAnnotations/Bounded", {
  defaultValue: () => false
})

/**
 * Whether arguments that the tool does not declare are refused, at every depth: its JSON Schema says
 * `additionalProperties: false`. Default false: they are left out before the handler. A tool with a JSON Schema of its
 * own says it there.
 */
export const Closed = Context.Reference<boolean>("effect-tool-executor/ToolAnnotations/Closed", {
  defaultValue: () => false
})

/**
 * Whether the answer to an equal call changes by itself, as the state of a job or the time does. Such a tool has no
 * dedupe key: an equal call runs, however early it comes. Default: what a ReadOnly tool that is annotated
 * `Tool.OpenWorld` reads may change. The rules `AlwaysDedupe` and `NeverDedupe` override it.
 */
export const Volatile = Context.Reference<boolean | undefined>("effect-tool-executor/ToolAnnotations/Volatile", {
  defaultValue: () => undefined
})

/**
 * Rules that the tool brings itself: data without `tool`, which is the tool. They hold beside the host's
 * (`Rules.layer`) and are checked with them.
 */
export const Rules = Context.Reference<ReadonlyArray<Own>>("effect-tool-executor/ToolAnnotations/Rules", {
  defaultValue: () => []
})

/**
 * Whether a failure of the tool is worth another try by the model. Default: every failure is. A failure that is not
 * blocks the tool for the rest of the process.
 */
export const IsRetryable = Context.Reference<(failure: unknown) => boolean>(
  "effect-tool-executor/ToolAnnotations/IsRetryable",
  { defaultValue: () => () => true }
)

/**
 * What a model is told of an expected failure, from its encoded value. Default: a text as it is, anything else as JSON.
 */
export const FailureText = Context.Reference<((failure: unknown) => string) | undefined>(
  "effect-tool-executor/ToolAnnotations/FailureText",
  { defaultValue: () => undefined }
)

/**
 * What is secret in a tool's arguments and results, and stays out of the journal, spans, logs and events: paths such as
 * `card.number` and `keys[*].value`, or a function that gives a value without its secrets (of one for which that dies,
 * nothing is kept). The model and the caller of `execute` get the result as it is.
 *
 * Without this, too: what a schema says is `Schema.Redacted` is such a secret, and the journal, spans and logs take out
 * what has the usual name of one (`password`, `apiKey`, `Authorization`). A path that nothing of the tool can have is a
 * build error.
 */
export const Redact = Context.Reference<Redacts>("effect-tool-executor/ToolAnnotations/Redact", {
  defaultValue: () => []
})

/** Paths of secrets, or a function that gives a value without them. */
export type Redacts = Declared

/** The annotations that take the decoded parameters of their tool. */
export interface TypedBy<T extends Tool.Any> {
  /** See `Resources`. */
  readonly resources?:
    | ((params: Tool.Parameters<T>) => ReadonlyArray<string> | Effect.Effect<ReadonlyArray<string>>)
    | undefined
  /** See `Targets`. */
  readonly targets?: ((params: Tool.Parameters<T>) => TargetsOf | Effect.Effect<TargetsOf>) | undefined
  /** See `Preview`. */
  readonly preview?:
    | ((params: Tool.Parameters<T>) => Effect.Effect<ReadonlyArray<FileChange>, unknown>)
    | undefined
  /** See `Reconcile`. */
  readonly reconcile?:
    | ((params: Tool.Parameters<T>, earlier: Earlier) => Effect.Effect<Reconciled<Tool.Success<T>>, unknown>)
    | undefined
}

const annotate = <T extends Tool.Any>(tool: T, annotations: TypedBy<T>): T => {
  const keys = { resources: Resources, targets: Targets, preview: Preview, reconcile: Reconcile } as const
  return Object.entries(annotations).reduce<Tool.Any>(
    (annotated, [name, value]) => annotated.annotate(keys[name as keyof typeof keys], value),
    tool
  ) as T
}

export {
  /**
   * Annotates a tool with functions of its own parameters: a field that the tool does not have does not compile. Tools
   * with a JSON Schema, whose parameters are `unknown`, are annotated with `Resources`, `Targets`, `Preview` and
   * `Reconcile` directly.
   *
   * **Example** (One deployment per environment at a time)
   *
   * ```ts
   * import { Schema } from "effect"
   * import { Tool } from "effect/ai"
   * import { ToolAnnotations } from "effect-tool-executor"
   *
   * export const Deploy = ToolAnnotations.for(
   *   Tool.make("deploy", { parameters: Schema.Struct({ env: Schema.String }) }),
   *   { resources: ({ env }) => [env], targets: ({ env }) => [{ text: env }] }
   * )
   * ```
   */
  annotate as for
}
