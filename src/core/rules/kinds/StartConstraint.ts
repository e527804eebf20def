/** `StartConstraint`: start tools succeed before any other tool. */
import * as Schema from "effect/Schema"
import type { Name } from "../../../internal/toolkitTypes.ts"
import { about, none, oneSubject, OneTool, scoped, type ScopeOptions } from "../RuleFields.ts"
import { type Constructor, type RuleKind, typed } from "../RuleKind.ts"
import { and, each, have, list, or, quote } from "../RuleWords.ts"

const schema = Schema.TaggedStruct("StartConstraint", {
  tool: OneTool,
  mode: Schema.optionalKey(Schema.Literals(["all", "any"])),
  ...scoped
}).annotate({
  description: "Per process: the start tools succeed before any other tool; of those with mode any, one is enough"
})

type Rule = typeof schema.Type

export interface Make extends Constructor {
  readonly type: (tool: Name<this["Tools"]>, options?: ScopeOptions & { readonly mode?: "all" | "any" }) => Rule
}

const sentence = (tools: ReadonlyArray<string>, isAny: boolean): string => {
  const who = isAny && new Set(tools).size > 1 ? `One of ${and(tools)} has` : `${and(tools)} ${have(each(tools))}`
  return `${who} to succeed before any other tool is called.`
}

export const StartConstraint = {
  schema,
  scope: "process",
  make: typed<Make>((tool, options) => ({ _tag: "StartConstraint", tool, ...options })),
  names: ({ tool }) => [{ place: "tool", tool, wildcard: false }],
  countsOn: oneSubject,
  says: (rule, tool) => about(rule, tool, { start: rule.mode ?? "all" }),
  problems: none,
  sentence: ({ tool }) => sentence([tool], false),
  sentencesIn: ({ mode = "all", scope = "process" }, { starts }) => {
    const same = starts.filter((it) => it.mode === mode && it.scope === scope)
    return [sentence(same.map((it) => it.tool), mode === "any")]
  },
  explain: ({ alternatives = [], names, tool }) => {
    const it = quote(tool)
    const needed = names.filter((name) => !alternatives.includes(name))
    const open = names.filter((name) => alternatives.includes(name))
    const first = [...needed.map(quote), ...open.length > 0 ? [open.length > 1 ? `one of ${and(open)}` : or(open)] : []]
    const verb = needed.length > 1 || first.length > 1 ? "have" : "has"
    return `${it} may not be called yet: ${list(first, "and")} ${verb} to succeed first. ` +
      `Call ${list(first, "and")}, then call ${it} again.`
  },
  draw: (rule, drawing) => {
    drawing.edge(drawing.start, "next", rule.mode === "any" ? "one of" : "first", drawing.tool(rule.tool))
    drawing.edge(drawing.tool(rule.tool), "needs", "", drawing.tool("*"))
  }
} satisfies RuleKind<Rule>
