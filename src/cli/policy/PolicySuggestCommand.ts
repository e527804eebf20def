/** `tool-executor policy suggest`: rules that people's approvals on record speak for. */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { escape } from "../../internal/escape.ts"
import * as Suggestions from "../../policy/Suggestions.ts"
import * as Files from "../Files.ts"
import * as Flags from "../Flags.ts"
import * as JournalAt from "../journal/JournalAt.ts"
import * as PolicyCalls from "./PolicyCalls.ts"
import * as PolicyInput from "./PolicyInput.ts"
import * as PolicyJournal from "./PolicyJournal.ts"
import * as Lines from "./PolicyLines.ts"

const defaultDays = 14

export const command = Command.make(
  "suggest",
  {
    at: Argument.String("FILE|DSN").pipe(Argument.withDescription(`The journal: ${JournalAt.description}`)),
    ...PolicyInput.flags,
    days: Flags.count("days", `Calls of this many days; default ${defaultDays}`),
    approvals: Flags.count("approvals", "Approvals that have to speak for a rule; default 3"),
    json: Flags.toggle("json", "Print JSON, with each rule as a fragment of a policy")
  },
  Effect.fnUntraced(function*({ approvals, at, days, json, root, ...policy }) {
    const now = yield* Clock.currentTimeMillis
    const given = Option.getOrElse(days, () => defaultDays)
    const { files, tiers } = yield* PolicyInput.load(policy)
    const calls = yield* PolicyJournal.read(at, now - PolicyJournal.days(given))
    const known = yield* PolicyJournal.known(calls, yield* PolicyCalls.registry(root, files))
    const suggestions = Suggestions.suggest(tiers, calls, known, { approvals: Option.getOrUndefined(approvals) })
    if (json) return yield* Files.printJson(suggestions.map(dataOf))
    if (suggestions.length === 0) return yield* Files.print("No rule has enough approvals to speak for it.")
    yield* Files.print(suggestions.map((it) => linesOf(it, given).join("\n")).join("\n\n"))
  }, Effect.scoped)
).pipe(
  Command.withDescription(
    "Finds calls that people approved again and again and never denied, and proposes rules for them. It says what else " +
      "each rule would have let run, and which kinds of calls it lets run in addition. Nothing is changed: add what you " +
      "want to your policy. Exit codes: 0 printed, 2 invalid usage, file or journal."
  ),
  Command.withShortDescription("Propose rules for calls that are always approved"),
  Command.withExamples([
    {
      command: "tool-executor policy suggest journal.ndjson --policy policy.json --days 14",
      description: "Rules that would have spared approvals"
    }
  ])
)

/** Calls that are shown of each kind. */
const mostShown = 5

const linesOf = (it: Suggestions.Suggestion, days: number): ReadonlyArray<string> => {
  const by = it.people.length === 0 ? "" : ` by ${it.people.map(escape).join(", ")}`
  return [
    `${it.approvals} approvals in ${days} ${days === 1 ? "day" : "days"}${by}, none denied. Add this rule?`,
    `  "allow": [${escape(JSON.stringify(it.rule))}]`,
    ...listOf("Approved", it.approved.map(countedLine)),
    ...listOf("Would have run without approval, too", it.others.map(countedLine)),
    ...listOf("Kinds of calls that run in addition, such as", it.beyond.map(({ example }) => Lines.callOf(example)))
  ]
}

const listOf = (title: string, lines: ReadonlyArray<string>): ReadonlyArray<string> => {
  const shown = lines.slice(0, mostShown)
  const more = lines.length - shown.length
  return lines.length === 0 ? [] : [
    `  ${title}:`,
    ...shown.map((it) => `    ${it}`),
    ...more > 0 ? [`    and ${more} more`] : []
  ]
}

const countedLine = ({ count, targets, tool }: Suggestions.Counted): string =>
  escape(`${count} × ${tool}(${targets.join(", ")})`)

const dataOf = ({ beyond, rule, ...it }: Suggestions.Suggestion) => ({
  ...it,
  policy: { allow: [rule] },
  beyond: beyond.map(({ example, from, to }) => ({
    call: Lines.callOf(example),
    from: Lines.dataOf(from),
    to: Lines.dataOf(to)
  }))
})
