/** `tool-executor policy replay`: what another policy would have done with the calls of a journal. */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { escape } from "../../internal/escape.ts"
import * as PolicyReplay from "../../policy/PolicyReplay.ts"
import * as Files from "../Files.ts"
import * as Flags from "../Flags.ts"
import * as JournalAt from "../journal/JournalAt.ts"
import * as PolicyCalls from "./PolicyCalls.ts"
import * as PolicyInput from "./PolicyInput.ts"
import * as PolicyJournal from "./PolicyJournal.ts"
import * as Lines from "./PolicyLines.ts"

export const command = Command.make(
  "replay",
  {
    at: Argument.String("FILE|DSN").pipe(Argument.withDescription(`The journal: ${JournalAt.description}`)),
    ...PolicyInput.flags,
    days: Flags.count("days", "Only calls of this many days"),
    json: Flags.toggle("json", "Print JSON")
  },
  Effect.fnUntraced(function*({ at, days, json, root, ...given }) {
    const now = yield* Clock.currentTimeMillis
    const { files, policy } = yield* PolicyInput.load(given)
    const calls = yield* PolicyJournal.read(
      at,
      Option.getOrUndefined(Option.map(days, (it) => now - PolicyJournal.days(it)))
    )
    const known = yield* PolicyJournal.known(calls, yield* PolicyCalls.registry(root, files))
    const replayed = PolicyReplay.replay(policy, calls, known)
    const tools = countsOf(replayed)
    const differences = groupsOf(replayed.filter(PolicyReplay.differs))
    const undecidable = groupsOf(replayed.filter(({ would }) => would === "undecidable"))
    if (json) return yield* Files.printJson({ calls: calls.length, tools, differences, undecidable })
    if (calls.length === 0) return yield* Files.printError("The journal contains no such calls.\n")
    yield* Files.print(
      [
        ...tableOf(tools),
        "",
        differences.length === 0
          ? "Every call that can be decided would have been decided alike."
          : "Decided differently:",
        ...differences.flatMap((it) => [
          `  ${countOf(it)}${escape(it.call)}: ${happenedWords[it.happened]}, ${wouldWords[it.would]}`,
          ...it.because === undefined ? [] : [`    ${escape(it.because)}`]
        ]),
        ...undecidable.length === 0 ? [] : [
          "",
          "Undecidable:",
          ...undecidable.map((it) => `  ${countOf(it)}${escape(it.call)}: ${escape(it.missing ?? "")}`)
        ]
      ].join("\n")
    )
  }, Effect.scoped)
).pipe(
  Command.withDescription(
    "Decides every recorded call by another policy and prints what would have been different. It only reads, and guesses " +
      "nothing: a call that depends on something that is not on record, such as arguments that were not kept or the " +
      "principal's roles, is undecidable. Exit codes: 0 printed, 2 invalid usage, file or journal."
  ),
  Command.withShortDescription("Decide recorded calls by another policy"),
  Command.withExamples([
    {
      command: "tool-executor policy replay journal.ndjson --policy new.json",
      description: "What a new policy would have done last week"
    }
  ])
)

const happenedWords = {
  allow: "it ran",
  ask: "approval was requested",
  deny: "it was denied",
  other: "something else ended it"
} as const

const wouldWords = {
  allow: "it would have run",
  ask: "approval would have been requested",
  deny: "it would have been denied",
  undecidable: "it cannot be decided"
} as const

interface Group {
  readonly call: string
  readonly happened: PolicyReplay.Replayed["call"]["happened"]
  readonly would: PolicyReplay.Replayed["would"]
  readonly count: number
  readonly because: string | undefined
  readonly missing: string | undefined
}

/** Equal calls with an equal fate count together, the most frequent first. */
const groupsOf = (replayed: ReadonlyArray<PolicyReplay.Replayed>): ReadonlyArray<Group> => {
  const groups = new Map<string, Group>()
  for (const { call: recorded, missing, verdict, would } of replayed) {
    const call = Lines.recordedCall(recorded)
    const { happened } = recorded
    const because = verdict === undefined ? undefined : Lines.reasonOf(verdict)
    const key = JSON.stringify([call, happened, would, because])
    groups.set(key, { call, happened, would, because, missing, count: 1 + (groups.get(key)?.count ?? 0) })
  }
  return Array.from(groups.values()).sort((a, b) => b.count - a.count)
}

const countOf = ({ count }: Group): string => count === 1 ? "" : `${count} × `

interface Counts {
  readonly tool: string
  readonly calls: number
  readonly allow: number
  readonly ask: number
  readonly deny: number
  readonly undecidable: number
}

const countsOf = (replayed: ReadonlyArray<PolicyReplay.Replayed>): ReadonlyArray<Counts> => {
  const tools = new Map<string, Counts>()
  for (const { call: { tool }, would } of replayed) {
    const known = tools.get(tool) ?? { tool, calls: 0, allow: 0, ask: 0, deny: 0, undecidable: 0 }
    tools.set(tool, { ...known, calls: known.calls + 1, [would]: known[would] + 1 })
  }
  return Array.from(tools.values()).sort((a, b) => b.calls - a.calls)
}

const tableOf = (counts: ReadonlyArray<Counts>): ReadonlyArray<string> => {
  const rows = [
    ["tool", "calls", "would run", "approval", "denied", "undecidable"],
    ...counts.map((it) => [escape(it.tool), it.calls, it.allow, it.ask, it.deny, it.undecidable].map(String))
  ]
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)))
  return rows.map((row) =>
    row.map((cell, column) => column === 0 ? cell.padEnd(widths[column]!) : cell.padStart(widths[column]!)).join("  ")
  )
}
