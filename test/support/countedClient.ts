/** How often a database is asked. */
import * as Effect from "effect/Effect"
import type * as SqlClient from "effect/sql/SqlClient"
import type { Connection } from "effect/sql/SqlConnection"

/** A client whose connections count what they are asked, and how much of that was asked before the last answer. */
export const counted = (sql: SqlClient.SqlClient) => {
  const state = { asked: 0, open: 0, inTurn: 0 }
  const counting = (connection: Connection): Connection =>
    new Proxy(connection, {
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name)
        if (typeof member !== "function" || !String(name).startsWith("execute")) return member
        return (...args: ReadonlyArray<unknown>) =>
          Effect.suspend(() => {
            state.asked++
            if (state.open++ === 0) state.inTurn++
            return Effect.ensuring(
              member.apply(target, args) as Effect.Effect<unknown, unknown>,
              Effect.sync(() => state.open--)
            )
          })
      }
    })
  const through = (of: SqlClient.SqlClient): SqlClient.SqlClient =>
    new Proxy(of, {
      get: (target, name) =>
        name === "reserve"
          ? Effect.map(target.reserve, counting)
          : name === "withoutTransforms"
          ? () => through(target.withoutTransforms())
          : Reflect.get(target, name)
    })
  return { client: through(sql), state }
}
