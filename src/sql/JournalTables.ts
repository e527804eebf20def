/** The tables of the journal, and what is asked of them in PostgreSQL and SQLite. */
import * as Effect from "effect/Effect"
import type * as Result from "effect/Result"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { Epoch } from "../core/store/Epoch.ts"
import { isOfCall, type JournalEntry, ownerOf } from "../core/store/JournalEntry.ts"
import * as JournalText from "../core/store/JournalText.ts"
import { among, amongAll } from "./Among.ts"
import * as Links from "./JournalLinks.ts"
import type { Schema } from "./Migrations.ts"
import { epochsOf, owned, sessionId } from "./SessionFence.ts"

type Sql = SqlClient.SqlClient

/** Tells whether a client is one of PostgreSQL. */
export const isPg = (sql: Sql): boolean => sql.onDialectOrElse({ pg: () => true, orElse: () => false })

/** Epoch milliseconds by the clock of a PostgreSQL. */
export const pgNow = "(extract(epoch FROM clock_timestamp()) * 1000)::float8"

/** Epoch milliseconds by the clock of the database. */
const now = (sql: Sql): string => isPg(sql) ? pgNow : "((julianday('now') - 2440587.5) * 86400000.0)"

/** Among the texts of a parameter that is a list in JSON. */
const amongTexts = (sql: Sql): string => isPg(sql) ? among("$1") : "IN (SELECT value FROM json_each(?1))"

/** Tells of calls, by their keys, where the last entry is that says who has them. */
const lastOf = (sql: Sql): string =>
  `SELECT max(place) FROM tool_executor_journal_entries
    WHERE call_key ${amongTexts(sql)} AND tag IN ('Arrived', 'Claimed', 'Settled', 'Suspended') GROUP BY call_key`

const create = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const [id, number] = isPg(sql)
    ? ["BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY", "DOUBLE PRECISION"]
    : ["INTEGER PRIMARY KEY AUTOINCREMENT", "REAL"]
  yield* sql.unsafe(`CREATE TABLE tool_executor_journal (
    id INTEGER PRIMARY KEY,
    hash_key TEXT NOT NULL,
    last_place BIGINT NOT NULL,
    latest_at ${number} NOT NULL
  )`)
  yield* sql.unsafe(`CREATE TABLE tool_executor_journal_terms (
    id ${id},
    opened_at ${number} NOT NULL,
    expires_at ${number} NOT NULL,
    ended_at ${number},
    last_append BIGINT NOT NULL DEFAULT 0,
    fenced_append BIGINT NOT NULL DEFAULT 0
  )`)
  yield* sql.unsafe(`CREATE TABLE tool_executor_journal_entries (
    place ${isPg(sql) ? "BIGINT PRIMARY KEY" : id},
    term BIGINT NOT NULL,
    at ${number} NOT NULL,
    reached_at ${number} NOT NULL,
    tag TEXT NOT NULL,
    call_key TEXT,
    principal TEXT NOT NULL,
    owner TEXT NOT NULL,
    batch TEXT,
    tool TEXT,
    call_id TEXT,
    entry TEXT NOT NULL
  )`)
  for (const column of indexed) {
    const sorted = !isPg(sql) ? ", place" : column === "call_key" ? "" : `, (${pgNear})`
    yield* sql.unsafe(
      `CREATE INDEX tool_executor_journal_by_${column} ON tool_executor_journal_entries (${column}${sorted})`
    )
  }
})

/**
 * What the index of waves has for the text of `waveText`: in PostgreSQL a hash, since both names together may be longer
 * than an index allows. Many sessions may give their waves the same name.
 */
export const waveKey = (sql: Sql, text: string): string => isPg(sql) ? `hashtextextended(${text}, 0)` : `(${text})`

/** The text of a wave as a statement makes it of a row: `principal/batch`. */
export const waveText = "principal || '/' || batch"

const indexWaves = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql.unsafe(`CREATE INDEX tool_executor_journal_by_wave ON tool_executor_journal_entries
    (${waveKey(sql, waveText)}, ${isPg(sql) ? `(${pgNear})` : "place"})`)
})

/**
 * Places that are near each other, for PostgreSQL: its indexes hold equal values once, so entries of one owner that were
 * written together take a fraction of the bytes. Within them, rows are put in order when they are read.
 */
export const pgNear = "place >> 10"

/** Columns that entries are searched by, each with an index in the order of places. */
export const indexed = ["call_key", "call_id", "batch", "principal", "owner", "tool"] as const

export const schema: Schema = {
  table: "tool_executor_journal_migrations",
  tables: ["tool_executor_journal", "tool_executor_journal_terms", "tool_executor_journal_entries", ...Links.tables],
  migrations: {
    "0001_create_the_journal": create,
    "0002_chain_the_journal": Links.create,
    "0003_index_waves": indexWaves
  }
}

/** The key of the journal's hashes; a new journal gets `made`. */
export const hashKey = (sql: Sql, made: string): Effect.Effect<string, SqlError> =>
  Effect.andThen(
    sql`
      INSERT INTO tool_executor_journal (id, hash_key, last_place, latest_at) VALUES (1, ${made}, 0, 0)
      ON CONFLICT (id) DO NOTHING
    `,
    knownKey(sql)
  )

/** The key of the journal's hashes. */
export const knownKey = (sql: Sql): Effect.Effect<string, SqlError> =>
  Effect.map(
    sql<{ readonly hash_key: string }>`SELECT hash_key FROM tool_executor_journal WHERE id = 1`.withoutTransform,
    ([row]) => row?.hash_key ?? ""
  )

/** Opens a term for so many milliseconds; gives its number. */
export const openTerm = (sql: Sql, leaseMillis: number): Effect.Effect<number, SqlError> =>
  Effect.map(
    sql<{ readonly id: unknown }>`
      INSERT INTO tool_executor_journal_terms (opened_at, expires_at)
      VALUES (${sql.literal(now(sql))}, ${sql.literal(now(sql))} + ${leaseMillis}) RETURNING id
    `.withoutTransform,
    ([row]) => Number(row!.id)
  )

/** Has a term last so many milliseconds more; false if it is over. */
export const renewTerm = (sql: Sql, term: number, leaseMillis: number): Effect.Effect<boolean, SqlError> =>
  Effect.map(
    sql`
      UPDATE tool_executor_journal_terms SET expires_at = ${sql.literal(now(sql))} + ${leaseMillis}
      WHERE id = ${term} AND ended_at IS NULL RETURNING id
    `.withoutTransform,
    (rows) => rows.length > 0
  )

/**
 * Keeps every append up to a number from being written from now on; gives the number of the last one that was, or
 * `undefined` if the term is over.
 */
export const fence = (sql: Sql, term: number, append: number): Effect.Effect<number | undefined, SqlError> =>
  Effect.map(
    sql<{ readonly last_append: unknown }>`
      UPDATE tool_executor_journal_terms SET fenced_append = ${append}
      WHERE id = ${term} AND ended_at IS NULL RETURNING last_append
    `.withoutTransform,
    ([row]) => row === undefined ? undefined : Number(row.last_append)
  )

/** Ends terms: nothing can be written in them any more. */
export const endTerms = (sql: Sql, terms: ReadonlyArray<number>): Effect.Effect<unknown, SqlError> =>
  terms.length === 0 ? Effect.void : sql`
    UPDATE tool_executor_journal_terms SET ended_at = ${sql.literal(now(sql))}
    WHERE ended_at IS NULL AND ${sql.in("id", terms)}
  `

/** Ends the terms whose leases are over, but for one. */
export const endExpiredTerms = (sql: Sql, own: number): Effect.Effect<unknown, SqlError> =>
  sql`
    UPDATE tool_executor_journal_terms SET ended_at = ${sql.literal(now(sql))}
    WHERE ended_at IS NULL AND expires_at <= ${sql.literal(now(sql))} AND id <> ${own}
  `

/** Ends all terms: their processes have ended. */
export const endAllTerms = (sql: Sql): Effect.Effect<unknown, SqlError> =>
  sql`UPDATE tool_executor_journal_terms SET ended_at = ${sql.literal(now(sql))} WHERE ended_at IS NULL`

/**
 * An entry as `append` takes it, with its text. `tag` is not always its own: claims stand between the entries, too, and
 * are no entries.
 */
export type Row = readonly [
  tag: string,
  key: string | null,
  at: number,
  principal: string,
  owner: string,
  batch: string | null,
  tool: string | null,
  callId: string | null,
  entry: string,
  session: string | undefined
]

/** The row of an entry, whose text has no field that is in a column; `session`: whose current epoch it needs. */
export const rowOf = (entry: JournalEntry, session?: string): Row => {
  const { _tag, at, principal, ...rest } = entry
  const [user, owner] = [plain(principal), plain(ownerOf(principal))]
  const whole = user === principal ? {} : { principal }
  if (!isOfCall(entry)) {
    return [_tag, null, at, user, owner, null, null, null, JournalText.encode({ ...whole, ...rest }), session]
  }
  const { batch, callId, key, tool } = entry
  const columns = { batch: plain(batch), tool: plain(tool), callId: plain(callId) }
  const text = JournalText.encode({
    ...whole,
    ...rest,
    key: undefined,
    batch: columns.batch === batch ? undefined : batch,
    tool: columns.tool === tool ? undefined : tool,
    callId: columns.callId === callId ? undefined : callId
  } as Partial<JournalEntry>)
  return [_tag, key, at, user, owner, columns.batch, columns.tool, columns.callId, text, session]
}

/** The columns of a row that has an entry, and the fields that its text lacks. */
export interface Stored {
  readonly tag: string
  readonly at: number
  readonly principal: string
  readonly call_key: string | null
  readonly batch: string | null
  readonly tool: string | null
  readonly call_id: string | null
  readonly entry: string
}

/** The entry of a row, or what is wrong with it. What its text has counts: columns hold names that were cut. */
export const entryOf = (row: Stored): Result.Result<JournalEntry, Error> => {
  const { at, batch, call_id: callId, call_key: key, entry, principal, tag: _tag, tool } = row
  return JournalText.decode(entry, { _tag, at, principal, ...key === null ? {} : { batch, callId, tool, key } })
}

/** The text of a row for searches: fields that are in columns as the JSON of an entry has them. */
export const searched = (sql: Sql): string => {
  const quoted = (column: string) => isPg(sql) ? `to_json(${column})::text` : `json_quote(${column})`
  const fields = [["_tag", "tag"], ["principal", "principal"], ["batch", "batch"], ["callId", "call_id"]] as const
  const more = [["tool", "tool"], ["key", "call_key"]] as const
  const all = [...fields, ...more].map(([field, column]) => `coalesce('"${field}":' || ${quoted(column)} || ',', '')`)
  return `(${[...all, "entry"].join(" || ")})`
}

/** The row of a claim, which is not an entry. */
export const claimOf = (key: string): Row => ["Claimed", key, 0, "", "", null, null, null, "", undefined]

/** The term that rows are written in. */
export interface Writing {
  readonly term: number
  /** The number of the append in its term; absent: a claim, which is written with others or not at all. */
  readonly append?: number | undefined
  readonly leaseMillis: number
  /** The epochs that rows need. */
  readonly epochs?: ReadonlySet<Epoch> | undefined
}

/** What became of rows. */
export interface Written {
  /** How many were written: none if the term is over or the append was fenced off. */
  readonly count: number
  /** The sessions whose epochs were current, of those that rows needed. */
  readonly owned: ReadonlySet<string>
  /** Whether the term was over, or the append fenced off. */
  readonly isOver: boolean
}

/**
 * Writes rows behind all others in a term; those that need an epoch only if that is current. In PostgreSQL the lease of
 * the term is renewed, too: its row is written even so.
 */
export const append = (
  sql: Sql,
  { append, epochs = noEpochs, leaseMillis, term }: Writing,
  rows: ReadonlyArray<Row>
): Effect.Effect<Written, SqlError> => {
  const json = JSON.stringify(rows)
  const latest = rows.reduce((latest, [, , at]) => Math.max(latest, at), 0)
  if (!isPg(sql)) {
    const written = sql.unsafe<Links.Covered>(
      `INSERT INTO tool_executor_journal_entries (term, reached_at, ${columns})
      SELECT ?1, max(?3, coalesce(
        (SELECT reached_at FROM tool_executor_journal_entries ORDER BY place DESC LIMIT 1), 0
      )), ${fields.map((_, at) => `value ->> ${at}`).join(", ")} FROM json_each(?2)
      WHERE EXISTS (SELECT 1 FROM tool_executor_journal_terms WHERE id = ?1 AND ended_at IS NULL)
      RETURNING ${Links.returned}`,
      [term, json, latest]
    )
    return written.withoutTransform.pipe(
      Effect.tap((written) => Links.link(sql, written)),
      sql.withTransaction,
      Effect.map(({ length }) => ({ count: length, owned: none, isOver: length < rows.length }))
    )
  }
  const values = [term, json, rows.length, latest, append ?? null, leaseMillis]
  if (epochs.size > 0) values.push(epochsOf(epochs))
  return Effect.map(
    sql.unsafe<{ readonly written: unknown; readonly owned?: ReadonlyArray<string> | null; readonly terms?: unknown }>(
      epochs.size > 0 ? appends.fenced : appends.plain,
      values
    ).withoutTransform,
    ([row]) => {
      const count = Number(row?.written ?? 0)
      return {
        count,
        owned: new Set(row?.owned ?? []),
        isOver: row?.terms === undefined ? count < rows.length : Number(row.terms) === 0
      }
    }
  )
}

const none: ReadonlySet<string> = new Set()
const noEpochs: ReadonlySet<Epoch> = new Set()

/** The last place that is taken. */
export const lastPlace = (sql: Sql): Effect.Effect<number, SqlError> =>
  Effect.map(
    sql<{ readonly last: unknown }>`SELECT max(place) AS last FROM tool_executor_journal_entries`.withoutTransform,
    ([row]) => Number(row?.last ?? 0)
  )

/** Who holds a call, as far as the last thing that was written of it tells. */
export interface Held {
  readonly key: string
  readonly tag: string
  readonly term: number
  readonly isAlive: boolean
}

/** Keeps everybody else from appending and claiming for the rest of the transaction. */
export const lock = (sql: Sql): Effect.Effect<unknown, SqlError> =>
  // in SQLite, a transaction that writes is alone
  isPg(sql) ? sql`SELECT 1 FROM tool_executor_journal WHERE id = 1 FOR UPDATE` : Effect.void

/** Who holds calls, of those that are on record. */
export const held = (sql: Sql, keys: ReadonlyArray<string>): Effect.Effect<ReadonlyArray<Held>, SqlError> =>
  Effect.map(
    sql.unsafe<{ readonly call_key: string; readonly tag: string; readonly term: unknown; readonly alive: unknown }>(
      `SELECT entry.call_key, entry.tag, entry.term,
        CASE WHEN term.ended_at IS NULL AND term.expires_at > ${now(sql)} THEN 1 ELSE 0 END AS alive
      FROM tool_executor_journal_entries AS entry
      LEFT JOIN tool_executor_journal_terms AS term ON term.id = entry.term
      WHERE entry.place ${isPg(sql) ? amongAll(lastOf(sql)) : `IN (${lastOf(sql)})`}`,
      [JSON.stringify(keys)]
    ).withoutTransform,
    (rows) =>
      rows.map(({ alive, call_key: key, tag, term }) => ({
        key,
        tag,
        term: Number(term),
        isAlive: Number(alive) === 1
      }))
  )

/** The calls that have an end, of those that are on record; `undefined` if an epoch is not current. PostgreSQL only. */
export const endedIn = (
  sql: Sql,
  { number, principal }: Epoch,
  keys: ReadonlyArray<string>
): Effect.Effect<ReadonlyArray<string> | undefined, SqlError> =>
  Effect.map(
    sql.unsafe<{ readonly call_key: string | null }>(
      `SELECT entry.call_key FROM tool_executor_sessions AS session
      LEFT JOIN tool_executor_journal_entries AS entry
        ON entry.tag = 'Settled' AND entry.place ${amongAll(lastOf(sql))}
      WHERE session.id = $2 AND session.epoch = $3::bigint`,
      [JSON.stringify(keys), sessionId(principal), number]
    ).withoutTransform,
    (rows) => rows.length === 0 ? undefined : rows.flatMap((row) => row.call_key === null ? [] : [row.call_key])
  )

/** Removes what may be removed of the next entries behind a place; gives where they end, and how many were removed. */
export const prune = Effect.fnUntraced(function*(
  sql: Sql,
  { after, before, count }: { readonly after: number; readonly before: number; readonly count: number }
): Effect.fn.Return<{ readonly last: number; readonly removed: number } | undefined, SqlError> {
  const [next] = yield* sql<{ readonly last: unknown; readonly oldest: number | null }>`
    SELECT max(place) AS last, min(at) AS oldest FROM (
      SELECT place, at FROM tool_executor_journal_entries WHERE place > ${after} ORDER BY place LIMIT ${count}
    ) AS next
  `.withoutTransform
  // the rest is younger still
  if (next === undefined || next.oldest === null || next.oldest >= before) return undefined
  const last = Number(next.last)
  const [low, high, time] = isPg(sql) ? ["$1::bigint", "$2::bigint", "$3::float8"] : ["?1", "?2", "?3"]
  const values = [after, last, before]
  const mayGo = `place > ${low} AND place <= ${high} AND at < ${time} AND ${hasEnded()}`
  const remove = `DELETE FROM tool_executor_journal_entries WHERE ${mayGo} RETURNING`
  const removed = isPg(sql)
    ? sql.unsafe(
      `WITH removed AS (${remove} place, at, ${Links.pgRowHash} AS hash)
      INSERT INTO tool_executor_journal_pruned (place, at, hash) SELECT place, at, hash FROM removed RETURNING 1`,
      values
    ).values
    : sql.unsafe<Links.Covered>(`${remove} ${Links.returned}`, values).withoutTransform.pipe(
      Effect.tap((rows) => Links.remember(sql, rows)),
      sql.withTransaction
    )
  return { last, removed: (yield* removed).length }
})

/** What holds of an entry that a prune removes once it is old enough; `until`: by the entries up to that place. */
const hasEnded = (until?: string): string =>
  `(
  call_key IS NULL OR tag IN ('LateWriteBlocked', 'OrphanEnded', 'Shadowed') OR EXISTS (
    SELECT 1 FROM tool_executor_journal_entries AS ended
    WHERE ended.call_key = tool_executor_journal_entries.call_key AND ended.tag = 'Settled'
      AND ended.place >= tool_executor_journal_entries.place${until === undefined ? "" : ` AND ended.place <= ${until}`}
  )
)`

/**
 * The first entry before a place that a prune would have removed before it came to that place: older, and of a call that
 * had ended `until` then.
 */
export const leftBehind = (
  sql: Sql,
  { before, place, until }: { readonly before: number; readonly place: number; readonly until: number }
): Effect.Effect<number | undefined, SqlError> => {
  const [high, time, known] = isPg(sql) ? ["$1::bigint", "$2::float8", "$3::bigint"] : ["?1", "?2", "?3"]
  return Effect.map(
    sql.unsafe<{ readonly place: unknown }>(
      `SELECT place FROM tool_executor_journal_entries
      WHERE place < ${high} AND at < ${time} AND ${hasEnded(known)} ORDER BY place LIMIT 1`,
      [place, before, until]
    ).withoutTransform,
    ([row]) => row === undefined ? undefined : Number(row.place)
  )
}

/** Removes terms that are over, or have given no sign of life since; none that lives, whatever the time. */
export const pruneTerms = (sql: Sql, before: number): Effect.Effect<unknown, SqlError> =>
  sql`
    DELETE FROM tool_executor_journal_terms
    WHERE ended_at IS NOT NULL OR (expires_at < ${before} AND expires_at < ${sql.literal(now(sql))})
  `

const columns = "tag, call_key, at, principal, owner, batch, tool, call_id, entry"

/** What the fields of a row are cast to in PostgreSQL. */
const fields = ["", "", "::float8", "", "", "", "", "", ""]

/**
 * The statement that appends in PostgreSQL. A process that waits for the row of the journal reads it again, and sees
 * that its term has ended. The rows of sessions are locked, so that no epoch is raised before the statement is committed.
 */
const appendWith = (isFenced: boolean): string =>
  `WITH behind AS (
    UPDATE tool_executor_journal
    SET last_place = last_place + $3::bigint, latest_at = greatest(latest_at, $4::float8) WHERE id = 1
    RETURNING last_place - $3::bigint AS last, latest_at
  ), term AS (
    UPDATE tool_executor_journal_terms
    SET last_append = COALESCE($5::bigint, last_append), expires_at = ${pgNow} + $6::float8 FROM behind
    WHERE tool_executor_journal_terms.id = $1::bigint AND ended_at IS NULL
      AND fenced_append < COALESCE($5::bigint, fenced_append + 1)
    RETURNING tool_executor_journal_terms.id, behind.last, behind.latest_at
  ), ${isFenced ? `${owned("$7")}, ` : ""}written AS (
    INSERT INTO tool_executor_journal_entries (place, term, reached_at, ${columns})
    SELECT term.last + row.at, term.id, term.latest_at, ${
    fields.map((cast, at) => `(row.value ->> ${at})${cast}`).join(", ")
  }
    FROM term, json_array_elements($2::json) WITH ORDINALITY AS row (value, at)
    ${isFenced ? "WHERE row.value ->> 9 IS NULL OR row.value ->> 9 IN (SELECT id FROM owned)" : ""}
    RETURNING place, at, ${Links.pgRowHash} AS hash
  ), ${Links.pgLinked}
  SELECT count(*) AS written ${
    isFenced ? ", (SELECT json_agg(id) FROM owned) AS owned, (SELECT count(*) FROM term) AS terms" : ""
  } FROM written`

const appends = { plain: appendWith(false), fenced: appendWith(true) }

/** A text that every database can hold: models choose ids and names. The entry has the original. */
export const plain = (text: string): string => text.slice(0, 500).replace(/[\0\p{Cs}]/gu, "\ufffd")
