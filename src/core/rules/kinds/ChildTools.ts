/** `ChildTools`: right after a tool only its children, with arguments that the host sets. */
import * as Equal from "effect/Equal"
import * as Schema from "effect/Schema"
import type { ArgumentsOf, Name, Names } from "../../../internal/toolkitTypes.ts"
import type { Problem } from "../../vocabulary/ConfigurationError.ts"
import { valueProblems } from "../RuleChecks.ts"
import {
  AnyTool,
  Arguments,
  concerns,
  listed,
  named,
  none,
  scoped,
  type ScopeOptions,
  subject,
  Tools
} from "../RuleFields.ts"
import { type Constructor, type Placed, type Placement, type RuleKind, typed } from "../RuleKind.ts"
import { and, or, quote, whom } from "../RuleWords.ts"
import { forbidding } from "./AllowedOperations.ts"

const schema = Schema.TaggedStruct("ChildTools", {
  tool: AnyTool,
  children: Tools,
  prefilled: Schema.optionalKey(Schema.Record(Schema.String, Arguments)),
  ...scoped
}).annotate({
  description:
    "Per process: right after the tool only its children; prefilled arguments override the model's in every call"
})

type Rule = typeof schema.Type

export interface Make extends Constructor {
  readonly type: MakeFor<this["Tools"]>
}

type MakeFor<Tools> = (
  tool: Name<Tools> | "*",
  children: Names<Tools>,
  options?: ScopeOptions & { readonly prefilled?: { readonly [K in Name<Tools>]?: Partial<ArgumentsOf<Tools, K>> } }
) => Rule

const isChildTools = (it: Placed): it is Placed<Rule> => it.rule._tag === "ChildTools"

/** What is wrong with one prefilled argument: it holds in every call, so no two rules may differ. */
const prefilledProblems = (
  rule: Rule,
  { all, before, path, schemaOf }: Placement,
  [child, values]: readonly [string, typeof Arguments.Type]
): ReadonlyArray<Problem> => {
  const place = `${path}.prefilled.${child}`
  if (!rule.children.includes(child)) {
    return [{
      path: place,
      problem: "it is not among the children",
      expected: `one of ${rule.children.join(", ")}`
    }]
  }
  return Object.entries(values).flatMap(([field, value]) => {
    const other = before.filter(isChildTools).find((it) => Object.hasOwn(it.rule.prefilled?.[child] ?? {}, field))
    const limit = forbidding(all, child, field, value)
    return [
      ...valueProblems(schemaOf(child), { tool: child, field }, [value], () => `${place}.${field}`),
      ...other === undefined || Equal.equals(other.rule.prefilled![child]![field], value) ? [] : [{
        path: `${place}.${field}`,
        problem: `another rule sets it to a different value (${other.path}.prefilled.${child}.${field})`,
        expected: "one value: it holds in every call of the child"
      }],
      ...limit === undefined ? [] : [{
        path: `${place}.${field}`,
        problem: `it is ${JSON.stringify(value)}, which ${limit.path} does not allow`,
        expected: "an allowed value"
      }]
    ]
  })
}

const sentence = ({ children, prefilled = {}, tool }: Rule): string => {
  const set = Object.entries(prefilled).filter(([, values]) => Object.keys(values).length > 0)
    .map(([child, values]) => ` The host sets ${and(Object.keys(values))} of ${quote(child)}.`)
  return `Right after ${whom(tool)} only ${or(children)} may be called.${set.join("")}`
}

export const ChildTools = {
  schema,
  scope: "process",
  make: typed<Make>((tool, children, options) => // the compiler has checked the arguments against the parameters of the children
  ({ _tag: "ChildTools", tool, children, ...options as Pick<Rule, "prefilled" | "scope"> })),
  names: (rule) => [
    subject(rule.tool),
    ...listed("children", rule.children),
    ...Object.keys(rule.prefilled ?? {}).map((child) => named(`prefilled.${child}`, child))
  ],
  countsOn: none,
  says: (rule, tool) => ({
    onlyNext: concerns(rule.tool, tool) ? rule.children : undefined,
    prefilled: rule.prefilled !== undefined && Object.hasOwn(rule.prefilled, tool) ? rule.prefilled[tool] : undefined
  }),
  problems: (rule, at) => Object.entries(rule.prefilled ?? {}).flatMap((it) => prefilledProblems(rule, at, it)),
  sentence,
  sentencesIn: (rule, { rules }) => {
    const all = rules.map((it) => ({ path: "", rule: it })).filter(isChildTools)
    const same = all.filter((it) => it.rule.tool === rule.tool && it.rule.scope === rule.scope)
    const [first, ...others] = rule.children.filter((child) => same.every((it) => it.rule.children.includes(child)))
    return [sentence(first === undefined ? rule : { ...rule, children: [first, ...others] })]
  },
  explain: ({ last, names, tool }) =>
    `Right after ${quote(last!)} only ${or(names)} may be called, so ${quote(tool)} was not run. Call ${or(names)}.`,
  draw: ({ children, tool }, drawing) => {
    for (const it of children) drawing.edge(drawing.tool(tool), "next", "next", drawing.tool(it))
  }
} satisfies RuleKind<Rule>
