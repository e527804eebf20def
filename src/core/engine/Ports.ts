/**
 * What an executor relies on and does not own: the state store, the journal,
 * artifacts, checkpoints, people. How long each is waited for is decided here and
 * nowhere else: a driver that throws, dies, does not answer in time or gives something
 * that is not an answer has failed like one that says so.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schema from "effect/Schema"
import * as CallLog from "../../internal/callLog.ts"
import { type Deadline, Deadlines } from "../../internal/deadlines.ts"
import * as Detached from "../../internal/detached.ts"
import { exitOf } from "../../internal/exitOf.ts"
import { type Outages, outagesOf } from "../../internal/outages.ts"
import { ToolContext } from "../contract/ToolContext.ts"
import { type ApprovalRequest, type Approvals, type Question, Resolution } from "../gates/Approvals.ts"
import { ArtifactError, type ArtifactStore } from "../output/ArtifactStore.ts"
import { Checkpoint, CheckpointError, type Checkpoints } from "../output/Checkpoints.ts"
import { type Journal, JournalError } from "../store/Journal.ts"
import { StateStoreError } from "../store/StateStore.ts"
import { ArtifactRef } from "../vocabulary/ToolOutcome.ts"

/**
 * Milliseconds that a driver has for an answer; the state store has a setting of its own.
 *
 * @category constants
 * @since 0.1.0
 */
export const patience = 5_000

/**
 * What a driver of the state store answers, or its failure, at once or in time. It
 * may come from code that no compiler has seen: anything that is not an answer is a failure.
 *
 * @category asking
 * @since 0.1.0
 */
export const ask = <A>(
  operation: string,
  question: () => Effect.Effect<A, StateStoreError>,
  isAnswer: IsAnswer = isAny,
  millis = patience
): Effect.Effect<A | StateStoreError> => {
  try {
    const answer = question()
    const exit = exitOf(answer)
    if (exit !== undefined) {
      if (exit._tag === "Failure") return Effect.succeed(failure(operation, Cause.squash(exit.cause)))
      return Effect.succeed(isAnswer(exit.value) ? exit.value : failure(operation, nonsense))
    }
    if (!Effect.isEffect(answer)) return Effect.succeed(failure(operation, nonsense))
    return Effect.catch(inTime(answer, (cause) => failure(operation, cause), isAnswer, millis), Effect.succeed)
  } catch (cause) {
    return Effect.succeed(failure(operation, cause))
  }
}

/**
 * What an executor asks an artifact store for; pruning is its host's.
 *
 * @category models
 * @since 0.1.0
 */
export type Artifacts = Pick<ArtifactStore["Service"], "put" | "read">

/**
 * An artifact store that answers in time.
 *
 * @category constructors
 * @since 0.1.0
 */
export const artifactStore = (driver: Artifacts): Artifacts => {
  const outages = outagesOf(driver)
  const failed = (id: string) => (cause: unknown) =>
    cause instanceof ArtifactError ? cause : new ArtifactError({ reason: "StoreFailed", id, cause })
  return {
    put: (owner, payload) =>
      inTime(
        logged(outages, "ArtifactStore.put", Effect.suspend(() => driver.put(owner, payload)), owner),
        failed(""),
        isRef
      ),
    read: (owner, id, range) =>
      inTime(
        logged(outages, "ArtifactStore.read", Effect.suspend(() => driver.read(owner, id, range)), owner),
        failed(id),
        isPart
      )
  }
}

/**
 * What an executor asks checkpoints for; pruning is their host's.
 *
 * @category models
 * @since 0.1.0
 */
export type Kept = Omit<Checkpoints["Service"], "prune">

/**
 * Checkpoints that answer in time.
 *
 * @category constructors
 * @since 0.1.0
 */
export const checkpoints = (driver: Kept): Kept => {
  const outages = outagesOf(driver)
  const failed = (id: string) => (cause: unknown) =>
    cause instanceof CheckpointError ? cause : new CheckpointError({ reason: "Store", id, cause })
  return {
    save: (write) =>
      inTime(
        logged(outages, "Checkpoints.save", Effect.suspend(() => driver.save(write)), write),
        failed(""),
        isCheckpoint
      ),
    list: (principal) => inTime(Effect.suspend(() => driver.list(principal)), failed(""), areCheckpoints),
    content: (checkpoint, path) =>
      inTime(Effect.suspend(() => driver.content(checkpoint, path)), failed(checkpoint.id), isContent),
    forget: (checkpoint) => inTime(Effect.suspend(() => driver.forget(checkpoint)), failed(checkpoint.id))
  }
}

/**
 * A journal that answers in time.
 *
 * @category constructors
 * @since 0.1.0
 */
export const journal = (driver: Journal["Service"]): Journal["Service"] => {
  const failed = (operation: string) => (cause: unknown) =>
    cause instanceof JournalError ? cause : new JournalError({ operation, cause })
  return {
    keeps: driver.keeps,
    digest: driver.digest,
    term: driver.term,
    append: (lines, options) => {
      try {
        const answer = driver.append(lines, options)
        return Exit.isExit(answer) && Exit.isSuccess(answer) ? answer : inTime(answer, failed("append"))
      } catch (cause) {
        return Effect.fail(failed("append")(cause))
      }
    },
    read: (query) => driver.read(query),
    page: (query, bounds) => inTime(Effect.suspend(() => driver.page(query, bounds)), failed("page")),
    // what is taken over late has to be given back: whoever claims decides how long that is waited for
    claim: (keys) => inTime(Effect.suspend(() => driver.claim(keys)), failed("claim"), isClaimed, Infinity)
  }
}

/**
 * People, as an executor asks them: neither fails, dies or hangs, whatever the driver does.
 *
 * @category models
 * @since 0.1.0
 */
export interface People {
  /** Makes a request of a question, with its id; `undefined` where it could not be made: there is nobody to ask. */
  readonly request: (question: Question) => Effect.Effect<ApprovalRequest | undefined>
  /**
   * Asks and waits. What follows runs in a turn of its own, never in the fiber of
   * whoever answers. Interruption withdraws the request, and nothing holds it up.
   * `told` is called once, the moment that there is an answer, so that nothing of it is
   * lost where whoever waits is interrupted before that turn.
   */
  readonly ask: (request: ApprovalRequest, told: (resolution: Resolution) => void) => Effect.Effect<Resolution>
}

/**
 * People who answer in time: silence for longer than the request lasts is a no, and
 * so is anything that is not an answer.
 *
 * @category constructors
 * @since 0.1.0
 */
export const people = (driver: Approvals["Service"], context: Context.Context<never>): People => {
  const run = Effect.runForkWith(context)
  const clock = Context.get(context, Clock.Clock)
  const deadlines = new Deadlines(clock, run)
  const warn = (what: string, cause: Cause.Cause<unknown> | string, question: Question) =>
    CallLog.log("Warn", `Approvals.${what}`, cause, question)

  return {
    request: (question) =>
      inTime(Effect.suspend(() => driver.request(question)), (cause) => cause, isRequest).pipe(
        Effect.map(({ askedAt, expiresAt, id }) => ({ ...question, askedAt, expiresAt, id })),
        Effect.catch((cause) => Effect.as(warn("request failed", Cause.die(cause), question), undefined))
      ),
    ask: (request, told) =>
      Effect.callback((resume) => {
        let deadline: Deadline | undefined
        let isOver = false
        let isTold = false
        const tell = (resolution: Resolution) => {
          if (isTold || isOver || !isResolution(resolution)) return
          isTold = true
          told(resolution)
        }
        const asked = run(Effect.suspend(() => driver.ask(request, tell)))
        const end = (resolution: Resolution) => {
          if (isOver) return
          tell(resolution)
          isOver = true
          if (deadline !== undefined) deadlines.delete(deadline)
          resume(Effect.as(Effect.yieldNow, resolution))
        }
        asked.addObserver((exit) => {
          if (isOver) return
          if (Exit.isFailure(exit)) {
            run(warn("ask failed", exit.cause, request))
            return end({ _tag: "Denied", by: "noApprover", reason: request.why })
          }
          if (isResolution(exit.value)) return end(exit.value)
          run(warn("ask gave no answer", Cause.die(exit.value), request))
          end({ _tag: "Denied", by: "closed" })
        })
        if (isOver) return
        if (request.expiresAt !== "unlimited") {
          deadline = deadlines.add(request.expiresAt + patience, () => {
            end({ _tag: "Denied", by: "timeout" })
            asked.interruptUnsafe()
          })
        }
        return Effect.sync(() => {
          isOver = true
          if (deadline !== undefined) deadlines.delete(deadline)
          asked.interruptUnsafe()
        })
      })
  }
}

// Utilities

/** Whether what a driver gave is an answer; it may throw like the driver. */
type IsAnswer = (answer: unknown) => boolean

const isAny = () => true

const nonsense = "it is no answer"

const isRef = Schema.is(ArtifactRef)
const isPart = Schema.is(Schema.Struct({ text: Schema.String, chars: Schema.Finite }))
const isCheckpoint = Schema.is(Checkpoint)
const areCheckpoints = Schema.is(Schema.Array(Checkpoint))
const isContent = (answer: unknown) => answer === undefined || answer instanceof Uint8Array

/** Whether it is that, also where looking at it throws. */
const safely = <A>(is: (value: unknown) => value is A) => (value: unknown): value is A => {
  try {
    return is(value)
  } catch {
    return false
  }
}

const isResolution = safely(Schema.is(Resolution))

/** What a driver gives to a question. */
const isRequest = Schema.is(Schema.Struct({
  id: Schema.String,
  askedAt: Schema.Finite,
  expiresAt: Schema.Union([Schema.Finite, Schema.Literal("unlimited")])
}))

const isClaimed = Schema.is(Schema.Union([
  Schema.TaggedStruct("Claimed", { ended: Schema.Array(Schema.String) }),
  Schema.TaggedStruct("Busy", { keys: Schema.Array(Schema.String) })
]))

const failure = (operation: string, cause: unknown): StateStoreError =>
  cause instanceof StateStoreError ? cause : new StateStoreError({ operation, cause })

/** The same effect; what it fails of is in the log, with the call that it is for, for nobody else is told. */
const logged = <A, E>(
  outages: Outages,
  what: string,
  effect: Effect.Effect<A, E>,
  about: CallLog.About
): Effect.Effect<A, E> =>
  Effect.tapCause(effect, (cause) =>
    Cause.hasInterruptsOnly(cause) || isAnswered(cause) ?
      Effect.void :
      Effect.gen(function*() {
        const { callId, tool } = yield* ToolContext
        const message = outages.failed(`${what} failed`, yield* Clock.currentTimeMillis)
        if (message !== undefined) yield* CallLog.log("Warn", message, cause, { callId, tool, ...about })
      }))

/** An artifact that is not there is an answer like any other. */
const isAnswered = (cause: Cause.Cause<unknown>): boolean => {
  const error = Cause.findErrorOption(cause)
  return error._tag === "Some" && error.value instanceof ArtifactError && error.value.reason !== "StoreFailed"
}

/** The value of an effect that nobody waits for any longer than that; `failed` makes the error of whatever went wrong. */
const inTime = <A, E>(
  effect: Effect.Effect<A, E>,
  failed: (cause: unknown) => E,
  isAnswer: IsAnswer = isAny,
  millis = patience
): Effect.Effect<A, E> =>
  Effect.flatMap(Detached.within(effect, millis), (exit) => {
    if (exit === undefined) return Effect.fail(failed("no answer in time"))
    if (Exit.isFailure(exit)) return Effect.fail(failed(Cause.squash(exit.cause)))
    try {
      return isAnswer(exit.value) ? Effect.succeed(exit.value) : Effect.fail(failed(nonsense))
    } catch (cause) {
      return Effect.fail(failed(cause))
    }
  })
