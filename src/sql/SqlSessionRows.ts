/**
 * Rows of sessions in PostgreSQL, for as many processes as share the database.
 *
 * A write is one statement in the epoch in which this process holds the session (`SqlSessionRegistry`). A process that
 * lost the session writes nothing, and is told so. Anybody reads.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Migrator from "effect/sql/Migrator"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { Epoch } from "../core/store/SessionRegistry.ts"
import { SessionLost, SessionRegistry } from "../core/store/SessionRegistry.ts"
import { type Change, RowExists, type Rows, SessionRows, SessionRowsError } from "../core/store/SessionRows.ts"
import { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import { isPg } from "./JournalTables.ts"
import * as Migrations from "./Migrations.ts"
import { own } from "./OwnConnection.ts"
import * as Tables from "./SessionRowTables.ts"
import * as SessionTables from "./SessionTables.ts"

/** Layer of the rows in the database of a client; brings its schema up to date first. */
export const layer: Layer.Layer<
  SessionRows,
  ConfigurationError | Migrator.MigrationError | SqlError,
  SessionRegistry | SqlClient.SqlClient
> = Layer.effect(SessionRows, Effect.suspend(() => make))

/** Creates the service in the database of the client. */
export const make: Effect.Effect<
  SessionRows["Service"],
  ConfigurationError | Migrator.MigrationError | SqlError,
  SessionRegistry | SqlClient.SqlClient
> = Effect.gen(function*() {
  const sql = (yield* SqlClient.SqlClient).withoutTransforms()
  const registry = yield* SessionRegistry
  if (!isPg(sql)) return yield* notPostgres
  yield* Migrations.run(sql, SessionTables.schema)
  yield* Migrations.run(sql, Tables.schema)
  const run = own(sql)
  const write = Effect.fnUntraced(function*(
    principal: string,
    epoch: Epoch | undefined,
    changes: ReadonlyArray<Change>
  ): Effect.fn.Return<void, RowExists | SessionLost | SqlError> {
    if (epoch === undefined || epoch.isOver) return yield* new SessionLost({ principal })
    const last = new Map(changes.map((it) => [it._tag === "RemoveSequence" ? `${it.key}.` : it.key, it]))
    const isOwned = yield* run(Tables.write(sql, epoch, last.values())).pipe(
      Effect.catchIf((error) => error.reason._tag === "UniqueViolation", (error) =>
        Effect.flatMap(
          run(Tables.read(sql, principal, Array.from(last.values()).flatMap((it) => isNew(it) ? [it.key] : []), [])),
          ([there]) => Effect.fail(there === undefined ? error : new RowExists(there))
        ))
    )
    if (isOwned) return
    epoch.lose()
    return yield* new SessionLost({ principal })
  })
  return SessionRows.of({
    of: (principal): Rows => {
      const epoch = registry.current(principal)
      return {
        read: ({ head, keys = [], sequences = [] }) =>
          failing(
            "read",
            Effect.map(
              run(Tables.read(sql, principal, head === undefined ? keys : [head, ...keys], sequences)),
              (found) => {
                const rows = new Map(found.map(({ key, value }) => [key, value]))
                if (head !== undefined && !rows.has(head)) return new Map()
                return new Map([
                  ...inOrder(head === undefined ? keys : [head, ...keys], rows),
                  ...sequences.flatMap((base) => inSequence(base, rows))
                ])
              }
            )
          ),
        open: (kind) => failing("open", run(Tables.open(sql, principal, kind))),
        write: (changes) => changes.length === 0 ? Effect.void : failing("write", write(principal, epoch, changes))
      }
    },
    found: () => Effect.succeed([]),
    summaries: (of) => failing("summaries", run(Tables.summaries(sql, { ...of, limit: Math.min(of.limit, most) }))),
    sequences: (kind) => failing("sequences", run(Tables.sequences(sql, kind, most))),
    prune: (of) =>
      failing(
        "prune",
        Effect.gen(function*() {
          // one after the other, each within the deadline of a statement
          while ((yield* run(Tables.prune(sql, of, most))) >= most);
        })
      )
  })
})

/** Rows of one list, and of one step of retention. */
const most = 1_000

const isNew = (it: Change): boolean => it._tag === "Put" && it.isNew === true

const inOrder = (keys: ReadonlyArray<string>, rows: ReadonlyMap<string, string>) =>
  keys.flatMap((key) => {
    const value = rows.get(key)
    return value === undefined ? [] : [[key, value] as const]
  })

/** The rows of a sequence by their numbers. */
const inSequence = (base: string, rows: ReadonlyMap<string, string>) => {
  const numbers = Array.from(rows.keys(), (key) => key.startsWith(`${base}.`) ? key.slice(base.length + 1) : "")
    .filter((it) => /^(?:0|[1-9]\d*)$/.test(it))
    .sort((one, other) => Number(one) - Number(other))
  return inOrder(numbers.map((it) => `${base}.${it}`), rows)
}

const failing = <A, E, R>(
  operation: string,
  effect: Effect.Effect<A, E | SqlError, R>
): Effect.Effect<A, Exclude<E, SqlError> | SessionRowsError, R> =>
  Effect.mapError(
    effect,
    (cause) =>
      cause instanceof RowExists || cause instanceof SessionLost
        ? cause as unknown as Exclude<E, SqlError>
        : new SessionRowsError({ operation, cause })
  )

const notPostgres = new ConfigurationError({
  subject: "SqlSessionRows",
  problems: [{
    path: "SqlClient",
    problem: "it is not a client of PostgreSQL",
    expected: "PgClient.layer, or SqlOwnRows for one process"
  }]
})
