/**
 * The gateway of `tool-executor mcp`: loaded only when it is used, since it needs the MCP client, which is an optional
 * peer.
 */
import * as McpProtocol from "effect/ai/McpProtocol"
import * as McpServer from "effect/ai/McpServer"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import * as LocalExecutor from "../../assembly/LocalExecutor.ts"
import * as ToolExecutors from "../../core/engine/ToolExecutors.ts"
import * as Approvals from "../../core/gates/Approvals.ts"
import type { Journal } from "../../core/store/Journal.ts"
import { ToolHandlers } from "../../core/vocabulary/ToolHandlers.ts"
import { version } from "../../internal/version.ts"
import * as GatewayHttp from "../../mcp/GatewayHttp.ts"
import * as GatewayLifecycle from "../../mcp/GatewayLifecycle.ts"
import * as GatewayStdio from "../../mcp/GatewayStdio.ts"
import * as McpGateway from "../../mcp/McpGateway.ts"
import * as McpTools from "../../mcp/McpTools.ts"
import { serveRoutes } from "../../server/api/Listener.ts"
import * as Asking from "../../terminal/Asking.ts"
import * as ArtifactTools from "../../tools/folders/ArtifactTools.ts"
import { type CliFailure, wrong } from "../CliFailure.ts"
import * as Files from "../Files.ts"
import { Interruption } from "../Interruption.ts"
import { HttpPort } from "../serve/HttpPort.ts"
import * as GatewayConfig from "./GatewayConfig.ts"
import * as GatewayPage from "./GatewayPage.ts"
import * as GatewayProblems from "./GatewayProblems.ts"

/** Begins to connect to the servers of the config. */
export const start = (config: GatewayConfig.Tiered) =>
  Effect.provide(
    McpTools.start(config.mcpServers, {
      toolkits: [ArtifactTools.toolkit],
      tools: config.tools as McpTools.Options["tools"]
    }),
    ArtifactTools.layer
  )

/** Who answers approval requests: the person behind the client, nobody, or an automatic approver. */
export type Approve = "ask" | "deny" | "auto"

/** Layer of an executor for each session, over the tools of the servers; and of who is asked. */
export const executorsOf = (
  handlers: ToolHandlers["Service"],
  config: GatewayConfig.Tiered,
  approve: Approve,
  record: Layer.Layer<never, CliFailure> | Layer.Layer<Journal, CliFailure> = Layer.empty
) => {
  // durations were checked when the file was decoded
  const approvals = Approvals.layer({ timeout: config.approvalTimeout as Approvals.Options["timeout"] })
  const executors = ToolExecutors.layer().pipe(Layer.provide(gatesOf(handlers, config)), Layer.provide(record))
  if (approve === "deny") return executors
  return approve === "ask"
    ? Layer.provideMerge(executors, approvals)
    // hide the approvals of the page from the gateway: it would give up requests that its client cannot show
    : Layer.provide(
      executors,
      Layer.provideMerge(Layer.effectDiscard(Effect.forkScoped(Asking.approveAll)), approvals)
    )
}

/**
 * Waits for the servers; fails where one that is not optional cannot be reached, or where the config does not fit the
 * tools that have come. Says what of it means nothing: a misspelt `deny` denies nothing.
 */
export const check = Effect.fnUntraced(function*(
  { handlers, ready }: McpTools.Starting,
  config: GatewayConfig.Tiered
) {
  yield* ready
  yield* Effect.scoped(Layer.build(gatesOf(handlers, config)))
  for (const { path, problem } of GatewayProblems.meaningless(config, handlers.current())) {
    yield* Effect.logWarning(`${path}: ${problem} at the moment`)
  }
})

/** Prints the tools as a client sees them. */
export const printTools = Effect.fnUntraced(function*(config: GatewayConfig.Tiered) {
  const servers = yield* start(config)
  yield* check(servers, config)
  const executors = yield* Layer.build(executorsOf(servers.handlers, config, "deny"))
  const tools = yield* (yield* Context.get(executors, ToolExecutors.ToolExecutors).get("list")).tools
  const known = servers.handlers.current()
  yield* Files.printJson(tools.map(({ description, name, openWorld, readOnly }) => {
    const sandbox = known.get(name)?.sandboxed?.({})
    return { name, readOnly, openWorld, ...sandbox === undefined ? {} : { sandbox }, description }
  }))
}, Effect.scoped)

/** Where it is reached: `port` undefined is standard input and output. */
export interface Ports {
  readonly host: string
  readonly port: number | undefined
  /** Of the page, on loopback; 0 is any that is free. */
  readonly pagePort: number
}

/**
 * Serves on standard input and output, or on a port, until the client disconnects or the process is asked to stop.
 * Clients are answered immediately; messages that need the tools wait for them.
 */
export const serve = Effect.fnUntraced(function*(
  config: GatewayConfig.Tiered,
  approve: Approve | "page",
  { host, pagePort, port }: Ports,
  record: Layer.Layer<never, CliFailure> | Layer.Layer<Journal, CliFailure>
) {
  const servers = yield* start(config)
  const lifecycle = yield* GatewayLifecycle.make({ ready: Effect.ignore(servers.ready) })
  const registrations = approve === "page"
    ? Effect.map(
      GatewayPage.open(gatesOf(servers.handlers, config), config, record, pagePort),
      ({ executors, url }) => Layer.provide(McpGateway.layerSessions({ lifecycle, elsewhere: url }), executors)
    ).pipe(Layer.unwrap)
    : Layer.provide(McpGateway.layerSessions({ lifecycle }), executorsOf(servers.handlers, config, approve, record))
  const serving = Effect.gen(function*() {
    // instructions are sent only once, when a session begins
    yield* Effect.timeoutOption(Effect.exit(servers.ready), instructionsPatience)
    const instructions = servers.instructions()
    const options = { name: "effect-tool-executor", version, protocols, registrations, instructions, cacheHints }
    if (port === undefined) {
      return yield* Layer.launch(Layer.provide(McpServer.layerStdio(options), GatewayStdio.layer(lifecycle)))
    }
    const allowedOrigins = namesOf(host).map((name) => port === 80 ? `http://${name}` : `http://${name}:${port}`)
    const routes = McpServer.layerHttp({ ...options, path: "/mcp", allowedOrigins, allowSessionTermination: true })
    return yield* Layer.launch(yield* listening(routes, lifecycle, host, port))
  })
  // which protocols there are is not the user's to say
  const served = Effect.catchTag(untilGone(serving), "IllegalArgumentError", (error) => Effect.die(error))
  const interruption = yield* Interruption
  const told = Deferred.makeUnsafe<void>()
  yield* Effect.raceAllFirst([
    served,
    Effect.andThen(check(servers, config), Effect.never),
    // what it still has to write has a moment
    Effect.andThen(lifecycle.over, Effect.sleep("500 millis")),
    interruption.pipe(
      Effect.tap(Deferred.succeed(told, undefined)),
      Effect.flatMap(lifecycle.end),
      Effect.andThen(Effect.never)
    )
  ])
  yield* Deferred.isDoneUnsafe(told) ? Effect.interrupt : Effect.void
}, Effect.scoped)

const listening = Effect.fnUntraced(function*<E, R>(
  routes: Layer.Layer<never, E, R>,
  lifecycle: GatewayLifecycle.GatewayLifecycle,
  host: string,
  port: number
) {
  const http = yield* HttpPort
  if (http === undefined) return yield* wrong("This platform cannot serve HTTP.")
  const guarded = Layer.provide(routes, GatewayHttp.layer(lifecycle))
  const app = isAnywhere(host) ? guarded : Layer.merge(guarded, onlyFor(namesOf(host)))
  const server = serveRoutes(app, http.server({ host, port }), { disableListenLog: true, disableLogger: true }).pipe(
    Layer.provide(http.services)
  )
  return Layer.provide(Layer.effectDiscard(Files.printError(`Serving http://${host}:${port}/mcp\n`)), server)
})

const gatesOf = (handlers: ToolHandlers["Service"], config: GatewayConfig.Tiered) =>
  LocalExecutor.layerGates(GatewayConfig.toOptions(config)).pipe(
    Layer.provideMerge(Layer.succeed(ToolHandlers, handlers))
  )

/** How long a client waits for what servers say about their use; for their tools it waits until they are there. */
const instructionsPatience = "3 seconds"

const protocols = [
  McpProtocol.v2025_11_25,
  McpProtocol.v2025_06_18,
  McpProtocol.v2025_03_26,
  McpProtocol.v2024_11_05,
  McpProtocol.v2026_07_28
] as const

/** Cache lifetime for clients of a revision without sessions; listening clients are notified of changes. */
const cacheHints = {
  discover: { ttl: "5 minutes", cacheScope: "private" },
  tools: { ttl: "30 seconds", cacheScope: "private" }
} as const

/** A client that has gone ends its own server, and that is not a failure. */
const untilGone = <A, E, R>(serving: Effect.Effect<A, E, R>) =>
  Effect.flatMap(
    Effect.flatMap(Effect.forkChild(serving), Fiber.await),
    (exit) => Exit.isFailure(exit) && !Cause.hasInterruptsOnly(exit.cause) ? Effect.failCause(exit.cause) : Effect.void
  )

/** An address that stands for all: by which names it is reached is not known. */
const isAnywhere = (host: string): boolean => host === "0.0.0.0" || host === "::"

/** What this host is called, as it stands in URLs. */
const namesOf = (host: string): ReadonlyArray<string> => [
  "localhost",
  "127.0.0.1",
  "[::1]",
  host.includes(":") ? `[${host}]` : host.toLowerCase()
]

/** Refuses requests that were meant for another host: a page may have its name lead here. */
const onlyFor = (names: ReadonlyArray<string>) =>
  HttpRouter.middleware(
    (handle) =>
      Effect.flatMap(
        HttpServerRequest.HttpServerRequest,
        ({ headers }) =>
          names.includes((headers.host ?? "").toLowerCase().replace(/:\d+$/, ""))
            ? handle
            : Effect.succeed(HttpServerResponse.text("This host is not served here.", { status: 403 }))
      ),
    { global: true }
  )
