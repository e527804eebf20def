/** A client of a database whose statements something else may become of: they are counted, delayed or lost. */
import * as Effect from "effect/Effect"
import type * as SqlClient from "effect/sql/SqlClient"
import type { Connection } from "effect/sql/SqlConnection"
import * as SqlError from "effect/sql/SqlError"

type Answer = Effect.Effect<unknown, unknown>

/** `execute` is told each statement, and what asking the database for it does. */
export const through = (sql: SqlClient.SqlClient, execute: (statement: string, asked: Answer) => Answer) => {
  const connection = (it: Connection): Connection =>
    new Proxy(it, {
      get: (target, name) => {
        const member: unknown = Reflect.get(target, name)
        if (typeof member !== "function" || !String(name).startsWith("execute")) return member
        return (...args: ReadonlyArray<unknown>) => execute(String(args[0]), member.apply(target, args) as Answer)
      }
    })
  const client = (of: SqlClient.SqlClient): SqlClient.SqlClient =>
    new Proxy(of, {
      get: (target, name) =>
        name === "reserve"
          ? Effect.map(target.reserve, connection)
          : name === "withoutTransforms"
          ? () => client(target.withoutTransforms())
          : Reflect.get(target, name)
    })
  return client(sql)
}

/** A client that counts what it is asked, and how much of that was asked before the last answer. */
export const counted = (sql: SqlClient.SqlClient) => {
  const state = { asked: 0, open: 0, inTurn: 0 }
  const client = through(sql, (_, asked) =>
    Effect.suspend(() => {
      state.asked++
      if (state.open++ === 0) state.inTurn++
      return Effect.ensuring(asked, Effect.sync(() => state.open--))
    }))
  return { client, state }
}

/** What becomes of a statement: it is lost before it arrives, or its answer is. */
export type Loss = "statement" | "answer" | undefined

/** What is asked of the database, and what is lost of it. */
export const losing = (asked: Answer, loss: Loss): Answer =>
  loss === undefined ? asked : Effect.andThen(loss === "answer" ? asked : Effect.void, Effect.fail(lost))

const lost = new SqlError.SqlError({
  reason: new SqlError.ConnectionError({ message: "lost by a test", operation: "execute", cause: undefined })
})

/** A client whose statements are lost as `lose` says, and counted. */
export const lossy = (sql: SqlClient.SqlClient, lose: (statement: string) => Loss) => {
  const state = { asked: 0 }
  const client = through(sql, (statement, asked) =>
    Effect.suspend(() => {
      state.asked++
      return losing(asked, lose(statement))
    }))
  return { client, state }
}
