/** The database that the command line keeps records in: a file of SQLite, or PostgreSQL. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import type * as SqlClient from "effect/sql/SqlClient"
import { wrong } from "../CliFailure.ts"

/** Tells whether it is the URL of a PostgreSQL. */
export const isPostgres = (at: string): boolean => /^postgres(?:ql)?:\/\//i.test(at)

/**
 * Layer of its client, loaded where it is wanted: not everybody has PostgreSQL's, and some versions of Node warn of
 * SQLite. With `pgbouncer=true` in the URL no statement is prepared: a pooler in transaction mode has each transaction
 * on another connection.
 */
export const layer = (at: string, isReadOnly = false): Layer.Layer<SqlClient.SqlClient, unknown> => {
  if (!isPostgres(at)) {
    const load = Effect.promise(() => import("../../sql/Sqlite.ts"))
    return Layer.unwrap(Effect.map(load, (it) => it.layer({ filename: at, isReadOnly })))
  }
  const load = Effect.tryPromise({
    try: () => import("@effect/sql-pg/PgClient"),
    catch: () => wrong("PostgreSQL needs @effect/sql-pg: npm install @effect/sql-pg")
  })
  const { isPooled, url } = pooledOf(at)
  return Layer.unwrap(Effect.map(load, (it) => it.layer({ url: Redacted.make(url), prepare: !isPooled })))
}

/** Tells whether the URL of a PostgreSQL is that of a pooler in transaction mode. */
export const isPooled = (at: string): boolean => pooledOf(at).isPooled

/** Whether statements are not to be prepared, and the URL as servers know it. */
const pooledOf = (at: string): { readonly isPooled: boolean; readonly url: string } => {
  const [before = at, search = ""] = at.split("?", 2)
  const parameters = new URLSearchParams(search)
  const isPooled = parameters.get("pgbouncer") === "true"
  parameters.delete("pgbouncer")
  return { isPooled, url: parameters.size === 0 ? before : `${before}?${parameters}` }
}
