/** Waves that two runners are asked to continue at the same moment: one execution each. */
import { layer } from "@effect/vitest"
import { trial } from "../support/doubleResumes.ts"
import * as Postgres from "../support/Postgres.ts"
import { timeout } from "../support/seeds.ts"

layer(Postgres.layer, { timeout: 60_000, excludeTestServices: true })(
  "waves that two runners continue at once",
  (it) => {
    it.effect("run once each, and both tell the same result", () => trial(4, "closed"), timeout)
  }
)
