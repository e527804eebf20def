/**
 * What becomes of a circuit when a call is let in and when it has ended: the steps of `CircuitBreakerStore`, as those
 * of effect's stores in memory and Redis.
 */
import * as Duration from "effect/Duration"
import * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import * as Schema from "effect/Schema"
import type { Step } from "./KeyedStates.ts"

/** A circuit; times are epoch milliseconds. */
export const Circuit = Schema.Struct({
  state: Schema.Literals(["Closed", "Open", "HalfOpen"]),
  /** Changes with the state: what began under another one says nothing about this one. */
  generation: Schema.Finite,
  /** Failures in a row. */
  streak: Schema.Finite,
  /** The last outcomes: `1` is a failure. */
  ring: Schema.String,
  openUntil: Schema.Finite,
  /** Openings since the last time that it stayed closed for long enough. */
  openings: Schema.Finite,
  lastOpenFor: Schema.Finite,
  /** From when on it has stayed closed for long enough. */
  resetAt: Schema.Finite,
  /** Until when the place of the one that tries is held. */
  leaseUntil: Schema.Finite
})

/** A circuit; times are epoch milliseconds. */
export type Circuit = typeof Circuit.Type

/** How long what is held and kept stays without anybody who renews it. */
export interface Times {
  readonly leaseMillis: number
  readonly idleMillis: number
}

/** A call asks to be let in. */
export const admit = (key: string, { idleMillis, leaseMillis }: Times) =>
(
  circuit: Circuit | undefined,
  now: number
): Step<CircuitBreaker.Admission | CircuitBreaker.CircuitBreakerError, Circuit> => {
  if (circuit === undefined || circuit.state === "Closed") {
    const { openings, resetAt } = circuit ?? fresh
    const state: Circuit = {
      ...(circuit ?? { ...fresh, generation: after(undefined, now) }),
      // a call that was let in before still opens it for as long as it has found then
      openings: now >= resetAt ? 0 : openings
    }
    return { answer: admission(state), next: { state, expiresAt: now + idleMillis } }
  }
  if (circuit.state === "Open" && now < circuit.openUntil) {
    const retryAfter = Duration.millis(circuit.openUntil - now)
    return refused(new CircuitBreaker.CircuitOpen({ key, retryAfter }))
  }
  if (circuit.state === "HalfOpen" && now < circuit.leaseUntil) {
    return refused(new CircuitBreaker.CircuitHalfOpen({ key }))
  }
  const state: Circuit = {
    ...circuit,
    state: "HalfOpen",
    generation: after(circuit, now),
    leaseUntil: now + leaseMillis
  }
  const transition: CircuitBreaker.Transition | undefined = circuit.state === "Open"
    ? { key, from: "Open", to: "HalfOpen" }
    : undefined
  return {
    answer: { ...admission(state), probe: true, transition },
    next: { state, expiresAt: state.leaseUntil + idleMillis }
  }
}

/** A call that was let in has ended. */
export const record = (
  { generation, key, openFor, outcome, tripPolicy }: Parameters<
    CircuitBreaker.CircuitBreakerStore["Service"]["record"]
  >[0],
  { idleMillis }: Times
) =>
(circuit: Circuit | undefined, now: number): Step<CircuitBreaker.Transition | undefined, Circuit> => {
  if (circuit === undefined || circuit.generation !== generation || circuit.state === "Open") return unchanged
  const kept = (state: Circuit, transition?: CircuitBreaker.Transition) => ({
    answer: transition,
    next: { state, expiresAt: Math.max(now, state.openUntil) + idleMillis }
  })
  const opened = (from: "Closed" | "HalfOpen") => {
    const openings = circuit.openings + 1
    const lastOpenFor = Duration.toMillis(openFor)
    const state: Circuit = {
      ...forgotten(circuit, now),
      state: "Open",
      openings,
      lastOpenFor,
      openUntil: now + lastOpenFor
    }
    return kept(state, { key, from, to: "Open", retryAfter: openFor, consecutiveOpenings: openings })
  }
  if (circuit.state === "HalfOpen") {
    // what still renews the lease is of an older generation by then
    if (outcome === "Ignored") return kept({ ...circuit, generation: after(circuit, now), leaseUntil: 0 })
    if (outcome === "Failure") return opened("HalfOpen")
    const state: Circuit = { ...forgotten(circuit, now), state: "Closed", resetAt: now + circuit.lastOpenFor }
    return kept(state, { key, from: "HalfOpen", to: "Closed" })
  }
  if (outcome === "Ignored") return kept(circuit)
  const failed = outcome === "Failure"
  const streak = failed ? circuit.streak + 1 : 0
  const ring = tripPolicy._tag === "Rate" ? `${circuit.ring}${failed ? 1 : 0}`.slice(-tripPolicy.size) : ""
  return trips(tripPolicy, streak, ring) ? opened("Closed") : kept({ ...circuit, streak, ring })
}

/** The call that tries is still at it; false once it has lost its place. */
export const renew =
  (generation: number, { idleMillis, leaseMillis }: Times) =>
  (circuit: Circuit | undefined, now: number): Step<boolean, Circuit> => {
    if (circuit?.state !== "HalfOpen" || circuit.generation !== generation) return { answer: false }
    const leaseUntil = now + leaseMillis
    return { answer: true, next: { state: { ...circuit, leaseUntil }, expiresAt: leaseUntil + idleMillis } }
  }

/** The state as a breaker tells it. */
export const stateOf = (key: string) => (circuit: Circuit | undefined, now: number): CircuitBreaker.State => {
  if (circuit === undefined || circuit.state === "Closed") return { _tag: "Closed", key }
  const { leaseUntil, openings: consecutiveOpenings, openUntil } = circuit
  return circuit.state === "Open"
    ? { _tag: "Open", key, retryAfter: Duration.millis(Math.max(0, openUntil - now)), consecutiveOpenings }
    : { _tag: "HalfOpen", key, probing: now < leaseUntil, consecutiveOpenings }
}

const fresh: Circuit = {
  state: "Closed",
  generation: 0,
  streak: 0,
  ring: "",
  openUntil: 0,
  openings: 0,
  lastOpenFor: 0,
  resetAt: 0,
  leaseUntil: 0
}

const unchanged: Step<undefined, Circuit> = { answer: undefined }

const refused = (
  reason: CircuitBreaker.CircuitBreakerErrorReason
): Step<CircuitBreaker.CircuitBreakerError, Circuit> => ({
  answer: new CircuitBreaker.CircuitBreakerError({ reason })
})

const admission = ({ generation, openings }: Circuit): CircuitBreaker.Admission => ({
  generation,
  probe: false,
  consecutiveOpenings: openings,
  transition: undefined
})

/** Microseconds: a row that was deleted and made again gets a number that was never used. */
const after = (circuit: Circuit | undefined, now: number): number =>
  Math.max((circuit?.generation ?? 0) + 1, Math.floor(now * 1_000))

/** A circuit in another state starts counting again. */
const forgotten = (circuit: Circuit, now: number): Circuit => ({
  ...circuit,
  generation: after(circuit, now),
  streak: 0,
  ring: "",
  leaseUntil: 0
})

const trips = (policy: CircuitBreaker.TripPolicy, streak: number, ring: string): boolean => {
  if (policy._tag === "Consecutive") return streak >= policy.failures
  const failures = ring.split("1").length - 1
  return ring.length >= policy.minimumCalls && failures > 0 && failures / ring.length >= policy.threshold
}
