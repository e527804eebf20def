/**
 * The server: executors of sessions with what stands around them, and the routes of the API over it,
 * for any `HttpRouter`.
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
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import type * as HttpRouter from "effect/http/HttpRouter"
import type * as HttpServer from "effect/http/HttpServer"
import * as Layer from "effect/Layer"
import * as ToolExecutor from "../core/engine/ToolExecutor.ts"
import * as ToolExecutors from "../core/engine/ToolExecutors.ts"
import type * as Approvals from "../core/gates/Approvals.ts"
import type { StateStore } from "../core/store/StateStore.ts"
import type { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import type { Access } from "./Access.ts"
import { Api } from "./Api.ts"
import * as ApprovalsHandlers from "./ApprovalsHandlers.ts"
import * as Draining from "./Draining.ts"
import * as Health from "./Health.ts"
import { type Requires, serveRoutes } from "./Listener.ts"
import * as LiveLog from "./LiveLog.ts"
import * as LoginHandlers from "./LoginHandlers.ts"
import * as Metrics from "./Metrics.ts"
import * as PageAssets from "./PageAssets.ts"
import * as PendingApprovals from "./PendingApprovals.ts"
import * as Records from "./Records.ts"
import * as RecordsHandlers from "./RecordsHandlers.ts"
import * as RequestGuard from "./RequestGuard.ts"
import * as SessionsHandlers from "./SessionsHandlers.ts"
import * as Status from "./Status.ts"
import * as SystemHandlers from "./SystemHandlers.ts"
import * as Waves from "./Waves.ts"
import type { WaveStoreError } from "./WaveStore.ts"

/**
 * Options of the executors and what stands around them.
 *
 * @category options
 * @since 0.1.0
 */
export interface ExecutorsOptions extends ToolExecutors.Options {
  readonly approvals?: PendingApprovals.Options | undefined
  readonly waves?: Waves.Options | undefined
  readonly live?: LiveLog.Options | undefined
  readonly draining?: Draining.Options | undefined
}

/**
 * What works under the routes.
 *
 * @category models
 * @since 0.1.0
 */
export type Executors =
  | ToolExecutors.ToolExecutors
  | Approvals.Approvals
  | Draining.Draining
  | Health.Health
  | LiveLog.LiveLog
  | PendingApprovals.PendingApprovals
  | Records.Records
  | Waves.Waves

/**
 * Layer of the executors of all sessions, with the people whom they ask: all that works under the
 * routes, in one, so that the approval requests that are answered are those that are asked, and the
 * journal that is read is the one that is written.
 *
 * **Details**
 *
 * It takes what `ToolExecutors.layer` takes, the `Access` that says whose waves of an earlier life may go on, and where
 * they are provided a `Journal`, a `WaveStore` and a `Webhook`.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerExecutors = (
  options: ExecutorsOptions = {}
): Layer.Layer<Executors, ConfigurationError | WaveStoreError, Access | ToolExecutor.Gates | StateStore> =>
  Layer.mergeAll(Records.layer, Health.layer, checked).pipe(
    Layer.provideMerge(Draining.layer(options.draining)),
    Layer.provideMerge(Waves.layer(options.waves)),
    Layer.provideMerge(ToolExecutors.layer(options)),
    Layer.provideMerge(PendingApprovals.layer(options.approvals)),
    Layer.provideMerge(LiveLog.layer(options.live))
  )

/** What is wrong with gates and tools is told now, and not to the first who uses them. */
const checked = Layer.effectDiscard(Effect.scoped(ToolExecutor.make))

/**
 * Options of the routes.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options extends RequestGuard.Options {
  /** The page at `/`; `false`: there is none. Default: the one of the package. */
  readonly page?: PageAssets.Options | false | undefined
}

/**
 * Layer of the routes: the API, its OpenAPI document (`/openapi.json`) and the page (`/`).
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options: Options = {}) =>
  HttpApiBuilder.layer(Api, { openapiPath: "/openapi.json" }).pipe(
    Layer.provide([
      LoginHandlers.layer,
      SessionsHandlers.layer,
      ApprovalsHandlers.layer,
      RecordsHandlers.layer,
      SystemHandlers.layer
    ]),
    Layer.provide([Metrics.layer, Status.layer]),
    Layer.merge(options.page === false ? Layer.empty : PageAssets.layer(options.page)),
    Layer.provide(RequestGuard.layer(options))
  )

/**
 * Serves routes, as `HttpRouter.serve` does, from when they can answer until everything has come to its end.
 *
 * **Details**
 *
 * The server is built last, so that nothing listens before the routes and all they need are there: a request is
 * answered, or refused by the system because nobody listens yet. When it is to end, everything comes to its end in good
 * order first: with a server that still answers.
 *
 * @category layers
 * @since 0.1.0
 */
export const serve = <A, E, R, S, SE, SR>(
  routes: Layer.Layer<A, E, R>,
  /** Listens as it is built, such as `NodeHttpServer.layer`. What it gives beside is not the routes' to use. */
  server: Layer.Layer<S | HttpServer.HttpServer, SE, SR>,
  options?: { readonly disableLogger?: boolean | undefined; readonly disableListenLog?: boolean | undefined }
): Layer.Layer<
  S | HttpServer.HttpServer,
  HttpRouter.Request.Without<E> | SE,
  Draining.Draining | Requires<R> | SR
> =>
  // what is built last ends first
  Layer.effectDiscard(Effect.flatMap(Draining.Draining, ({ drain }) => Effect.addFinalizer(() => drain))).pipe(
    Layer.provideMerge(serveRoutes(routes, server, options))
  )
