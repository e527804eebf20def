import * as PgClient from "@effect/sql-pg/PgClient"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import * as DatabaseCheck from "../../src/cluster/DatabaseCheck.ts"
import * as RunnerOptions from "../../src/cluster/RunnerOptions.ts"
import * as SessionRegistry from "../../src/core/store/SessionRegistry.ts"
import * as Sqlite from "../../src/sql/Sqlite.ts"
import * as SqlSessionRegistry from "../../src/sql/SqlSessionRegistry.ts"
import * as Postgres from "../support/Postgres.ts"
import * as Pooler from "../support/transactionPooler.ts"

const poolOf = (maxConnections: number) =>
  Layer.unwrap(Effect.map(
    Effect.flatMap(Postgres.Postgres, ({ database }) => database),
    (url) => PgClient.layer({ url: Redacted.make(url), maxConnections })
  ))

describe("the database of a runner", () => {
  it.layer(Postgres.layer, { timeout: "60 seconds", excludeTestServices: true })((it) => {
    it.effect("has enough connections, or the runner does not start", () =>
      Effect.gen(function*() {
        yield* Effect.provide(DatabaseCheck.check(false), poolOf(DatabaseCheck.leastConnections))
        const small = Effect.provide(
          DatabaseCheck.check(false, "200 millis"),
          poolOf(DatabaseCheck.leastConnections - 1)
        )
        assert.include(String(yield* Effect.flip(small)), "it lends fewer than 4 connections at a time")
      }), { tags: ["CL8"] })

    it.effect(
      "is reached without a pooler that gives locks to others, unless that is said",
      () =>
        Effect.gen(function*() {
          const url = yield* Effect.flatMap(Postgres.Postgres, ({ database }) => database)
          for (const size of [1, 3, 12]) {
            const pooler = yield* Pooler.make(url, size)
            const client = PgClient.layer({ url: Redacted.make(pooler.url), maxConnections: 10, prepare: false })
            const unsaid = String(yield* Effect.flip(Effect.provide(DatabaseCheck.check(false), client)))
            assert.include(unsaid, "a pooler in transaction mode stands before it")
            assert.include(unsaid, "?pgbouncer=true")
            yield* Effect.provide(DatabaseCheck.check(true), client)
          }
        }).pipe(Effect.scoped),
      { tags: ["CL8"] }
    )

    it.effect("has no runners that place sessions in another way", () =>
      Effect.gen(function*() {
        const settings = yield* RunnerOptions.read({})
        const agreed = (it: RunnerOptions.Settings) =>
          Effect.flatMap(SqlSessionRegistry.thisProcess, (runner) => runner.placed(it)).pipe(
            Effect.flatMap((others) => RunnerOptions.checkPlacing(it, others))
          )
        const url = yield* Effect.flatMap(Postgres.Postgres, ({ database }) => database)
        const client = Postgres.clientOf(url)
        const runner = Effect.gen(function*() {
          const scope = yield* Scope.fork(yield* Effect.scope)
          const context = yield* Layer.buildWithScope(
            Layer.fresh(Layer.provideMerge(SqlSessionRegistry.layer(), client)),
            scope
          )
          const starts = (it: RunnerOptions.Settings) => Effect.provide(Effect.exit(agreed(it)), context)
          return { starts, stop: Scope.close(scope, Exit.void) }
        })
        const [one, two, three] = yield* Effect.all([runner, runner, runner])
        assert.isTrue(Exit.isSuccess(yield* one!.starts(settings)))
        assert.isTrue(Exit.isSuccess(yield* two!.starts(settings)))
        const differs = String(yield* three!.starts({ ...settings, shards: 150 }))
        assert.match(differs, /it is 150, and 120 in a runner that is up.*stop all of them first/s)
        const secret = "another secret of a runner, long enough"
        const odd = yield* RunnerOptions.read({ secret: Redacted.make(secret) })
        const refused = String(yield* three!.starts(odd))
        assert.include(refused, "a runner that is up has another one, or none")
        assert.notInclude(refused, secret)
        yield* one!.stop
        assert.isTrue(Exit.isFailure(yield* three!.starts({ ...settings, shards: 150 })))
        yield* two!.stop
        assert.isTrue(Exit.isSuccess(yield* three!.starts({ ...settings, shards: 150 })))
        const inMemory = Effect.provide(agreed(settings), [SessionRegistry.layerMemory(), client])
        assert.include(String(yield* Effect.exit(inMemory)), "two runners could hold the same session")
      }).pipe(Effect.scoped), { tags: ["CL8"] })

    it.effect("is PostgreSQL", () =>
      Effect.gen(function*() {
        const other = Effect.provide(DatabaseCheck.check(false), Sqlite.layer({ filename: ":memory:" }))
        assert.include(String(yield* Effect.flip(other)), "it is not PostgreSQL")
      }))
  })
})
