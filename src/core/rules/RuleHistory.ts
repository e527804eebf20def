/**
 * What rules remember of a process: which tools succeeded, and which success was the last in input order. Nothing in it
 * grows with the number of calls.
 */
import * as Schema from "effect/Schema"
import type { SharedScope } from "./RuleKind.ts"
import * as RuleSet from "./RuleSet.ts"
import type { Place, SharedPast } from "./SharedPast.ts"
import { ToolRule } from "./ToolRule.ts"

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/** What rules remember of a process. */
export const Remembered = Schema.Struct({
  /** Tools that succeeded in the process. */
  succeeded: Schema.Array(Schema.String),
  /** Tools that succeeded in any process of its batch. */
  succeededInBatch: Schema.Array(Schema.String),
  /** The last success in input order, where some rule asks for it. */
  last: Schema.optionalKey(Schema.Struct({
    tool: Schema.String,
    /** Where its output leads by the rules: only these tools may be next. */
    routes: Schema.Array(Schema.Struct({ rule: ToolRule, tools: Schema.Array(Schema.String) }))
  })),
  /** An `ExitLoop` tool succeeded. */
  exitWanted: Schema.Boolean,
  /** Waves at whose end a required tool held up the end of the loop. */
  held: Count,
  /** It was held up often enough: the required tools are waited for no longer. */
  letThrough: Schema.Boolean
})

/** What rules remember of a process. */
export type Remembered = typeof Remembered.Type

/** The history of one process, as it goes on. */
export class RuleHistory implements RuleSet.History {
  readonly succeeded = new Set<string>()
  /** What the processes of its batch, and of its session, remember together. */
  readonly shared: Readonly<Record<SharedScope, SharedPast>>
  /** What the host reports of before the process, in every scope. */
  private readonly earlier: { readonly succeeded: Set<string>; last: RuleSet.Success | undefined } = {
    succeeded: new Set(),
    last: undefined
  }
  exitWanted = false
  /** Waves at whose end a required tool held up the end of the loop. */
  private held = 0
  /** It was held up often enough. */
  private letThrough = false
  /** Oldest first; of waves that ended only what a later one may look back at. */
  private waves: ReadonlyArray<WaveHistory> = []

  /** Goes on from what another one has remembered, if that is given. */
  constructor(batch: SharedPast, session: SharedPast, remembered?: Remembered) {
    this.shared = { batch, session }
    if (remembered === undefined) return
    const { exitWanted, held, last, letThrough, succeeded, succeededInBatch } = remembered
    for (const tool of succeeded) this.succeeded.add(tool)
    for (const tool of succeededInBatch) batch.succeeded.add(tool)
    this.exitWanted = exitWanted
    this.held = held
    this.letThrough = letThrough
    if (last !== undefined) this.waves = [{ successes: [{ ...last, index: 0 }], ended: true, place: undefined }]
  }

  /** What a wave that begins now is judged by, as plain data. */
  get state(): Remembered {
    const { exitWanted, held, last, letThrough } = this
    return {
      succeeded: Array.from(this.succeeded),
      succeededInBatch: Array.from(this.shared.batch.succeeded),
      ...(last === undefined ? {} : { last: { tool: last.tool, routes: last.routes } }),
      exitWanted,
      held,
      letThrough
    }
  }

  get batch(): RuleSet.Past {
    return this.since(this.shared.batch)
  }

  get session(): RuleSet.Past {
    return this.since(this.shared.session)
  }

  /** Notes successes from before the process that no store remembers, in order. Noting them again changes nothing. */
  recall(successes: ReadonlyArray<RuleSet.Success>): void {
    const { earlier, succeeded } = this
    for (const success of successes) {
      succeeded.add(success.tool)
      earlier.succeeded.add(success.tool)
      earlier.last = success
    }
  }

  /** A wave begins: in input order it comes after those before it. It has a place if rules look beyond its process. */
  begin(place?: Place): WaveHistory {
    const wave: WaveHistory = { successes: [], ended: false, place }
    this.waves = [...this.waves, wave]
    if (place !== undefined) {
      this.shared.batch.begin(place)
      this.shared.session.begin(place)
    }
    return wave
  }

  /** A wave has ended. */
  end(wave: WaveHistory): void {
    wave.ended = true
    if (wave.place !== undefined) {
      this.shared.batch.end(wave.place)
      this.shared.session.end(wave.place)
    }
    wave.successes.splice(0, wave.successes.length - 1)
    this.waves = this.waves.filter((it, index) => {
      if (!it.ended) return true
      const next = this.waves[index + 1]
      return it.successes.length > 0 && !(next !== undefined && next.ended && next.successes.length > 0)
    })
  }

  /** Notes the success of a call at its place in its wave; `routes` is where it led, if that is known. */
  record(
    set: RuleSet.RuleSet,
    wave: WaveHistory,
    index: number,
    tool: string,
    output: unknown,
    routes?: RuleSet.Success["routes"]
  ): void {
    this.succeeded.add(tool)
    this.shared.batch.succeeded.add(tool)
    if (set.remembers.length > 0) this.shared.session.succeeded.add(tool)
    if (set.forTool(tool).exits) this.exitWanted = true
    if (!set.looksBack) return
    const { place, successes } = wave
    const success = { ...routes === undefined ? RuleSet.success(set, tool, output) : { tool, routes }, index }
    let at = successes.length
    while (at > 0 && successes[at - 1]!.index > index) at--
    successes.splice(at, 0, success)
    if (place !== undefined) { for (const scope of set.remembers) this.shared[scope].note({ ...success, place }) }
  }

  /** Notes what succeeded before a wave that has begun, in order. */
  goOn(set: RuleSet.RuleSet, wave: WaveHistory, successes: ReadonlyArray<RuleSet.Success>): void {
    const before: WaveHistory = { successes: [], ended: true, place: undefined }
    for (const [index, { routes, tool }] of successes.entries()) {
      this.record(set, before, index, tool, undefined, routes)
    }
    before.successes.splice(0, before.successes.length - 1)
    const place = this.waves.indexOf(wave)
    if (before.successes.length > 0) this.waves = [...this.waves.slice(0, place), before, ...this.waves.slice(place)]
  }

  /** The history as a call at that place in input order sees it. */
  before(set: RuleSet.RuleSet, wave: WaveHistory, index: number): RuleSet.History {
    if (!set.looksBack) return this
    const { exitWanted, succeeded } = this
    const seen = (past: SharedPast) => this.since(wave.place === undefined ? past : past.before(wave.place, index))
    return {
      exitWanted,
      succeeded,
      last: this.lastBefore(wave, index),
      batch: seen(this.shared.batch),
      session: seen(this.shared.session)
    }
  }

  get last(): RuleSet.Success | undefined {
    const wave = this.waves.findLast((it) => it.successes.length > 0)
    return wave?.successes.at(-1) ?? this.earlier.last
  }

  /** Tells whether the loop is over: an exit tool succeeded, and what is required first did, or has had its attempts. */
  shouldExit(set: RuleSet.RuleSet): boolean {
    return this.exitWanted && (this.letThrough || RuleSet.exitPending(set, this).length === 0)
  }

  /**
   * A wave has ended: tells whether the agent goes on. Required before exit, then exit, then who `asked` (a
   * `ContinueLoop` tool, a heartbeat; without heartbeats every wave with a call).
   */
  conclude(
    set: RuleSet.RuleSet,
    wave: { readonly asked: boolean; readonly heartbeats: boolean; readonly attempts: number }
  ): boolean {
    const pending = RuleSet.exitPending(set, this).length > 0
    const wouldEnd = this.exitWanted || (wave.heartbeats && !wave.asked)
    if (!pending || !wouldEnd) return !this.shouldExit(set) && (wave.asked || pending)
    this.letThrough = this.held >= wave.attempts
    if (!this.letThrough) this.held++
    return !this.letThrough
  }

  private lastBefore(wave: WaveHistory, index: number): RuleSet.Success | undefined {
    const own = wave.successes.findLast((it) => it.index < index)
    if (own !== undefined) return own
    return this.waves.slice(0, this.waves.indexOf(wave)).findLast((it) => it.successes.length > 0)?.successes.at(-1) ??
      this.earlier.last
  }

  /** A past that others share, after what was before the process. */
  private since(past: RuleSet.Past): RuleSet.Past {
    const { last, succeeded } = this.earlier
    return last === undefined ? past : {
      succeeded: new Set([...succeeded, ...past.succeeded]),
      last: past.last ?? last
    }
  }
}

/** The successes of one wave, by their places. */
export interface WaveHistory {
  readonly successes: Array<RuleSet.Success & { readonly index: number }>
  ended: boolean
  /** Its place among those of other processes; absent if no rule looks beyond the process. */
  readonly place: Place | undefined
}
