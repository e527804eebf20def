/**
 * The executor behind HTTP: sessions, waves, approval requests and records.
 *
 * @since 0.1.0
 */

/**
 * Who may do what: gives the user of a token.
 *
 * @since 0.1.0
 */
export * as Access from "./public/Access.ts"

/**
 * The HTTP API, as a value: for servers, clients, and its OpenAPI document.
 *
 * @since 0.1.0
 */
export * as Api from "./public/Api.ts"

/**
 * Who sends a request.
 *
 * @since 0.1.0
 */
export type * as ApiAccess from "./ApiAccess.ts"

/**
 * What the API sends and takes of sessions and waves.
 *
 * @since 0.1.0
 */
export type * as ApiModels from "./ApiModels.ts"

/**
 * What the API answers where it does not do what it was asked.
 *
 * @since 0.1.0
 */
export type * as ApiProblems from "./ApiProblems.ts"

/**
 * What the API sends and takes of approval requests.
 *
 * @since 0.1.0
 */
export type * as ApiApprovals from "./ApiApprovals.ts"

/**
 * What the API sends of records.
 *
 * @since 0.1.0
 */
export type * as ApiRecords from "./ApiRecords.ts"

/**
 * Lets requests in that say who sends them.
 *
 * @since 0.1.0
 */
export * as Authentication from "./public/Authentication.ts"

/**
 * Stopping in good order.
 *
 * @since 0.1.0
 */
export * as Draining from "./public/Draining.ts"

/**
 * What is sent to an endpoint, before anybody acts on it.
 *
 * @since 0.1.0
 */
export * as RequestBody from "./public/RequestBody.ts"

/**
 * How much there may be at once, and how often.
 *
 * @since 0.1.0
 */
export * as Limits from "./public/Limits.ts"

/**
 * What happens on the whole server, for pages.
 *
 * @since 0.1.0
 */
export * as LiveLog from "./public/LiveLog.ts"

/**
 * The page's way in: a token for a cookie.
 *
 * @since 0.1.0
 */
export type * as Logins from "./Logins.ts"

/**
 * The approval requests of all sessions, for people.
 *
 * @since 0.1.0
 */
export * as PendingApprovals from "./public/PendingApprovals.ts"

/**
 * The server: routes for any `HttpRouter`.
 *
 * @since 0.1.0
 */
export * as Server from "./Server.ts"

/**
 * Tokens of users: made, hashed and checked.
 *
 * @since 0.1.0
 */
export * as Tokens from "./public/Tokens.ts"

/**
 * Undoing, as the server offers it.
 *
 * @since 0.1.0
 */
export * as Undoing from "./public/Undoing.ts"

/**
 * What was handed over, and what became of it.
 *
 * @since 0.1.0
 */
export * as WaveStore from "./public/WaveStore.ts"

/**
 * The waves of all sessions.
 *
 * @since 0.1.0
 */
export * as Waves from "./public/Waves.ts"

/**
 * Tells people elsewhere that an approval request waits.
 *
 * @since 0.1.0
 */
export * as Webhook from "./public/Webhook.ts"
