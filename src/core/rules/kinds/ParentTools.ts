/** `ParentTools`: some tools come only right after another one, and nothing else does. */
import * as Schema from "effect/Schema"
import type { Name, Names } from "../../../internal/toolkitTypes.ts"
import {
  AnyTool,
  concerns,
  listed,
  none,
  oneSubject,
  scoped,
  type ScopeOptions,
  subject,
  Tools
} from "../RuleFields.ts"
import { type Constructor, type RuleKind, typed } from "../RuleKind.ts"
import { and, capital, list, or, quote, whom } from "../RuleWords.ts"

const schema = Schema.TaggedStruct("ParentTools", { tool: AnyTool, children: Tools, ...scoped })
  .annotate({ description: "Per process: these children only right after the tool, and right after it only they" })

type Rule = typeof schema.Type

export interface Make extends Constructor {
  readonly type: (tool: Name<this["Tools"]> | "*", children: Names<this["Tools"]>, options?: ScopeOptions) => Rule
}

const sentence = ({ children, tool }: Rule): string =>
  `${capital(and(children))} may be called only right after ${whom(tool)}, and right after it nothing else may.`

export const ParentTools = {
  schema,
  scope: "process",
  make: typed<Make>((tool, children, options) => ({ _tag: "ParentTools", tool, children, ...options })),
  names: (rule) => [subject(rule.tool), ...listed("children", rule.children)],
  countsOn: oneSubject,
  says: (rule, tool) => ({
    onlyNext: concerns(rule.tool, tool) ? rule.children : undefined,
    onlyAfter: rule.children.includes(tool) ? [rule.tool] : undefined
  }),
  problems: none,
  sentence,
  sentencesIn: (rule, { forTool }) => {
    const parents = (child: string) =>
      forTool(child).onlyAfter.filter((it) => it.scope === (rule.scope ?? "process")).flatMap((it) => it.tools)
    if (rule.children.every((child) => parents(child).length < 2)) return [sentence(rule)]
    const after = rule.children.map((child) => {
      const any = Array.from(new Set(parents(child).map(whom)))
      return `${quote(child)} may be called only right after ${list(any, "or")}.`
    })
    return [[...after, `Right after ${whom(rule.tool)} only ${or(rule.children)} may be called.`].join(" ")]
  },
  explain: ({ isChild, last, names, tool }) => {
    if (isChild !== true) {
      return `Right after ${quote(last!)} only ${or(names)} may be called, so ${quote(tool)} was not run. ` +
        `Call ${or(names)}.`
    }
    const isAny = names.includes("*")
    const so = last === undefined ? "nothing has succeeded yet" : `the last success is ${quote(last)}`
    return `${quote(tool)} may be called only right after ${
      isAny ? "another tool has succeeded" : or(names)
    }; ${so}. ` +
      `Call ${isAny ? "another tool" : or(names)}, then call ${quote(tool)} again.`
  },
  draw: (rule, drawing) => {
    for (const it of rule.children) {
      drawing.edge(drawing.tool(rule.tool), "next", "next, and only so", drawing.tool(it))
    }
  }
} satisfies RuleKind<Rule>
