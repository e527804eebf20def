/**
 * A work of a server, which is a wave or an operation in memory: from its submission until nothing of it runs.
 *
 * Its phase is one value, which only `Work` changes. `Moves` says which phase may follow which: what it does not have
 * does not compile.
 *
 * | phase     | `begin`   | `attach`, `detach` | `decide`  | `leave`, `cancel` | `close`                    | `keep` |
 * |-----------|-----------|--------------------|-----------|-------------------|----------------------------|--------|
 * | `Arrived` | `Running` |                    |           | wanted            | `Over`: refused            |        |
 * | `Running` |           | with a process     | `Closing` | wanted            | `Over`: left               |        |
 * | `Closing` |           |                    |           | wanted            | `Over`: as it was decided  |        |
 * | `Over`    |           |                    |           |                   |                            | stored |
 *
 * What is empty does nothing. While it is `Running`, `delay` says why it does not continue for now.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import type { WaveInfo } from "../api/ApiModels.ts"
import type { Unavailable } from "../api/ApiProblems.ts"
import type { Owner } from "../users/Principals.ts"
import type { Stirs } from "./Stirs.ts"

type Stuck = NonNullable<WaveInfo["stuck"]>

/** What runs a work. */
export interface Process {
  readonly cancel: (reason: string) => Effect.Effect<void>
}

/** Where a work is. */
export type Phase<P, End> =
  /** It is being stored, and whoever submitted it waits. Nothing has run. */
  | { readonly _tag: "Arrived"; readonly wanted: Wanted }
  /** It is stored, and runs or is about to. */
  | {
    readonly _tag: "Running"
    readonly process: P | undefined
    /** Why it cannot continue for now. */
    readonly stuck?: Stuck | undefined
    readonly wanted: Wanted
  }
  /** Its outcome is known; what it holds is being released. */
  | { readonly _tag: "Closing"; readonly outcome: Outcome<End>; readonly wanted: Wanted }
  /** Nothing of it runs. What continues it is another work of its name. */
  | { readonly _tag: "Over"; readonly outcome: Outcome<End> | Undecided; readonly at: number }

interface Moves {
  readonly Arrived: "Arrived" | "Running" | "Over"
  readonly Running: "Running" | "Closing" | "Over"
  readonly Closing: "Closing" | "Over"
  readonly Over: "Over"
}

/** What others want of a work while it is not over. */
export interface Wanted {
  /** The reason of a cancellation of the whole work. */
  readonly cancelled?: string | undefined
  readonly leaving?: Leaving | undefined
}

/**
 * Why a work does not continue by itself: its session was closed while it waited for people; it was stopped; another
 * process has its session. A later one of these replaces an earlier one.
 */
export type Leaving = "closed" | "stopped" | "lost"

/** What became of a work. */
export type Outcome<End> =
  /** It has its end. If that could not be stored, the next try stores it. */
  | { readonly _tag: "Ended"; readonly end: End; readonly isStored: boolean }
  /** It could not continue, for a reason that is known and stored or for none. */
  | { readonly _tag: "Failed"; readonly stuck?: Stuck | undefined }

/** What became of a work that was closed before its outcome was known. */
export type Undecided =
  /** Whoever opens its session next continues it. */
  | { readonly _tag: "Left"; readonly by: Leaving }
  /** It was never stored. */
  | { readonly _tag: "Refused" }

/**
 * What a forgotten work has left in the store. `waiting`: only approvals are missing. `stopped`: it can continue at once.
 * `failed`: it could not continue.
 */
export type Unfinished = "nothing" | "waiting" | "stopped" | "failed"

type PhaseOf<P, End, Tag> = Extract<Phase<P, End>, { readonly _tag: Tag }>

export abstract class Work<P extends Process, End> {
  abstract readonly owner: Owner
  abstract readonly log: { close(): void }
  protected readonly stirs: Stirs
  private now: Phase<P, End>
  private readonly ended = Deferred.makeUnsafe<void>()
  /** Waits until it is over. */
  readonly over: Effect.Effect<void> = Deferred.await(this.ended)

  constructor(stirs: Stirs, phase: PhaseOf<P, End, "Arrived" | "Running">) {
    // it is a key of fibers: a hash of all that it holds would take long, or no end
    Equal.byReferenceUnsafe(this)
    this.stirs = stirs
    this.now = phase
  }

  /** Approval requests of its calls are pending: only then it may soon wait for nothing else. */
  abstract readonly isAsking: boolean
  /** Whether a process waits for nothing but approvals. */
  protected abstract waits(process: P): boolean
  /** It has a new phase. Who waits for its end goes on after this. */
  protected entered?(phase: Phase<P, End>, from: Phase<P, End>): void

  get phase(): Phase<P, End> {
    return this.now
  }

  /** What runs it now. */
  get process(): P | undefined {
    return this.now._tag === "Running" ? this.now.process : undefined
  }

  get isOver(): boolean {
    return this.now._tag === "Over"
  }

  /** Its outcome, once that is known. */
  get outcome(): Outcome<End> | Undecided | undefined {
    return this.now._tag === "Closing" || this.now._tag === "Over" ? this.now.outcome : undefined
  }

  /** Why it cannot continue, or could not. */
  get stuck(): Stuck | undefined {
    if (this.now._tag === "Running") return this.now.stuck
    return this.outcome?._tag === "Failed" ? this.outcome.stuck : undefined
  }

  get cancelled(): string | undefined {
    return this.now._tag === "Over" ? undefined : this.now.wanted.cancelled
  }

  get leaving(): Leaving | undefined {
    const { now } = this
    if (now._tag !== "Over") return now.wanted.leaving
    return now.outcome._tag === "Left" ? now.outcome.by : undefined
  }

  /** Another process has its session: nothing of it is written or told. */
  get isLost(): boolean {
    return this.leaving === "lost"
  }

  /** Whether it runs and waits for nothing but approvals. */
  get isWaiting(): boolean {
    return this.process !== undefined && this.waits(this.process)
  }

  /** What it has left in the store, once it is over. */
  get remains(): Unfinished {
    const { outcome } = this
    switch (outcome?._tag) {
      case "Ended":
        return outcome.isStored ? "nothing" : "failed"
      case "Left":
        return outcome.by === "closed" ? "waiting" : "stopped"
      case "Failed":
      case "Refused":
      case undefined:
        return "failed"
    }
  }

  /** When it is tried again if it could not continue; otherwise infinite. */
  retryAt(now: number): number {
    if (this.remains !== "failed") return Infinity
    const { retryAt = 0 } = this.stuck ?? {}
    return retryAt > now ? retryAt : now + retryMillis
  }

  /** It is stored. */
  begin(): void {
    if (this.now._tag === "Arrived") this.move(this.now, { ...this.now, _tag: "Running", process: undefined })
  }

  /** A process runs it from now on. A cancellation that came before reaches it now. */
  attach(process: P): Effect.Effect<void> {
    return Effect.suspend(() => {
      if (this.now._tag === "Running") this.move(this.now, { ...this.now, process })
      return this.cancelled === undefined ? Effect.void : process.cancel(this.cancelled)
    })
  }

  detach(): void {
    if (this.now._tag === "Running") this.move(this.now, { ...this.now, process: undefined })
  }

  /** It cannot continue for now, or does again. */
  delay(stuck: Stuck | undefined): void {
    if (this.now._tag === "Running" && this.now.stuck !== stuck) this.move(this.now, { ...this.now, stuck })
  }

  /** Its outcome is known. */
  decide(outcome: Outcome<End>): void {
    if (this.now._tag === "Running") this.move(this.now, { _tag: "Closing", outcome, wanted: this.now.wanted })
  }

  /** It will not continue by itself. */
  leave(how: Leaving): void {
    const { leaving, now } = this
    if (now._tag === "Over" || (leaving !== undefined && order.indexOf(leaving) >= order.indexOf(how))) return
    this.want(now, { ...now.wanted, leaving: how })
    // readers connect to the process that has it
    if (how === "lost") this.log.close()
  }

  /** Cancels it as a whole, now or as soon as a process runs it. */
  cancel(reason: string): Effect.Effect<void> {
    return Effect.suspend(() => {
      const { now } = this
      if (now._tag !== "Over") this.want(now, { ...now.wanted, cancelled: this.cancelled ?? reason })
      return this.process?.cancel(reason) ?? Effect.void
    })
  }

  /** Nothing of it runs any more. */
  close(at: number): void {
    const { now } = this
    switch (now._tag) {
      case "Arrived":
        return this.move(now, { _tag: "Over", outcome: { _tag: "Refused" }, at })
      case "Running":
        return this.move(now, { _tag: "Over", outcome: { _tag: "Left", by: now.wanted.leaving ?? "stopped" }, at })
      case "Closing":
        return this.move(now, { _tag: "Over", outcome: now.outcome, at })
      case "Over":
    }
  }

  /** Its end is stored after all. */
  keep(): void {
    const { now, outcome } = this
    if (now._tag === "Over" && outcome?._tag === "Ended") {
      this.move(now, { ...now, outcome: { ...outcome, isStored: true } })
    }
  }

  /** Restores one that nothing runs in this process: it has ended, or is not tried yet. */
  protected restoreOver(outcome: Outcome<End>, at: number): void {
    const { now } = this
    if (now._tag === "Arrived" || now._tag === "Running") this.move(now, { _tag: "Over", outcome, at })
  }

  private want(now: PhaseOf<P, End, "Arrived" | "Closing" | "Running">, wanted: Wanted): void {
    this.move(now, { ...now, wanted })
  }

  /** The only place where the phase changes. */
  private move<From extends keyof Moves>(from: PhaseOf<P, End, From>, to: PhaseOf<P, End, Moves[From]>): void {
    this.now = to
    if (to._tag === "Over") this.log.close()
    this.entered?.(to, from)
    if (to._tag !== "Over" || from._tag === "Over") return
    Deferred.doneUnsafe(this.ended, Effect.void)
    this.stirs.stir(this.owner)
  }
}

const order: ReadonlyArray<Leaving> = ["closed", "stopped", "lost"]

/** After this time, what could not continue is tried again, or after a longer one. */
export const retryMillis = 60_000

/** What all of these have left together. */
export const unfinished = (left: ReadonlyArray<Unfinished>): Unfinished =>
  severity.findLast((it) => left.includes(it)) ?? "nothing"

const severity: ReadonlyArray<Unfinished> = ["nothing", "waiting", "failed", "stopped"]

/** The works of a server of one kind, as the host of their sessions has them; see `SessionHost`. */
export interface Works {
  /** Continues what has no end in the store and does not run here. */
  readonly open: (owner: Owner) => Effect.Effect<void, Unavailable>
  readonly of: (owner: Owner) => ReadonlyArray<Work<Process, unknown>>
  /** Waits until something may have changed since this was called. */
  readonly changed: (owner: Owner) => Effect.Effect<void>
  /** The session is about to leave: its approval requests will be suspended. */
  readonly leaves?: ((owner: Owner) => void) | undefined
  /** Stops works, as if the server stopped. */
  halt(owner: Owner, works: ReadonlyArray<Work<Process, unknown>>): Effect.Effect<void>
  /** Interrupts a work at once. */
  interrupt(work: Work<Process, unknown>): Effect.Effect<void>
  /** Leaves nothing of a session in memory. */
  readonly drop: (owner: Owner) => Effect.Effect<void>
}
