/**
 * Users and their rights: looks up the user of a token.
 *
 * A host with its own users provides this service. `Access.layer` takes a list of users with the hashes of their
 * tokens.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import { ConfigurationError, type Problem } from "../../core/vocabulary/ConfigurationError.ts"
import { shown } from "../../internal/OptionReader.ts"
import type { User } from "../api/ApiAccess.ts"
import { Unavailable } from "../api/ApiProblems.ts"
import * as Tokens from "./Tokens.ts"

/** Error of a user lookup, such as of a database that does not answer. */
export class AccessError extends Schema.TaggedError<AccessError>("effect-tool-executor/server/AccessError")(
  "AccessError",
  { cause: Schema.Defect() }
) {
  override get message(): string {
    return "The users could not be looked up"
  }
}

/** The users. */
export class Access extends Context.Service<Access, {
  /**
   * Looks up the user of a token; `None` if the token is wrong or has expired. Called for every request and repeatedly
   * while a stream is open: the stream ends once the user is gone.
   */
  readonly userOf: (token: Redacted.Redacted<string>) => Effect.Effect<Option.Option<User>, AccessError>
  /**
   * Tells whether a user may still run calls. Called at startup for each user with unfinished waves: if not, these
   * waves are cancelled instead of resumed. If it fails, they are left for the next start.
   */
  readonly mayRun: (user: string) => Effect.Effect<boolean, AccessError>
  /**
   * The roles of a user, for clauses of the policy with `roles`. Called when an executor of the user is created. Default,
   * and if it fails: unknown, so that such clauses deny and ask, and do not allow.
   */
  readonly rolesOf?: ((user: string) => Effect.Effect<ReadonlyArray<string>, AccessError>) | undefined
  /**
   * Looks up a user by name, with the rights they have now; `None` if there is no such user, or none that may log in.
   * Links and notifications need it; without it, they are refused at startup.
   */
  readonly userNamed?: ((name: string) => Effect.Effect<Option.Option<User>, AccessError>) | undefined
}>()("effect-tool-executor/server/Access") {}

/** A token, as the server knows it. */
export interface TokenOptions {
  /** The result of `Tokens.hash`. */
  readonly hash: string
  /** Epoch milliseconds at which the token expires. Default: never. */
  readonly expiresAt?: number | undefined
}

/** A user. Every right that is not set is denied. */
export interface UserOptions {
  /** 1 to 100 of `A-Z a-z 0-9 . _ @ : | + -`, and the first a letter or digit. */
  readonly name: string
  /** The tokens of the user. Use two while you replace one by the other. */
  readonly tokens: ReadonlyArray<TokenOptions>
  /** Such as `admin`: clauses of the policy and their approvers name them. Default: none. */
  readonly roles?: ReadonlyArray<string> | undefined
  /** May run calls, in their own sessions. Default `false`. */
  readonly run?: boolean | undefined
  /**
   * Names of the users whose approval requests they may answer, `*` for all. Their own only if listed. Default: none.
   */
  readonly approve?: ReadonlyArray<string> | undefined
  /** Names of the users whose waves and journal they may read, `*` for all. Default: none. */
  readonly records?: ReadonlyArray<string> | undefined
  /** May read the metrics. Default `false`. */
  readonly operate?: boolean | undefined
}

/** Tells whether a text is a valid user name. It stands before the `/` of principals. */
export const isUserName = (text: unknown): text is string =>
  typeof text === "string" && /^[A-Za-z0-9][A-Za-z0-9._@:|+-]{0,99}$/.test(text)

/** Creates the service from a list of users. Fails with all problems of the list. */
export const make = Effect.fnUntraced(function*(
  options: { readonly users: ReadonlyArray<UserOptions> }
): Effect.fn.Return<Access["Service"], ConfigurationError> {
  const problems = problemsOf(options.users)
  if (problems.length > 0) return yield* new ConfigurationError({ subject: "Access", problems })
  const users = new Map(
    options.users.flatMap((user) =>
      user.tokens.map(({ expiresAt, hash }): [string, User] => [hash, {
        name: user.name,
        roles: user.roles ?? [],
        run: user.run ?? false,
        approve: user.approve ?? [],
        records: user.records ?? [],
        operate: user.operate ?? false,
        expiresAt
      }])
    )
  )
  return Access.of({
    // A lookup by hash: its duration reveals something about the hash of what was sent, and nothing about a token.
    userOf: (token) =>
      Effect.map(Clock.currentTimeMillis, (now) =>
        Option.filter(
          Option.fromUndefinedOr(users.get(Tokens.hash(token))),
          ({ expiresAt }) => expiresAt === undefined || now < expiresAt
        )),
    mayRun: (user) => Effect.sync(() => options.users.some(({ name, run }) => name === user && run === true)),
    rolesOf: (user) => Effect.sync(() => options.users.find(({ name }) => name === user)?.roles ?? []),
    userNamed: (name) =>
      Effect.map(Clock.currentTimeMillis, (now) =>
        Option.fromUndefinedOr(
          Array.from(users.values()).find((it) => it.name === name && (it.expiresAt ?? Infinity) > now)
        ))
  })
})

/** Layer with a list of users. */
export const layer = (
  options: { readonly users: ReadonlyArray<UserOptions> }
): Layer.Layer<Access, ConfigurationError> => Layer.effect(Access, make(options))

/**
 * Layer over a host's own users. The functions may require services and may fail; then the request is answered with
 * 503, and the cause is logged.
 *
 * **Example** (Users in a service of the host)
 *
 * ```ts
 * import { Context, Effect, Option, Redacted } from "effect"
 * import { Access } from "effect-tool-executor/server"
 *
 * class Directory extends Context.Service<Directory, {
 *   readonly find: (token: string) => Effect.Effect<{ readonly name: string; readonly run: boolean } | undefined, Error>
 *   readonly isActive: (name: string) => Effect.Effect<boolean, Error>
 * }>()("Directory") {}
 *
 * export const Users = Access.layerFrom({
 *   userOf: (token) =>
 *     Effect.map(
 *       Directory.use((it) => it.find(Redacted.value(token))),
 *       (found) =>
 *         Option.map(Option.fromUndefinedOr(found), (it) => ({ ...it, approve: [], records: [], operate: false }))
 *     ),
 *   mayRun: (name) => Directory.use((it) => it.isActive(name))
 * })
 * ```
 */
export const layerFrom = <E, R, E2, R2, E3 = never, R3 = never, E4 = never, R4 = never>(from: {
  readonly userOf: (token: Redacted.Redacted<string>) => Effect.Effect<Option.Option<User>, E, R>
  readonly mayRun: (user: string) => Effect.Effect<boolean, E2, R2>
  readonly rolesOf?: ((user: string) => Effect.Effect<ReadonlyArray<string>, E3, R3>) | undefined
  readonly userNamed?: ((name: string) => Effect.Effect<Option.Option<User>, E4, R4>) | undefined
}): Layer.Layer<Access, never, R | R2 | R3 | R4> =>
  Layer.effect(
    Access,
    Effect.map(Effect.context<R | R2 | R3 | R4>(), (context) => {
      const asAccess = <A, E>(effect: Effect.Effect<A, E, R | R2 | R3 | R4>): Effect.Effect<A, AccessError> =>
        Effect.mapError(Effect.provideContext(effect, context), (cause) => new AccessError({ cause }))
      return Access.of({
        userOf: (token) => asAccess(from.userOf(token)),
        mayRun: (user) => asAccess(from.mayRun(user)),
        ...(from.rolesOf === undefined ? {} : { rolesOf: (user) => asAccess(from.rolesOf!(user)) }),
        ...(from.userNamed === undefined ? {} : { userNamed: (name) => asAccess(from.userNamed!(name)) })
      })
    })
  )

/** Answers a request with 503 if the users cannot be looked up, and logs the cause. */
export const orUnavailable = <A, E, R>(
  effect: Effect.Effect<A, E | AccessError, R>
): Effect.Effect<A, Exclude<E, AccessError> | Unavailable, R> =>
  Effect.catch(
    effect,
    (error): Effect.Effect<never, Exclude<E, AccessError> | Unavailable> =>
      error instanceof AccessError
        ? Effect.andThen(Effect.logWarning(error.message, error.cause), Effect.fail(new Unavailable({})))
        : Effect.fail(error as Exclude<E, AccessError>)
  )

const ofNothing = Tokens.hash(Redacted.make(""))

const problemsOf = (users: ReadonlyArray<UserOptions>): ReadonlyArray<Problem> => {
  const problems: Array<Problem> = []
  const wrong = (path: string, problem: string, expected: string) => problems.push({ path, problem, expected })
  const names = new Set<string>()
  const hashes = new Set<string>()
  users.forEach((user, index) => {
    const at = `users[${index}]`
    if (!isUserName(user.name)) {
      wrong(
        `${at}.name`,
        `it is ${shown(user.name)}`,
        "1 to 100 of A-Z a-z 0-9 . _ @ : | + - , the first a letter or digit"
      )
    } else if (names.has(user.name)) wrong(`${at}.name`, `${user.name} is there twice`, "each user once")
    names.add(user.name)
    if (user.tokens.length === 0) wrong(`${at}.tokens`, "there is none", "at least one token")
    user.tokens.forEach(({ expiresAt, hash }, place) => {
      const where = `${at}.tokens[${place}]`
      // the value may be the token itself, so it is not repeated
      if (!Tokens.isHash(hash)) {
        wrong(`${where}.hash`, "it is not the hash of a token", "sha256: and 64 hexadecimal digits")
      } else if (hash === ofNothing) wrong(`${where}.hash`, "it is the hash of an empty text", "the hash of a token")
      else if (hashes.has(hash)) wrong(`${where}.hash`, "it is there twice", "a token of one user, once")
      hashes.add(hash)
      if (expiresAt !== undefined && !Number.isFinite(expiresAt)) {
        wrong(`${where}.expiresAt`, `it is ${shown(expiresAt)}`, "a time in epoch milliseconds")
      }
    })
    for (const right of ["approve", "records"] as const) {
      user[right]?.forEach((name, place) => {
        if (name !== "*" && !isUserName(name)) {
          wrong(`${at}.${right}[${place}]`, `it is ${shown(name)}`, "the name of a user, or *")
        }
      })
    }
    for (const right of ["run", "operate"] as const) {
      const given: unknown = user[right]
      if (given !== undefined && typeof given !== "boolean") {
        wrong(`${at}.${right}`, `it is ${shown(given)}`, "true or false")
      }
    }
  })
  return problems
}
