/**
 * Stores in PostgreSQL and SQLite, and what a store of one's own is made with.
 *
 * @since 0.1.0
 */

/**
 * Artifacts in PostgreSQL or SQLite.
 *
 * @since 0.1.0
 */
export * as SqlArtifacts from "./public/SqlArtifacts.ts"

/**
 * Checkpoints in PostgreSQL or SQLite.
 *
 * @since 0.1.0
 */
export * as SqlCheckpoints from "./public/SqlCheckpoints.ts"

/**
 * The journal in PostgreSQL or SQLite, for one process or many.
 *
 * @since 0.1.0
 */
export * as SqlJournal from "./public/SqlJournal.ts"

/**
 * `StateStore` in PostgreSQL or SQLite, for as many processes as share the database.
 *
 * @since 0.1.0
 */
export * as SqlStateStore from "./public/SqlStateStore.ts"

/**
 * The circuits of tools in a database.
 *
 * @since 0.1.0
 */
export * as SqlCircuitBreakerStore from "./public/SqlCircuitBreakerStore.ts"

/**
 * What rate limits have counted, in a database.
 *
 * @since 0.1.0
 */
export * as SqlRateLimiterStore from "./public/SqlRateLimiterStore.ts"
