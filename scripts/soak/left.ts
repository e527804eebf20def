// What is left when everything is over: nothing.
import { Effect, Fiber, type Scope, Stream } from "effect"
import { ToolCall } from "effect-tool-executor"
import * as SqlClient from "effect/sql/SqlClient"
import * as SqlJournal from "../../src/sql/SqlJournal.ts"
import { randomFrom } from "../../test/support/randomCase.ts"
import type { Host } from "./hosts.ts"
import * as Tools from "./tools.ts"

/** What a host holds although nobody uses it: handlers, questions, permits. */
export const inHost = Effect.fnUntraced(function*(
  host: Host,
  principal: string
): Effect.fn.Return<ReadonlyArray<string>, unknown, Scope.Scope> {
  const problems: Array<string> = []
  const executor = yield* host.open(principal, randomFrom(0))
  for (const [name, count] of host.running.counts) problems.push(`${count} of ${name} still run`)
  for (const { callId } of yield* host.approvals.list) problems.push(`the question of ${callId} is still open`)
  const process = yield* executor.process()
  let last = 0
  /** Calls that run at once, if every permit is there. */
  const together = (count: number, tool: string, millis: number) =>
    Effect.forEach(
      Array.from({ length: count }, () => ++last),
      (n) => process.execute(ToolCall.make(`probe ${n}`, tool, { act: "sleep", millis, key: `key ${n % 12}`, n: -n })),
      { concurrency: "unbounded" }
    )
  for (const [tool, kind] of [["read", "read"], ["left", "concurrent"], ["note", "serial"]] as const) {
    const pool = host.areSessions ? `${kind} of ${principal}` : kind
    host.running.most.delete(pool)
    yield* together(Tools.pools[kind], tool, 300)
    const most = host.running.most.get(pool)
    if (most !== Tools.pools[kind]) problems.push(`${most} of ${Tools.pools[kind]} permits of ${pool} are left`)
  }
  const probe = yield* Effect.forkChild(together(12, "write", 1))
  yield* Effect.timeoutOrElse(Fiber.await(probe), {
    duration: "10 seconds",
    orElse: () => Effect.sync(() => problems.push("a key is still held"))
  })
  const { running } = yield* executor.orphans
  for (const { callId } of running) problems.push(`${callId} is an orphan`)
  return problems
})

/** What is still held in the tables of a database, and what is not right in the journal, by what it is. */
export const inTables = Effect.fnUntraced(function*(calls: number) {
  const sql = yield* SqlClient.SqlClient
  const count = (query: string) =>
    Effect.map(
      sql.unsafe<{ readonly n: unknown }>(`SELECT count(*) AS n FROM ${query}`).withoutTransform,
      ([row]) => Number(row!.n)
    )
  const ofCalls = "tool_executor_journal_entries WHERE call_key IS NOT NULL"
  const ends = "('Arrived', 'Claimed', 'Settled', 'Suspended')"
  const given = yield* count(
    `(SELECT DISTINCT call_id FROM ${ofCalls} AND tag = 'Settled' AND call_id LIKE 'c %') AS ended`
  )
  return {
    "reservations": yield* count("tool_executor_reservations"),
    "keys of calls that run": yield* count("tool_executor_keys WHERE until IS NULL"),
    "batches": yield* count("tool_executor_scopes WHERE id LIKE 'b%'"),
    "scopes that something is open in": yield* count("tool_executor_scopes WHERE until IS NULL"),
    "terms": yield* count("tool_executor_journal_terms WHERE ended_at IS NULL"),
    // what a sub-agent was handed nobody hands over again
    "calls that somebody works on": yield* count(
      `tool_executor_journal_entries AS last WHERE tag IN ('Arrived', 'Claimed') AND place IN (
        SELECT max(place) FROM ${ofCalls} AND tag IN ${ends} GROUP BY call_key
      ) AND call_key NOT IN (SELECT call_key FROM ${ofCalls} AND call_id LIKE 'n %')`
    ),
    "calls with two ends": yield* count(
      // what was not known to be written is written again, to the letter
      `(SELECT call_key FROM ${ofCalls} AND tag = 'Settled' GROUP BY call_key HAVING count(DISTINCT entry) > 1) AS twice`
    ),
    "calls without an end": calls - given
  }
})

/** What is on record of some calls that have no end. */
export const open = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly call_id: string; readonly tag: string; readonly at: number }>`
    SELECT call_id, tag, at FROM tool_executor_journal_entries WHERE call_id IN (
      SELECT call_id FROM tool_executor_journal_entries WHERE call_id LIKE 'c %' AND call_id NOT IN (
        SELECT call_id FROM tool_executor_journal_entries WHERE tag = 'Settled' AND call_id IS NOT NULL
      )
    ) ORDER BY place LIMIT 100`.withoutTransform
  return rows.map((it) => `${it.call_id}: ${it.tag} at ${it.at}`)
})

/** Reads a whole journal; gives how many entries it has. */
export const entries = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => Stream.runFold(SqlJournal.read(sql, {}), () => 0, (count) => count + 1)
)
