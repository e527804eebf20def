/**
 * The logins of a server's page, by hashes of their cookies. Processes that share a table share logins.
 *
 * A login holds its token encrypted with its cookie, so whoever reads the table has neither.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

/** Logins could not be read or written. */
export class LoginTableError extends Schema.TaggedError<LoginTableError>("effect-tool-executor/LoginTableError")(
  "LoginTableError",
  { operation: Schema.String, cause: Schema.Defect() }
) {
  override get message(): string {
    return `LoginTable.${this.operation} failed`
  }
}

/** A login. */
export interface Login {
  /** Hash of its cookie. */
  readonly key: string
  readonly user: string
  /** The encrypted token. */
  readonly sealed: string
  /** Epoch milliseconds. */
  readonly expiresAt: number
}

/** The logins. */
export class LoginTable extends Context.Service<LoginTable, {
  /** Adds a login. Ends expired ones, and the oldest of the user above a limit. */
  readonly add: (login: Login, options: { readonly now: number; readonly perUser: number }) => Effect.Effect<
    void,
    LoginTableError
  >
  readonly get: (key: string) => Effect.Effect<Login | undefined, LoginTableError>
  readonly remove: (keys: ReadonlyArray<string>) => Effect.Effect<void, LoginTableError>
  readonly count: Effect.Effect<number, LoginTableError>
}>()("effect-tool-executor/store/LoginTable") {}

/** Creates logins in memory: at most 10,000, and one more ends the oldest. */
export const makeMemory = (): LoginTable["Service"] => {
  // oldest first
  const logins = new Map<string, Login>()
  return {
    add: (added, { now, perUser }) =>
      Effect.sync(() => {
        let theirs = 0
        for (const [key, login] of logins) {
          if (login.expiresAt <= now) logins.delete(key)
          else if (login.user === added.user) theirs++
        }
        for (const [key, login] of logins) {
          const isTooMany = login.user === added.user ? theirs-- >= perUser : false
          if (isTooMany || logins.size >= most) logins.delete(key)
        }
        logins.set(added.key, added)
      }),
    get: (key) => Effect.sync(() => logins.get(key)),
    remove: (keys) => Effect.sync(() => keys.forEach((key) => logins.delete(key))),
    count: Effect.sync(() => logins.size)
  }
}

/** All users together. */
const most = 10_000
