/** Authentication of requests: a token in `Authorization: Bearer`, or the cookie of the page. */
import * as Context from "effect/Context"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as HttpApiSecurity from "effect/http-api/HttpApiSecurity"
import { Invalid, TooLarge, TooMany, TooSlow, Unauthorized } from "./ApiProblems.ts"

/** A user and their rights. `approve` and `records` list the names of users; `*` is everybody. */
export interface User {
  readonly name: string
  /** Such as `admin`: clauses of the policy and their approvers name them. */
  readonly roles?: ReadonlyArray<string> | undefined
  /** May run calls, in their own sessions. */
  readonly run: boolean
  /** Users whose approval requests they may answer; their own only if listed. */
  readonly approve: ReadonlyArray<string>
  /** Users whose waves and journal they may read. */
  readonly records: ReadonlyArray<string>
  /** May read the metrics. */
  readonly operate: boolean
  /** Epoch milliseconds at which the token expires. */
  readonly expiresAt?: number | undefined
}

/** The user who sends the request. */
export class CurrentUser
  extends Context.Service<CurrentUser, User>()("effect-tool-executor/server/ApiAccess/CurrentUser")
{}

/** Name of the cookie of the page. */
export const cookieName = "tool_executor_session"

/** Admits authenticated requests. */
export class Authorization extends HttpApiMiddleware.Service<Authorization, { provides: CurrentUser }>()(
  "effect-tool-executor/server/ApiAccess/Authorization",
  {
    error: [Unauthorized, TooMany],
    security: {
      bearer: HttpApiSecurity.bearer,
      cookie: HttpApiSecurity.apiKey({ in: "cookie", key: cookieName })
    }
  }
) {}

/**
 * Reads and validates the body of a request: its size, depth, time, JSON and schema. It runs after `Authorization`, so
 * that nothing is read from unauthenticated clients.
 */
export class Checks extends HttpApiMiddleware.Service<Checks>()("effect-tool-executor/server/ApiAccess/Checks", {
  error: [Invalid, TooLarge, TooSlow]
}) {}

/** Tells whether a list of names covers an owner. */
export const covers = (names: ReadonlyArray<string>, owner: string): boolean =>
  names.includes("*") || names.includes(owner)
