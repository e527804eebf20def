/** The conversations of an executor, and what rules remember across their processes. */
import { type Place, SharedPast } from "../../rules/SharedPast.ts"
import type { SessionState } from "./State.ts"

/** More sessions than these are not kept here; the store has them all. */
const maxSessions = 1_000

/** The sessions of an executor and its sub-agents. */
export class Sessions {
  private readonly principal: string
  private readonly unique: string
  private readonly all = new Map<string, SessionState>()
  private lastWave = 0

  constructor(principal: string, unique: string) {
    this.principal = principal
    this.unique = unique
  }

  /** Gives a session of the principal. Without a name, all that the principal does is one. */
  of(name: string | undefined): SessionState {
    const key = this.keyOf(name)
    const found = this.all.get(key) ?? { key, name, past: new SharedPast() }
    this.all.delete(key)
    this.all.set(key, found)
    if (this.all.size > maxSessions) this.all.delete(this.all.keys().next().value!)
    return found
  }

  /** Forgets a session here; gives its key in the store. */
  forget(name: string | undefined): string {
    const key = this.keyOf(name)
    this.all.delete(key)
    return key
  }

  /** The place of a wave that begins now. */
  placeOf(at: number): Place {
    return { at, serial: ++this.lastWave, by: this.unique }
  }

  private keyOf(name: string | undefined): string {
    // no batch has such a key
    return `session ${JSON.stringify(name === undefined ? [this.principal] : [this.principal, name])}`
  }
}
