/** A state store that measures how long its driver takes to answer. */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { StateStore } from "../store/StateStore.ts"
import type { Telemetry } from "./report/Telemetry.ts"

type Driver = StateStore["Service"]

/** Wraps a store so that it reports the duration of each operation. Measuring starts with the first measured wave. */
export const make = (driver: Driver, telemetry: Telemetry, context: Context.Context<never>): Driver => {
  const clock = Context.get(context, Clock.Clock)

  const timed = <A, E>(operation: keyof Driver, ask: () => Effect.Effect<A, E>): Effect.Effect<A, E> => {
    const { meters } = telemetry
    if (meters === undefined) return ask()
    const startedAt = clock.currentTimeNanosUnsafe()
    const over = (exit: Exit.Exit<unknown, unknown>): void =>
      meters.store(operation, Number(clock.currentTimeNanosUnsafe() - startedAt) / 1e9, Exit.isFailure(exit))
    const answer = ask()
    if (!Exit.isExit(answer)) return Effect.onExit(answer, (exit) => Effect.sync(() => over(exit)))
    over(answer)
    return answer
  }

  return {
    reserve: (requests, now, principal) => timed("reserve", () => driver.reserve(requests, now, principal)),
    check: (claims, now) => timed("check", () => driver.check(claims, now)),
    renew: (reservations, now) => timed("renew", () => driver.renew(reservations, now)),
    start: (reservations, now) => timed("start", () => driver.start(reservations, now)),
    abandon: (session, now, started) => timed("abandon", () => driver.abandon(session, now, started)),
    // called once per call: free without metrics
    settle: (reservation, settlement, now) =>
      telemetry.meters === undefined
        ? driver.settle(reservation, settlement, now)
        : timed("settle", () => driver.settle(reservation, settlement, now)),
    release: (reservation, now) => timed("release", () => driver.release(reservation, now)),
    grant: (grant) => timed("grant", () => driver.grant(grant)),
    grants: (principal, now) => timed("grants", () => driver.grants(principal, now)),
    allGrants: (now) => timed("allGrants", () => driver.allGrants(now)),
    revoke: (principal, id) => timed("revoke", () => driver.revoke(principal, id)),
    mutated: (principal) => timed("mutated", () => driver.mutated(principal)),
    recall: (of, now) => timed("recall", () => driver.recall(of, now)),
    closeBatch: (batch, principal) => timed("closeBatch", () => driver.closeBatch(batch, principal)),
    pruneExpired: (now) => timed("pruneExpired", () => driver.pruneExpired(now))
  }
}
