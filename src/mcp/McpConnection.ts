/**
 * One connection to one MCP server, by the official client.
 *
 * `effect/ai/McpClient` (4.1.0) was tried in its place and failed 43 of 77 tests. It delivers no notifications
 * (progress, changed tools, trace of a call), supports one fixed revision of the protocol, and fails the whole
 * connection or list for one malformed line, tool or result. It refuses lists of more than 100 pages, drops the
 * standard error of a server, does not report that a connection is gone, and limits neither unread input nor output
 * that a server writes without end.
 */
import {
  type CallToolResult,
  Client,
  type ListToolsResult,
  type Progress,
  ProtocolError,
  SdkError,
  SdkErrorCode,
  SdkHttpError,
  type Tool
} from "@modelcontextprotocol/client"
import * as Data from "effect/Data"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Queue from "effect/Queue"
import type * as Scope from "effect/Scope"
import type { Sandboxing } from "../core/vocabulary/ToolAnnotations.ts"
import { clip } from "../internal/clip.ts"
import { version } from "../internal/version.ts"
import * as HttpTransport from "./HttpTransport.ts"
import * as Malformed from "./Malformed.ts"
import type { McpServer, McpServerError } from "./McpServers.ts"
import * as McpServers from "./McpServers.ts"
import * as McpTrace from "./McpTrace.ts"
import { resolved } from "./resourceLinks.ts"
import * as StdioTransport from "./StdioTransport.ts"

/** A connection to a server. */
export interface McpConnection {
  /** Its tools, as it describes them. */
  readonly listTools: Effect.Effect<Listed, McpServerError>
  /** How its calls run, if its config says something about a sandbox. */
  readonly sandboxing: Sandboxing | undefined
  /** What it says about how it is used. */
  readonly instructions: string | undefined
  /** Calls a tool; interrupting it cancels the call. A failure that the tool itself reports is a result. */
  readonly callTool: (
    tool: Tool,
    args: Record<string, unknown>,
    onProgress: (progress: Progress) => void
  ) => Effect.Effect<CallToolResult, McpServerError>
  /** Ends when the connection is gone, with the reason. */
  readonly closed: Effect.Effect<McpServerError>
}

/** The tools of a server, and why others are not among them. */
export interface Listed {
  readonly tools: ReadonlyArray<Tool>
  readonly leftOut: ReadonlyArray<string>
}

/** Bounds of a list of tools: characters of one, and of all that is read, pages, tools. */
export const listBounds = { toolChars: 128_000, chars: 16_000_000, pages: 1_000, tools: 20_000 }

/** Connects to a server; the scope ends the connection, and the process of a server that is one. */
export const make = Effect.fnUntraced(function*(
  name: string,
  server: McpServer,
  onToolsChanged: () => void
): Effect.fn.Return<McpConnection, McpServerError, Scope.Scope> {
  const fail = (reason: McpServerError["reason"], problem: string) => McpServers.failure(name, server, reason, problem)
  const isHttp = "url" in server
  const { ended, leave, sandboxing, transport } = isHttp
    ? { ...HttpTransport.make(server), sandboxing: undefined }
    : yield* StdioTransport.make(name, server)
  const malformed = Malformed.repairing(transport)
  const client = new Client({ name: "effect-tool-executor", version }, {
    // an older server on standard input may exit when asked for its revision
    versionNegotiation: { mode: isHttp ? "auto" : "legacy" },
    // report changes immediately: a debounce would wait forever for a server that reports them all the time
    listChanged: { tools: { autoRefresh: false, debounceMs: 0, onChanged: onToolsChanged } }
  })
  const gone = Deferred.makeUnsafe<McpServerError>()
  const close = (problem: string) =>
    Effect.suspend(() => {
      Deferred.doneUnsafe(gone, Effect.succeed(fail("Closed", problem)))
      // what waits for an answer has waited long enough
      return Effect.ignore(Effect.tryPromise(() => transport.close()))
    })
  const request = <A>(run: (signal: AbortSignal) => Promise<A>) =>
    Effect.catch(attempt(run), (rejected) =>
      // how it ended says more than that it did not answer
      isClosed(rejected) || Deferred.isDoneUnsafe(gone)
        ? Effect.flatMap(Deferred.await(gone), Effect.fail)
        : Effect.fail(fail(isUnreachable(rejected) ? "NotStarted" : "Protocol", problemOf(server, rejected))))
  const startTimeout = Duration.fromInputUnsafe((server.startTimeout ?? "30 seconds") as Duration.Input)
  const within = <A>(what: string, run: (signal: AbortSignal) => Promise<A>) =>
    Effect.timeoutOrElse(request(run), {
      duration: startTimeout,
      orElse: () => Effect.fail(fail("NotAnswering", `it did not ${what} within ${Duration.format(startTimeout)}`))
    })
  const doubts = yield* Queue.sliding<void>(1)
  // an address is asked whether anybody is there who knows the session; a process is seen to end
  const check = Effect.catch(
    attempt((signal) => isModern(client) ? client.discover({ signal, timeout }) : client.ping({ signal, timeout })),
    (rejected) => isAnswer(rejected) ? Effect.void : close(problemOf(server, rejected))
  )

  yield* Effect.forkScoped(Effect.flatMap(ended, close))
  if (isHttp) Object.assign(transport, { onerror: () => void Queue.offerUnsafe(doubts, undefined) })
  yield* Effect.addFinalizer(() => Effect.andThen(leave, close("it was closed")))
  yield* within("connect", (signal) => client.connect(transport, { signal, timeout: longest }))
  yield* Effect.forkScoped(Effect.forever(Effect.andThen(Queue.take(doubts), check)))
  return {
    // the client asks a server without tools nothing, and says so on the standard output
    listTools: client.getServerCapabilities()?.tools === undefined
      ? Effect.succeed({ tools: [], leftOut: [] })
      : within(
        "list its tools",
        (signal) =>
          boundedList(
            (params) => client.request({ method: "tools/list", ...params }, { signal, timeout: longest }),
            malformed,
            isHttp && isModern(client)
          )
      ),
    sandboxing,
    instructions: client.getInstructions(),
    callTool: ({ inputSchema, name }, args, onprogress) =>
      McpTrace.client(
        name,
        (meta) =>
          request((signal) =>
            client.callTool({ name, arguments: args, ...meta === undefined ? {} : { _meta: meta } }, {
              signal,
              timeout: longest,
              onprogress,
              // omit the output schema: the executor does not check outputs of servers
              toolDefinition: { name, inputSchema }
            }).then((result) =>
              resolved(
                result,
                client.getServerCapabilities()?.resources === undefined ?
                  undefined :
                  (uri) => client.readResource({ uri }, { signal, timeout })
              )
            )
          )
      ),
    closed: Deferred.await(gone)
  }
})

/** The executor's limits hold; this is as long as a timer can be. */
const longest = 2 ** 31 - 1

/** Milliseconds that a server has to say that it is there. */
const timeout = 5_000

/** Reads page by page and releases what is too large before it reads the next page. */
const boundedList = async (
  read: (params: { readonly params?: { readonly cursor: string } }) => Promise<ListToolsResult>,
  malformed: () => ReadonlyArray<string>,
  hasHeaders: boolean
): Promise<Listed> => {
  const tools: Array<Tool> = []
  const leftOut: Array<string> = []
  const { chars: maxChars, pages: maxPages, toolChars, tools: maxTools } = listBounds
  let chars = 0
  let cursor: string | undefined
  let isOver = false
  for (let pages = 1;; pages++) {
    const page = await read(cursor === undefined ? {} : { params: { cursor } })
    leftOut.push(...malformed())
    for (const tool of page.tools) {
      const json = JSON.stringify(tool)
      const size = json.length
      chars += size
      isOver = tools.length >= maxTools || chars > maxChars
      if (isOver) break
      const problem = size > toolChars
        ? `it has ${size} characters, more than ${toolChars}`
        : tool.execution?.taskSupport === "required"
        ? "it has to be called as a task, which is not done here"
        : hasHeaders && json.includes("x-mcp-header")
        ? Malformed.headerProblem(tool.inputSchema)
        : undefined
      if (problem === undefined) tools.push(tool)
      else leftOut.push(`"${clip(tool.name, 100)}": ${problem}; the tool is left out`)
    }
    // a server that gives the same place again has no more
    const isEnd = page.nextCursor === undefined || page.nextCursor === cursor
    cursor = page.nextCursor
    isOver ||= pages >= maxPages && !isEnd
    if (isOver) {
      leftOut.push(
        `it lists more than ${maxTools} tools, ${maxChars} characters or ${maxPages} pages; the rest is left out`
      )
    }
    if (isEnd || isOver) return { tools, leftOut: leftOut.slice(-100) }
  }
}

const isModern = (client: Client): boolean => client.getProtocolEra() === "modern"

/** What the client rejected with. */
class Rejected extends Data.TaggedError("Rejected")<{ readonly cause: unknown }> {}

const attempt = <A>(run: (signal: AbortSignal) => Promise<A>): Effect.Effect<A, Rejected> =>
  Effect.tryPromise({ try: run, catch: (cause) => new Rejected({ cause }) })

const isClosed = ({ cause }: Rejected): boolean =>
  cause instanceof SdkError && cause.code === SdkErrorCode.ConnectionClosed

/** Whether somebody of MCP has answered, or may still. */
const isAnswer = ({ cause }: Rejected): boolean =>
  cause instanceof ProtocolError || (cause instanceof SdkError && !(cause instanceof SdkHttpError))

const isUnreachable = ({ cause }: Rejected): boolean =>
  cause instanceof TypeError || (cause instanceof Error && cause.cause instanceof TypeError)

/** What went wrong, and why: fetch hides that in its cause. An address is said without what may be secret in it. */
const problemOf = (server: McpServer, { cause }: Rejected): string => {
  const reasons: Array<string> = []
  for (let it = cause; it instanceof Error && reasons.length < 5; it = it.cause) {
    const reason = it.message === "" ? String((it as NodeJS.ErrnoException).code ?? it.name) : it.message
    if (!reasons.some((known) => known.includes(reason))) reasons.push(reason)
  }
  const problem = clip(reasons.length === 0 ? String(cause) : reasons.join(": "), 2_000)
  if (!("url" in server)) return problem
  const { origin, pathname } = new URL(server.url)
  return `${origin}${pathname}: ${problem}`
}
