/**
 * Tools of MCP servers in the registry of an executor: every gate holds for them
 * as for any other tool.
 *
 * What a server says about its tools is a stranger's word: without `trust` a tool
 * counts as one that changes things, unless the host says that it only reads. A
 * hint that makes a tool stricter (`openWorldHint`) counts always. Arguments are
 * checked against the schema that the server gave.
 *
 * **Example** (The tools of a server beside one's own)
 *
 * ```ts
 * import { Layer } from "effect"
 * import { Dedupe, Permissions, Pools, Rules, ToolExecutor } from "effect-tool-executor"
 * import { McpTools } from "effect-tool-executor/mcp"
 *
 * export const Executor = ToolExecutor.layer.pipe(
 *   Layer.provide(Layer.mergeAll(
 *     Rules.layer([]),
 *     Permissions.layer({ allow: ["files__*"], deny: ["files__write_*"] }),
 *     Dedupe.layerNoop,
 *     Pools.layer()
 *   )),
 *   Layer.provide(McpTools.layer({
 *     files: { command: "npx", args: ["-y", "@modelcontextprotocol/server-filesystem", "."], readOnly: ["read_*", "list_*"] }
 *   }))
 * )
 * ```
 *
 * @since 0.1.0
 */
import type { Tool as ForeignTool } from "@modelcontextprotocol/client"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { ConfigurationError, type Problem, validateStrict } from "../ConfigurationError.ts"
import { matches } from "../internal/wildcard.ts"
import { ToolContext } from "../ToolContext.ts"
import * as ToolHandlers from "../ToolHandlers.ts"
import * as McpConnection from "./McpConnection.ts"
import * as McpResult from "./McpResult.ts"
import * as McpServers from "./McpServers.ts"
import { toolNames } from "./toolNames.ts"

/**
 * Options beside the servers.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options<T extends Toolkit.Any = Toolkit.Any> {
  /** Toolkits of the host's own, whose handlers are in the context. */
  readonly toolkits?: ReadonlyArray<T> | undefined
  /** What the host says about tools, by name; of servers, too, whose tools may come later. */
  readonly tools?: ToolHandlers.Options["tools"]
  /** Characters, as base64, of an image, sound or file in a result; more is left out. Default 5,000,000. */
  readonly maxFileChars?: number | undefined
}

/**
 * Connects to servers and registers their tools; follows changes of their lists,
 * and connects again to a server that is gone.
 *
 * **Details**
 *
 * Fails with `McpServerError` where a server that is not `optional` cannot be
 * reached, and with `ConfigurationError` where servers or names are wrong. A tool
 * whose schema does not compile is left out, with a warning in the log. A call
 * while its server is gone fails, and may be tried again. The scope ends the
 * connections, and every process.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = Effect.fnUntraced(function*<T extends Toolkit.Any = never>(
  servers: McpServers.McpServers,
  options: Options<T> = {}
): Effect.fn.Return<
  ToolHandlers.ToolHandlers["Service"],
  ConfigurationError | McpServers.McpServerError,
  Scope.Scope
> {
  const problems = validateStrict(McpServers.McpServers, servers, "servers")
  if (problems.length > 0) return yield* new ConfigurationError({ subject: "McpTools", problems })
  const remotes = Object.entries(servers).flatMap(([name, server]) =>
    server.disabled === true ? [] : [new Remote(name, server)]
  )
  const expects = (name: string) => remotes.some((it) => name.startsWith(it.prefix))
  const settings = Object.entries(options.tools ?? {})
  const local = yield* ToolHandlers.makeRegistry(options.toolkits ?? [], {
    tools: Object.fromEntries(settings.filter(([name]) => !expects(name)))
  })
  const handlers = ToolHandlers.fromRegistry(local, expects)
  const merged = () => {
    const registry = new Map(local)
    const taken: Array<Problem> = []
    for (const { name: server, tools } of remotes) {
      for (const [name, tool] of tools) {
        if (!registry.has(name)) registry.set(name, tool)
        else taken.push({ path: `servers.${server}`, problem: `its tool "${name}" has the name of another`, expected })
      }
    }
    return { registry, taken }
  }
  const expected = "a prefix of its own"
  const take = Effect.fnUntraced(function*(remote: Remote, listed: ReadonlyArray<ForeignTool>) {
    remote.tools = yield* registered(remote, listed, settings, options.maxFileChars ?? 5_000_000)
    const { registry, taken } = merged()
    for (const { path, problem } of taken) yield* Effect.logWarning(`${path}: ${problem}, and is left out`)
    yield* handlers.replace(registry)
  })

  // one fiber for all, so that they are ended side by side
  yield* Effect.forkScoped(
    Effect.forEach(remotes, (remote) => keep(remote, (listed) => take(remote, listed)), {
      concurrency: "unbounded",
      discard: true
    })
  )
  yield* Effect.forEach(remotes, ({ connected }) => Deferred.await(connected), {
    concurrency: "unbounded",
    discard: true
  })
  const { taken } = merged()
  if (taken.length > 0) return yield* new ConfigurationError({ subject: "McpTools", problems: taken })
  return handlers
})

/**
 * Layer of a registry with the tools of MCP servers.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = <T extends Toolkit.Any = never>(
  servers: McpServers.McpServers,
  options: Options<T> = {}
): Layer.Layer<
  ToolHandlers.ToolHandlers,
  ConfigurationError | McpServers.McpServerError,
  ToolHandlers.HandlersOf<T>
> =>
  Layer.effect(ToolHandlers.ToolHandlers, make(servers, options)) as Layer.Layer<
    ToolHandlers.ToolHandlers,
    ConfigurationError | McpServers.McpServerError,
    ToolHandlers.HandlersOf<T>
  >

// Utilities

/** A server as it is now. */
class Remote {
  readonly name: string
  readonly server: McpServers.McpServer
  readonly prefix: string
  connection: McpConnection.McpConnection | undefined
  /** What it had last; stays while it is gone. */
  tools: ToolHandlers.Registry = new Map()
  /** Done once it has been connected, or is known to be worth no waiting. */
  readonly connected = Deferred.makeUnsafe<void, McpServers.McpServerError>()

  constructor(name: string, server: McpServers.McpServer) {
    this.name = name
    this.server = server
    this.prefix = McpServers.prefixOf(name, server)
  }
}

/** Waits between attempts to connect. */
const again = Schedule.min([Schedule.exponential("1 second"), Schedule.spaced("30 seconds")])

/** Stays connected to a server, and follows its list of tools. */
const keep = (
  remote: Remote,
  take: (listed: ReadonlyArray<ForeignTool>) => Effect.Effect<void>
): Effect.Effect<never> => {
  // fails while it cannot connect; ends when a connection is gone
  const session = Effect.gen(function*() {
    const changes = yield* Queue.sliding<void>(1)
    const connection = yield* McpConnection.make(
      remote.name,
      remote.server,
      () => void Queue.offerUnsafe(changes, undefined)
    )
    yield* take(yield* connection.listTools)
    yield* Effect.acquireRelease(
      Effect.sync(() => {
        remote.connection = connection
      }),
      () =>
        Effect.sync(() => {
          remote.connection = undefined
        })
    )
    yield* Deferred.succeed(remote.connected, undefined)
    const follow = Effect.forever(
      Effect.flatMap(Effect.andThen(Queue.take(changes), connection.listTools), take)
    )
    yield* Effect.flip(Effect.raceFirst(follow, Effect.flatMap(connection.closed, Effect.fail))).pipe(
      Effect.flatMap((error) => Effect.logWarning(`${error.message}; connecting again`))
    )
  }).pipe(
    Effect.scoped,
    Effect.tapError((error) =>
      remote.server.optional === true || Deferred.isDoneUnsafe(remote.connected)
        ? Effect.andThen(
          Effect.logWarning(`${error.message}; trying again`),
          Deferred.succeed(remote.connected, undefined)
        )
        : Deferred.fail(remote.connected, error)
    )
  )
  return session.pipe(Effect.retry(again), Effect.orDie, Effect.andThen(Effect.sleep("1 second")), Effect.forever)
}

/** The tools of a server for the registry; one that cannot be is left out, and the log says why. */
const registered = Effect.fnUntraced(function*(
  remote: Remote,
  listed: ReadonlyArray<ForeignTool>,
  settings: ReadonlyArray<readonly [name: string, settings: ToolHandlers.Settings]>,
  maxFileChars: number
) {
  const { except = [], only = ["*"], readOnly = [] } = remote.server
  const isOne = (patterns: ReadonlyArray<string>, name: string) => patterns.some((it) => matches(it, name))
  const names = toolNames(remote.prefix, listed.map((it) => it.name))
  let taken = listed.flatMap((tool, index) =>
    isOne(only, tool.name) && !isOne(except, tool.name)
      ? [declare(names[index]!, tool, remote.server, isOne(readOnly, tool.name))]
      : []
  )
  const handlers = Object.fromEntries(
    listed.map((tool, index) => [names[index]!, handlerOf(remote, tool.name, maxFileChars)])
  )
  while (true) {
    const toolkit = Toolkit.make(...taken)
    const own = Object.fromEntries(settings.filter(([name]) => Object.hasOwn(toolkit.tools, name)))
    const result = yield* ToolHandlers.makeRegistry([toolkit], { tools: own }).pipe(
      Effect.provide(toolkit.toLayer(handlers as never)),
      Effect.result
    )
    if (result._tag === "Success") return result.success
    const { problems } = result.failure
    for (const { path, problem } of problems) yield* Effect.logWarning(`${path}: ${problem}; the tool is left out`)
    taken = taken.filter((it) => !problems.some(({ path }) => path === `tools.${it.name}`))
  }
})

const declare = (name: string, tool: ForeignTool, server: McpServers.McpServer, isReadOnly: boolean): Tool.Any => {
  const hints = tool.annotations ?? {}
  const trusted = server.trust === true ? hints : {}
  const declared = Tool.dynamic(name, {
    description: tool.description ?? tool.title ?? hints.title,
    parameters: tool.inputSchema as Record<string, unknown>,
    success: McpResult.McpResult,
    failure: Schema.String,
    toModelOutput: McpResult.toModelOutput
  })
    .annotate(Tool.Strict, false)
    .annotate(Tool.Readonly, isReadOnly || trusted.readOnlyHint === true)
    .annotate(Tool.Idempotent, trusted.idempotentHint === true)
    .annotate(Tool.Destructive, trusted.destructiveHint ?? true)
  const isOpen = hints.openWorldHint === true ? true : trusted.openWorldHint
  return isOpen === undefined ? declared : declared.annotate(Tool.OpenWorld, isOpen)
}

const handlerOf = (remote: Remote, name: string, maxFileChars: number) => (args: unknown) =>
  Effect.gen(function*() {
    const { connection } = remote
    if (connection === undefined) {
      return yield* Effect.fail(`The server "${remote.name}" is not connected at the moment. Try again later.`)
    }
    const context = yield* ToolContext
    const runFork = Effect.runForkWith(yield* Effect.context<never>())
    const result = yield* connection.callTool(
      { name, arguments: args as Record<string, unknown> },
      (progress) => void runFork(context.progress(progress))
    ).pipe(Effect.mapError((error) => error.message))
    const taken = McpResult.from(result, maxFileChars)
    if (result.isError !== true) return taken
    const text = McpResult.textOf(taken)
    return yield* Effect.fail(text === "" ? "The tool failed and did not say why." : text)
  })
