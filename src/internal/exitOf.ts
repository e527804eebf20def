/** Looking whether an effect has to be waited for: one that is an exit already needs no fiber. */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"

const succeeded: unknown = Object.getPrototypeOf(Exit.void)
const failed: unknown = Object.getPrototypeOf(Exit.die(undefined))

/**
 * Whether an effect is an exit; asked of every call, several times. `Exit.isExit` looks a property up, which all kinds
 * of objects share, and costs ten times as much.
 */
const isExit = (effect: object): effect is Exit.Exit<unknown, unknown> => {
  const kind: unknown = Object.getPrototypeOf(effect)
  return kind === succeeded || kind === failed || Exit.isExit(effect)
}

/** The exit of an effect that has it already. */
export const exitOf = <A, E, R>(effect: Effect.Effect<A, E, R>): Exit.Exit<A, E> | undefined =>
  isExit(effect) ? effect as Exit.Exit<A, E> : undefined

/** Whether there is nothing to wait for. */
export const isDone = (effect: Effect.Effect<void>): boolean => effect === Effect.void || isExit(effect)
