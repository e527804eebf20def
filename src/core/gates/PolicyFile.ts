/**
 * Files that hold rules and a policy besides other things: read so that every problem is listed, including those in
 * rules and patterns.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as RuleSet from "../rules/RuleSet.ts"
import { ConfigurationError, decodeStrict, type Problem, validateStrict } from "../vocabulary/ConfigurationError.ts"
import * as Policy from "./Policy.ts"

/**
 * Reads what a person wrote, with a rule set under the key `rules` and a policy under the key `policy`. `subject` names
 * the file, `toolsOf` gives the tools that it is for; where they are not known yet, their names are not checked.
 */
export const decode = <A, I>(
  schema: Schema.Codec<A, I>,
  subject: string,
  toolsOf: (input: unknown) => ReadonlyMap<string, RuleSet.RuleTool> | undefined
) => {
  const decode = decodeStrict(schema, subject)
  return (input: unknown): Effect.Effect<A, ConfigurationError> => {
    const tools = toolsOf(input)
    const rules = own(input, "rules")
    const inParts = [
      ...Array.isArray(rules) ? RuleSet.problems(rules, tools) : [],
      ...problemsOf(own(input, "policy"), tools === undefined ? undefined : Array.from(tools.keys()))
    ]
    return Effect.matchEffect(decode(input), {
      onFailure: (error) =>
        new ConfigurationError({
          subject,
          // more can be said of a wrong rule than that it fits no member of the union
          problems: [
            ...error.problems.filter((it) => !Array.isArray(rules) || !it.path.startsWith("rules[")),
            ...inParts
          ]
        }),
      onSuccess: (value) =>
        inParts.length === 0 ? Effect.succeed(value) : new ConfigurationError({ subject, problems: inParts })
    })
  }
}

/** Reads a file that is a policy itself. */
export const decodePolicy = <A extends Policy.Policy, I>(schema: Schema.Codec<A, I>, subject: string) => {
  const decode = decodeStrict(schema, subject)
  return (input: unknown): Effect.Effect<A, ConfigurationError> =>
    Effect.flatMap(decode(input), (value) => {
      const problems = mistakesIn(value, undefined)
      return problems.length === 0 ? Effect.succeed(value) : new ConfigurationError({ subject, problems })
    })
}

/** Gives what is wrong with the patterns of a policy that has the right form. */
export const problemsOf = (
  policy: unknown,
  tools: ReadonlyArray<string> | undefined
): ReadonlyArray<Problem> => {
  if (policy === undefined || validateStrict(Policy.Policy, policy, "").length > 0) return []
  return mistakesIn(policy as Policy.Policy, tools).map((it) => ({ ...it, path: `policy.${it.path}` }))
}

const mistakesIn = (policy: Policy.Policy, tools: ReadonlyArray<string> | undefined): ReadonlyArray<Problem> =>
  Result.match(Policy.parse(policy, tools), { onFailure: (problems) => problems, onSuccess: () => [] })

const own = (value: unknown, key: string): unknown =>
  typeof value === "object" && value !== null && Object.hasOwn(value, key)
    ? (value as Record<string, unknown>)[key]
    : undefined
