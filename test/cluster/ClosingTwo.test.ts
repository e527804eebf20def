/** Runners that close with sessions in memory, all at once: each of them ends, whatever the others do meanwhile. */
import { layer } from "@effect/vitest"
import { trial, ways } from "../support/closingRunners.ts"
import * as Postgres from "../support/Postgres.ts"
import { seeds, timeout } from "../support/seeds.ts"

const seed = seeds(1).at(-1) ?? 0

layer(Postgres.layer, { timeout: 60_000, excludeTestServices: true })("two runners that close at once", (it) => {
  it.effect(
    "end while somebody keeps a connection to them, and hold nothing of a session then",
    () => trial(seed, ways[seed % 3]!),
    timeout
  )
})
