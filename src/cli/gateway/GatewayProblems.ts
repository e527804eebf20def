/**
 * What is wrong with the names of tools in a config of `tool-executor mcp`: those that no server can have, before one
 * is started, and those that none has, after.
 */
import * as Result from "effect/Result"
import * as Clause from "../../core/gates/Clause.ts"
import * as PermissionPattern from "../../core/gates/PermissionPattern.ts"
import * as Policy from "../../core/gates/Policy.ts"
import * as RuleSet from "../../core/rules/RuleSet.ts"
import type { ToolRule } from "../../core/rules/ToolRule.ts"
import type { ConfigurationError, Problem } from "../../core/vocabulary/ConfigurationError.ts"
import type { Registry } from "../../core/vocabulary/ToolHandlers.ts"

import * as McpServers from "../../mcp/McpServers.ts"
import * as ArtifactTools from "../../tools/folders/ArtifactTools.ts"

/**
 * Gives the tool names in rules, policy and settings that neither a server of the config nor the host (`own`, by
 * default the gateway) can have. A pattern that begins with `*` or `?` may match any tool.
 */
export const ofNames = ({ mcpServers, policy = {}, rules = [], tools = {} }: {
  readonly mcpServers: McpServers.McpServers
  readonly policy?: Policy.Policy
  readonly rules?: ReadonlyArray<ToolRule>
  readonly tools?: Readonly<Record<string, unknown>>
}, own: ReadonlyArray<string> = Object.keys(ArtifactTools.toolkit.tools)): ReadonlyArray<Problem> => {
  const prefixes = Object.entries(mcpServers).map(([name, server]) => McpServers.prefixOf(name, server))
  const known = [...prefixes.map((it) => `${it}*`), ...own]
  const expects = (name: string) => prefixes.some((it) => name.startsWith(it))
  const unknown = (path: string, names: ReadonlyArray<string>) =>
    names.filter((it) => !own.includes(it) && !expects(it)).map((it) => ({
      path,
      problem: `there is no tool ${JSON.stringify(it)}`,
      expected: `one of ${known.join(", ")}`
    }))
  const ofPolicy = Policy.parse(policy, known, (name) => expects(name) || McpServers.mayMatchPrefix(name, prefixes))
  return [
    ...rules.flatMap((rule, index) => unknown(`rules[${index}]`, RuleSet.namesIn([rule]))),
    ...Object.keys(tools).flatMap((name) => unknown(`tools.${name}`, [name])),
    ...Result.isFailure(ofPolicy) ? ofPolicy.failure.map((it) => ({ ...it, path: `policy.${it.path}` })) : []
  ]
}

/**
 * Gives what of a config means nothing for the tools that are there: names that no tool has, which may come yet or be
 * misspelt, and patterns with a target for tools that do not say what their calls are about.
 */
export const meaningless = (
  { policy = {}, rules = [], tools = {} }: {
    readonly policy?: Policy.Policy | undefined
    readonly rules?: ReadonlyArray<ToolRule> | undefined
    readonly tools?: Readonly<Record<string, unknown>> | undefined
  },
  there: Registry
): ReadonlyArray<Pick<Problem, "path" | "problem">> => {
  const isThere = (name: string) => there.has(name)
  const ofPolicy = Policy.parse(policy, Array.from(there.keys()))
  const named = [
    ...rules.flatMap((rule, index) => RuleSet.namesIn([rule]).map((name) => [`rules[${index}]`, name] as const)),
    ...Object.keys(tools).map((name) => [`tools.${name}`, name] as const)
  ]
  return [
    ...named.filter(([, name]) => !isThere(name)).map(([path, name]) => ({
      path,
      problem: `there is no tool ${JSON.stringify(name)}`
    })),
    ...Result.isFailure(ofPolicy) ? ofPolicy.failure.map((it) => ({ ...it, path: `policy.${it.path}` })) : [],
    ...Policy.entriesOf(policy).flatMap(({ entry, index, list }) => aimless(entry, `policy.${list}[${index}]`, there))
  ]
}

/** Gives a mistake that showed when the executor was built as one of the file it is in. */
export const inFile = (file: string, { problems, subject }: ConfigurationError) => ({
  subject: file,
  problems: problems.map((it) => ({ ...it, path: placeOf(subject, it.path) }))
})

/** A pattern with a target that fits no call of any tool it names. */
const aimless = (entry: Clause.Entry, path: string, there: Registry) => {
  const pattern = Result.getOrUndefined(Clause.parse(entry, { tier: "", level: 0, list: "ask", index: 0 }))
  if (pattern?.target === undefined) return []
  const named = Array.from(there.values()).filter((it) => PermissionPattern.names(pattern, it.name))
  return named.length === 0 || named.some((it) => it.declaresTargets)
    ? []
    : [{ path, problem: `${JSON.stringify(pattern.source)} fits no call, since the tool has no targets` }]
}

/** Where the file has what a part of the executor was built from. */
const placeOf = (subject: string, path: string): string => {
  if (subject === "Permissions") return `policy.${path.replace(/^project\./, "")}`
  if (subject === "Agents") return `agents.${path}`
  if (subject === "WorkspaceTools") return `workspace.${path}`
  if (subject === "Cluster") return path === "secret" ? "TOOL_EXECUTOR_CLUSTER_SECRET" : `server.cluster.${path}`
  return subject === "McpTools" ? path.replace(/^servers\b/, "mcpServers") : path
}
