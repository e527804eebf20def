/**
 * A whole server on a free port of loopback, in this process: its users, tools that are held until
 * a test lets them go, and a client that speaks HTTP.
 */
import { NodeHttpServer } from "@effect/platform-node"
import { Context, Deferred, type Duration, Effect, Exit, Layer, Queue, Redacted, Schema, Scope } from "effect"
import type { Policy, ToolRule } from "effect-tool-executor"
import { Checkpoints, Journal, LocalExecutor, ToolAnnotations, ToolContext, ToolHandlers } from "effect-tool-executor"
import { Cluster } from "effect-tool-executor/cluster"
import { Access, Agents, AnswerLinks, Server, Tokens, Undoing, WaveStore, WebPush } from "effect-tool-executor/server"
import { SqlJournal, SqlStateStore } from "effect-tool-executor/sql"
import * as Sqlite from "effect-tool-executor/sqlite"
import { ScriptedModel } from "effect-tool-executor/testing"
import { WorkspaceTools } from "effect-tool-executor/tools"
import { Tool, Toolkit } from "effect/ai"
import { Sse } from "effect/encoding"
import { HttpServer } from "effect/http"
import { createServer } from "node:http"
import { join } from "node:path"
import * as SessionRegistry from "../../src/core/store/SessionRegistry.ts"
import * as SqlOwnRows from "../../src/sql/SqlOwnRows.ts"

/** The users: ada runs; bob runs, and answers for ada; eve may nothing; ops operates and reads everything. */
export const users = {
  ada: { run: true },
  bob: { run: true, approve: ["ada"] },
  eve: {},
  ops: { operate: true, records: ["*"] }
} as const satisfies Record<string, Omit<Access.UserOptions, "name" | "tokens">>

export type UserName = keyof typeof users

/** Their tokens. They look like real ones, so that nothing depends on how a token looks. */
export const tokens: Readonly<Record<UserName, string>> = {
  ada: Redacted.value(Effect.runSync(Tokens.make)),
  bob: Redacted.value(Effect.runSync(Tokens.make)),
  eve: Redacted.value(Effect.runSync(Tokens.make)),
  ops: Redacted.value(Effect.runSync(Tokens.make))
}

const Params = Schema.Struct({ key: Schema.String })

/** Changes the world; people are asked about it, with a diff. */
const Save = Tool.make("save", {
  description: "Saves a text",
  parameters: Schema.Struct({ path: Schema.String, text: Schema.String }),
  success: Schema.String
})
  .annotate(ToolAnnotations.Targets, (params) => [{ text: (params as { readonly path: string }).path }])
  .annotate(ToolAnnotations.Preview, (params) => {
    const { path, text } = params as { readonly path: string; readonly text: string }
    return Effect.succeed([{ path, before: "before\n", after: text }])
  })

export const toolkit = Toolkit.make(
  Save,
  Tool.make("look", { description: "Looks", parameters: Params, success: Schema.String }).annotate(Tool.Readonly, true),
  // runs until the test lets it go
  Tool.make("hold", { parameters: Params, success: Schema.String }).annotate(Tool.Readonly, true),
  // changes the world, asks nobody, and runs until the test lets it go
  Tool.make("change", { parameters: Params, success: Schema.String }),
  Tool.make("break", { parameters: Params, success: Schema.String }).annotate(Tool.Readonly, true)
)

/** What a defect says: it must never leave the server. */
export const secretDefect = "the password of the database is hunter2"

/** Some of them, with these rights. */
export function only(
  some: { readonly [name in UserName]?: Omit<Access.UserOptions, "name" | "tokens"> }
): ReadonlyArray<Access.UserOptions> {
  return Object.entries(some).map(([name, rights]) => ({
    name,
    ...rights,
    tokens: [{ hash: Tokens.hash(Redacted.make(tokens[name as UserName])) }]
  }))
}

/** Calls that are held, by their keys. */
export class Held {
  private readonly begun = new Map<string, Deferred.Deferred<void>>()
  private readonly released = new Map<string, Deferred.Deferred<void>>()

  /** Waits until a call with the key runs. */
  readonly runs = (key: string): Effect.Effect<void> => Deferred.await(of(this.begun, key))

  /** Lets it go, now or when it comes. */
  readonly release = (key: string): Effect.Effect<void> =>
    Effect.asVoid(Deferred.succeed(of(this.released, key), undefined))

  /** For the tools. */
  readonly hold = (key: string): Effect.Effect<void> =>
    Effect.andThen(Deferred.succeed(of(this.begun, key), undefined), Deferred.await(of(this.released, key)))
}

const of = (all: Map<string, Deferred.Deferred<void>>, key: string): Deferred.Deferred<void> => {
  const it = all.get(key) ?? Deferred.makeUnsafe<void>()
  all.set(key, it)
  return it
}

export interface Options {
  /** Keeps everything in a file of SQLite in there, and is the root of the workspace tools. Default: in memory. */
  readonly folder?: string
  readonly users?: ReadonlyArray<Access.UserOptions>
  readonly policy?: Policy.Policy
  readonly rules?: ReadonlyArray<ToolRule.ToolRule>
  readonly executors?: Server.ExecutorsOptions
  readonly server?: Server.Options
  readonly port?: number
  /** Runs it as the only runner of a cluster, with these options. */
  readonly cluster?: Cluster.Options
  /** Links that answer approval requests. */
  readonly links?: AnswerLinks.Options
  /** Notifications of devices. */
  readonly push?: WebPush.Options
  /** The users, where a list is not enough. */
  readonly access?: Layer.Layer<Access.Access>
  /** How long it waits for open connections when it stops. */
  readonly shutdown?: Duration.Input
  /** Logs requests. */
  readonly isLogged?: boolean
  /** What the model of the agent `helper` says. */
  readonly script?: ScriptedModel.Script
}

/** JSON as a client without types has it. */
export type Untyped = ReturnType<typeof JSON.parse>

/** An answer of the server. */
export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly text: string
  readonly json: Untyped
}

/** A server-sent event. */
export interface Event {
  readonly id: string | undefined
  readonly event: string
  readonly data: Untyped
}

/** A stream that is being read. */
export interface Events {
  readonly status: number
  readonly headers: Headers
  /** The next event; `undefined`: the stream has ended. Heartbeats are left out. */
  readonly next: Effect.Effect<Event | undefined>
  /** All up to and with the first that is so, or up to the end. */
  readonly until: (is: (event: Event) => boolean) => Effect.Effect<ReadonlyArray<Event>>
  /** All to the end. */
  readonly rest: Effect.Effect<ReadonlyArray<Event>>
  /** Goes away. */
  readonly close: Effect.Effect<void>
}

export interface RequestOptions {
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

export interface TestServer {
  readonly url: string
  readonly held: Held
  readonly request: (
    user: UserName | undefined,
    method: string,
    path: string,
    options?: RequestOptions
  ) => Effect.Effect<Answer>
  /** Reads a stream, with `POST` where there is a body. */
  readonly sse: (
    user: UserName,
    path: string,
    options?: RequestOptions & { readonly lastEventId?: string | undefined }
  ) => Effect.Effect<Events, never, Scope.Scope>
  /** Stops it in good order. */
  readonly stop: Effect.Effect<void>
}

/** Starts a server, for as long as the scope is open. */
export const start = Effect.fnUntraced(
  function*(options: Options = {}): Effect.fn.Return<TestServer, never, Scope.Scope> {
    const held = new Held()
    const scope = yield* Scope.fork(yield* Scope.Scope)
    const services = yield* Effect.orDie(Layer.buildWithScope(layer(held, options), scope))
    const { address } = Context.get(services, HttpServer.HttpServer)
    const url = HttpServer.formatAddress(address)
    return {
      url,
      held,
      request: (user, method, path, { body, headers } = {}) =>
        Effect.promise(async (signal) => {
          const response = await fetch(`${url}${path}`, {
            method,
            signal,
            headers: headersOf(user, body, headers),
            ...body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }
          })
          const text = await response.text()
          return { status: response.status, headers: response.headers, text, json: jsonOf(text) }
        }),
      sse: (user, path, { body, headers, lastEventId } = {}) =>
        listen(`${url}${path}`, {
          method: body === undefined ? "GET" : "POST",
          headers: headersOf(user, body, {
            accept: "text/event-stream",
            ...lastEventId === undefined ? {} : { "last-event-id": lastEventId },
            ...headers
          }),
          ...body === undefined ? {} : { body: JSON.stringify(body) }
        }),
      stop: Scope.close(scope, Exit.void)
    }
  }
)

// Utilities

const handlers = (held: Held) =>
  toolkit.toLayer({
    save: ({ path }) => Effect.succeed(`saved ${path}`),
    look: ({ key }) => Effect.succeed(`seen ${key}`),
    hold: ({ key }) =>
      ToolContext.ToolContext.use((context) => context.status(`holding ${key}`)).pipe(
        Effect.andThen(held.hold(key)),
        Effect.as(`held ${key}`)
      ),
    change: ({ key }) => Effect.as(held.hold(key), `changed ${key}`),
    break: () => Effect.die(new Error(secretDefect))
  })

const layer = (held: Held, options: Options) => {
  const { folder, policy = { default: "allow", ask: ["save"] }, rules = [] } = options
  const workspace = folder === undefined ? undefined : WorkspaceTools.make({ root: folder })
  const tools = workspace === undefined
    ? ToolHandlers.layer(toolkit).pipe(Layer.provide(handlers(held)))
    : ToolHandlers.layer([toolkit, workspace.toolkit]).pipe(Layer.provide([handlers(held), workspace.layer]))
  const clustered = options.cluster === undefined ? Layer.empty : Cluster.layerSingle(options.cluster)
  const executors = clustered.pipe(
    Layer.provideMerge(Server.layerExecutors(options.executors)),
    Layer.provide(LocalExecutor.layerGates({ policy, rules, dedupe: false })),
    Layer.provide(options.script === undefined ? Layer.empty : agents(options.script)),
    Layer.provide(tools)
  )
  const server = NodeHttpServer.layerServer(createServer, {
    host: "127.0.0.1",
    port: options.port ?? 0,
    gracefulShutdownTimeout: options.shutdown ?? "1 second"
  })
  const serving = { disableLogger: options.isLogged !== true, disableListenLog: true }
  return Server.serve(Server.layer(options.server), server, serving).pipe(
    Layer.provideMerge(executors),
    Layer.provide(options.links === undefined ? Layer.empty : AnswerLinks.layer(options.links)),
    Layer.provide(options.push === undefined ? Layer.empty : WebPush.layer(options.push)),
    Layer.provide(options.access ?? Access.layer({ users: options.users ?? everybody })),
    Layer.provide(stores(folder)),
    Layer.provide(SessionRegistry.layerMemory()),
    Layer.provide(NodeHttpServer.layerHttpServices)
  )
}

const agents = (script: ScriptedModel.Script) =>
  Layer.unwrap(Effect.map(ScriptedModel.make(script), ({ layer: model }) => Agents.layer({ helper: { model } })))

const everybody = only(users)

const stores = (folder: string | undefined) =>
  folder === undefined
    ? Layer.mergeAll(Journal.layerMemory(), WaveStore.layerMemory())
    : Layer.mergeAll(
      SqlJournal.layer(),
      SqlStateStore.layer(),
      WaveStore.layer.pipe(Layer.provide(SqlOwnRows.layer)),
      Undoing.layer({ root: folder }).pipe(Layer.provideMerge(Checkpoints.layerMemory()))
    ).pipe(Layer.provide(Sqlite.layer({ filename: join(folder, "..", "records.db") })))

const headersOf = (user: UserName | undefined, body: unknown, headers: Readonly<Record<string, string>> = {}) => ({
  ...user === undefined ? {} : { authorization: `Bearer ${tokens[user]}` },
  ...body === undefined ? {} : { "content-type": "application/json" },
  ...headers
})

const jsonOf = (text: string): unknown => {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export const listen = Effect.fnUntraced(
  function*(url: string, init: RequestInit): Effect.fn.Return<Events, never, Scope.Scope> {
    const aborted = yield* Effect.acquireRelease(
      Effect.sync(() => new AbortController()),
      (it) => Effect.sync(() => it.abort())
    )
    const response = yield* Effect.promise(() => fetch(url, { ...init, signal: aborted.signal }))
    const events = yield* Queue.unbounded<Event | undefined>()
    const parser = Sse.makeParser((event) => {
      if (event._tag !== "Event" || event.event === "heartbeat") return
      Queue.offerUnsafe(events, { id: event.id, event: event.event, data: jsonOf(event.data) })
    })
    const read = async () => {
      const decoder = new TextDecoder()
      for await (const bytes of response.body ?? []) parser.feed(decoder.decode(bytes, { stream: true }))
    }
    const end = () => void Queue.offerUnsafe(events, undefined)
    void read().then(end, end)
    const next = Queue.take(events)
    const until = Effect.fnUntraced(function*(is: (event: Event) => boolean) {
      const all: Array<Event> = []
      while (true) {
        const event = yield* next
        if (event === undefined) return all
        all.push(event)
        if (is(event)) return all
      }
    })
    return {
      status: response.status,
      headers: response.headers,
      next,
      until,
      rest: until(() => false),
      close: Effect.sync(() => aborted.abort())
    }
  }
)
