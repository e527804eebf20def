/**
 * The journal in PostgreSQL or SQLite, for one process or many.
 *
 * One statement appends a group of entries: it takes places for them and looks at its term in one step: entries have
 * their places in the order in which they were committed, and nothing is written in a term that is over. A term lives
 * as long as its lease is renewed, by the clock of the database; a claim ends the terms of the dead whose calls it
 * takes over, so that one that was only stopped cannot go on.
 *
 * With a `SqlSessionRegistry` in the context, each call belongs to the epoch of its session instead: the same statement
 * writes lines of many sessions and leaves out those whose epoch is over. Who holds a session has its calls.
 *
 * All of it is outside of a host's transactions (`OwnConnection`). In SQLite that means a separate client.
 */
import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import type * as Migrator from "effect/sql/Migrator"
import * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import * as Stream from "effect/Stream"
import { createHash, createHmac, randomBytes } from "node:crypto"
import { GroupedAppends } from "../core/store/GroupedAppends.ts"
import * as Journal from "../core/store/Journal.ts"
import type * as Chain from "../core/store/JournalChain.ts"
import { ConfigurationError, readOptions } from "../core/vocabulary/ConfigurationError.ts"
import * as Detached from "../internal/detached.ts"
import { claim, write } from "./JournalAppends.ts"
import * as Links from "./JournalLinks.ts"
import * as Search from "./JournalSearch.ts"
import * as Tables from "./JournalTables.ts"
import { Terms } from "./JournalTerms.ts"
import * as Verify from "./JournalVerify.ts"
import * as Migrations from "./Migrations.ts"
import { deadline, own, reading, transaction } from "./OwnConnection.ts"
import { SessionCalls } from "./SessionCalls.ts"
import { inThisDatabase } from "./SqlSessionRegistry.ts"

/** What the journal keeps, and for how long its term is taken for alive. */
export interface Options extends Partial<Journal.Keeps> {
  /**
   * This long after the last sign of life of a writer, other processes may take over its calls. It gives one three
   * times as often. Default 30 seconds.
   */
  readonly lease?: Duration.Input | undefined
  /**
   * No other process can have the database open, for instance because of a lock: what earlier terms held is free
   * immediately, however long their leases are. Default `false`.
   */
  readonly isAlone?: boolean | undefined
}

/** The defaults. */
export const defaults = { arguments: "full", outputs: "full", lease: "30 seconds" } as const satisfies Options

/** Layer of a journal in the database of a client. Fails where the database would lose what it has committed. */
export const layer = (
  options?: Options
): Layer.Layer<
  Journal.Journal,
  ConfigurationError | Migrator.MigrationError | SqlError | Journal.JournalError,
  SqlClient.SqlClient
> => Layer.effect(Journal.Journal, make(options))

/** Creates the journal, and opens its term for the rest of the scope. */
export const make = Effect.fnUntraced(function*(options: Options = {}): Effect.fn.Return<
  Journal.Journal["Service"],
  ConfigurationError | Migrator.MigrationError | SqlError | Journal.JournalError,
  SqlClient.SqlClient | Scope.Scope
> {
  const sql = yield* SqlClient.SqlClient
  const { leaseMillis, ...keeps } = yield* readOptions("SqlJournal", (read) => ({
    arguments: read.oneOf("arguments", options.arguments ?? defaults.arguments, amounts),
    outputs: read.oneOf("outputs", options.outputs ?? defaults.outputs, amounts),
    leaseMillis: read.millis("lease", options.lease ?? defaults.lease)
  }))
  yield* own(sql)(mustBeDurable(sql))
  yield* Migrations.run(sql, Tables.schema)
  if (options.isAlone === true) yield* own(sql)(Tables.endAllTerms(sql))
  const key = yield* own(sql)(Tables.hashKey(sql, randomBytes(32).toString("hex")))
  const terms = new Terms(sql, yield* Clock.Clock, leaseMillis)
  yield* Effect.acquireRelease(terms.opened, () => terms.close)
  yield* Effect.forkScoped(Effect.delay(terms.renewing, leaseMillis / 3))
  const registry = yield* inThisDatabase
  const calls = registry === undefined ? undefined : new SessionCalls(sql, registry)
  const appends = new GroupedAppends(
    yield* Effect.context<never>(),
    (lines) => failing("append", write(sql, terms, lines, calls))
  )
  yield* Effect.addFinalizer(() => Detached.within(appends.idle, deadline))
  return {
    keeps,
    // half of it is as hard to guess, and every entry of a call has it
    digest: (text) => createHmac("sha256", key).update(text).digest("hex").slice(0, 32),
    term: calls === undefined ? () => terms.current : calls.term,
    append: (lines, { durable }) => appends.append(lines, durable),
    read: (query) => read(sql, query),
    page: (query, bounds) => page(sql, query, bounds),
    claim: (keys, principal) =>
      failing("claim", calls === undefined ? claim(sql, terms, keys) : calls.claim(keys, principal))
  }
})

/** Reads the journal of a database without opening a term: nothing is written. */
export const read = (
  sql: SqlClient.SqlClient,
  query: Journal.Query
): Stream.Stream<Journal.Recorded, Journal.JournalError> =>
  Stream.unwrap(Effect.map(
    failing("read", own(sql)(Effect.all([Tables.lastPlace(sql), startOf(sql, query)]))),
    ([last, start]) => {
      const isNewestFirst = query.order === "newest"
      const end = Math.min(query.before ?? Infinity, last + 1)
      return Stream.paginate(
        isNewestFirst ? end : start,
        (at) =>
          Effect.map(
            // between two statements of SQLite others have their turn
            Effect.andThen(
              Effect.yieldNow,
              failing("read", own(sql)(pageOf(sql, query, isNewestFirst ? [start, at] : [at, end], readAtOnce)))
            ),
            ({ entries, next }) => [entries, Option.fromUndefinedOr(next)] as const
          )
      )
    }
  ))

/** Reads a bounded part of it, with a separate connection (`OwnConnection.reading`). */
export const page = (
  sql: SqlClient.SqlClient,
  query: Journal.Query,
  bounds: Journal.PageBounds
): Effect.Effect<Journal.Page, Journal.JournalError> => {
  const from = reading(sql)
  return failing(
    "read",
    own(from)(
      Effect.flatMap(startOf(from, query), (start) => pageOf(from, query, [start, query.before ?? Infinity], bounds))
    )
  )
}

/**
 * Removes what is older than a time (epoch milliseconds), but for calls that have no end yet; gives how many entries
 * that were. What is removed cannot be resumed any more.
 */
export const prune = Effect.fnUntraced(function*(
  before: number
): Effect.fn.Return<number, Journal.JournalError, SqlClient.SqlClient> {
  const sql = yield* SqlClient.SqlClient
  const run = <A>(effect: Effect.Effect<A, SqlError>) => failing("prune", own(sql)(effect))
  const record = failing("prune", transaction(sql)(Links.recordPrune(sql, before)))
  // before anything is removed: what is missing without it was removed by somebody else
  yield* record
  let removed = 0
  // in pieces, so that appends do not wait for long
  for (let after = 0;;) {
    const pruned = yield* run(Tables.prune(sql, { after, before, count: pruneAtOnce }))
    if (pruned === undefined) break
    removed += pruned.removed
    after = pruned.last
    // SQLite holds up the thread meanwhile
    yield* Effect.yieldNow
  }
  yield* run(Tables.pruneTerms(sql, before))
  // forgets the hashes of what is gone
  if (removed > 0) yield* record
  return removed
})

/**
 * Checks that no entry was changed, removed or moved, and compares the journal with a checkpoint. `prune` does not count
 * as a change.
 */
export const verify = (
  checkpoint?: Chain.Checkpoint
): Effect.Effect<Chain.Verified, Journal.JournalError, SqlClient.SqlClient> =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => verifyIn(sql, checkpoint))

/** The same with a client. */
export const verifyIn = (
  sql: SqlClient.SqlClient,
  checkpoint?: Chain.Checkpoint
): Effect.Effect<Chain.Verified, Journal.JournalError> => {
  const from = reading(sql)
  return failing(
    "verify",
    Effect.zipWith(
      own(from)(Tables.knownKey(from)),
      own(from, verifyMillis)(Verify.verify(from, checkpoint)),
      (key, verified) => ({ journal: createHash("sha256").update(key).digest("hex").slice(0, 16), ...verified })
    )
  )
}

const amounts = ["full", "hashes", "none"] as const

/** Milliseconds that a check of the whole journal may take. */
const verifyMillis = 3_600_000

/** Entries per statement when a journal is read as a whole. */
const readAtOnce: Journal.PageBounds = { entries: 1_000, chars: 4_000_000 }

/** Entries per statement that are checked for removal. */
const pruneAtOnce = 500

const failing = <A, R>(operation: string, effect: Effect.Effect<A, SqlError | Journal.JournalError, R>) =>
  Effect.catchTag(effect, "SqlError", (cause) => new Journal.JournalError({ operation, cause }))

const failure = (operation: string, message: string, cause?: unknown) =>
  new Journal.JournalError({ operation, cause: new Error(message, { cause }) })

/** What was committed survives a crash of the machine, or nothing that is promised holds. */
const mustBeDurable = Effect.fnUntraced(function*(sql: SqlClient.SqlClient) {
  const found = yield* sql.onDialectOrElse({
    pg: () =>
      Effect.map(
        sql.unsafe<{ readonly name: string; readonly setting: string }>(
          "SELECT name, setting FROM pg_settings WHERE name IN ('synchronous_commit', 'fsync')"
        ).withoutTransform,
        (rows) =>
          rows.filter((it) => it.setting === "off").map(({ name }) => ({
            path: name,
            problem: "it is off: what was committed may be lost",
            expected: "on, for this database or for the user of the journal"
          }))
      ),
    orElse: () =>
      Effect.map(
        sql.unsafe<{ readonly synchronous: number }>("PRAGMA synchronous").withoutTransform,
        ([row]) =>
          (row?.synchronous ?? 0) >= 2 ? [] : [{
            path: "synchronous",
            problem: "what was committed may be lost with the power",
            expected: "FULL"
          }]
      )
  })
  if (found.length > 0) return yield* new ConfigurationError({ subject: "SqlJournal", problems: found })
})

/** Behind which place is what a query asks for. */
const startOf = (sql: SqlClient.SqlClient, { after = 0, since }: Journal.Query): Effect.Effect<number, SqlError> =>
  since === undefined
    ? Effect.succeed(after)
    : Effect.map(Search.placeBefore(sql, since), (place) => Math.max(after, place))

const pageOf = Effect.fnUntraced(function*(
  sql: SqlClient.SqlClient,
  query: Journal.Query,
  [after, before]: readonly [after: number, before: number],
  bounds: Journal.PageBounds
): Effect.fn.Return<Journal.Page, SqlError | Journal.JournalError> {
  const { next, rows } = yield* Search.page(sql, query, { after, before, ...bounds })
  const entries: Array<Journal.Recorded> = []
  for (const { place, ...row } of rows) {
    const entry = Tables.entryOf(row)
    if (Result.isFailure(entry)) {
      return yield* failure("read", `the entry at ${place} is not valid`, entry.failure)
    }
    const recorded = { place, entry: entry.success }
    // names are cut in their columns
    if (Journal.matches(query, recorded)) entries.push(recorded)
  }
  return { entries, ...next === undefined ? {} : { next } }
})
