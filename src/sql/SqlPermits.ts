/**
 * Permits that the processes of a service share in PostgreSQL: the caps of tools and the resource keys of calls hold for
 * all of them together.
 *
 * A permit is a lease. One statement per process renews all of its leases and asks for all that it waits for. A process
 * that dies or is cut off gives back what it held when the lease ends; it gives itself up some time before that, and
 * cancels the calls that hold such a permit.
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import type * as Migrator from "effect/sql/Migrator"
import * as SqlClient from "effect/sql/SqlClient"
import type * as SqlError from "effect/sql/SqlError"
import { SharedPermits } from "../core/gates/PermitSource.ts"
import { ConfigurationError, readOptions } from "../core/vocabulary/ConfigurationError.ts"
import { isPg } from "./JournalTables.ts"
import * as Migrations from "./Migrations.ts"
import * as Lines from "./PermitLines.ts"
import { PermitPlaces } from "./PermitPlaces.ts"

/** Times of shared permits. */
export interface Options {
  /**
   * How long the permits of a process that is gone stay taken. A process that cannot renew them gives them up after 7/8
   * of it. Default 9 seconds.
   */
  readonly lease?: Duration.Input | undefined
  /** How often a process asks whether permits are free that its calls wait for. Default 100 milliseconds. */
  readonly pollEvery?: Duration.Input | undefined
  /** How long a call waits for a permit while the database does not answer. Then it is refused. Default 5 seconds. */
  readonly patience?: Duration.Input | undefined
}

/** The defaults. */
export const defaults = {
  lease: "9 seconds",
  pollEvery: "100 millis",
  patience: "5 seconds"
} as const satisfies Options

/** Opens the permits over a client of PostgreSQL, and makes their table if it is not there. */
export const make = Effect.fnUntraced(function*(
  options: Options = {}
): Effect.fn.Return<
  SharedPermits["Service"],
  ConfigurationError | Migrator.MigrationError | SqlError.SqlError,
  SqlClient.SqlClient | Scope.Scope
> {
  const sql = yield* SqlClient.SqlClient
  const times = yield* readOptions("SqlPermits", (read) => ({
    leaseMillis: read.millis("lease", options.lease ?? defaults.lease),
    pollMillis: read.millis("pollEvery", options.pollEvery ?? defaults.pollEvery),
    patienceMillis: read.millis("patience", options.patience ?? defaults.patience)
  }))
  if (!isPg(sql)) {
    return yield* new ConfigurationError({
      subject: "SqlPermits",
      problems: [{
        path: "SqlClient",
        problem: "it is not a client of PostgreSQL",
        expected: "a client of PostgreSQL. Processes on one machine do not need SqlPermits to share a SQLite file"
      }]
    })
  }
  yield* Migrations.run(sql, Lines.schema)
  const places = new PermitPlaces(sql, times, yield* Effect.context<never>())
  yield* Effect.acquireRelease(Effect.void, () => places.close)
  yield* Effect.forkScoped(places.running)
  return SharedPermits.of({ source: (pools) => places.source(pools) })
})

/** Layer of shared permits, for the executors of this process. */
export const layer = (options?: Options): Layer.Layer<
  SharedPermits,
  ConfigurationError | Migrator.MigrationError | SqlError.SqlError,
  SqlClient.SqlClient
> => Layer.effect(SharedPermits, make(options))
