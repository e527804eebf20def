/** The memory driver of `SessionRegistry`: sessions of one process, or of several registries over one world. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { Epoch, Left, Released, Runner } from "./Epoch.ts"
import { HeldSessions } from "./HeldSessions.ts"

/** A session, as a database would have it. */
interface Row {
  epoch: number
  /** Whose current epoch it is; absent once it was released. */
  held: Epoch | undefined
  isWoken: boolean
  dueAt: number | undefined
}

/** The sessions that several registries share. */
export interface World {
  readonly rows: Map<string, Row>
  runners: number
}

/** Milliseconds that a session has to hear that it was woken, before it is due. */
export const heardWithin = 2_000

/** Milliseconds until a session that was due is due again. */
export const dueAgain = 5_000

/** Creates sessions that nobody holds. */
export const world = (): World => ({ rows: new Map(), runners: 0 })

/** Creates a registry over sessions. In memory an owner learns immediately that it has lost one. */
export const make = (world: World) => {
  const { rows } = world
  const held = new HeldSessions({ isHeld: true, isCurrent: (epoch) => Effect.succeed(isCurrent(epoch)) })
  const isCurrent = (epoch: Epoch): boolean => rows.get(epoch.principal)?.held === epoch
  const rowOf = (principal: string): Row => {
    const row = rows.get(principal) ?? { epoch: 0, held: undefined, isWoken: false, dueAt: undefined }
    rows.set(principal, row)
    return row
  }
  const dueOf = (row: Row, left: Left, now: number): number | undefined => {
    if (row.isWoken) return now + heardWithin
    if (left._tag === "Open") return now
    return left._tag === "Waiting" ? left.until : undefined
  }
  return {
    runner: {
      name: `memory-${++world.runners}`,
      leaseMillis: 0,
      isHeld: true,
      renew: Effect.succeed(true)
    } satisfies Runner,
    current: held.current,
    activate: (principal: string): Effect.Effect<Epoch> =>
      Effect.sync(() => {
        const row = rowOf(principal)
        if (row.held !== held.current(principal)) row.held?.lose()
        row.held = held.begin(principal, ++row.epoch)
        Object.assign(row, { isWoken: false, dueAt: undefined })
        return row.held
      }),
    release: (epoch: Epoch, left: Left): Effect.Effect<Released> =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const row = rowOf(epoch.principal)
        const isOurs = isCurrent(epoch)
        if (held.current(epoch.principal) === epoch) held.end(epoch.principal)
        if (!isOurs) return "Lost"
        row.held = undefined
        row.dueAt = dueOf(row, left, now)
        return row.isWoken ? "Ready" : "Released"
      }),
    heard: (epoch: Epoch) =>
      Effect.sync(() => {
        if (!isCurrent(epoch)) return false
        Object.assign(rowOf(epoch.principal), { isWoken: false, dueAt: undefined })
        return true
      }),
    wake: (principal: string) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const row = rows.get(principal)
        if (row === undefined) return
        row.isWoken = true
        row.dueAt = Math.min(row.dueAt ?? Infinity, now + heardWithin)
      }),
    due: (limit: number) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const due = Array.from(rows).filter(([, { dueAt = Infinity }]) => dueAt <= now).slice(0, limit)
        for (const [, row] of due) row.dueAt = now + dueAgain
        return due.map(([principal]) => principal)
      })
  }
}
