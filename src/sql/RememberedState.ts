/**
 * The part of the state that this process has changed last. Decisions on it are written without having been
 * loaded, if no other process has changed it meanwhile: the statement that writes it makes sure of that. So a process
 * that is alone with its principals and batches asks the database once for each change.
 *
 * Only what takes, starts or settles is decided on it. What refuses is decided on what was loaded, since it writes
 * nothing that could be guarded.
 */
import type { Needs } from "./StateRows.ts"
import { type Options, World } from "./StateWorld.ts"

/** What is taken for so without having been loaded. */
export interface Taken {
  /** Keys that are not kept. */
  readonly absent: ReadonlyArray<string>
  /** Reservations whose leases are not over. */
  readonly alive: ReadonlyArray<string>
}

export class RememberedState {
  private readonly options: Options
  private state: World
  /** Keys that were kept, and are likely to be there still. */
  private readonly kept = new Set<string>()
  /** So many groups are loaded before the next one is decided on what is remembered. */
  private pause = 0
  private nextPause = 1

  constructor(options: Options) {
    this.options = options
    this.state = new World(options)
    this.state.isRemembered = true
  }

  get world(): World {
    return this.state
  }

  /** What has to be taken for so where operations need that; `undefined` where they have to be loaded. */
  take({ begins, calls, expired, keys, reservations, scopes, sessions }: Needs): Taken | undefined {
    if (expired || sessions.size > 0 || calls.size > 0) return undefined
    if (this.pause > 0) {
      this.pause--
      return undefined
    }
    const { state } = this
    for (const id of scopes) if (!state.scopes.has(id) && !begins.has(id)) return undefined
    for (const id of reservations) {
      const it = state.held.get(id)
      if (it === undefined || (it.key !== undefined && !state.keys.has(it.key))) return undefined
      for (const scope of [it.batch, it.principal, it.conversation]) {
        if (scope !== undefined && !state.scopes.has(scope)) return undefined
      }
    }
    for (const id of keys) if (this.kept.has(id)) return undefined
    return { absent: Array.from(keys).filter((id) => !state.keys.has(id)), alive: Array.from(reservations) }
  }

  /** The decisions are written. */
  succeeded(): void {
    this.nextPause = 1
    this.remember(this.state)
  }

  /** The decisions are not written, or that is unknown. */
  failed(): void {
    this.forget()
    this.pause = this.nextPause
    this.nextPause = Math.min(2 * this.nextPause, longestPause)
  }

  /** Drops all decisions. */
  forget(): void {
    this.state = new World(this.options)
    this.state.isRemembered = true
  }

  /** What was loaded and, as far as it was changed, written. */
  remember(world: World): void {
    const { kept, state } = this
    for (const [id, it] of world.scopes) {
      if (it.isDirty) it.version = Math.max(it.version, 0) + 1
      else if (it.version < 0) continue
      it.isDirty = false
      state.scopes.set(id, it)
    }
    for (const id of world.changed.held) if (!world.held.has(id)) state.held.delete(id)
    for (const [id, it] of world.held) {
      if (it.isExpired) state.held.delete(id)
      else state.held.set(id, it)
    }
    for (const id of world.changed.keys) {
      if (world.keys.has(id)) continue
      state.keys.delete(id)
      kept.delete(id)
    }
    for (const [id, key] of world.keys) {
      if (key.until === undefined && state.held.get(key.reservation)?.key === id) {
        state.keys.set(id, key)
        continue
      }
      state.keys.delete(id)
      kept.add(id)
    }
    world.changed.held.clear()
    world.changed.keys.clear()
    if (kept.size > maxKept) kept.clear()
    if (state.scopes.size > maxScopes || state.held.size > maxHeld) this.forget()
  }
}

const longestPause = 64

const maxKept = 10_000

const maxScopes = 1_000

const maxHeld = 10_000
