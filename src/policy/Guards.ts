/**
 * Gate 7: the host's own checks.
 *
 * A guard says no by failing. One that dies or takes too long says no, too.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { within } from "../internal/detached.ts"
import type { GateCall, Verdict } from "./Gate.ts"

/**
 * One check of the host.
 *
 * @category models
 * @since 0.1.0
 */
export interface Guard {
  /** Named in the refusal. */
  readonly name: string
  /** Succeeds to let the call pass; fails to refuse it, with the reason for the model. */
  readonly check: (call: GateCall) => Effect.Effect<void, string>
}

/**
 * The host's guards, asked in order. Default: none.
 *
 * @category references
 * @since 0.1.0
 */
export const Guards = Context.Reference<ReadonlyArray<Guard>>("effect-tool-executor/policy/Guards", {
  defaultValue: () => []
})

/**
 * Asks the guards in order; the first that says no decides.
 *
 * @category gates
 * @since 0.1.0
 */
export const check = (
  guards: ReadonlyArray<Guard>,
  call: GateCall,
  timeoutMillis: number
): Effect.Effect<Verdict> => {
  let asked = "guard"
  const all = Effect.forEach(guards, (guard) =>
    Effect.suspend(() => {
      asked = guard.name
      return guard.check(call)
    }), { discard: true })
  return Effect.map(within(all, timeoutMillis), (exit): Verdict => {
    if (exit !== undefined && Exit.isSuccess(exit)) return undefined
    const told: unknown = exit === undefined
      ? "it took too long"
      : Option.getOrUndefined(Cause.findErrorOption(exit.cause))
    // what is no text, such as an error, is nothing for a model
    const reason = typeof told === "string" ? told : "it failed"
    return { _tag: "GuardRejected", guard: asked, reason }
  })
}
