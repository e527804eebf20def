/**
 * Tools of MCP servers in the registry of an executor: every gate holds for them as for any other tool.
 *
 * What a server says about its tools is a stranger's word: without `trust` a tool counts as one that changes things,
 * unless the host says that it only reads. A hint that makes a tool stricter (`openWorldHint`) counts always. Arguments
 * are checked against the schema that the server gave.
 *
 * **Example** (Adding the tools of a server)
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
 */
import type * as Toolkit from "effect/ai/Toolkit"
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Queue from "effect/Queue"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import { ConfigurationError, type Problem } from "../core/vocabulary/ConfigurationError.ts"
import * as ToolHandlers from "../core/vocabulary/ToolHandlers.ts"
import { clip } from "../internal/clip.ts"
import { escape } from "../internal/escape.ts"
import * as Unseen from "../internal/unseen.ts"
import type * as McpConnection from "./McpConnection.ts"
import * as McpServers from "./McpServers.ts"
import * as RemoteTools from "./RemoteTools.ts"

/** Options for the tools of servers. */
export interface Options<T extends Toolkit.Any = Toolkit.Any> {
  /** Toolkits of the host's own, whose handlers are in the context. */
  readonly toolkits?: ReadonlyArray<T> | undefined
  /** What the host says about tools, by name; of servers, too, whose tools may come later. */
  readonly tools?: ToolHandlers.Options["tools"]
  /** Characters, as base64, of an image, sound or file in a result; more is left out. Default 5,000,000. */
  readonly maxFileChars?: number | undefined
}

/** A registry that fills while its servers start. */
export interface Starting {
  readonly handlers: ToolHandlers.ToolHandlers["Service"]
  /** Done when the tools of every server are there, or are not to be waited for; fails as `make` does. */
  readonly ready: Effect.Effect<void, ConfigurationError | McpServers.McpServerError>
  /** What the servers that are there say about how they are used, each under its name; at most 20,000 characters. */
  readonly instructions: () => string | undefined
}

/**
 * Starts connecting to all servers and returns without waiting. Their tools enter the registry once they are listed.
 * Otherwise like `make`.
 *
 * Until all are there a name or pattern that one of them may have counts as one that is expected: check again once it
 * is `ready`.
 */
export const start = Effect.fnUntraced(function*<T extends Toolkit.Any = never>(
  servers: McpServers.McpServers,
  options: Options<T> = {}
): Effect.fn.Return<Starting, ConfigurationError, Scope.Scope | ToolHandlers.HandlersOf<T>> {
  const problems = McpServers.problemsOf(servers, "servers")
  if (problems.length > 0) return yield* new ConfigurationError({ subject: "McpTools", problems })
  const remotes = Object.entries(servers).flatMap(([name, server]) =>
    server.disabled === true ? [] : [new Remote(name, server)]
  )
  const connect = remotes.length === 0 ? undefined : yield* loadClient
  const prefixes = remotes.map((it) => it.prefix)
  // the names of a server stay its own while it is disabled
  const spaces = Object.entries(servers).map(([name, server]) => ({ prefix: McpServers.prefixOf(name, server) }))
  const isOfServer = (name: string) => prefixes.some((it) => name.startsWith(it))
  const areAllThere = () => remotes.every((it) => Deferred.isDoneUnsafe(it.connected))
  const expects = (name: string) => isOfServer(name) || (!areAllThere() && McpServers.mayMatchPrefix(name, prefixes))
  const settings = Object.entries(options.tools ?? {}).flatMap(([name, it]) =>
    it === undefined ? [] : [[name, it] as const]
  )
  const isOwn = (name: string) => options.toolkits?.some(({ tools }) => Object.hasOwn(tools, name)) === true
  const local = yield* ToolHandlers.makeRegistry(options.toolkits ?? [], {
    tools: Object.fromEntries(settings.filter(([name]) => isOwn(name) || !isOfServer(name)))
  })
  const handlers = ToolHandlers.fromRegistry(local, expects)
  // the owner of a name keeps it as long as it has that tool
  const owners = new Map<string, Remote>()
  const merge = () => {
    const registry = new Map(local)
    const taken: Array<Problem> = []
    for (const [name, owner] of owners) if (!owner.tools.has(name)) owners.delete(name)
    for (const remote of remotes) {
      for (const [name, { tool }] of remote.tools) {
        if (!owners.has(name) && !local.has(name)) owners.set(name, remote)
        if (owners.get(name) === remote) registry.set(name, tool)
        else taken.push({ path: remote.path, problem: `its tool "${name}" has the same name as another`, expected })
      }
    }
    return { registry, taken }
  }
  const expected = "a prefix of its own"
  const oneByOne = yield* Semaphore.make(1)
  const take = Effect.fnUntraced(function*(remote: Remote, { leftOut, tools: listed }: McpConnection.Listed) {
    const json = JSON.stringify([listed, leftOut])
    if (json === remote.listed) return
    for (const problem of leftOut) yield* warn(`${remote.path}: ${problem}`)
    const maxFileChars = options.maxFileChars ?? 5_000_000
    const isTheirs = (name: string) => McpServers.ownerOf(spaces, name)?.prefix !== remote.prefix
    const { problems, tools } = yield* RemoteTools.make(remote, listed, remote.tools, settings, maxFileChars, isTheirs)
    const taken = yield* oneByOne.withPermits(1)(Effect.suspend(() => {
      Object.assign(remote, { listed: json, tools, problems })
      const { registry, taken } = merge()
      return Effect.as(handlers.replace(registry), taken)
    }))
    for (const { path, problem } of [...problems, ...taken]) yield* warn(`${path}: ${problem}; the tool is left out`)
  })

  // one fiber for all, so that they are ended side by side
  yield* Effect.forkScoped(
    Effect.forEach(remotes, (remote) => keep(remote, connect!, (listed) => take(remote, listed)), {
      concurrency: "unbounded",
      discard: true
    })
  )
  const ready = Effect.gen(function*() {
    yield* Effect.forEach(remotes, ({ connected }) => Deferred.await(connected), {
      concurrency: "unbounded",
      discard: true
    })
    const wrong = [...remotes.flatMap((it) => it.problems), ...merge().taken]
    if (wrong.length > 0) return yield* new ConfigurationError({ subject: "McpTools", problems: wrong })
  })
  const instructions = () => {
    const said = remotes.flatMap(({ connection, name, server }) => {
      const given = connection?.instructions ?? ""
      const text = (server.invisible === "show" ? given : Unseen.without(given)).trim()
      return text === "" ? [] : [`The tools of "${name}":\n${clip(text, maxInstructions / remotes.length)}`]
    })
    return said.length === 0 ? undefined : said.join("\n\n")
  }
  return { handlers, ready, instructions }
})

/**
 * Connects to servers and registers their tools; follows changes of their lists, and connects again to a server that is
 * gone.
 *
 * Fails with `McpServerError` where a server that is not `optional` cannot be reached, and with `ConfigurationError`
 * where servers, names or settings are wrong. A tool whose schema does not compile is left out, with a warning in the
 * log, and so is one that comes later and has the name of another, or one that begins as those of another server do. A
 * call while its server is gone fails, and may be tried again. The scope ends the connections, and every process.
 */
export const make = Effect.fnUntraced(function*<T extends Toolkit.Any = never>(
  servers: McpServers.McpServers,
  options: Options<T> = {}
): Effect.fn.Return<
  ToolHandlers.ToolHandlers["Service"],
  ConfigurationError | McpServers.McpServerError,
  Scope.Scope | ToolHandlers.HandlersOf<T>
> {
  const { handlers, ready } = yield* start(servers, options)
  yield* ready
  return handlers
})

/** Layer of a registry with the tools of MCP servers. */
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

/** The current state of a server. */
class Remote implements RemoteTools.Remote {
  readonly name: string
  readonly server: McpServers.McpServer
  readonly prefix: string
  readonly path: string
  connection: McpConnection.McpConnection | undefined
  /** What it listed last, as JSON, and what came of it; stays while it is gone. */
  listed: string | undefined
  tools: RemoteTools.Tools = new Map()
  problems: ReadonlyArray<Problem> = []
  /** Done once it has been connected, or is known to be worth no waiting. */
  readonly connected = Deferred.makeUnsafe<void, McpServers.McpServerError>()

  constructor(name: string, server: McpServers.McpServer) {
    this.name = name
    this.server = server
    this.prefix = McpServers.prefixOf(name, server)
    this.path = `servers.${name}`
  }
}

/** Characters of what all servers say about their use. */
const maxInstructions = 20_000

/** Waits between attempts to connect. */
const again = Schedule.min([Schedule.exponential("250 millis"), Schedule.spaced("30 seconds")])

/** A connection that lasted this long resets the retry delay. */
const lasting = Duration.toNanosUnsafe("1 minute")

/** Waits between two lists: most of the time is others'. */
const pause = { minimum: Duration.seconds(1), maximum: Duration.seconds(30) }

const warn = (text: string) => Effect.logWarning(escape(text))

/** The official client is an optional peer: loaded where there is a server to reach. */
const loadClient = Effect.tryPromise({
  try: () => import("./McpConnection.ts").then((it) => it.make),
  catch: (cause) =>
    new ConfigurationError({
      subject: "McpTools",
      problems: [{
        path: "servers",
        problem: `the MCP client cannot be loaded (${cause instanceof Error ? cause.message : String(cause)})`,
        expected: "the package @modelcontextprotocol/client: npm install @modelcontextprotocol/client"
      }]
    })
})

/** Stays connected to a server, and follows its list of tools. */
const keep = (
  remote: Remote,
  connect: typeof McpConnection.make,
  take: (listed: McpConnection.Listed) => Effect.Effect<void>
): Effect.Effect<never> => {
  const session = Effect.gen(function*() {
    const changes = yield* Queue.sliding<void>(1)
    const connection = yield* connect(
      remote.name,
      remote.server,
      () => void Queue.offerUnsafe(changes, undefined)
    )
    const listed = yield* connection.listTools
    yield* Effect.acquireRelease(
      Effect.sync(() => {
        remote.connection = connection
      }),
      () =>
        Effect.sync(() => {
          remote.connection = undefined
        })
    )
    yield* take(listed)
    yield* Deferred.succeed(remote.connected, undefined)
    const since = yield* Clock.monotonicTimeNanos
    // a list that cannot be had leaves the one that was
    const follow = Effect.forever(
      Effect.andThen(Queue.take(changes), connection.listTools).pipe(
        Effect.flatMap(take),
        Effect.catch((error) => warn(error.message)),
        // what changes meanwhile is in the next list: who says all the time that it changes is read no more often
        Effect.timed,
        Effect.flatMap(([spent]) => Effect.sleep(Duration.clamp(Duration.times(spent, 9), pause)))
      )
    )
    const error = yield* Effect.raceFirst(follow, connection.closed)
    if ((yield* Clock.monotonicTimeNanos) - since < lasting) return yield* error
    yield* warn(`${error.message}; connecting again`)
  })
  return session.pipe(
    Effect.scoped,
    Effect.tapError((error) =>
      remote.server.optional === true || Deferred.isDoneUnsafe(remote.connected)
        ? Effect.andThen(
          warn(`${error.message}; connecting again`),
          Deferred.succeed(remote.connected, undefined)
        )
        : Deferred.fail(remote.connected, error)
    ),
    Effect.retry(again),
    Effect.orDie,
    Effect.forever
  )
}
