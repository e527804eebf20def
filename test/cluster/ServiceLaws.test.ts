/** What the service promises, for random programs at two runners of which one is replaced meanwhile. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Postgres from "../support/Postgres.ts"
import { either, timeout } from "../support/seeds.ts"
import { trial } from "../support/serviceTrials.ts"

layer(Postgres.layer, { timeout: 60_000, excludeTestServices: true })("sessions over two runners", (it) => {
  for (const seed of either([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])) {
    it.effect(`keep all promises while runners are replaced: ${seed}`, () =>
      Effect.gen(function*() {
        const { problems } = yield* trial({ seed, sessions: 4, runners: 2, troubles: ["close"] })
        assert.isEmpty(problems, problems.join("\n"))
      }), timeout)
  }
})
