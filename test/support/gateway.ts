/** The MCP gateway over a handful of tools written in place, in memory and in virtual time. */
import type { Client } from "@modelcontextprotocol/client"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as ToolHandlers from "../../src/core/vocabulary/ToolHandlers.ts"
import { Approvals, LocalExecutor, ToolExecutor, ToolExecutors } from "../../src/index.ts"
import * as McpGateway from "../../src/mcp/McpGateway.ts"
import * as VirtualTime from "../../src/testing/VirtualTime.ts"
import * as ArtifactTools from "../../src/tools/folders/ArtifactTools.ts"
import { type Handler, toolkit, type ToolSpec } from "./Harness.ts"
import { type Connection, makeClient, serve } from "./mcpServer.ts"

export type Tools = { readonly [name: string]: ToolSpec | Handler }

export interface Options extends Omit<LocalExecutor.Options, "tools"> {
  /** An executor for each session. */
  readonly sessions?: boolean
  /** Who is asked; nobody if left out. */
  readonly approvals?: Approvals.Approvals["Service"]
  readonly gateway?: McpGateway.Options
}

/** A registry of tools, with those that read artifacts. */
export const registryOf = (tools: Tools) => {
  const { handlers, kit } = toolkit(tools)
  return Effect.provide(
    ToolHandlers.makeRegistry([kit, ArtifactTools.toolkit]),
    Layer.merge(handlers, ArtifactTools.layer)
  )
}

/** What a server registers: the gateway over tools. */
export const registrations = (handlers: ToolHandlers.ToolHandlers["Service"], options: Options = {}) => {
  const gates = LocalExecutor.layerGates({ policy: { default: "allow" }, ...options }).pipe(
    Layer.provideMerge(Layer.succeed(ToolHandlers.ToolHandlers, handlers)),
    Layer.provideMerge(
      options.approvals === undefined ? Layer.empty : Layer.succeed(Approvals.Approvals, options.approvals)
    )
  )
  return options.sessions === true
    ? McpGateway.layerSessions(options.gateway).pipe(Layer.provide(ToolExecutors.layer()), Layer.provide(gates))
    : McpGateway.layer(options.gateway).pipe(Layer.provideMerge(ToolExecutor.layer), Layer.provide(gates))
}

export interface Gateway {
  readonly connect: (client?: Client) => Effect.Effect<Connected>
  /** Takes other tools into the registry. */
  readonly replace: (tools: Tools) => Effect.Effect<void>
}

export interface Connected extends Connection {
  readonly client: Client
  /** Calls a tool; interrupting it cancels the call. */
  readonly call: (
    name: string,
    args?: Record<string, unknown>,
    meta?: Record<string, unknown>,
    onprogress?: (progress: object) => void
  ) => Effect.Effect<Result>
}

export interface Result {
  readonly text: string
  readonly isError: boolean
  readonly content: ReadonlyArray<unknown>
  readonly structuredContent: unknown
  readonly meta: Record<string, unknown> | undefined
  /** What the protocol itself refused it with. */
  readonly refused: string | undefined
}

/** A way to call tools with a client. */
export const caller = (client: Client): Connected["call"] => (name, args, meta, onprogress) =>
  Effect.promise((signal) =>
    client.callTool(
      { name, ...args === undefined ? {} : { arguments: args }, ...meta === undefined ? {} : { _meta: meta } },
      { signal, ...onprogress === undefined ? {} : { onprogress } }
    ).then(
      ({ _meta, content, isError = false, structuredContent }): Result => ({
        text: content.map((block) => block.type === "text" ? block.text : block.type).join("\n"),
        isError,
        content,
        structuredContent,
        meta: _meta,
        refused: undefined
      }),
      (error: Error): Result => ({
        text: "",
        isError: true,
        content: [],
        structuredContent: undefined,
        meta: undefined,
        refused: error.message
      })
    )
  )

/** Opens a gateway for the rest of the scope. */
export const open = Effect.fnUntraced(function*(
  tools: Tools,
  options: Options = {}
) {
  const handlers = ToolHandlers.fromRegistry(yield* registryOf(tools))
  const connect = yield* serve(Layer.effectDiscard(Layer.build(registrations(handlers, options))))
  const gateway: Gateway = {
    connect: (client = makeClient()) =>
      Effect.map(connect(client), (connection) => ({ ...connection, client, call: caller(client) })),
    replace: (tools) => Effect.flatMap(Effect.orDie(registryOf(tools)), handlers.replace)
  }
  return gateway
}, Effect.orDie)

/** Runs a program with a gateway over tools, in virtual time. */
export const run = <A, E>(
  tools: Tools,
  options: Options,
  program: (gateway: Gateway) => Effect.Effect<A, E, Scope.Scope>
): Effect.Effect<A, E | VirtualTime.Stuck> =>
  VirtualTime.run(Effect.scoped(Effect.flatMap(open(tools, options), program)), { limit: "1 day" })

/** Handlers that leave a trace: when they begin and how they end. */
export const traced = () => {
  const log: Array<string> = []
  const handler = (name: string, millis: number): Handler => ({ n = "" }) =>
    Effect.sync(() => void log.push(`+${name}${n}`)).pipe(
      Effect.andThen(Effect.sleep(millis)),
      Effect.onExit((exit) => Effect.sync(() => void log.push(`${exit._tag === "Success" ? "-" : "!"}${name}${n}`))),
      Effect.as(`${name}${n}`)
    )
  return { log, handler }
}
