/** What the service promises, for random programs at runners that come, go and lose their way to the database. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Postgres from "../support/Postgres.ts"
import { timeout } from "../support/seeds.ts"
import { trial, troubles } from "../support/serviceTrials.ts"

/** As many as are asked for, from a seed on: `TRIALS=100-200` looks for more than a run of all tests does. */
const [from = 1, to = 6] = (process.env["TRIALS"] ?? "1-6").split("-").map(Number)

layer(Postgres.layer, { timeout: 60_000, excludeTestServices: true })("sessions over several runners", (it) => {
  for (let seed = from; seed < to; seed++) {
    it.effect(`keep all promises, whatever happens to the runners: ${seed}`, () =>
      Effect.gen(function*() {
        const { counted, problems } = yield* trial({ seed, sessions: 8, runners: 2 + seed % 2, troubles })
        assert.isEmpty(problems, problems.join("\n"))
        assert.isAbove(counted.get("Succeeded") ?? 0, 0)
      }), timeout)
  }
})
