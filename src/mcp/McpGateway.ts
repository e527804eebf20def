/**
 * The executor as an MCP server: registers its tools with `McpServer`, so that
 * every call of an MCP client goes through the gates.
 *
 * A session of a client is one process in a batch of its own. People are asked by
 * elicitation, where the client has it and `Approvals` are there; else what would
 * be asked is refused, unless they can answer `elsewhere`. Calls go as they come, reads side by side and a write
 * alone; `TurnCalls.waveKey` in the `_meta` of calls makes those of one turn one
 * wave. With `outcomeKey` in its `_meta` a call gets its whole outcome, too.
 *
 * Revisions of the protocol without sessions (2026-07-28) have nobody to ask and
 * no turn; offer those with sessions.
 *
 * **Example** (Tools behind the gates, over HTTP)
 *
 * ```ts
 * import { Layer } from "effect"
 * import { McpProtocol, McpServer } from "effect/ai"
 * import { McpGateway } from "effect-tool-executor/mcp"
 *
 * export const Routes = McpServer.layerHttp({
 *   name: "tools",
 *   version: "1.0.0",
 *   path: "/mcp",
 *   protocols: [McpProtocol.v2025_11_25, McpProtocol.v2025_06_18],
 *   registrations: McpGateway.layer() // requires ToolExecutor
 * })
 * ```
 *
 * @since 0.1.0
 */
import * as McpSchema from "effect/ai/McpSchema"
import * as McpServer from "effect/ai/McpServer"
import * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as RcMap from "effect/RcMap"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import type { ConfigurationError } from "../ConfigurationError.ts"
import type { GuardedToolkit } from "../GuardedToolkit.ts"
import { clip } from "../internal/clip.ts"
import { escape } from "../internal/escape.ts"
import * as Approvals from "../policy/Approvals.ts"
import * as ToolCall from "../ToolCall.ts"
import { type Service, ToolExecutor } from "../ToolExecutor.ts"
import { ToolExecutors } from "../ToolExecutors.ts"
import type { RegisteredTool } from "../ToolHandlers.ts"
import type { ToolOutcome } from "../ToolOutcome.ts"
import type { ToolProcess } from "../ToolProcess.ts"
import * as Native from "../wire/Native.ts"
import { Described } from "./Described.ts"
import * as Elicitation from "./Elicitation.ts"
import * as McpDoor from "./McpDoor.ts"
import * as McpResult from "./McpResult.ts"
import { previewed } from "./previewed.ts"
import * as Progress from "./Progress.ts"
import { renewed } from "./renewed.ts"
import * as TurnCalls from "./TurnCalls.ts"

/**
 * Key in the `_meta` of a call with which a client asks for the whole outcome
 * (`true`), and under which it gets it: `ToolOutcome` as JSON.
 *
 * @category constants
 * @since 0.1.0
 */
export const outcomeKey = "effect-tool-executor/outcome"

/**
 * Key in the `_meta` of a call for an id of the client's own, such as the model's:
 * at most 1,000 characters.
 *
 * @category constants
 * @since 0.1.0
 */
export const callKey = "effect-tool-executor/call"

/**
 * Options of a gateway.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** How long a session is remembered that makes no calls. Default 1 hour. */
  readonly idleTimeToLive?: Duration.Input | undefined
  /** What ends it, and tells its transport of changes. Default: nothing does. */
  readonly door?: McpDoor.McpDoor | undefined
  /**
   * Where else people can answer, such as the address of a page: what a client cannot ask its person waits
   * there instead of being refused, and a client whose call waits is told so. Default: nowhere.
   */
  readonly elsewhere?: string | undefined
}

/**
 * Layer that puts an executor behind an MCP server; all sessions are of its one
 * principal: what one was allowed the others are, too, and a call that another
 * session made is an equal call.
 *
 * @see {@link layerSessions} for clients that are not one person's
 * @category layers
 * @since 0.1.0
 */
export const layer = (
  options: Options = {}
): Layer.Layer<never, never, ToolExecutor | McpServer.McpServer> =>
  Layer.effectDiscard(
    Effect.flatMap(ToolExecutor, (executor) => make(executor, () => Effect.succeed(executor), options))
  )

/**
 * Layer that puts executors behind an MCP server, one for each session: grants,
 * equal calls and results are a session's own.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerSessions = (
  options: Options = {}
): Layer.Layer<never, ConfigurationError, ToolExecutors | McpServer.McpServer> =>
  Layer.effectDiscard(Effect.gen(function*() {
    const executors = yield* ToolExecutors
    return yield* make(yield* executors.get("tools/list"), executors.get, options)
  }))

/**
 * Layer that registers a guarded toolkit with an MCP server, as `McpServer.toolkit`
 * does with one that is not: its calls are of the one process that guards it, for
 * every client, and people are not asked through the client. Outputs have no
 * schema, since a large one is its preview.
 *
 * @see {@link layer} for sessions, elicitation and tools that change
 * @category layers
 * @since 0.1.0
 */
export const layerToolkit = <Tools extends Record<string, Tool.Any>>(
  toolkit: GuardedToolkit<Tools>
): Layer.Layer<never, never, McpServer.McpServer> =>
  // it has no handlers of its own, and takes them from nobody
  McpServer.toolkit(
    Object.assign(Effect.sync(() => previewed(inSteps(toolkit))), {
      tools: toolkit.tools
    }) as unknown as Toolkit.Toolkit<
      Record<never, never>
    >
  )

// Utilities

/** A guarded toolkit that is there for good, while its steps end. */
const inSteps = <Tools extends Record<string, Tool.Any>>(
  toolkit: GuardedToolkit<Tools>
): Toolkit.WithHandler<Tools> => {
  const step = renewed(toolkit)
  const handle: Toolkit.WithHandler<Tools>["handle"] = (...call) =>
    Effect.succeed(Stream.unwrap(Effect.flatMap(step, (it) => it.handle(...call))) as never)
  return { tools: toolkit.tools, handle }
}

type Client = McpSchema.McpServerClient["Service"]

interface Session {
  readonly process: ToolProcess
  readonly run: TurnCalls.Run
  /** Who asked for the calls that have no outcome yet. */
  readonly callers: Map<string, Client>
  lastId: number
}

const make = Effect.fnUntraced(function*(
  catalogue: Service,
  executorOf: (session: string) => Effect.Effect<Service, ConfigurationError, Scope.Scope>,
  options: Options
) {
  const server = yield* McpServer.McpServer
  const door = options.door ?? (yield* McpDoor.make())
  const open = new Map<string, Session>()
  const sessions = yield* RcMap.make({
    idleTimeToLive: options.idleTimeToLive ?? "1 hour",
    lookup: Effect.fnUntraced(function*(id: string) {
      const process = yield* (yield* executorOf(id)).process()
      // one that begins later is over at once
      yield* Effect.forkScoped(Effect.flatMap(door.ending, process.cancel), { startImmediately: true })
      const run = yield* TurnCalls.make(process, door.ending)
      const session: Session = { process, run, callers: new Map(), lastId: 0 }
      yield* Effect.acquireRelease(
        Effect.sync(() => open.set(process.id, session)),
        () => Effect.sync(() => open.delete(process.id))
      )
      return session
    })
  })
  const idOf = sessionIds((yield* Random.nextIntBetween(0, 2 ** 40)).toString(36))

  const call = Effect.fnUntraced(function*(name: string, args: unknown) {
    const client = Option.getOrUndefined(yield* Effect.serviceOption(McpSchema.McpServerClient))
    if (client === undefined) {
      const message = "These tools need a session: speak a revision of the protocol before 2026-07-28."
      return yield* new McpSchema.InvalidParams({ message })
    }
    const asked = yield* Effect.fromResult(readMeta(client.requestMetadata))
    const session = yield* Effect.orDie(RcMap.get(sessions, idOf(client)))
    const { callers, process, run } = session
    let id = asked.call
    while (id === undefined || (asked.call === undefined && callers.has(id))) id = `call_${++session.lastId}`
    callers.set(id, client)
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        if (callers.get(id) === client) callers.delete(id)
      })
    )
    const elsewhere = Elicitation.isPossible(client) ? undefined : options.elsewhere
    const told = asked.progressToken === undefined && elsewhere === undefined
      ? Effect.void
      : yield* Progress.tell(server, process, id, { ...asked, elsewhere })
    const ended = yield* run(ToolCall.make(id, name, args), asked.place)
    yield* told
    const result = McpResult.fromEnded(ended)
    return asked.wantsOutcome
      ? new McpSchema.CallToolResult({
        ...result,
        _meta: { ...result._meta, [outcomeKey]: Native.write([shown(ended.outcome)])[0] }
      })
      : result
  }, Effect.scoped)

  const offered = new Map<string, RegisteredTool>()
  const unfit = new Map<string, string>()
  // one after the other: an older list never comes after a newer one
  const offer = Semaphore.makeUnsafe(1).withPermit(Effect.gen(function*() {
    const tools = new Map((yield* catalogue.tools).map((tool) => [tool.name, tool]))
    for (const name of Array.from(offered.keys())) if (!tools.has(name)) offered.delete(name)
    for (const [name, tool] of tools) {
      const known = offered.get(name)
      const described = Result.try(() => describe(tool))
      if (Result.isFailure(described)) {
        const problem = String(described.failure)
        if (unfit.get(name) !== problem) {
          yield* Effect.logWarning(
            escape(`The tool "${name}" cannot be offered over MCP: ${clip(problem, 500)}; it is left out`)
          )
        }
        unfit.set(name, problem)
        offered.delete(name)
        continue
      }
      offered.set(name, tool)
      if (known !== undefined && isSame(known, tool)) continue
      yield* server.addTool({
        tool: described.success,
        // what is gone is not listed and not found
        annotations: Context.make(McpSchema.EnabledWhen, () => offered.has(name)),
        // the server has one for every request of a session
        handle: (args) => door.serve(call(name, args))
      })
    }
    yield* server.notifications["notifications/tools/list_changed"]({})
    yield* door.changed
  }))
  // a server that has none yet says that it has tools, too
  yield* server.addTool({
    tool: none,
    annotations: Context.make(McpSchema.EnabledWhen, () => false),
    handle: Effect.die
  })
  yield* Effect.forkScoped(Stream.runForEach(catalogue.toolChanges, () => offer), { startImmediately: true })
  yield* offer
  // the tools that have come are listed before those that wait for them go on
  yield* Effect.forkScoped(Effect.andThen(door.ready, Effect.andThen(offer, door.open)), { startImmediately: true })

  const approvals = yield* Effect.serviceOption(Approvals.Approvals)
  if (Option.isNone(approvals)) return
  const isElsewhere = options.elsewhere !== undefined
  const asking = Elicitation.askPeople(approvals.value, (request) => callerOf(open, request), isElsewhere)
  yield* Effect.forkScoped(asking, { startImmediately: true })
})

/**
 * Names the sessions: all requests of one carry the same object, with which it
 * began. No other gateway has these names: what is kept under them is theirs.
 */
const sessionIds = (unique: string) => {
  const known = new WeakMap<object, string>()
  let last = 0
  return ({ initializePayload }: Client): string => {
    let id = known.get(initializePayload)
    if (id === undefined) known.set(initializePayload, id = `session-${unique}-${++last}`)
    return id
  }
}

const decodePlace = Schema.decodeUnknownResult(TurnCalls.Place)

/** What a call asks for beside its arguments. */
const readMeta = (meta: Readonly<Record<string, unknown>> = {}) =>
  Result.gen(function*() {
    const place = meta[TurnCalls.waveKey]
    const call = meta[callKey]
    const token = meta.progressToken
    if (call !== undefined && (typeof call !== "string" || call.length > 1_000)) {
      const message = `_meta["${callKey}"]: expected a string of at most 1000 characters`
      return yield* Result.fail(new McpSchema.InvalidParams({ message }))
    }
    return {
      place: place === undefined ? undefined : yield* Result.mapError(
        decodePlace(place),
        (error) =>
          new McpSchema.InvalidParams({
            message: `_meta["${TurnCalls.waveKey}"]: ${error.message}\nIt is { id, index, size }: the turn's own id, ` +
              "the call's place in it from 0, and how many calls it has, at most 1000."
          })
      ),
      call,
      progressToken: typeof token === "string" || typeof token === "number" ? token : undefined,
      wantsOutcome: meta[outcomeKey] === true
    }
  })

/** What a defect says is for the host's record alone. */
const shown = (outcome: ToolOutcome): ToolOutcome =>
  outcome._tag === "Failed" && outcome.origin === "defect" ? { ...outcome, error: "internal error" } : outcome

/** Nobody sees it or calls it. */
const none = new McpSchema.Tool({ name: "none", inputSchema: { type: "object" } })

/** Two descriptions that a client cannot tell apart. */
const isSame = (a: RegisteredTool, b: RegisteredTool): boolean =>
  JSON.stringify(describe(a)) === JSON.stringify(describe(b))

const describe = ({ annotations, description, jsonSchema, name, readOnly }: RegisteredTool): McpSchema.Tool => {
  const { hintedTitle, meta, title } = Context.get(annotations, Described)
  const { $schema, ...schema } = jsonSchema
  return new McpSchema.Tool({
    name,
    title: title ?? Option.getOrUndefined(Context.getOption(annotations, Tool.Title)),
    description,
    ...meta === undefined ? {} : { _meta: meta },
    // the root is an object, whatever else the schema says
    inputSchema: {
      ...schema,
      ...typeof $schema === "string" ? { $schema } : {},
      type: "object"
    } as McpSchema.Tool["inputSchema"],
    annotations: {
      ...hintedTitle === undefined ? {} : { title: hintedTitle },
      readOnlyHint: readOnly,
      destructiveHint: !readOnly && Context.get(annotations, Tool.Destructive),
      idempotentHint: readOnly || Context.get(annotations, Tool.Idempotent),
      openWorldHint: Context.get(annotations, Tool.OpenWorld)
    }
  })
}

/** The client whose call it is; of a call that a tool makes, one of the same session. */
const callerOf = (
  open: ReadonlyMap<string, Session>,
  { batch, callId, process }: Approvals.ApprovalRequest
): Client | undefined => {
  const own = open.get(process)?.callers.get(callId)
  if (own !== undefined) return own
  for (const session of open.values()) {
    if (session.process.batch === batch) return session.callers.values().next().value
  }
  return undefined
}
