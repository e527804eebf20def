/**
 * A process that dies or stands still between what it says to the state store and what it says to the journal.
 *
 * @module-tag J3
 * @module-tag K3
 */
import { assert, describe, it, layer } from "@effect/vitest"
import { SqlJournal } from "effect-tool-executor/sql"
import * as Sqlite from "effect-tool-executor/sqlite"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as SqlClient from "effect/sql/SqlClient"
import * as Stream from "effect/Stream"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type * as Journal from "../../src/core/store/Journal.ts"
import type * as StateStore from "../../src/core/store/StateStore.ts"
import * as SqlStateStore from "../../src/sql/SqlStateStore.ts"
import { call, open, type Options, tags, type ToolSpec } from "../support/Harness.ts"
import * as Postgres from "../support/Postgres.ts"
import { until } from "../support/silentProxy.ts"

const clientOf = (layer: Layer.Layer<SqlClient.SqlClient, unknown>) =>
  Effect.map(Effect.orDie(Layer.build(Layer.fresh(layer))), (it) => Context.get(it, SqlClient.SqlClient))

interface Records {
  readonly journal: Journal.Journal["Service"]
  readonly store: StateStore.StateStore["Service"]
}

const holds = <Needs>(
  client: Effect.Effect<SqlClient.SqlClient, never, Needs | Scope.Scope>,
  check: (name: string, effect: Effect.Effect<void, unknown, Needs | Scope.Scope>) => void
) => {
  /** Processes over one database, and what ran in them. */
  const world = Effect.gen(function*() {
    const sql = yield* client
    const ran: Array<string> = []
    const start = (name: string, options: Options = {}, around?: (records: Records) => Records) =>
      Effect.gen(function*() {
        const records = yield* Effect.provideService(
          Effect.all({ journal: SqlJournal.make(), store: SqlStateStore.make() }),
          SqlClient.SqlClient,
          sql
        )
        const handler: ToolSpec["handler"] = ({ fails }) =>
          Effect.suspend(() => {
            ran.push(name)
            return fails === true ? Effect.fail("no") : Effect.succeed(name)
          })
        const specs: Record<string, ToolSpec> = {
          pay: { class: "ConcurrentMut", handler },
          read: { class: "ReadOnly", handler }
        }
        const { executor } = yield* open(specs, { ...around?.(records) ?? records, ...options })
        const process = yield* executor.process({ batch: "b", id: "turn" })
        const settled = Effect.map(
          Stream.runCollect(records.journal.read({ batch: "b" })),
          (all) => all.filter(({ entry }) => entry._tag === "Settled").length
        )
        return { process, settled }
      }).pipe(
        // a process that dies ends nothing
        (it) => around === undefined ? it : Effect.flatMap(Scope.make(), (scope) => Scope.provide(it, scope))
      )
    const expireTerms = Effect.orDie(sql`UPDATE tool_executor_journal_terms SET expires_at = 0`)
    const expire = Effect.andThen(
      expireTerms,
      Effect.orDie(sql`UPDATE tool_executor_reservations SET expires_at = 0`)
    )
    return { expire, expireTerms, ran, start }
  })

  const rules = [{ _tag: "MaxCalls" as const, tool: "pay", max: 1 }]

  for (const tool of ["pay", "read"]) {
    for (const isExpired of [false, true]) {
      check(
        `runs a resumed ${tool} that is in the state store alone, ${isExpired ? "after" : "within"} its lease`,
        Effect.gen(function*() {
          const { expire, ran, start } = yield* world
          const reached = { is: false }
          const one = yield* start("one", { rules }, ({ journal, store }) => ({
            store,
            journal: {
              ...journal,
              append: () =>
                Effect.suspend(() => {
                  reached.is = true
                  return Effect.never
                })
            }
          }))
          const wave = [call("a", tool, { n: 1 })]
          yield* Effect.forkDetach(one.process.executeWave(wave))
          yield* until(Effect.sync(() => reached.is))
          if (isExpired) yield* expire
          const two = yield* start("two", { rules })
          assert.deepStrictEqual(tags(yield* two.process.resume(wave)), ["Succeeded"])
          assert.deepStrictEqual(ran.filter((it) => it === "two" || tool === "pay"), ["two"])
          const again = yield* two.process.executeWave([call("b", tool, { n: 1 })])
          // a read counts within its message alone
          assert.deepStrictEqual(tags(again), [tool === "pay" ? "DuplicateCall" : "Succeeded"])
        })
      )
    }
  }

  for (const isExpired of [false, true]) {
    check(
      `knows the end of a call that only the journal has, ${isExpired ? "after" : "within"} the lease of the store`,
      Effect.gen(function*() {
        const { expire, expireTerms, ran, start } = yield* world
        const options: Options = { dedupe: { onDuplicate: "replay" } }
        const settling = { count: 0 }
        const one = yield* start("one", options, ({ journal, store }) => ({
          journal,
          store: {
            ...store,
            settle: () =>
              Effect.suspend(() => {
                settling.count++
                return Effect.never
              })
          }
        }))
        const wave = [call("a", "pay", { n: 1 }), call("b", "pay", { fails: true })]
        yield* Effect.forkDetach(one.process.executeWave([wave[0]!]))
        yield* Effect.forkDetach(one.process.executeWave([wave[1]!]))
        yield* until(Effect.sync(() => settling.count >= 2))
        yield* until(Effect.map(one.settled, (it) => it === 2))
        yield* isExpired ? expire : expireTerms
        const two = yield* start("two", options)
        const equal = [call("c", "pay", { n: 1 }), call("d", "pay", { fails: true })]
        assert.deepStrictEqual(tags(yield* two.process.resume(wave)), ["Succeeded", "Failed"])
        const { outcomes } = yield* two.process.executeWave(equal)
        assert.deepStrictEqual(outcomes.map((it) => it._tag), ["Succeeded", "Failed"])
        assert.strictEqual(outcomes[0]?._tag === "Succeeded" && outcomes[0].replayOf, "a")
        assert.deepStrictEqual(ran, ["one", "one", "two"])
      })
    )
  }

  check(
    "does not run a call after it stood still before its first record, while another process ran it",
    Effect.gen(function*() {
      const { expire, ran, start } = yield* world
      const frozen = { is: false, thaw: () => {} }
      const one = yield* start("one", {}, ({ journal, store }) => ({
        store,
        journal: {
          ...journal,
          append: (lines, options) =>
            Effect.andThen(
              Effect.callback<void>((resume) => {
                frozen.is = true
                frozen.thaw = () => resume(Effect.void)
              }),
              journal.append(lines, options)
            )
        }
      }))
      const wave = [call("a", "pay", { n: 1 })]
      const running = yield* Effect.forkDetach(one.process.executeWave(wave))
      yield* until(Effect.sync(() => frozen.is))
      yield* expire
      const two = yield* start("two")
      assert.deepStrictEqual(tags(yield* two.process.resume(wave)), ["Succeeded"])
      frozen.thaw()
      yield* until(Effect.sync(() => {
        frozen.thaw()
        return running.pollUnsafe() !== undefined
      }))
      const [outcome] = (yield* Fiber.join(running)).outcomes
      assert.deepStrictEqual(ran, ["two"])
      // the record of the other process
      assert.strictEqual(outcome?._tag === "Succeeded" && outcome.output.modelText, "two")
    })
  )
}

describe("a process between two records, in SQLite", () => {
  const client = Effect.gen(function*() {
    const folder = yield* Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "between-records-"))),
      (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
    )
    return yield* clientOf(Sqlite.layer({ filename: join(folder, "records.db") }))
  })
  holds(client, (name, check) => it.effect(name, () => check))
})

layer(Postgres.layer)("a process between two records, in PostgreSQL", (it) => {
  const client = Effect.gen(function*() {
    const url = yield* (yield* Postgres.Postgres).database
    return yield* clientOf(Postgres.clientOf(url).pipe(Layer.provide(Postgres.realTime)))
  })
  holds(client, (name, check) => it.effect(name, () => check))
})
