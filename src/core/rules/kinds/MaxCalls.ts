/** `MaxCalls`: how often a tool may start. */
import * as Schema from "effect/Schema"
import type { Name } from "../../../internal/toolkitTypes.ts"
import { about, AnyTool, Count, none, scoped, type ScopeOptions, subject } from "../RuleFields.ts"
import { type Constructor, type RuleKind, typed } from "../RuleKind.ts"
import { noTool, quote, times, who } from "../RuleWords.ts"

const schema = Schema.TaggedStruct("MaxCalls", { tool: AnyTool, max: Count, ...scoped })
  .annotate({ description: "Per batch: at most max starts" })

type Rule = typeof schema.Type

export interface Make extends Constructor {
  readonly type: (tool: Name<this["Tools"]> | "*", max: number, options?: ScopeOptions) => Rule
}

/** A rule without a scope says itself how far it counts. */
const isPlain = ({ scope }: Rule): boolean => scope === undefined || scope === "batch"

const sentence = (rule: Rule): string => {
  const { max, tool } = rule
  return max === 0
    ? `${noTool(tool, "may not be", "may be")} called.`
    : `${who(tool)} may be called at most ${times(max)}${isPlain(rule) ? " per request" : ""}.`
}

export const MaxCalls = {
  schema,
  scope: "batch",
  make: typed<Make>((tool, max, options) => ({ _tag: "MaxCalls", tool, max, ...options })),
  names: ({ tool }) => [subject(tool)],
  countsOn: none,
  says: (rule, tool) => about(rule, tool, { maxCalls: rule.max }),
  problems: none,
  sentence,
  // a stricter rule about the same tool has its own sentence
  sentencesIn: (rule, { forTool }) =>
    rule.tool === "*" || forTool(rule.tool).maxCalls.some((it) => it.rule === rule) ? [sentence(rule)] : [],
  explain: ({ rule, tool }) =>
    rule.max === 0
      ? `${quote(tool)} may not be called here. Continue without it.`
      : `${quote(tool)} has reached its limit of ${rule.max} ${rule.max === 1 ? "call" : "calls"}${
        isPlain(rule) ? " for this request" : ""
      }. ` +
        "Do not call it again. Continue with the results you have.",
  draw: ({ max, tool }, drawing) => drawing.note(tool, max === 0 ? "never" : `at most ${max}`)
} satisfies RuleKind<Rule>
