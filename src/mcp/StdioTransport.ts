/**
 * A server that is a program: one process for each connection, which ends with
 * the scope, and everything it started with it.
 *
 * The SDK's own transport ends the process alone; a server behind a launcher such
 * as `npx` would stay.
 *
 * @since 0.1.0
 */
import {
  deserializeMessage,
  SdkError,
  SdkErrorCode,
  serializeMessage,
  type Transport
} from "@modelcontextprotocol/client"
import { getDefaultEnvironment } from "@modelcontextprotocol/client/stdio"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import { StringDecoder } from "node:string_decoder"
import { escape } from "../internal/escape.ts"
import * as ProcessGroup from "../tools/ProcessGroup.ts"
import { lines } from "./lines.ts"
import { McpServerError, type Stdio } from "./McpServers.ts"

/**
 * A transport, and how its process is doing.
 *
 * @category models
 * @since 0.1.0
 */
export interface StdioTransport {
  readonly transport: Transport
  /** Ends when the process can answer no more; says how it ended, and the last it wrote to its standard error. */
  readonly ended: Effect.Effect<string>
  /** There is nothing to say before it is closed. */
  readonly leave: Effect.Effect<void>
}

/**
 * Bytes that one message of a server may have.
 *
 * @category constants
 * @since 0.1.0
 */
export const maxMessageBytes = 10 * 1024 * 1024

/** Time that a server has to end by itself once its input is closed, and again once it is told to. */
const grace = Duration.seconds(1)

/** Characters of standard error that are kept, and bytes of a line of it that is logged. */
const keptChars = 2_000

/**
 * Starts the program; fails where it cannot be started. What it writes to its
 * standard error is logged at level `Debug`.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = Effect.fnUntraced(function*(
  name: string,
  server: Stdio
): Effect.fn.Return<StdioTransport, McpServerError, Scope.Scope> {
  const runFork = Effect.runForkWith(yield* Effect.context<never>())
  const flooded = Deferred.makeUnsafe<string>()
  const deaf = Deferred.makeUnsafe<string>()
  const waiting: Array<string> = []
  const pushMessages = lines(maxMessageBytes, (line) => void waiting.push(line))
  const deliver = () => {
    const line = waiting.shift()
    if (line === undefined) return
    const taken = Result.try(() => transport.onmessage?.(deserializeMessage(line)))
    // a line that is no message: other lines may be
    if (Result.isFailure(taken)) transport.onerror?.(new Error(String(taken.failure)))
    // the client takes a notification later than an answer: one by one, or the progress just before it is lost
    queueMicrotask(deliver)
  }
  const take = (chunk: Buffer) => {
    if (Deferred.isDoneUnsafe(flooded)) return
    if (!pushMessages(chunk)) {
      const problem = `it sent a message of more than ${maxMessageBytes} bytes`
      Deferred.doneUnsafe(flooded, Effect.succeed(problem))
    }
    deliver()
  }
  const decoder = new StringDecoder("utf8")
  let lastErrors = ""
  const pushErrors = lines(
    keptChars,
    (line) => void (line.trim() === "" || runFork(Effect.annotateLogs(Effect.logInfo(escape(line)), { server: name })))
  )
  const group = yield* ProcessGroup.make({
    argv: [server.command, ...server.args ?? []],
    cwd: server.cwd ?? ".",
    environment: { ...getDefaultEnvironment(), ...server.env },
    killGrace: grace,
    input: true,
    onOutput: (stream, chunk) => {
      if (stream === "stdout") return take(chunk)
      lastErrors = (lastErrors + decoder.write(chunk)).slice(-keptChars)
      pushErrors(chunk)
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
        stdin.write(serializeMessage(message), (error) => {
          if (!error) return resolve()
          Deferred.doneUnsafe(deaf, Effect.succeed("it does not read its input any more"))
          reject(new SdkError(SdkErrorCode.ConnectionClosed, error.message))
        })
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
      const said = lastErrors.trim()
      return said === "" ? how : `${how}; it said: ${said}`
    }
  )
  return {
    transport,
    ended: Effect.raceAllFirst([
      ended,
      Deferred.await(flooded),
      // who has ended does not read, either; that it ended says more
      Effect.tap(Deferred.await(deaf), () => Effect.sleep(Duration.times(grace, 2)))
    ]),
    leave: Effect.void
  }
})
