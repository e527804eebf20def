/** The state of a running script: of the current simulated process, and of the scenario across crashes. */
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import type { ToolProcess } from "../core/contract/ToolProcess.ts"
import type * as ToolExecutor from "../core/engine/ToolExecutor.ts"
import type { Approvals } from "../core/gates/Approvals.ts"
import type { TurnState } from "../core/gates/TurnState.ts"
import type { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import type { Records } from "./RecordStorage.ts"
import type { Step } from "./Scenario.ts"
import type { Difference, WaveReport } from "./ScenarioReport.ts"
import type { ConnectedProcess } from "./ScenarioTransport.ts"
import type { ScriptedAgent } from "./ScriptedAgent.ts"
import type { CrashPoint, DeadProcess, SimulatedProcess } from "./SimulatedProcess.ts"

/** A process that runs waves of the script. */
export interface Player {
  readonly executor: ToolExecutor.Service
  readonly process: ToolProcess
  readonly connected: ConnectedProcess
}

/** What the script submitted last and resumes from: a wave with its turn state, or an agent. */
export type Submitted =
  | {
    readonly _tag: "Wave"
    readonly batch: string
    readonly principal: string | undefined
    readonly wave: NonNullable<Step["wave"]>
    readonly state: TurnState
  }
  | {
    readonly _tag: "Agent"
    readonly agent: ScriptedAgent
    readonly session: string
    readonly answered: { count: number }
  }

/** What the runner remembers across crashes. */
export class ScenarioLog {
  readonly classes: ReadonlyMap<string, string>
  /** Handler starts by tool. */
  readonly runs: ReadonlyMap<string, number>
  readonly onUnknown: "tell" | "ask" | undefined
  readonly waves: Array<WaveReport> = []
  readonly differences: Array<Difference> = []
  submitted: Submitted | undefined
  readonly gone: Array<DeadProcess> = []

  constructor(options: Pick<ScenarioLog, "classes" | "runs" | "onUnknown">) {
    this.classes = options.classes
    this.runs = options.runs
    this.onUnknown = options.onUnknown
  }
}

export interface Pending {
  readonly at: string | undefined
  readonly run: (player: Player | undefined, leave: Effect.Effect<void>) => Effect.Effect<void>
}

export interface Parts {
  readonly log: ScenarioLog
  readonly simulated: SimulatedProcess | undefined
  readonly records: Records | undefined
  readonly approvals: Approvals["Service"] | undefined
  readonly scope: Scope.Scope
  readonly build: (principal: string) => Effect.Effect<ToolExecutor.Service, ConfigurationError>
  readonly connect: (executor: ToolExecutor.Service, process: ToolProcess) => Effect.Effect<ConnectedProcess>
}

/** The progress of a script in one simulated process. */
export class ScriptProgress {
  readonly parts: Parts
  readonly log: ScenarioLog
  readonly executors = new Map<string, ToolExecutor.Service>()
  /** By principal and id. */
  readonly batches = new Map<string, ToolExecutor.Batch>()
  /** The latest of each batch. */
  readonly players = new Map<string, Player>()
  current: Player | undefined
  pending: Array<Pending> = []
  /** When the process crashes during the next wave. */
  crash: CrashPoint | "at" | undefined
  /** Reports the running wave after a crash. */
  dying: (() => WaveReport) | undefined

  constructor(parts: Parts) {
    this.parts = parts
    this.log = parts.log
  }
}

export const keyOf = (id: string, principal: string = usual): string => JSON.stringify([principal, id])

export const executorOf = Effect.fnUntraced(function*(progress: ScriptProgress, principal: string = usual) {
  const known = progress.executors.get(principal)
  if (known !== undefined) return known
  const executor = yield* progress.parts.build(principal)
  progress.executors.set(principal, executor)
  return executor
})

/** Starts a process in a batch, optionally from an earlier turn state. */
export const begin = Effect.fnUntraced(
  function*(progress: ScriptProgress, id: string, principal?: string, state?: TurnState) {
    const { connect, scope } = progress.parts
    const key = keyOf(id, principal)
    const executor = yield* executorOf(progress, principal)
    let batch = progress.batches.get(key)
    if (batch === undefined) {
      batch = yield* Scope.provide(executor.batch(id), scope)
      progress.batches.set(key, batch)
    }
    const process = yield* state === undefined ? batch.process() : batch.process({ state })
    const player: Player = { executor, process, connected: yield* connect(executor, process) }
    progress.players.set(key, player)
    return player
  }
)

/** The process of the previous step, or a first one. */
export const current = Effect.fnUntraced(function*(progress: ScriptProgress) {
  return progress.current ??= yield* begin(progress, "batch")
})

const usual = "default"
