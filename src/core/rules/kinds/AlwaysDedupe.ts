/** `AlwaysDedupe`: an equal call is a duplicate, whatever the tool or the policy says. */
import * as Schema from "effect/Schema"
import type { Name } from "../../../internal/toolkitTypes.ts"
import { contradiction } from "../RuleChecks.ts"
import { about, AnyTool, none, scoped, type ScopeOptions, subject } from "../RuleFields.ts"
import { type Constructor, type RuleKind, typed } from "../RuleKind.ts"
import { and, noTool } from "../RuleWords.ts"

const schema = Schema.TaggedStruct("AlwaysDedupe", { tool: AnyTool, ...scoped }).annotate({
  description: "Deduplicated whatever the tool or the policy says; default scope: the dedupe policy's"
})

type Rule = typeof schema.Type

export interface Make extends Constructor {
  readonly type: (tool: Name<this["Tools"]> | "*", options?: ScopeOptions) => Rule
}

const sentence = ({ tool }: Rule): string => `${noTool(tool, "is not", "is")} run again with the same arguments.`

export const AlwaysDedupe = {
  schema,
  scope: "batch",
  make: typed<Make>((tool, options) => ({ _tag: "AlwaysDedupe", tool, ...options })),
  names: ({ tool }) => [subject(tool)],
  countsOn: none,
  says: (rule, tool) => about(rule, tool, { dedupe: "always" }),
  problems: (rule, at) => contradiction(rule, "NeverDedupe", at),
  sentence,
  // `NeverDedupe` of the same tool wins
  sentencesIn: (rule, { forTool, tools }) => {
    const isNever = (tool: string) => forTool(tool).dedupe === "never"
    if (rule.tool !== "*") return isNever(rule.tool) ? [] : [sentence(rule)]
    const except = tools.filter(isNever)
    if (except.length === 0) return [sentence(rule)]
    return except.length === tools.length ? [] : [`No tool but ${and(except)} is run again with the same arguments.`]
  },
  explain: ({ rule }) => sentence(rule),
  // it is neither order nor limit
  draw: () => {}
} satisfies RuleKind<Rule>
