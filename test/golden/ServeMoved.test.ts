/** Records of a server without a cluster, as version 1 wrote them, where its database becomes that of a cluster. */
import { assert, layer } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as KeyValueStore from "effect/persistence/KeyValueStore"
import * as SqlClient from "effect/sql/SqlClient"
import { readFileSync } from "node:fs"
import { Transcripts } from "../../src/agent/Transcripts.ts"
import * as TranscriptStore from "../../src/agent/TranscriptStore.ts"
import * as ServeMoved from "../../src/cli/serve/ServeMoved.ts"
import { SessionRegistry } from "../../src/core/store/SessionRegistry.ts"
import { SessionRows } from "../../src/core/store/SessionRows.ts"
import * as FileChange from "../../src/core/vocabulary/FileChange.ts"
import * as OperationStore from "../../src/server/operations/OperationStore.ts"
import * as WaveStore from "../../src/server/waves/WaveStore.ts"
import * as SqlSessionRegistry from "../../src/sql/SqlSessionRegistry.ts"
import * as SqlSessionRows from "../../src/sql/SqlSessionRows.ts"
import * as Postgres from "../support/Postgres.ts"

const linesOf = (file: string) => readFileSync(new URL(file, import.meta.url), "utf8").trimEnd().split("\n")
const [submission, ended, , endedAt, turn] = linesOf("waves.v1.jsonl") as [string, string, string, string, string]
const operations = linesOf("operations.v1.jsonl").map((it) => JSON.parse(it) as [string, object])
const [first, second] = linesOf("transcripts.v1.jsonl") as [string, string]

const idOf = (...names: ReadonlyArray<string>) => FileChange.hashOf(JSON.stringify(names)).slice(0, 32)
const ada = { user: "ada", session: "s" }
const eve = { user: "eve", session: "s" }
const [one, two] = [idOf("ada", "s", "w-1"), idOf("ada", "s", "w-2")]
const conversation = idOf("ada", "chat-1")

/** The table as a server without a cluster left it: `w-1` has ended, `w-2` has not. */
const records: Readonly<Record<string, string>> = {
  [`served.wave.${one}`]: submission,
  [`served.end.${one}`]: ended,
  "served.ended.x.0": endedAt,
  [`served.wave.${two}`]: submission.replace("\"w-1\"", "\"w-2\""),
  [`served.turn.${idOf("ada", "s", "turn-1")}`]: turn,
  ...Object.fromEntries(operations.map(([key, record]) => [key, JSON.stringify(record)])),
  [`${conversation}.0`]: first,
  [`${conversation}.1`]: second,
  [`served.wave.${idOf("eve", "s", "w-1")}`]: submission.replace("\"ada\"", "\"eve\""),
  "served.wave.0123456789abcdef0123456789abcdef": "{cut"
}

layer(Postgres.layer)("records of a server without a cluster", (it) => {
  it.effect("belong to the cluster, once, in the place of those of sessions that it has not", () =>
    Effect.gen(function*() {
      const url = yield* (yield* Postgres.Postgres).database
      const client = yield* Layer.build(Postgres.clientOf(url))
      const sql = Context.get(client, SqlClient.SqlClient)
      const stores = yield* Layer.build(
        Layer.mergeAll(WaveStore.layerRows, OperationStore.layerRows, TranscriptStore.layerRows).pipe(
          Layer.provideMerge(SqlSessionRows.layer),
          Layer.provideMerge(SqlSessionRegistry.layer()),
          Layer.provide(Layer.succeedContext(client))
        )
      )
      const registry = Context.get(stores, SessionRegistry)
      const rows = Context.get(stores, SessionRows)
      const waves = Context.get(stores, WaveStore.WaveStore)
      const move = Effect.provide(ServeMoved.move, client)
      // a database that had no such server
      yield* move
      const table = KeyValueStore.layerSql({ table: ServeMoved.table }).pipe(
        Layer.provide(Layer.succeedContext(client))
      )
      const store = Context.get(yield* Layer.build(table), KeyValueStore.KeyValueStore)
      for (const [key, value] of Object.entries(records)) yield* store.set(key, value)
      const epoch = yield* registry.activate("eve/s")
      yield* rows.of("eve/s").write([{ _tag: "Put", key: "here", value: "already" }])
      yield* registry.release(epoch, { _tag: "Nothing" })

      yield* Effect.all([move, move, move], { concurrency: "unbounded" })
      assert.deepStrictEqual(
        (yield* store.keys).filter((it) => !it.startsWith("served.ended.")).sort(),
        ["served.wave.0123456789abcdef0123456789abcdef", `served.wave.${idOf("eve", "s", "w-1")}`].sort()
      )
      // the same texts under the same keys, in the session that they are of
      const kept = yield* sql<{ readonly key: string; readonly value: string }>`
        SELECT key, value FROM tool_executor_session_rows WHERE key <> 'here'`
      assert.deepStrictEqual(
        Object.fromEntries(kept.map(({ key, value }) => [key, value])),
        Object.fromEntries(
          Object.entries(records).filter(([key, value]) =>
            !key.startsWith("served.ended.") && !value.includes("\"eve\"") && value !== "{cut"
          )
        )
      )
      assert.deepStrictEqual(yield* registry.due(10), ["ada/s"])
      assert.deepStrictEqual((yield* waves.openOf(ada)).map(({ wave }) => wave), ["w-2"])
      assert.deepStrictEqual(yield* waves.openOf(eve), [])
      assert.strictEqual((yield* waves.get(ada, "w-1"))?.ended?.at, 1_790_000_001_000)
      assert.isDefined(yield* waves.turn(ada, "turn-1"))
      const talked = yield* Context.get(stores, OperationStore.OperationStore).conversationOf(ada)
      assert.deepStrictEqual(talked?.open.map(({ events, submitted }) => [submitted.operation, events.length]), [[
        "two",
        1
      ]])
      const said = yield* Effect.scoped(Context.get(stores, Transcripts).open("chat-1", "ada"))
      assert.isAbove(said.messages.length, 1)
      const listed = yield* Effect.forEach(
        ["wave", "turn", "conversation"],
        (kind) => rows.summaries!({ kind, limit: 10 })
      )
      assert.deepStrictEqual(listed.map((all) => all.map(({ isOpen }) => isOpen)), [[true, false], [], [true]])
      // retention leaves what a wave without an end starts from
      yield* waves.prune({ waves: Infinity, turns: Infinity })
      assert.isUndefined(yield* waves.get(ada, "w-1"))
      assert.isDefined(yield* waves.turn(ada, "turn-1"))
    }).pipe(Effect.scoped, Effect.provide(Postgres.realTime)))
})
