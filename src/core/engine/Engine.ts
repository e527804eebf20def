/**
 * What the calls of one executor work with: its gates, its ports, its settings, and where it comes from. Looked up
 * once.
 */
import type * as Context from "effect/Context"
import type { Service as Executor } from "../contract/Executor.ts"
import type { Dedupe } from "../gates/Dedupe.ts"
import type { GatesFor } from "../gates/HostGates.ts"
import type { Pools } from "../gates/Pools.ts"
import type { Rules } from "../gates/Rules.ts"
import type { ParentClock, TurnBudget } from "../gates/TurnBudget.ts"
import type { OutputPolicy } from "../output/OutputPolicy.ts"
import type { RegisteredTool, ToolHandlers } from "../vocabulary/ToolHandlers.ts"
import type { Agent, Call } from "./Call.ts"
import type { CheckedSettings } from "./CheckedSettings.ts"
import type { Orphans } from "./Orphans.ts"
import type { EventHub } from "./report/EventHub.ts"
import type { JournalWriter } from "./report/JournalWriter.ts"
import type { Telemetry } from "./report/Telemetry.ts"
import type { RetryingStore } from "./RetryingStore.ts"
import type { BatchTree, OpenBatch, ProcessState } from "./State.ts"
import type { Artifacts, Kept, People } from "./TimedPorts.ts"

/** The gates that calls pass; the permissions are their agent's. */
export interface Gates {
  readonly handlers: ToolHandlers["Service"]
  readonly rules: Rules["Service"]
  readonly dedupe: Dedupe["Service"]
  readonly pools: Pools["Service"]
  /** The host's own, and those of the executor that are made like them. */
  readonly gates: GatesFor
  /** Gives each process its budget. */
  readonly turns: TurnBudget["Service"]
}

/** What is not the executor's own. */
export interface Ports {
  readonly store: RetryingStore
  /** What is on record before it happens; absent: nothing. */
  readonly journal: JournalWriter | undefined
  /** Who is asked; absent: nobody is there. */
  readonly approvals: People | undefined
  readonly artifacts: Artifacts | undefined
  /** Where files go before they are written to. */
  readonly checkpoints: Kept | undefined
}

/** The gates, ports and settings of one executor, and where it comes from. */
export interface Engine
  extends Agent, Gates, Ports, Omit<CheckedSettings, "output" | "telemetry" | "telemetryContent">
{
  readonly output: OutputPolicy
  readonly orphans: Orphans
  /** Spans and metrics; absent: off. */
  readonly telemetry: Telemetry | undefined
  /** Grants that were taken back, and when they expire: calls that they let through may be waiting. */
  readonly revoked: Map<string, number | undefined>
  /** The calls that hold a dedupe key, by reservation: others may join them. */
  readonly leaders: Map<string, Call>
  /** Where a sub-agent comes from. */
  readonly parent: Parent | undefined
  /** No other executor over the same store has this text. */
  readonly unique: string
  /** The services that handlers find, by the caller's: most waves come from the same callers. */
  readonly services: WeakMap<Context.Context<never>, WeakMap<RegisteredTool, Context.Context<never>>>
  /** The services of the executor's layer, for what runs beside a caller. */
  readonly context: Context.Context<never>
  /** The open batches. */
  readonly batches: () => BatchTree
  /** The handle of a running call: an executor that acts for the call, and ends with it. */
  readonly handleFor: (caller: Caller) => Executor
}

/** Where a sub-agent comes from. */
export interface Parent {
  readonly engine: Engine
  /** What its processes take over from that call. */
  readonly above: Above | undefined
  /** The call whose handler made it. */
  readonly caller: Caller | undefined
  /** The batch of that call. */
  readonly batch: OpenBatch | undefined
  /** The time of that call. */
  readonly clock: ParentClock | undefined
}

/** What a process takes over from the call whose handler begins it, itself or by a sub-agent. */
export interface Above {
  /** Who is told of its calls, too. */
  readonly hub: EventHub
  readonly meta: ProcessState["meta"]
  /** Who is asked; when, each process says for itself. */
  readonly people: ProcessState["people"]
}

/** A running call, as those see it who make calls for it. */
export abstract class Caller {
  abstract readonly engine: Engine
  abstract readonly call: Call
  abstract readonly state: ProcessState
  /** What its processes take over. */
  abstract readonly above: Above
  /** Its time. */
  abstract readonly clock: ParentClock
  /** What is done for the call comes too late. */
  abstract readonly isOver: boolean
  /** Calls back when the call has its outcome, at once if it has; gives how to be left out again. */
  abstract atEnd(run: () => void): () => void
}
