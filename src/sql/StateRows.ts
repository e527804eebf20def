/** What operations need of the state, and rows as the records that they are. */
import { type Held, heldFrom, type Key, recordOf, stateFrom } from "./StateRecords.ts"
import type { Row, Wanted } from "./StateTables.ts"
import type { World } from "./StateWorld.ts"

/** What operations need of the state, by ids. */
export interface Needs {
  readonly scopes: Set<string>
  /** The scopes that may not be there yet and are to be. */
  readonly begins: Set<string>
  readonly keys: Set<string>
  readonly reservations: Set<string>
  readonly sessions: Set<string>
  /** Calls whose earlier reservations are needed. */
  readonly calls: Set<string>
  /** The reservations may end, which changes their keys. */
  ends: boolean
  /** All reservations whose leases are over. */
  expired: boolean
}

/** Says what an operation needs. */
export const needs = ({ begins = false, calls, ends = false, expired = false, keys, reservations, scopes, sessions }: {
  readonly scopes?: ReadonlyArray<string>
  /** The scopes are to be there. */
  readonly begins?: boolean
  readonly keys?: ReadonlyArray<string>
  readonly reservations?: ReadonlyArray<string>
  readonly sessions?: ReadonlyArray<string>
  readonly calls?: ReadonlyArray<string>
  readonly ends?: boolean
  readonly expired?: boolean
}): Needs => ({
  scopes: new Set(scopes),
  begins: new Set(begins ? scopes : undefined),
  keys: new Set(keys),
  reservations: new Set(reservations),
  sessions: new Set(sessions),
  calls: new Set(calls),
  ends,
  expired
})

/** Gives what is to be loaded. */
export const wanted = (
  { calls, ends, expired, keys, reservations, scopes, sessions }: Needs,
  writes: ReadonlyArray<string>
): Wanted => ({
  scopes: Array.from(scopes),
  reservations: Array.from(reservations),
  sessions: Array.from(sessions),
  hasSessions: sessions.size > 0,
  calls: Array.from(calls),
  keys: Array.from(keys),
  ends,
  expired,
  writes
})

/** Adds a row to what is loaded. */
export const add = (world: World, row: Row): void => {
  const { id } = row
  if (row.kind === "s") {
    world.scopes.set(id, { id, version: row.version!, state: stateFrom(row.data!), isDirty: false })
  } else if (row.kind === "r") world.held.set(id, heldOf(row))
  else if (row.kind === "k") world.keys.set(id, keyOf(row))
}

const heldOf = ({ data, five, four, id, one, three, two, until, version }: Row): Held => {
  const space = data!.indexOf(" ")
  return {
    ...heldFrom(data!.slice(space + 1)),
    id,
    epoch: version!,
    session: data!.slice(0, space),
    call: five ?? undefined,
    batch: one ?? undefined,
    principal: two ?? undefined,
    conversation: four ?? undefined,
    key: three ?? undefined,
    isExpired: until === 1
  }
}

const keyOf = ({ data, id, one, until }: Row): Key => ({
  ...recordOf(data!),
  id,
  reservation: one!,
  until: until ?? undefined
})
