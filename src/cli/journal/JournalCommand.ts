/** `tool-executor journal`: shows recorded calls. */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import type * as Journal from "../../core/store/Journal.ts"
import * as Calls from "../../core/store/JournalCalls.ts"
import * as Chain from "../../core/store/JournalChain.ts"
import { decodeStrict } from "../../core/vocabulary/ConfigurationError.ts"
import { escape, escapeJson } from "../../internal/escape.ts"
import { CliFailure, describe, incomplete, wrong } from "../CliFailure.ts"
import * as Files from "../Files.ts"
import * as Flags from "../Flags.ts"
import { Interruption } from "../Interruption.ts"
import * as JournalAt from "./JournalAt.ts"
import * as Lines from "./JournalLines.ts"

const input = {
  at: Argument.String("FILE|DSN").pipe(Argument.withDescription(`The journal: ${JournalAt.description}`)),
  call: Flags.text("call", "ID", "Show the calls with this id in full"),
  tool: Flags.text("tool", "NAME", "Only calls of this tool"),
  outcome: Flag.Literals("outcome", Lines.states).pipe(
    Flag.withMetavar("NAME"),
    Flag.withDescription(
      "Only calls with this outcome or state. Running: started, not ended; Waiting: not started; Suspended: its host stopped"
    ),
    Flag.optional
  ),
  principal: Flags.text("principal", "NAME", "Only calls of this principal"),
  batch: Flags.text("batch", "ID", "Only calls of this batch"),
  since: Flags.text(
    "since",
    "TIME",
    "Only entries since this time, such as 2026-11-22T10:00Z, or within this duration, such as \"2 hours\""
  ),
  timeline: Flags.toggle("timeline", "Draw each wave as `simulate` does"),
  json: Flags.toggle("json", "Print entries as JSON, one per line"),
  follow: Flags.toggle("follow", "Print entries as they arrive, until stopped"),
  verify: Flags.toggle(
    "verify",
    "Check that no entry was changed, removed or moved, and that every started call has exactly one end"
  ),
  checkpoint: Flags.toggle(
    "checkpoint",
    "Print a checkpoint as JSON: the hash of all entries so far. Keep it elsewhere, for --against"
  ),
  against: Flags.text("against", "FILE", "With --verify: compare the journal with an earlier checkpoint"),
  earlierElsewhere: Flags.toggle(
    "earlier-elsewhere",
    "With --against: full parts of a file were moved elsewhere, so the journal may begin right after the checkpoint"
  )
}

export const command = Command.make(
  "journal",
  input,
  Effect.fnUntraced(
    function*({ against, at, checkpoint, earlierElsewhere, follow, json, outcome, timeline, verify, ...filters }) {
      const given = [follow, timeline, verify, checkpoint].filter(Boolean).length
      if (given > 1) {
        return yield* wrong(
          "--follow, --timeline, --verify and --checkpoint exclude one another. Use only one of them."
        )
      }
      if (Option.isSome(against) && !verify) return yield* wrong("--against works only with --verify. Add --verify.")
      if (earlierElsewhere && Option.isNone(against)) {
        return yield* wrong("--earlier-elsewhere works only with --against. Add --against FILE.")
      }
      const query = yield* queryOf(filters)
      const wanted = Option.getOrUndefined(outcome)
      const { read, verify: check } = yield* JournalAt.open(at)
      const lineOf = json ? jsonLine : ({ entry }: Journal.Recorded) => Lines.entryLine(entry)
      const print = Effect.gen(function*() {
        if (follow) {
          const isWanted = ({ entry }: Journal.Recorded) =>
            wanted === undefined || (entry._tag === "Settled" && entry.outcome._tag === wanted)
          const printing = followed(read, query, (it) => isWanted(it) ? Files.print(lineOf(it)) : Effect.void)
          return yield* Effect.raceFirst(printing, Effect.asVoid(yield* Interruption))
        }
        if (checkpoint) return yield* printCheckpoint(yield* check(undefined, false))
        if (verify) {
          const before = Option.isSome(against) ? yield* readCheckpoint(against.value) : undefined
          const chain = yield* check(before, earlierElsewhere)
          yield* printChain(chain, before)
          const isWhole = chain.findings.length === 0
          const recorded = yield* Stream.runCollect(read(query)).pipe(
            // an entry that cannot be read was changed, and that was printed
            Effect.catchIf(() => !isWhole, () => incomplete)
          )
          yield* verified(recorded, isWhole)
          return yield* isCompared(chain, before) ? Effect.void : Effect.fail(notCompared)
        }
        const recorded = yield* Stream.runCollect(read(query))
        const calls = Calls.callsOf(recorded.map((it) => it.entry))
          .filter((it) => wanted === undefined || Lines.outcomeOf(it) === wanted)
        if (json) {
          const entries = wanted === undefined
            ? undefined
            : new Set<Journal.JournalEntry>(calls.flatMap((it) => it.entries))
          const shown = recorded.filter(({ entry }) => entries === undefined || entries.has(entry))
          if (shown.length > 0) yield* Files.print(shown.map(jsonLine).join("\n"))
        } else if (calls.length === 0) yield* Files.printError("No matching calls.\n")
        else if (timeline) yield* Files.print(Lines.timeline(calls))
        else if (Option.isSome(filters.call)) yield* Files.print(calls.map(Lines.whole).join("\n\n"))
        else yield* Files.print(Lines.table(calls))
      })
      yield* Effect.catchTag(print, "JournalError", (error) => Effect.fail(JournalAt.unusable(at, error)))
    },
    Effect.scoped
  )
).pipe(
  Command.withShortDescription("Show recorded calls"),
  Command.withDescription(
    "Shows what `run`, `agent`, `mcp` or your own backend recorded: one line per call, or the view that a flag selects. " +
      "It only reads, so other processes can write the journal at the same time. Exit codes: 0 shown (with --verify: " +
      "consistent), 1 not consistent, 2 invalid usage or unreadable journal, 3 consistent, but not compared with the " +
      "checkpoint, or without a hash to check."
  ),
  Command.withExamples([
    { command: "tool-executor journal journal.ndjson --since \"1 hour\"", description: "The calls of the last hour" },
    { command: "tool-executor journal journal.db --outcome Failed --json", description: "Failed calls as JSON" },
    {
      command: "tool-executor journal postgres://localhost/agent --verify",
      description: "Check for calls without an end"
    }
  ])
)

/** Between two looks at a journal that is followed. */
const pause = "500 millis"

const jsonLine = ({ entry, place }: Journal.Recorded): string => escapeJson(JSON.stringify({ place, ...entry }))

const queryOf = Effect.fnUntraced(function*({ batch, call, principal, since, tool }: {
  readonly batch: Option.Option<string>
  readonly call: Option.Option<string>
  readonly principal: Option.Option<string>
  readonly since: Option.Option<string>
  readonly tool: Option.Option<string>
}) {
  return {
    batch: Option.getOrUndefined(batch),
    callId: Option.getOrUndefined(call),
    principal: Option.getOrUndefined(principal),
    tool: Option.getOrUndefined(tool),
    since: Option.isSome(since) ? yield* timeOf(since.value) : undefined
  }
})

/** A time, or so long ago. */
const timeOf = Effect.fnUntraced(function*(text: string) {
  const ago = Duration.fromInput(text as Duration.Input)
  if (Option.isSome(ago)) return (yield* Clock.currentTimeMillis) - Duration.toMillis(ago.value)
  const time = DateTime.make(text)
  if (Option.isSome(time)) return DateTime.toEpochMillis(time.value)
  return yield* wrong(
    `--since is ${escape(text)}, expected a time such as 2026-11-22T10:00Z, or a duration such as "2 hours"`
  )
})

/** Hands on what is there, and then whatever comes. */
const followed = <E, R>(
  read: (query: Journal.Query) => Stream.Stream<Journal.Recorded, Journal.JournalError>,
  query: Journal.Query,
  tell: (recorded: Journal.Recorded) => Effect.Effect<void, E, R>
): Effect.Effect<never, Journal.JournalError | E, R> => {
  let after = 0
  return Effect.forever(Effect.andThen(
    Effect.suspend(() =>
      Stream.runForEach(read({ ...query, after }), (recorded) => {
        after = recorded.place
        return tell(recorded)
      })
    ),
    Effect.sleep(pause)
  ))
}

const printCheckpoint = Effect.fnUntraced(function*({ findings, head, journal }: Chain.Verified) {
  if (findings.length > 0) return yield* broken(findings)
  if (head === undefined) return yield* wrong("The journal has no entry with a hash yet, so there is no checkpoint.")
  const checkpoint: Chain.Checkpoint = { v: 1, journal, ...head, at: yield* Clock.currentTimeMillis }
  yield* Files.print(JSON.stringify(checkpoint))
})

const readCheckpoint = Effect.fnUntraced(function*(path: string) {
  const input = yield* Files.readJson(path)
  return yield* Effect.mapError(decodeStrict(Chain.Checkpoint, path)(input), (error) => wrong(describe(error)))
})

/** Prints what the hash chain says. */
const printChain = Effect.fnUntraced(function*(
  { compared, findings, head, journal, pruned, unchained }: Chain.Verified,
  before: Chain.Checkpoint | undefined
) {
  if (before !== undefined && journal !== "" && before.journal !== journal) {
    return yield* wrong("The checkpoint is from another journal. Use a checkpoint of this one.")
  }
  for (const { problem } of findings) yield* Files.print(problem)
  const more = [
    ...(before === undefined || findings.length > 0
      ? []
      : [`${comparisons[compared]} the checkpoint at entry ${before.place}`]),
    ...(unchained === 0 ? [] : [`${unchained} older entries have no hash`]),
    ...(pruned === 0 ? [] : [`${pruned} entries were pruned`])
  ]
  const state = findings.length > 0
    ? "broken"
    : head === undefined
    ? "nothing to check"
    : `whole up to entry ${head.place}`
  yield* Files.print(["Hash chain: " + state, ...more].join(", "))
})

const comparisons: Readonly<Record<Chain.Compared, string>> = {
  matches: "matches",
  differs: "differs from",
  follows: "begins right after",
  "not compared": "not compared with"
}

/** Whether hashes were compared at all: with the checkpoint, and those of entries if there are any. */
const isCompared = ({ compared, head, unchained }: Chain.Verified, before: Chain.Checkpoint | undefined): boolean =>
  (before === undefined || compared !== "not compared") && (head !== undefined || unchained === 0)

const notCompared = new CliFailure({ code: 3, explanation: "" })

const broken = (findings: ReadonlyArray<Chain.Finding>) =>
  new CliFailure({ code: 1, explanation: findings.map(({ problem }) => problem).join("\n") })

const verified = Effect.fnUntraced(function*(recorded: ReadonlyArray<Journal.Recorded>, isWhole: boolean) {
  const findings = Calls.verify(recorded)
  const calls = Calls.callsOf(recorded.map((it) => it.entry))
  const started = calls.filter((it) => it.startedAt !== undefined).length
  yield* Files.print([
    ...findings.map(Lines.findingLine),
    `${calls.length} calls, ${started} of them started: ` +
    (findings.length === 0 ? "each has exactly one end" : `${findings.length} need attention`)
  ].join("\n"))
  if (findings.length > 0 || !isWhole) return yield* incomplete
})
