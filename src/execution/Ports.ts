/**
 * What an executor leans on and is not its own: the state store, artifacts,
 * checkpoints. All have the same patience, here and nowhere else: a driver that
 * throws, dies or does not answer in time has failed like one that says so.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Detached from "../internal/detached.ts"
import { ArtifactError, type ArtifactStore } from "../output/ArtifactStore.ts"
import { CheckpointError, type Checkpoints } from "../output/Checkpoints.ts"
import { type Answer, StateStoreError } from "../store/StateStore.ts"
import type { ProcessState } from "./Engine.ts"

/**
 * Milliseconds that a driver has for an answer.
 *
 * @category constants
 * @since 0.1.0
 */
export const patience = 5_000

/**
 * Milliseconds that a call of a process waits for a driver: never longer than
 * its turn lasts.
 *
 * @category getters
 * @since 0.1.0
 */
export const patienceOf = ({ budget }: ProcessState, now: number): number =>
  Math.min(patience, Math.max(0, budget.left(now)))

/**
 * What a driver of the state store answers, at once or in time. It may come from
 * code that no compiler has seen: what is no answer is a failure, too.
 *
 * @category asking
 * @since 0.1.0
 */
export const ask = <A>(
  operation: string,
  question: () => Answer<A>,
  isAnswer: (answer: unknown) => boolean = isAny
): Answer<A> => {
  try {
    const answer = question()
    if (!Effect.isEffect(answer)) return isAnswer(answer) ? answer : nonsense(operation)
    const asked = inTime(answer, (cause) => isOwn(cause) ? cause : new StateStoreError({ operation, cause }))
    return Effect.flatMap(asked, (it) => isAnswer(it) ? Effect.succeed(it) : nonsense(operation))
  } catch (cause) {
    return Effect.fail(new StateStoreError({ operation, cause }))
  }
}

/**
 * An artifact store that answers in time.
 *
 * @category constructors
 * @since 0.1.0
 */
export const artifactStore = (driver: ArtifactStore["Service"]): ArtifactStore["Service"] => {
  const failed = (id: string) => (cause: unknown) =>
    cause instanceof ArtifactError ? cause : new ArtifactError({ reason: "StoreFailed", id })
  return {
    put: (owner, payload) => inTime(Effect.suspend(() => driver.put(owner, payload)), failed("")),
    read: (owner, id, range) => inTime(Effect.suspend(() => driver.read(owner, id, range)), failed(id))
  }
}

/**
 * Checkpoints that answer in time.
 *
 * @category constructors
 * @since 0.1.0
 */
export const checkpoints = (driver: Checkpoints["Service"]): Checkpoints["Service"] => {
  const failed = (id: string) => (cause: unknown) =>
    cause instanceof CheckpointError ? cause : new CheckpointError({ reason: "Store", id, cause })
  return {
    save: (write) => inTime(Effect.suspend(() => driver.save(write)), failed("")),
    list: (principal) => inTime(Effect.suspend(() => driver.list(principal)), failed("")),
    content: (checkpoint, path) =>
      inTime(Effect.suspend(() => driver.content(checkpoint, path)), failed(checkpoint.id)),
    forget: (checkpoint) => inTime(Effect.suspend(() => driver.forget(checkpoint)), failed(checkpoint.id))
  }
}

// Utilities

const isAny = () => true

const nonsense = (operation: string) => Effect.fail(new StateStoreError({ operation, cause: "it is no answer" }))

const isOwn = (cause: unknown): cause is StateStoreError => cause instanceof StateStoreError

/** The value of an effect that nobody waits for any longer than that; `failed` makes the error of whatever went wrong. */
const inTime = <A, E>(effect: Effect.Effect<A, E>, failed: (cause: unknown) => E): Effect.Effect<A, E> =>
  Effect.flatMap(Detached.within(effect, patience), (exit) => {
    if (exit === undefined) return Effect.fail(failed("no answer in time"))
    return Exit.isSuccess(exit) ? Effect.succeed(exit.value) : Effect.fail(failed(Cause.squash(exit.cause)))
  })
