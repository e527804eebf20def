/**
 * The open batches of one executor, and their processes.
 *
 * Entering an open batch again joins it; the batch ends when its last scope closes. Batches of a sub-agent belong to
 * its caller's batch: they share its counts and end with it.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as CallLog from "../../../internal/callLog.ts"
import { Crowd } from "../../../internal/crowd.ts"
import type { BatchOptions, ProcessOptions } from "../../contract/Executor.ts"
import type * as TurnBudget from "../../gates/TurnBudget.ts"
import { RuleHistory } from "../../rules/RuleHistory.ts"
import { SharedPast } from "../../rules/SharedPast.ts"
import { StateStoreError } from "../../store/StateStore.ts"
import type { Above, Caller, Engine } from "../call/Engine.ts"
import { tooLate } from "../data/CallEnd.ts"
import type { People } from "../ports/TimedPorts.ts"
import { EventHub } from "../report/EventHub.ts"
import { batchOver, type BatchState, type BatchTree, keep, type OpenBatch, type ProcessState } from "../state/State.ts"

/** The open batches of one executor. */
export class Batches implements BatchTree {
  private readonly engine: Engine
  /** Turn limits for every process of this executor. */
  private readonly turn: Partial<TurnBudget.Limits>
  /** Distinguishes generated ids from those of other executors over the same store. */
  private readonly unique: string
  private readonly open = new Map<string, OpenBatch>()
  /** Keys of closed batches whose counts are kept. */
  private readonly kept = new Set<string>()
  private readonly clock: Clock.Clock
  private lastBatch = 0
  private lastProcess = 0
  /** Why the executor was closed. */
  private over: string | undefined
  /** Batches of sub-agents, which close with these. */
  readonly below = new Set<Batches>()

  get isOver(): boolean {
    return this.over !== undefined
  }

  constructor(engine: Engine, turn: Partial<TurnBudget.Limits>, unique: string) {
    this.engine = engine
    this.clock = Context.get(engine.context, Clock.Clock)
    this.turn = turn
    this.unique = unique
  }

  /**
   * Enters a batch until the scope closes; without an id, a new one.
   *
   * A batch that a handler begins belongs to the batch of its call. A batch that is entered with the handle of a call
   * is left when that call ends, at the latest.
   */
  enter(
    id: string = `batch-${this.unique}-${++this.lastBatch}`,
    caller?: OpenBatch,
    handle?: Caller,
    { keep = false }: BatchOptions = {}
  ): Effect.Effect<OpenBatch, never, Scope.Scope> {
    return Effect.map(
      Effect.acquireRelease(
        Effect.sync(() => {
          const found = this.open.get(id) ?? this.begin(id, caller)
          found.scopes++
          found.isKept ||= keep
          this.open.set(id, found)
          let isIn = true
          const leave = (reason: string) =>
            Effect.suspend(() => {
              if (!isIn) return Effect.void
              isIn = false
              return --found.scopes === 0 && this.open.get(id) === found ? this.leave(id, found, reason) : Effect.void
            })
          const forget = handle?.atEnd(() => void Effect.runForkWith(this.engine.context)(leave(tooLate)))
          return { found, leave: Effect.andThen(Effect.sync(() => forget?.()), leave(closedReason)) }
        }),
        ({ leave }) => leave
      ),
      ({ found }) => found
    )
  }

  /** Returns the open batch with this id, from this executor or an ancestor. */
  find(id: string): OpenBatch | undefined {
    return this.open.get(id) ?? this.engine.parent?.engine.batches().find(id)
  }

  /** Whether a grant covers a call that has no outcome yet, including calls of sub-agents. */
  holds(grant: string): boolean {
    for (const { processes } of this.open.values()) {
      for (const { waves } of processes) for (const wave of waves) if (wave.holds(grant)) return true
    }
    return Array.from(this.below).some((it) => it.holds(grant))
  }

  /** Refuses the calls that a grant covers and that have not started, including calls of sub-agents. */
  revoke(grant: string): void {
    for (const { processes } of this.open.values()) {
      for (const { waves } of processes) for (const wave of waves) wave.revoke(grant)
    }
    for (const it of this.below) it.revoke(grant)
  }

  /** Begins a process. `fires` names the tool that a periodic process exists for. */
  begins(
    open: OpenBatch,
    { approval, id, meta, people, provided = [], session: name, state: before, tools, turn }:
      & Pick<ProcessOptions, "id" | "meta" | "session" | "state" | "approval" | "tools" | "provided">
      & {
        readonly turn?: TurnBudget.Limits | undefined
        /** Who answers approval requests; `"nobody"` means no approver, even if one is inherited. */
        readonly people?: People | "nobody" | undefined
      },
    { above, fires, isForCall = false }: {
      readonly above?: Above | undefined
      readonly fires?: string
      readonly isForCall?: boolean
    }
  ): Effect.Effect<ProcessState> {
    return Effect.map(Clock.currentTimeMillis, (now) => {
      // what a handler begins belongs to the conversation of its call
      const session = above?.session ?? this.engine.sessions.of(name)
      const own = id ?? `process-${this.unique}-${++this.lastProcess}`
      const state: ProcessState = {
        id: own,
        countedAs: before?.process ?? own,
        isNamed: id !== undefined,
        isForCall,
        batch: open.state,
        session,
        open,
        budget: this.engine.turns.begin(turn ?? this.turn, now, this.engine.parent?.clock),
        hub: new EventHub(this.engine.eventBuffer, undefined, above?.hub),
        meta: { ...above?.meta, ...meta },
        people: people === "nobody"
          ? undefined
          : people ?? (above === undefined ? this.engine.approvals : above.people),
        approval: approval ?? this.engine.approval,
        tools: tools === undefined ? undefined : new Set(tools),
        provided: [...provided],
        history: new RuleHistory(open.state.past, session.past, before?.rules),
        fires,
        blocked: new Map(before?.blocked.map(({ because, tool }) => [tool, because])),
        remembers: id === undefined || before !== undefined,
        recalled: new Set(),
        waves: new Crowd(),
        lastWave: 0,
        cancelled: this.over ?? batchOver(open)
      }
      if (before !== undefined) state.budget.take(before.calls)
      state.budget.onGoOn = () => {
        for (const wave of state.waves) wave.resumed()
      }
      state.hub.onReaders = () => batchOver(open) === undefined ? keep(state) : state.hub.end()
      if (state.cancelled !== undefined) state.hub.end()
      return state
    })
  }

  /** Ends a batch, even if it is not open here: cancels its processes and forgets its counts. */
  complete(id: string): Effect.Effect<void> {
    return Effect.suspend(() => {
      const open = this.open.get(id)
      if (open !== undefined) return this.end(id, open, closedReason, open.base === undefined)
      return this.engine.parent === undefined ? this.forget(this.keyOf(id)) : Effect.void
    })
  }

  /** Forgets what is kept of a session for rules. */
  forgetSession(name: string | undefined): Effect.Effect<void> {
    return Effect.suspend(() => {
      const key = this.engine.sessions.forget(name)
      this.engine.conversations?.forget(key, true)
      return this.forget(key)
    })
  }

  /** Closes the executor: cancels every process, including those begun later. */
  close(reason: string): Effect.Effect<void> {
    return Effect.suspend(() => {
      this.over ??= reason
      for (const open of this.open.values()) open.over ??= reason
      return Effect.andThen(
        Effect.forEach(Array.from(this.below), (it) => it.close(reason), { concurrency: "unbounded", discard: true }),
        Effect.forEach(Array.from(this.open), ([id, open]) => this.leave(id, open, reason), {
          concurrency: "unbounded",
          discard: true
        })
      )
    })
  }

  /**
   * Ends a batch whose last scope closed. Its counts are forgotten unless they are to be kept or the batch may be
   * resumed.
   */
  private leave(id: string, open: OpenBatch, reason: string): Effect.Effect<void> {
    return this.end(id, open, reason, open.base === undefined && !open.isKept && !this.isResumable(open))
  }

  private end(id: string, open: OpenBatch, reason: string, forgets: boolean): Effect.Effect<void> {
    this.open.delete(id)
    open.over ??= this.over ?? reason
    // forget it before a batch with the same id can begin
    const forgotten = forgets ? this.forget(open.state.key) : Effect.void
    if (!forgets && open.base === undefined) this.kept.add(open.state.key)
    end(open, this.isOver)
    return forgotten
  }

  /** Asks the store immediately, even if nothing waits for the answer. */
  private forget(key: string): Effect.Effect<void> {
    this.kept.delete(key)
    this.engine.conversations?.forget(key, false)
    return Effect.flatMap(
      this.engine.store.closeBatch(key),
      (it) =>
        it instanceof StateStoreError
          ? CallLog.log("Warn", it.message, it.cause === undefined ? undefined : Cause.die(it.cause), this.engine)
          : Effect.void
    )
  }

  /** Whether unfinished calls of a batch may be resumed elsewhere, over a store that outlives this executor. */
  private isResumable({ isSuspended, processes }: OpenBatch): boolean {
    const { journal, principal, store } = this.engine
    if (journal === undefined || !store.outlives) return false
    // another process has the session
    if (journal.driver.term?.(principal).isOver === true) return true
    return isSuspended === true || Array.from(processes).some((it) => it.waves.size > 0)
  }

  private begin(id: string, caller: OpenBatch | undefined): OpenBatch {
    const base = caller ?? batchOf(this.engine) ?? this.engine.parent?.engine.batches().find(id)
    const key = this.keyOf(id)
    const since = this.kept.delete(key) ? -Infinity : this.clock.currentTimeMillisUnsafe()
    const state: BatchState = base === undefined
      ? { id, key, since, outputChars: 0, fileChars: 0, past: new SharedPast() }
      : { ...base.state, outputChars: 0, fileChars: 0 }
    return { state, base, isKept: false, processes: new Crowd(), scopes: 0, over: undefined }
  }

  /**
   * Returns the batch's key in the store. A sub-agent's key is unique, so a batch that its caller begins later never
   * matches it.
   */
  private keyOf(id: string): string {
    const { parent, principal, unique } = this.engine
    return JSON.stringify(parent === undefined ? [principal, id] : [principal, id, unique])
  }
}

const closedReason = "the batch is closed"

/** Returns the batch of the call that a sub-agent, or its nearest ancestor with one, works for. */
const batchOf = ({ parent }: Engine): OpenBatch | undefined =>
  parent === undefined ? undefined : parent.batch ?? batchOf(parent.engine)

/** Ends the processes of a batch. When the executor closes, waves close: the journal cannot be written later. */
const end = (open: OpenBatch, isExecutorOver: boolean): void => {
  for (const process of Array.from(open.processes)) {
    const reason = process.cancelled ?? open.over!
    for (const wave of Array.from(process.waves)) {
      if (isExecutorOver) wave.close(reason)
      else wave.cancel(reason)
    }
    if (process.waves.size === 0) process.hub.end()
  }
}
