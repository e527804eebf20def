/**
 * What tools tell of a call before it runs, without being at their mercy.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Detached from "../internal/detached.ts"
import type { ProcessState } from "./Engine.ts"

/**
 * Milliseconds that decoding, or finding what a call touches, may take: never longer than the turn.
 *
 * @category getters
 * @since 0.1.0
 */
export const patience = (process: ProcessState, now: number): number =>
  Math.min(10_000, Math.max(0, process.budget.left(now)))

/**
 * What a tool tells of a call, at once or by an effect; `undefined` where it fails, throws or takes too long.
 *
 * @category getters
 * @since 0.1.0
 */
export const lookUp = <A>(
  process: ProcessState,
  question: () => A | Effect.Effect<A>,
  now: number
): A | undefined | Effect.Effect<A | undefined> => {
  try {
    const found = question()
    if (!Effect.isEffect(found)) return found
    return Effect.map(
      Detached.within(found, patience(process, now)),
      (exit) => exit !== undefined && Exit.isSuccess(exit) ? exit.value : undefined
    )
  } catch {
    return undefined
  }
}
