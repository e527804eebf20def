// What grows with the number of runners and of waiting sessions whatever the load: plain sums over measured sizes.
import type { Costs, Figures, Load } from "./model.ts"
import { simulate } from "./model.ts"

/** How often each runner renews its lease and reads the others, in seconds, and milliseconds of the database for each. */
export const intervals = { renewal: 3, perRunnerRow: 0.001 }

export interface Fixed {
  /** Connections of the database: a pool for each runner. */
  readonly connections: number
  /** Statements per second that renew leases and look for other runners. */
  readonly statements: number
  /** Rows per second that are read to know the other runners: each runner reads all of them. */
  readonly rowsRead: number
  /** Shares of a database processor for these. */
  readonly processors: number
}

/** What runners cost without work. */
export const fixed = (runners: number, pool: number, costs: Costs, perRow: number): Fixed => {
  const rowsRead = runners * runners / intervals.renewal
  const statements = runners * costs.idle
  return {
    connections: runners * pool,
    statements,
    rowsRead,
    processors: (statements * costs.statement + rowsRead * perRow) / 1_000
  }
}

export interface Bytes {
  /** Bytes of rows and of indexes of a session that waits. */
  readonly rows: number
  readonly indexes: number
}

/** What waiting sessions take, and how many answers a second their people give. */
export const waiting = (sessions: number, bytes: Bytes, hours: number) => ({
  gigabytes: sessions * (bytes.rows + bytes.indexes) / 1e9,
  indexes: sessions * bytes.indexes / 1e9,
  answers: sessions / (hours * 3_600)
})

/** The most waves per second at which no part is busier than a share, and what is busiest then. */
export const capacity = (costs: Costs, load: Omit<Load, "arrivals">, share = 0.8) => {
  const at = (perSecond: number): Figures => simulate(costs, { ...load, arrivals: { perSecond } })
  const busiest = ({ busy }: Figures) =>
    Object.entries(busy).reduce((one, other) => other[1] > one[1] ? other : one) as [keyof Figures["busy"], number]
  let [low, high] = [1, 1_000 * load.runners]
  while (high / low > 1.05) {
    const middle = Math.sqrt(low * high)
    if (busiest(at(middle))[1] > share) high = middle
    else low = middle
  }
  const figures = at(low)
  return { perSecond: low, first: busiest(figures)[0], figures }
}
