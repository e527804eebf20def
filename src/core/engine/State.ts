/** The state of batches and processes, as the calls in them share it. */
import type * as Effect from "effect/Effect"
import { clip } from "../../internal/clip.ts"
import type { Budget } from "../gates/TurnBudget.ts"
import type { TurnState } from "../gates/TurnState.ts"
import type { RuleHistory } from "../rules/RuleHistory.ts"
import type * as Journal from "../store/Journal.ts"
import type { ToolOutcome } from "../vocabulary/ToolOutcome.ts"
import { cancelled, denied, type End } from "./CallEnd.ts"
import type { EventHub } from "./report/EventHub.ts"
import type { RetryingStore } from "./RetryingStore.ts"
import type { People } from "./TimedPorts.ts"

/** The state of a batch that its processes share. */
export interface BatchState {
  readonly id: string
  /** What the store knows it by: of two principals no batch is the same. */
  readonly key: string
  /** Since when, in epoch milliseconds, its calls are counted here. */
  readonly since: number
  /** Characters of model text that the batch's outputs have used. */
  outputChars: number
  /** Characters of files, as base64, that a model was shown. */
  fileChars: number
  /** Tools that succeeded in any of its processes. */
  readonly succeeded: Set<string>
}

/** An open batch. */
export interface OpenBatch {
  readonly state: BatchState
  /** The batch that it belongs to: its own executor's, or the caller's of a sub-agent. */
  readonly base: OpenBatch | undefined
  /** Calls of it are on record that somebody may resume elsewhere: what they are limited by is not forgotten. */
  isSuspended?: true
  /** Whoever entered it goes on with it after this executor, or forgets it. */
  isKept: boolean
  /** Those that have waves under way, or readers of their events: the others need not be told of its end. */
  readonly processes: Set<ProcessState>
  /** Open scopes that entered it. */
  scopes: number
  /** Why it is over. */
  over: string | undefined
}

/** Has a batch, and those that it belongs to, keep what it is counted by when it closes. */
export const suspend = (open: OpenBatch): void => {
  for (let it: OpenBatch | undefined = open; it !== undefined; it = it.base) it.isSuspended = true
}

/** The open batches of an executor, as others of its tree see them. */
export interface BatchTree {
  /** The open batch of an id, this executor's or one further up. */
  readonly find: (id: string) => OpenBatch | undefined
  readonly isOver: boolean
  /** Those of sub-agents: they end with these. */
  readonly below: Set<{ readonly close: (reason: string) => Effect.Effect<void> }>
  /** Whether a grant let a call through that has no outcome yet, sub-agents' calls included. */
  readonly holds: (grant: string) => boolean
  /** Refuses the calls that a grant let through and that have not started, sub-agents' calls included. */
  readonly revoke: (grant: string) => void
}

/** A wave under way, as its process sees it. */
export interface UnderWay {
  /** Ends every call that has no outcome yet; the wave goes on to its end. */
  readonly cancel: (reason: string) => void
  /** Ends every call at once, also those whose turn has not come: nothing goes on. */
  readonly close: (reason: string) => void
  /** Ends the calls of an id. */
  readonly cancelId: (id: string, reason: string) => void
  /** Whether a grant let a call through that has no outcome yet. */
  readonly holds: (grant: string) => boolean
  /** Refuses the calls that a grant let through and that have not started. */
  readonly revoke: (grant: string) => void
  /** The turn's clock, which stood still while people were asked, may go on. */
  readonly resumed: () => void
}

/** The state of one process. */
export interface ProcessState {
  readonly id: string
  /** The host has chosen the id: after a crash it is the same. */
  readonly isNamed: boolean
  readonly batch: BatchState
  /** The same batch, as it is entered and left. */
  readonly open: OpenBatch
  readonly budget: Budget
  readonly hub: EventHub
  readonly meta: Readonly<Record<string, unknown>>
  /** Who is asked about its calls; absent: nobody is there. */
  readonly people: People | undefined
  /** When they are asked. */
  readonly approval: "perCall" | "upfront"
  /** The tools that there are for it; absent: all. */
  readonly tools: ReadonlySet<string> | undefined
  /** Tools that the provider of its model executes. */
  readonly provided: ReadonlyArray<string>
  /** What rules remember of it. */
  readonly history: RuleHistory
  /** The tool that the process is there for, if it is a periodic one. */
  readonly fires: string | undefined
  /** Tools that are not to be called again, and why. */
  readonly blocked: Map<string, string>
  /** It has what it is to remember of waves before its first one, or there is no such thing. */
  remembers: boolean
  /** Calls on record that have been gone on with in it, by their keys. */
  readonly recalled: Set<string>
  /** Waves under way. */
  readonly waves: Set<UnderWay>
  /** How many waves there were. */
  lastWave: number
  /** Why the process was cancelled; once set it stays. */
  cancelled: string | undefined
}

/** What a process remembers, as plain data. */
export const record = ({ blocked, budget, history }: ProcessState): TurnState => ({
  rules: history.state,
  blocked: Array.from(blocked, ([tool, because]) => ({ tool, because })),
  calls: budget.calls
})

/** Why nothing of a process is run any more: it was cancelled, or its batch is over. */
export const over = (process: ProcessState): string | undefined => process.cancelled ?? batchOver(process.open)

/** Why a batch is over, itself or one that it belongs to. */
export const batchOver = ({ base, over }: OpenBatch): string | undefined =>
  over ?? (base === undefined ? undefined : batchOver(base))

/** Whether there is a tool for a process. */
export const hasTool = ({ tools }: ProcessState, name: string): boolean => tools === undefined || tools.has(name)

/** Notes a process with its batches as long as it has to be told of their end. */
export const keep = (process: ProcessState): void => {
  const isAlive = process.waves.size > 0 || process.hub.isRead
  for (let open: OpenBatch | undefined = process.open; open !== undefined; open = open.base) {
    if (isAlive) open.processes.add(process)
    else open.processes.delete(process)
  }
}

/** Gates 1 and 2: is the process cancelled, is its turn over? */
export const turnEnd = (process: ProcessState, isCounted: boolean, now: number): End | undefined => {
  const reason = over(process)
  return reason === undefined ? denied(process.budget.check(now, isCounted)) : cancelled(reason)
}

/** Tells whether what a call on record used up as it started has to be counted here; from then on it is. */
export const recounts = (
  { batch }: ProcessState,
  store: Pick<RetryingStore, "recounts" | "session">,
  { at, key, session }: Pick<Journal.CallEntry, "at" | "key" | "session">
): boolean => !(session === store.session && at >= batch.since) && store.recounts(batch.key, key)

/** Blocks a tool for the rest of the process, if the end of its call says so. */
export const block = ({ blocked }: ProcessState, outcome: ToolOutcome): void => {
  const isFinal = (outcome._tag === "TimedOut" || outcome._tag === "Failed") && !outcome.retryable
  if (!isFinal || outcome.startedAt === undefined) return
  const what = outcome._tag === "TimedOut" ? "timed out" : "failed"
  blocked.set(outcome.tool, `call ${clip(outcome.callId, 100)} ${what} and is not worth a retry in this turn`)
}

/** Gate 6: is the tool blocked for the rest of the process? */
export const blockedEnd = ({ blocked }: ProcessState, tool: string): End | undefined => {
  if (blocked.size === 0) return undefined
  const because = blocked.get(tool)
  return because === undefined ? undefined : denied({ _tag: "ToolBlocked", because })
}
