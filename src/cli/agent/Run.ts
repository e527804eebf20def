/**
 * `tool-executor run`: runs the calls of an assistant message on a folder and prints the results in the provider's
 * shape.
 */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Result from "effect/Result"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import * as LocalExecutor from "../../assembly/LocalExecutor.ts"
import { ToolExecutor } from "../../core/engine/ToolExecutor.ts"
import { isEnd, type ToolEvent } from "../../core/facts/ToolEvent.ts"
import type * as Policy from "../../core/gates/Policy.ts"
import * as Journal from "../../core/store/Journal.ts"
import * as ToolOutcome from "../../core/vocabulary/ToolOutcome.ts"
import { escape } from "../../internal/escape.ts"
import { clip } from "../../terminal/clip.ts"
import * as Workspace from "../../tools/workspace/Workspace.ts"
import * as WireFormat from "../../wire/WireFormat.ts"
import { CliFailure, describe, incomplete, wrong } from "../CliFailure.ts"
import * as Config from "../Config.ts"
import * as Files from "../Files.ts"
import * as Flags from "../Flags.ts"
import * as BesidePolicy from "../gateway/BesidePolicy.ts"
import * as FolderTools from "../gateway/FolderTools.ts"
import { Interruption } from "../Interruption.ts"
import * as JournalAt from "../journal/JournalAt.ts"
import * as PolicyTiers from "../policy/PolicyTiers.ts"
import * as Approve from "./Approve.ts"
import * as Checkpoints from "./Checkpoints.ts"
import * as EventLines from "./EventLines.ts"

const input = {
  file: Argument.String("FILE").pipe(
    Argument.withDescription("File with the assistant message as JSON; - or nothing is standard input"),
    Argument.withDefault("-")
  ),
  ...FolderTools.flags,
  format: Flag.Literals("format", ["auto", ...WireFormat.Format.literals]).pipe(
    Flag.withDescription("Format of the message and of the results; auto (default) detects it from the message"),
    Flag.withDefault("auto")
  ),
  approve: Approve.flag,
  checkpoints: Checkpoints.flag,
  journal: JournalAt.flag,
  resume: Flags.toggle(
    "resume",
    "Resume these calls after an earlier run with the same --journal stopped; calls with an outcome do not run again"
  ),
  said: Flag.String("said").pipe(
    Flag.withDescription("What the user said, for the section provenance of the config; may be repeated"),
    Flag.atLeast(0)
  ),
  events: Flag.Literals("events", ["pretty", "ndjson", "sse", "none"]).pipe(
    Flag.withDescription("Format of events on standard error; default pretty"),
    Flag.withDefault("pretty")
  )
}

export const command = Command.make(
  "run",
  input,
  Effect.fnUntraced(function*(
    { allow, checkpoints, config, deny, events, file, format, journal, mode, resume, root, said, ...given }
  ) {
    const policy: Policy.Policy = { allow, deny, mode: Option.getOrUndefined(mode) }
    yield* Config.checkFlags(policy)
    if (resume && Option.isNone(journal)) {
      return yield* wrong("--resume needs the journal of the earlier run: add --journal FILE|DSN.")
    }
    const { resolve } = yield* Path.Path
    const settings = Option.isSome(config) ? yield* Config.read(config.value) : {}
    if (said.length > 0 && settings.provenance === undefined && settings.reviewer === undefined) {
      return yield* wrong("--said is for provenance and reviewers: add a section provenance or reviewer to --config.")
    }
    const above = yield* PolicyTiers.above
    const options = Config.toOptions(settings, policy, above)
    yield* PolicyTiers.warnLocked(options.policy)
    const text = file === "-" ? yield* Files.readStdin(noMessage) : yield* Files.read(file)
    const wave = yield* Result.match(WireFormat.readText(text, format), {
      onSuccess: Effect.succeed,
      onFailure: (error) => Effect.fail(wrong(escape(`${file === "-" ? "standard input" : file}: ${error.message}`)))
    })
    if (wave.calls.length === 0) yield* Files.printError("The message has no tool calls.\n")
    yield* warnOfEqualIds(wave)
    const approve = yield* Approve.answeredBy(given.approve)
    // the folder identifies the calls: equal ids in another folder are other calls
    const turn = Option.isSome(journal)
      ? (yield* Effect.mapError(Workspace.make(root), (error) => wrong(describe(error)))).root
      : undefined
    const record = Option.isSome(journal) ? yield* JournalAt.layerOutside(journal.value, root) : Layer.empty
    const beside = yield* BesidePolicy.layerOf(settings)
    yield* execute(wave, yield* writerOf(events), approve, { resume, said, turn }).pipe(
      Effect.provide(
        layerOf(root, settings, options, [...Option.toArray(config).map((it) => resolve(it)), ...above.files]).pipe(
          Layer.provide((yield* Checkpoints.layerOf(checkpoints, root)) ?? Layer.empty),
          Layer.provide(beside),
          Layer.provideMerge(Layer.merge(Approve.layerOf(approve), record))
        )
      ),
      Effect.catchTag("ConfigurationError", (error) => Effect.fail(wrong(describe(error))))
    )
  })
).pipe(
  Command.withShortDescription("Run the tool calls of an assistant message on a folder"),
  Command.withDescription(
    "Runs the tool calls of an assistant message on a folder and prints the results, ready to send back. " +
      `The tools are ${
        Config.toolNames.join(", ")
      }. Tools that change things or reach other hosts need an approval on the ` +
      "terminal unless allowed, and are denied without a terminal. Earlier versions of written files are kept: " +
      "`tool-executor undo` restores them. The file tools cannot leave the root. run_command starts in the root and is " +
      "NOT confined to it unless the config says sandbox, so allow it only where any command may run. fetch_url reaches public hosts, and those that " +
      "fetch in the config lists. Standard error shows events. Exit codes: 0 all calls succeeded, 1 some did not, 2 " +
      "invalid usage, input or config. Ctrl-C cancels; every call still gets a result. A second Ctrl-C stops immediately."
  ),
  Command.withExamples([
    { command: "tool-executor run reply.json --root .", description: "Run the calls that only read" },
    {
      command: "cat reply.json | tool-executor run --allow write_file --allow run_command > results.json",
      description: "Allow writing and commands, keep the results"
    }
  ])
)

const writerOf = Effect.fnUntraced(function*(events: "pretty" | "ndjson" | "sse" | "none") {
  if (events === "pretty") return EventLines.pretty({ color: yield* EventLines.wantsColor })
  return events === "ndjson" ? EventLines.ndjson : events === "sse" ? EventLines.sse : EventLines.none
})

const layerOf = (
  root: string,
  config: Config.Config,
  options: LocalExecutor.Options,
  protect: ReadonlyArray<string>
) => {
  const made = Effect.map(
    FolderTools.make(root, config, protect),
    ({ layer, toolkits }) => LocalExecutor.layer(toolkits, options).pipe(Layer.provide(layer))
  )
  return Layer.unwrap(made)
}

const execute = Effect.fnUntraced(
  function*(
    { calls, format }: WireFormat.Wave,
    write: EventLines.Writer,
    approve: Approve.Approve,
    { resume, said, turn }: {
      readonly resume: boolean
      readonly said: ReadonlyArray<string>
      readonly turn: string | undefined
    }
  ) {
    const executor = yield* ToolExecutor
    const batch = resume ? yield* batchOf(calls, turn) : undefined
    const process = yield* executor.process({ batch, id: turn, ...said.length === 0 ? {} : { heard: said } })
    const interruption = yield* Interruption
    yield* Effect.forkScoped(Effect.flatMap(interruption, process.cancel), { startImmediately: true })
    const screen = yield* Semaphore.make(1)
    yield* Approve.answering(approve, screen)
    let outcomes: ReadonlyArray<ToolOutcome.ToolOutcome> = []
    const report = (event: ToolEvent) => {
      if (isEnd(event)) outcomes = event.executionResults
      // nothing is written into a question
      return screen.withPermits(1)(Files.printError(write(event)))
    }
    if (resume) {
      const told = yield* Effect.forkScoped(
        Stream.runForEach(Stream.takeUntil(process.events, isEnd), report),
        { startImmediately: true }
      )
      yield* Effect.mapError(
        process.resume(calls, { onUnknown: approve === "ask" ? "ask" : "tell" }),
        (error) => new CliFailure({ code: 1, explanation: escape(error.message) })
      )
      yield* Fiber.join(told)
    } else yield* Stream.runForEach(process.stream(calls), report)
    if (outcomes.some(FolderTools.hadNoApprover)) {
      yield* Files.printError(Approve.whyDenied(approve))
    }
    yield* Files.printJson(WireFormat.write(format, outcomes))
    yield* FolderTools.cleanUp(executor)
    if (outcomes.some(ToolOutcome.isError)) return yield* incomplete
  },
  Effect.scoped
)

/** The batch in which one of these calls was last submitted for this folder, if any. */
const batchOf = Effect.fnUntraced(function*(calls: WireFormat.Wave["calls"], turn: string | undefined) {
  const journal = yield* Effect.serviceOption(Journal.Journal)
  if (Option.isNone(journal)) return undefined
  const found = yield* Stream.runFold(
    journal.value.read({}),
    (): string | undefined => undefined,
    (batch, { entry }) =>
      entry._tag === "Arrived" && entry.agentPath.length === 0 && entry.process === turn &&
        calls.some((it) => it.id === entry.callId && it.name === entry.tool)
        ? entry.batch
        : batch
  ).pipe(Effect.mapError((error) => JournalAt.unusable("--journal", error)))
  if (found === undefined) yield* Files.printError("The journal contains none of these calls: all of them run.\n")
  return found
})

/** Each is run and answered; a reader of the answers has to report them apart by their order. */
const warnOfEqualIds = ({ calls }: WireFormat.Wave) => {
  const counts = new Map<string, number>()
  for (const { id } of calls) counts.set(id, (counts.get(id) ?? 0) + 1)
  return Effect.forEach(
    Array.from(counts).filter(([, count]) => count > 1),
    ([id, count]) =>
      Files.printError(
        `${count} calls share the id ${clip(id, 100)}. Each gets a result, in the order of the message.\n`
      ),
    { discard: true }
  )
}

const noMessage = "No FILE is given and standard input is a terminal. Name a file, or pipe the message in."
