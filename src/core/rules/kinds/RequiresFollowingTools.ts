/** `RequiresFollowingTools`: a tool is forbidden once another one succeeded. */
import * as Schema from "effect/Schema"
import type { Name, Names } from "../../../internal/toolkitTypes.ts"
import { about, AnyTool, listed, none, scoped, type ScopeOptions, subject, Tools } from "../RuleFields.ts"
import { type Constructor, type RuleKind, typed } from "../RuleKind.ts"
import { and, have, noTool, or, quote } from "../RuleWords.ts"

const schema = Schema.TaggedStruct("RequiresFollowingTools", { tool: AnyTool, tools: Tools, ...scoped })
  .annotate({ description: "Per process: forbidden once any listed tool succeeded" })

type Rule = typeof schema.Type

export interface Make extends Constructor {
  readonly type: (tool: Name<this["Tools"]> | "*", tools: Names<this["Tools"]>, options?: ScopeOptions) => Rule
}

export const RequiresFollowingTools = {
  schema,
  scope: "process",
  make: typed<Make>((tool, tools, options) => ({ _tag: "RequiresFollowingTools", tool, tools, ...options })),
  names: (rule) => [subject(rule.tool), ...listed("tools", rule.tools)],
  countsOn: none,
  says: (rule, tool) => about(rule, tool, { notAfter: rule.tools }),
  problems: none,
  sentence: ({ tool, tools }) =>
    `${noTool(tool, "may no longer be", "may be")} called once ${or(tools)} has succeeded.`,
  explain: ({ names, rule, tool }) =>
    `${quote(tool)} may no longer be called once ${or(rule.tools)} has succeeded, and ${and(names)} ${have(names)}. ` +
    "Continue without it.",
  draw: ({ tool, tools }, drawing) => {
    for (const it of tools) drawing.edge(drawing.tool(it), "forbids", "no more", drawing.tool(tool))
  }
} satisfies RuleKind<Rule>
