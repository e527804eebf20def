/** `RequiresPrecedingTools`: other tools succeed before a tool. */
import * as Schema from "effect/Schema"
import type { Name, Names } from "../../../internal/toolkitTypes.ts"
import { about, AnyTool, listed, none, scoped, type ScopeOptions, subject, Tools } from "../RuleFields.ts"
import { type Constructor, type RuleKind, typed } from "../RuleKind.ts"
import { and, have, quote, who } from "../RuleWords.ts"

const schema = Schema.TaggedStruct("RequiresPrecedingTools", { tool: AnyTool, tools: Tools, ...scoped }).annotate({
  description: "Per process: all listed tools succeeded earlier; * is every tool but the listed ones"
})

type Rule = typeof schema.Type

export interface Make extends Constructor {
  readonly type: (tool: Name<this["Tools"]> | "*", tools: Names<this["Tools"]>, options?: ScopeOptions) => Rule
}

export const RequiresPrecedingTools = {
  schema,
  scope: "process",
  make: typed<Make>((tool, tools, options) => ({ _tag: "RequiresPrecedingTools", tool, tools, ...options })),
  names: (rule) => [subject(rule.tool), ...listed("tools", rule.tools)],
  countsOn: (rule) => listed("tools", rule.tools),
  says: (rule, tool) => rule.tool === "*" && rule.tools.includes(tool) ? {} : about(rule, tool, { needs: rule.tools }),
  problems: none,
  sentence: ({ tool, tools }) => `${who(tool, tools)} may be called only after ${and(tools)} ${have(tools)} succeeded.`,
  explain: ({ names, rule, tool }) =>
    `${quote(tool)} may be called only after ${and(rule.tools)} ${have(rule.tools)} succeeded; ` +
    `${and(names)} ${have(names)} not. Call ${and(names)}, then call ${quote(tool)} again.`,
  draw: ({ tool, tools }, drawing) => {
    for (const it of tools) drawing.edge(drawing.tool(it), "needs", "", drawing.tool(tool))
  }
} satisfies RuleKind<Rule>
