/**
 * The shards that this process has. They hang on its lease: nobody takes one from a process whose lease is valid.
 *
 * What the database says is read with each renewal. A shard that is not its own there is lost; one that nobody here
 * knows of, because the answer to a statement was lost, is freed.
 */
import * as Effect from "effect/Effect"
import * as Semaphore from "effect/Semaphore"
import type * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import { own } from "./OwnConnection.ts"
import * as Tables from "./RunnerTables.ts"

/** What was known before the database was asked. */
export interface Mark {
  readonly had: ReadonlyArray<string>
  readonly changes: number
}

/** The lease of the process. */
export interface Lease {
  readonly name: string
  readonly isHeld: boolean
  /** How often it may have expired and been renewed again. */
  readonly lapses: number
}

/** The shards of a process. */
export class SqlShards {
  private readonly sql: SqlClient.SqlClient
  private readonly lease: Lease
  private readonly mine = new Set<string>()
  /** Those that nobody used when it was asked last. */
  private unused: ReadonlySet<string> = new Set()
  /** Those of its own in the database that are not known here. */
  private strays: ReadonlyArray<string> = []
  /** Those that are being freed: one statement frees all of them. */
  private readonly leaving = new Set<string>()
  /** Odd while a statement changes something. */
  private changes = 0
  private readonly one = Semaphore.makeUnsafe(1)

  constructor(sql: SqlClient.SqlClient, lease: Lease) {
    this.sql = sql
    this.lease = lease
  }

  has(id: string): boolean {
    return this.mine.has(id)
  }

  /** Those of the shards in use that it has. One that is not in use twice in a row is freed. */
  kept(used: ReadonlyArray<string>): ReadonlyArray<string> {
    const all = new Set(used)
    const unused = Array.from(this.mine).filter((id) => !all.has(id))
    for (const id of unused) if (this.unused.has(id)) this.mine.delete(id)
    this.unused = new Set(unused)
    return used.filter((id) => this.mine.has(id))
  }

  /** Takes shards that nobody has; gives those that it has then. */
  readonly acquire = (ids: ReadonlyArray<string>): Effect.Effect<ReadonlyArray<string>, SqlError> =>
    this.changing(Effect.suspend(() => {
      const { lapses, name } = this.lease
      for (const id of ids) this.leaving.delete(id)
      return Effect.map(own(this.sql)(Tables.acquireShards(this.sql, name, ids)), (acquired) => {
        // the answer is late: others may have taken them by now
        if (!this.lease.isHeld || this.lease.lapses !== lapses) return []
        for (const id of acquired) this.mine.add(id)
        return acquired
      })
    }))

  /** Frees shards. Those that are freed at the same time share a statement: others wait for each of them. */
  readonly release = (ids: ReadonlyArray<string>): Effect.Effect<void, SqlError> =>
    Effect.suspend(() => {
      for (const id of ids) {
        this.mine.delete(id)
        this.leaving.add(id)
      }
      return this.changing(Effect.suspend(() => {
        // one that was taken again meanwhile stays
        for (const id of ids) if (this.mine.has(id)) this.leaving.delete(id)
        if (!ids.some((id) => this.leaving.has(id))) return Effect.void
        const all = Array.from(this.leaving)
        return Effect.map(own(this.sql)(Tables.releaseShards(this.sql, this.lease.name, all)), () => {
          for (const id of all) this.leaving.delete(id)
        })
      }))
    })

  /** Frees all shards. */
  readonly releaseAll: Effect.Effect<void, SqlError> = Effect.suspend(() => this.release(Array.from(this.mine)))

  /** Frees what nobody here knows of. */
  readonly tidy: Effect.Effect<void, SqlError> = Effect.suspend(() =>
    this.release(this.strays.filter((id) => !this.mine.has(id)))
  )

  mark(): Mark {
    return { had: Array.from(this.mine), changes: this.changes }
  }

  /** Notes what the database said after a mark. */
  note({ changes, had }: Mark, shards: ReadonlyArray<string>): void {
    const all = new Set(shards)
    for (const id of had) if (!all.has(id)) this.mine.delete(id)
    const isSettled = changes % 2 === 0 && changes === this.changes
    this.strays = isSettled ? shards.filter((id) => !this.mine.has(id)) : []
  }

  private changing<A, E>(change: Effect.Effect<A, E>): Effect.Effect<A, E> {
    return this.one.withPermit(Effect.suspend(() => {
      this.changes++
      return Effect.ensuring(change, Effect.sync(() => this.changes++))
    }))
  }
}
