/** The waves in memory: those that run, and those that have ended recently. */
import { hashOf } from "../../core/vocabulary/FileChange.ts"
import type { ToolCall } from "../../core/vocabulary/ToolCall.ts"
import type { LiveLog } from "../live/LiveLog.ts"
import { type Owner, toPrincipal } from "../users/Principals.ts"
import { Stirs } from "../work/Stirs.ts"
import { ServedWave } from "./ServedWave.ts"
import { WaveLog } from "./WaveLog.ts"
import type * as WaveOptions from "./WaveOptions.ts"
import type { SubmittedWave } from "./WaveStore.ts"

export class KnownWaves {
  private readonly bounds: WaveOptions.Checked
  /** Prefix of the ids of logs, which no other start of the server has. */
  private readonly life: string
  private readonly live: LiveLog["Service"]
  private readonly waves = new Map<string, ServedWave>()
  private readonly sessions = new Map<string, Map<string, ServedWave>>()
  private logs = 0
  /** Tells when something changes. */
  readonly stirs = new Stirs()

  constructor(bounds: WaveOptions.Checked, life: string, live: LiveLog["Service"]) {
    this.bounds = bounds
    this.life = life
    this.live = live
  }

  /** All of them, oldest first. */
  get all(): ReadonlyArray<ServedWave> {
    return Array.from(this.waves.values())
  }

  get(owner: Owner, name: string): ServedWave | undefined {
    return this.waves.get(keyOf(owner, name))
  }

  /** The waves of a session. */
  of(owner: Owner): ReadonlyArray<ServedWave> {
    return Array.from(this.sessions.get(toPrincipal(owner))?.values() ?? [])
  }

  /** Running waves of all sessions. */
  running(): ReadonlyArray<ServedWave> {
    return this.all.filter((it) => it.status === "running")
  }

  /** Running waves of a session. */
  runningOf(owner: Owner): ReadonlyArray<ServedWave> {
    return this.of(owner).filter((it) => it.status === "running")
  }

  /** A wave with a log. What an ended wave has to say never changes, so its log always has the same id. */
  served(submitted: SubmittedWave, calls: ReadonlyArray<ToolCall>, hasEnded = false): ServedWave {
    const { keptChars, keptEvents } = this.bounds
    const id = hasEnded
      ? hashOf(keyOf(submitted, submitted.wave)).slice(0, 16)
      : `${this.life}.${++this.logs}`
    const log = new WaveLog(id, { events: keptEvents, chars: keptChars })
    return new ServedWave(submitted, calls, log, this.live, this.stirs)
  }

  /** Adds a wave as the latest one, in place of an earlier one of its name. */
  add(wave: ServedWave): void {
    const { submitted } = wave
    const key = keyOf(submitted, submitted.wave)
    this.waves.delete(key)
    this.waves.set(key, wave)
    const principal = toPrincipal(submitted)
    const session = this.sessions.get(principal)
    if (session === undefined) this.sessions.set(principal, new Map([[submitted.wave, wave]]))
    else session.set(submitted.wave, wave)
  }

  /** Removes a wave, unless another one has taken its place. */
  remove(wave: ServedWave): void {
    const { submitted } = wave
    const key = keyOf(submitted, submitted.wave)
    if (this.waves.get(key) !== wave) return
    this.waves.delete(key)
    const principal = toPrincipal(submitted)
    const session = this.sessions.get(principal)
    session?.delete(submitted.wave)
    if (session?.size === 0) this.sessions.delete(principal)
  }

  /** Evicts ended waves that are too many or too large; the store still has them. */
  evict(): void {
    const { listedChars, maxListed } = this.bounds
    let [count, chars] = [0, 0]
    for (const wave of this.all.toReversed()) {
      if (wave.end === undefined) continue
      count++
      chars += wave.end.chars
      if (count > maxListed || chars > listedChars) this.remove(wave)
    }
  }

  /** Evicts waves that have been over for a while. */
  evictOld(now: number): void {
    for (const wave of this.all) {
      if (wave.overSince !== undefined && wave.overSince + this.bounds.listed < now) this.remove(wave)
    }
  }
}

const keyOf = ({ session, user }: Owner, wave: string): string => JSON.stringify([user, session, wave])
