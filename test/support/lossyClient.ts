/** A client of a database that loses statements before they arrive, or answers after they were made. */
import * as Effect from "effect/Effect"
import type * as SqlClient from "effect/sql/SqlClient"
import type { Connection } from "effect/sql/SqlConnection"
import * as SqlError from "effect/sql/SqlError"

/** What becomes of a statement; absent: it is made, and its answer arrives. */
export type Loss = "statement" | "answer" | undefined

const lost = new SqlError.SqlError({
  reason: new SqlError.ConnectionError({ message: "lost by a test", operation: "execute", cause: undefined })
})

/** A client whose statements are lost as `lose` says, and counted. */
export const make = (sql: SqlClient.SqlClient, lose: (statement: string) => Loss) => {
  const state = { asked: 0 }
  const through = (connection: Connection): Connection =>
    new Proxy(connection, {
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name)
        if (typeof member !== "function" || !String(name).startsWith("execute")) return member
        return (...args: ReadonlyArray<unknown>) =>
          Effect.suspend(() => {
            state.asked++
            const loss = lose(String(args[0]))
            if (loss === "statement") return Effect.fail(lost)
            const answer = member.apply(target, args) as Effect.Effect<unknown, unknown>
            return loss === "answer" ? Effect.andThen(answer, Effect.fail(lost)) : answer
          })
      }
    })
  const wrap = (of: SqlClient.SqlClient): SqlClient.SqlClient =>
    new Proxy(of, {
      get: (target, name) =>
        name === "reserve"
          ? Effect.map(target.reserve, through)
          : name === "withoutTransforms"
          ? () => wrap(target.withoutTransforms())
          : Reflect.get(target, name)
    })
  return { client: wrap(sql), state }
}
