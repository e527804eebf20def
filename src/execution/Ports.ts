/**
 * What an executor leans on and is not its own: the state store, artifacts,
 * checkpoints, people. All have the same patience, here and nowhere else: a driver
 * that throws, dies, does not answer in time or gives what is no answer has failed
 * like one that says so.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schema from "effect/Schema"
import * as Detached from "../internal/detached.ts"
import { ArtifactError, type ArtifactStore } from "../output/ArtifactStore.ts"
import { Checkpoint, CheckpointError, type Checkpoints } from "../output/Checkpoints.ts"
import type { Approvals, Question, Resolution } from "../policy/Approvals.ts"
import { Grant } from "../store/Grant.ts"
import { type Answer, StateStoreError } from "../store/StateStore.ts"
import { ArtifactRef } from "../ToolOutcome.ts"
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
  isAnswer: IsAnswer = isAny
): Answer<A> => {
  try {
    const answer = question()
    if (!Effect.isEffect(answer)) return isAnswer(answer) ? answer : Effect.fail(failure(operation, nonsense))
    return inTime(answer, (cause) => failure(operation, cause), isAnswer)
  } catch (cause) {
    return Effect.fail(failure(operation, cause))
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
    put: (owner, payload) => inTime(Effect.suspend(() => driver.put(owner, payload)), failed(""), isRef),
    read: (owner, id, range) => inTime(Effect.suspend(() => driver.read(owner, id, range)), failed(id), isPart)
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
    save: (write) => inTime(Effect.suspend(() => driver.save(write)), failed(""), isCheckpoint),
    list: (principal) => inTime(Effect.suspend(() => driver.list(principal)), failed(""), areCheckpoints),
    content: (checkpoint, path) =>
      inTime(Effect.suspend(() => driver.content(checkpoint, path)), failed(checkpoint.id), isContent),
    forget: (checkpoint) => inTime(Effect.suspend(() => driver.forget(checkpoint)), failed(checkpoint.id))
  }
}

/**
 * People, as an executor asks them.
 *
 * @category models
 * @since 0.1.0
 */
export interface People {
  /**
   * Asks; `undefined` where the question could not be put. `onEnd` is called at most
   * once, never before this returns, and never after `withdraw`.
   */
  readonly ask: (
    question: Question,
    onEnd: (resolution: Resolution) => void
  ) => { readonly id: string; readonly withdraw: () => void } | undefined
}

/**
 * People who answer once, and in time: what comes twice or too late changes
 * nothing, and what is no answer is a no.
 *
 * @category constructors
 * @since 0.1.0
 */
export const people = (driver: Approvals["Service"], context: Context.Context<never>): People => {
  const run = Effect.runForkWith(context)
  const clock = Context.get(context, Clock.Clock)
  const warn = (what: string, cause: unknown) => void run(Effect.logWarning(`Approvals.ask ${what}`, cause))
  return {
    ask: (question, onEnd) => {
      let isOpen = true
      let silence: ReturnType<typeof run> | undefined
      const close = (): boolean => {
        if (!isOpen) return false
        isOpen = false
        silence?.interruptUnsafe()
        return true
      }
      const end = (resolution: unknown) => {
        if (!close()) return
        if (isAnswered(resolution)) return onEnd(resolution)
        warn("gave no answer", resolution)
        onEnd({ _tag: "Denied", by: "closed" })
      }
      let isPut = false
      const soon = (resolution: unknown) => run(Effect.andThen(Effect.yieldNow, Effect.sync(() => end(resolution))))
      try {
        const asked = driver.ask(question, (resolution) => void (isPut ? end(resolution) : soon(resolution)))
        const { expiresAt, id } = asked.request
        if (typeof id !== "string") throw new TypeError("its request has no id")
        isPut = true
        const withdraw = () => {
          try {
            asked.withdraw()
          } catch (cause) {
            warn("did not take a question back", cause)
          }
        }
        const now = clock.currentTimeMillisUnsafe()
        const millis = typeof expiresAt === "number" && expiresAt >= now ? expiresAt - now : silentMillis
        if (millis !== Infinity) {
          silence = run(Effect.andThen(
            Effect.sleep(millis + patience),
            Effect.sync(() => {
              silence = undefined
              if (!close()) return
              withdraw()
              onEnd({ _tag: "Denied", by: "timeout" })
            })
          ))
        }
        return { id, withdraw: () => void (close() && withdraw()) }
      } catch (cause) {
        close()
        warn("failed", cause)
        return undefined
      }
    }
  }
}

// Utilities

/** Whether what a driver gave is an answer; it may throw like the driver. */
type IsAnswer = (answer: unknown) => boolean

const isAny = () => true

const nonsense = "it is no answer"

/** How long people have where their driver does not say so. */
const silentMillis = 300_000

const isRef = Schema.is(ArtifactRef)
const isPart = Schema.is(Schema.Struct({ text: Schema.String, chars: Schema.Finite }))
const isCheckpoint = Schema.is(Checkpoint)
const areCheckpoints = Schema.is(Schema.Array(Checkpoint))
const isContent = (answer: unknown) => answer === undefined || answer instanceof Uint8Array

const isResolution = Schema.is(Schema.Union([
  Schema.TaggedStruct("Approved", {
    grant: Schema.UndefinedOr(Grant),
    isOwn: Schema.Boolean,
    edited: Schema.optional(Schema.Struct({ params: Schema.Unknown }))
  }),
  Schema.TaggedStruct("Denied", {
    by: Schema.Literals(["user", "timeout", "closed", "noApprover"]),
    reason: Schema.optional(Schema.String)
  })
]))

const isAnswered = (answer: unknown): answer is Resolution => {
  try {
    return isResolution(answer)
  } catch {
    return false
  }
}

const failure = (operation: string, cause: unknown): StateStoreError =>
  cause instanceof StateStoreError ? cause : new StateStoreError({ operation, cause })

/** The value of an effect that nobody waits for any longer than that; `failed` makes the error of whatever went wrong. */
const inTime = <A, E>(
  effect: Effect.Effect<A, E>,
  failed: (cause: unknown) => E,
  isAnswer: IsAnswer = isAny
): Effect.Effect<A, E> =>
  Effect.flatMap(Detached.within(effect, patience), (exit) => {
    if (exit === undefined) return Effect.fail(failed("no answer in time"))
    if (Exit.isFailure(exit)) return Effect.fail(failed(Cause.squash(exit.cause)))
    try {
      return isAnswer(exit.value) ? Effect.succeed(exit.value) : Effect.fail(failed(nonsense))
    } catch (cause) {
      return Effect.fail(failed(cause))
    }
  })
