/**
 * Gate 6: stops calling a tool that keeps failing.
 *
 * One circuit per tool, by `effect/persistence/CircuitBreaker`. It opens after enough failures, and later lets one call
 * probe whether the tool works again. Circuits live in a `CircuitBreakerStore`, which processes can share, or in
 * memory.
 *
 * The gate checks a call when its run begins, before anything is reserved or approved, and admits it right before its
 * handler: only calls that run count or probe.
 */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import * as Scope from "effect/Scope"
import { within } from "../../internal/detached.ts"
import { serviceOr } from "../../internal/serviceOr.ts"
import { type ConfigurationError, readOptions } from "../vocabulary/ConfigurationError.ts"
import type { ToolCall } from "../vocabulary/ToolCall.ts"
import type { CheckedCircuit } from "../vocabulary/ToolLimits.ts"
import type { ToolOutcome } from "../vocabulary/ToolOutcome.ts"
import type { ToolRefusal } from "../vocabulary/ToolRefusal.ts"
import * as Gate from "./Gate.ts"

/**
 * Options of the circuits. `ToolAnnotations.CircuitBreaker` or the `tools` option of the host say when the circuit of a
 * tool opens.
 */
export interface Options {
  /** How long a call waits for the store. Default 2 seconds. */
  readonly storeTimeout?: Duration.Input | undefined
}

export const defaults = { storeTimeout: "2 seconds" } as const

/** Name of the gate. A gate layer with the same name replaces it. */
export const name = "CircuitBreakers"

/** The store in the context, or one in memory. */
export const store = serviceOr(CircuitBreaker.CircuitBreakerStore, CircuitBreaker.layerStoreMemory())

/** Creates the gate. Every executor has one unless a layer replaces it. */
export const make = Effect.fnUntraced(function*(
  options: Options = {}
): Effect.fn.Return<Gate.Gate, ConfigurationError, Scope.Scope> {
  const millis = yield* readOptions(
    name,
    (read) => read.millis("storeTimeout", options.storeTimeout ?? defaults.storeTimeout)
  )
  const circuits = yield* store
  const breakers = new WeakMap<CheckedCircuit, CircuitBreaker.CircuitBreaker>()
  const trials = new WeakMap<ToolCall, Trial>()

  const breakerOf = (circuit: CheckedCircuit): Effect.Effect<CircuitBreaker.CircuitBreaker> => {
    const made = breakers.get(circuit)
    if (made !== undefined) return Effect.succeed(made)
    const making = CircuitBreaker.make({ ...circuit, onStoreError: "fail" })
    // it has nothing to close, and is collected with its tool: tools may be replaced often
    return Effect.map(
      Effect.provideService(
        Effect.provideService(making, CircuitBreaker.CircuitBreakerStore, circuits),
        Scope.Scope,
        Scope.makeUnsafe()
      ),
      (breaker) => {
        breakers.set(circuit, breaker)
        return breaker
      }
    )
  }

  /** Starts a fiber that represents the call in its circuit until the call has an outcome. */
  const begin = Effect.fnUntraced(function*(call: ToolCall, key: string, circuit: CheckedCircuit) {
    const breaker = yield* breakerOf(circuit)
    const admitted = Deferred.makeUnsafe<void, ToolRefusal>()
    const outcome = Deferred.makeUnsafe<ToolOutcome>()
    const holding = breaker.execute(
      Effect.andThen(Deferred.succeed(admitted, undefined), Deferred.await(outcome)),
      { key, classify: (exit) => Exit.isSuccess(exit) ? judge(circuit, exit.value) : CircuitBreaker.ignored }
    )
    // a store that dies counts as one that fails
    const told = Effect.onExit(holding, (exit) => Deferred.done(admitted, verdictOf(exit, circuit)))
    // it ends with its call, and never waits for an unresponsive store
    const trial: Trial = { admitted, outcome, fiber: yield* Effect.forkDetach(told) }
    trials.set(call, trial)
    return trial
    // an unregistered trial would hold its place forever
  }, Effect.uninterruptible)

  return {
    name,
    concerns: (tool) => tool.circuit !== undefined,
    guard: ({ tool: { circuit, name } }) =>
      Effect.flatMap(
        within(Effect.suspend(() => circuits.state(name)), millis),
        (exit) => exit !== undefined && Exit.isSuccess(exit) ? verdictOn(exit.value) : inTrouble(circuit!)
      ),
    recheck: Effect.fnUntraced(function*({ call, tool: { circuit, name } }) {
      // the call may have waited for its permits twice
      const { admitted } = trials.get(call) ?? (yield* begin(call, name, circuit!))
      yield* (yield* within(Deferred.await(admitted), millis)) ?? inTrouble(circuit!)
    }),
    settle: ({ call }, outcome) => {
      const trial = trials.get(call)
      if (trial === undefined) return Effect.void
      trials.delete(call)
      Deferred.doneUnsafe(trial.outcome, Effect.succeed(outcome))
      // do not wait for the store again; a place that it still grants is given back
      if (!Deferred.isDoneUnsafe(trial.admitted)) return Effect.sync(() => trial.fiber.interruptUnsafe())
      // the next call of the tool must see it counted
      return Effect.asVoid(within(Fiber.await(trial.fiber), millis))
    }
  }
})

/** Layer of the gate with a store (`CircuitBreakerStore`) or options. */
export const layer = (options?: Options): Layer.Layer<never, ConfigurationError> => Gate.layer(make(options))

/** Layer that turns circuits off, even for tools that declare one. */
export const layerNoop: Layer.Layer<never> = Gate.layer({ name, concerns: () => false })

/** A call in its circuit. */
interface Trial {
  readonly admitted: Deferred.Deferred<void, ToolRefusal>
  readonly outcome: Deferred.Deferred<ToolOutcome>
  readonly fiber: Fiber.Fiber<unknown, unknown>
}

/** Only calls that ran and were not stopped from outside count for the tool. */
const judge = (circuit: CheckedCircuit, outcome: ToolOutcome): CircuitBreaker.Outcome => {
  const isItsOwn = outcome._tag === "Succeeded" || outcome._tag === "Failed" ||
    (outcome._tag === "TimedOut" && outcome.which !== "turn")
  if (outcome.startedAt === undefined || !isItsOwn) return CircuitBreaker.ignored
  return circuit.isFailure(outcome) ? CircuitBreaker.failure() : CircuitBreaker.success
}

const open = (retryAfter?: Duration.Duration): Exit.Exit<void, ToolRefusal> =>
  Exit.fail({
    _tag: "CircuitOpen",
    ...(retryAfter === undefined ? {} : { retryAfterMillis: Duration.toMillis(retryAfter) })
  })

/** Tells whether the circuit would admit a call now. */
const verdictOn = (state: CircuitBreaker.State): Exit.Exit<void, ToolRefusal> => {
  switch (state._tag) {
    case "Closed":
      return Exit.void
    case "Open":
      return Duration.isZero(state.retryAfter) ? Exit.void : open(state.retryAfter)
    case "HalfOpen":
      return state.probing ? open() : Exit.void
  }
}

/** Tells whether the circuit admitted a call. */
const verdictOf = (
  exit: Exit.Exit<unknown, CircuitBreaker.CircuitBreakerError>,
  circuit: CheckedCircuit
): Exit.Exit<void, ToolRefusal> => {
  if (Exit.isSuccess(exit)) return Exit.void
  const reason = Option.getOrUndefined(Cause.findErrorOption(exit.cause))?.reason
  switch (reason?._tag) {
    case "CircuitOpen":
      return open(reason.retryAfter)
    case "CircuitHalfOpen":
      return open()
    default:
      return inTrouble(circuit)
  }
}

/** The store failed, died or timed out. */
const inTrouble = ({ onStoreError }: CheckedCircuit): Exit.Exit<void, ToolRefusal> =>
  onStoreError === "allow" ? Exit.void : Exit.fail({ _tag: "StoreUnavailable", operation: "circuit" })
