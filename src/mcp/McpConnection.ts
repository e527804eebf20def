/**
 * One connection to one MCP server, by the official client.
 *
 * `effect/ai`'s own client takes no notifications, so changes of the tools and
 * progress would be lost, and it speaks one chosen revision of the protocol.
 *
 * @since 0.1.0
 */
import {
  type CallToolResult,
  Client,
  type Progress,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  StreamableHTTPClientTransport,
  type Tool,
  type Transport
} from "@modelcontextprotocol/client"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { version } from "../internal/version.ts"
import { type Http, type McpServer, McpServerError } from "./McpServers.ts"
import * as StdioTransport from "./StdioTransport.ts"

/**
 * A connection to a server.
 *
 * @category models
 * @since 0.1.0
 */
export interface McpConnection {
  /** All its tools, as it describes them. */
  readonly listTools: Effect.Effect<ReadonlyArray<Tool>, McpServerError>
  /** Calls a tool; interrupting it cancels the call. A failure that the tool itself reports is a result. */
  readonly callTool: (
    call: { readonly name: string; readonly arguments: Record<string, unknown> },
    onProgress: (progress: Progress) => void
  ) => Effect.Effect<CallToolResult, McpServerError>
  /** Ends when the connection is gone, with the reason. */
  readonly closed: Effect.Effect<McpServerError>
}

/**
 * Connects to a server; the scope ends the connection, and the process of a
 * server that is one.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = Effect.fnUntraced(function*(
  name: string,
  server: McpServer,
  onToolsChanged: () => void
): Effect.fn.Return<McpConnection, McpServerError, Scope.Scope> {
  const fail = (reason: McpServerError["reason"], problem: string) =>
    new McpServerError({ server: name, reason, problem })
  const gone = Deferred.makeUnsafe<McpServerError>()
  const lost = (problem: string) => void Deferred.doneUnsafe(gone, Effect.succeed(fail("Closed", problem)))
  const { ended, transport } = "command" in server
    ? yield* StdioTransport.make(name, server)
    : yield* httpTransport(server)
  const client = new Client({ name: "effect-tool-executor", version }, {
    // a process of its own cannot be asked which revision it speaks: an older one may end
    versionNegotiation: { mode: "command" in server ? "legacy" : "auto" },
    // what a foreign schema says of a foreign output is not for us to run
    jsonSchemaValidator: {
      getValidator: () => (value) => ({ valid: true, data: value as never, errorMessage: undefined })
    },
    listChanged: { tools: { autoRefresh: false, onChanged: onToolsChanged } }
  })
  yield* Effect.forkScoped(Effect.map(ended, (how) => {
    lost(how)
    // what waits for an answer has waited long enough
    transport.onclose?.()
  }))
  const patience = Duration.fromInputUnsafe((server.startTimeout ?? "30 seconds") as Duration.Input)
  const within = <A>(what: string, run: (signal: AbortSignal) => Promise<A>) =>
    Effect.tryPromise({ try: run, catch: (cause) => fail("Protocol", problemOf(cause)) }).pipe(
      Effect.timeoutOrElse({
        duration: patience,
        orElse: () => Effect.fail(fail("NotAnswering", `it did not ${what} within ${Duration.format(patience)}`))
      }),
      // that its process ended, and how, says more than that it did not answer
      Effect.catch((error) =>
        Effect.flatMap(
          Effect.timeoutOption(Deferred.await(gone), "300 millis"),
          (end) => Effect.fail(end._tag === "Some" ? end.value : error)
        )
      )
    )
  yield* Effect.addFinalizer(() => Effect.ignore(Effect.tryPromise(() => client.close())))
  yield* within("connect", (signal) => client.connect(transport, { signal, timeout: longest }))
  return {
    listTools: Effect.map(
      within("list its tools", (signal) => client.listTools(undefined, { signal, timeout: longest })),
      (listed) => listed.tools
    ),
    callTool: (call, onProgress) =>
      Effect.tryPromise({
        try: (signal) => client.callTool(call, { signal, timeout: longest, onprogress: onProgress }),
        catch: (cause) => {
          if (cause instanceof SdkHttpError && cause.data?.status === 404) lost("it has forgotten the session")
          return fail(isClosed(cause) ? "Closed" : "Protocol", problemOf(cause))
        }
      }),
    closed: Deferred.await(gone)
  }
})

// Utilities

/** The executor's limits hold; this is as long as a timer can be. */
const longest = 2 ** 31 - 1

const httpTransport = Effect.fnUntraced(function*(server: Http) {
  const transport = new StreamableHTTPClientTransport(new URL(server.url), {
    requestInit: { headers: { ...server.headers } }
  })
  // sessions are ended politely; a server that does not care forgets them by itself
  yield* Effect.addFinalizer(() =>
    Effect.timeoutOption(Effect.ignore(Effect.tryPromise(() => transport.terminateSession())), "1 second")
  )
  return { transport: transport as Transport, ended: Effect.never }
})

const isClosed = (cause: unknown): boolean => cause instanceof SdkError && cause.code === SdkErrorCode.ConnectionClosed

const problemOf = (cause: unknown): string => {
  if (!(cause instanceof Error)) return String(cause).slice(0, 2_000)
  // fetch hides what went wrong in its cause
  const inner = cause.cause instanceof Error && cause.cause.message !== "" ? `: ${cause.cause.message}` : ""
  return `${cause.message}${inner}`.slice(0, 2_000)
}
