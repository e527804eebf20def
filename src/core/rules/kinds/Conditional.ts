/** `Conditional`: the output of a tool decides what comes next. */
import * as Equal from "effect/Equal"
import * as Schema from "effect/Schema"
import type { Name } from "../../../internal/toolkitTypes.ts"
import { about, AnyTool, named, none, scoped, type ScopeOptions, subject, ValuePath } from "../RuleFields.ts"
import { type Constructor, type RuleKind, typed } from "../RuleKind.ts"
import { or, quote, whom } from "../RuleWords.ts"

const schema = Schema.TaggedStruct("Conditional", {
  tool: AnyTool,
  path: ValuePath,
  cases: Schema.Array(Schema.Struct({ equals: Schema.Json, tool: Schema.NonEmptyString })),
  default: Schema.optionalKey(Schema.NonEmptyString),
  strict: Schema.optionalKey(Schema.Boolean),
  ...scoped
}).annotate({
  description:
    "Per process: the next tool follows from the value at path in the tool's output; no match: default, else anything, with strict nothing"
})

type Rule = typeof schema.Type

export interface Make extends Constructor {
  readonly type: MakeFor<this["Tools"]>
}

type MakeFor<Tools> = (
  tool: Name<Tools> | "*",
  options: ScopeOptions & {
    /** Path inside the encoded output, such as `rows[0].kind`; empty for the whole. */
    readonly path: string
    readonly cases: ReadonlyArray<{ readonly equals: Schema.Json; readonly tool: Name<Tools> }>
    readonly default?: Name<Tools>
    readonly strict?: boolean
  }
) => Rule

const to = (rule: Rule, value: unknown): ReadonlyArray<string> | undefined => {
  const next = rule.cases.find((it) => Equal.equals(it.equals, value))?.tool ?? rule.default
  return next !== undefined ? [next] : rule.strict === true ? [] : undefined
}

export const Conditional = {
  schema,
  scope: "process",
  make: typed<Make>((tool, options) => ({ _tag: "Conditional", tool, ...options })),
  names: (rule) => [
    subject(rule.tool),
    ...rule.cases.map((it, index) => named(`cases[${index}].tool`, it.tool)),
    ...rule.default === undefined ? [] : [named("default", rule.default)]
  ],
  countsOn: none,
  says: (rule, tool) =>
    about(rule, tool, {
      routes: { path: rule.path, values: rule.cases.map((it) => it.equals), to: (value) => to(rule, value) }
    }),
  problems: (rule, { path }) => [
    ...rule.cases.flatMap((it, index) => {
      const first = rule.cases.findIndex((other) => Equal.equals(other.equals, it.equals))
      return first === index ? [] : [{
        path: `${path}.cases[${index}]`,
        problem: `cases[${first}] comes first for the same value`,
        expected: "one case per value"
      }]
    }),
    ...rule.strict === true && rule.default !== undefined
      ? [{
        path: `${path}.strict`,
        problem: "it has no effect where there is a default",
        expected: "either strict or a default"
      }]
      : [],
    ...rule.cases.length === 0 && rule.default === undefined && rule.strict !== true
      ? [{
        path: `${path}.cases`,
        problem: "it is empty, so the rule says nothing",
        expected: "a case, a default or strict"
      }]
      : []
  ],
  sentence: (rule) => {
    const after = `Right after ${whom(rule.tool)}`
    const otherwise = rule.default !== undefined ? quote(rule.default) : rule.strict === true ? "nothing" : "anything"
    if (rule.cases.length === 0) {
      return `${after} ${rule.default === undefined ? otherwise : `only ${otherwise}`} may be called.`
    }
    const where = rule.path === "" ? "its output" : `${quote(rule.path)} in its output`
    const cases = rule.cases.map((it) => `${quote(it.tool)} if it is ${JSON.stringify(it.equals)}`)
    return `${after}, ${where} decides what may be called next: ${[...cases, `otherwise ${otherwise}`].join(", ")}.`
  },
  explain: ({ last, names, tool }) =>
    names.length === 0
      ? `The output of ${quote(last!)} leads to no tool, so ${quote(tool)} was not run. Answer without tools.`
      : `The output of ${quote(last!)} leads to ${or(names)}, so ${quote(tool)} was not run. Call ${or(names)}.`,
  draw: (rule, drawing) => {
    const from = drawing.tool(rule.tool)
    const value = rule.path === "" ? "output" : rule.path
    for (const it of rule.cases) {
      drawing.edge(from, "next", `${value} = ${JSON.stringify(it.equals)}`, drawing.tool(it.tool))
    }
    if (rule.default !== undefined) drawing.edge(from, "next", "otherwise", drawing.tool(rule.default))
  }
} satisfies RuleKind<Rule>
