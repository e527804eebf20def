/** Servers of a script, behind an executor. */
import { type Tool, WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/server"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import type * as Scope from "effect/Scope"
import { randomUUID } from "node:crypto"
import * as NodeFs from "node:fs"
import * as NodeHttp from "node:http"
import type { AddressInfo } from "node:net"
import * as NodeOs from "node:os"
import * as NodePath from "node:path"
import { Readable } from "node:stream"
import { text } from "node:stream/consumers"
import { pipeline } from "node:stream/promises"
import { LocalExecutor, ToolCall, ToolExecutor, ToolHandlers, ToolOutcome } from "../../src/index.ts"
import type * as McpServers from "../../src/mcp/McpServers.ts"
import * as McpTools from "../../src/mcp/McpTools.ts"
import { program } from "../support/programs.ts"
import * as Scripted from "../support/scriptedMcpServer.ts"

export type { Step } from "../support/scriptedMcpServer.ts"

/** A folder that is removed with the scope. */
export const makeFolder: Effect.Effect<string, never, Scope.Scope> = Effect.acquireRelease(
  Effect.sync(() => NodeFs.realpathSync(NodeFs.mkdtempSync(NodePath.join(NodeOs.tmpdir(), "mcp-")))),
  (folder) => Effect.sync(() => NodeFs.rmSync(folder, { recursive: true, force: true }))
)

/** A tool without parameters. */
export const tool = (name: string, rest: Partial<Tool> = {}): Tool => ({
  name,
  inputSchema: { type: "object" },
  ...rest
})

/** A server of a script as a program, and what it noted so far. */
export const scripted = Effect.fnUntraced(function*(script: Scripted.Script = {}) {
  const notes = NodePath.join(yield* makeFolder, "notes")
  return {
    notes,
    server: {
      command: process.execPath,
      args: [...program("test/support/scriptedMcpServer.ts"), JSON.stringify({ notes, ...script })]
    } as const,
    noted: (what: string): ReadonlyArray<unknown> =>
      (NodeFs.existsSync(notes) ? NodeFs.readFileSync(notes, "utf8") : "").split("\n").slice(0, -1)
        .map((line) => JSON.parse(line) as Scripted.Note)
        .filter(([it]) => it === what)
        .map(([, detail]) => detail)
  }
})

/** A server that is a line of shell. */
export const shell = (line: string): McpServers.Stdio => ({ command: "sh", args: ["-c", line] })

/** Waits until a condition holds. */
export const until = (condition: () => boolean): Effect.Effect<void> =>
  Effect.suspend(() => condition() ? Effect.void : Effect.andThen(Effect.sleep(5), until(condition)))

/** Whether a process runs; one that has ended and was not yet reaped does not. */
export const isRunning = (pid: unknown): boolean => {
  const file = `/proc/${String(pid)}/stat`
  return NodeFs.existsSync(file) && !/\) [ZX] /.test(NodeFs.readFileSync(file, "utf8"))
}

/** Keeps the log instead of printing it. */
export const logs = () => {
  const lines: Array<string> = []
  const logger = Logger.make(({ message }) => void lines.push(String(message)))
  return {
    lines,
    layer: Logger.layer([logger])
  }
}

/** Servers behind an executor that allows everything, for the rest of the scope. */
export const open = Effect.fnUntraced(function*(
  servers: McpServers.McpServers,
  options: McpTools.Options<never> & LocalExecutor.Options & { readonly log?: ReturnType<typeof logs> } = {}
) {
  const { layer: quiet, lines: log } = options.log ?? logs()
  const context = yield* Layer.build(
    ToolExecutor.layer.pipe(
      Layer.provide(LocalExecutor.layerGates({ dedupe: false, policy: { default: "allow" }, ...options })),
      Layer.provideMerge(McpTools.layer<never>(servers, options)),
      Layer.provide(quiet),
      Layer.fresh
    )
  )
  const executor = Context.get(context, ToolExecutor.ToolExecutor)
  const handlers = Context.get(context, ToolHandlers.ToolHandlers)
  const process = yield* executor.process()
  let last = 0
  const call = (name: string, params: unknown = {}) => process.execute(ToolCall.make(`call_${++last}`, name, params))
  return {
    executor,
    handlers,
    process,
    log,
    call,
    /** Has the tool `act` of a server do something. */
    act: (server: string, ...steps: ReadonlyArray<Scripted.Step>) => call(`${server}__act`, { steps }),
    names: () => Array.from(handlers.current().keys())
  }
})

/** What the model is told. */
export const said = ToolOutcome.text

/** An MCP server over HTTP with sessions, on loopback. */
export const http = Effect.fnUntraced(function*(script: Scripted.Script = {}) {
  const notes: Array<Scripted.Note> = []
  const note = (...it: Scripted.Note) => void notes.push(it)
  const sessions = new Map<string, WebStandardStreamableHTTPServerTransport>()
  /** What is answered instead, where there is something. */
  let instead: (request: Request) => Response | undefined | Promise<Response | undefined> = () => undefined
  const answer = async (request: Request): Promise<Response> => {
    const other = await instead(request)
    if (other !== undefined) return other
    const id = request.headers.get("mcp-session-id")
    let transport = id === null ? undefined : sessions.get(id)
    if (transport === undefined) {
      if (id !== null) return new Response("no such session", { status: 404 })
      transport = new WebStandardStreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => void sessions.set(id, transport!),
        onsessionclosed: (id) => void sessions.delete(id)
      })
      await Scripted.make(script, note).connect(transport)
    }
    return transport.handleRequest(request)
  }
  const server = NodeHttp.createServer((request, response) => {
    void (async () => {
      note("request", [request.method, request.headers])
      const headers = Object.entries(request.headers).map(([name, value]) => [name, String(value)] as [string, string])
      const { body, headers: sent, status } = await answer(
        new Request(`http://${request.headers.host}${request.url}`, {
          method: request.method!,
          headers,
          ...request.method === "POST" ? { body: await text(request) } : {}
        })
      )
      response.writeHead(status, Object.fromEntries(sent))
      response.flushHeaders()
      if (body === null) response.end()
      else await pipeline(Readable.fromWeb(body as never), response)
    })().catch(() => response.destroy())
  })
  const listen = (port: number) =>
    Effect.callback<number>((resume) => {
      server.listen(port, "127.0.0.1", () => resume(Effect.succeed((server.address() as AddressInfo).port)))
    })
  const stop = Effect.callback<void>((resume) => {
    server.close(() => resume(Effect.void))
    server.closeAllConnections()
  })
  const port = yield* Effect.acquireRelease(listen(0), () => stop)
  return {
    url: `http://127.0.0.1:${port}/mcp`,
    sessions,
    noted: (what: string) => notes.filter(([it]) => it === what).map(([, detail]) => detail),
    instead: (respond: typeof instead) => {
      instead = respond
    },
    /** Ends every connection, and takes no more. */
    stop,
    start: Effect.asVoid(Effect.suspend(() => listen(port)))
  }
})
