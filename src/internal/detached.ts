/**
 * Waiting for an effect without being at its mercy: `Effect.timeout` and interruption wait for what they stop, and that
 * may be deaf.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"

/** A wait that can be ended from outside. */
export interface Wait {
  /** Interrupts the effect and does not wait for it; `onEnd` is not called after that. */
  readonly stop: () => void
}

/** Starts an effect and calls `onEnd` with its exit, or with `undefined` once the time is over. */
export const start = <A, E>(
  effect: Effect.Effect<A, E>,
  context: Context.Context<never>,
  millis: number,
  onEnd: (exit: Exit.Exit<A, E> | undefined) => void
): Wait => {
  let open = true
  let timer: Fiber.Fiber<void> | undefined
  const fiber = Effect.runForkWith(context)(effect)
  const close = (): boolean => {
    if (!open) return false
    open = false
    timer?.interruptUnsafe()
    fiber.interruptUnsafe()
    return true
  }
  fiber.addObserver((exit) => {
    if (close()) onEnd(exit)
  })
  if (open && millis !== Infinity) {
    timer = Effect.runForkWith(context)(Effect.andThen(
      Effect.sleep(millis),
      Effect.sync(() => {
        timer = undefined
        if (close()) onEnd(undefined)
      })
    ))
  }
  return { stop: close }
}

/** The exit of an effect, or `undefined` once the time is over; interruption does not wait for the effect either. */
export const within = <A, E>(
  effect: Effect.Effect<A, E>,
  millis: number
): Effect.Effect<Exit.Exit<A, E> | undefined> =>
  Effect.contextWith((context: Context.Context<never>) =>
    Effect.callback((resume) => {
      const wait = start(effect, context, millis, (exit) => resume(Effect.succeed(exit)))
      return Effect.sync(wait.stop)
    })
  )
