/**
 * The executor behind HTTP: sessions, waves, approval requests and records.
 *
 * @since 0.1.0
 */

/**
 * Users and their rights.
 *
 * @since 0.1.0
 */
export * as Access from "./public/Access.ts"

/**
 * The HTTP API as a value, for servers, clients and its OpenAPI document.
 *
 * @since 0.1.0
 */
export * as Api from "./public/Api.ts"

/**
 * Authentication of requests.
 *
 * @since 0.1.0
 */
export type * as ApiAccess from "./ApiAccess.ts"

/**
 * Sessions and waves of the API.
 *
 * @since 0.1.0
 */
export type * as ApiModels from "./ApiModels.ts"

/**
 * Problems that the API answers with.
 *
 * @since 0.1.0
 */
export type * as ApiProblems from "./ApiProblems.ts"

/**
 * Approval requests and live events of the API.
 *
 * @since 0.1.0
 */
export type * as ApiApprovals from "./ApiApprovals.ts"

/**
 * Records of the API.
 *
 * @since 0.1.0
 */
export type * as ApiRecords from "./ApiRecords.ts"

/**
 * Authenticates requests by token or cookie.
 *
 * @since 0.1.0
 */
export * as Authentication from "./public/Authentication.ts"

/**
 * Graceful shutdown.
 *
 * @since 0.1.0
 */
export * as Draining from "./public/Draining.ts"

/**
 * Reads and validates the bodies of requests.
 *
 * @since 0.1.0
 */
export * as RequestBody from "./public/RequestBody.ts"

/**
 * Limits of the server.
 *
 * @since 0.1.0
 */
export * as Limits from "./public/Limits.ts"

/**
 * Live events of the whole server.
 *
 * @since 0.1.0
 */
export * as LiveLog from "./public/LiveLog.ts"

/**
 * Logins of the page.
 *
 * @since 0.1.0
 */
export type * as Logins from "./Logins.ts"

/**
 * Approval requests of all sessions.
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
 * Tokens of users.
 *
 * @since 0.1.0
 */
export * as Tokens from "./public/Tokens.ts"

/**
 * Undoes writes of a session.
 *
 * @since 0.1.0
 */
export * as Undoing from "./public/Undoing.ts"

/**
 * Submitted waves and their results.
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
 * Notifies another system of pending approval requests.
 *
 * @since 0.1.0
 */
export * as Webhook from "./public/Webhook.ts"
