/**
 * Stores in PostgreSQL and SQLite, and what a store of one's own is made with.
 *
 * @since 0.1.0
 */

/**
 * The schema of a component, brought up to date when its layer is built.
 *
 * @since 0.1.0
 */
export * as Migrations from "./Migrations.ts"

/**
 * What must be on record whatever the host rolls back runs on a connection of its own.
 *
 * @since 0.1.0
 */
export * as OwnConnection from "./OwnConnection.ts"

/**
 * Artifacts in PostgreSQL or SQLite.
 *
 * @since 0.1.0
 */
export * as SqlArtifacts from "./SqlArtifacts.ts"

/**
 * Checkpoints in PostgreSQL or SQLite.
 *
 * @since 0.1.0
 */
export * as SqlCheckpoints from "./SqlCheckpoints.ts"

/**
 * The journal in PostgreSQL or SQLite, for one process or many.
 *
 * @since 0.1.0
 */
export * as SqlJournal from "./SqlJournal.ts"

/**
 * `StateStore` in PostgreSQL or SQLite, for as many processes as share the database.
 *
 * @since 0.1.0
 */
export * as SqlStateStore from "./SqlStateStore.ts"

/**
 * The circuits of tools in a database.
 *
 * @since 0.1.0
 */
export * as SqlCircuitBreakerStore from "./SqlCircuitBreakerStore.ts"

/**
 * What rate limits have counted, in a database.
 *
 * @since 0.1.0
 */
export * as SqlRateLimiterStore from "./SqlRateLimiterStore.ts"
