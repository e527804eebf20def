/** What strangers write costs time in proportion to its size: `npm run growth` with small inputs. */
import { assert, describe, it } from "@effect/vitest"
import { excess } from "./support/growth/Growth.ts"
import { rows } from "./support/growth/rows.ts"

describe("the work for what strangers write", () => {
  // linear work takes less than the floor
  it.each(rows.map((row) => [row.name, row] as const))("grows with its size: %s", async (_, row) => {
    assert.isUndefined(await excess(row, { floor: 150, most: 1.5 }))
  })
})
