/** What databases do for the statements of all stores once their tables are large. */
import { assert, layer } from "@effect/vitest"
import * as Sqlite from "effect-tool-executor/sqlite"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { CircuitBreakerStore } from "effect/persistence/CircuitBreaker"
import { RateLimiterStore } from "effect/persistence/RateLimiter"
import * as SqlClient from "effect/sql/SqlClient"
import * as Statement from "effect/sql/Statement"
import * as Stream from "effect/Stream"
import { SharedPermits } from "../../src/core/gates/PermitSource.ts"
import { ArtifactStore } from "../../src/core/output/ArtifactStore.ts"
import { Checkpoints } from "../../src/core/output/Checkpoints.ts"
import { ApprovalTable } from "../../src/core/store/ApprovalTable.ts"
import { Journal } from "../../src/core/store/Journal.ts"
import { LiveTable } from "../../src/core/store/LiveTable.ts"
import { LoginTable } from "../../src/core/store/LoginTable.ts"
import { PushTable } from "../../src/core/store/PushTable.ts"
import { SessionRegistry } from "../../src/core/store/SessionRegistry.ts"
import { SessionRows } from "../../src/core/store/SessionRows.ts"
import { type Reservation, StateStore } from "../../src/core/store/StateStore.ts"
import type { Grant } from "../../src/core/vocabulary/Grant.ts"
import * as SessionTables from "../../src/sql/SessionTables.ts"
import * as SqlApprovals from "../../src/sql/SqlApprovals.ts"
import * as SqlArtifacts from "../../src/sql/SqlArtifacts.ts"
import * as SqlCheckpoints from "../../src/sql/SqlCheckpoints.ts"
import * as SqlCircuitBreakerStore from "../../src/sql/SqlCircuitBreakerStore.ts"
import * as SqlJournal from "../../src/sql/SqlJournal.ts"
import * as SqlLive from "../../src/sql/SqlLive.ts"
import * as SqlLogins from "../../src/sql/SqlLogins.ts"
import * as SqlOwnRows from "../../src/sql/SqlOwnRows.ts"
import * as SqlPermits from "../../src/sql/SqlPermits.ts"
import * as SqlPushDevices from "../../src/sql/SqlPushDevices.ts"
import * as SqlRateLimiterStore from "../../src/sql/SqlRateLimiterStore.ts"
import * as SqlSessionRegistry from "../../src/sql/SqlSessionRegistry.ts"
import * as SqlSessionRows from "../../src/sql/SqlSessionRows.ts"
import * as SqlStateStore from "../../src/sql/SqlStateStore.ts"
import * as JournalContract from "../../src/testing/JournalContract.ts"
import * as Postgres from "../support/Postgres.ts"

const principal = "ada/s"

/** Each store does all it can. Without sessions, SQLite has one process. */
const uses = {
  sessions: Effect.gen(function*() {
    const registry = yield* SessionRegistry
    const sql = yield* SqlClient.SqlClient
    for (const left of [{ _tag: "Nothing" }, { _tag: "Waiting", until: 1 }, { _tag: "Open" }] as const) {
      yield* registry.release(yield* registry.activate(principal), left)
      yield* registry.wake(principal)
    }
    yield* registry.due(200)
    for (let n = 0; n < 9; n++) {
      yield* registry.release(yield* registry.activate(`bob/${n}`), { _tag: "Waiting", until: 1e15 })
    }
    const epoch = yield* registry.activate(principal)
    yield* registry.heard(epoch)
    yield* SessionTables.waitOf(sql, { epoch: epoch.number, principal })
    yield* SessionTables.giveUp(sql, registry.runner.name, [principal])
    yield* SessionTables.currentOf(sql, [epoch])
    yield* SessionTables.prune(sql, 86_400_000)
    yield* sql`INSERT INTO tool_executor_sessions_taken VALUES ('r', 's', 1)`
  }),
  rows: (principal: string) =>
    Effect.gen(function*() {
      const rows = yield* SessionRows
      const of = rows.of(principal)
      const summary = () => "{}"
      yield* of.write([
        { _tag: "Put", key: "w", value: "1", isNew: true, listed: { kind: "wave", isOpen: true, at: 1, summary } },
        { _tag: "Put", key: "x.0", value: "1" },
        { _tag: "Put", key: "y.0", value: "1" },
        { _tag: "Put", key: "z", value: "1", listed: { kind: "operation", isOpen: false, at: 1, summary } }
      ])
      yield* Effect.ignore(of.write([{ _tag: "Put", key: "w", value: "1", isNew: true }]))
      yield* of.write([
        { _tag: "List", key: "w", listed: { kind: "wave", isOpen: false, at: 2, summary } },
        { _tag: "Remove", key: "y.0" },
        { _tag: "RemoveSequence", key: "y" }
      ])
      yield* of.read({ head: "w", keys: ["z"], sequences: ["x"] })
      yield* of.read({ keys: ["z"] })
      yield* of.read({ sequences: ["x"] })
      yield* of.open("wave")
      yield* rows.found("wave", "open")
      for (const whose of [{}, { principal }, { users: ["ada", "bob"] }]) {
        yield* rows.summaries?.({ kind: "wave", limit: 100, ...whose }) ?? Effect.void
      }
      yield* rows.sequences("wave")
      yield* rows.prune({ kind: "turn", before: 1 })
      yield* rows.prune({ kind: "turn", before: 1, parts: { prefix: "end." } })
    }),
  approvals: Effect.gen(function*() {
    const table = yield* ApprovalTable
    const epoch = table.hold(principal)!
    const row = (id: string) => ({
      id,
      epoch,
      user: "ada",
      tool: "pay",
      hash: "h",
      requestedAt: 1,
      expiresAt: undefined,
      request: "{}",
      details: "{}",
      approvals: undefined,
      replaces: undefined
    })
    const end = { how: "approved", at: 2, ending: "{}" }
    yield* table.begin(["one", "two", "three"].map(row))
    yield* table.begin([{ ...row("one"), hash: "g", replaces: "h" }])
    yield* table.answer([{ id: "two", end, hash: "h", isCovered: false, approvals: undefined, version: 0 }], 2)
    yield* table.take(epoch, ["two"])
    yield* table.end([{ id: "three", end, epoch }])
    yield* table.settle(epoch, ["one"], end)
    yield* table.find(["one", "two"])
    yield* table.details("one")
    yield* table.alike(principal, "pay")
    const lists = { since: 0, limit: { open: 100, ended: 100 } }
    yield* table.list({ ...lists, users: undefined })
    yield* table.list({ ...lists, users: ["ada"] })
    yield* table.count
    yield* table.untold({ ids: undefined, before: 0, until: 1, limit: 10 })
    yield* table.untold({ ids: ["one"], before: 0, until: 1, limit: 10 })
    yield* table.told("one", 5)
    yield* table.prune(1)
  }),
  journal: Effect.gen(function*() {
    const journal = yield* Journal
    const sql = yield* SqlClient.SqlClient
    const line = (tag: "Arrived" | "Settled", key: string) => ({
      entry: JournalContract.entry(tag, { key, principal })
    })
    yield* journal.append([line("Arrived", "1"), line("Settled", "1"), line("Arrived", "2")], { durable: true })
    yield* journal.claim(["1", "2"], principal)
    const queries = [{}, { principal, batch: "b", isOpen: true }, { keys: ["1"] }, { since: 5 }, { owners: ["ada"] }]
    for (const query of queries) yield* Stream.runDrain(journal.read(query))
    yield* journal.page({ text: "x" }, { entries: 10, chars: 10_000 })
    yield* SqlJournal.prune(0)
    yield* sql`INSERT INTO tool_executor_journal_pruned VALUES (0, 0, 'hash')`
  }),
  state: Effect.gen(function*() {
    const store = yield* StateStore
    const batch = { _tag: "Batch", batch: "b" } as const
    const key = {
      _tag: "Key",
      scope: "principal",
      principal,
      batch: "b",
      process: "p",
      tool: "pay",
      wave: "w",
      endsWithWave: false,
      endsWithChange: false,
      ignoreOtherProcesses: false
    } as const
    const of = (name: string) => ({
      owner: name,
      session: name,
      call: name,
      claims: [{ ...key, key: name }, { _tag: "Calls", batch: "b", tool: "pay", max: 9 } as const, batch]
    })
    const taken = yield* store.reserve(["one", "two", "three"].map(of), 1, principal)
    const [one, two, three] = taken as ReadonlyArray<Reservation> as [Reservation, Reservation, Reservation]
    yield* store.check([batch, { ...key, key: "one" }], 1)
    yield* store.start([one, two], 1)
    yield* store.renew([one, two], 1)
    const outcome = {
      started: true,
      key: { _tag: "Succeeded", windowMillis: 1_000 },
      windowMillis: 1_000,
      value: undefined
    }
    yield* store.settle(two, { ...outcome, key: "running" } as never, 2)
    yield* store.release(two, 3)
    yield* store.settle(three, { ...outcome, key: "keep", mutates: principal } as never, 2)
    yield* store.abandon("one", 2, [])
    yield* store.mutated(principal)
    yield* store.recall([batch], 2)
    yield* store.reserve([of("four")], 1, principal)
    const grant: Grant = {
      id: "g",
      principal,
      tool: "pay",
      agentPath: [],
      answer: "ApproveForScope",
      grantedAt: 1
    }
    yield* store.grant(grant)
    yield* store.grants(principal, 1)
    yield* store.allGrants(1)
    yield* store.revoke(principal, "g")
    yield* store.grant(grant)
    yield* store.pruneExpired(0)
    yield* store.closeBatch("other", principal)
  }),
  artifacts: Effect.gen(function*() {
    const store = yield* ArtifactStore
    const of = { batch: "b", principal }
    const { id } = yield* store.put(of, "text")
    yield* store.read(of, id, { offset: 0, length: 4 })
    yield* store.prune
  }),
  checkpoints: Effect.gen(function*() {
    const store = yield* Checkpoints
    const write = { principal, batch: "b", callId: "c", tool: "t" }
    const save = store.save({ ...write, files: [{ path: "a", before: "a", after: "b" }] })
    const kept = yield* save
    yield* store.list(principal)
    yield* store.content(kept, "a")
    yield* store.forget(kept)
    yield* save
    yield* store.prune
  }),
  limits: Effect.gen(function*() {
    const rates = yield* RateLimiterStore
    const circuits = yield* CircuitBreakerStore
    const window = { key: "k", limit: 3, refillRate: Duration.hours(1) }
    yield* rates.fixedWindow({ ...window, tokens: 1 })
    yield* rates.fixedWindow({ ...window, tokens: 0 })
    yield* rates.tokenBucket({ ...window, tokens: 1, allowOverflow: false })
    const learned = { key: "k", tokens: 1, fallbackLimit: 3, fallbackWindow: Duration.hours(1) }
    const { epoch } = yield* rates.adaptiveConsume(learned)
    yield* rates.adaptiveFeedback({ key: "k", epoch, tokens: 1, status: 429, retryAfter: Duration.hours(1) })
    yield* Effect.scoped(circuits.admit("k"))
    yield* circuits.record({
      key: "k",
      generation: 0,
      outcome: "Failure",
      tripPolicy: { _tag: "Consecutive", failures: 1 },
      openFor: Duration.hours(1)
    })
    yield* circuits.state("k")
    yield* SqlRateLimiterStore.prune
    yield* SqlCircuitBreakerStore.prune
  }),
  devices: Effect.gen(function*() {
    const table = yield* PushTable
    const device = { user: "ada", endpoint: "https://a", p256dh: "p", auth: "a", addedAt: 1 }
    yield* table.add(device, 10)
    yield* table.remove({ user: "bob", endpoint: "https://a" })
    yield* table.all
  }),
  logins: Effect.gen(function*() {
    const table = yield* LoginTable
    for (const key of ["one", "two"]) {
      yield* table.add({ key, user: "ada", sealed: "s", expiresAt: 1e15 }, { now: 1, perUser: 5 })
    }
    yield* table.get("one")
    yield* table.remove(["two"])
    yield* table.count
  }),
  live: Effect.gen(function*() {
    const table = yield* LiveTable
    yield* table.append([{ user: "ada", item: "{}" }])
    yield* table.end
    yield* table.read(0)
  }),
  permits: Effect.gen(function*() {
    const permits = yield* SharedPermits
    yield* Effect.scoped(permits.source([{ name: "cap", size: 2 }]).lease)
  })
}

const everywhere = Layer.mergeAll(
  SqlJournal.layer(),
  SqlStateStore.layer({ pruneEvery: "unlimited" }),
  SqlArtifacts.layer(),
  SqlCheckpoints.layer(),
  SqlRateLimiterStore.layer,
  SqlCircuitBreakerStore.layer(),
  SqlPushDevices.layer
)

const shared = Layer.mergeAll(everywhere, SqlApprovals.layer, SqlLogins.layer, SqlLive.layer(), SqlPermits.layer())
  .pipe(
    Layer.provideMerge(SqlSessionRows.layer),
    Layer.provideMerge(SqlSessionRegistry.layer())
  )

/** Tables with as many rows as there are processes, shards or databases. */
const small = /_(?:migrations|journal|terms|chain|live_end|total|runners|shards)$/

/** What is read as a whole: from time to time, and while no call waits for it. */
const whole = [
  // the end of what they remember changes with each call: an index on it would cost each of them
  /^DELETE FROM "?tool_executor_(?:scopes|rates|circuits)/,
  // SQLite begins with the last row, which is the one it needs
  /^INSERT INTO tool_executor_journal_entries \(term/,
  // a server that is alone knows all rows of a kind
  /^SELECT session, key FROM "?tool_executor_session_rows"? WHERE kind = \S+ ORDER BY/,
  // what an operator sees of everybody, and who is notified of everything
  /^SELECT (?:data FROM tool_executor_grants$|count\(\*\) AS count FROM tool_executor_logins$|endpoint, username)/
]

/** Columns with few different values. */
const few: ReadonlySet<string> = new Set(["kind", "state", "tag", "how", "bytes", "places"])

const tablesOf = (sql: SqlClient.SqlClient) =>
  sql.onDialectOrElse({
    pg: () =>
      sql.unsafe(`SELECT table_name, column_name, data_type FROM information_schema.columns
        WHERE table_name LIKE 'tool_executor_%' AND is_identity = 'NO' ORDER BY 1`),
    orElse: () =>
      sql.unsafe(`SELECT t.name, c.name, c.type FROM sqlite_master AS t, pragma_table_info(t.name) AS c
        WHERE t.type = 'table' AND t.name LIKE 'tool_executor_%'`)
  })

/** Has tables that grow have so many rows more: copies of those that they have, with names and times of their own. */
const fill = Effect.fnUntraced(function*(sql: SqlClient.SqlClient, from: number, to: number) {
  const columns = new Map<string, Array<readonly [name: string, type: string]>>()
  for (const [table, name, type] of (yield* tablesOf(sql).values) as ReadonlyArray<[string, string, string]>) {
    if (!small.test(table)) columns.set(table, [...columns.get(table) ?? [], [name, type.toLowerCase()]])
  }
  const isPg = sql.onDialectOrElse({ pg: () => true, orElse: () => false })
  const numbers = isPg
    ? `generate_series(${from + 1}, ${to}) AS n`
    : `(WITH RECURSIVE c (n) AS (SELECT ${from + 1} UNION ALL SELECT n + 1 FROM c WHERE n < ${to}) SELECT n FROM c)`
  for (const [table, all] of columns) {
    if (isPg) yield* sql.unsafe(`ALTER TABLE ${table} SET UNLOGGED`)
    const [row] = yield* sql.unsafe(`SELECT count(*) FROM ${table}`).values
    const count = Number(row![0])
    // SQLite has no changes whose answers could be lost
    if (!isPg && table === "tool_executor_writes") continue
    assert.isAbove(count, 0, `${table} is empty`)
    const values = all.map(([name, type]) =>
      few.has(name) || type === "boolean"
        ? name
        : type === "text"
        ? `${name} || '-' || n`
        : `${name} + n * 10`
    )
    const names = all.map(([name]) => name).join(", ")
    yield* sql.unsafe(`INSERT INTO ${table} (${names}) SELECT ${values.join(", ")}
      FROM (SELECT * FROM ${table} LIMIT 10) AS it, ${numbers}
      WHERE n % ${Math.min(10, count)} = 0`)
  }
  yield* sql`ANALYZE`
})

interface Asked {
  readonly statement: string
  readonly params: ReadonlyArray<unknown>
}

/** A scan of a table that grows, in the plan of a statement. */
const scanned = (plan: string): ReadonlyArray<string> =>
  Array.from(
    // SQLite names a table as the statement does
    plan.matchAll(/Seq Scan on (tool_executor_\w+)|^SCAN (tool_executor_\w+|it|e|p|old|part)$/gm),
    ([, pg, sqlite]) => pg ?? sqlite!
  ).filter((it) => !small.test(it))

const problems = Effect.fnUntraced(function*(sql: SqlClient.SqlClient, asked: Iterable<Asked>) {
  const explain = sql.onDialectOrElse({ pg: () => "EXPLAIN", orElse: () => "EXPLAIN QUERY PLAN" })
  const found: Array<string> = []
  for (const { params, statement } of asked) {
    const rows = yield* sql.unsafe(`${explain} ${statement}`, params).values
    const plan = rows.map((row) => String(row.at(-1))).join("\n")
    const tables = scanned(plan)
    if (tables.length > 0) found.push(`${tables.join(", ")}: ${statement}\n${plan}`)
  }
  return found
})

/** What asks the database for nothing. */
const quiet: ReadonlySet<string> = new Set(["current", "digest", "hold", "keeps", "runner", "term"])

/** The same services, and which parts of them were not used yet. */
const watched = <Services>(context: Context.Context<Services>, unused: Set<string>): Context.Context<Services> =>
  Context.makeUnsafe(
    new Map(Array.from(context.mapUnsafe, ([key, service]) => {
      for (const name of Object.keys(service as object)) {
        if (service[name] !== undefined && !quiet.has(name)) unused.add(`${key}.${name}`)
      }
      const watch = (target: object, name: string | symbol, self: unknown) => {
        unused.delete(`${key}.${String(name)}`)
        return Reflect.get(target, name, self)
      }
      return [key, new Proxy(service, { get: watch })]
    }))
  )

/** Schemas are made once, at the start. */
const notAsked = [...whole, /^(?:CREATE|ALTER)|_migrations/i]

const test = <E, Needs>(
  stores: Layer.Layer<E, unknown, SqlClient.SqlClient>,
  use: Effect.Effect<unknown, unknown, E | SqlClient.SqlClient>,
  client: Layer.Layer<SqlClient.SqlClient, unknown, Needs>
) =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const asked = new Map<string, Asked>()
    const note: Statement.Transformer = (it) => {
      const [statement, params] = it.compile(true)
      if (/tool_executor_/.test(statement) && !notAsked.some((it) => it.test(statement.trim()))) {
        asked.set(statement, { statement, params })
      }
      return Effect.succeed(it)
    }
    const unused = new Set<string>()
    const used = Effect.flatMap(
      Layer.build(stores),
      (context) => Effect.provide(use, watched(context, unused))
    )
    yield* used.pipe(Effect.provideService(Statement.CurrentTransformer, note), Effect.scoped)
    assert.deepStrictEqual([Array.from(unused), asked.size > 60], [[], true])
    // of a list in JSON the database expects a hundred values: it may take a table of ten thousand for small
    for (const [from, to] of [[0, 10_000], [10_000, 100_000]] as const) {
      yield* fill(sql, from, to)
      assert.deepStrictEqual(yield* problems(sql, asked.values()), [], `${to} rows`)
    }
  }).pipe(Effect.provide(client))

const { approvals, live, logins, permits, rows, sessions, ...own } = uses

layer(Postgres.layer)("every statement of a store", (it) => {
  it.effect("finds its rows by an index in PostgreSQL, however many others there are", () => {
    // a server that is alone has rows in the same table
    const alone = Effect.flatMap(SqlOwnRows.make, (all) => Effect.provideService(rows("ann/s"), SessionRows, all))
    const use = Effect.all(
      [sessions, rows(principal), alone, approvals, ...Object.values(own), live, logins, permits],
      {
        discard: true
      }
    )
    return test(shared, use, Postgres.client)
  }, { tags: ["J9"] })

  it.effect("finds its rows by an index in SQLite, however many others there are", () =>
    test(
      Layer.merge(everywhere, SqlOwnRows.layer),
      Effect.all([rows(principal), ...Object.values(own)], { discard: true }),
      Sqlite.layer({ filename: ":memory:" })
    ), { tags: ["J9"] })
})
