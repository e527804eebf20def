/** What the calls of one executor work with: its gates, ports and settings, and where it comes from. Resolved once. */
import type * as Context from "effect/Context"
import type { Service as Executor } from "../../contract/Executor.ts"
import type { Dedupe } from "../../gates/Dedupe.ts"
import type { GatesFor } from "../../gates/HostGates.ts"
import type { Pools } from "../../gates/Pools.ts"
import type { Rules } from "../../gates/Rules.ts"
import type { ParentClock, TurnBudget } from "../../gates/TurnBudget.ts"
import type { OutputPolicy } from "../../output/OutputPolicy.ts"
import type { RegisteredTool, ToolHandlers } from "../../vocabulary/ToolHandlers.ts"
import type { RetryingStore } from "../ports/RetryingStore.ts"
import type { Artifacts, Kept, People, Reviewing } from "../ports/TimedPorts.ts"
import type { EventHub } from "../report/EventHub.ts"
import type { JournalWriter } from "../report/JournalWriter.ts"
import type { Telemetry } from "../report/Telemetry.ts"
import type { CheckedSettings } from "../state/CheckedSettings.ts"
import type { Conversations } from "../state/Conversations.ts"
import type { Orphans } from "../state/Orphans.ts"
import type { Sessions } from "../state/Sessions.ts"
import type { BatchTree, OpenBatch, ProcessState } from "../state/State.ts"
import type { Agent, Call } from "./Call.ts"

/** The gates that calls pass; the permissions are their agent's. */
export interface Gates {
  readonly handlers: ToolHandlers["Service"]
  readonly rules: Rules["Service"]
  readonly dedupe: Dedupe["Service"]
  readonly pools: Pools["Service"]
  /** The host's own gates, and the executor's gates of the same kind. */
  readonly gates: GatesFor
  /** Gives each process its budget. */
  readonly turns: TurnBudget["Service"]
}

/** The services outside the executor. */
export interface Ports {
  readonly store: RetryingStore
  /** The journal, if there is one. */
  readonly journal: JournalWriter | undefined
  /** Who answers approval requests, if there are approvers. */
  readonly approvals: People | undefined
  /** Who looks at calls before approvers do, if there is a reviewer. */
  readonly reviewer: Reviewing | undefined
  readonly artifacts: Artifacts | undefined
  /** Where the content of files is kept before it is overwritten. */
  readonly checkpoints: Kept | undefined
}

/** The gates, ports and settings of one executor, and where it comes from. */
export interface Engine
  extends Agent, Gates, Ports, Omit<CheckedSettings, "output" | "telemetry" | "telemetryContent">
{
  readonly output: OutputPolicy
  readonly orphans: Orphans
  /** Spans and metrics, if they are on. */
  readonly telemetry: Telemetry | undefined
  /** Revoked grants and when they expire. Calls that they cover may still be waiting. */
  readonly revoked: Map<string, number | undefined>
  /** The calls that hold a dedupe key, by reservation: others may join them. */
  readonly leaders: Map<string, Call>
  /** The last wave, kept so that its kinds of objects survive collections (see `Wave`). */
  readonly last: { wave: object | undefined }
  /** Where a sub-agent comes from. */
  readonly parent: Parent | undefined
  /** The sessions that its processes, and those of its sub-agents, belong to. */
  readonly sessions: Sessions
  /** What users said, and where values come from; absent if nothing asks for it. */
  readonly conversations: Conversations | undefined
  /** Differs between executors over the same store. */
  readonly unique: string
  /** Services for handlers, cached by the caller's services: most waves come from the same callers. */
  readonly services: WeakMap<Context.Context<never>, WeakMap<RegisteredTool, Context.Context<never>>>
  /** The services of the executor's layer, for work that does not belong to a caller. */
  readonly context: Context.Context<never>
  /** The open batches. */
  readonly batches: () => BatchTree
  /** Returns the handle of a running call: an executor that acts for the call and ends with it. */
  readonly handleFor: (caller: Caller) => Executor
}

/** Where a sub-agent comes from. */
export interface Parent {
  readonly engine: Engine
  /** What its processes inherit from that call. */
  readonly above: Above | undefined
  /** The call whose handler made it. */
  readonly caller: Caller | undefined
  /** The batch of that call. */
  readonly batch: OpenBatch | undefined
  /** The clock of that call. */
  readonly clock: ParentClock | undefined
}

/** What a process inherits from the call whose handler begins it, directly or through a sub-agent. */
export interface Above {
  /** Also receives the events of its calls. */
  readonly hub: EventHub
  readonly meta: ProcessState["meta"]
  readonly session: ProcessState["session"]
  /** Who answers approval requests. When they are asked is each process's own setting. */
  readonly people: ProcessState["people"]
}

/** A running call, as seen by code that makes calls for it. */
export abstract class Caller {
  abstract readonly engine: Engine
  abstract readonly call: Call
  abstract readonly state: ProcessState
  /** What its processes inherit. */
  abstract readonly above: Above
  /** The call's clock. */
  abstract readonly clock: ParentClock
  /** Work for the call is too late. */
  abstract readonly isOver: boolean
  /** The call stays open because its host stops, and so do the calls that it makes. */
  abstract readonly isSuspending: boolean
  /**
   * Runs the callback when the call has its outcome, or immediately if it has. Returns a function that unregisters it.
   */
  abstract atEnd(run: () => void): () => void
}
