/**
 * By which agent a call is made, and for which call: sub-agents, and what they share
 * with the executor they come from.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { DepthExceeded } from "../contract/Executor.ts"
import * as ToolContext from "../contract/ToolContext.ts"
import * as Permissions from "../gates/Permissions.ts"
import type { Agent } from "./Call.ts"
import { type Above, Caller, type Engine, type Parent } from "./Engine.ts"
import type { OpenBatch } from "./State.ts"

/** How deep sub-agents may be nested. */
export const maxDepth = 8

/** Finds where a sub-agent comes from: of a handler, the call that it runs for. */
export const parentOf = (engine: Engine, caller: unknown): Parent => {
  const above = aboveOf(engine, caller)
  if (!(caller instanceof Caller)) return { engine, above, caller: undefined, batch: undefined, clock: undefined }
  const { attempt, isSettled } = caller.call
  return {
    // holding on to an executor further up gives a handler no further rights
    engine: isWithin(caller.engine, engine) ? caller.engine : engine,
    above,
    caller,
    batch: batchFor(engine, caller),
    clock: isSettled || attempt === undefined ? undefined : caller.clock
  }
}

/**
 * Finds the call that something is done for: that of the handler whose fiber does
 * it, or else the call whose handle is used, wherever the handle has got to. Once that
 * call is over nobody can do anything with its handle.
 */
export const callingWith = (handle: Caller | undefined): Effect.Effect<Caller | undefined> =>
  Effect.contextWith((context) => Effect.succeed(callerIn(context, handle)))

/** The same, of a fiber that has these services. */
export const callerIn = (context: Context.Context<never>, handle: Caller | undefined): Caller | undefined => {
  if (handle?.isOver === true) return handle
  const caller = Context.get(context, ToolContext.ToolContext)
  return caller instanceof Caller ? caller : handle
}

/**
 * Gives the batch that whatever a handler begins belongs to: that of its call,
 * with every executor of the same tree.
 */
export const batchFor = (engine: Engine, caller: unknown): OpenBatch | undefined => callerOf(engine, caller)?.state.open

/**
 * Gives what whatever a handler begins takes over from its call, with every
 * executor of the same tree; elsewhere, what a sub-agent has from its caller.
 */
export const aboveOf = (engine: Engine, caller: unknown): Above | undefined => {
  const live = callerOf(engine, caller)
  return live === undefined ? engine.parent?.above : live.above
}

/** Gives the engine of a sub-agent. */
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
      pools: engine.pools.fork(),
      leaders: new Map()
    })
}

/**
 * Gives the engine whose agent a call belongs to: its executor's, or that of the
 * handler that makes it, where that is a sub-agent of this very executor. So holding
 * on to another executor gives nobody more than their own agent may do.
 */
export const agentOf = (engine: Engine, caller: Engine | undefined): Agent =>
  caller !== undefined && isWithin(caller, engine) ? caller : engine

// Utilities

/** The call whose handler uses an executor of its own tree. */
const callerOf = (engine: Engine, caller: unknown): Caller | undefined =>
  caller instanceof Caller && (isWithin(caller.engine, engine) || isWithin(engine, caller.engine))
    ? caller
    : undefined

/** Whether an engine is another one, or a sub-agent's below it. */
const isWithin = (engine: Engine, other: Engine): boolean =>
  engine === other || (engine.parent !== undefined && isWithin(engine.parent.engine, other))
