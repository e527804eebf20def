/**
 * The executor behind HTTP: sessions, waves, questions and records.
 *
 * @since 0.1.0
 */

/**
 * Who may do what: gives the user of a token.
 *
 * @since 0.1.0
 */
export * as Access from "./Access.ts"

/**
 * The HTTP API, as a value: for servers, clients, and its OpenAPI document.
 *
 * @since 0.1.0
 */
export * as Api from "./Api.ts"

/**
 * Who sends a request.
 *
 * @since 0.1.0
 */
export * as ApiAccess from "./ApiAccess.ts"

/**
 * What the API sends and takes of sessions and waves.
 *
 * @since 0.1.0
 */
export * as ApiModels from "./ApiModels.ts"

/**
 * What the API answers where it does not do what it was asked.
 *
 * @since 0.1.0
 */
export * as ApiProblems from "./ApiProblems.ts"

/**
 * What the API sends and takes of questions.
 *
 * @since 0.1.0
 */
export * as ApiQuestions from "./ApiQuestions.ts"

/**
 * What the API sends of records.
 *
 * @since 0.1.0
 */
export * as ApiRecords from "./ApiRecords.ts"

/**
 * Lets requests in that say who sends them.
 *
 * @since 0.1.0
 */
export * as Authorizing from "./Authorizing.ts"

/**
 * Where a request comes from.
 *
 * @since 0.1.0
 */
export * as Callers from "./Callers.ts"

/**
 * Stopping in good order.
 *
 * @since 0.1.0
 */
export * as Draining from "./Draining.ts"

/**
 * Whether the server can do its work.
 *
 * @since 0.1.0
 */
export * as Health from "./Health.ts"

/**
 * What is sent to an endpoint, before anybody acts on it.
 *
 * @since 0.1.0
 */
export * as Checking from "./Checking.ts"

/**
 * What every request passes, and every response.
 *
 * @since 0.1.0
 */
export * as Door from "./Door.ts"

/**
 * How much there may be at once, and how often.
 *
 * @since 0.1.0
 */
export * as Limits from "./Limits.ts"

/**
 * What happens on the whole server, for pages.
 *
 * @since 0.1.0
 */
export * as LiveLog from "./LiveLog.ts"

/**
 * The page's way in: a token for a cookie.
 *
 * @since 0.1.0
 */
export * as Logins from "./Logins.ts"

/**
 * What a monitoring system reads.
 *
 * @since 0.1.0
 */
export * as Metrics from "./Metrics.ts"

/**
 * The page's files.
 *
 * @since 0.1.0
 */
export * as PageAssets from "./PageAssets.ts"

/**
 * Whose a session is.
 *
 * @since 0.1.0
 */
export * as Principals from "./Principals.ts"

/**
 * The questions of all sessions, for people.
 *
 * @since 0.1.0
 */
export * as Questions from "./Questions.ts"

/**
 * What is on record of all sessions.
 *
 * @since 0.1.0
 */
export * as Records from "./Records.ts"

/**
 * The server: routes for any `HttpRouter`.
 *
 * @since 0.1.0
 */
export * as Server from "./Server.ts"

/**
 * Streams to readers that nobody knows.
 *
 * @since 0.1.0
 */
export * as SlowReaders from "./SlowReaders.ts"

/**
 * Tokens of users: made, hashed and checked.
 *
 * @since 0.1.0
 */
export * as Tokens from "./Tokens.ts"

/**
 * How many requests there were.
 *
 * @since 0.1.0
 */
export * as Traffic from "./Traffic.ts"

/**
 * Undoing, as the server offers it.
 *
 * @since 0.1.0
 */
export * as Undoing from "./Undoing.ts"

/**
 * What was handed over, and what became of it.
 *
 * @since 0.1.0
 */
export * as WaveStore from "./WaveStore.ts"

/**
 * The waves of all sessions.
 *
 * @since 0.1.0
 */
export * as Waves from "./Waves.ts"

/**
 * Tells people elsewhere that a question waits.
 *
 * @since 0.1.0
 */
export * as Webhook from "./Webhook.ts"
