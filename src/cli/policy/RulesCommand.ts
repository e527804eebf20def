/** `tool-executor rules`: looks at a rule set without running anything. */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as RuleSet from "../../core/rules/RuleSet.ts"
import type { ToolRule } from "../../core/rules/ToolRule.ts"
import { ConfigurationError } from "../../core/vocabulary/ConfigurationError.ts"
import { escape } from "../../internal/escape.ts"
import * as RuleWalk from "../../policy/RuleWalk.ts"
import * as Scenario from "../../testing/Scenario.ts"
import { CliFailure, describe, wrong } from "../CliFailure.ts"
import * as Config from "../Config.ts"
import * as Files from "../Files.ts"

const file = Argument.String("FILE").pipe(
  Argument.withDescription(
    "JSON: an array of rules, { tools: [names], rules }, a scenario, or a config of run. " +
      "Without tools, the names in the rules count as the tools"
  )
)

/** The rule set of a file; fails with exit code 1 and everything that is wrong with it. */
const load = Effect.fnUntraced(function*(path: string) {
  const read = yield* readRules(path)
  const problems = RuleWalk.problems(read.rules, read.tools)
  if (problems.length === 0) return toSet(read)
  const explanation = describe(new ConfigurationError({ subject: path, problems }))
  return yield* new CliFailure({ code: 1, explanation })
})

const check = Command.make(
  "check",
  { file },
  ({ file }) =>
    Effect.flatMap(load(file), (set) => {
      const warnings = RuleWalk.warnings(set.rules, new Map(set.tools.map((it) => [it, {}])))
      return Files.print(
        [
          `${escape(file)}: ${count(set.rules.length, "rule")} for ${count(set.tools.length, "tool")}, no problems`,
          ...warnings.map(({ expected, path, problem }) => escape(`  warning, ${path}: ${problem}; better ${expected}`))
        ].join("\n")
      )
    })
).pipe(
  Command.withDescription(
    "Lists every problem of a rule set: invalid values, unknown tools and arguments, cycles, tools that can never run, " +
      "contradictions. Warns about an order of calls that makes a required call impossible. Exit codes: 0 no problems, " +
      "1 problems, 2 unreadable file."
  ),
  Command.withShortDescription("List the problems of a rule set")
)

const explain = Command.make("explain", { file }, ({ file }) =>
  Effect.flatMap(load(file), (set) => {
    const first = RuleSet.allowedNext(set, RuleSet.history(set, []))
      .filter((tool) => set.forTool(tool).maxCalls.every(({ max }) => max > 0))
    const begin = first.length === set.tools.length ? "any tool" : first.length === 0 ? "no tool" : first.join(", ")
    return Files.print([...sentences(set), "", `Tools that may be called first: ${begin}`].map(escape).join("\n"))
  })).pipe(
    Command.withDescription(
      "Prints one sentence per rule, as models read it, and the tools that may be called first. Exit codes as for check."
    ),
    Command.withShortDescription("Print a rule set as sentences")
  )

const graph = Command.make(
  "graph",
  { file },
  ({ file }) => Effect.flatMap(load(file), (set) => Files.print(RuleSet.graph(set)))
).pipe(
  Command.withDescription(
    "Prints the order that a rule set enforces as a Mermaid flowchart, which Markdown viewers can render. " +
      "Exit codes as for check."
  ),
  Command.withShortDescription("Print the order of a rule set as a Mermaid flowchart"),
  Command.withExamples([
    { command: "tool-executor rules graph rules.json > rules.mmd", description: "Store the flowchart" }
  ])
)

/** The command with its subcommands. */
export const command = Command.make("rules").pipe(
  Command.withDescription("Inspects a rule set without running anything"),
  Command.withShortDescription("Check, explain or draw a rule set"),
  Command.withSubcommands([check, explain, graph])
)

const count = (n: number, what: string): string => `${n} ${what}${n === 1 ? "" : "s"}`

/** Sentences for models, and those that only concern the host. */
const sentences = (set: RuleSet.RuleSet): ReadonlyArray<string> => [
  ...RuleSet.describe(set),
  ...set.periodic.map(({ rule }) => RuleSet.sentence(rule))
]

/** The rules of a file, not checked yet, and the tools they are for. */
interface RuleFile {
  readonly rules: ReadonlyArray<unknown>
  /** Absent if the file does not say: then the names in the rules are the tools. */
  readonly tools: ReadonlyMap<string, RuleSet.RuleTool> | undefined
}

/** Reads a file; fails with exit code 2 if there are no rules in it. */
const readRules = (path: string): Effect.Effect<RuleFile, CliFailure, FileSystem.FileSystem> =>
  Effect.gen(function*() {
    const input = yield* Files.readJson(path)
    const rules = Array.isArray(input) ? input : own(input, "rules")
    if (!Array.isArray(rules)) {
      return yield* wrong(`${escape(path)}: the file contains no rules. Expected: ${expectedRules}`)
    }
    return { rules, tools: Array.isArray(input) ? undefined : toolsOf(input) }
  })

/** Creates the rule set of a file that has no problems. */
const toSet = ({ rules, tools }: RuleFile): RuleSet.RuleSet => {
  const checked = rules as ReadonlyArray<ToolRule>
  return RuleSet.make(checked, tools?.keys() ?? RuleSet.namesIn(checked))
}

const expectedRules =
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
