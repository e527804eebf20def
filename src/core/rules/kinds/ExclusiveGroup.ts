/** `ExclusiveGroup`: only one tool of a group may be used. */
import * as Schema from "effect/Schema"
import type { Names } from "../../../internal/toolkitTypes.ts"
import { listed, none, scoped, type ScopeOptions, Tools } from "../RuleFields.ts"
import { type Constructor, type RuleKind, typed } from "../RuleKind.ts"
import { and, quote } from "../RuleWords.ts"

const schema = Schema.TaggedStruct("ExclusiveGroup", { tools: Tools, ...scoped })
  .annotate({ description: "Per batch: the first tool of the set wins; it may repeat" })

type Rule = typeof schema.Type

export interface Make extends Constructor {
  readonly type: (tools: Names<this["Tools"]>, options?: ScopeOptions) => Rule
}

/** A rule without a scope says itself how far it counts. */
const isPlain = ({ scope }: Rule): boolean => scope === undefined || scope === "batch"

const once = (rule: Rule): string =>
  `Use only one of ${and(rule.tools)}${isPlain(rule) ? " per request" : ""}: whichever is called first.`

const sentence = (rule: Rule): string => `${once(rule)} That one may be called again.`

export const ExclusiveGroup = {
  schema,
  scope: "batch",
  make: typed<Make>((tools, options) => ({ _tag: "ExclusiveGroup", tools, ...options })),
  names: ({ tools }) => listed("tools", tools),
  countsOn: none,
  says: ({ tools }, tool) => tools.includes(tool) ? { group: tools } : {},
  problems: ({ tools }, { path }) =>
    new Set(tools).size > 1
      ? []
      : [{ path: `${path}.tools`, problem: "it lists only one tool", expected: "two tools or more" }],
  sentence,
  sentencesIn: (rule, { forTool }) =>
    rule.tools.every((tool) =>
        forTool(tool).maxCalls.some((it) => it.max === 1 && it.scope === (rule.scope ?? "batch"))
      )
      ? [once(rule)]
      : [sentence(rule)],
  explain: ({ names, rule, tool }) =>
    `Only one of ${and(rule.tools)} may be used${isPlain(rule) ? " for this request" : ""}, and ${
      and(names)
    } was first. ` +
    `Use ${and(names)} instead of ${quote(tool)}.`,
  draw: ({ tools }, drawing) =>
    tools.slice(1).forEach((tool, index) =>
      drawing.edge(drawing.tool(tools[index]!), "excludes", "only one", drawing.tool(tool))
    )
} satisfies RuleKind<Rule>
