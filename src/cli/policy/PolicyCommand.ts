/** `tool-executor policy`: looks at policies without running anything. */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as KnownArguments from "../../core/gates/KnownArguments.ts"
import * as ToolPolicy from "../../core/gates/ToolPolicy.ts"
import { decodeStrict } from "../../core/vocabulary/ConfigurationError.ts"
import { escape } from "../../internal/escape.ts"
import * as PolicyQuestion from "../../policy/PolicyQuestion.ts"
import { describe, incomplete, wrong } from "../CliFailure.ts"
import * as Files from "../Files.ts"
import * as Flags from "../Flags.ts"
import * as PolicyCalls from "./PolicyCalls.ts"
import * as PolicyDiffCommand from "./PolicyDiffCommand.ts"
import * as PolicyInput from "./PolicyInput.ts"
import * as Lines from "./PolicyLines.ts"
import * as PolicyReplayCommand from "./PolicyReplayCommand.ts"
import * as PolicySuggestCommand from "./PolicySuggestCommand.ts"
import * as PolicyTools from "./PolicyTools.ts"

const json = Flags.toggle("json", "Print JSON")

/** The policy of the flags, and the tools in the root, where the files of the policy are protected. */
const load = Effect.fnUntraced(function*(given: Parameters<typeof PolicyInput.load>[0], root: string) {
  const { files, policy, tiers } = yield* PolicyInput.load(given)
  const tools = yield* PolicyCalls.registry(root, files)
  // which arguments a command has depends on its sandbox
  const known = Array.from(tools.values()).filter(({ name }) => name !== "run_command")
  for (const { expected, path, problem } of KnownArguments.problems(tiers, known)) {
    yield* Files.printError(escape(`The condition ${path} never holds: ${problem}, expected ${expected}.`) + "\n")
  }
  return { policy, tools }
})

const explain = Command.make(
  "explain",
  {
    call: Argument.String("CALL").pipe(
      Argument.withDescription(
        "The call: tool(target), such as \"run_command(npm test)\", or JSON: { tool, args?, targets?, roles?, sandbox?, needsApproval? }"
      )
    ),
    ...PolicyInput.flags,
    json
  },
  Effect.fnUntraced(function*({ call: text, json, root, ...given }) {
    const { policy, tools } = yield* load(given, root)
    const call = yield* PolicyCalls.read(text)
    const judge = PolicyQuestion.judge(policy)
    const explained = (yield* PolicyCalls.questions(call, tools)).map((question) => {
      const { decision, steps } = ToolPolicy.explain(policy, question.tool, question)
      const { clause } = judge(question)
      return { question, decision, steps: [...steps.slice(0, -1), { ...steps.at(-1)!, clause }] }
    })
    if (json) {
      return yield* Files.printJson(explained.map(({ decision, question, steps }) => ({
        tool: question.tool.name,
        args: question.args,
        targets: question.targets,
        roles: question.roles,
        outcome: PolicyQuestion.outcomeOf(decision),
        steps: steps.map(({ clause, ...it }) => ({
          ...it,
          ...clause === undefined ? {} : { tier: clause.tier, list: clause.list, index: clause.index }
        })),
        ...explained.length === 1 ? {} : { nature: PolicyQuestion.natureOf(question.tool) }
      })))
    }
    const runsConfined = ({ decision, question }: typeof explained[number]) =>
      decision._tag !== "Allow" && question.sandbox === undefined && PolicyTools.mayBeConfined(question.tool.name) &&
      judge({ ...question, sandbox: PolicyCalls.confined("none") }).outcome === "allow"
    const alike = new Map<string, typeof explained>()
    for (const it of explained) {
      const key = JSON.stringify(it.steps)
      alike.set(key, [...alike.get(key) ?? [], it])
    }
    yield* Files.print(
      [
        Lines.callOf(explained[0]!.question),
        ...Array.from(alike.values()).flatMap((all) => [
          ...alike.size === 1 ? [] : ["", Lines.natureLine(all.map(({ question }) => question))],
          ...Lines.stepLines(all[0]!.steps),
          ...Lines.lockedLines(policy, all[0]!.question),
          ...all.some(runsConfined) ? [Lines.confinedLine] : [],
          `The call ${Lines.wordsOf[PolicyQuestion.outcomeOf(all[0]!.decision)]}.`
        ])
      ].join("\n")
    )
  }, Effect.scoped)
).pipe(
  Command.withDescription(
    "Prints step by step what a policy says of a call, with the tier and the clause that decide. Nothing runs; paths are " +
      "looked up in the root. Of a tool that the command does not have, give the target; every nature that it may have is " +
      "decided. Exit codes: 0 printed, 2 invalid usage or file."
  ),
  Command.withShortDescription("Print step by step how a policy decides a call"),
  Command.withExamples([
    {
      command: "tool-executor policy explain \"run_command(npm test)\" --policy policy.json",
      description: "Why a command runs, or does not"
    }
  ])
)

const Case = Schema.Struct({
  name: Schema.optionalKey(Schema.String),
  call: PolicyCalls.Call,
  roles: Schema.optionalKey(Schema.Array(Schema.String)),
  expect: Schema.Literals(["allow", "ask", "deny"])
})

const Cases = Schema.Struct({
  $schema: Schema.optionalKey(Schema.String),
  cases: Schema.Array(Case)
})

const test = Command.make(
  "test",
  {
    file: Argument.String("FILE").pipe(
      Argument.withDescription("JSON: { cases: [{ call, expect: \"allow\" | \"ask\" | \"deny\", roles?, name? }] }")
    ),
    ...PolicyInput.flags
  },
  Effect.fnUntraced(function*({ file, root, ...given }) {
    const { policy, tools } = yield* load(given, root)
    const input = yield* Files.readJson(file)
    const { cases } = yield* Effect.mapError(decodeStrict(Cases, file)(input), (error) => wrong(describe(error)))
    const judge = PolicyQuestion.judge(policy)
    const failed = yield* Effect.forEach(cases, (it) =>
      Effect.map(
        PolicyCalls.questions(it.call, tools),
        (questions) => ({
          it,
          isOneOfSeveral: questions.length > 1,
          wrong: questions.map((question) => it.roles === undefined ? question : { ...question, roles: it.roles })
            .map((question) => ({ question, verdict: judge(question) }))
            .filter(({ verdict }) => verdict.decision._tag.toLowerCase() !== it.expect)
        })
      ))
    const failures = failed.filter(({ wrong }) => wrong.length > 0)
    yield* Files.print(
      [
        ...failures.flatMap(({ isOneOfSeveral, it, wrong }) => [
          escape(it.name ?? (typeof it.call === "string" ? it.call : JSON.stringify(it.call))),
          `- ${it.expect}`,
          ...wrong.map(({ question, verdict }) =>
            `+ ${verdict.decision._tag.toLowerCase()}  ${Lines.callOf(question)}: ${Lines.reasonOf(verdict)}` +
            (isOneOfSeveral ? ` (if it ${PolicyQuestion.natureOf(question.tool)})` : "")
          ),
          ""
        ]),
        `${cases.length} ${cases.length === 1 ? "case" : "cases"}, ${failures.length} failed`
      ].join("\n")
    )
    if (failures.length > 0) return yield* incomplete
  }, Effect.scoped)
).pipe(
  Command.withDescription(
    "Decides the calls of a file by a policy and compares them with what is expected. A case about a tool that the " +
      "command does not have holds if it holds for every nature that the tool may have. Exit codes: 0 all hold, 1 some do " +
      "not, 2 invalid usage or file."
  ),
  Command.withShortDescription("Check a policy against cases in a file")
)

/** The command with its subcommands. */
export const command = Command.make("policy").pipe(
  Command.withDescription("Looks at policies without running anything"),
  Command.withShortDescription("Explain, compare and test policies, and learn from a journal"),
  Command.withSubcommands([
    explain,
    PolicyDiffCommand.command,
    test,
    PolicyReplayCommand.command,
    PolicySuggestCommand.command
  ])
)
