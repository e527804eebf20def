/**
 * The command line `tool-executor`.
 *
 * `run` turns arguments into an exit code and is all that `main.ts` needs; it reaches files, streams and signals
 * through services only.
 */
import * as Cause from "effect/Cause"
import * as CliConfig from "effect/cli/CliConfig"
import * as CliOutput from "effect/cli/CliOutput"
import * as Command from "effect/cli/Command"
import * as GlobalFlag from "effect/cli/GlobalFlag"
import type * as HelpDoc from "effect/cli/HelpDoc"
import * as Console from "effect/Console"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import { escape, escapeLines } from "../internal/escape.ts"
import * as AgentCommand from "./agent/AgentCommand.ts"
import * as Run from "./agent/Run.ts"
import * as Files from "./Files.ts"
import * as McpCommand from "./gateway/McpCommand.ts"
import * as InitCommand from "./init/InitCommand.ts"
import * as JournalCommand from "./journal/JournalCommand.ts"
import * as UndoCommand from "./journal/UndoCommand.ts"
import * as PolicyCommand from "./policy/PolicyCommand.ts"
import * as RulesCommand from "./policy/RulesCommand.ts"
import * as Schemas from "./Schemas.ts"
import * as PushKeysCommand from "./serve/PushKeysCommand.ts"
import * as ServeCommand from "./serve/ServeCommand.ts"
import * as TokenCommand from "./serve/TokenCommand.ts"
import * as Simulate from "./simulate/Simulate.ts"

/** The command with its subcommands. */
export const command = Command.make("tool-executor").pipe(
  Command.withDescription("Runs the tool calls of language models under rules, permissions, limits and deadlines"),
  Command.withSubcommands([
    InitCommand.command,
    Run.command,
    UndoCommand.command,
    AgentCommand.command,
    JournalCommand.command,
    McpCommand.command,
    ServeCommand.command,
    TokenCommand.command,
    PushKeysCommand.command,
    Simulate.command,
    RulesCommand.command,
    PolicyCommand.command,
    Schemas.command
  ])
)

/**
 * Runs a command line and gives its exit code.
 *
 * Exit codes: 0 success, 1 something did not succeed or hold, 2 invalid usage, input or config, 3 not compared, 70 a bug of
 * tool-executor, with its cause on standard error.
 */
export const run = (
  args: ReadonlyArray<string>,
  options: { readonly version: string }
): Effect.Effect<number, never, Command.Environment> =>
  Command.runWith(command, options)(args).pipe(
    Effect.as(0),
    Effect.catchTag("CliFailure", ({ code, explanation }) =>
      Effect.as(Files.printError(explanation === "" ? "" : `${explanation}\n`), code)),
    // bad usage; the presenter has said so
    Effect.orElseSucceed(() =>
      2
    ),
    Effect.catchCauseIf(
      (cause) => !Cause.hasInterruptsOnly(cause),
      (cause) =>
        Effect.as(Files.printError(`This is a bug of tool-executor:\n${escapeLines(Cause.pretty(cause))}\n`), 70)
    ),
    Effect.provide(layer)
  )

const usage = CliOutput.Presenter.of({
  present: (event) => {
    if (event._tag === "Version") return CliOutput.defaultPresenter.present(event)
    if (event._tag === "Help" && event.reason === "Requested") return CliOutput.defaultPresenter.present(event)
    // standard output is for results alone
    return Effect.gen(function*() {
      const formatter = CliOutput.defaultFormatter({ colors: false })
      const errors = event._tag === "Help"
        ? `Specify a command: ${commandsOf(event.helpDoc).join(", ")}.`
        : formatter.formatErrors(event.errors)
      // the usage comes first, in one line: the last line is the one people read
      yield* Console.error(
        `Usage: ${event.helpDoc.usage}   (--help says more)\n${escapeLines(errors.trim())}`
      )
    })
  }
})

const commandsOf = ({ subcommands = [] }: HelpDoc.HelpDoc): ReadonlyArray<string> =>
  subcommands.flatMap(({ commands }) => commands.map(({ name }) => name))

const layer = Layer.mergeAll(
  CliConfig.layer({ builtIns: [GlobalFlag.Help, GlobalFlag.Version, GlobalFlag.Completions] }),
  CliOutput.layerPresenter(usage),
  // a server behind the gateway may have written it
  Logger.layer([Logger.withConsoleError(Logger.map(Logger.formatLogFmt, escape))])
)
