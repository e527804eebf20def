/**
 * The tables of a state store, and the statements over them: the same text for PostgreSQL and SQLite but for a few
 * fragments, each with one parameter, a JSON text.
 *
 * In PostgreSQL all changes are one statement, which changes nothing if a scope no longer has the version that was
 * loaded: there is no transaction that could stay open when its client stands still or is gone. SQLite has no such
 * statement; there both, loading and changing, are one transaction, and it is the only writer.
 */
import * as Effect from "effect/Effect"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { amongAll } from "./Among.ts"
import type { Schema } from "./Migrations.ts"
import { owned } from "./SessionFence.ts"

/** How a database writes what SQL has no common words for. */
interface Dialect {
  readonly now: string
  /** Begins a statement that reads its parameter. */
  readonly begin: string
  /** A condition: among the texts of a list of the parameter. */
  readonly among: (list: string) => string
  /** A condition: among the results of a query. */
  readonly amongAll: (query: string) => string
  /** The objects of a list of the parameter, as a table. */
  readonly rows: (list: string, columns: Readonly<Record<string, "text" | "bigint">>) => string
  /** A flag of the parameter. */
  readonly flag: (name: string) => string
  /** A text or number of the parameter. */
  readonly field: (name: string, type: "text" | "bigint") => string
  /** The length of a list of the parameter. */
  readonly length: (list: string) => string
  /** A condition: what was loaded has not changed. */
  readonly guard: string
}

const postgres: Dialect = {
  now: "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS bigint)",
  begin: "WITH q AS (SELECT CAST(CAST($1 AS text) AS json) AS it)",
  among: (list) => `= ANY(ARRAY(SELECT json_array_elements_text(q.it->'${list}') FROM q))`,
  amongAll,
  rows: (list, columns) => {
    const typed = Object.entries(columns).map(([name, type]) => `${name} ${type}`).join(", ")
    return `(SELECT r.* FROM q, json_to_recordset(q.it->'${list}') AS r(${typed}))`
  },
  flag: (name) => `(SELECT CAST(q.it->>'${name}' AS boolean) FROM q)`,
  field: (name, type) => `(SELECT CAST(q.it->>'${name}' AS ${type}) FROM q)`,
  length: (list) => `(SELECT json_array_length(q.it->'${list}') FROM q)`,
  guard: "(SELECT ok.ok FROM ok)"
}

const sqlite: Dialect = {
  now: "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
  begin: "WITH q AS (SELECT ?1 AS it)",
  among: (list) => `IN (SELECT value FROM json_each(?1, '$.${list}'))`,
  amongAll: (query) => `IN (${query})`,
  rows: (list, columns) => {
    const read = Object.keys(columns).map((name) => `value->>'${name}' AS ${name}`).join(", ")
    return `(SELECT ${read} FROM json_each(?1, '$.${list}'))`
  },
  flag: (name) => `(?1->>'${name}')`,
  field: (name) => `(?1->>'${name}')`,
  length: (list) => `json_array_length(?1, '$.${list}')`,
  guard: "TRUE"
}

/** What is to be loaded. */
export interface Wanted {
  readonly scopes: ReadonlyArray<string>
  readonly reservations: ReadonlyArray<string>
  readonly sessions: ReadonlyArray<string>
  /** Nobody looks through all reservations for none. */
  readonly hasSessions: boolean
  readonly calls: ReadonlyArray<string>
  readonly keys: ReadonlyArray<string>
  /** The keys of reservations are loaded, too, and not only those of expired ones. */
  readonly ends: boolean
  /** All reservations whose leases are over, not only those in the scopes. */
  readonly expired: boolean
  /** Changes of which it is not known whether they were made. */
  readonly writes: ReadonlyArray<string>
}

/** A loaded record. */
export interface Row {
  /** A scope, a reservation, a key, or a change that was made. */
  readonly kind: "s" | "r" | "k" | "w"
  readonly id: string
  readonly version: number | null
  /** Epoch milliseconds; of a reservation, 1 if its lease is over. */
  readonly until: number | null
  readonly one: string | null
  readonly two: string | null
  readonly three: string | null
  readonly four: string | null
  readonly five: string | null
  readonly data: string | null
}

export interface Changes {
  /** Names the change. */
  readonly write: string
  /** Keys that must not exist, and reservations whose leases must not have expired; neither was loaded. */
  readonly absent: ReadonlyArray<string>
  readonly alive: ReadonlyArray<string>
  readonly scopes: ReadonlyArray<{
    readonly id: string
    readonly version: number
    readonly data: string
    readonly until: number | undefined
  }>
  readonly held: ReadonlyArray<{
    readonly id: string
    readonly epoch: number
    readonly session: string
    readonly call: string | undefined
    readonly batch: string | undefined
    readonly principal: string | undefined
    readonly conversation: string | undefined
    readonly key: string | undefined
    readonly data: string
    /** Milliseconds from now on. */
    readonly lease: number
  }>
  /** Scopes that are not there yet. */
  readonly begun: Changes["scopes"]
  readonly gone: ReadonlyArray<string>
  readonly keys: ReadonlyArray<{
    readonly id: string
    readonly reservation: string
    readonly until: number | undefined
    readonly data: string
  }>
  readonly freed: ReadonlyArray<string>
  /** Epochs that must be current. */
  readonly epochs: ReadonlyArray<{ readonly id: string; readonly epoch: number }>
}

const heldColumns = {
  id: "text",
  epoch: "bigint",
  session: "text",
  call: "text",
  batch: "text",
  principal: "text",
  conversation: "text",
  key: "text",
  data: "text",
  lease: "bigint"
} as const

const heldNames = "id, epoch, session_id, call_id, batch_id, principal_id, conversation_id, key_id, data, expires_at"

/** A record that is found in two ways is loaded twice. */
const loads = ({ among, amongAll, begin, flag, now }: Dialect): string =>
  `${begin},
  n AS (SELECT ${now} AS now),
  r AS (
    SELECT ${heldNames} FROM tool_executor_reservations WHERE id ${among("reservations")}
    UNION ALL SELECT ${heldNames} FROM tool_executor_reservations
      WHERE ${flag("hasSessions")} AND session_id ${among("sessions")}
    UNION ALL SELECT ${heldNames} FROM tool_executor_reservations WHERE call_id ${among("calls")}
    UNION ALL SELECT ${heldNames} FROM tool_executor_reservations WHERE expires_at <= (SELECT now FROM n)
      AND (${flag("expired")} OR batch_id ${among("scopes")} OR principal_id ${among("scopes")}
        OR conversation_id ${among("scopes")})
  )
  SELECT 'r' AS kind, id, CAST(epoch AS double precision) AS version,
    CASE WHEN expires_at <= (SELECT now FROM n) THEN 1.0 ELSE 0.0 END AS until,
    batch_id AS one, principal_id AS two, key_id AS three, conversation_id AS four,
    call_id AS five, session_id || ' ' || data AS data FROM r
  UNION ALL SELECT 's', id, CAST(version AS double precision), NULL, NULL, NULL, NULL, NULL, NULL, data
    FROM tool_executor_scopes WHERE id ${among("scopes")}
  UNION ALL SELECT 's', id, CAST(version AS double precision), NULL, NULL, NULL, NULL, NULL, NULL, data
    FROM tool_executor_scopes WHERE id ${
    amongAll("SELECT batch_id FROM r UNION ALL SELECT principal_id FROM r UNION ALL SELECT conversation_id FROM r")
  }
  UNION ALL SELECT 'k', id, NULL, CAST(until AS double precision), reservation_id, NULL, NULL, NULL, NULL, data
    FROM tool_executor_keys WHERE id ${among("keys")}
  UNION ALL SELECT 'k', id, NULL, CAST(until AS double precision), reservation_id, NULL, NULL, NULL, NULL, data
    FROM tool_executor_keys WHERE id ${
    amongAll(`SELECT key_id FROM r WHERE ${flag("ends")} OR expires_at <= (SELECT now FROM n)`)
  }
  UNION ALL SELECT 'w', id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
    FROM tool_executor_writes WHERE id ${among("writes")}`

const scopeColumns = { id: "text", version: "bigint", data: "text", until: "bigint" } as const

/** The changes by what has them; each is made on its own, since no table is in two of them at one row. */
const changes = ({ among, guard, now, rows }: Dialect) => ({
  scopes: `UPDATE tool_executor_scopes SET version = tool_executor_scopes.version + 1, data = x.data, until = x.until
    FROM ${rows("scopes", scopeColumns)} AS x
    WHERE tool_executor_scopes.id = x.id AND ${guard}`,
  held: `INSERT INTO tool_executor_reservations (${heldNames})
    SELECT x.id, x.epoch, x.session, x.call, x.batch, x.principal, x.conversation, x.key, x.data, ${now} + x.lease
    FROM ${rows("held", heldColumns)} AS x WHERE ${guard}
    ON CONFLICT (id) DO UPDATE SET data = excluded.data, expires_at = excluded.expires_at`,
  gone: `DELETE FROM tool_executor_reservations WHERE id ${among("gone")} AND ${guard}`,
  keys: `INSERT INTO tool_executor_keys (id, reservation_id, until, data)
    SELECT x.id, x.reservation, x.until, x.data
    FROM ${rows("keys", { id: "text", reservation: "text", until: "bigint", data: "text" })} AS x WHERE ${guard}
    ON CONFLICT (id) DO UPDATE SET reservation_id = excluded.reservation_id, until = excluded.until,
      data = excluded.data`,
  freed: `DELETE FROM tool_executor_keys WHERE id ${among("freed")} AND ${guard}`
})

/** A condition: assumptions about what was not loaded hold. */
const isAsTaken = ({ among, length, now }: Dialect): string =>
  `NOT EXISTS (SELECT 1 FROM tool_executor_keys WHERE id ${among("absent")})
    AND (SELECT COUNT(*) FROM tool_executor_reservations WHERE id ${among("alive")} AND expires_at > ${now})
      = ${length("alive")}`

/** Tells whether all scopes have their versions still, and all else is as it was taken for. */
const guards = (dialect: Dialect): string =>
  `${dialect.begin} SELECT (
    SELECT COUNT(*) FROM ${dialect.rows("scopes", { id: "text", version: "bigint" })} AS x
    JOIN tool_executor_scopes AS t ON t.id = x.id AND t.version = x.version
  ) = ${dialect.length("scopes")}
    AND NOT EXISTS (SELECT 1 FROM tool_executor_scopes WHERE id IN
      (SELECT x.id FROM ${dialect.rows("begun", { id: "text" })} AS x))
    AND ${isAsTaken(dialect)} AS ok`

/** Makes new scopes. */
const begins = ({ guard, rows }: Dialect): string =>
  `INSERT INTO tool_executor_scopes (id, version, data, until)
    SELECT x.id, 1, x.data, x.until FROM ${rows("begun", scopeColumns)} AS x WHERE ${guard} ORDER BY x.id`

/** Tells whether a statement failed because another process has begun a scope meanwhile. */
export const isConflict = ({ reason: { cause } }: SqlError): boolean =>
  typeof cause === "object" && cause !== null && "code" in cause && cause.code === "22P02"

/**
 * Makes all changes, or none where a scope has another version or an epoch is over; says which. Scopes are locked in one
 * order. Where scopes are begun, it fails instead: one that another process has begun meanwhile is found too late.
 */
const changesAll = (dialect: Dialect, isFenced: boolean): string => {
  const { begin, field, guard, length, now, rows } = dialect
  const parts = Object.entries(changes(dialect)).map(([name, text]) => `change_${name} AS (${text})`)
  return `${begin},
    expected AS (SELECT x.id, x.version FROM ${rows("scopes", { id: "text", version: "bigint" })} AS x),
    locked AS (
      SELECT t.id FROM tool_executor_scopes AS t JOIN expected ON expected.id = t.id
      WHERE t.version = expected.version ORDER BY t.id FOR UPDATE OF t
    ),
    ${isFenced ? `${owned("(SELECT q.it->'epochs' FROM q)")},` : ""}
    ok AS (SELECT (SELECT COUNT(*) FROM locked) = (SELECT COUNT(*) FROM expected) AND ${isAsTaken(dialect)}
      ${isFenced ? `AND (SELECT COUNT(*) FROM owned) = ${length("epochs")}` : ""} AS ok),
    noted AS (
      INSERT INTO tool_executor_writes (id, made_at) SELECT ${field("write", "text")}, ${now} WHERE ${guard}
    ),
    begun AS (${begins(dialect)} ON CONFLICT (id) DO NOTHING RETURNING id),
    ${parts.join(", ")}
    SELECT CAST(CASE
      WHEN NOT ok AND ${length("begun")} = 0 THEN 'false'
      WHEN ok AND (SELECT COUNT(*) FROM begun) = ${length("begun")} THEN 'true'
      ELSE 'conflict'
    END AS boolean) AS ok ${isFenced ? ", (SELECT json_agg(id) FROM owned) AS owned" : ""} FROM ok`
}

/** The statements of a database. */
export const statements = {
  postgres: { load: loads(postgres), change: changesAll(postgres, false), fenced: changesAll(postgres, true) },
  sqlite: { load: loads(sqlite), guard: guards(sqlite), changes: { begun: begins(sqlite), ...changes(sqlite) } }
}

/** Epoch milliseconds, as the database tells the time. */
export const now = { postgres: postgres.now, sqlite: sqlite.now }

/** Ends all leases: their processes have ended. */
export const endAllLeases = (sql: SqlClient.SqlClient): Effect.Effect<unknown, SqlError> =>
  sql`UPDATE tool_executor_reservations SET expires_at = 0`

export const schema: Schema = {
  table: "tool_executor_state_migrations",
  tables: ["scopes", "reservations", "keys", "writes", "grants"].map((name) => `tool_executor_${name}`),
  migrations: {
    "0001_scopes_reservations_keys_grants": Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      // rows that change often leave room for what they become, so that no index has to know
      const roomy = sql.onDialectOrElse({ pg: () => " WITH (fillfactor = 50)", orElse: () => "" })
      yield* sql.unsafe(`CREATE TABLE tool_executor_scopes (
        id TEXT PRIMARY KEY, version BIGINT NOT NULL, data TEXT NOT NULL, until BIGINT)${roomy}`)
      yield* sql.unsafe(`CREATE TABLE tool_executor_reservations (
        id TEXT PRIMARY KEY, epoch BIGINT NOT NULL, session_id TEXT NOT NULL, batch_id TEXT, principal_id TEXT,
        key_id TEXT, data TEXT NOT NULL, expires_at BIGINT NOT NULL)`)
      yield* sql`CREATE INDEX tool_executor_reservations_expiry ON tool_executor_reservations (expires_at)`
      yield* sql.unsafe(`CREATE TABLE tool_executor_keys (
        id TEXT PRIMARY KEY, reservation_id TEXT NOT NULL, until BIGINT, data TEXT NOT NULL)${roomy}`)
      yield* sql`CREATE TABLE tool_executor_writes (id TEXT PRIMARY KEY, made_at BIGINT NOT NULL)`
      yield* sql`CREATE TABLE tool_executor_grants (
        principal_id TEXT NOT NULL, id TEXT NOT NULL, expires_at BIGINT, data TEXT NOT NULL,
        PRIMARY KEY (principal_id, id))`
    }),
    "0002_conversations": Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql`ALTER TABLE tool_executor_reservations ADD COLUMN conversation_id TEXT`
    }),
    // the ends of scopes are without one: they change with each call
    "0003_indexes": Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql`CREATE INDEX tool_executor_reservations_session ON tool_executor_reservations (session_id)`
      yield* sql`CREATE INDEX tool_executor_keys_end ON tool_executor_keys (until)`
      yield* sql`CREATE INDEX tool_executor_writes_age ON tool_executor_writes (made_at)`
      yield* sql`CREATE INDEX tool_executor_grants_end ON tool_executor_grants (expires_at)`
    }),
    "0004_calls": Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      yield* sql`ALTER TABLE tool_executor_reservations ADD COLUMN call_id TEXT`
      yield* sql`CREATE INDEX tool_executor_reservations_call ON tool_executor_reservations (call_id)
        WHERE call_id IS NOT NULL`
    })
  }
}
