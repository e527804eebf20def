/**
 * Rows of sessions in SQLite or PostgreSQL, for one process, which has all sessions: it writes without epochs.
 *
 * In PostgreSQL they are the rows that a cluster has (`SqlSessionRows`). A session with unfinished rows is due for a
 * cluster that starts there later.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Migrator from "effect/sql/Migrator"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { ownerOf } from "../core/store/JournalEntry.ts"
import { inSequence } from "../core/store/MemoryRows.ts"
import {
  type Change,
  type Listed,
  type Row,
  RowExists,
  type Rows,
  SessionRows,
  SessionRowsError
} from "../core/store/SessionRows.ts"
import { isPg, pgNow as now, plain } from "./JournalTables.ts"
import * as Migrations from "./Migrations.ts"
import { own, transaction } from "./OwnConnection.ts"
import * as Tables from "./SessionRowTables.ts"
import * as SessionTables from "./SessionTables.ts"

/** Layer of the rows in the database of a client; brings its schema up to date first. */
export const layer: Layer.Layer<SessionRows, Migrator.MigrationError | SqlError, SqlClient.SqlClient> = Layer.effect(
  SessionRows,
  Effect.suspend(() => make)
)

/** Creates the service in the database of the client. */
export const make: Effect.Effect<
  SessionRows["Service"],
  Migrator.MigrationError | SqlError,
  SqlClient.SqlClient
> = Effect.gen(function*() {
  const sql = (yield* SqlClient.SqlClient).withoutTransforms()
  if (isPg(sql)) yield* Migrations.run(sql, SessionTables.schema)
  yield* Migrations.run(sql, Tables.schema)
  const run = own(sql)
  const table = sql("tool_executor_session_rows")
  const is = (isOpen: boolean) => sql.literal(isOpen ? "true" : "false")
  /** The rows of a sequence: a digit follows `.`, and `:` is the character after `9`. */
  const within = (base: string) => sql`key >= ${`${base}.0`} AND key < ${`${base}.:`}`
  const change = (session: string, username: string, it: Change): Effect.Effect<unknown, RowExists | SqlError> => {
    const at = (key: string) => sql`session = ${session} AND key = ${key}`
    const listing = (listed: Listed | undefined) => {
      if (listed === undefined) return sql`key = key`
      const { at, isOpen, kind, summary } = listed
      return sql`kind = ${kind}, is_open = ${is(isOpen)}, changed_at = ${at}, username = ${username},
        summary = COALESCE(${summary?.() ?? null}, summary)`
    }
    switch (it._tag) {
      case "Put":
        return Effect.gen(function*() {
          const [there] = yield* sql<Row>`SELECT key, value FROM ${table} WHERE ${at(it.key)}`
          if (there !== undefined && it.isNew === true) return yield* new RowExists(there)
          yield* there === undefined
            ? sql`INSERT INTO ${table} (session, key, value) VALUES (${session}, ${it.key}, ${it.value})`
            : sql`UPDATE ${table} SET value = ${it.value} WHERE ${at(it.key)}`
          if (it.listed !== undefined) yield* sql`UPDATE ${table} SET ${listing(it.listed)} WHERE ${at(it.key)}`
        })
      case "List":
        return sql`UPDATE ${table} SET ${listing(it.listed)} WHERE ${at(it.key)}`
      case "Remove":
        return sql`DELETE FROM ${table} WHERE ${at(it.key)}`
      case "RemoveSequence":
        return sql`DELETE FROM ${table} WHERE session = ${session} AND ${within(it.key)}`
    }
  }
  /** A cluster that starts here later continues the session, if it is one that a cluster can have. */
  const due = (
    session: string,
    principal: string,
    username: string,
    changes: ReadonlyArray<Change>
  ): Effect.Effect<unknown, SqlError> =>
    isPg(sql) && plain(principal) === principal &&
      changes.some((it) => "listed" in it && it.listed?.isOpen === true)
      ? sql`INSERT INTO tool_executor_sessions AS it
        (id, principal, username, epoch, runner, state, due_at, changed_at)
        VALUES (${session}, ${principal}, ${username}, floor(${sql.literal(now)}), '', 'open', ${sql.literal(now)},
          ${sql.literal(now)})
        ON CONFLICT (id) DO UPDATE SET due_at = least(it.due_at, excluded.due_at)`
      : Effect.void
  return SessionRows.of({
    of: (principal): Rows => {
      const session = SessionTables.sessionId(principal)
      const username = plain(ownerOf(principal))
      return {
        read: ({ head, keys = [], sequences = [] }) =>
          failing(
            "read",
            Effect.gen(function*() {
              const wanted = head === undefined ? keys : [head, ...keys]
              const named = wanted.length === 0 ? sql`1 = 0` : sql.in("key", wanted)
              const which = sql.or([named, ...sequences.map(within)])
              const rows = yield* run(sql<Row>`SELECT key, value FROM ${table} WHERE session = ${session} AND ${which}`)
              const all = new Map(rows.map(({ key, value }) => [key, value]))
              if (head !== undefined && !all.has(head)) return new Map()
              const order = [...wanted, ...sequences.flatMap((base) => inSequence(all.keys(), base))]
              return new Map(order.flatMap((key) => all.has(key) ? [[key, all.get(key)!] as const] : []))
            })
          ),
        open: (kind) =>
          failing(
            "open",
            run(sql<Row>`SELECT key, value FROM ${table} WHERE session = ${session} AND kind = ${kind} AND is_open`)
          ),
        write: (changes) =>
          failing(
            "write",
            transaction(sql)(Effect.andThen(
              Effect.forEach(changes, (it) => change(session, username, it), { discard: true }),
              Effect.asVoid(due(session, principal, username, changes))
            ))
          )
      }
    },
    found: (kind, which) => {
      const wanted = sql.literal(which === "all" ? "true" : "is_open")
      return failing("found", run(sql<Row>`SELECT key, value FROM ${table} WHERE kind = ${kind} AND ${wanted}`))
    },
    summaries: undefined,
    sequences: (kind) =>
      failing(
        "sequences",
        Effect.gen(function*() {
          const heads = yield* run(sql<{ readonly session: string; readonly key: string }>`
            SELECT session, key FROM ${table} WHERE kind = ${kind} ORDER BY changed_at DESC`)
          return yield* Effect.forEach(heads, ({ key, session }) => {
            const base = key.slice(0, key.lastIndexOf("."))
            return Effect.map(
              run(sql<Row>`SELECT key, value FROM ${table} WHERE session = ${session} AND ${within(base)}`),
              (rows) => {
                const all = new Map(rows.map((it) => [it.key, it.value]))
                const keys = inSequence(all.keys(), base)
                return Array.from(new Set([...keys.slice(0, 1), ...keys.slice(-2)]), (it) => all.get(it)!)
              }
            )
          })
        })
      ),
    prune: ({ before, kind, parts }) => {
      const old = sql`old.kind = ${kind} AND old.is_open = ${is(false)} AND old.changed_at < ${before}`
      const from = parts?.insteadOf === undefined ? 10_000 : parts.insteadOf.length + 1
      const prefix = sql`${parts?.prefix ?? ""} || substr(old.key, ${sql.literal(String(from))})`
      // from the old rows to their parts, each by an index: how many rows there are else does not matter
      const removed: Effect.Effect<unknown, SqlError> = parts === undefined ?
        Effect.void :
        sql`DELETE FROM ${table} WHERE (session, key) IN (
        SELECT part.session, part.key FROM ${table} AS old JOIN ${table} AS part ON part.session = old.session
        AND part.key >= ${prefix} AND part.key < ${prefix} || '~' WHERE ${old})`
      return failing(
        "prune",
        transaction(sql)(Effect.asVoid(Effect.andThen(
          removed,
          sql`DELETE FROM ${table} WHERE (session, key) IN (SELECT old.session, old.key FROM ${table} AS old WHERE ${old})`
        )))
      )
    }
  })
})

const failing = <A, E extends RowExists | SqlError>(
  operation: string,
  effect: Effect.Effect<A, E>
): Effect.Effect<A, Extract<E, RowExists> | SessionRowsError> =>
  Effect.mapError(
    effect,
    (cause) =>
      cause._tag === "RowExists"
        ? cause as unknown as Extract<E, RowExists>
        : new SessionRowsError({ operation, cause })
  )
