/**
 * Runs the command line in this process, with its streams in memory.
 */
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import * as Sink from "effect/Sink"
import * as Stdio from "effect/Stdio"
import * as Stream from "effect/Stream"
import * as TestConsole from "effect/testing/TestConsole"
import { once } from "node:events"
import { createServer } from "node:http"
import * as Cli from "../../src/cli/Cli.ts"
import { Interruption } from "../../src/cli/Interruption.ts"

export interface Options {
  readonly stdin?: string | undefined
  readonly stdinIsTerminal?: boolean | undefined
  readonly interruption?: Effect.Effect<string> | undefined
  readonly onStderr?: ((text: string) => void) | undefined
}

export interface Ran {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

const decoder = new TextDecoder()

const collect = (push: (text: string) => void) => () =>
  Sink.forEach((chunk: string | Uint8Array) =>
    Effect.sync(() => push(typeof chunk === "string" ? chunk : decoder.decode(chunk)))
  )

/** Runs a command line; help and usage count as output like any other. */
export const run = Effect.fnUntraced(function*(args: ReadonlyArray<string>, options: Options = {}) {
  let stdout = ""
  let stderr = ""
  const stdio = Stdio.layerTest({
    stdin: options.stdin === undefined ? Stream.empty : Stream.make(new TextEncoder().encode(options.stdin)),
    stdinIsTerminal: Effect.succeed(options.stdinIsTerminal ?? false),
    stdout: collect((text) => stdout += text),
    stderr: collect((text) => {
      stderr += text
      options.onStderr?.(text)
    })
  })
  return yield* Effect.gen(function*() {
    const code = yield* Cli.run(args, { version: "1.2.3" })
    const lines = (written: ReadonlyArray<unknown>) => written.map((line) => `${String(line)}\n`).join("")
    const ran: Ran = {
      code,
      stdout: stdout + lines(yield* TestConsole.logLines),
      stderr: stderr + lines(yield* TestConsole.errorLines)
    }
    return ran
  }).pipe(
    Effect.provideService(Interruption, options.interruption ?? Effect.never),
    Effect.provide(Layer.mergeAll(NodeServices.layer, stdio, TestConsole.layer))
  )
})

/** Makes a folder with these files and gives the path of any of them. */
export const folder = Effect.fnUntraced(function*(files: Readonly<Record<string, unknown>>) {
  const system = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const root = yield* system.makeTempDirectoryScoped({ prefix: "tool-executor-cli-" })
  for (const [name, content] of Object.entries(files)) {
    yield* system.makeDirectory(path.dirname(path.join(root, name)), { recursive: true })
    yield* system.writeFileString(
      path.join(root, name),
      typeof content === "string" ? content : JSON.stringify(content)
    )
  }
  return {
    root,
    file: (name: string) => path.join(root, name),
    read: (name: string) => system.readFileString(path.join(root, name)),
    exists: (name: string) => system.exists(path.join(root, name))
  }
}, Effect.provide(NodeServices.layer))

export const openai = (...calls: ReadonlyArray<readonly [id: string, name: string, args: unknown]>) => ({
  role: "assistant",
  tool_calls: calls.map(([id, name, args]) => ({
    id,
    type: "function",
    function: { name, arguments: JSON.stringify(args) }
  }))
})

/** A port that nobody listens on. */
export const freePort = Effect.promise(async () => {
  const server = createServer().listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  server.close()
  await once(server, "close")
  return typeof address === "object" && address !== null ? address.port : 0
})
