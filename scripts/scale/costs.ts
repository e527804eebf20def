// What was measured with `npm run load:cluster:cost` and `npm run load:cluster:waiting`, on two processors that PostgreSQL
// and the clients share. Ratios hold elsewhere; milliseconds only with each other.
import type { Bytes } from "./estimate.ts"
import type { Costs } from "./model.ts"

/** Parts of a runner in cluster mode. */
export const measured: Costs = {
  call: 0.65,
  reply: 0.2,
  direct: 4,
  stateRounds: 2,
  journalRounds: 2,
  statement: 0.3,
  inGroup: 0.05,
  roundTrip: 0.3,
  append: 0.6,
  suspend: { statements: 4, cpu: 2 },
  resume: { statements: 5, cpu: 3 },
  idle: 2
}

/** What was measured with these costs: sessions that submit one wave after the other, and statements of a wave. */
export const cases: ReadonlyArray<
  { readonly runners: number; readonly sessions: number; readonly statements: number }
> = [
  { runners: 1, sessions: 16, statements: 6.5 }
]

/** What a session takes that waits for a person. */
export const bytes: Bytes = { rows: 3_000, indexes: 1_000 }
