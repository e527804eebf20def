/**
 * The server: executors of sessions with what stands around them, and the routes of the API over it, for any
 * `HttpRouter`.
 *
 * **Example** (A server with one tool)
 *
 * ```ts no-run
 * import { NodeHttpServer, NodeRuntime } from "@effect/platform-node"
 * import { Effect, Layer, Schema } from "effect"
 * import { LocalExecutor, ToolHandlers } from "effect-tool-executor"
 * import { Access, Server } from "effect-tool-executor/server"
 * import { Tool, Toolkit } from "effect/ai"
 * import { createServer } from "node:http"
 *
 * const toolkit = Toolkit.make(Tool.make("save_note", { parameters: Schema.Struct({ text: Schema.String }) }))
 *
 * const Executors = Server.layerExecutors().pipe(
 *   Layer.provide(LocalExecutor.layerGates()),
 *   Layer.provide(ToolHandlers.layer(toolkit)),
 *   Layer.provide(toolkit.toLayer({ save_note: ({ text }) => Effect.log(text) }))
 * )
 *
 * const Users = Access.layer({
 *   users: [{ name: "ada", run: true, approve: ["ada"], tokens: [{ hash: "sha256:..." }] }]
 * })
 *
 * // built last: it listens once everything is there
 * const Http = NodeHttpServer.layerServer(createServer, { host: "127.0.0.1", port: 3000 })
 *
 * Server.serve(Server.layer(), Http).pipe(
 *   Layer.provide(Executors),
 *   Layer.provide([Users, NodeHttpServer.layerHttpServices]),
 *   Layer.launch,
 *   NodeRuntime.runMain
 * )
 * ```
 */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import type * as HttpRouter from "effect/http/HttpRouter"
import type * as HttpServer from "effect/http/HttpServer"
import * as Layer from "effect/Layer"
import { RolesOf } from "../../core/engine/data/Principal.ts"
import * as ToolExecutor from "../../core/engine/ToolExecutor.ts"
import * as ToolExecutors from "../../core/engine/ToolExecutors.ts"
import type * as Approvals from "../../core/gates/Approvals.ts"
import type { StateStore } from "../../core/store/StateStore.ts"
import type { ConfigurationError } from "../../core/vocabulary/ConfigurationError.ts"
import * as PendingApprovals from "../approvals/PendingApprovals.ts"
import * as RequestGuard from "../guard/RequestGuard.ts"
import * as Health from "../live/Health.ts"
import * as LiveLog from "../live/LiveLog.ts"
import * as Metrics from "../live/Metrics.ts"
import * as Status from "../live/Status.ts"
import * as LinkRoutes from "../notify/LinkRoutes.ts"
import * as Operations from "../operations/Operations.ts"
import type { OperationStoreError } from "../operations/OperationStore.ts"
import * as Records from "../records/Records.ts"
import * as Draining from "../sessions/Draining.ts"
import * as LocalDirectory from "../sessions/LocalDirectory.ts"
import type { SessionDirectory } from "../sessions/SessionDirectory.ts"
import * as SessionHost from "../sessions/SessionHost.ts"
import { Access } from "../users/Access.ts"
import { fromPrincipal } from "../users/Principals.ts"
import * as Waves from "../waves/Waves.ts"
import type { WaveStoreError } from "../waves/WaveStore.ts"
import { Api } from "./Api.ts"
import * as Handlers from "./Handlers.ts"
import { type Requires, serveRoutes } from "./Listener.ts"
import * as PageAssets from "./PageAssets.ts"

/** Options of the executors and approval requests. */
export interface ExecutorsOptions extends ToolExecutors.Options {
  readonly approvals?: PendingApprovals.Options | undefined
  readonly waves?: Waves.Options | undefined
  readonly operations?: Operations.Options | undefined
  readonly live?: LiveLog.Options | undefined
  readonly draining?: Draining.Options | undefined
}

/** Services that the routes require. */
export type Executors =
  | ToolExecutors.ToolExecutors
  | Approvals.Approvals
  | Draining.Draining
  | Health.Health
  | LiveLog.LiveLog
  | Operations.Operations
  | PendingApprovals.PendingApprovals
  | Records.Records
  | SessionHost.SessionHost
  | SessionDirectory
  | Waves.Waves

/**
 * Layer of the executors of all sessions, with approval requests and records. They belong together: the answered
 * approval requests are those of these executors, and the journal that is read is the one they write.
 *
 * It requires `Access` and what `ToolExecutors.layer` requires. It uses a `Journal`, a `WaveStore` and a `Webhook` if
 * they are provided.
 */
export const layerExecutors = (
  options: ExecutorsOptions = {}
): Layer.Layer<
  Executors,
  ConfigurationError | OperationStoreError | WaveStoreError,
  Access | ToolExecutor.Gates | StateStore
> =>
  Layer.mergeAll(Layer.provideMerge(LocalDirectory.layer, Records.layer), Health.layer, SessionHost.layer, checked)
    .pipe(
      Layer.provideMerge(Draining.layer(options.draining)),
      Layer.provideMerge(Operations.layer(options.operations)),
      Layer.provideMerge(Waves.layer(options.waves)),
      Layer.provideMerge(ToolExecutors.layer(options)),
      Layer.provideMerge(PendingApprovals.layer(options.approvals)),
      Layer.provideMerge(LiveLog.layer(options.live)),
      Layer.provide(roles)
    )

/** The roles of principals are those of their users. */
const roles = Layer.effect(
  RolesOf,
  Effect.map(Access, ({ rolesOf }) =>
    rolesOf &&
    ((principal) =>
      Effect.catch(rolesOf(fromPrincipal(principal).user), (error) =>
        Effect.as(Effect.logWarning("The roles of a user could not be looked up", error), undefined))))
)

/** Builds gates and tools immediately, so that their problems are reported at startup. */
const checked = Layer.effectDiscard(Effect.scoped(ToolExecutor.make))

/** Options of the routes. */
export interface Options extends RequestGuard.Options {
  /** The page at `/`, or `false` to serve no page. Default: the page of this package. */
  readonly page?: PageAssets.Options | false | undefined
}

/**
 * Layer of the routes: the API, its OpenAPI document (`/openapi.json`) and the page (`/`). With `AnswerLinks`, also the
 * links that answer approval requests (`/links/…`), and with `WebPush` notifications of devices (`/api/push`).
 */
export const layer = (options: Options = {}) =>
  HttpApiBuilder.layer(Api, { openapiPath: "/openapi.json" }).pipe(
    Layer.provide(Handlers.layer),
    Layer.provide([Metrics.layer, Status.layer]),
    Layer.merge(options.page === false ? Layer.empty : PageAssets.layer(options.page)),
    Layer.merge(LinkRoutes.layer),
    Layer.provide(RequestGuard.layer(options))
  )

/**
 * Serves routes like `HttpRouter.serve`, and shuts down gracefully.
 *
 * The server is built last and listens only once its routes can answer. When the layer is closed, waves and streams end
 * first, while the server still answers.
 */
export const serve = <A, E, R, S, SE, SR>(
  routes: Layer.Layer<A, E, R>,
  /** A server that listens as soon as it is built, such as `NodeHttpServer.layer`. Routes cannot use its services. */
  server: Layer.Layer<S | HttpServer.HttpServer, SE, SR>,
  options?: { readonly disableLogger?: boolean | undefined; readonly disableListenLog?: boolean | undefined }
): Layer.Layer<
  S | HttpServer.HttpServer,
  HttpRouter.Request.Without<E> | SE,
  Draining.Draining | Requires<R> | SR
> =>
  // built last, closed first
  Layer.effectDiscard(Effect.flatMap(Draining.Draining, ({ drain }) => Effect.addFinalizer(() => drain))).pipe(
    Layer.provideMerge(serveRoutes(routes, server, options))
  )
