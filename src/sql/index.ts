/** Stores in PostgreSQL and SQLite, and helpers for other stores. */

/** Approval requests in PostgreSQL, for as many processes as share the database. */
export * as SqlApprovals from "./public/SqlApprovals.ts"

/** Artifacts in PostgreSQL or SQLite. */
export * as SqlArtifacts from "./public/SqlArtifacts.ts"

/** Checkpoints in PostgreSQL or SQLite. */
export * as SqlCheckpoints from "./public/SqlCheckpoints.ts"

/** The journal in PostgreSQL or SQLite, for one process or many. */
export * as SqlJournal from "./public/SqlJournal.ts"

/** Logins of a server's page in PostgreSQL, shared by all servers of the database. */
export * as SqlLogins from "./public/SqlLogins.ts"

/** Devices that users are notified on, in PostgreSQL or SQLite. */
export * as SqlPushDevices from "./public/SqlPushDevices.ts"

/** Live items in PostgreSQL: the page of each process shows what happens in all. */
export * as SqlLive from "./public/SqlLive.ts"

/** Which process holds which session, in PostgreSQL. */
export * as SqlSessionRegistry from "./public/SqlSessionRegistry.ts"

/** Rows of sessions in SQLite or PostgreSQL, for one process that has all sessions. */
export * as SqlOwnRows from "./public/SqlOwnRows.ts"

/** Rows of sessions in PostgreSQL, for as many processes as share the database. */
export * as SqlSessionRows from "./public/SqlSessionRows.ts"

/** `StateStore` in PostgreSQL or SQLite, for as many processes as share the database. */
export * as SqlStateStore from "./public/SqlStateStore.ts"

/** The circuits of tools in a database. */
export * as SqlCircuitBreakerStore from "./public/SqlCircuitBreakerStore.ts"

/** What rate limits have counted, in a database. */
export * as SqlRateLimiterStore from "./public/SqlRateLimiterStore.ts"

/** Permits that processes share in PostgreSQL: caps of tools, and resource keys. */
export * as SqlPermits from "./public/SqlPermits.ts"
