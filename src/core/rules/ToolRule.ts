/**
 * The rules as data.
 *
 * A rule set is an array of `ToolRule`: plain objects that load from JSON. `for`
 * makes them with tool names that the compiler checks; a tool may bring its own
 * (`ToolAnnotations.Rules`). What enforces them is `Rules`, what reads them
 * without enforcing anything is `RuleSet`; nothing here decides anything.
 *
 * **Example** (Writing rules for a toolkit)
 *
 * ```ts
 * import { Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 * import { ToolRule } from "effect-tool-executor"
 *
 * const kit = Toolkit.make(
 *   Tool.make("login"),
 *   Tool.make("request", { parameters: Schema.Struct({ url: Schema.String }) })
 * )
 *
 * const rule = ToolRule.for(kit)
 *
 * const rules = [
 *   rule.startConstraint("login"),
 *   rule.maxCalls("request", 5), // rule.maxCalls("requset", 5) does not compile
 *   rule.cooldown("request", "2 seconds")
 * ]
 *
 * rules[1] // => { _tag: "MaxCalls", tool: "request", max: 5 }
 * ```
 *
 * @since 0.1.0
 */
import type * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as Cron from "effect/Cron"
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { Name, ToolsOf } from "../../internal/toolkitTypes.ts"
import { isPath } from "../../internal/valuePath.ts"

const AnyTool = Schema.NonEmptyString.annotate({ description: "A tool's name, or * for each tool by itself" })
const OneTool = Schema.NonEmptyString.annotate({ description: "A tool's name" })
const Tools = Schema.NonEmptyArray(Schema.NonEmptyString)
const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0, { expected: "a whole number of 0 or more" }))

const isSpan = (text: string): boolean =>
  Option.exists(Duration.fromInput(text as Duration.Input), (it) => Duration.isFinite(it) && Duration.toMillis(it) > 0)

/** A cron expression that comes some time; 30 February never does. */
const isCron = (text: string): boolean =>
  Result.match(Cron.parse(text, "UTC"), {
    onFailure: () => false,
    onSuccess: (cron) => {
      try {
        return Cron.next(cron, 0).getTime() > 0
      } catch {
        return false
      }
    }
  })

const Span = Schema.String.check(
  Schema.makeFilter(isSpan, { expected: "a duration above zero, such as \"30 seconds\" or \"5 minutes\"" })
).annotate({ description: "A duration such as \"30 seconds\" or \"5 minutes\"" })

const Recurrence = Schema.String.check(
  Schema.makeFilter((text) => isSpan(text) || isCron(text), {
    expected: "a duration such as \"5 minutes\", or a cron expression such as \"0 6 * * *\" (UTC)"
  })
).annotate({ description: "A duration such as \"5 minutes\", or a cron expression in UTC such as \"0 6 * * *\"" })

const ValuePath = Schema.String.check(
  Schema.makeFilter(isPath, { expected: "a path such as \"status\" or \"rows[0].kind\"; empty for the whole output" })
).annotate({ description: "Path inside the output, such as \"status\" or \"rows[0].kind\"; empty for the whole" })

const Arguments = Schema.Record(Schema.String, Schema.Json)

/**
 * Schemas of the kinds of rules, by tag.
 *
 * @category schemas
 * @since 0.1.0
 */
export const kinds = {
  StartConstraint: Schema.TaggedStruct("StartConstraint", {
    tool: OneTool,
    mode: Schema.optionalKey(Schema.Literals(["all", "any"]))
  }).annotate({
    description: "Process: the start tools succeed before any other tool; of those with mode any, one is enough"
  }),
  RequiresPrecedingTools: Schema.TaggedStruct("RequiresPrecedingTools", { tool: AnyTool, tools: Tools })
    .annotate({ description: "Process: all listed tools succeeded earlier; * is every tool but the listed ones" }),
  RequiresFollowingTools: Schema.TaggedStruct("RequiresFollowingTools", { tool: AnyTool, tools: Tools })
    .annotate({ description: "Process: forbidden once any listed tool succeeded" }),
  ChildTools: Schema.TaggedStruct("ChildTools", {
    tool: AnyTool,
    children: Tools,
    prefilled: Schema.optionalKey(Schema.Record(Schema.String, Arguments))
  }).annotate({
    description:
      "Process: right after the tool only its children; prefilled arguments override the model's in every call"
  }),
  ParentTools: Schema.TaggedStruct("ParentTools", { tool: AnyTool, children: Tools })
    .annotate({ description: "Process: these children only right after the tool, and right after it only they" }),
  Conditional: Schema.TaggedStruct("Conditional", {
    tool: AnyTool,
    path: ValuePath,
    cases: Schema.Array(Schema.Struct({ equals: Schema.Json, tool: Schema.NonEmptyString })),
    default: Schema.optionalKey(Schema.NonEmptyString),
    strict: Schema.optionalKey(Schema.Boolean)
  }).annotate({
    description:
      "Process: the next tool follows from the value at path in the tool's output; no match: default, else anything, with strict nothing"
  }),
  AllowedOperations: Schema.TaggedStruct("AllowedOperations", {
    tool: AnyTool,
    field: Schema.NonEmptyString,
    allowed: Schema.NonEmptyArray(Schema.Json)
  }).annotate({ description: "Static: a top-level argument limited to some values; the model sees only these" }),
  MaxCalls: Schema.TaggedStruct("MaxCalls", { tool: AnyTool, max: Count })
    .annotate({ description: "Batch: at most max starts" }),
  ExclusiveGroup: Schema.TaggedStruct("ExclusiveGroup", { tools: Tools })
    .annotate({ description: "Batch: the first tool of the set wins; it may repeat" }),
  RequiredBeforeExit: Schema.TaggedStruct("RequiredBeforeExit", {
    tool: AnyTool,
    when: Schema.optionalKey(Tools),
    scope: Schema.optionalKey(Schema.Literals(["process", "batch"]))
  }).annotate({ description: "Process or batch: pending until one success; with when, only once all those succeeded" }),
  ExitLoop: Schema.TaggedStruct("ExitLoop", { tool: AnyTool })
    .annotate({ description: "Process: a success ends the loop" }),
  ContinueLoop: Schema.TaggedStruct("ContinueLoop", { tool: AnyTool })
    .annotate({ description: "Static: the tool needs no heartbeat" }),
  Cooldown: Schema.TaggedStruct("Cooldown", { tool: AnyTool, duration: Span })
    .annotate({ description: "Principal: from the last completion; allowed again at exactly the duration" }),
  RequiresConsent: Schema.TaggedStruct("RequiresConsent", {
    tool: AnyTool,
    scope: Schema.optionalKey(Schema.Literals(["call", "resources", "tool"]))
  }).annotate({ description: "Principal: a person is asked, whatever the policy allows" }),
  NeverDedupe: Schema.TaggedStruct("NeverDedupe", { tool: AnyTool })
    .annotate({ description: "Static: an equal call is never a duplicate" }),
  AlwaysDedupe: Schema.TaggedStruct("AlwaysDedupe", { tool: AnyTool })
    .annotate({ description: "Static: deduplicated whatever the tool or the policy says" }),
  Periodic: Schema.TaggedStruct("Periodic", {
    tool: OneTool,
    schedule: Recurrence,
    params: Schema.optionalKey(Arguments)
  }).annotate({ description: "Executor: a scoped runner fires the tool with these arguments, in a batch of its own" })
} as const

/**
 * Schema of every rule.
 *
 * **Details**
 *
 * The scope of each rule (process, batch, principal, static, executor) is in
 * its description and thus in the published JSON Schema.
 *
 * @category schemas
 * @since 0.1.0
 */
export const ToolRule = Schema.Union([
  kinds.StartConstraint,
  kinds.RequiresPrecedingTools,
  kinds.RequiresFollowingTools,
  kinds.ChildTools,
  kinds.ParentTools,
  kinds.Conditional,
  kinds.AllowedOperations,
  kinds.MaxCalls,
  kinds.ExclusiveGroup,
  kinds.RequiredBeforeExit,
  kinds.ExitLoop,
  kinds.ContinueLoop,
  kinds.Cooldown,
  kinds.RequiresConsent,
  kinds.NeverDedupe,
  kinds.AlwaysDedupe,
  kinds.Periodic
])

/**
 * One rule, as data.
 *
 * @category models
 * @since 0.1.0
 */
export type ToolRule = typeof ToolRule.Type

/**
 * Name of a kind of rule.
 *
 * @category models
 * @since 0.1.0
 */
export type Tag = ToolRule["_tag"]

/**
 * A rule of one kind.
 *
 * @category models
 * @since 0.1.0
 */
export type Of<T extends Tag> = Extract<ToolRule, { readonly _tag: T }>

/**
 * A rule that a tool brings itself: its `tool` is the tool.
 *
 * @category models
 * @since 0.1.0
 */
export type Own = OwnOf<Exclude<ToolRule, { readonly _tag: "ExclusiveGroup" }>>

type OwnOf<R> = R extends { readonly tool: string } ? Omit<R, "tool"> : never

/**
 * Tells whether a rule's subject is a tool; `*` is each tool by itself, in
 * `RequiresPrecedingTools` each but the listed ones.
 *
 * @category predicates
 * @since 0.1.0
 */
export const concerns = (rule: ToolRule, tool: string): boolean => {
  if (rule._tag === "ExclusiveGroup") return rule.tools.includes(tool)
  if (rule.tool !== "*") return rule.tool === tool
  return rule._tag !== "RequiresPrecedingTools" || !rule.tools.includes(tool)
}

/**
 * Gives the constructors of rules for the tools of one or more toolkits: a name
 * that is no tool, or an argument that the tool does not have, does not compile.
 *
 * **Gotchas**
 *
 * A duration is kept as text; one that is not above zero is found when the
 * layer is built, like every other mistake.
 *
 * @category constructors
 * @since 0.1.0
 */
const make = <T extends Toolkit.Any>(_toolkits: T | ReadonlyArray<T>): Constructors<ToolsOf<T>> =>
  // of any tools: the names were checked by the compiler
  constructors as unknown as Constructors<ToolsOf<T>>

export {
  /**
   * Gives the constructors of rules for the tools of one or more toolkits: a
   * name that is no tool, or an argument that the tool does not have, does not
   * compile.
   *
   * @category constructors
   * @since 0.1.0
   */
  make as for
}

/**
 * Constructors of rules for tools by name; see `ToolRule.for`.
 *
 * @category constructors
 * @since 0.1.0
 */
export interface Constructors<Tools extends Record<string, Tool.Any>> {
  readonly startConstraint: (tool: Name<Tools>, options?: { readonly mode?: "all" | "any" }) => Of<"StartConstraint">
  readonly requiresPrecedingTools: (tool: Name<Tools> | "*", tools: Names<Tools>) => Of<"RequiresPrecedingTools">
  readonly requiresFollowingTools: (tool: Name<Tools> | "*", tools: Names<Tools>) => Of<"RequiresFollowingTools">
  readonly childTools: (
    tool: Name<Tools> | "*",
    children: Names<Tools>,
    options?: {
      readonly prefilled?: { readonly [K in Name<Tools>]?: Partial<Tool.ParametersEncoded<Tools[K]>> }
    }
  ) => Of<"ChildTools">
  readonly parentTools: (tool: Name<Tools> | "*", children: Names<Tools>) => Of<"ParentTools">
  readonly conditional: (
    tool: Name<Tools> | "*",
    options: {
      /** Path inside the encoded output, such as `rows[0].kind`; empty for the whole. */
      readonly path: string
      readonly cases: ReadonlyArray<{ readonly equals: Schema.Json; readonly tool: Name<Tools> }>
      readonly default?: Name<Tools>
      readonly strict?: boolean
    }
  ) => Of<"Conditional">
  readonly allowedOperations: <N extends Name<Tools>, F extends keyof Tool.ParametersEncoded<Tools[N]> & string>(
    tool: N,
    field: F,
    allowed: readonly [Tool.ParametersEncoded<Tools[N]>[F], ...ReadonlyArray<Tool.ParametersEncoded<Tools[N]>[F]>]
  ) => Of<"AllowedOperations">
  readonly maxCalls: (tool: Name<Tools> | "*", max: number) => Of<"MaxCalls">
  readonly exclusiveGroup: (tools: Names<Tools>) => Of<"ExclusiveGroup">
  readonly requiredBeforeExit: (
    tool: Name<Tools> | "*",
    options?: { readonly when?: Names<Tools>; readonly scope?: "process" | "batch" }
  ) => Of<"RequiredBeforeExit">
  readonly exitLoop: (tool: Name<Tools> | "*") => Of<"ExitLoop">
  readonly continueLoop: (tool: Name<Tools> | "*") => Of<"ContinueLoop">
  readonly cooldown: (tool: Name<Tools> | "*", duration: Duration.Input) => Of<"Cooldown">
  readonly requiresConsent: (
    tool: Name<Tools> | "*",
    options?: { readonly scope?: "call" | "resources" | "tool" }
  ) => Of<"RequiresConsent">
  readonly neverDedupe: (tool: Name<Tools> | "*") => Of<"NeverDedupe">
  readonly alwaysDedupe: (tool: Name<Tools> | "*") => Of<"AlwaysDedupe">
  readonly periodic: <N extends Name<Tools>>(
    tool: N,
    /** A duration, or a cron expression in UTC. */
    schedule: string,
    params?: Tool.ParametersEncoded<Tools[N]>
  ) => Of<"Periodic">
}

// Utilities

type Names<Tools extends Record<string, Tool.Any>> = readonly [Name<Tools>, ...ReadonlyArray<Name<Tools>>]

const spanOf = (duration: Duration.Input): string =>
  Option.match(Duration.fromInput(duration), {
    onNone: () => String(duration),
    onSome: (it) => typeof duration === "string" ? duration : `${Duration.toMillis(it)} millis`
  })

const constructors: Constructors<Record<string, Tool.Any>> = {
  startConstraint: (tool, options) => ({ _tag: "StartConstraint", tool, ...options }),
  requiresPrecedingTools: (tool, tools) => ({ _tag: "RequiresPrecedingTools", tool, tools }),
  requiresFollowingTools: (tool, tools) => ({ _tag: "RequiresFollowingTools", tool, tools }),
  childTools: (tool, children, options) => ({ _tag: "ChildTools", tool, children, ...options as object }),
  parentTools: (tool, children) => ({ _tag: "ParentTools", tool, children }),
  conditional: (tool, options) => ({ _tag: "Conditional", tool, ...options }),
  allowedOperations: (tool, field, allowed) =>
    ({ _tag: "AllowedOperations", tool, field, allowed }) as Of<"AllowedOperations">,
  maxCalls: (tool, max) => ({ _tag: "MaxCalls", tool, max }),
  exclusiveGroup: (tools) => ({ _tag: "ExclusiveGroup", tools }),
  requiredBeforeExit: (tool, options) => ({ _tag: "RequiredBeforeExit", tool, ...options }),
  exitLoop: (tool) => ({ _tag: "ExitLoop", tool }),
  continueLoop: (tool) => ({ _tag: "ContinueLoop", tool }),
  cooldown: (tool, duration) => ({ _tag: "Cooldown", tool, duration: spanOf(duration) }),
  requiresConsent: (tool, options) => ({ _tag: "RequiresConsent", tool, ...options }),
  neverDedupe: (tool) => ({ _tag: "NeverDedupe", tool }),
  alwaysDedupe: (tool) => ({ _tag: "AlwaysDedupe", tool }),
  periodic: (tool, schedule, params) =>
    ({
      _tag: "Periodic",
      tool,
      schedule,
      ...(params === undefined ? {} : { params: params as Schema.Json })
    }) as Of<"Periodic">
}
