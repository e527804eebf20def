// The PostgreSQL under load, and what is read from it beside the runners: who holds which session, what it has done.
import * as PgClient from "@effect/sql-pg/PgClient"
import { Effect, Exit, Layer, ManagedRuntime, Redacted, Scope } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import * as EmbeddedPostgres from "../../../src/cli/simulate/EmbeddedPostgres.ts"
import { cpuOf } from "./runners.ts"

const settings = ["shared_preload_libraries=pg_stat_statements", "pg_stat_statements.max=1000"]

/** A session that a runner holds. */
export interface Held {
  readonly principal: string
  readonly runner: string
  readonly epoch: number
}

/** What a runner that is gone still has. */
export interface Left {
  readonly lease: number
  readonly shards: number
  readonly sessions: number
}

/** Starts PostgreSQL with statistics of its statements. */
export const start = async () => {
  const scope = Scope.makeUnsafe()
  const port = await Effect.runPromise(
    Scope.provide(EmbeddedPostgres.start(EmbeddedPostgres.installed()!, settings), scope)
  )
  const admin = open(EmbeddedPostgres.urlOf(port, "postgres"))
  let databases = 0
  return {
    /** An empty database of its own. */
    database: async () => {
      const name = `load${++databases}`
      await admin.query(`CREATE DATABASE ${name}`)
      const url = EmbeddedPostgres.urlOf(port, name)
      const own = open(url)
      await own.query("CREATE EXTENSION pg_stat_statements")
      await own.end()
      return url
    },
    end: async () => {
      await admin.end()
      await Effect.runPromise(Scope.close(scope, Exit.void))
    }
  }
}

/** A connection to look with. */
export const open = (url: string) => {
  const runtime = ManagedRuntime.make(
    Layer.orDie(PgClient.layer({ url: Redacted.make(url), maxConnections: 1, applicationName: "load" }))
  )
  const query = <A extends object>(text: string): Promise<ReadonlyArray<A>> =>
    runtime.runPromise(
      Effect.flatMap(PgClient.PgClient, (sql) => Effect.orDie(sql.unsafe<A>(text)))
    )
  const one = async (text: string): Promise<number> => Number((await query<{ readonly n: number }>(text))[0]?.n ?? 0)
  const has = async (table: string) => await one(`SELECT count(to_regclass('${table}')) AS n`) > 0
  return {
    query,
    one,
    /** Sessions that a runner holds now; none without a cluster. */
    held: async (): Promise<ReadonlyArray<Held>> =>
      await has("tool_executor_sessions")
        ? await query<Held>(
          `SELECT principal, runner, epoch::float8 AS epoch FROM tool_executor_sessions WHERE state = 'held'`
        )
        : [],
    /** What a runner still has in the database: milliseconds of its lease, shards, sessions. */
    left: async (runner: string): Promise<Left> =>
      (await query<Left>(
        `SELECT coalesce((SELECT lease_until - extract(epoch FROM clock_timestamp()) * 1000
            FROM tool_executor_runners WHERE name = '${runner}'), 0)::float8 AS lease,
          (SELECT count(*)::int FROM tool_executor_shards WHERE runner = '${runner}') AS shards,
          (SELECT count(*)::int FROM tool_executor_sessions WHERE runner = '${runner}' AND state = 'held') AS sessions`
      ))[0]!,
    /** Statements of all clients but this one, since the last time they were counted. */
    statements: () =>
      one(`SELECT coalesce(sum(calls), 0)::float8 AS n FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid
        WHERE d.datname = current_database() AND query NOT LIKE '%pg_stat_statements%'`),
    forget: () => query("SELECT pg_stat_statements_reset()"),
    /** The statements that ran most often. */
    often: (limit: number) =>
      query<{ readonly calls: number; readonly query: string; readonly millis: number }>(
        `SELECT calls::float8 AS calls, total_exec_time AS millis, query FROM pg_stat_statements s
          JOIN pg_database d ON d.oid = s.dbid
          WHERE d.datname = current_database() ORDER BY calls DESC LIMIT ${limit}`
      ),
    /** Milliseconds of processor time of the server's processes, those that have ended too. */
    cpu: async (): Promise<number> => {
      const backend = await one("SELECT pg_backend_pid() AS n")
      const parent = parentOf(backend)
      const children = readdirSync("/proc").filter((it) => /^\d+$/.test(it) && parentOf(Number(it)) === parent)
      return children.reduce((sum, pid) => sum + cpuOf(Number(pid)), cpuOf(parent, true))
    },
    end: () => runtime.dispose()
  }
}

export type Database = ReturnType<typeof open>

const parentOf = (pid: number): number => {
  try {
    return Number(readFileSync(`/proc/${pid}/stat`, "utf8").replace(/^.*\) /s, "").split(" ")[1])
  } catch {
    return 0
  }
}
