/**
 * A server that is a program: one process for each connection, which ends with the scope, and everything it started
 * with it.
 *
 * The SDK's own transport ends the process alone; a server behind a launcher such as `npx` would stay.
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
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as NodeFsPromises from "node:fs/promises"
import type { Readable } from "node:stream"
import { StringDecoder } from "node:string_decoder"
import type { Sandboxing } from "../core/vocabulary/ToolAnnotations.ts"
import { escape } from "../internal/escape.ts"
import * as Sandbox from "../tools/sandbox/Sandbox.ts"
import * as SandboxOptions from "../tools/sandbox/SandboxOptions.ts"
import { linesInTurns } from "./lines.ts"
import type { McpServerError, Stdio } from "./McpServers.ts"
import * as McpServers from "./McpServers.ts"

/** A transport, and how its process is doing. */
export interface StdioTransport {
  readonly transport: Transport
  /** Ends when the process can answer no more; says how it ended, and the last it wrote to its standard error. */
  readonly ended: Effect.Effect<string>
  /** How its calls run, if its config says something about a sandbox. */
  readonly sandboxing: Sandboxing | undefined
  /** There is nothing to say before it is closed. */
  readonly leave: Effect.Effect<void>
}

/** Bytes that one message of a server may have. */
export const maxMessageBytes = 10 * 1024 * 1024

/** Time for a server to exit after its input is closed, and again after TERM. */
const grace = Duration.seconds(1)

/** Messages for it that it has not read. */
const maxUnread = 1_000

/** How long others have between some lines of it and the next. */
const pause = "10 millis"

const notReadable = "the server's answer cannot be read"

/** The request that a line would be the answer to, if it were a message. */
const idOf = (line: string): string | number | undefined => {
  if (!line.startsWith("{")) return undefined
  const parsed = Result.getOrUndefined(Result.try((): unknown => JSON.parse(line)))
  if (!Predicate.hasProperty(parsed, "id") || Predicate.hasProperty(parsed, "method")) return undefined
  return typeof parsed.id === "string" || typeof parsed.id === "number" ? parsed.id : undefined
}

/** Where a server runs, and the folder that it starts in; fails where its sandbox does not hold. */
const sandboxOf = Effect.fnUntraced(function*(
  name: string,
  server: Stdio
): Effect.fn.Return<{ readonly cwd: string; readonly sandbox: Sandbox.Sandbox["Service"] }, McpServerError> {
  const cwd = server.cwd ?? "."
  const { sandbox: said = false } = server
  if (said === false) return { cwd, sandbox: Sandbox.off }
  const options = said === true ? {} : said
  const readable = [...options.readable ?? [], ...server.cwd === undefined ? [] : [server.cwd]]
  const sandbox = yield* SandboxOptions.make({ ...options, readable })
  const { status } = sandbox
  if (status._tag === "Unavailable") {
    const text = Sandbox.describe(status)
    if (status.isRequired) return yield* McpServers.failure(name, server, "NotStarted", text)
    yield* Effect.logWarning(escape(`MCP server "${name}": ${text}`))
  }
  const real = Effect.orElseSucceed(Effect.tryPromise(() => NodeFsPromises.realpath(cwd)), () => cwd)
  return status._tag === "Holds"
    // without a folder of its own, that of this process is not to be seen
    ? { cwd: server.cwd === undefined ? "/tmp" : yield* real, sandbox }
    : { cwd, sandbox }
})

/** Characters of standard error that are kept, and bytes of a line of it that is logged. */
const keptChars = 2_000

/**
 * Starts the program; fails where it cannot be started. What it writes to its standard error is logged at level
 * `Debug`.
 */
export const make = Effect.fnUntraced(function*(
  name: string,
  server: Stdio
): Effect.fn.Return<StdioTransport, McpServerError, Scope.Scope> {
  const runFork = Effect.runForkWith(yield* Effect.context<never>())
  const flooded = Deferred.makeUnsafe<string>()
  const deaf = Deferred.makeUnsafe<string>()
  const others = (goOn: () => void) => void runFork(Effect.delay(Effect.sync(goOn), pause))
  const deliver = (line: string) => {
    const taken = Result.try(() => transport.onmessage?.(deserializeMessage(line)))
    if (Result.isSuccess(taken)) return
    // this line is not a message, but other lines may be
    transport.onerror?.(new Error(String(taken.failure)))
    const answered = idOf(line)
    // who waits for it would wait until the limit of the call
    if (answered !== undefined) {
      transport.onmessage?.({ jsonrpc: "2.0", id: answered, error: { code: -32_603, message: notReadable } })
    }
  }
  // the client takes a notification later than an answer: one by one, or the progress just before it is lost
  const pushMessages = linesInTurns(maxMessageBytes, deliver, others)
  const take = (chunk: Buffer, source: Readable) => {
    if (Deferred.isDoneUnsafe(flooded) || pushMessages(chunk, source)) return
    const problem = `it sent a message of more than ${maxMessageBytes} bytes`
    Deferred.doneUnsafe(flooded, Effect.succeed(problem))
  }
  const decoder = new StringDecoder("utf8")
  let lastErrors = ""
  const pushErrors = linesInTurns(
    keptChars,
    (line) => void (line.trim() === "" || runFork(Effect.annotateLogs(Effect.logInfo(escape(line)), { server: name }))),
    others
  )
  const { cwd, sandbox } = yield* sandboxOf(name, server)
  const group = yield* sandbox.start({
    argv: [server.command, ...server.args ?? []],
    cwd,
    network: true,
    environment: { ...getDefaultEnvironment(), ...server.env },
    killGrace: grace,
    input: true,
    onOutput: (stream, chunk, source) => {
      if (stream === "stdout") return take(chunk, source)
      lastErrors = (lastErrors + decoder.write(chunk)).slice(-keptChars)
      pushErrors(chunk, source)
    }
  }).pipe(
    Effect.mapError((failure) =>
      McpServers.failure(name, server, "NotStarted", `${server.command}: ${failure.message}`)
    )
  )
  const stdin = group.stdin!
  let unread = 0
  const transport: Transport = {
    start: () => Promise.resolve(),
    send: (message) =>
      new Promise((resolve, reject) => {
        const fail = (problem: string) => {
          Deferred.doneUnsafe(deaf, Effect.succeed("it no longer reads its input"))
          reject(new SdkError(SdkErrorCode.ConnectionClosed, problem))
        }
        // it may ask for answers that it never reads
        if (unread > maxUnread || stdin.writableLength > maxMessageBytes) return fail("its input is full")
        unread++
        stdin.write(serializeMessage(message), (error) => {
          unread--
          if (error) fail(error.message)
          else resolve()
        })
      }),
    close: () => {
      stdin.end()
      transport.onclose?.()
      return Promise.resolve()
    }
  }
  // give the process time to exit, then end its group
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
    sandboxing: Sandbox.sandboxing(sandbox, { network: true, unconfined: false }),
    leave: Effect.void
  }
})
