/** The platform of `init` where `@effect/platform-node` is not installed, as with `npm exec`. */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import * as ChildProcessSpawner from "effect/process/ChildProcessSpawner"
import * as Queue from "effect/Queue"
import * as Sink from "effect/Sink"
import * as Stdio from "effect/Stdio"
import * as Stream from "effect/Stream"
import * as Terminal from "effect/Terminal"
import process from "node:process"
import { runCommand } from "./runCommand.ts"

const writer = (stream: NodeJS.WriteStream) => () =>
  Sink.forEach((chunk: string | Uint8Array) =>
    Effect.callback<void>((resume) => void stream.write(chunk, () => resume(Effect.void)))
  )

const stdio = Stdio.make({
  args: Effect.sync(() => process.argv.slice(2)),
  stdin: Stream.empty,
  stdout: writer(process.stdout),
  stderr: writer(process.stderr)
})

const terminal = Terminal.make({
  columns: Effect.succeed(80),
  rows: Effect.succeed(24),
  size: Queue.make(),
  readInput: Queue.make(),
  readLine: Effect.never,
  display: () => Effect.void
})

runCommand(Layer.mergeAll(
  FileSystem.layerNoop({}),
  Path.layer,
  Layer.succeed(Terminal.Terminal, terminal),
  Layer.succeed(
    ChildProcessSpawner.ChildProcessSpawner,
    ChildProcessSpawner.make(() => Effect.die("init starts no process"))
  ),
  Layer.succeed(Stdio.Stdio, stdio)
))
