/** Two runners that close at once at many moments, also where one has no database. */
import { layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { trial, ways } from "../support/closingRunners.ts"
import * as Postgres from "../support/Postgres.ts"
import { timeout } from "../support/seeds.ts"

const times = (count: number) => Array.from({ length: count }, (_, seed) => seed)

layer(Postgres.layer, { timeout: 60_000, excludeTestServices: true })("two runners that close at once", (it) => {
  for (const way of ways) {
    it.effect(
      `end at any moment of their sessions: ${way}`,
      () => Effect.forEach(times(8), (seed) => trial(seed, way), { concurrency: 2, discard: true }),
      timeout
    )
  }

  it.effect(
    "end at any moment of their sessions where one cannot reach the database",
    () => Effect.forEach(times(8), (seed) => trial(seed, "without a database"), { concurrency: 3, discard: true }),
    timeout
  )
})
