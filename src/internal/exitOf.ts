/** Looking whether an effect has to be waited for: one that is an exit already needs no fiber. */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"

/** The exit of an effect that has it already. */
export const exitOf = <A, E, R>(effect: Effect.Effect<A, E, R>): Exit.Exit<A, E> | undefined =>
  Exit.isExit(effect) ? effect as Exit.Exit<A, E> : undefined

/** Whether there is nothing to wait for; asked of every call, several times. */
export const isDone = (effect: Effect.Effect<void>): boolean => effect === Effect.void || Exit.isExit(effect)
