/**
 * The gateway of `tool-executor mcp`: loaded only when it is used, since it needs
 * the MCP client, which is an optional peer.
 *
 * @since 0.1.0
 */
import * as McpProtocol from "effect/ai/McpProtocol"
import * as McpServer from "effect/ai/McpServer"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import { version } from "../internal/version.ts"
import * as LocalExecutor from "../LocalExecutor.ts"
import * as McpGateway from "../mcp/McpGateway.ts"
import * as McpTools from "../mcp/McpTools.ts"
import * as Approvals from "../policy/Approvals.ts"
import * as ToolExecutors from "../ToolExecutors.ts"
import { ToolHandlers } from "../ToolHandlers.ts"
import * as ArtifactTools from "../tools/ArtifactTools.ts"
import * as Approver from "./Approver.ts"
import { wrong } from "./CliFailure.ts"
import * as Files from "./Files.ts"
import * as GatewayConfig from "./GatewayConfig.ts"
import * as GatewayProblems from "./GatewayProblems.ts"
import { HttpPort } from "./HttpPort.ts"

/**
 * Layer of an executor for each session, over the servers of the config; and of
 * who is asked.
 *
 * @category layers
 * @since 0.1.0
 */
export const executorsOf = (config: GatewayConfig.GatewayConfig, approve: "ask" | "deny" | "auto") => {
  const tools = McpTools.layer(config.mcpServers, {
    toolkits: [ArtifactTools.toolkit],
    tools: config.tools as McpTools.Options["tools"]
  }).pipe(Layer.provide(ArtifactTools.layer))
  // durations were checked when the file was decoded
  const approvals = Approvals.layer({ timeout: config.approvalTimeout as Approvals.Options["timeout"] })
  const executors = ToolExecutors.layer().pipe(
    Layer.provide(LocalExecutor.layerGates(GatewayConfig.toOptions(config))),
    Layer.provide(Layer.provideMerge(warnings(config), tools))
  )
  if (approve === "deny") return executors
  return approve === "ask"
    ? Layer.provideMerge(executors, approvals)
    // the gateway must not see them: where its client can ask nobody it would give the questions up
    : Layer.provide(
      executors,
      Layer.provideMerge(Layer.effectDiscard(Effect.forkScoped(Approver.approveAll)), approvals)
    )
}

/**
 * Prints the tools as a client sees them.
 *
 * @category commands
 * @since 0.1.0
 */
export const printTools = Effect.gen(function*() {
  const { get } = yield* ToolExecutors.ToolExecutors
  const tools = yield* (yield* get("list")).tools
  yield* Files.printJson(tools.map(({ description, name, openWorld, readOnly }) => ({
    name,
    readOnly,
    openWorld,
    description
  })))
}).pipe(Effect.scoped)

/**
 * Serves until the client is gone, or whoever started it ends it; on standard
 * input and output, or on a port.
 *
 * @category commands
 * @since 0.1.0
 */
export const serve = <E, R>(
  executors: Layer.Layer<ToolExecutors.ToolExecutors, E, R>,
  host: string,
  port: number | undefined
) =>
  Effect.gen(function*() {
    const registrations = McpGateway.layerSessions().pipe(Layer.provide(executors))
    const options = { name: "effect-tool-executor", version, protocols, registrations }
    if (port === undefined) return yield* untilGone(Layer.launch(McpServer.layerStdio(options)))
    const listen = yield* HttpPort
    if (listen === undefined) return yield* wrong("HTTP cannot be served here.")
    const names = namesOf(host)
    const routes = McpServer.layerHttp({
      ...options,
      path: "/mcp",
      allowedOrigins: names.map((name) => port === 80 ? `http://${name}` : `http://${name}:${port}`),
      allowSessionTermination: true
    })
    const app = isAnywhere(host) ? routes : Layer.merge(routes, onlyFor(names))
    const server = HttpRouter.serve(app, { disableListenLog: true, disableLogger: true }).pipe(
      Layer.provide(listen({ host, port }))
    )
    const tell = Layer.effectDiscard(Files.tell(`Serving http://${host}:${port}/mcp\n`))
    return yield* Layer.launch(Layer.provide(tell, server))
  })

// Utilities

/** Says once what of the config means nothing: a misspelt `deny` denies nothing. */
const warnings = (config: GatewayConfig.GatewayConfig) =>
  Layer.effectDiscard(Effect.gen(function*() {
    const handlers = yield* ToolHandlers
    for (const { path, problem } of GatewayProblems.meaningless(config, handlers.current())) {
      yield* Effect.logWarning(`${path}: ${problem}, at least not now`)
    }
  }))

const protocols = [
  McpProtocol.v2025_11_25,
  McpProtocol.v2025_06_18,
  McpProtocol.v2025_03_26,
  McpProtocol.v2024_11_05
] as const

/** A client that has gone ends what serves it, which is no failure. */
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
