/**
 * Executors for sub-agents, made from a running one: what they share with it,
 * what is their own, and when they end.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import { DepthExceeded } from "../Executor.ts"
import * as Permissions from "../policy/Permissions.ts"
import * as ToolContext from "../ToolContext.ts"
import type { OpenBatch } from "./Batches.ts"
import type { CallState } from "./CallState.ts"
import type { Engine, ProcessState } from "./Engine.ts"
import type { EventHub } from "./EventHub.ts"
import { LiveContext } from "./LiveContext.ts"

/**
 * How deep sub-agents may be nested.
 *
 * @category constants
 * @since 0.1.0
 */
export const maxDepth = 8

/**
 * Where a sub-agent comes from.
 *
 * @category models
 * @since 0.1.0
 */
export interface Parent {
  readonly engine: Engine
  /** What its processes take over from that call. */
  readonly above: Above | undefined
  /** The call whose handler made it. */
  readonly call: CallState | undefined
  /** The batch of that call. */
  readonly batch: OpenBatch | undefined
  /** The time of that call. */
  readonly clock: NestedClock | undefined
}

/**
 * What a process takes over from the call whose handler begins it, itself or by
 * a sub-agent.
 *
 * @category models
 * @since 0.1.0
 */
export interface Above {
  /** Who is told of its calls, too. */
  readonly hub: EventHub
  readonly meta: ProcessState["meta"]
}

/**
 * The time of a call whose handler waits for sub-agents: it stands still while
 * people are asked and none of them executes anything.
 *
 * @category models
 * @since 0.1.0
 */
export class NestedClock {
  private readonly call: CallState
  private readonly attempt: NonNullable<CallState["attempt"]>
  private readonly budget: { readonly ask: (more: number, now: number) => void }
  private asking = 0
  private executing = 0
  private isPaused = false

  constructor(call: CallState, budget: NestedClock["budget"]) {
    this.call = call
    this.attempt = call.attempt!
    this.budget = budget
  }

  /** Epoch milliseconds at which the call is stopped. */
  get deadline(): number {
    return this.attempt.deadline
  }

  /** So many more questions are open below. */
  ask(more: number, now: number): void {
    this.asking += more
    this.budget.ask(more, now)
    this.tick()
  }

  /** So many more handlers execute below. */
  execute(more: number): void {
    this.executing += more
    this.tick()
  }

  private tick(): void {
    const pauses = this.asking > 0 && this.executing === 0
    if (pauses === this.isPaused || this.call.outcome !== undefined) return
    this.isPaused = pauses
    if (pauses) this.attempt.pause()
    else this.attempt.resume()
  }
}

/**
 * Finds where a sub-agent comes from: of a handler, the call that it runs for.
 *
 * @category getters
 * @since 0.1.0
 */
export const parentOf = (engine: Engine, caller: unknown): Parent => {
  const above = aboveOf(engine, caller)
  if (!(caller instanceof LiveContext)) return { engine, above, call: undefined, batch: undefined, clock: undefined }
  const { call, state } = caller
  return {
    // a handler that holds on to an executor further up gets no further by it
    engine: isWithin(caller.engine, engine) ? caller.engine : engine,
    above,
    call,
    batch: batchFor(engine, caller),
    clock: call.outcome === undefined ? call.nested ??= new NestedClock(call, state.budget) : undefined
  }
}

/**
 * Finds for which call something is done: for that of the handler whose fiber does
 * it, else for that whose handle it is done with, wherever that has got to. Once
 * that call is over nothing is done with its handle, by nobody.
 *
 * @category getters
 * @since 0.1.0
 */
export const callingWith = (handle: LiveContext | undefined): Effect.Effect<ToolContext.Service> =>
  handle === undefined
    ? ToolContext.ToolContext
    : Effect.map(
      ToolContext.ToolContext,
      (caller) => handle.isOver || !(caller instanceof LiveContext) ? handle : caller
    )

/**
 * Gives the batch that whatever a handler begins belongs to: that of its call,
 * with every executor of the same tree.
 *
 * @category getters
 * @since 0.1.0
 */
export const batchFor = (engine: Engine, caller: unknown): OpenBatch | undefined => callerOf(engine, caller)?.state.open

/**
 * Gives what whatever a handler begins takes over from its call, with every
 * executor of the same tree; elsewhere, what a sub-agent has from its caller.
 *
 * @category getters
 * @since 0.1.0
 */
export const aboveOf = (engine: Engine, caller: unknown): Above | undefined => {
  const live = callerOf(engine, caller)
  return live === undefined ? engine.parent?.above : { hub: live.calls.events.hub, meta: live.meta }
}

/**
 * Gives the engine of a sub-agent.
 *
 * @category constructors
 * @since 0.1.0
 */
export const engineOf = (
  parent: Parent,
  name: string,
  policy: Permissions.Permissions["Service"] | undefined,
  own: Pick<Engine, "service" | "batches" | "unique">
): Effect.Effect<Engine, DepthExceeded> => {
  const { engine } = parent
  const agentPath = [...engine.agentPath, name]
  return agentPath.length > maxDepth
    ? Effect.fail(new DepthExceeded({ max: maxDepth, agentPath }))
    : Effect.succeed({
      ...engine,
      ...own,
      parent,
      agentPath,
      permissions: policy === undefined ? engine.permissions : Permissions.both(engine.permissions, policy),
      pools: engine.pools.fork(),
      leaders: new Map()
    })
}

/**
 * Gives the engine whose agent a call belongs to: its executor's, or that of the
 * handler that makes it, where that is a sub-agent of this very executor. So
 * nobody gets further than their own agent by holding on to another executor.
 *
 * @category getters
 * @since 0.1.0
 */
export const agentOf = (engine: Engine, caller: Engine | undefined): Pick<Engine, "permissions" | "agentPath"> => {
  return caller !== undefined && isWithin(caller, engine) ? caller : engine
}

// Utilities

/** The call whose handler uses an executor of its own tree. */
const callerOf = (engine: Engine, caller: unknown): LiveContext | undefined =>
  caller instanceof LiveContext && (isWithin(caller.engine, engine) || isWithin(engine, caller.engine))
    ? caller
    : undefined

/** Whether an engine is another one, or a sub-agent's below it. */
const isWithin = (engine: Engine, other: Engine): boolean =>
  engine === other || (engine.parent !== undefined && isWithin(engine.parent.engine, other))
