/** `AllowedOperations`: an argument is limited to some values. */
import * as Equal from "effect/Equal"
import * as Schema from "effect/Schema"
import type { ArgumentsOf, Name } from "../../../internal/toolkitTypes.ts"
import type { Problem } from "../../vocabulary/ConfigurationError.ts"
import { valueProblems } from "../RuleChecks.ts"
import { about, AnyTool, concerns, none, subject } from "../RuleFields.ts"
import { type AnyRule, type Constructor, type Placed, type Placement, type RuleKind, typed } from "../RuleKind.ts"
import { json, list, quote } from "../RuleWords.ts"

const schema = Schema.TaggedStruct("AllowedOperations", {
  tool: AnyTool,
  field: Schema.NonEmptyString,
  allowed: Schema.NonEmptyArray(Schema.Json)
}).annotate({ description: "Static: a top-level argument limited to some values; the model sees only these" })

type Rule = typeof schema.Type

export interface Make extends Constructor {
  readonly type: MakeFor<this["Tools"]>
}

type MakeFor<Tools> = <N extends Name<Tools>, F extends keyof ArgumentsOf<Tools, N> & string>(
  tool: N,
  field: F,
  allowed: readonly [ArgumentsOf<Tools, N>[F], ...ReadonlyArray<ArgumentsOf<Tools, N>[F]>]
) => Rule

const allows = ({ allowed }: Rule, value: unknown): boolean => allowed.some((it) => Equal.equals(it, value))

const isOperations = (it: Placed): it is Placed<Rule> => it.rule._tag === "AllowedOperations"

/** Two rules about the same argument have to agree on some value; `*` is also about each tool. */
const disagreement = (rule: Rule, { before, path }: Placement): ReadonlyArray<Problem> => {
  const others = before.filter(isOperations).filter(({ rule: it }) =>
    it.field === rule.field && (it.tool === rule.tool || it.tool === "*" || rule.tool === "*")
  )
  for (const tool of new Set([rule, ...others.map((it) => it.rule)].map((it) => it.tool))) {
    const same = others.filter((it) => concerns(it.rule.tool, tool))
    if (!concerns(rule.tool, tool) || same.length === 0) continue
    if (rule.allowed.some((value) => same.every((it) => allows(it.rule, value)))) continue
    const clash = same.find((it) => !rule.allowed.some((value) => allows(it.rule, value))) ?? same[0]!
    return [{
      path,
      problem: `it has no value in common with what the other rule allows (${clash.path})`,
      expected: "values in common"
    }]
  }
  return []
}

const sentence = ({ allowed, field, tool }: Rule): string => {
  const who = tool === "*" ? `Every tool that takes ${quote(field)}` : quote(tool)
  return `${who} may be called only with ${quote(field)} set to ${list(json(allowed), "or")}.`
}

export const AllowedOperations = {
  schema,
  scope: { none: "it limits the arguments of every call and counts nothing" },
  // the compiler has checked the values against the parameters of the tool
  make: typed<Make>((tool, field, allowed) => ({ _tag: "AllowedOperations", tool, field, allowed }) as Rule),
  names: ({ tool }) => [subject(tool)],
  countsOn: none,
  says: (rule, tool) =>
    about(rule, tool, { argument: { field: rule.field, allowed: rule.allowed, ifTaken: rule.tool === "*" } }),
  problems: (rule, at) => [
    ...valueProblems(
      at.schemaOf(rule.tool),
      rule,
      rule.allowed,
      (index) => index === undefined ? `${at.path}.field` : `${at.path}.allowed[${index}]`
    ),
    ...disagreement(rule, at)
  ],
  sentence,
  explain: ({ rule, tool }) => `${sentence({ ...rule, tool })} Correct ${quote(rule.field)} and call it again.`,
  draw: ({ allowed, field, tool }, drawing) => drawing.note(tool, `${field}: ${json(allowed).join(", ")}`)
} satisfies RuleKind<Rule>

/** Gives the first rule that does not let a tool be called with this value. */
export const forbidding = (
  all: ReadonlyArray<Placed<AnyRule>>,
  tool: string,
  field: string,
  value: unknown
): Placed | undefined =>
  all.filter(isOperations).find(({ rule }) => concerns(rule.tool, tool) && rule.field === field && !allows(rule, value))
