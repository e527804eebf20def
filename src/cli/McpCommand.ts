/**
 * `tool-executor mcp`: an MCP server in front, MCP servers behind, and the gates
 * of the executor between them.
 *
 * @since 0.1.0
 */
import * as McpProtocol from "effect/ai/McpProtocol"
import * as McpServer from "effect/ai/McpServer"
import * as Cause from "effect/Cause"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import { escape } from "../internal/escape.ts"
import { version } from "../internal/version.ts"
import * as LocalExecutor from "../LocalExecutor.ts"
import * as McpGateway from "../mcp/McpGateway.ts"
import type { McpServerError } from "../mcp/McpServers.ts"
import * as McpTools from "../mcp/McpTools.ts"
import * as Approvals from "../policy/Approvals.ts"
import * as ToolExecutors from "../ToolExecutors.ts"
import * as ArtifactTools from "../tools/ArtifactTools.ts"
import * as Approver from "./Approver.ts"
import { describe, wrong } from "./CliFailure.ts"
import * as Files from "./Files.ts"
import * as GatewayConfig from "./GatewayConfig.ts"
import { HttpPort } from "./HttpPort.ts"

const input = {
  config: Flag.String("config").pipe(
    Flag.withMetavar("FILE"),
    Flag.withDescription(
      "JSON file with mcpServers, rules, policy and limits; `tool-executor schema gateway` prints its JSON Schema"
    )
  ),
  http: Flag.Int("http").pipe(
    Flag.withMetavar("PORT"),
    Flag.withDescription("Serve Streamable HTTP on this port at /mcp, instead of standard input and output"),
    Flag.optional
  ),
  host: Flag.String("host").pipe(
    Flag.withMetavar("HOST"),
    Flag.withDescription("Address to serve HTTP on; default 127.0.0.1. There is no authentication"),
    Flag.withDefault("127.0.0.1")
  ),
  approve: Flag.Literals("approve", ["ask", "deny", "auto"]).pipe(
    Flag.withDescription(
      "What becomes of calls that a person has to allow: ask through the client (elicitation), the default, and deny " +
        "where it cannot; deny; auto allows them all"
    ),
    Flag.withDefault("ask")
  ),
  list: Flag.Boolean("list").pipe(
    Flag.withDescription("Print the tools as a client would see them, and end"),
    Flag.withDefault(false)
  )
}

/**
 * The command.
 *
 * @category commands
 * @since 0.1.0
 */
export const command = Command.make(
  "mcp",
  input,
  Effect.fnUntraced(function*({ approve, config: path, host, http, list }) {
    const config = yield* GatewayConfig.read(path)
    const executors = executorsOf(config, approve)
    const program = list ? Effect.provide(printTools, executors) : serve(executors, host, Option.getOrUndefined(http))
    yield* program.pipe(
      Effect.catchTags({
        ConfigurationError: (error) => Effect.fail(wrong(describe(error))),
        McpServerError: (error: McpServerError) => Effect.fail(wrong(escape(error.message)))
      })
    )
  })
).pipe(
  Command.withShortDescription("Serve the tools of MCP servers, behind rules, permissions and limits"),
  Command.withDescription(
    "Serves the tools of MCP servers as one MCP server, on standard input and output or over HTTP. Every call goes " +
      "through the rules, the policy and the limits of the config. What a server says about its tools is believed only " +
      "where the config says so: else every tool counts as one that changes things, and is asked about. Standard error " +
      "shows what the servers write to theirs. Exit code: 0 the client is gone, 2 bad usage or config, or a server that " +
      "cannot be reached."
  ),
  Command.withExamples([
    { command: "tool-executor mcp --config gateway.json", description: "What an editor starts" },
    { command: "tool-executor mcp --config gateway.json --list", description: "See the names for rules and policy" },
    { command: "tool-executor mcp --config gateway.json --http 8080", description: "Serve http://127.0.0.1:8080/mcp" }
  ])
)

// Utilities

const protocols = [
  McpProtocol.v2025_11_25,
  McpProtocol.v2025_06_18,
  McpProtocol.v2025_03_26,
  McpProtocol.v2024_11_05
] as const

/** An executor for each session, over the servers of the config; and who is asked. */
const executorsOf = (config: GatewayConfig.GatewayConfig, approve: "ask" | "deny" | "auto") => {
  const tools = McpTools.layer(config.mcpServers, {
    toolkits: [ArtifactTools.toolkit],
    tools: config.tools as McpTools.Options["tools"]
  }).pipe(Layer.provide(ArtifactTools.layer))
  // durations were checked when the file was decoded
  const approvals = Approvals.layer({ timeout: config.approvalTimeout as Approvals.Options["timeout"] })
  const people = {
    ask: approvals,
    auto: Layer.provideMerge(Layer.effectDiscard(Effect.forkScoped(Approver.approveAll)), approvals),
    deny: Layer.empty
  }
  return ToolExecutors.layer().pipe(
    Layer.provide(LocalExecutor.layerGates(GatewayConfig.toOptions(config))),
    Layer.provide(tools),
    Layer.provideMerge(people[approve])
  )
}

const printTools = Effect.gen(function*() {
  const { get } = yield* ToolExecutors.ToolExecutors
  const tools = yield* (yield* get("list")).tools
  yield* Files.printJson(tools.map(({ description, name, openWorld, readOnly }) => ({
    name,
    readOnly,
    openWorld,
    description
  })))
}).pipe(Effect.scoped)

/** Serves until the client is gone, or whoever started it ends it. */
const serve = <E, R>(
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
    const routes = McpServer.layerHttp({ ...options, path: "/mcp", allowSessionTermination: true })
    const server = HttpRouter.serve(Layer.merge(routes, onlyFor(host)), { disableListenLog: true }).pipe(
      Layer.provide(listen({ host, port }))
    )
    const tell = Layer.effectDiscard(Files.tell(`Serving http://${host}:${port}/mcp\n`))
    return yield* Layer.launch(Layer.provide(tell, server))
  })

/** A client that has gone ends what serves it, which is no failure. */
const untilGone = <A, E, R>(serving: Effect.Effect<A, E, R>) =>
  Effect.flatMap(
    Effect.flatMap(Effect.forkChild(serving), Fiber.await),
    (exit) => Exit.isFailure(exit) && !Cause.hasInterruptsOnly(exit.cause) ? Effect.failCause(exit.cause) : Effect.void
  )

/** Refuses requests that were meant for another host: a page may have its name lead here. */
const onlyFor = (host: string) => {
  const names = new Set(["localhost", "127.0.0.1", "[::1]", host.includes(":") ? `[${host}]` : host.toLowerCase()])
  return HttpRouter.middleware(
    (handle) =>
      Effect.flatMap(
        HttpServerRequest.HttpServerRequest,
        ({ headers }) =>
          names.has((headers.host ?? "").toLowerCase().replace(/:\d+$/, ""))
            ? handle
            : Effect.succeed(HttpServerResponse.text("This host is not served here.", { status: 403 }))
      ),
    { global: true }
  )
}
