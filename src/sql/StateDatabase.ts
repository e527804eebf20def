/**
 * How a state store asks its database: what a group of operations needs is loaded, or remembered, the changes are
 * decided, and all of them are written in one step, if no other process has changed it meanwhile.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as SqlClient from "effect/sql/SqlClient"
import * as SqlError from "effect/sql/SqlError"
import type { Epoch } from "../core/store/Epoch.ts"
import { own } from "./OwnConnection.ts"
import { RememberedState, type Taken } from "./RememberedState.ts"
import { epochOf, loseOthers } from "./SessionFence.ts"
import { heldText, keyText, type Scope, stateText } from "./StateRecords.ts"
import { add, type Needs, needs, wanted } from "./StateRows.ts"
import * as Tables from "./StateTables.ts"
import { type Options as WorldOptions, World } from "./StateWorld.ts"

/** Something that is asked of the state. */
export interface Operation {
  readonly needs: Needs
  readonly apply: (world: World) => unknown
  /** Runs before expired leases are freed. */
  readonly before?: ((world: World) => void) | undefined
  /** Whether an answer says that all was done, so that what was written guards it; absent: it never does. */
  readonly isDone?: ((answer: unknown) => boolean) | undefined
  /** The epoch in which it is done, or not at all; absent: no other process can have its session. */
  readonly epoch?: Epoch | undefined
}

/** The answer to an operation whose epoch is over: nothing was done. */
export const sessionLost = Symbol("sessionLost")

/** What answers a group of operations, as of a time. */
export type Database = (
  operations: ReadonlyArray<Operation>,
  now: number
) => Effect.Effect<ReadonlyArray<unknown>, SqlError.SqlError>

/** Gives what answers groups of operations, one group after the other. */
export const databaseOf = (
  sql: SqlClient.SqlClient,
  patience: number,
  options: WorldOptions
): Effect.Effect<Database> => {
  const isLocal = sql.onDialectOrElse({ sqlite: () => true, orElse: () => false })
  const { load } = isLocal ? Tables.statements.sqlite : Tables.statements.postgres
  const remembered = new RememberedState(options)

  const loaded = Effect.fnUntraced(function*(needed: Needs, writes: ReadonlyArray<string>) {
    const rows = yield* sql.unsafe<Tables.Row>(load, [JSON.stringify(wanted(needed, writes))])
    const world = new World(options)
    for (const row of rows) add(world, row)
    return { world, made: new Set(rows.filter((it) => it.kind === "w").map((it) => it.id)) }
  })

  const answered = (world: World, operations: ReadonlyArray<Operation>, now: number) => {
    for (const { before } of operations) before?.(world)
    world.reap(now)
    return operations.map((it) => it.epoch?.isOver === true ? sessionLost : it.apply(world))
  }

  /** What is decided without asking, if all of it takes, starts or settles. */
  const decided = (operations: ReadonlyArray<Operation>, needed: Needs, now: number) => {
    if (operations.some(({ isDone }) => isDone === undefined)) return undefined
    const taken = remembered.take(needed)
    if (taken === undefined) return undefined
    const { world } = remembered
    const answers = answered(world, operations, now)
    const isDone = (it: Operation, index: number) => answers[index] === sessionLost || it.isDone!(answers[index])
    if (world.isDirty && operations.every(isDone)) return { answers, taken }
    remembered.forget()
    return undefined
  }

  const local: Database = (operations, now) => {
    const needed = allNeeds(operations)
    const { changes, guard } = Tables.statements.sqlite
    const write = Effect.fnUntraced(function*(change: Tables.Changes, text: string) {
      for (const [name, statement] of Object.entries(changes)) {
        if (change[name as keyof typeof changes].length > 0) yield* sql.unsafe(statement, [text])
      }
    })
    const once = Effect.gen(function*() {
      const quick = decided(operations, needed, now)
      if (quick !== undefined) {
        const change = changesOf(remembered.world, options, "", quick.taken)
        const text = JSON.stringify(change)
        const [row] = yield* sql.unsafe<{ readonly ok: number }>(guard, [text])
        if (row?.ok === 1) {
          yield* write(change, text)
          return { answers: quick.answers, world: remembered.world }
        }
        remembered.failed()
      }
      const { world } = yield* loaded(needed, [])
      const answers = answered(world, operations, now)
      if (world.isDirty) {
        const change = changesOf(world, options, "")
        yield* write(change, JSON.stringify(change))
      }
      return { answers, world }
    })
    return own(sql)(sql.withTransaction(once)).pipe(
      Effect.map(({ answers, world }) => {
        if (world === remembered.world) remembered.succeeded()
        else remembered.remember(world)
        return answers
      }),
      Effect.onError(() => Effect.sync(() => remembered.forget()))
    )
  }

  const remote: Database = (operations, now) => {
    const needed = allNeeds(operations)
    const attempts: Array<Attempt> = []
    const limit = patience / 2
    const write = Effect.fnUntraced(function*(world: World, answers: ReadonlyArray<unknown>, taken?: Taken) {
      const attempt: Attempt = { write: options.newId(), answers }
      attempts.push(attempt)
      const epochs = epochsOf(operations)
      const text = JSON.stringify(changesOf(world, options, attempt.write, taken, epochs))
      const { change: plain, fenced } = Tables.statements.postgres
      const change = sql.unsafe<Made>(epochs.length > 0 ? fenced : plain, [text])
      const [row] = yield* Effect.catchIf(own(sql, limit)(change), Tables.isConflict, () => Effect.succeed([notMade]))
      if (row?.ok === true) return true
      if (row?.owned !== undefined) loseOthers(epochs, new Set(row.owned))
      // it is known not to be made
      attempts.pop()
      return false
    })
    const once = Effect.gen(function*() {
      const quick = attempts.length > 0 ? undefined : decided(operations, needed, now)
      if (quick !== undefined) {
        const isMade = yield* Effect.onError(
          write(remembered.world, quick.answers, quick.taken),
          () => Effect.sync(() => remembered.failed())
        )
        if (isMade) {
          remembered.succeeded()
          return quick.answers
        }
        remembered.failed()
      }
      const { made, world } = yield* own(sql, limit)(loaded(needed, attempts.map((it) => it.write)))
      const known = attempts.find((it) => made.has(it.write))
      if (known !== undefined) return known.answers
      const answers = answered(world, operations, now)
      if (world.isDirty && !(yield* write(world, answers))) return undefined
      remembered.remember(world)
      return answers
    })
    return persistently(once, patience)
  }

  return Effect.succeed(isLocal ? local : remote)
}

/** An attempt to write a group, and the answers if it succeeds. */
interface Attempt {
  readonly write: string
  readonly answers: ReadonlyArray<unknown>
}

/** What became of a change; `owned`: the sessions whose epochs were current. */
interface Made {
  readonly ok: boolean
  readonly owned?: ReadonlyArray<string> | null
}

const notMade: Made = { ok: false }

/** The epochs that operations need. */
const epochsOf = (operations: ReadonlyArray<Operation>): ReadonlyArray<Epoch> =>
  Array.from(new Set(operations.flatMap(({ epoch }) => epoch === undefined || epoch.isOver ? [] : [epoch])))

/** What several operations need together. */
const allNeeds = (operations: ReadonlyArray<Operation>): Needs => {
  const all = needs({})
  for (const it of operations) {
    for (const name of ["scopes", "begins", "keys", "reservations", "sessions", "calls"] as const) {
      for (const id of it.needs[name]) all[name].add(id)
    }
    if (it.needs.ends) all.ends = true
    if (it.needs.expired) all.expired = true
  }
  return all
}

const nothingTaken: Taken = { absent: [], alive: [] }

const changesOf = (
  world: World,
  { batchMillis, leaseMillis }: WorldOptions,
  write: string,
  { absent, alive }: Taken = nothingTaken,
  epochs: ReadonlyArray<Epoch> = []
): Tables.Changes => {
  const held = Array.from(world.changed.held)
  const keys = Array.from(world.changed.keys)
  const scopes = Array.from(world.scopes.values()).filter((it) => it.isDirty)
  const row = (it: Scope) => ({
    id: it.id,
    version: it.version,
    data: stateText(it.state),
    until: world.until(it)
  })
  return {
    write,
    absent,
    alive,
    begun: scopes.filter((it) => it.version < 0).map(row),
    scopes: scopes.filter((it) => it.version >= 0).map(row),
    held: held.flatMap((id) => {
      const it = world.held.get(id)
      if (it === undefined) return []
      const { batch, call, conversation, epoch, key, presumed, principal, session } = it
      const lease = presumed === undefined ? leaseMillis : Math.ceil(batchMillis)
      return [{ id, epoch, session, call, batch, principal, conversation, key, data: heldText(it), lease }]
    }),
    gone: held.filter((id) => !world.held.has(id)),
    keys: keys.flatMap((id) => {
      const it = world.keys.get(id)
      return it === undefined ? [] : [{ id, reservation: it.reservation, until: it.until, data: keyText(it) }]
    }),
    freed: keys.filter((id) => !world.keys.has(id)),
    epochs: epochs.map(epochOf)
  }
}

/** Tries until there is an answer: immediately after a conflict, after a pause if the database failed. */
const persistently = <A>(
  once: Effect.Effect<ReadonlyArray<A> | undefined, SqlError.SqlError>,
  patience: number
): Effect.Effect<ReadonlyArray<A>, SqlError.SqlError> =>
  Effect.gen(function*() {
    const until = (yield* Clock.currentTimeMillis) + patience
    let pause = 5
    while (true) {
      const result = yield* Effect.result(once)
      const isOver = (yield* Clock.currentTimeMillis) >= until
      if (Result.isSuccess(result)) {
        if (result.success !== undefined) return result.success
        if (isOver) return yield* tooBusy
      } else {
        if (isOver || !result.failure.isRetryable) return yield* result.failure
        yield* Effect.sleep(pause)
        pause = Math.min(2 * pause, longestPause)
      }
    }
  })

/** Milliseconds between two tries. */
const longestPause = 250

const tooBusy = new SqlError.SqlError({
  reason: new SqlError.LockTimeoutError({ message: "others were always faster", cause: undefined })
})
