/**
 * The rules as data.
 *
 * A rule set is an array of `ToolRule`: plain objects that load from JSON. What
 * enforces them is `Rules`; nothing here decides anything.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

const Tool = Schema.NonEmptyString.annotate({ description: "A tool's name, or * for each tool by itself" })
const Tools = Schema.NonEmptyArray(Schema.NonEmptyString)
const Duration = Schema.String.annotate({ description: "A duration such as \"30 seconds\" or \"5 minutes\"" })
const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/**
 * Schema of every rule.
 *
 * **Details**
 *
 * The scope of each rule (process, batch, principal, static) is in its
 * description and thus in the published JSON Schema.
 *
 * @category schemas
 * @since 0.1.0
 */
export const ToolRule = Schema.Union([
  Schema.TaggedStruct("StartConstraint", { tool: Tool, mode: Schema.optionalKey(Schema.Literals(["all", "any"])) })
    .annotate({ description: "Process: the tool succeeds before any other tool" }),
  Schema.TaggedStruct("RequiresPrecedingTools", { tool: Tool, tools: Tools })
    .annotate({ description: "Process: all listed tools succeeded earlier" }),
  Schema.TaggedStruct("RequiresFollowingTools", { tool: Tool, tools: Tools })
    .annotate({ description: "Process: forbidden once any listed tool succeeded" }),
  Schema.TaggedStruct("ChildTools", {
    tool: Tool,
    children: Tools,
    prefilled: Schema.optionalKey(Schema.Record(Schema.String, Schema.Record(Schema.String, Schema.Json)))
  }).annotate({ description: "Process: right after the tool only its children" }),
  Schema.TaggedStruct("ParentTools", { tool: Tool, children: Tools })
    .annotate({ description: "Process: these children only right after the tool, and right after it only they" }),
  Schema.TaggedStruct("Conditional", {
    tool: Tool,
    path: Schema.String,
    cases: Schema.Array(Schema.Struct({ equals: Schema.Json, tool: Schema.String })),
    default: Schema.optionalKey(Schema.String),
    strict: Schema.optionalKey(Schema.Boolean)
  }).annotate({ description: "Process: the next tool follows from the last output's value at path" }),
  Schema.TaggedStruct("AllowedOperations", {
    tool: Tool,
    field: Schema.String,
    allowed: Schema.NonEmptyArray(Schema.Json)
  }).annotate({ description: "Static: an argument limited to some values" }),
  Schema.TaggedStruct("MaxCalls", { tool: Tool, max: Count })
    .annotate({ description: "Batch: at most max starts" }),
  Schema.TaggedStruct("ExclusiveGroup", { tools: Tools })
    .annotate({ description: "Batch: the first tool of the set wins; it may repeat" }),
  Schema.TaggedStruct("RequiredBeforeExit", {
    tool: Tool,
    when: Schema.optionalKey(Tools),
    scope: Schema.optionalKey(Schema.Literals(["process", "batch"]))
  }).annotate({ description: "Process or batch: pending until one success" }),
  Schema.TaggedStruct("ExitLoop", { tool: Tool })
    .annotate({ description: "Process: a success ends the loop" }),
  Schema.TaggedStruct("ContinueLoop", { tool: Tool })
    .annotate({ description: "Static: the tool needs no heartbeat" }),
  Schema.TaggedStruct("Cooldown", { tool: Tool, duration: Duration })
    .annotate({ description: "Principal: from the last completion; allowed again at exactly the duration" }),
  Schema.TaggedStruct("RequiresConsent", {
    tool: Tool,
    scope: Schema.optionalKey(Schema.Literals(["call", "resources", "tool"]))
  }).annotate({ description: "Principal: a person is asked" }),
  Schema.TaggedStruct("NeverDedupe", { tool: Tool })
    .annotate({ description: "Static: an equal call is never a duplicate" }),
  Schema.TaggedStruct("AlwaysDedupe", { tool: Tool })
    .annotate({ description: "Static: deduplicated whatever the tool or the policy says" }),
  Schema.TaggedStruct("Periodic", { tool: Tool, schedule: Schema.String })
    .annotate({ description: "Executor: a scoped runner fires the tool" })
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
 * Tells whether a rule is about a tool; `*` is about each tool by itself.
 *
 * @category predicates
 * @since 0.1.0
 */
export const concerns = (rule: ToolRule, tool: string): boolean =>
  rule._tag === "ExclusiveGroup" ? rule.tools.includes(tool) : rule.tool === tool || rule.tool === "*"
