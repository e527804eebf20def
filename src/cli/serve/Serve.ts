/** The server of `tool-executor serve`, put together, started and ended. Loaded only when it is used. */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as HttpServer from "effect/http/HttpServer"
import type { ServeError } from "effect/http/HttpServerError"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import * as Predicate from "effect/Predicate"
import type * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import type { SqlError } from "effect/sql/SqlError"
import * as LocalExecutor from "../../assembly/LocalExecutor.ts"
import type { ConfigurationError, Problem } from "../../core/vocabulary/ConfigurationError.ts"
import { escape } from "../../internal/escape.ts"
import type { McpServerError } from "../../mcp/McpServers.ts"
import * as Server from "../../server/api/Server.ts"
import * as AnswerLinks from "../../server/notify/AnswerLinks.ts"
import * as Webhook from "../../server/notify/Webhook.ts"
import * as WebPush from "../../server/notify/WebPush.ts"
import type { OperationStoreError } from "../../server/operations/OperationStore.ts"
import * as Undoing from "../../server/records/Undoing.ts"
import * as Access from "../../server/users/Access.ts"
import type { WaveStoreError } from "../../server/waves/WaveStore.ts"
import * as ArtifactTools from "../../tools/folders/ArtifactTools.ts"
import * as Workspace from "../../tools/workspace/Workspace.ts"
import { type CliFailure, describe, inLines, wrong } from "../CliFailure.ts"
import * as Files from "../Files.ts"
import * as BesidePolicy from "../gateway/BesidePolicy.ts"
import * as FolderTools from "../gateway/FolderTools.ts"
import * as GatewayProblems from "../gateway/GatewayProblems.ts"
import * as JoinedTools from "../gateway/JoinedTools.ts"
import { Interruption, reasons } from "../Interruption.ts"
import * as PolicyTiers from "../policy/PolicyTiers.ts"
import { HttpPort } from "./HttpPort.ts"
import * as ServeAddress from "./ServeAddress.ts"
import * as ServeAgents from "./ServeAgents.ts"
import * as ServeConfig from "./ServeConfig.ts"
import * as ServeStores from "./ServeStores.ts"
import * as ServeUsers from "./ServeUsers.ts"

export interface Options {
  /** The config file. */
  readonly path: string
  readonly config: ServeConfig.ServeConfig
  readonly host: string | undefined
  readonly port: number | undefined
  readonly data: string | undefined
  readonly postgres: Redacted.Redacted<string> | undefined
  /** Whether it is one of several servers over the same PostgreSQL. */
  readonly isClustered: boolean
}

/** Serves until a signal, then shuts down gracefully; a second signal stops it immediately. */
export const serve = Effect.fnUntraced(function*(options: Options) {
  const address = yield* Effect.mapError(
    Effect.fromResult(ServeAddress.make(options.config.server ?? {}, options)),
    (problem) => wrong(describe({ subject: options.path, problems: [problem] }))
  )
  for (const warning of address.warnings) yield* Effect.logWarning(warning)
  const layer = yield* layerOf(options, address)
  const interruption = yield* Interruption
  const scope = yield* Scope.make()
  const end = Scope.close(scope, Exit.void)
  const serving = Effect.gen(function*() {
    const { address: bound } = Context.get(yield* Layer.buildWithScope(layer, scope), HttpServer.HttpServer)
    const url = ServeAddress.urlOf(address, "port" in bound ? bound.port : address.port)
    yield* Files.print(`Serving ${url}/`)
    if (address.publicUrl !== undefined) yield* Files.print(`Public URL: ${escape(address.publicUrl)}`)
    return yield* Effect.never
  })
  const reason = yield* Effect.onError(
    Effect.raceFirst(explained(serving, options.path), interruption),
    () => end
  )
  const drain = Duration.fromInputUnsafe((options.config.server?.drain ?? ServeConfig.defaults.drain) as Duration.Input)
  yield* Effect.logInfo(
    `Shutting down: ${reason}. Waiting up to ${
      Duration.format(drain)
    } for running calls; press Ctrl-C again to stop now`
  )
  // a second signal does not wait for a slow shutdown
  const ending = yield* Effect.forkDetach(end)
  const isDrained = yield* Effect.raceFirst(
    Effect.as(Fiber.await(ending), true),
    Effect.as(interruption, false)
  )
  yield* isDrained && reason === reasons.SIGTERM ? Effect.void : Effect.interrupt
})

const layerOf = Effect.fnUntraced(
  function*({ config, data, isClustered, path: file, postgres }: Options, at: ServeAddress.ServeAddress) {
    const path = yield* Path.Path
    const { server = {}, workspace } = config
    const http = yield* HttpPort
    if (http === undefined) return yield* wrong("This platform cannot serve HTTP.")
    const besideConfig = (it: string) => path.resolve(path.dirname(file), it)
    const root = workspace === undefined ? undefined : besideConfig(workspace.root)
    const tls = server.tls === undefined
      ? undefined
      : { cert: besideConfig(server.tls.cert), key: besideConfig(server.tls.key) }
    if (root !== undefined && tls !== undefined) yield* checkKey(root, tls.key)
    const pem = tls === undefined
      ? undefined
      : yield* Effect.all({ cert: Files.read(tls.cert), key: Files.read(tls.key) })
    const users = yield* ServeUsers.read(server.users ?? {}, file)
    const webhook = yield* webhookOf(config, file)
    const agents = yield* ServeAgents.make(config.agents ?? {}, file)
    const above = yield* PolicyTiers.above
    yield* PolicyTiers.warnLocked(ServeConfig.toOptions(config, above).policy)

    const undoing = root === undefined ? Layer.empty : Undoing.layer({ root })
    const executors = Server.layerExecutors(executorsOptions(server)).pipe(
      Layer.provide(undoing),
      Layer.provide(gatesOf(config, above, root, [path.resolve(file), ...above.files], agents)),
      Layer.provide(yield* BesidePolicy.layerOf(config)),
      Layer.provide(agents.agents)
    )
    const push = yield* pushOf(config, file)
    const devices = push === undefined ? Layer.empty : WebPush.layer(push)
    const told = webhook !== undefined
      ? Webhook.layer(webhook.options).pipe(Layer.provide(FetchHttpClient.layer))
      : push !== undefined
      ? WebPush.layerNotices({ delay: ServeConfig.defaults.webhookDelay })
      : Layer.empty
    const links = webhook?.links === undefined ? Layer.empty : AnswerLinks.layer(webhook.links)
    const routes = Server.layer(routesOptions(server, at))
    const listening = http.server({ host: at.host, port: at.port, tls: pem })
    const serving = Server.serve(routes, listening, { disableLogger: true, disableListenLog: true }).pipe(
      Layer.provide(told),
      Layer.provide([links, devices])
    )
    const around = Layer.merge(Access.layer({ users }), http.services)
    if (!isClustered) {
      return serving.pipe(
        Layer.provide(executors),
        Layer.provide(around),
        Layer.provide(ServeStores.layer({ config: file, root, data, postgres }))
      )
    }
    // loaded only where it is used
    const [ServeCluster, Cluster] = yield* Effect.promise(() =>
      Promise.all([import("./ServeCluster.ts"), import("../../cluster/Cluster.ts")])
    )
    const runner = yield* ServeCluster.read(config, file, postgres)
    const messages = Layer.catch(
      http.server(runner.listen),
      ({ cause }) =>
        Layer.effectContext<HttpServer.HttpServer, CliFailure, never>(Effect.fail(wrong(
          ServeCluster.unheard(runner, cause)
        )))
    )
    return serving.pipe(
      Layer.provide(Layer.provideMerge(Cluster.layer(messages, runner.options), executors)),
      Layer.provide(FetchHttpClient.layer),
      Layer.provide(around),
      Layer.provide(ServeStores.layerShared(runner))
    )
  }
)

/** The tools, and what holds for them. */
const gatesOf = (
  config: ServeConfig.ServeConfig,
  above: PolicyTiers.Above,
  root: string | undefined,
  protect: ReadonlyArray<string>,
  { handlers, toolkits }: Pick<Effect.Success<ReturnType<typeof ServeAgents.make>>, "handlers" | "toolkits">
) => {
  const {
    $schema: _,
    agents: __,
    mcpServers: servers,
    reviewer: ___,
    server: ____,
    shadow: _____,
    workspace,
    ...unverified
  } = config
  const options = ServeConfig.toOptions(config, above)
  const about = { servers, tools: options.tools, unverified: [unverified] }
  const gates = LocalExecutor.layerGates(options)
  if (root === undefined || workspace === undefined) {
    return gates.pipe(
      Layer.provideMerge(JoinedTools.layer([ArtifactTools.toolkit, ...toolkits], about)),
      Layer.provide([ArtifactTools.layer, handlers])
    )
  }
  const layerWith = (tools: FolderTools.FolderTools) =>
    gates.pipe(
      Layer.provideMerge(JoinedTools.layer([...tools.toolkits, ArtifactTools.toolkit, ...toolkits], about)),
      Layer.provide([tools.layer, ArtifactTools.layer, handlers])
    )
  return Layer.unwrap(Effect.map(FolderTools.make(root, workspace, protect), layerWith))
}

type ServerPart = NonNullable<ServeConfig.ServeConfig["server"]>

// durations were checked when the file was decoded

const executorsOptions = (
  { approvalTimeout, drain, limits = {}, sessionIdle, turnIdle }: ServerPart
): Server.ExecutorsOptions => ({
  idleTimeToLive: sessionIdle,
  approvals: { timeout: approvalTimeout },
  waves: {
    maxSessions: limits.sessions,
    maxSessionsPerUser: limits.sessionsPerUser,
    maxWaves: limits.waves,
    maxWavesPerUser: limits.wavesPerUser,
    turnIdle
  },
  operations: {
    maxOperations: limits.operations,
    maxOperationsPerUser: limits.operationsPerUser,
    maxMessages: limits.messages,
    maxMessageChars: limits.messageChars
  },
  draining: { within: drain }
} as Server.ExecutorsOptions)

const routesOptions = (
  { limits = {}, publicUrl, trustProxy }: ServerPart,
  { names }: ServeAddress.ServeAddress
): Server.Options => ({
  publicUrl,
  trustProxy,
  hosts: names,
  maxBodyBytes: limits.bodyBytes,
  limits: {
    perUser: limits.requestsPerSecond === undefined ? undefined : { perSecond: limits.requestsPerSecond },
    streams: {
      ...limits.streams === undefined ? {} : { ofAll: limits.streams },
      ...limits.streamsPerUser === undefined ? {} : { perUser: limits.streamsPerUser }
    }
  }
})

/** What can read files in the root could read the key. */
const checkKey = Effect.fnUntraced(function*(root: string, key: string) {
  const workspace = yield* Workspace.make(root)
  const real = yield* Workspace.resourceKey(workspace, key)
  if (!Workspace.isWithin(workspace.root, real)) return
  return yield* wrong(
    `${escape(key)} lies in the root of the workspace, where tools can read it. Move the key elsewhere.`
  )
}, Effect.catchTag("ConfigurationError", (error) => Effect.fail(wrong(describe(error)))))

const webhookOf = Effect.fnUntraced(
  function*({ server: { publicUrl, webhook } = {} }: ServeConfig.ServeConfig, file: string) {
    if (webhook === undefined) return undefined
    const problems: Array<Problem> = []
    const secret = yield* ServeUsers.secretIn(webhook.secret.env, "server.webhook.secret", problems)
    if (publicUrl === undefined) {
      problems.push({
        path: "server.publicUrl",
        problem: "it is missing",
        expected: "the public URL, for the link in the webhook"
      })
    }
    if (secret === undefined || publicUrl === undefined) return yield* wrong(describe({ subject: file, problems }))
    // durations were checked when the file was decoded
    const { delay = ServeConfig.defaults.webhookDelay, format, links, url } = webhook
    return {
      options: { url, secret, publicUrl, delay, format } as Webhook.Options,
      links: links === undefined ? undefined : { ...links, secret, publicUrl } as AnswerLinks.Options
    }
  }
)

const pushOf = Effect.fnUntraced(
  function*({ server: { publicUrl, push } = {} }: ServeConfig.ServeConfig, file: string) {
    if (push === undefined) return undefined
    const problems: Array<Problem> = []
    const privateKey = yield* ServeUsers.secretIn(push.privateKey.env, "server.push.privateKey", problems)
    if (publicUrl === undefined) {
      problems.push({
        path: "server.publicUrl",
        problem: "it is missing",
        expected: "the public URL, which notifications open"
      })
    }
    if (privateKey === undefined || publicUrl === undefined) return yield* wrong(describe({ subject: file, problems }))
    return { subject: push.subject, publicKey: push.publicKey, privateKey, publicUrl }
  }
)

const unserved = ({ cause }: ServeError): string => {
  const isTaken = Predicate.hasProperty(cause, "code") && cause.code === "EADDRINUSE"
  const hint = isTaken ? " The port is in use. Choose another one with --port or server.port." : ""
  return `Cannot listen there (${escape(String(cause))}).${hint}`
}

/** Reports errors of building the server as problems of the config file where they belong there. */
const explained = <A, R>(
  effect: Effect.Effect<
    A,
    CliFailure | ConfigurationError | McpServerError | OperationStoreError | ServeError | SqlError | WaveStoreError,
    R
  >,
  file: string
) =>
  Effect.catchTags(effect, {
    ConfigurationError: (error) => Effect.fail(wrong(describe(GatewayProblems.inFile(file, error)))),
    McpServerError: (error) => Effect.fail(wrong(inLines(error.message))),
    OperationStoreError: (error) =>
      Effect.fail(wrong(escape(`Stored conversations cannot be read: ${String(error.cause)}`))),
    ServeError: (error) => Effect.fail(wrong(unserved(error))),
    SqlError: (error) => Effect.fail(wrong(escape(`The records in PostgreSQL: ${error.message}`))),
    WaveStoreError: (error) => Effect.fail(wrong(escape(`Stored waves cannot be read: ${String(error.cause)}`)))
  })
