/**
 * The executor as an MCP server: registers its tools with `McpServer`, so that every call of an MCP client goes through
 * the gates.
 *
 * The calls of a session are one process in a separate batch. People approve calls by elicitation if the client
 * supports it and `Approvals` is in the context; otherwise calls that need an approval are denied, unless people can
 * answer `elsewhere`. Calls run as they arrive: reads concurrently, a write alone. With `SessionCalls.waveKey` in
 * `_meta`, the calls of one turn are one wave. With `outcomeKey` in `_meta`, a call also gets its complete outcome.
 *
 * In revisions of the protocol without sessions (2026-07-28), the principal of the request's token takes the place of a
 * session. Approval requests are results that require input, and the call waits for the request that brings the answer.
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
 *   protocols: [McpProtocol.v2025_11_25, McpProtocol.v2025_06_18, McpProtocol.v2026_07_28],
 *   registrations: McpGateway.layer() // requires ToolExecutor
 * })
 * ```
 */
import * as McpSchema from "effect/ai/McpSchema"
import * as McpServer from "effect/ai/McpServer"
import type * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Headers from "effect/http/Headers"
import * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as RcMap from "effect/RcMap"
import * as Result from "effect/Result"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import type { GuardedToolkit } from "../core/contract/GuardedToolkit.ts"
import type { ToolProcess } from "../core/contract/ToolProcess.ts"
import { type Service, ToolExecutor } from "../core/engine/ToolExecutor.ts"
import { ToolExecutors } from "../core/engine/ToolExecutors.ts"
import * as Approvals from "../core/gates/Approvals.ts"
import type { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import * as ToolCall from "../core/vocabulary/ToolCall.ts"
import type { RegisteredTool } from "../core/vocabulary/ToolHandlers.ts"
import type { ToolOutcome } from "../core/vocabulary/ToolOutcome.ts"
import { clip } from "../internal/clip.ts"
import { escape } from "../internal/escape.ts"
import * as Native from "../wire/Native.ts"
import { type CallMeta, outcomeKey, readMeta } from "./CallMeta.ts"
import * as Elicitation from "./Elicitation.ts"
import * as GatewayLifecycle from "./GatewayLifecycle.ts"
import * as McpResult from "./McpResult.ts"
import * as McpTrace from "./McpTrace.ts"
import { previewed } from "./previewed.ts"
import * as Progress from "./Progress.ts"
import { renewed } from "./renewed.ts"
import * as RoundTrips from "./RoundTrips.ts"
import * as SessionCalls from "./SessionCalls.ts"
import { describe, isSame } from "./ToolDescription.ts"

export { callKey, outcomeKey } from "./CallMeta.ts"

export interface Options {
  /**
   * How long a session, or a principal, is remembered that makes no calls; and how long a call without a session waits
   * for the request that brings an answer. Default 1 hour.
   */
  readonly idleTimeToLive?: Duration.Input | undefined
  /**
   * The principal of a request in a revision without sessions, from its headers (empty on standard input). A failure is
   * the answer to the request. Default: a hash of the `Authorization` header; all requests without one are the same
   * principal, and their approvals hold for one call only.
   */
  readonly principalOf?:
    | ((headers: Headers.Headers) => Effect.Effect<string, McpSchema.InvalidParams | McpSchema.InternalError>)
    | undefined
  /** What ends it, and tells its transport of changes. Default: nothing does. */
  readonly lifecycle?: GatewayLifecycle.GatewayLifecycle | undefined
  /**
   * Where else people can answer approval requests, such as the URL of a page. Requests that a client cannot show stay
   * pending there instead of being denied, and the client is notified. Default: nowhere.
   */
  readonly elsewhere?: string | undefined
}

/**
 * Layer that puts an executor behind an MCP server; all sessions are of its one principal: what one was allowed the
 * others are, too, and a call that another session made is an equal call.
 *
 * @see {@link layerSessions} for clients that are not one person's
 */
export const layer = (
  options: Options = {}
): Layer.Layer<never, never, ToolExecutor | McpServer.McpServer> =>
  Layer.effectDiscard(
    Effect.flatMap(ToolExecutor, (executor) => make(executor, () => Effect.succeed(executor), options))
  )

/**
 * Layer that puts executors behind an MCP server, one for each session: grants, equal calls and results are a session's
 * own.
 */
export const layerSessions = (
  options: Options = {}
): Layer.Layer<never, ConfigurationError, ToolExecutors | McpServer.McpServer> =>
  Layer.effectDiscard(Effect.gen(function*() {
    const executors = yield* ToolExecutors
    return yield* make(yield* executors.get("tools/list"), executors.get, options)
  }))

/**
 * Layer that registers a guarded toolkit with an MCP server, as `McpServer.toolkit` does with one that is not: its
 * calls are of the one process that guards it, for every client, and people are not asked through the client. Outputs
 * have no schema, since a large one is its preview.
 *
 * @see {@link layer} for sessions, elicitation and tools that change
 */
export const layerToolkit = <Tools extends Record<string, Tool.Any>>(
  toolkit: GuardedToolkit<Tools>
): Layer.Layer<never, never, McpServer.McpServer> =>
  // the toolkit has no handlers, so it needs none from the context
  McpServer.toolkit(
    Object.assign(Effect.sync(() => previewed(inSteps(toolkit))), {
      tools: toolkit.tools
    }) as unknown as Toolkit.Toolkit<
      Record<never, never>
    >
  )

/** A guarded toolkit that is there for good, while its steps end. */
const inSteps = <Tools extends Record<string, Tool.Any>>(
  toolkit: GuardedToolkit<Tools>
): Toolkit.WithHandler<Tools> => {
  const step = renewed(toolkit)
  const handle: Toolkit.WithHandler<Tools>["handle"] = (...call) =>
    Effect.succeed(Stream.unwrap(Effect.flatMap(step, (it) => it.handle(...call))) as never)
  return { tools: toolkit.tools, handle }
}

/** Principals without a session that are remembered. */
const maxPrincipals = 1_000

type Client = McpSchema.McpServerClient["Service"]

/** Puts a question to the person behind a call. */
type ShowRequest = RoundTrips.Ask

interface Session {
  readonly process: ToolProcess
  readonly run: SessionCalls.Run
  /** Who asked for the calls that have no outcome yet. */
  readonly callers: Map<string, ShowRequest>
  lastId: number
}

const make = Effect.fnUntraced(function*(
  catalogue: Service,
  executorOf: (session: string) => Effect.Effect<Service, ConfigurationError, Scope.Scope>,
  options: Options
) {
  const server = yield* McpServer.McpServer
  const lifecycle = options.lifecycle ?? (yield* GatewayLifecycle.make())
  const open = new Map<string, Session>()
  const sessions = yield* RcMap.make({
    idleTimeToLive: options.idleTimeToLive ?? "1 hour",
    lookup: Effect.fnUntraced(function*(id: string) {
      const process = yield* (yield* executorOf(id)).process()
      // a process that begins after the end is cancelled immediately
      yield* Effect.forkScoped(Effect.flatMap(lifecycle.ending, process.cancel), { startImmediately: true })
      const run = yield* SessionCalls.make(process, lifecycle.ending)
      const session: Session = { process, run, callers: new Map(), lastId: 0 }
      yield* Effect.acquireRelease(
        Effect.sync(() => open.set(process.id, session)),
        () => Effect.sync(() => open.delete(process.id))
      )
      return session
    })
  })
  const approvals = Option.getOrUndefined(yield* Effect.serviceOption(Approvals.Approvals))
  const isElsewhere = options.elsewhere !== undefined
  const trips = yield* RoundTrips.make(approvals, { timeToLive: options.idleTimeToLive ?? "1 hour", isElsewhere })
  // makes these names unique to this gateway
  const unique = (yield* Random.nextIntBetween(0, 2 ** 40)).toString(36)
  const idOf = sessionIds(unique)
  const join = Effect.fnUntraced(function*(session: Session, asked: CallMeta, asking: ShowRequest) {
    const { callers } = session
    let id = asked.call
    while (id === undefined || (asked.call === undefined && callers.has(id))) id = `call_${++session.lastId}`
    callers.set(id, asking)
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        if (callers.get(id) === asking) callers.delete(id)
      })
    )
    return id
  })
  const reportProgress = (
    context: Pick<Client, "clientCapabilities">,
    process: ToolProcess,
    id: string,
    asked: CallMeta
  ) => {
    const elsewhere = Elicitation.isPossible(context) ? undefined : options.elsewhere
    return asked.progressToken === undefined && elsewhere === undefined
      ? Effect.succeed(Effect.void)
      : Progress.report(server, process, id, { ...asked, elsewhere })
  }

  const callInSession = Effect.fnUntraced(function*(client: Client, name: string, args: unknown) {
    const asked = yield* Effect.fromResult(readMeta(client.requestMetadata))
    const session = yield* Effect.orDie(RcMap.get(sessions, idOf(client)))
    const asking: ShowRequest = (request) =>
      approvals === undefined ? Effect.void : Elicitation.put(approvals, client, request, isElsewhere)
    const id = yield* join(session, asked, asking)
    const told = yield* reportProgress(client, session.process, id, asked)
    const ended = yield* session.run(ToolCall.make(id, name, args), asked.place)
    yield* told
    return resultOf(ended, asked)
  }, Effect.scoped)

  const principals = new Set<string>()
  // a token costs its maker nothing: who has not called for longest is forgotten first
  const makeRoomFor = (principal: string) =>
    Effect.suspend(() => {
      principals.delete(principal)
      principals.add(principal)
      const [oldest] = principals
      if (principals.size <= maxPrincipals || oldest === undefined) return Effect.void
      principals.delete(oldest)
      return RcMap.invalidate(sessions, oldest)
    })
  const callAlone = Effect.fnUntraced(
    function*(context: McpSchema.McpRequestContext["Service"], name: string, args: unknown) {
      const { inputResponses = {}, requestMetadata, requestState } = context
      const asked = yield* Effect.fromResult(readMeta(requestMetadata))
      const { isKnown, principal } = yield* principalFor(options, trips, unique)
      const caller = { principal, isKnown, name, args, canAsk: Elicitation.isPossible(context) }
      const begin = Effect.gen(function*() {
        const own = yield* Scope.make()
        const joined = Effect.gen(function*() {
          yield* makeRoomFor(principal)
          const session = yield* Effect.orDie(RcMap.get(sessions, principal))
          const asking = Deferred.makeUnsafe<ShowRequest>()
          const id = yield* join(
            session,
            asked,
            (request) => Effect.flatMap(Deferred.await(asking), (ask) => ask(request))
          )
          return yield* trips.begin(caller, { process: session.process, callId: id }, (ask) => {
            Deferred.doneUnsafe(asking, Effect.succeed(ask))
            return Effect.onExit(
              session.run(ToolCall.make(id, name, args), asked.place),
              (exit) => Scope.close(own, exit)
            )
          })
        })
        return yield* Effect.onError(Scope.provide(joined, own), (cause) => Scope.close(own, Exit.failCause(cause)))
      })
      const tell = Effect.fnUntraced(function*(waiting: RoundTrips.Waiting) {
        const told = yield* reportProgress(context, waiting.process, waiting.callId, asked)
        const next = yield* trips.next(waiting)
        if (next instanceof McpSchema.InputRequired) return next
        yield* told
        return resultOf(next, asked)
      })
      return yield* Effect.uninterruptibleMask((restore) =>
        Effect.flatMap(
          requestState === undefined ? begin : trips.resume(caller, requestState, inputResponses),
          // a client that disconnects cancels its call
          (waiting) => Effect.onError(restore(tell(waiting)), () => trips.cancel(waiting))
        )
      )
    },
    Effect.scoped
  )

  const call = (name: string, args: unknown) =>
    Effect.flatMap(
      Effect.serviceOption(McpSchema.McpServerClient),
      Option.match({
        onNone: () =>
          Effect.flatMap(McpSchema.McpRequestContext, (context) =>
            McpTrace.server(name, context.requestMetadata)(callAlone(context, name, args))),
        onSome: (client): Effect.Effect<McpSchema.CallToolResult | McpSchema.InputRequired, McpSchema.InvalidParams> =>
          McpTrace.server(name, client.requestMetadata)(callInSession(client, name, args))
      })
    )

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
        // a removed tool is neither listed nor found
        annotations: Context.make(McpSchema.EnabledWhen, () => offered.has(name)),
        // the server has one for every request of a session
        handle: (args) => lifecycle.serve(call(name, args))
      })
    }
    yield* server.notifications["notifications/tools/list_changed"]({})
    yield* lifecycle.changed
  }))
  // a disabled tool makes the server announce tools before there are any
  yield* server.addTool({
    tool: none,
    annotations: Context.make(McpSchema.EnabledWhen, () => false),
    handle: Effect.die
  })
  yield* Effect.forkScoped(Stream.runForEach(catalogue.toolChanges, () => offer), { startImmediately: true })
  yield* offer
  // the tools that have come are listed before those that wait for them go on
  yield* Effect.forkScoped(Effect.andThen(lifecycle.ready, Effect.andThen(offer, lifecycle.open)), {
    startImmediately: true
  })

  if (approvals === undefined) return
  const asking = Elicitation.showRequests(approvals, (request) => callerOf(open, request)?.(request))
  yield* Effect.forkScoped(asking, { startImmediately: true })
})

/** The principal of a request without a session. */
const principalFor = Effect.fnUntraced(function*(
  { principalOf }: Options,
  trips: RoundTrips.RoundTrips,
  unique: string
) {
  const request = yield* Effect.serviceOption(HttpServerRequest.HttpServerRequest)
  const headers = Option.isSome(request) ? request.value.headers : Headers.empty
  if (principalOf !== undefined) return { principal: yield* principalOf(headers), isKnown: true }
  const token = headers.authorization
  if (token !== undefined) return { principal: `token-${unique}-${trips.nameOf(token)}`, isKnown: true }
  // standard input has one client
  return { principal: `anybody-${unique}`, isKnown: Option.isNone(request) }
})

/** The answer to a call, with its outcome where the client wants it. */
const resultOf = (ended: SessionCalls.Ended, { wantsOutcome }: CallMeta) => {
  const result = McpResult.fromEnded(ended)
  return wantsOutcome
    ? new McpSchema.CallToolResult({
      ...result,
      _meta: { ...result._meta, [outcomeKey]: Native.write([shown(ended.outcome)])[0] }
    })
    : result
}

/** Names sessions by the object that all requests of a session share. The names are unique to this gateway. */
const sessionIds = (unique: string) => {
  const known = new WeakMap<object, string>()
  let last = 0
  return ({ initializePayload }: Client): string => {
    let id = known.get(initializePayload)
    if (id === undefined) known.set(initializePayload, id = `session-${unique}-${++last}`)
    return id
  }
}

/** What a defect says is for the host's record alone. */
const shown = (outcome: ToolOutcome): ToolOutcome =>
  outcome._tag === "Failed" && outcome.origin === "defect" ? { ...outcome, error: "internal error" } : outcome

/** Nobody sees it or calls it. */
const none = new McpSchema.Tool({ name: "none", inputSchema: { type: "object" } })

/** The client whose call it is; of a call that a tool makes, one of the same session. */
const callerOf = (
  open: ReadonlyMap<string, Session>,
  { batch, callId, process }: Approvals.ApprovalRequest
): ShowRequest | undefined => {
  const own = open.get(process)?.callers.get(callId)
  if (own !== undefined) return own
  for (const session of open.values()) {
    if (session.process.batch === batch) return session.callers.values().next().value
  }
  return undefined
}
