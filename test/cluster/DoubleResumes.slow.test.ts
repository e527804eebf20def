/** Many waves that two runners are asked to continue at the same moment: one execution each. */
import { layer } from "@effect/vitest"
import { ends, trial } from "../support/doubleResumes.ts"
import * as Postgres from "../support/Postgres.ts"
import { timeout } from "../support/seeds.ts"

layer(Postgres.layer, { timeout: 60_000, excludeTestServices: true })(
  "waves that two runners continue at once",
  (it) => {
    for (const end of ends) {
      it.effect(
        `run once each where the runner before was: ${end}`,
        () => trial(end === "none" ? 40 : 80, end),
        timeout
      )
    }
  }
)
