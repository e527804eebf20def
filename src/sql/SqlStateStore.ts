/**
 * `StateStore` in PostgreSQL or SQLite, for as many processes as share the database.
 *
 * What is asked for at one moment, by whatever executor over this store, is one group, decided and written as one
 * (`StateDatabase`). It is atomic however many processes do it, and nothing is locked between two messages.
 *
 * A change whose answer was lost is looked up by its name before anything is tried again: it is made once.
 *
 * Reservations are leased: one that is not renewed is free again after its lease, as the database tells the time, but
 * for what had started.
 *
 * Where processes share sessions (`SqlSessionRegistry`), claims are taken, batches forgotten and grants kept in the
 * current epoch of a session only, in the same statement. What a reservation says needs no epoch: who takes a session
 * over abandons those of its former owner.
 */
import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { MigrationError } from "effect/sql/Migrator"
import * as SqlClient from "effect/sql/SqlClient"
import type * as SqlError from "effect/sql/SqlError"
import { randomUUID } from "node:crypto"
import type { Epoch } from "../core/store/Epoch.ts"
import { SessionLost } from "../core/store/SessionRegistry.ts"
import {
  type Claim,
  Kept,
  type Refused,
  type Request,
  type Reservation,
  StateStore,
  StateStoreError
} from "../core/store/StateStore.ts"
import { type ConfigurationError, readOptions } from "../core/vocabulary/ConfigurationError.ts"
import { Grant, isOpen } from "../core/vocabulary/Grant.ts"
import { Grouped } from "../internal/grouped.ts"
import * as Migrations from "./Migrations.ts"
import { own } from "./OwnConnection.ts"
import { epochsOf, owned } from "./SessionFence.ts"
import { inThisDatabase } from "./SqlSessionRegistry.ts"
import { databaseOf, type Operation, sessionLost } from "./StateDatabase.ts"
import { batchId, digest, keyId, placeId, principalId, recordOf, sessionId, textOf } from "./StateRecords.ts"
import { type Needs, needs } from "./StateRows.ts"
import * as Tables from "./StateTables.ts"
import type { Options as WorldOptions, World } from "./StateWorld.ts"

/** Times of the store. */
export interface Options {
  /**
   * How long a reservation is held unless it is renewed, which executors do at half time. Longer than a process may
   * stand still; after a crash it lasts so long until what never started is free again. Default 30 seconds.
   */
  readonly lease?: Duration.Input | undefined
  /**
   * No other process can have the database open, for instance because of a lock: earlier reservations are free
   * immediately, however long its lease is. Default `false`.
   */
  readonly isAlone?: boolean | undefined
  /** How long a group is tried again where the database cannot be reached or is busy. Default 5 seconds. */
  readonly patience?: Duration.Input | undefined
  /** How long after the last call of a batch its counts and choices are remembered. Default 1 hour. */
  readonly batchTimeToLive?: Duration.Input | undefined
  /** How long after the last call of a session what rules remember of it is kept. Default 90 days. */
  readonly sessionTimeToLive?: Duration.Input | undefined
  /** How often expired rows are deleted. Default 1 minute; `"unlimited"`: only when asked (`pruneExpired`). */
  readonly pruneEvery?: Duration.Input | "unlimited" | undefined
}

/** The defaults. */
export const defaults = {
  lease: "30 seconds",
  patience: "5 seconds",
  batchTimeToLive: "1 hour",
  sessionTimeToLive: "90 days",
  pruneEvery: "1 minute"
} as const satisfies Options

/**
 * Brings the tables up to date, and opens a store over them. It uses separate connections, also inside a host's
 * transaction (`OwnConnection`).
 */
export const make = Effect.fnUntraced(function*(
  options: Options = {}
): Effect.fn.Return<
  StateStore["Service"],
  ConfigurationError | MigrationError | SqlError.SqlError,
  SqlClient.SqlClient | Scope.Scope
> {
  const { batchMillis, leaseMillis, patienceMillis, pruneMillis, sessionMillis } = yield* readOptions(
    "SqlStateStore",
    (read) => ({
      leaseMillis: read.millis("lease", options.lease ?? defaults.lease),
      patienceMillis: read.millis("patience", options.patience ?? defaults.patience),
      batchMillis: read.millis("batchTimeToLive", options.batchTimeToLive ?? defaults.batchTimeToLive),
      sessionMillis: read.millis("sessionTimeToLive", options.sessionTimeToLive ?? defaults.sessionTimeToLive),
      pruneMillis: options.pruneEvery === "unlimited"
        ? undefined
        : read.millis("pruneEvery", options.pruneEvery ?? defaults.pruneEvery)
    })
  )
  const sql = (yield* SqlClient.SqlClient).withoutTransforms()
  yield* Migrations.run(sql, Tables.schema)
  if (options.isAlone === true) yield* own(sql)(Tables.endAllLeases(sql))
  // ids that follow one another are side by side in an index
  const first = randomUUID()
  let last = 0
  const newId = () => `${first}-${(++last).toString(36).padStart(7, "0")}`
  const context = yield* Effect.context<never>()
  const clock = yield* Clock.Clock
  const world = { batchMillis, sessionMillis, leaseMillis, newId, encode, decode }
  const database = yield* databaseOf(sql, patienceMillis, world)
  const operations = new Grouped(
    (all: ReadonlyArray<Operation>) => database(all, clock.currentTimeMillisUnsafe()),
    context
  )
  const ask = <A>(
    name: string,
    needed: Needs,
    apply: (world: World) => A,
    { before, isDone }: Pick<Operation, "before" | "isDone"> = {},
    epoch?: Epoch
  ): Effect.Effect<A, StateStoreError> =>
    Effect.mapError(
      operations.ask({ needs: needed, apply, before, isDone, epoch }) as Effect.Effect<A, SqlError.SqlError>,
      (cause) => new StateStoreError({ operation: name, cause })
    )
  const registry = yield* inThisDatabase
  /** Whether this process does not hold a session. */
  const isElsewhere = (principal: string) => registry !== undefined && registry.current(principal) === undefined
  /** Asks for something that only who holds the session of a principal may do. */
  const askAs = <A>(
    principal: string | undefined,
    ...asked: Parameters<typeof ask<A>>
  ): Effect.Effect<A, StateStoreError> => {
    if (registry === undefined || principal === undefined) return ask(...asked)
    const [operation, needed, apply, options = {}] = asked
    const lost = new StateStoreError({ operation, cause: new SessionLost({ principal }) })
    const epoch = registry.current(principal)
    if (epoch === undefined) return Effect.fail(lost)
    return Effect.flatMap(
      ask<unknown>(operation, needed, apply, options, epoch),
      (it) => it === sessionLost ? Effect.fail(lost) : Effect.succeed(it as A)
    )
  }
  const plain = <A>(name: string, statement: Effect.Effect<A, SqlError.SqlError>): Effect.Effect<A, StateStoreError> =>
    Effect.mapError(
      own(sql, patienceMillis)(statement),
      (cause) => new StateStoreError({ operation: name, cause })
    )
  const prune = (now: number): Effect.Effect<number, StateStoreError> =>
    Effect.andThen(
      ask("pruneExpired", needs({ expired: true }), () => undefined),
      plain("pruneExpired", pruned(sql, now))
    )
  if (pruneMillis !== undefined) {
    yield* Effect.flatMap(Effect.sleep(pruneMillis), () => Effect.flatMap(Clock.currentTimeMillis, prune)).pipe(
      Effect.catch((error) => Effect.logWarning(error.message, error.cause)),
      Effect.forever,
      Effect.forkScoped
    )
  }

  return {
    reserve: (requests, now, principal) =>
      askAs(
        principal,
        "reserve",
        needsOf(requests),
        (world) => requests.map((request) => world.reserve(request, now)),
        {
          isDone: areReserved
        }
      ),
    check: (claims, now) => ask("check", needsOf([{ claims }], false), (world) => world.check(claims, now)),
    start: (reservations, now) =>
      ask("start", ofReservations(reservations), (world) => reservations.filter((it) => world.start(it, now)), {
        isDone: isAll(reservations)
      }),
    renew: (reservations) =>
      ask("renew", ofReservations(reservations), (world) => reservations.filter((it) => world.renew(it)), {
        isDone: isAll(reservations)
      }),
    settle: (reservation, settlement, now) =>
      ask(
        "settle",
        ofReservations([reservation], true, settlement.mutates),
        (world) => world.settle(reservation, settlement, now),
        { isDone: isTrue }
      ),
    release: (reservation, now) =>
      ask("release", ofReservations([reservation], true), (world) => world.release(reservation, now), {
        isDone: isTrue
      }),
    abandon: (session, now, started) =>
      ask(
        "abandon",
        needs({ sessions: [digest(session)], reservations: started.map(({ id }) => id), ends: true }),
        () => undefined,
        // though their leases be over
        { before: (world) => world.abandon(session, now, started) }
      ),
    mutated: (principal, by) =>
      ask(
        "mutated",
        ofReservations(by === undefined ? [] : [by], by !== undefined, principal),
        (world) => world.mutated(principal, by)
      ),
    recall: (of, now) =>
      ask("recall", needs({ scopes: of.map(placeId) }), (world) => of.map((it) => world.recall(it, now))),
    // whoever holds the session closes its batches
    closeBatch: (batch, principal) =>
      principal !== undefined && isElsewhere(principal) ? Effect.void : askAs(
        principal,
        "closeBatch",
        needs({ scopes: [batchId(batch), sessionId(batch)] }),
        (world) => world.closeBatch(batch)
      ),
    grant: (grant) => {
      if (isElsewhere(grant.principal)) return Effect.void
      const epoch = registry?.current(grant.principal)
      const [principal, id, until] = [principalId(grant.principal), digest(grant.id), grant.expiresAt ?? null]
      const data = textOf(grant)
      return Effect.asVoid(plain(
        "grant",
        epoch === undefined
          ? sql`INSERT INTO tool_executor_grants (principal_id, id, expires_at, data)
            VALUES (${principal}, ${id}, ${until}, ${data})
            ON CONFLICT (principal_id, id) DO UPDATE SET expires_at = excluded.expires_at, data = excluded.data`
          : sql.unsafe(grantOwned, [principal, id, until, data, epochsOf([epoch])])
      ))
    },
    grants: (principal, now) =>
      Effect.map(
        plain(
          "grants",
          sql<{ readonly data: string }>`SELECT data FROM tool_executor_grants
            WHERE principal_id = ${principalId(principal)}`
        ),
        (rows) => rows.map(({ data }) => grantOf(recordOf(data))).filter((it) => isOpen(it, now)).sort(byAge)
      ),
    allGrants: (now) =>
      Effect.map(
        plain("allGrants", sql<{ readonly data: string }>`SELECT data FROM tool_executor_grants`),
        (rows) => rows.map(({ data }) => grantOf(recordOf(data))).filter((it) => isOpen(it, now)).sort(byAge)
      ),
    revoke: (principal, id) =>
      Effect.map(
        plain(
          "revoke",
          sql`DELETE FROM tool_executor_grants
            WHERE principal_id = ${principalId(principal)} AND id = ${digest(id)} RETURNING id`
        ),
        (rows) => rows.length > 0
      ),
    pruneExpired: prune
  }
})

/** Layer with a store in a database. */
export const layer = (
  options?: Options
): Layer.Layer<StateStore, ConfigurationError | MigrationError | SqlError.SqlError, SqlClient.SqlClient> =>
  Layer.effect(StateStore, make(options))

/** Keeps a grant of a session whose epoch is current. */
const grantOwned = `WITH ${owned("$5")}
  INSERT INTO tool_executor_grants (principal_id, id, expires_at, data) SELECT $1, $2, $3::bigint, $4 FROM owned
  ON CONFLICT (principal_id, id) DO UPDATE SET expires_at = excluded.expires_at, data = excluded.data`

const needsOf = (
  requests: ReadonlyArray<Pick<Request, "claims"> & Partial<Request>>,
  isReserved = true
): Needs => {
  const scopes = new Set<string>()
  const keys: Array<string> = []
  const reservations: Array<string> = []
  const mutated: Array<string> = []
  const calls: Array<string> = []
  const visit = (claim: Claim) => {
    if (claim._tag === "Key") {
      keys.push(keyId(claim))
      scopes.add(principalId(claim.principal))
      if (claim.scope !== "principal") scopes.add(batchId(claim.batch))
    } else if (claim._tag !== "Cooldown") scopes.add(placeId(claim))
    else if (claim.batch === undefined) scopes.add(principalId(claim.principal))
    else scopes.add(placeId({ batch: claim.batch, scope: claim.scope }))
  }
  for (const { call, claims, isResumed, replaces, starts } of requests) {
    claims.forEach(visit)
    if (isResumed === true && call !== undefined) calls.push(call)
    if (starts?.mutates !== undefined) mutated.push(principalId(starts.mutates))
    if (replaces !== undefined) reservations.push(replaces.id)
  }
  const all = needs({
    scopes: Array.from(scopes),
    begins: isReserved,
    keys,
    reservations,
    calls,
    ends: reservations.length + calls.length > 0
  })
  for (const it of mutated) {
    all.scopes.add(it)
    all.begins.add(it)
  }
  return all
}

const ofReservations = (reservations: ReadonlyArray<Reservation>, ends = false, mutates?: string): Needs =>
  needs({
    reservations: reservations.map((it) => it.id),
    ends,
    scopes: mutates === undefined ? [] : [principalId(mutates)]
  })

const isAll = (of: ReadonlyArray<unknown>) => (answer: unknown): boolean =>
  (answer as ReadonlyArray<unknown>).length === of.length

const areReserved = (answer: unknown): boolean =>
  (answer as ReadonlyArray<Reservation | Refused>).every((it) => !("_tag" in it))

const isTrue = (answer: unknown): boolean => answer === true

const pruned = Effect.fnUntraced(function*(sql: SqlClient.SqlClient, now: number) {
  const isOver = sql`until IS NOT NULL AND until <= ${now}`
  const keys = yield* sql`DELETE FROM tool_executor_keys WHERE ${isOver} RETURNING id`
  const scopes = yield* sql.onDialectOrElse({
    sqlite: () => sql`DELETE FROM tool_executor_scopes WHERE ${isOver} RETURNING id`,
    // the order is the database's: rows that are being changed stay
    orElse: () =>
      sql`DELETE FROM tool_executor_scopes WHERE id IN
        (SELECT id FROM tool_executor_scopes WHERE ${isOver} FOR UPDATE SKIP LOCKED) AND ${isOver} RETURNING id`
  })
  const grants = yield* sql`DELETE FROM tool_executor_grants WHERE expires_at <= ${now} RETURNING id`
  const clock = sql.onDialectOrElse({ sqlite: () => Tables.now.sqlite, orElse: () => Tables.now.postgres })
  yield* sql`DELETE FROM tool_executor_writes WHERE made_at <= (SELECT ${sql.literal(clock)}) - ${writesKept}`
  return keys.length + grants.length + scopes.filter(({ id }) => !String(id).startsWith("p")).length
})

/** Milliseconds for which a change whose answer was lost can be looked up: much longer than anybody tries. */
const writesKept = 3_600_000

const codec = Schema.toCodecJson(Kept)
const encodeKept = Schema.encodeSync(codec)
const decodeKept = Schema.decodeUnknownSync(codec)

const encode: WorldOptions["encode"] = (value) => textOf(encodeKept(value))
const decode: WorldOptions["decode"] = (text) => decodeKept(recordOf(text))

const grantOf = Schema.decodeUnknownSync(Schema.toCodecJson(Grant))

const byAge = (one: Grant, other: Grant): number =>
  one.grantedAt - other.grantedAt || (one.id < other.id ? -1 : one.id > other.id ? 1 : 0)
