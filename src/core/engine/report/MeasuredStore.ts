/** A state store that measures how long its driver takes to answer. */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { around } from "../../../internal/around.ts"
import { operations, type StateStore } from "../../store/StateStore.ts"
import type { Telemetry } from "./Telemetry.ts"

type Driver = StateStore["Service"]

/** Wraps a store so that it reports the duration of each operation. Measuring starts with the first measured wave. */
export const make = (driver: Driver, telemetry: Telemetry, context: Context.Context<never>): Driver => {
  const clock = Context.get(context, Clock.Clock)

  const measured = around(driver, operations, (ask, operation) => {
    const { meters } = telemetry
    if (meters === undefined) return ask()
    const startedAt = clock.currentTimeNanosUnsafe()
    const over = (exit: Exit.Exit<unknown, unknown>): void =>
      meters.store(operation, Number(clock.currentTimeNanosUnsafe() - startedAt) / 1e9, Exit.isFailure(exit))
    const answer = ask()
    if (!Exit.isExit(answer)) return Effect.onExit(answer, (exit) => Effect.sync(() => over(exit)))
    over(answer)
    return answer
  })
  return {
    ...measured,
    // called once per call: free without metrics
    settle: (reservation, settlement, now) =>
      (telemetry.meters === undefined ? driver : measured).settle(reservation, settlement, now)
  }
}
