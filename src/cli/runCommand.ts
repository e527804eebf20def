/** Runs the command line as this process: its signals, its terminal and its end. */
import type * as Command from "effect/cli/Command"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Layer from "effect/Layer"
import * as Runtime from "effect/Runtime"
import * as Stdio from "effect/Stdio"
import process, { exit } from "node:process"
import { version } from "../internal/version.ts"
import { Terminal } from "../terminal/Keyboard.ts"
import * as TtyKeyboard from "../terminal/TtyKeyboard.ts"
import * as Cli from "./Cli.ts"
import { Interruption, reasons } from "./Interruption.ts"

/** Runs the command with the arguments of this process, and ends with its exit code. */
export const runCommand = (platform: Layer.Layer<Command.Environment>): void =>
  runMain(
    Effect.flatMap(Stdio.Stdio.use((stdio) => stdio.args), (args) => Cli.run(args, { version })).pipe(
      Effect.provideService(Interruption, interruption.next),
      Effect.provideService(Terminal, TtyKeyboard.take),
      Effect.provide(platform)
    ),
    { disableErrorReporting: true }
  )

/** Hands a signal to the first who waits for one. */
const makeInterruption = () => {
  const waiting = new Set<(reason: string) => void>()
  return {
    next: Effect.callback<string>((resume) => {
      const take = (reason: string) => resume(Effect.succeed(reason))
      waiting.add(take)
      return Effect.sync(() => waiting.delete(take))
    }),
    /** False if nothing waits. */
    hand: (reason: string): boolean => {
      const [first] = waiting
      if (first === undefined) return false
      waiting.delete(first)
      first(reason)
      return true
    }
  }
}

const interruption = makeInterruption()

/** Ends the process once all output is with its reader. A handler that cannot be stopped must not keep it alive. */
const end = (code: number): void => {
  process.stdout.write("", () => process.stderr.write("", () => exit(code)))
}

const runMain = Runtime.makeRunMain(({ fiber }) => {
  const onSignal = (signal: keyof typeof reasons) => {
    if (!interruption.hand(reasons[signal])) fiber.interruptUnsafe(fiber.id)
  }
  const names = Object.keys(reasons) as ReadonlyArray<keyof typeof reasons>
  for (const name of names) process.on(name, onSignal)
  // a write finds out that the reader went away
  for (const stream of [process.stdout, process.stderr]) stream.on("error", () => {})
  fiber.addObserver((ended) => {
    for (const name of names) process.off(name, onSignal)
    end(Exit.isSuccess(ended) ? Number(ended.value) : 130)
  })
})
