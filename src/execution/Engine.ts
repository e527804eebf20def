/**
 * What the stages of a call work with: the services of an executor, looked up
 * once, and the state of the process the call belongs to.
 *
 * @since 0.1.0
 */
import type * as Context from "effect/Context"
import type { Service as Executor } from "../Executor.ts"
import type { ArtifactStore } from "../output/ArtifactStore.ts"
import type { Checkpoints } from "../output/Checkpoints.ts"
import type { OutputPolicy } from "../output/OutputPolicy.ts"
import type { Dedupe } from "../policy/Dedupe.ts"
import type { Guard } from "../policy/Guards.ts"
import type { Permissions } from "../policy/Permissions.ts"
import type { Pools } from "../policy/Pools.ts"
import type { RuleHistory } from "../policy/RuleHistory.ts"
import type { Rules } from "../policy/Rules.ts"
import type { Budget, TurnBudget } from "../policy/TurnBudget.ts"
import type { ToolHandlers } from "../ToolHandlers.ts"
import type { Batches, OpenBatch } from "./Batches.ts"
import type { CallState } from "./CallState.ts"
import type { CheckedSettings } from "./CheckedSettings.ts"
import type { EventHub } from "./EventHub.ts"
import type { Parent } from "./Forks.ts"
import type { LiveContext } from "./LiveContext.ts"
import type { Orphans } from "./Orphans.ts"
import type { PatientStore } from "./PatientStore.ts"
import type { People } from "./Ports.ts"
import type { Wave } from "./Wave.ts"

/**
 * The services and settings of one executor.
 *
 * @category models
 * @since 0.1.0
 */
export interface Engine extends Omit<CheckedSettings, "output"> {
  readonly handlers: ToolHandlers["Service"]
  readonly rules: Rules["Service"]
  readonly permissions: Permissions["Service"]
  /** Who is asked; absent: nobody is there. */
  readonly approvals: People | undefined
  /** Grants that were taken back while calls they let through were waiting. */
  readonly revoked: Set<string>
  readonly dedupe: Dedupe["Service"]
  readonly pools: Pools["Service"]
  readonly store: PatientStore
  readonly artifacts: ArtifactStore["Service"] | undefined
  /** Where files go before they are written to. */
  readonly checkpoints: Checkpoints["Service"] | undefined
  readonly output: OutputPolicy
  readonly orphans: Orphans
  readonly guards: ReadonlyArray<Guard>
  /** Names of the sub-agents from the root down to this one; empty: the root. */
  readonly agentPath: ReadonlyArray<string>
  /** Where a sub-agent comes from. */
  readonly parent: Parent | undefined
  /** No other executor over the same store has this text. */
  readonly unique: string
  readonly turns: TurnBudget["Service"]
  /** The calls that hold a dedupe key, by reservation: others may join them. */
  readonly leaders: Map<string, CallState>
  /** The services of the executor's layer, for what runs beside a caller. */
  readonly context: Context.Context<never>
  /** The open batches. */
  readonly batches: () => Batches
  /** The service itself; for the handler of a call, a handle that ends with the call. */
  readonly service: (caller?: LiveContext) => Executor
}

/**
 * The state of a batch that its processes share.
 *
 * @category models
 * @since 0.1.0
 */
export interface BatchState {
  readonly id: string
  /** What the store knows it by: of two principals no batch is the same. */
  readonly key: string
  /** Characters of model text that the batch's outputs have used. */
  outputChars: number
  /** Characters of files, as base64, that a model was shown. */
  fileChars: number
  /** Tools that succeeded in any of its processes. */
  readonly succeeded: Set<string>
}

/**
 * The state of one process.
 *
 * @category models
 * @since 0.1.0
 */
export interface ProcessState {
  readonly id: string
  readonly batch: BatchState
  /** The same batch, as it is entered and left. */
  readonly open: OpenBatch
  readonly budget: Budget
  readonly hub: EventHub
  readonly meta: Readonly<Record<string, unknown>>
  /** What rules remember of it. */
  readonly history: RuleHistory
  /** The tool that the process is there for, if it is a periodic one. */
  readonly fires: string | undefined
  /** Tools that are not to be called again, and why. */
  readonly blocked: Map<string, string>
  /** Waves under way. */
  readonly waves: Set<Wave>
  /** How many waves there were. */
  lastWave: number
  /** Why the process was cancelled; once set it stays. */
  cancelled: string | undefined
  /** The batch is over: when the last wave has ended, so have the events. */
  closed: boolean
}
