/**
 * Who sends a request: a token in `Authorization: Bearer`, or the cookie that the page got
 * for one.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as HttpApiSecurity from "effect/http-api/HttpApiSecurity"
import { Invalid, TooLarge, TooMany, TooSlow, Unauthorized } from "./ApiProblems.ts"

/**
 * A user, and what they may do. `approve` and `records` name the users for whom; `*` is
 * everybody.
 *
 * @category models
 * @since 0.1.0
 */
export interface User {
  readonly name: string
  /** May hand calls over, in sessions of their own. */
  readonly run: boolean
  /** For whom they may answer approval requests. Their own only if they are named, too. */
  readonly approve: ReadonlyArray<string>
  /** Whose waves and journal they may read. */
  readonly records: ReadonlyArray<string>
  /** May read the metrics. */
  readonly operate: boolean
  /** Epoch milliseconds from which the token is none any more. */
  readonly expiresAt?: number | undefined
}

/**
 * Who sends the request.
 *
 * @category services
 * @since 0.1.0
 */
export class CurrentUser
  extends Context.Service<CurrentUser, User>()("effect-tool-executor/server/ApiAccess/CurrentUser")
{}

/**
 * Name of the page's cookie.
 *
 * @category constants
 * @since 0.1.0
 */
export const cookieName = "tool_executor_session"

/**
 * Lets requests in that say who sends them.
 *
 * @category middleware
 * @since 0.1.0
 */
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
 * Takes in what is sent, as far as it is of any use: bounded, in time, JSON, and as the endpoint describes it.
 * It stands behind `Authorization`: of those who are not let in, nothing is read.
 *
 * @category middleware
 * @since 0.1.0
 */
export class Checks extends HttpApiMiddleware.Service<Checks>()("effect-tool-executor/server/ApiAccess/Checks", {
  error: [Invalid, TooLarge, TooSlow]
}) {}

/**
 * Tells whether a user may see or answer what is `owner`'s, by a list of names.
 *
 * @category predicates
 * @since 0.1.0
 */
export const covers = (names: ReadonlyArray<string>, owner: string): boolean =>
  names.includes("*") || names.includes(owner)
