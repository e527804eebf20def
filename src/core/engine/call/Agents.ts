/** Sub-agents: which agent makes a call, for which call it works, and what it inherits from its executor. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { DepthExceeded } from "../../contract/Executor.ts"
import * as ToolContext from "../../contract/ToolContext.ts"
import * as Permissions from "../../gates/Permissions.ts"
import * as ShadowPolicy from "../../gates/ShadowPolicy.ts"
import type { OpenBatch } from "../state/State.ts"
import type { Agent } from "./Call.ts"
import { type Above, Caller, type Engine, type Parent } from "./Engine.ts"

/** How deep sub-agents may be nested. */
export const maxDepth = 8

/** Returns where a sub-agent comes from: its executor, and the call whose handler creates it, if any. */
export const parentOf = (engine: Engine, caller: unknown): Parent => {
  const above = aboveOf(engine, caller)
  if (!(caller instanceof Caller)) return { engine, above, caller: undefined, batch: undefined, clock: undefined }
  const { attempt, isSettled } = caller.call
  return {
    // a handler that keeps an ancestor's executor gains no permissions
    engine: isWithin(caller.engine, engine) ? caller.engine : engine,
    above,
    caller,
    batch: batchFor(engine, caller),
    clock: isSettled || attempt === undefined ? undefined : caller.clock
  }
}

/**
 * Finds the acting call: the one whose handler runs in this fiber, otherwise the one whose handle is used.
 *
 * A handle may be passed anywhere. Once its call is over, it does nothing.
 */
export const callingWith = (handle: Caller | undefined): Effect.Effect<Caller | undefined> =>
  Effect.contextWith((context) => Effect.succeed(callerIn(context, handle)))

/** Like `callingWith`, for a fiber with these services. */
export const callerIn = (context: Context.Context<never>, handle: Caller | undefined): Caller | undefined => {
  if (handle?.isOver === true) return handle
  const caller = Context.get(context, ToolContext.ToolContext)
  return caller instanceof Caller ? caller : handle
}

/** Returns the batch for what a handler starts: that of its call, with any executor of the same tree. */
export const batchFor = (engine: Engine, caller: unknown): OpenBatch | undefined => callerOf(engine, caller)?.state.open

/**
 * Returns what a handler's processes inherit from its call, with any executor of the same tree. Without a call, returns
 * what the sub-agent inherited from its caller.
 */
export const aboveOf = (engine: Engine, caller: unknown): Above | undefined => {
  const live = callerOf(engine, caller)
  return live === undefined ? engine.parent?.above : live.above
}

/** Creates the engine of a sub-agent. */
export const engineOf = (
  parent: Parent,
  name: string,
  policy: Permissions.Permissions["Service"] | undefined,
  own: Pick<Engine, "batches" | "handleFor" | "unique">
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
      shadow: policy === undefined || engine.shadow === undefined
        ? engine.shadow
        : ShadowPolicy.narrowed(engine.shadow, policy),
      pools: engine.pools.fork(),
      leaders: new Map(),
      last: { wave: undefined }
    })
}

/**
 * Returns the agent that a call belongs to: the sub-agent whose handler makes it, if it descends from this executor,
 * otherwise the executor's own agent.
 *
 * A sub-agent that uses an ancestor's executor keeps its own, narrower permissions.
 */
export const agentOf = (engine: Engine, caller: Engine | undefined): Agent =>
  caller !== undefined && isWithin(caller, engine) ? caller : engine

/** Returns the caller if its executor is this one, an ancestor of it or a descendant. */
const callerOf = (engine: Engine, caller: unknown): Caller | undefined =>
  caller instanceof Caller && isSameTree(engine, caller) ? caller : undefined

/** Whether an executor is that of a call, an ancestor of it or a descendant. */
export const isSameTree = (engine: Engine, caller: Caller): boolean =>
  isWithin(caller.engine, engine) || isWithin(engine, caller.engine)

/** Whether `engine` is `other` or descends from it. */
const isWithin = (engine: Engine, other: Engine): boolean =>
  engine === other || (engine.parent !== undefined && isWithin(engine.parent.engine, other))
