// What was measured with `npm run try -- load:cluster:cost` and `load:cluster:waiting`, on two processors that PostgreSQL
// and the clients share. Ratios hold elsewhere; milliseconds only with each other.
import type { Bytes } from "./estimate.ts"
import type { Costs } from "./model.ts"

/** Parts of a runner in cluster mode. */
export const measured: Costs = {
  call: 0.8,
  reply: 0.3,
  // the wave is looked up, stored and ended
  direct: 3,
  stateRounds: 5,
  journalRounds: 5,
  statement: 0.5,
  inGroup: 0.05,
  roundTrip: 0.3,
  // one row that all connections update: 1,900 commits a second
  append: 0.5,
  suspend: { statements: 4, cpu: 2 },
  resume: { statements: 6, cpu: 3 },
  idle: 1.1
}

/** What was measured with these costs: sessions that submit one wave after the other, and statements of a wave. */
export const cases: ReadonlyArray<
  { readonly runners: number; readonly sessions: number; readonly statements: number }
> = [
  { runners: 1, sessions: 16, statements: 5.5 },
  { runners: 2, sessions: 16, statements: 7.7 },
  { runners: 3, sessions: 16, statements: 9.5 }
]

/** What a session takes that waits for a person: its rows, and their indexes. */
export const bytes: Bytes = { rows: 2_845, indexes: 1_109 }
