/**
 * Annotations that declare more about a tool than `Tool.Readonly`, `Tool.Idempotent` and `Tool.OpenWorld` of
 * `effect/ai`.
 *
 * A host can override them by name (option `tools` of `ToolHandlers`), for example to tune third-party tools.
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
import type * as JsonSchema from "effect/JsonSchema"
import type * as Schedule from "effect/Schedule"
import type * as Schema from "effect/Schema"
import type { Declared } from "../../internal/secrets/index.ts"
import type { Own } from "../rules/ToolRule.ts"
import type { FileChange } from "./FileChange.ts"
import type { TargetKind } from "./TargetKind.ts"
import type { Circuit, ToolRate } from "./ToolLimits.ts"
import type * as Provenances from "./ToolProvenance.ts"

/**
 * Whether calls of a mutating tool may overlap with others (`ConcurrentMut`) instead of running alone (`SerialMut`).
 * Default false.
 */
export const Promoted = Context.Reference<boolean>("effect-tool-executor/ToolAnnotations/Promoted", {
  defaultValue: () => false
})

/** Whether the tool itself makes tool calls, like a sub-agent. It then runs in the concurrent pool. */
export const Recursive = Context.Reference<boolean>("effect-tool-executor/ToolAnnotations/Recursive", {
  defaultValue: () => false
})

/** How many calls of the tool may run concurrently; 1 or more. Default: the size of its pool. */
export const MaxConcurrent = Context.Reference<number | undefined>(
  "effect-tool-executor/ToolAnnotations/MaxConcurrent",
  { defaultValue: () => undefined }
)

/**
 * Keys of the resources a mutating call touches, such as real paths, from its decoded parameters.
 *
 * Mutating calls that share a key wait for each other, across waves and executors. ReadOnly calls take no keys. If the
 * function dies, all calls of the tool wait for each other.
 */
export const Resources = Context.Reference<
  ((params: unknown) => ReadonlyArray<string> | Effect.Effect<ReadonlyArray<string>>) | undefined
>("effect-tool-executor/ToolAnnotations/Resources", { defaultValue: () => undefined })

/**
 * The targets of a call, which policy patterns match: root-relative paths, hosts or a command line in canonical form.
 * Derived from the decoded parameters. Default: the texts of `Resources`. If the function dies, the call needs
 * approval.
 *
 * An `exact` target, such as a shell line, is not allowed by any pattern with a target. A `protected` target guards
 * other things and always needs approval. A target of kind `always` needs an approval of its own each time, whatever the
 * policy allows and was approved before. `spellings` are other names under which it is denied or needs approval. With
 * `runBy` it is protected while the policy lets calls of that tool run without approval. `wider` lists patterns that a
 * lasting approval may cover instead of the target alone, such as its folder.
 */
export const Targets = Context.Reference<((params: unknown) => TargetsOf | Effect.Effect<TargetsOf>) | undefined>(
  "effect-tool-executor/ToolAnnotations/Targets",
  { defaultValue: () => undefined }
)

/** The targets of a call. */
export type TargetsOf = ReadonlyArray<{
  readonly text: string
  readonly kind?: TargetKind | undefined
  readonly spellings?: ReadonlyArray<string> | undefined
  readonly runBy?: string | undefined
  readonly wider?: ReadonlyArray<string> | undefined
}>

/**
 * Tools that reveal the same data in another way: a search shows what a read shows. `deny` and `ask` patterns for those
 * tools also apply to this one; `allow` patterns do not. Default: none.
 */
export const ActsAs = Context.Reference<ReadonlyArray<string>>("effect-tool-executor/ToolAnnotations/ActsAs", {
  defaultValue: () => []
})

/**
 * Tools that reveal what this one changes. A write that changes nothing reveals the content, so it skips approval only
 * if each of these tools could be called on the same targets without approval. Default: none.
 */
export const ShownBy = Context.Reference<ReadonlyArray<string>>("effect-tool-executor/ToolAnnotations/ShownBy", {
  defaultValue: () => []
})

/**
 * Whether the tool only changes the files its targets name. The mode `acceptEdits` then skips approval. Default false.
 */
export const Edits = Context.Reference<boolean>("effect-tool-executor/ToolAnnotations/Edits", {
  defaultValue: () => false
})

/**
 * Previews the write of a call from its decoded parameters: read-only, at most five seconds.
 *
 * Approvers see the diff. If the files have changed when the call commits, it fails and writes nothing. With
 * `Checkpoints` the old contents are kept.
 *
 * The tool must write through `ToolContext.commit`. If the write is known only while the tool runs, use
 * `ToolContext.confirmWrite` instead.
 */
export const Preview = Context.Reference<
  ((params: unknown) => Effect.Effect<ReadonlyArray<FileChange>, unknown>) | undefined
>("effect-tool-executor/ToolAnnotations/Preview", { defaultValue: () => undefined })

/**
 * Whether calls may change unnamed files, as a shell does. `Checkpoints` then record that undo does not cover them.
 * Default: true for a tool that is not ReadOnly if another tool of the executor has a `Preview`.
 */
export const ChangesFiles = Context.Reference<boolean | undefined>(
  "effect-tool-executor/ToolAnnotations/ChangesFiles",
  { defaultValue: () => undefined }
)

/** How long a call may run. Default: the executor's `executionTimeout` (120 s). */
export const Timeout = Context.Reference<Duration.Input | undefined>("effect-tool-executor/ToolAnnotations/Timeout", {
  defaultValue: () => undefined
})

/** How long a call may run without reporting; every progress event restarts it. Default: no limit. */
export const IdleTimeout = Context.Reference<Duration.Input | undefined>(
  "effect-tool-executor/ToolAnnotations/IdleTimeout",
  { defaultValue: () => undefined }
)

/**
 * Whether the model may retry a call that timed out. Default true; false blocks the tool for the rest of the process.
 */
export const RetryOnTimeout = Context.Reference<boolean>("effect-tool-executor/ToolAnnotations/RetryOnTimeout", {
  defaultValue: () => true
})

/**
 * Schedule of automatic retries after a retryable failure, within the call's time limit. An error unless the tool is
 * `Tool.Idempotent` or ReadOnly.
 */
export const Retry = Context.Reference<Schedule.Schedule<unknown> | undefined>(
  "effect-tool-executor/ToolAnnotations/Retry",
  { defaultValue: () => undefined }
)

/** When calls are blocked because the tool keeps failing. Default: never. */
export const CircuitBreaker = Context.Reference<Circuit | undefined>(
  "effect-tool-executor/ToolAnnotations/CircuitBreaker",
  { defaultValue: () => undefined }
)

/** How many calls of the tool may start in a period. Default: no limit. */
export const RateLimit = Context.Reference<ToolRate | undefined>("effect-tool-executor/ToolAnnotations/RateLimit", {
  defaultValue: () => undefined
})

/** How a call of a tool runs. */
export type Sandboxing =
  /** `Confined`: in a sandbox. `Open`: without one, although the tool may have one. */
  | {
    readonly _tag: "Confined" | "Open"
    /** The program that confines, such as `bwrap`; `none` without a sandbox. */
    readonly driver: string
    /** `none`: no host can be reached. `listed`: listed hosts, and those that people approve. */
    readonly network: "none" | "listed" | "open"
    /** What a probe has proved on this machine. */
    readonly holds: ReadonlyArray<string>
    /** What this machine cannot enforce. */
    readonly missing: ReadonlyArray<string>
  }
  /** The call requires a sandbox, and there is none: it is refused with `SandboxUnavailable`. */
  | { readonly _tag: "Unavailable"; readonly reason: string }

/**
 * How a call runs, from its decoded parameters: in a sandbox or not. Policies read it (`sandboxed: "allow"`), and
 * approvers and the journal show it. If the function throws, the call is refused. Default: nothing is said.
 */
export const Sandboxed = Context.Reference<((params: unknown) => Sandboxing) | undefined>(
  "effect-tool-executor/ToolAnnotations/Sandboxed",
  { defaultValue: () => undefined }
)

/** What a tool knows about a started call without a recorded end. */
export type Reconciled<A> =
  /** It happened; `result` is what the handler would have returned. */
  | { readonly _tag: "Happened"; readonly result: A }
  | { readonly _tag: "DidNotHappen" }
  | { readonly _tag: "CannotTell" }

/** Identifies the earlier call. */
export interface Earlier {
  /** The handler's `ToolContext.idempotencyKey`. */
  readonly idempotencyKey: string
  /** Epoch milliseconds at which the handler started. */
  readonly startedAt: number
  readonly callId: string
  readonly process: string
}

/** Finds out whether a call has happened. */
export type Reconciler = (params: unknown, earlier: Earlier) => Effect.Effect<Reconciled<unknown>, unknown>

/**
 * Checks whether a call that started before a crash happened, from its decoded parameters.
 *
 * Used when the call is resumed, for at most ten seconds, and only if the tool may not simply run again. If it fails,
 * takes longer or is missing, the call is `Unknown`.
 */
export const Reconcile = Context.Reference<Reconciler | undefined>(
  "effect-tool-executor/ToolAnnotations/Reconcile",
  { defaultValue: () => undefined }
)

/**
 * Whether an agent answers a call of the tool immediately and lets it run in the background. Its result arrives as a
 * message. Default false.
 */
export const Background = Context.Reference<boolean>("effect-tool-executor/ToolAnnotations/Background", {
  defaultValue: () => false
})

/** Finds out whether the handler can continue a call. */
export type Continuing = (params: unknown, earlier: Earlier) => Effect.Effect<boolean, unknown>

/**
 * Whether the handler can continue a call where it was interrupted, from what it stored itself.
 *
 * A running call of such a tool stays open when its host stops. When it is submitted again, this function is asked, for
 * at most ten seconds, and on `true` the handler runs again, with `ToolContext.isResumed`.
 */
export const Continues = Context.Reference<Continuing | undefined>(
  "effect-tool-executor/ToolAnnotations/Continues",
  { defaultValue: () => undefined }
)

/**
 * Whether the handler passes `ToolContext.idempotencyKey` to a service that ignores repeated keys. Such a call runs
 * again after a crash. Default false.
 */
export const UsesIdempotencyKey = Context.Reference<boolean>(
  "effect-tool-executor/ToolAnnotations/UsesIdempotencyKey",
  { defaultValue: () => false }
)

/**
 * What becomes of invisible text in the results of the tool, and with `"refuse"` in its arguments; see
 * `ExecutorSettings`. Default: as the executor's settings say.
 */
export const Invisible = Context.Reference<"show" | "remove" | "refuse" | undefined>(
  "effect-tool-executor/ToolAnnotations/Invisible",
  { defaultValue: () => undefined }
)

/** Whether the tool limits its outputs itself. Larger ones are cut and never become artifacts. Default false. */
export const Bounded = Context.Reference<boolean>("effect-tool-executor/ToolAnnotations/Bounded", {
  defaultValue: () => false
})

/**
 * Whether undeclared arguments are refused at every depth (`additionalProperties: false`). By default they are removed.
 * A tool with a JSON Schema declares it there.
 */
export const Closed = Context.Reference<boolean>("effect-tool-executor/ToolAnnotations/Closed", {
  defaultValue: () => false
})

/**
 * Whether equal calls may return different answers, such as a job's state or the time. Such calls are never duplicates.
 * Default: true for a ReadOnly tool annotated `Tool.OpenWorld`. The rules `AlwaysDedupe` and `NeverDedupe` override it.
 */
export const Volatile = Context.Reference<boolean | undefined>("effect-tool-executor/ToolAnnotations/Volatile", {
  defaultValue: () => undefined
})

/**
 * What the tool's author declares for `Provenance`: its effect, the roles of its parameters and the trust of its output.
 * A declaration of the host replaces it. Default: nothing, so a call that may change something needs approval.
 */
export const Provenance = Context.Reference<Provenances.Declared | undefined>(
  "effect-tool-executor/ToolAnnotations/Provenance",
  { defaultValue: () => undefined }
)

/**
 * The data that people fill in when they approve a call: a `Schema`, whose encoded form is what they write, or a JSON
 * Schema.
 *
 * An approval without it, or with data that does not fit, is refused. The handler reads it from `ToolContext.answer`. It
 * is for one call, so no grant covers calls of such a tool. It does not make a call need approval: use `needsApproval`.
 */
export const Form = Context.Reference<FormOf | undefined>("effect-tool-executor/ToolAnnotations/Form", {
  defaultValue: () => undefined
})

/** A form: a `Schema` or a JSON Schema. */
export type FormOf = Schema.Top | JsonSchema.JsonSchema

/** Rules declared by the tool, without the field `tool`. They apply in addition to the host's (`Rules.layer`). */
export const Rules = Context.Reference<ReadonlyArray<Own>>("effect-tool-executor/ToolAnnotations/Rules", {
  defaultValue: () => []
})

/**
 * Whether the model may retry after a failure of the tool. Default true; false blocks the tool for the rest of the
 * process.
 */
export const IsRetryable = Context.Reference<(failure: unknown) => boolean>(
  "effect-tool-executor/ToolAnnotations/IsRetryable",
  { defaultValue: () => () => true }
)

/**
 * What the model reads for an expected failure, from its encoded value. Default: text unchanged, other values as JSON.
 */
export const FailureText = Context.Reference<((failure: unknown) => string) | undefined>(
  "effect-tool-executor/ToolAnnotations/FailureText",
  { defaultValue: () => undefined }
)

/**
 * Secrets in arguments and results, to keep out of the journal, spans, logs and events.
 *
 * Either paths such as `card.number` and `keys[*].value`, or a function that returns the value without its secrets; if
 * that dies, nothing is recorded. The model and the caller of `execute` get the full result. A path that cannot occur
 * is an error.
 *
 * `Schema.Redacted` fields are always redacted. The journal, spans and logs also redact common secret names
 * (`password`, `apiKey`, `Authorization`).
 */
export const Redact = Context.Reference<Redacts>("effect-tool-executor/ToolAnnotations/Redact", {
  defaultValue: () => []
})

/** Paths of secrets, or a function that returns a value without them. */
export type Redacts = Declared

/** Annotations that use the tool's decoded parameters. */
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
   * Annotates a tool with functions of its typed parameters; an unknown field does not compile. For tools with a JSON
   * Schema, use `Resources`, `Targets`, `Preview` and `Reconcile` directly.
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
