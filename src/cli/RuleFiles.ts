/** Files that hold rules: a plain array, rules with the names of their tools, a scenario, or a config of `run`. */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as RuleSet from "../core/rules/RuleSet.ts"
import type { ToolRule } from "../core/rules/ToolRule.ts"
import { escape } from "../internal/escape.ts"
import * as Scenario from "../testing/Scenario.ts"
import { type CliFailure, wrong } from "./CliFailure.ts"
import * as Config from "./Config.ts"
import * as Files from "./Files.ts"

/** The rules of a file, not checked yet, and the tools they are for. */
export interface RuleFile {
  readonly rules: ReadonlyArray<unknown>
  /** Absent if the file does not say: then the names in the rules are the tools. */
  readonly tools: ReadonlyMap<string, RuleSet.RuleTool> | undefined
}

/** Reads a file; fails with exit code 2 if there are no rules in it. */
export const read = (path: string): Effect.Effect<RuleFile, CliFailure, FileSystem.FileSystem> =>
  Effect.gen(function*() {
    const input = yield* Effect.flatMap(Files.read(path), (text) => Files.parseJson(text, path))
    const rules = Array.isArray(input) ? input : own(input, "rules")
    if (!Array.isArray(rules)) return yield* wrong(`${escape(path)}: the file contains no rules. Expected: ${expected}`)
    return { rules, tools: Array.isArray(input) ? undefined : toolsOf(input) }
  })

/** Creates the rule set of a file that has no problems. */
export const toSet = ({ rules, tools }: RuleFile): RuleSet.RuleSet => {
  const checked = rules as ReadonlyArray<ToolRule>
  return RuleSet.make(checked, tools?.keys() ?? RuleSet.namesIn(checked))
}

const expected =
  "an array of rules, { \"tools\": [names], \"rules\": [rules] }, a scenario, or a config of tool-executor run"

const own = (value: unknown, key: string): unknown =>
  typeof value === "object" && value !== null && Object.hasOwn(value, key)
    ? (value as Record<string, unknown>)[key]
    : undefined

const toolsOf = (input: unknown): ReadonlyMap<string, RuleSet.RuleTool> | undefined => {
  const tools = own(input, "tools")
  if (Array.isArray(tools)) return new Map(tools.map((name) => [String(name), {}]))
  return own(input, "script") === undefined ? Config.tools : Scenario.toolsOf(input)
}
