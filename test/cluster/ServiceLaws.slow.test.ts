/** What the service promises, for random programs at runners that come, go and lose their way to the database. */
import { assert, layer } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Postgres from "../support/Postgres.ts"
import { timeout } from "../support/seeds.ts"
import { trial, troubles } from "../support/serviceTrials.ts"

/** `TRIALS=100-200` looks for more, with every trouble there is: a few programs, where runners only close. */
const wanted = process.env["TRIALS"]
const [from = 1, to = 6] = (wanted ?? "1-6").split("-").map(Number)
const chosen = wanted === undefined ? ["close"] as const : troubles

layer(Postgres.layer, { timeout: 60_000, excludeTestServices: true })("sessions over several runners", (it) => {
  for (let seed = from; seed < to; seed++) {
    it.effect(`keep all promises, whatever happens to the runners: ${seed}`, () =>
      Effect.gen(function*() {
        const { counted, problems } = yield* trial({ seed, sessions: 8, runners: 2 + seed % 2, troubles: chosen })
        assert.isEmpty(problems, problems.join("\n"))
        assert.isAbove(counted.get("Succeeded") ?? 0, 0)
      }), timeout)
  }
})
