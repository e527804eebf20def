// What HTTP adds to a turn of an agent, client included, and what idle sessions hold.
import { NodeHttpServer } from "@effect/platform-node"
import { Context, Effect, Layer, Redacted } from "effect"
import { Journal, LocalExecutor, StateStore, ToolHandlers } from "effect-tool-executor"
import { TranscriptStore } from "effect-tool-executor/agent"
import { Access, Agents, OperationStore, Server, Tokens } from "effect-tool-executor/server"
import { SqlJournal, SqlOwnRows, SqlStateStore } from "effect-tool-executor/sql"
import * as Sqlite from "effect-tool-executor/sqlite"
import { LanguageModel } from "effect/ai"
import { HttpServer } from "effect/http"
import { mkdtempSync, rmSync } from "node:fs"
import { createServer } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Client from "../load/client.ts"
import { tokenOf } from "../load/tokens.ts"
import { model, operations } from "./agents.ts"
import { compare, heap, type Side } from "./measure.ts"
import * as Subject from "./subject.ts"
import type { Line } from "./table.ts"

const memory = Layer.mergeAll(
  Journal.layerMemory(),
  StateStore.layerMemory(),
  OperationStore.layerMemory(),
  TranscriptStore.layerMemory()
)

const sqlite = Layer.unwrap(Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "served-"))),
    (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
  ),
  (folder) =>
    Layer.mergeAll(
      SqlJournal.layer(),
      SqlStateStore.layer(),
      Layer.provide(Layer.mergeAll(OperationStore.layer, TranscriptStore.layer), SqlOwnRows.layer)
    ).pipe(Layer.provide(Sqlite.layer({ filename: join(folder, "records.db") })))
))

const much = { burst: 1_000_000, perSecond: 1_000_000 }

/** A server over these stores; the result is where it listens. */
const serve = Effect.fnUntraced(function*(
  stores: Layer.Layer<
    Journal.Journal | OperationStore.OperationStore | StateStore.StateStore,
    unknown
  >,
  turns: number
) {
  const agents = Agents.layer({ helper: { model: Layer.effect(LanguageModel.LanguageModel, model(1, turns)) } })
  const executors = Server.layerExecutors({
    operations: { listed: "1 second", maxOperationsPerUser: 10_000 },
    waves: { maxSessions: 10_000, maxSessionsPerUser: 10_000 }
  }).pipe(
    Layer.provide(LocalExecutor.layerGates({ policy: { default: "allow" } })),
    Layer.provide(agents),
    Layer.provide(ToolHandlers.layer(Subject.kit)),
    Layer.provide(Subject.kit.toLayer(Subject.handlers))
  )
  const users = Access.layer({
    users: [{ name: "ada", run: true, tokens: [{ hash: Tokens.hash(Redacted.make(tokenOf(0))) }] }]
  })
  const http = NodeHttpServer.layerServer(createServer, { host: "127.0.0.1", port: 0 })
  const routes = Server.layer({ page: false, limits: { perUser: much, perAddress: much } })
  const app = Server.serve(routes, http, { disableListenLog: true, disableLogger: true }).pipe(
    Layer.provide(executors),
    Layer.provide([users, stores, NodeHttpServer.layerHttpServices])
  )
  return HttpServer.formatAddress(Context.get(yield* Layer.build(Layer.fresh(app)), HttpServer.HttpServer).address)
})

/** Starts an operation in a session of its own and reads its events to the end. */
const talk = async (url: string, session: string) => {
  const path = `/api/sessions/${session}/operations`
  const { json, status } = await Client.send<{ readonly id: string }>(url, 0, "POST", path, {
    agent: "helper",
    prompt: "go"
  })
  if (status !== 200) throw new Error(`${status}: ${JSON.stringify(json)}`)
  await (await Client.listen(url, 0, `${path}/${json.id}/events`, () => undefined)).ended
}

let sessions = 0

const side = (url: string): Side => ({ calls: 20, prepare: () => () => talk(url, `s${++sessions}`) })

export const served = Effect.gen(function*() {
  const records = yield* Layer.build(sqlite)
  const sides = [
    yield* operations(1),
    side(yield* serve(memory, 20)),
    yield* operations(1, records),
    side(yield* serve(Layer.succeedContext(records), 20))
  ] as const
  const [alone, value, recorded, stored] = yield* Effect.promise(() => compare(sides))
  const bar = { of: "value", limit: 1_500 } as const
  const unit = "µs/turn"
  return [
    {
      what: "a turn of an agent over HTTP: what it adds to that in process",
      value: value - alone,
      peer: alone,
      unit,
      bar
    },
    { what: "the same, with everything in SQLite", value: stored - recorded, peer: recorded, unit, bar }
  ] satisfies ReadonlyArray<Line>
})

export const idle = Effect.gen(function*() {
  const url = yield* serve(sqlite, 1)
  const begin = (count: number) =>
    Effect.promise(async () => {
      for (let n = 0; n < count; n++) await talk(url, `s${++sessions}`)
    })
  // what is evicted is
  const settled = Effect.andThen(Effect.sleep("3 seconds"), Effect.sync(heap))
  yield* begin(100)
  const before = yield* settled
  yield* begin(1_000)
  const value = (yield* settled) - before
  return [{
    what: "1,000 idle sessions of agents",
    value,
    unit: "MB",
    bar: { of: "value", limit: 50 }
  }] satisfies ReadonlyArray<Line>
})
