/** A process that is stopped while it writes for its sessions, for longer than its lease. */
import { assert, layer } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as SqlClient from "effect/sql/SqlClient"
import * as Stream from "effect/Stream"
import { isOfCall } from "../../src/core/store/Journal.ts"
import { SessionRegistry } from "../../src/core/store/SessionRegistry.ts"
import * as SqlJournal from "../../src/sql/SqlJournal.ts"
import * as SqlSessionRegistry from "../../src/sql/SqlSessionRegistry.ts"
import { until } from "../support/commandProcess.ts"
import * as Postgres from "../support/Postgres.ts"
import { lineOf } from "../support/sessionWorld.ts"
import { start } from "../support/stateWorkers.ts"

const [taken, kept] = ["ann/taken", "ann/kept"] as const
const lease = "600 millis"

layer(Postgres.layer)("a process that is stopped for longer than its lease", (it) => {
  it.effect(
    "writes nothing for a session that was taken, and goes on in those that were not",
    () =>
      Effect.gen(function*() {
        for (const isForced of [false, true, false]) {
          const url = yield* (yield* Postgres.Postgres).database
          const sql = Context.get(yield* Layer.build(Layer.fresh(Postgres.clientOf(url))), SqlClient.SqlClient)
          const registry = yield* Effect.provideService(SqlSessionRegistry.make({ lease }), SqlClient.SqlClient, sql)
          const journal = yield* SqlJournal.make().pipe(
            Effect.provideService(SqlClient.SqlClient, sql),
            Effect.provideService(SessionRegistry, registry)
          )
          const worker = yield* start({ url, lease, sessions: [taken, kept], writes: 400 }, "sessionWorker")
          const writesOf = (principal: string) =>
            worker.lines.flatMap((it) => it._tag === "Wrote" && it.call === principal ? [it.at] : [])
          yield* until(() => writesOf(taken).length > 3 && writesOf(kept).length > 3)
          // taken while it runs, or while it stands still
          if (!isForced) worker.child.kill("SIGSTOP")
          const { number } = yield* registry.activate(taken)
          const at = Date.now()
          yield* journal.append([lineOf(journal, taken, "mine", number)], { durable: true })
          yield* Effect.sleep(200)
          const before = writesOf(kept).length
          worker.child.kill("SIGCONT")
          yield* worker.over
          assert.strictEqual(worker.child.exitCode, 0, worker.written.errors)
          assert.deepStrictEqual(writesOf(taken).filter((it) => it > at), [])
          assert.isAbove(writesOf(kept).length, before)
          assert.sameDeepMembers(worker.lines.filter((it) => it._tag === "Ended"), [
            { _tag: "Ended", batch: taken, outcomes: { Unknown: 1 } },
            { _tag: "Ended", batch: kept, outcomes: { Succeeded: 1 } }
          ])
          const lines = yield* Stream.runCollect(SqlJournal.read(sql, {}))
          const ofTaken = lines.flatMap(({ entry }) =>
            isOfCall(entry) && entry.principal === taken ? [entry.callId === "mine" ? "mine" : entry._tag] : []
          )
          assert.strictEqual(ofTaken.at(-1), "mine")
        }
      }).pipe(Effect.scoped, Effect.provide(Postgres.realTime)),
    { tags: ["SE2"], timeout: 120_000 }
  )
})
