/** `tool-executor policy diff`: what two policies decide differently. */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { escape } from "../../internal/escape.ts"
import * as PolicyDiff from "../../policy/PolicyDiff.ts"
import * as PolicyQuestion from "../../policy/PolicyQuestion.ts"
import { incomplete, wrong } from "../CliFailure.ts"
import * as Files from "../Files.ts"
import * as Flags from "../Flags.ts"
import * as PolicyCalls from "./PolicyCalls.ts"
import * as PolicyInput from "./PolicyInput.ts"
import * as Lines from "./PolicyLines.ts"
import * as PolicyTools from "./PolicyTools.ts"

const policy = (name: string) =>
  Argument.String(name).pipe(Argument.withDescription(`A policy: ${PolicyInput.description}`))

export const command = Command.make(
  "diff",
  {
    from: policy("A"),
    to: policy("B"),
    only: Flag.Literals("only", ["looser", "stricter"]).pipe(
      Flag.withDescription("Only calls about which B is looser, or stricter, than A"),
      Flag.optional
    ),
    json: Flags.toggle("json", "Print JSON")
  },
  Effect.fnUntraced(function*({ from, json, only, to }) {
    const tools = PolicyTools.of(yield* PolicyCalls.registry(".", []))
    const found = PolicyDiff.diff(yield* PolicyInput.loadFile(from), yield* PolicyInput.loadFile(to), {
      tools,
      isOpen: true
    })
    const differences = found.differences.filter((it) =>
      Option.isNone(only) || PolicyDiff.isLooser(it) === (only.value === "looser")
    )
    if (json) yield* Files.printJson({ differences: differences.map(dataOf), undecided: found.undecided })
    else if (differences.length > 0) yield* Files.print(linesOf(differences, from, to).join("\n"))
    if (found.undecided.length > 0) {
      return yield* wrong(
        found.undecided.map(({ problem, tool }) =>
          escape(`Calls of ${tool === "*" ? "other tools" : tool} are not compared: ${problem}. Use fewer wildcards.`)
        ).join("\n")
      )
    }
    if (differences.length > 0) return yield* incomplete
    if (!json) yield* Files.print("No call is decided differently.")
  }, Effect.scoped)
).pipe(
  Command.withDescription(
    "Lists which kinds of calls may run under one policy and not under the other, which need approval, which are denied, " +
      "each with an example and the clause that decides. What is not listed is decided alike. Exit codes: 0 no " +
      "difference, 1 differences, 2 invalid usage or file, or policies with too many overlapping wildcards."
  ),
  Command.withShortDescription("List the calls that two policies decide differently"),
  Command.withExamples([
    {
      command: "tool-executor policy diff old.json new.json --only looser",
      description: "What a change lets through in addition"
    }
  ])
)

/** Examples that are shown of calls with the same reasons. */
const mostExamples = 4

const linesOf = (
  differences: ReadonlyArray<PolicyDiff.Difference>,
  from: string,
  to: string
): ReadonlyArray<string> => {
  const words = (it: PolicyQuestion.Verdict) => Lines.wordsOf[it.outcome]
  const byChange = grouped(
    differences.toSorted((a, b) => orderOf(a) - orderOf(b)),
    (it) => `Under ${escape(to)} it ${words(it.to)}; under ${escape(from)} it ${words(it.from)}:`
  )
  return Array.from(byChange).flatMap(([title, changes]) => [
    title,
    ...Array.from(grouped(changes, (it) => `${Lines.reasonOf(it.from)}\n${Lines.reasonOf(it.to)}`).values())
      .flatMap((alike) => {
        const examples = Array.from(new Set(alike.map((it) => exampleLine(it))))
        const more = examples.length - mostExamples
        return [
          ...examples.slice(0, mostExamples).map((it) => `  ${it}`),
          ...more > 0 ? [`  and ${more} more`] : [],
          `    ${escape(from)}: ${Lines.reasonOf(alike[0]!.from)}`,
          `    ${escape(to)}: ${Lines.reasonOf(alike[0]!.to)}`
        ]
      }),
    ""
  ]).slice(0, -1)
}

const exampleLine = ({ example, isAnyOther }: PolicyDiff.Difference): string =>
  isAnyOther
    ? `any other tool that ${PolicyQuestion.natureOf(example.tool)}, such as ${Lines.callOf(example)}`
    : Lines.callOf(example)

/** What is looser comes first, and of that what may run. */
const orderOf = (it: PolicyDiff.Difference): number => {
  const rank = (outcome: PolicyQuestion.Outcome) => PolicyQuestion.outcomes.indexOf(outcome)
  return (PolicyDiff.isLooser(it) ? 0 : 100) + rank(it.to.outcome) * 10 + rank(it.from.outcome)
}

const grouped = <A>(all: ReadonlyArray<A>, keyOf: (it: A) => string): ReadonlyMap<string, ReadonlyArray<A>> => {
  const groups = new Map<string, Array<A>>()
  for (const it of all) {
    const key = keyOf(it)
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [it])
    else group.push(it)
  }
  return groups
}

const dataOf = ({ example, from, isAnyOther, to, tool }: PolicyDiff.Difference) => ({
  tool,
  isAnyOther,
  from: Lines.dataOf(from),
  to: Lines.dataOf(to),
  example: {
    ...example,
    tool: { name: tool, readOnly: example.tool.readOnly, openWorld: example.tool.openWorld, edits: example.tool.edits }
  }
})
