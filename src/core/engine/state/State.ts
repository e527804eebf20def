/** The state of batches and processes, shared by their calls. */
import type * as Effect from "effect/Effect"
import { clip } from "../../../internal/clip.ts"
import type { Crowd } from "../../../internal/crowd.ts"
import type { RuleScope } from "../../gates/Rules.ts"
import type { Budget } from "../../gates/TurnBudget.ts"
import type { TurnState } from "../../gates/TurnState.ts"
import type { RuleHistory } from "../../rules/RuleHistory.ts"
import type { RuleSet } from "../../rules/RuleSet.ts"
import type { SharedPast } from "../../rules/SharedPast.ts"
import type * as Journal from "../../store/Journal.ts"
import type { ToolOutcome } from "../../vocabulary/ToolOutcome.ts"
import { cancelled, denied, type End } from "../data/CallEnd.ts"
import type { RetryingStore } from "../ports/RetryingStore.ts"
import type { People } from "../ports/TimedPorts.ts"
import type { EventHub } from "../report/EventHub.ts"

/** The state of a batch, shared by its processes. */
export interface BatchState {
  readonly id: string
  /** Its key in the store; unique across principals. */
  readonly key: string
  /** Epoch milliseconds since which its calls are counted here. */
  readonly since: number
  /** Characters of model text that the batch's outputs have used. */
  outputChars: number
  /** Characters of files, as base64, that the model was shown. */
  fileChars: number
  /** What rules remember of it. */
  readonly past: SharedPast
}

/** A session: the conversation that processes belong to. */
export interface SessionState {
  /** Its key in the store; unique across principals. */
  readonly key: string
  /** Its name, if the host gave it one. */
  readonly name: string | undefined
  /** What rules remember of it. */
  readonly past: SharedPast
}

/** An open batch. */
export interface OpenBatch {
  readonly state: BatchState
  /** The batch that it belongs to: of the same executor, or of the caller if this is a sub-agent's. */
  readonly base: OpenBatch | undefined
  /** Some of its recorded calls may be resumed elsewhere, so its limits are not forgotten. */
  isSuspended?: true
  /** The code that entered it continues it after this executor, or forgets it. */
  isKept: boolean
  /** Processes with waves under way or event readers. Only these are notified when it ends. */
  readonly processes: Crowd<ProcessState>
  /** Number of open scopes that entered it. */
  scopes: number
  /** Why it ended. */
  over: string | undefined
}

/** Makes a batch, and those that it belongs to, keep their counts in the store when they close. */
export const suspend = (open: OpenBatch): void => {
  for (let it: OpenBatch | undefined = open; it !== undefined; it = it.base) it.isSuspended = true
}

/** The open batches of an executor, as the rest of its tree sees them. */
export interface BatchTree {
  /** The open batch with an id, of this executor or of a parent. */
  readonly find: (id: string) => OpenBatch | undefined
  readonly isOver: boolean
  /** The batches of sub-agents; they end with these. */
  readonly below: Set<{ readonly close: (reason: string) => Effect.Effect<void> }>
  /** Whether a call that this grant let through has no outcome yet, sub-agents' calls included. */
  readonly holds: (grant: string) => boolean
  /** Refuses calls that this grant let through and that have not started, sub-agents' calls included. */
  readonly revoke: (grant: string) => void
}

/** A wave under way, as its process sees it. */
export interface UnderWay {
  /** Ends every call that has no outcome yet; the wave then ends normally. */
  readonly cancel: (reason: string) => void
  /** Ends every call immediately, even those whose turn has not come. */
  readonly close: (reason: string) => void
  /** Ends calls by their ids, for good. */
  readonly drop: (reason: string, isOf: (id: string) => boolean) => void
  /** Whether a call that this grant let through has no outcome yet. */
  readonly holds: (grant: string) => boolean
  /** Refuses calls that this grant let through and that have not started. */
  readonly revoke: (grant: string) => void
  /** Whether it waits for nothing but approvals. */
  readonly rests: () => boolean
  /** Lets the turn's clock run again after it paused for approval requests. */
  readonly resumed: () => void
}

export interface ProcessState {
  readonly id: string
  /** Its id for limits: that of the process that it continues. */
  readonly countedAs: string
  /** The host chose the id, so it is the same after a crash. */
  readonly isNamed: boolean
  /** The handler of a call began it, or a sub-agent that works for one. */
  readonly isForCall: boolean
  readonly batch: BatchState
  readonly session: SessionState
  /** The same batch, for entering and leaving it. */
  readonly open: OpenBatch
  readonly budget: Budget
  readonly hub: EventHub
  readonly meta: Readonly<Record<string, unknown>>
  /** The approvers of its calls, if any. */
  readonly people: People | undefined
  /** When approval is requested. */
  readonly approval: "perCall" | "upfront"
  /** The tools available to it; absent means all. */
  readonly tools: ReadonlySet<string> | undefined
  /** Tools that the provider of its model executes. */
  readonly provided: ReadonlyArray<string>
  /** What rules remember of it. */
  readonly history: RuleHistory
  /** The tool that the process fires, if it belongs to a `Periodic` rule. */
  readonly fires: string | undefined
  /** Tools that may not be called again, and why. */
  readonly blocked: Map<string, string>
  /** No earlier waves are left to load. */
  remembers: boolean
  /** Keys of recorded calls that were continued in it. */
  readonly recalled: Set<string>
  /** Waves under way. */
  readonly waves: Crowd<UnderWay>
  /** Number of waves so far. */
  lastWave: number
  /** Why the process was cancelled; once set it stays. */
  cancelled: string | undefined
}

/** What a process remembers, as plain data. */
export const record = (
  { blocked, budget, countedAs, history }: ProcessState,
  { countsInProcesses }: RuleSet
): TurnState => ({
  rules: history.state,
  ...countsInProcesses ? { process: countedAs } : {},
  blocked: Array.from(blocked, ([tool, because]) => ({ tool, because })),
  calls: budget.calls
})

/** Why a process runs nothing more: it was cancelled, or its batch ended. */
export const over = (process: ProcessState): string | undefined => process.cancelled ?? batchOver(process.open)

/** Why a batch, or one that it belongs to, ended. */
export const batchOver = ({ base, over }: OpenBatch): string | undefined =>
  over ?? (base === undefined ? undefined : batchOver(base))

/** Where the rules count for a process. */
export const scopeOf = (
  { batch, countedAs, session }: ProcessState,
  { principal }: { readonly principal: string }
): RuleScope => ({ batch: batch.key, session: session.key, process: countedAs, principal })

/** Whether a process may use a tool. */
export const hasTool = ({ tools }: ProcessState, name: string): boolean => tools === undefined || tools.has(name)

/** Lists a process in its batches while it must be notified of their end. */
export const keep = (process: ProcessState): void => {
  const isAlive = process.waves.size > 0 || process.hub.isRead
  for (let open: OpenBatch | undefined = process.open; open !== undefined; open = open.base) {
    if (isAlive) open.processes.add(process)
    else open.processes.delete(process)
  }
}

/** Gates 1 and 2: whether the process was cancelled or its turn has ended. */
export const turnEnd = (process: ProcessState, isCounted: boolean, now: number): End | undefined => {
  const reason = over(process)
  return reason === undefined ? denied(process.budget.check(now, isCounted)) : cancelled(reason)
}

/** Whether the start of a recorded call must be counted here. After a true answer it counts as counted. */
export const recounts = (
  { batch }: ProcessState,
  store: Pick<RetryingStore, "recounts" | "session">,
  { at, key, session }: Pick<Journal.CallEntry, "at" | "key" | "session">
): boolean => !(session === store.session && at >= batch.since) && store.recounts(batch.key, key)

/** Blocks a tool for the rest of the process, if the outcome of its call requires that. */
export const block = ({ blocked }: ProcessState, outcome: ToolOutcome): void => {
  const isFinal = (outcome._tag === "TimedOut" || outcome._tag === "Failed") && !outcome.retryable
  if (!isFinal || outcome.startedAt === undefined) return
  const what = outcome._tag === "TimedOut" ? "timed out" : "failed"
  blocked.set(outcome.tool, `call ${clip(outcome.callId, 100)} ${what} and is not worth a retry in this turn`)
}

/** Gate 6: whether the tool is blocked for the rest of the process. */
export const blockedEnd = ({ blocked }: ProcessState, tool: string): End | undefined => {
  if (blocked.size === 0) return undefined
  const because = blocked.get(tool)
  return because === undefined ? undefined : denied({ _tag: "ToolBlocked", because })
}
