/**
 * Gate 6: a tool that keeps failing is not called for a while.
 *
 * One circuit per tool, by `effect/persistence/CircuitBreaker`: it opens once the
 * tool has failed often enough, and when its time is over one call may try whether
 * the tool works again. The circuits are in a `CircuitBreakerStore`, if one is
 * there, so that processes share them; else in memory.
 *
 * A call is looked at when its run begins, so that nothing is reserved and nobody
 * is asked for one that would be refused, and is let in right before its handler:
 * only what runs counts, and takes the place of the one that tries.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import * as Scope from "effect/Scope"
import { within } from "../../internal/detached.ts"
import { type ConfigurationError, readOptions } from "../vocabulary/ConfigurationError.ts"
import type { ToolCall } from "../vocabulary/ToolCall.ts"
import type { CheckedCircuit } from "../vocabulary/ToolLimits.ts"
import type { ToolOutcome } from "../vocabulary/ToolOutcome.ts"
import type { ToolRefusal } from "../vocabulary/ToolRefusal.ts"
import * as Gate from "./Gate.ts"

/**
 * Options of the circuits; when the circuit of a tool opens is the tool's, or the
 * host's for it (`ToolAnnotations.CircuitBreaker`, `tools`).
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** How long a call waits for the store of circuits. Default 2 seconds. */
  readonly storeTimeout?: Duration.Input | undefined
}

/**
 * What holds where nobody says anything.
 *
 * @category constants
 * @since 0.1.0
 */
export const defaults = { storeTimeout: "2 seconds" } as const

/**
 * The name of the gate: a layer of a gate with this name takes its place.
 *
 * @category constants
 * @since 0.1.0
 */
export const name = "CircuitBreakers"

/**
 * The store of circuits that is there, or one in memory.
 *
 * @category getters
 * @internal
 */
export const store: Effect.Effect<CircuitBreaker.CircuitBreakerStore["Service"], never, Scope.Scope> = Effect.gen(
  function*() {
    const found = yield* Effect.serviceOption(CircuitBreaker.CircuitBreakerStore)
    if (Option.isSome(found)) return found.value
    return Context.get(yield* Layer.build(CircuitBreaker.layerStoreMemory()), CircuitBreaker.CircuitBreakerStore)
  }
)

/**
 * Creates the gate. Every executor has one where no layer gives another.
 *
 * @category constructors
 * @since 0.1.0
 */
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
    // it holds nothing that has to be closed, and ends with the tool that it is for: tools may be replaced often
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

  /** Starts what holds the place of a call in its circuit until the call has its outcome. */
  const begin = Effect.fnUntraced(function*(call: ToolCall, key: string, circuit: CheckedCircuit) {
    const breaker = yield* breakerOf(circuit)
    const admitted = Deferred.makeUnsafe<void, ToolRefusal>()
    const outcome = Deferred.makeUnsafe<ToolOutcome>()
    const holding = breaker.execute(
      Effect.andThen(Deferred.succeed(admitted, undefined), Deferred.await(outcome)),
      { key, classify: (exit) => Exit.isSuccess(exit) ? judge(circuit, exit.value) : CircuitBreaker.ignored }
    )
    // a store that dies is in trouble like one that fails
    const told = Effect.onExit(holding, (exit) => Deferred.done(admitted, verdictOf(exit, circuit)))
    // it ends with its call, and nobody waits for a store that is deaf
    const trial: Trial = { admitted, outcome, fiber: yield* Effect.forkDetach(told) }
    trials.set(call, trial)
    return trial
    // one that nobody knows of would hold its place for ever
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
      // it may have had to wait for its permits once more
      const { admitted } = trials.get(call) ?? (yield* begin(call, name, circuit!))
      yield* (yield* within(Deferred.await(admitted), millis)) ?? inTrouble(circuit!)
    }),
    settle: ({ call }, outcome) => {
      const trial = trials.get(call)
      if (trial === undefined) return Effect.void
      trials.delete(call)
      Deferred.doneUnsafe(trial.outcome, Effect.succeed(outcome))
      // a store that has not answered yet is not waited for again, and the place it may still give is given back
      if (!Deferred.isDoneUnsafe(trial.admitted)) return Effect.sync(() => trial.fiber.interruptUnsafe())
      // the next call of the tool is to find it counted
      return Effect.asVoid(within(Fiber.await(trial.fiber), millis))
    }
  }
})

/**
 * Layer of the circuits: gives them a store (`CircuitBreakerStore`) or other
 * options than the executor's own gate has.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options?: Options): Layer.Layer<never, ConfigurationError> => Gate.layer(make(options))

/**
 * Layer without circuits, whatever tools declare.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerNoop: Layer.Layer<never> = Gate.layer({ name, concerns: () => false })

// Utilities

/** A call that its circuit has let in, or is to. */
interface Trial {
  readonly admitted: Deferred.Deferred<void, ToolRefusal>
  readonly outcome: Deferred.Deferred<ToolOutcome>
  readonly fiber: Fiber.Fiber<unknown, unknown>
}

/** Only what ran, and was not stopped from outside, says anything about the tool. */
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

/** Whether a call would be let in as things are now. */
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

/** Whether a call was let in. */
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

/** The store of circuits fails, dies or takes too long. */
const inTrouble = ({ onStoreError }: CheckedCircuit): Exit.Exit<void, ToolRefusal> =>
  onStoreError === "allow" ? Exit.void : Exit.fail({ _tag: "StoreUnavailable", operation: "circuit" })
