/**
 * What the steps of a script work on: what a life of the process has, which is gone with
 * it, and what whoever plays the script knows over all lives.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Scope from "effect/Scope"
import type { ToolProcess } from "../core/contract/ToolProcess.ts"
import type * as ToolExecutor from "../core/engine/ToolExecutor.ts"
import type { Approvals } from "../core/gates/Approvals.ts"
import type { TurnState } from "../core/gates/TurnState.ts"
import type { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import type { Gone, Life, Moment } from "./Life.ts"
import type { Kept } from "./Place.ts"
import type { Difference, WaveReport } from "./Report.ts"
import type { Step } from "./Scenario.ts"
import type { ScriptedAgent } from "./ScriptedAgent.ts"
import type * as Way from "./Way.ts"

/**
 * A process whose waves the script runs.
 *
 * @category models
 * @since 0.1.0
 */
export interface Player {
  readonly executor: ToolExecutor.Service
  readonly process: ToolProcess
  readonly entered: Way.Entered
}

/**
 * What was handed over last, and is handed over again to be resumed: a wave, with what
 * its process remembered of those before, or an agent with the rest of its script.
 *
 * @category models
 * @since 0.1.0
 */
export type Handed =
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

/**
 * What is known over all lives.
 *
 * @category models
 * @since 0.1.0
 */
export class Host {
  readonly classes: ReadonlyMap<string, string>
  /** How often the handler of each tool has begun. */
  readonly runs: ReadonlyMap<string, number>
  readonly onUnknown: "tell" | "ask" | undefined
  readonly waves: Array<WaveReport> = []
  readonly differences: Array<Difference> = []
  handed: Handed | undefined
  readonly gone: Array<Gone> = []

  constructor(options: Pick<Host, "classes" | "runs" | "onUnknown">) {
    this.classes = options.classes
    this.runs = options.runs
    this.onUnknown = options.onUnknown
  }
}

/**
 * Something that is to happen during the wave that follows.
 *
 * @category models
 * @since 0.1.0
 */
export interface Pending {
  readonly at: string | undefined
  readonly run: (player: Player | undefined, leave: Effect.Effect<void>) => Effect.Effect<void>
}

/**
 * What a life is made of.
 *
 * @category models
 * @since 0.1.0
 */
export interface Parts {
  readonly host: Host
  readonly life: Life | undefined
  readonly kept: Kept | undefined
  readonly approvals: Approvals["Service"] | undefined
  readonly scope: Scope.Scope
  readonly build: (principal: string) => Effect.Effect<ToolExecutor.Service, ConfigurationError>
  readonly enter: (executor: ToolExecutor.Service, process: ToolProcess) => Effect.Effect<Way.Entered>
}

/**
 * One life of the process.
 *
 * @category models
 * @since 0.1.0
 */
export class Stage {
  readonly parts: Parts
  readonly host: Host
  readonly executors = new Map<string, ToolExecutor.Service>()
  /** By principal and id. */
  readonly batches = new Map<string, ToolExecutor.Batch>()
  /** The last of each batch. */
  readonly players = new Map<string, Player>()
  current: Player | undefined
  pending: Array<Pending> = []
  /** When it dies during what runs next. */
  crash: Moment | "at" | undefined
  /** Reports what is under way once it has died. */
  dying: (() => WaveReport) | undefined

  constructor(parts: Parts) {
    this.parts = parts
    this.host = parts.host
  }
}

/**
 * Identifies a batch, or a process in it, of a principal.
 *
 * @category keys
 * @since 0.1.0
 */
export const keyOf = (id: string, principal: string = usual): string => JSON.stringify([principal, id])

/**
 * The executor of a principal.
 *
 * @category accessors
 * @since 0.1.0
 */
export const executorOf = Effect.fnUntraced(function*(stage: Stage, principal: string = usual) {
  const known = stage.executors.get(principal)
  if (known !== undefined) return known
  const executor = yield* stage.parts.build(principal)
  stage.executors.set(principal, executor)
  return executor
})

/**
 * Begins a process in a batch, from what an earlier one remembered if that is given.
 *
 * @category constructors
 * @since 0.1.0
 */
export const begin = Effect.fnUntraced(function*(stage: Stage, id: string, principal?: string, state?: TurnState) {
  const { enter, scope } = stage.parts
  const key = keyOf(id, principal)
  const executor = yield* executorOf(stage, principal)
  let batch = stage.batches.get(key)
  if (batch === undefined) {
    batch = yield* Scope.provide(executor.batch(id), scope)
    stage.batches.set(key, batch)
  }
  const process = yield* state === undefined ? batch.process() : batch.process({ state })
  const player: Player = { executor, process, entered: yield* enter(executor, process) }
  stage.players.set(key, player)
  return player
})

/**
 * The process of the step before, or the first.
 *
 * @category accessors
 * @since 0.1.0
 */
export const current = Effect.fnUntraced(function*(stage: Stage) {
  return stage.current ??= yield* begin(stage, "batch")
})

// Utilities

const usual = "default"
