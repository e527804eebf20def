/**
 * What is wrong with the names of tools in a config of `tool-executor mcp`: those
 * that no server can have, before one is started, and those that none has, after.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import type { ConfigurationError, Problem } from "../ConfigurationError.ts"
import * as McpServers from "../mcp/McpServers.ts"
import * as Policy from "../policy/Policy.ts"
import * as RuleSet from "../policy/RuleSet.ts"
import type { ToolRule } from "../ToolRule.ts"
import * as ArtifactTools from "../tools/ArtifactTools.ts"

/**
 * Gives the names of tools in rules, policy and settings that no server of the
 * config can have. A pattern that begins with `*` or `?` may be about any tool.
 *
 * @category checking
 * @since 0.1.0
 */
export const ofNames = ({ mcpServers, policy = {}, rules = [], tools = {} }: {
  readonly mcpServers: McpServers.McpServers
  readonly policy?: Policy.Policy
  readonly rules?: ReadonlyArray<ToolRule>
  readonly tools?: Readonly<Record<string, unknown>>
}): ReadonlyArray<Problem> => {
  const prefixes = Object.entries(mcpServers).map(([name, server]) => McpServers.prefixOf(name, server))
  const own = Object.keys(ArtifactTools.toolkit.tools)
  const known = [...prefixes.map((it) => `${it}*`), ...own]
  const expects = (name: string) => prefixes.some((it) => name.startsWith(it))
  const unknown = (path: string, names: ReadonlyArray<string>) =>
    names.filter((it) => !own.includes(it) && !expects(it)).map((it) => ({
      path,
      problem: `there is no tool ${JSON.stringify(it)}`,
      expected: `one of ${known.join(", ")}`
    }))
  const ofPolicy = Policy.parse(policy, known, (name) => expects(name) || mayBeginWithAny(name, prefixes))
  return [
    ...rules.flatMap((rule, index) => unknown(`rules[${index}]`, RuleSet.namesIn([rule]))),
    ...Object.keys(tools).flatMap((name) => unknown(`tools.${name}`, [name])),
    ...Result.isFailure(ofPolicy) ? ofPolicy.failure.map((it) => ({ ...it, path: `policy.${it.path}` })) : []
  ]
}

/**
 * Gives the names of tools that are not there though their servers are: they may
 * come yet, or be misspelt.
 *
 * @category checking
 * @since 0.1.0
 */
export const missing = (
  { policy = {}, rules = [], tools = {} }: {
    readonly policy?: Policy.Policy
    readonly rules?: ReadonlyArray<ToolRule>
    readonly tools?: Readonly<Record<string, unknown>>
  },
  there: ReadonlyArray<string>
): ReadonlyArray<Pick<Problem, "path" | "problem">> => {
  const isThere = (name: string) => there.includes(name)
  const ofPolicy = Policy.parse(policy, there)
  const named = [
    ...rules.flatMap((rule, index) => RuleSet.namesIn([rule]).map((name) => [`rules[${index}]`, name] as const)),
    ...Object.keys(tools).map((name) => [`tools.${name}`, name] as const)
  ]
  return [
    ...named.filter(([, name]) => !isThere(name)).map(([path, name]) => ({
      path,
      problem: `there is no tool ${JSON.stringify(name)}`
    })),
    ...Result.isFailure(ofPolicy) ? ofPolicy.failure.map((it) => ({ ...it, path: `policy.${it.path}` })) : []
  ]
}

/**
 * Gives a mistake that showed when the executor was built as one of the file it
 * is in.
 *
 * @category conversions
 * @since 0.1.0
 */
export const inFile = (file: string, { problems, subject }: ConfigurationError) => ({
  subject: file,
  problems: problems.map((it) => ({ ...it, path: placeOf(subject, it.path) }))
})

// Utilities

/** A wildcard within the first characters of a pattern leaves open whose tool it is. */
const mayBeginWithAny = (pattern: string, prefixes: ReadonlyArray<string>): boolean => {
  const wild = pattern.search(/[*?]/)
  return wild !== -1 && prefixes.some((it) => it.startsWith(pattern.slice(0, wild)))
}

/** Where the file has what a part of the executor was built from. */
const placeOf = (subject: string, path: string): string => {
  if (subject === "Permissions") return `policy.${path}`
  return subject === "McpTools" ? path.replace(/^servers\b/, "mcpServers") : path
}
