/**
 * The users of a config, as the server knows them: by the hashes of their tokens. A token itself is in the environment,
 * if anywhere.
 */
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import type { Problem } from "../../core/vocabulary/ConfigurationError.ts"
import type { UserOptions } from "../../server/users/Access.ts"
import * as Tokens from "../../server/users/Tokens.ts"
import { describe, wrong } from "../CliFailure.ts"
import { variable } from "../Variables.ts"
import type { ServeConfig } from "./ServeConfig.ts"

type Users = NonNullable<NonNullable<ServeConfig["server"]>["users"]>

/**
 * Reads the users; fails with exit code 2 if an environment variable is missing or invalid. `path` names the config.
 * Expired tokens are logged.
 */
export const read = Effect.fnUntraced(function*(users: Users, path: string) {
  const problems: Array<Problem> = []
  const now = yield* Clock.currentTimeMillis
  const read: Array<UserOptions> = []
  for (const [name, { tokens, ...rights }] of Object.entries(users)) {
    const known: Array<UserOptions["tokens"][number]> = []
    for (const [index, token] of tokens.entries()) {
      const at = `server.users.${name}.tokens[${index}]`
      const expiresAt = token.expires === undefined ? undefined : millisOf(token.expires)
      if (expiresAt !== undefined && expiresAt <= now) {
        yield* Effect.logWarning(`${at}: it expired on ${token.expires}, and is no longer valid`)
      }
      const hash = "hash" in token ? token.hash : yield* hashIn(token.env, at, problems)
      if (hash !== undefined) known.push({ hash, expiresAt })
    }
    read.push({ name, ...rights, tokens: known })
  }
  if (problems.length > 0) return yield* wrong(describe({ subject: path, problems }))
  return read
})

/** Gives what an environment variable has; `undefined` where it is not set, which is put down as a problem. */
export const secretIn = Effect.fnUntraced(function*(name: string, path: string, problems: Array<Problem>) {
  const found = yield* variable(name)
  if (found !== undefined) return Redacted.make(found)
  const problem = `the environment has no ${name}, or it is empty`
  problems.push({ path: `${path}.env`, problem, expected: `${name} to be set` })
  return undefined
})

const hashIn = Effect.fnUntraced(function*(name: string, path: string, problems: Array<Problem>) {
  const token = yield* secretIn(name, path, problems)
  if (token === undefined) return undefined
  const text = Redacted.value(token)
  if (Tokens.isHash(text)) return text
  if (Tokens.isToken(text) || isLong.test(text)) return Tokens.hash(token)
  problems.push({
    path: `${path}.env`,
    problem: `what ${name} holds can be guessed, or cannot be sent`,
    expected: "a token of `tool-executor token`, its hash, or 32 or more random characters of A-Z a-z 0-9 - . _ ~ + /"
  })
  return undefined
})

/** Characters that a header can carry (RFC 6750, 2.1), long enough to be unguessable if random. */
const isLong = /^[\w.~+/-]{32,}=*$/

/** Whether it is a time was checked when the file was decoded. */
const millisOf = (text: string): number => DateTime.toEpochMillis(DateTime.makeUnsafe(text))
