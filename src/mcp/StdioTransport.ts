/**
 * A server that is a program: one process for each connection, which ends with
 * the scope, and everything it started with it.
 *
 * The SDK's own transport ends the process alone; a server behind a launcher such
 * as `npx` would stay.
 *
 * @since 0.1.0
 */
import { ReadBuffer, serializeMessage, type Transport } from "@modelcontextprotocol/client"
import { getDefaultEnvironment } from "@modelcontextprotocol/client/stdio"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as ProcessGroup from "../tools/ProcessGroup.ts"
import { McpServerError, type Stdio } from "./McpServers.ts"

/**
 * A transport, and how its process is doing.
 *
 * @category models
 * @since 0.1.0
 */
export interface StdioTransport {
  readonly transport: Transport
  /** Ends with the process; says how it ended, and the last it wrote to its standard error. */
  readonly ended: Effect.Effect<string>
}

/** Time that a server has to end by itself once its input is closed, and again once it is told to. */
const grace = Duration.seconds(1)

/** Characters of standard error that are kept. */
const keptChars = 2_000

/**
 * Starts the program; fails where it cannot be started.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = Effect.fnUntraced(function*(
  name: string,
  server: Stdio
): Effect.fn.Return<StdioTransport, McpServerError, Scope.Scope> {
  const context = yield* Effect.context<never>()
  const broken = Deferred.makeUnsafe<string>()
  const messages = new ReadBuffer()
  let lastErrors = ""
  const take = (chunk: Buffer) => {
    try {
      messages.append(chunk)
    } catch (cause) {
      Deferred.doneUnsafe(broken, Effect.succeed(messageOf(cause)))
    }
    while (true) {
      try {
        const message = messages.readMessage()
        if (message === null) return
        transport.onmessage?.(message)
      } catch (cause) {
        // a line that is no message: other lines may be
        transport.onerror?.(cause instanceof Error ? cause : new Error(messageOf(cause)))
      }
    }
  }
  const group = yield* ProcessGroup.make({
    argv: [server.command, ...server.args ?? []],
    cwd: server.cwd ?? ".",
    environment: { ...getDefaultEnvironment(), ...server.env },
    killGrace: grace,
    input: true,
    onOutput: (stream, chunk) => {
      if (stream === "stdout") return take(chunk)
      const text = chunk.toString("utf8")
      lastErrors = (lastErrors + text).slice(-keptChars)
      Effect.runForkWith(context)(
        Effect.forEach(
          text.split("\n").filter((line) => line.trim() !== ""),
          (line) => Effect.annotateLogs(Effect.logInfo(line), { server: name })
        )
      )
    }
  }).pipe(
    Effect.mapError((failure) =>
      new McpServerError({ server: name, reason: "NotStarted", problem: `${server.command}: ${failure.message}` })
    )
  )
  const stdin = group.stdin!
  const transport: Transport = {
    start: () => Promise.resolve(),
    send: (message) =>
      new Promise((resolve, reject) => {
        stdin.write(serializeMessage(message), (error) => error ? reject(error) : resolve())
      }),
    close: () => {
      stdin.end()
      transport.onclose?.()
      return Promise.resolve()
    }
  }
  // the process has a moment to end by itself, then the group is ended
  yield* Effect.addFinalizer(() => {
    stdin.end()
    return Effect.timeoutOption(group.exited, grace)
  })
  const ended = Effect.map(
    // what it wrote before it ended counts
    Effect.tap(group.exited, () => Effect.timeoutOption(group.closed, "1 second")),
    ({ exitCode, signal }) => {
      const how = signal === null ? `it ended with exit code ${exitCode}` : `it was ended by ${signal}`
      return lastErrors.trim() === "" ? how : `${how}; it said: ${lastErrors.trim()}`
    }
  )
  return { transport, ended: Effect.raceFirst(ended, Deferred.await(broken)) }
})

// Utilities

const messageOf = (cause: unknown): string => cause instanceof Error ? cause.message : String(cause)
