/**
 * Finds all problems of a rule set: malformed values, unknown tools and arguments, cycles, tools that can never run,
 * rules that contradict each other. Pure.
 */
import type * as JsonSchema from "effect/JsonSchema"
import type * as Schema from "effect/Schema"
import { type Problem, validateStrict } from "../vocabulary/ConfigurationError.ts"
import type { RuleSet } from "./RuleIndex.ts"
import type * as Kind from "./RuleKind.ts"
import { kindOf, kinds, type Tag, type ToolRule } from "./RuleKinds.ts"
import { namesIn } from "./RuleNames.ts"
import { unreachable, type Walk } from "./RuleReach.ts"
import type { Own } from "./ToolRule.ts"

/** The facts about a tool that checks of rules use. */
export interface RuleTool {
  /** JSON Schema of its parameters; without it arguments are not checked. */
  readonly jsonSchema?: JsonSchema.JsonSchema | undefined
  /** The rules it brings itself. */
  readonly rules?: ReadonlyArray<Own> | undefined
}

/** A rule and where it stands, such as `rules[3]` or `tools.search.rules[0]`. */
export type Placed = Kind.Placed<ToolRule>

/** Gives the rules of a set and those that its tools bring, each with its place. */
export const placed = (
  rules: ReadonlyArray<unknown>,
  tools: ReadonlyMap<string, RuleTool>
): ReadonlyArray<Kind.Placed<unknown>> => [
  ...rules.map((rule, index) => ({ path: `rules[${index}]`, rule })),
  ...Array.from(tools).flatMap(([tool, it]) =>
    (it.rules ?? []).map((rule, index) => ({ path: `tools.${tool}.rules[${index}]`, rule: { ...rule, tool } }))
  )
]

/**
 * Gives everything that is wrong with a rule set, each with its path; empty if nothing is. The rules may be any JSON.
 * Without known tools, names and arguments cannot be checked; of tools that are only expected, arguments cannot. `walk`
 * tries every order of calls (`RuleWalk`).
 */
export const problems = (
  rules: ReadonlyArray<unknown>,
  known?: ReadonlyMap<string, RuleTool>,
  expects: (tool: string) => boolean = () => false,
  walk?: (set: RuleSet, isComplete: boolean) => Walk | undefined
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
  const schemaOf = (tool: string) => tools?.get(tool)?.jsonSchema
  for (const [index, { path, rule }] of named.entries()) {
    const at = {
      path,
      schemaOf,
      all: named,
      get before() {
        return named.slice(0, index)
      }
    }
    found.push(...kindOf(rule).problems(rule, at))
  }
  const isComplete = known !== undefined && tools?.size === known.size
  const toolNames = names ?? namesIn(named.map((it) => it.rule))
  found.push(...unreachable(named, toolNames, walk === undefined ? undefined : (set) => walk(set, isComplete)))
  const place = ({ path }: Problem) => all.findIndex((it) => path.startsWith(it.path))
  return found.toSorted((a, b) => place(a) - place(b))
}

const tags = Object.keys(kinds)

type RuleKind = Kind.RuleKind<ToolRule>

/** What is wrong with the form of one rule. */
const formProblems = ({ path, rule }: Kind.Placed<unknown>): ReadonlyArray<Problem> => {
  if (typeof rule !== "object" || rule === null || Array.isArray(rule)) {
    return [{ path, problem: `it is ${JSON.stringify(rule)}`, expected: `a rule: an object with _tag, ${oneOf(tags)}` }]
  }
  const tag: unknown = Object.hasOwn(rule, "_tag") ? (rule as Record<string, unknown>)._tag : undefined
  if (typeof tag !== "string" || !Object.hasOwn(kinds, tag)) {
    const problem = tag === undefined ? "it is missing" : `it is ${JSON.stringify(tag)}`
    return [{ path: `${path}._tag`, problem, expected: oneOf(tags) }]
  }
  const { scope } = kinds[tag as Tag] as { readonly scope: RuleKind["scope"] }
  if (typeof scope === "object" && Object.hasOwn(rule, "scope")) {
    return [{ path: `${path}.scope`, problem: `${tag} takes no scope: ${scope.none}`, expected: "the rule without it" }]
  }
  return validateStrict(kinds[tag as Tag].schema as Schema.Top as Schema.Codec<unknown, unknown>, rule, path)
}

const oneOf = (names: ReadonlyArray<string>): string => `one of ${names.join(", ")}`

const nameProblems = (
  { path, rule }: Placed,
  names: ReadonlyArray<string> | undefined
): ReadonlyArray<Problem> => {
  const expected = names === undefined ? "the name of a tool" : `one of ${names.join(", ")}`
  return kindOf(rule).names(rule).flatMap(({ place, tool, wildcard }) => {
    if (tool === "*") {
      return wildcard ? [] : [{ path: `${path}.${place}`, problem: "* cannot be used here", expected }]
    }
    if (names === undefined || names.includes(tool)) return []
    const or = wildcard ? "* or " : ""
    return [{ path: `${path}.${place}`, problem: `there is no tool "${tool}"`, expected: or + expected }]
  })
}
