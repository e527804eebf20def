/** `ExclusiveGroup`: only one tool of a group may be used in a batch. */
import * as Schema from "effect/Schema"
import type { Names } from "../../../internal/toolkitTypes.ts"
import { listed, none, Tools } from "../RuleFields.ts"
import { type Constructor, type RuleKind, typed } from "../RuleKind.ts"
import { and, quote } from "../RuleWords.ts"

const schema = Schema.TaggedStruct("ExclusiveGroup", { tools: Tools })
  .annotate({ description: "Batch: the first tool of the set wins; it may repeat" })

type Rule = typeof schema.Type

export interface Make extends Constructor {
  readonly type: (tools: Names<this["Tools"]>) => Rule
}

const once = ({ tools }: Rule): string => `Use only one of ${and(tools)} per request: whichever is called first.`

const sentence = (rule: Rule): string => `${once(rule)} That one may be called again.`

export const ExclusiveGroup = {
  schema,
  make: typed<Make>((tools) => ({ _tag: "ExclusiveGroup", tools })),
  names: ({ tools }) => listed("tools", tools),
  countsOn: none,
  says: ({ tools }, tool) => tools.includes(tool) ? { group: tools } : {},
  problems: ({ tools }, { path }) =>
    new Set(tools).size > 1
      ? []
      : [{ path: `${path}.tools`, problem: "it lists only one tool", expected: "two tools or more" }],
  sentence,
  sentencesIn: (rule, { forTool }) =>
    rule.tools.every((tool) => forTool(tool).maxCalls?.max === 1) ? [once(rule)] : [sentence(rule)],
  explain: ({ names, rule, tool }) =>
    `Only one of ${and(rule.tools)} may be used for this request, and ${and(names)} was first. ` +
    `Use ${and(names)} instead of ${quote(tool)}.`,
  draw: ({ tools }, drawing) =>
    tools.slice(1).forEach((tool, index) =>
      drawing.edge(drawing.tool(tools[index]!), "excludes", "only one", drawing.tool(tool))
    )
} satisfies RuleKind<Rule>
