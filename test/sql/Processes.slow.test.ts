/** Processes that share a database. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Postgres from "../support/Postgres.ts"
import * as Resumes from "../support/resumes.ts"
import * as Cuts from "../support/stateCuts.ts"
import * as Stops from "../support/stateStops.ts"
import * as Workers from "../support/stateWorkers.ts"

layer(Postgres.layer)("processes over one PostgreSQL", (it) => {
  it.effect("pass no limit together, and leave none unused", () =>
    Effect.gen(function*() {
      const { database } = yield* Postgres.Postgres
      const { problems } = yield* Workers.limits(yield* database, { waves: 10, calls: 50 })
      assert.deepStrictEqual(problems, [])
    }).pipe(Effect.provide(Postgres.realTime)), { tags: ["ST2"] })

  it.effect(
    "let go of what one of them holds that stands still past its lease, and take nothing from it later",
    () =>
      Effect.gen(function*() {
        const { database } = yield* Postgres.Postgres
        const { problems } = yield* Stops.stops(yield* database, 2)
        assert.deepStrictEqual(problems, [])
      }).pipe(Effect.provide(Postgres.realTime)),
    { tags: ["ST6"], timeout: 60_000 }
  )

  it.effect(
    "lose no reservation and make none twice where the connection is cut, wherever that is",
    () =>
      Effect.gen(function*() {
        const { database } = yield* Postgres.Postgres
        const { problems } = yield* Cuts.cuts(yield* database, 30)
        assert.deepStrictEqual(problems, [])
      }).pipe(Effect.provide(Postgres.realTime)),
    { tags: ["ST2"], timeout: 60_000 }
  )

  it.effect(
    "resume the same waves at once, and each call runs once; who comes second is told",
    () =>
      Effect.gen(function*() {
        const { database } = yield* Postgres.Postgres
        const { problems } = yield* Resumes.resumes(yield* database, 10)
        assert.deepStrictEqual(problems, [])
      }).pipe(Effect.provide(Postgres.realTime)),
    60_000
  )

  it.effect("take one answer to a question, and tell whoever gives another one", () =>
    Effect.gen(function*() {
      const { database } = yield* Postgres.Postgres
      const { problems } = yield* Resumes.answers(yield* database, 10)
      assert.deepStrictEqual(problems, [])
    }).pipe(Effect.provide(Postgres.realTime)))
})
