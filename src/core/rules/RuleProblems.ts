/**
 * What is wrong with a rule set, all of it at once: values of the wrong form,
 * names that are not tools, arguments that no tool has, cycles, tools that can
 * never run, rules that contradict each other. Pure.
 *
 * @since 0.1.0
 */
import * as Equal from "effect/Equal"
import type * as JsonSchema from "effect/JsonSchema"
import type * as Schema from "effect/Schema"
import * as JsonSchemas from "../../internal/json-schema/index.ts"
import { type Problem, validateStrict } from "../vocabulary/ConfigurationError.ts"
import { mentions, namesIn, subjectsOf } from "./RuleNames.ts"
import { traps, unreachable } from "./RuleReach.ts"
import * as ToolRule from "./ToolRule.ts"

/**
 * What is known of a tool when rules are checked.
 *
 * @category models
 * @since 0.1.0
 */
export interface RuleTool {
  /** JSON Schema of its parameters; without it arguments are not checked. */
  readonly jsonSchema?: JsonSchema.JsonSchema | undefined
  /** The rules it brings itself. */
  readonly rules?: ReadonlyArray<ToolRule.Own> | undefined
}

/**
 * A rule and where it stands, such as `rules[3]` or `tools.search.rules[0]`.
 *
 * @category models
 * @since 0.1.0
 */
export interface Placed<R = ToolRule.ToolRule> {
  readonly path: string
  readonly rule: R
}

/**
 * Gives the rules of a set and those that its tools bring, each with its place.
 *
 * @category constructors
 * @since 0.1.0
 */
export const placed = (
  rules: ReadonlyArray<unknown>,
  tools: ReadonlyMap<string, RuleTool>
): ReadonlyArray<Placed<unknown>> => [
  ...rules.map((rule, index) => ({ path: `rules[${index}]`, rule })),
  ...Array.from(tools).flatMap(([tool, it]) =>
    (it.rules ?? []).map((rule, index) => ({ path: `tools.${tool}.rules[${index}]`, rule: { ...rule, tool } }))
  )
]

/**
 * Gives everything that is wrong with a rule set, each with its path; empty if
 * nothing is. The rules may be any JSON. Without known tools, names and arguments
 * cannot be checked; of tools that are only expected, arguments cannot.
 *
 * @category checking
 * @since 0.1.0
 */
export const problems = (
  rules: ReadonlyArray<unknown>,
  known?: ReadonlyMap<string, RuleTool>,
  expects: (tool: string) => boolean = () => false
): ReadonlyArray<Problem> => {
  const found: Array<Problem> = []
  const good: Array<Placed> = []
  const all = placed(rules, known ?? new Map())
  for (const it of all) {
    const wrong = formProblems(it)
    if (wrong.length === 0) good.push(it as Placed)
    found.push(...wrong)
  }
  const tools = known === undefined ? undefined : new Map(known)
  for (const name of namesIn(good.map((it) => it.rule))) {
    if (tools !== undefined && !tools.has(name) && expects(name)) tools.set(name, {})
  }
  const names = tools === undefined ? undefined : Array.from(tools.keys())
  const named = good.filter((it) => {
    const wrong = nameProblems(it, names)
    found.push(...wrong)
    return wrong.length === 0
  })
  for (const it of named) found.push(...ownProblems(it, tools))
  found.push(...pairProblems(named))
  const isComplete = known !== undefined && tools?.size === known.size
  found.push(...unreachable(named, names ?? namesIn(named.map((it) => it.rule)), isComplete))
  const place = ({ path }: Problem) => all.findIndex((it) => path.startsWith(it.path))
  return found.toSorted((a, b) => place(a) - place(b))
}

/**
 * Gives what a rule set in which nothing is wrong can be led into: an order of calls
 * after which something that it requires can never succeed any more.
 *
 * @category checking
 * @since 0.1.0
 */
export const warnings = (
  rules: ReadonlyArray<ToolRule.ToolRule>,
  known?: ReadonlyMap<string, RuleTool>
): ReadonlyArray<Problem> => {
  const all = placed(rules, known ?? new Map()) as ReadonlyArray<Placed>
  const named = namesIn(all.map((it) => it.rule))
  const names = new Set([...known?.keys() ?? [], ...named])
  return traps(all, Array.from(names), known !== undefined && names.size === known.size)
}

// Utilities

const tags = Object.keys(ToolRule.kinds)

/** What can be said of one rule alone, without knowing what it means. */
const formProblems = ({ path, rule }: Placed<unknown>): ReadonlyArray<Problem> => {
  if (typeof rule !== "object" || rule === null || Array.isArray(rule)) {
    return [{ path, problem: `it is ${JSON.stringify(rule)}`, expected: `a rule: an object with _tag, ${oneOf(tags)}` }]
  }
  const tag: unknown = Object.hasOwn(rule, "_tag") ? (rule as Record<string, unknown>)._tag : undefined
  if (typeof tag !== "string" || !Object.hasOwn(ToolRule.kinds, tag)) {
    const problem = tag === undefined ? "it is missing" : `it is ${JSON.stringify(tag)}`
    return [{ path: `${path}._tag`, problem, expected: oneOf(tags) }]
  }
  const kind = ToolRule.kinds[tag as ToolRule.Tag]
  return validateStrict(kind as Schema.Top as Schema.Codec<unknown, unknown>, rule, path)
}

const oneOf = (names: ReadonlyArray<string>): string => `one of ${names.join(", ")}`

const nameProblems = (
  { path, rule }: Placed,
  names: ReadonlyArray<string> | undefined
): ReadonlyArray<Problem> => {
  const expected = names === undefined ? "the name of a tool" : `one of ${names.join(", ")}`
  const wrong = (place: string, name: string, wildcard: boolean): ReadonlyArray<Problem> => {
    if (name === "*") {
      return wildcard ? [] : [{ path: `${path}.${place}`, problem: "* cannot be used here", expected }]
    }
    if (names === undefined || names.includes(name)) return []
    const or = wildcard ? "* or " : ""
    return [{ path: `${path}.${place}`, problem: `there is no tool "${name}"`, expected: or + expected }]
  }
  const wildcard = rule._tag !== "StartConstraint" && rule._tag !== "Periodic"
  return [
    ...subjectsOf(rule).flatMap((name) => wrong("tool", name, wildcard)),
    ...mentions(rule).flatMap(([place, name]) => wrong(place, name, false))
  ]
}

/** What is wrong with one rule, now that its names are right. */
const ownProblems = (
  { path, rule }: Placed,
  tools: ReadonlyMap<string, RuleTool> | undefined
): ReadonlyArray<Problem> => {
  const problem = (place: string, problem: string, expected: string): Problem => ({
    path: `${path}.${place}`,
    problem,
    expected
  })
  const schemaOf = (tool: string) => tools?.get(tool)?.jsonSchema
  switch (rule._tag) {
    case "ExclusiveGroup":
      return new Set(rule.tools).size > 1 ? [] : [problem("tools", "it lists only one tool", "two tools or more")]
    case "RequiredBeforeExit":
      return rule.when?.includes(rule.tool) === true
        ? [problem("when", `it waits for "${rule.tool}" itself, so it never holds`, "other tools")]
        : []
    case "Conditional":
      return [
        ...rule.cases.flatMap((it, index) => {
          const first = rule.cases.findIndex((other) => Equal.equals(other.equals, it.equals))
          return first === index
            ? []
            : [problem(`cases[${index}]`, `cases[${first}] comes first for the same value`, "one case per value")]
        }),
        ...rule.strict === true && rule.default !== undefined
          ? [problem("strict", "it has no effect where there is a default", "either strict or a default")]
          : [],
        ...rule.cases.length === 0 && rule.default === undefined && rule.strict !== true
          ? [problem("cases", "it is empty, so the rule says nothing", "a case, a default or strict")]
          : []
      ]
    case "AllowedOperations": {
      const schema = schemaOf(rule.tool)
      return schema === undefined ?
        [] :
        valueProblems(
          schema,
          rule.tool,
          rule.field,
          rule.allowed,
          (place) => place === undefined ? `${path}.field` : `${path}.allowed[${place}]`
        )
    }
    case "ChildTools":
      return Object.entries(rule.prefilled ?? {}).flatMap(([child, values]) => {
        if (!rule.children.includes(child)) {
          return [problem(`prefilled.${child}`, "it is not among the children", `one of ${rule.children.join(", ")}`)]
        }
        const schema = schemaOf(child)
        return schema === undefined ?
          [] :
          Object.entries(values).flatMap(([field, value]) =>
            valueProblems(schema, child, field, [value], () => `${path}.prefilled.${child}.${field}`)
          )
      })
    case "Periodic": {
      const schema = schemaOf(rule.tool)
      if (schema === undefined || JsonSchemas.fits(schema, schema, rule.params ?? {})) return []
      return [
        problem("params", `they do not match the parameters of "${rule.tool}"`, "the arguments it is called with")
      ]
    }
    default:
      return []
  }
}

const valueProblems = (
  schema: JsonSchema.JsonSchema,
  tool: string,
  name: string,
  values: ReadonlyArray<unknown>,
  pathOf: (index: number | undefined) => string
): ReadonlyArray<Problem> => {
  const parts = JsonSchemas.field(schema, name)
  if (parts === undefined) {
    return [{
      path: pathOf(undefined),
      problem: `"${tool}" has no parameter "${name}"`,
      expected: `one of its parameters`
    }]
  }
  return values.flatMap((value, index) =>
    parts.length === 0 || parts.some((part) => JsonSchemas.fits(schema, part, value)) ? [] : [{
      path: pathOf(index),
      problem: `${JSON.stringify(value)} is not a valid "${name}" of "${tool}"`,
      expected: "a value that its parameters allow"
    }]
  )
}

const allows = ({ allowed }: ToolRule.Of<"AllowedOperations">, value: unknown): boolean =>
  allowed.some((it) => Equal.equals(it, value))

/** Rules that cannot all be meant. */
const pairProblems = (rules: ReadonlyArray<Placed>): ReadonlyArray<Problem> => {
  const found: Array<Problem> = []
  const seen = new Map<string, Placed>()
  const meet = (key: string, it: Placed, clash: (other: ToolRule.ToolRule) => string | undefined, expected: string) => {
    const other = seen.get(key)
    if (other === undefined) {
      seen.set(key, it)
      return
    }
    const problem = clash(other.rule)
    if (problem !== undefined) found.push({ path: it.path, problem: `${problem} (${other.path})`, expected })
  }
  const operations = rules.flatMap(({ path, rule }) => rule._tag === "AllowedOperations" ? [{ path, rule }] : [])
  for (const [index, { path, rule }] of operations.entries()) {
    // a rule about every tool is also about this one; two about the same have to agree on some value
    const others = operations.slice(0, index).filter(({ rule: other }) =>
      other.field === rule.field && (other.tool === rule.tool || other.tool === "*" || rule.tool === "*")
    )
    for (const tool of new Set([rule, ...others.map((it) => it.rule)].map((it) => it.tool))) {
      const same = others.filter(({ rule: other }) => ToolRule.concerns(other, tool))
      const before = rule.allowed.filter((value) => same.every((it) => allows(it.rule, value)))
      if (!ToolRule.concerns(rule, tool) || same.length === 0 || before.length > 0) continue
      const clash = same.find((it) => !rule.allowed.some((value) => allows(it.rule, value))) ?? same[0]!
      found.push({
        path,
        problem: `it has no value in common with what the other rule allows (${clash.path})`,
        expected: "values in common"
      })
      break
    }
  }
  for (const it of rules) {
    const { rule } = it
    if (rule._tag === "NeverDedupe" || rule._tag === "AlwaysDedupe") {
      meet(
        `dedupe ${rule.tool}`,
        it,
        (other) => other._tag === rule._tag ? undefined : `it contradicts ${other._tag} of the same tool`,
        "one of the two"
      )
    }
    if (rule._tag !== "ChildTools") continue
    for (const [child, values] of Object.entries(rule.prefilled ?? {})) {
      for (const [field, value] of Object.entries(values)) {
        const place = { path: `${it.path}.prefilled.${child}.${field}`, rule }
        meet(`prefilled ${child} ${field}`, place, (other) => {
          const that = other._tag === "ChildTools" ? other.prefilled?.[child]?.[field] : undefined
          return Equal.equals(that, value) ? undefined : "another rule sets it to a different value"
        }, "one value: it holds in every call of the child")
        const limit = rules.find(({ rule: other }) =>
          other._tag === "AllowedOperations" && ToolRule.concerns(other, child) && other.field === field &&
          !other.allowed.some((it) => Equal.equals(it, value))
        )
        if (limit !== undefined) {
          found.push({
            path: place.path,
            problem: `it is ${JSON.stringify(value)}, which ${limit.path} does not allow`,
            expected: "an allowed value"
          })
        }
      }
    }
  }
  return found
}
