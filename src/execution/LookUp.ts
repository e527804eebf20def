/**
 * What tools tell of a call before it runs, without being at their mercy.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Predicate from "effect/Predicate"
import * as Detached from "../internal/detached.ts"
import type * as ToolAnnotations from "../ToolAnnotations.ts"
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
 * Tells whether a value is what a tool says its call is about: it may come from
 * code that no compiler has seen.
 *
 * @category predicates
 * @since 0.1.0
 */
export const isTargets = (value: unknown): value is ToolAnnotations.TargetsOf =>
  Array.isArray(value) && value.every((it) =>
    Predicate.hasProperty(it, "text") && typeof it.text === "string" &&
    (!Predicate.hasProperty(it, "kind") || it.kind === undefined || it.kind === "exact" || it.kind === "protected")
  )

/**
 * Tells whether a value is a list of keys.
 *
 * @category predicates
 * @since 0.1.0
 */
export const isKeys = (value: unknown): value is ReadonlyArray<string> =>
  Array.isArray(value) && value.every(Predicate.isString)

/**
 * What a tool tells of a call, at once or by an effect; `undefined` where it
 * fails, throws, takes too long or is not what it should be.
 *
 * @category getters
 * @since 0.1.0
 */
export const lookUp = <A>(
  process: ProcessState,
  question: () => A | Effect.Effect<A>,
  now: number,
  isRight: (answer: unknown) => boolean = () => true
): A | undefined | Effect.Effect<A | undefined> => {
  try {
    const found = question()
    if (!Effect.isEffect(found)) return isRight(found) ? found : undefined
    return Effect.map(
      Detached.within(found, patience(process, now)),
      (exit) => exit !== undefined && Exit.isSuccess(exit) && isRight(exit.value) ? exit.value : undefined
    )
  } catch {
    return undefined
  }
}
