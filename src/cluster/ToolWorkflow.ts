/**
 * Waves and operations as workflows of `effect/workflow`, for hosts that have a workflow engine.
 *
 * A workflow submits once and waits for the end without a fiber: the process where the wave ends completes what it
 * waits for. It only submits and waits: calls, approvals and their records are those of the sessions, and nothing of
 * them runs in the workflow engine.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Activity from "effect/workflow/Activity"
import * as DurableClock from "effect/workflow/DurableClock"
import * as DurableDeferred from "effect/workflow/DurableDeferred"
import * as Workflow from "effect/workflow/Workflow"
import { WorkflowEngine } from "effect/workflow/WorkflowEngine"
import * as Models from "../server/api/ApiModels.ts"
import * as Operations from "../server/api/ApiOperations.ts"
import * as Problems from "../server/api/ApiProblems.ts"
import { SessionDirectory } from "../server/sessions/SessionDirectory.ts"
import { EndListener } from "../server/work/EndListener.ts"

const work = {
  user: Schema.String,
  session: Models.Name,
  /** Unique in the session: executing the workflow again with the same name gives the result of the first. */
  name: Models.Name.check(Schema.isMaxLength(80))
}

const keyOf = ({ name, session, user }: { readonly [key in keyof typeof work]: string }) =>
  JSON.stringify([user, session, name])

/**
 * A workflow that submits the calls of a message and ends with their wave. Read the results with
 * `SessionDirectory.wave`, under the name in its result.
 *
 * While the service is unavailable or a limit is reached, it tries again. If it is interrupted, the wave is cancelled.
 */
export const Wave = Workflow.make("effect-tool-executor/Wave/1", {
  payload: {
    ...work,
    message: Models.Submission.fields.message,
    format: Models.Submission.fields.format,
    turn: Models.Submission.fields.turn
  },
  idempotencyKey: keyOf,
  success: Models.WaveInfo,
  error: Schema.Union([Problems.Invalid, Problems.WaveConflict, Problems.WaveUnreadable, Problems.NotFound])
})

/**
 * A workflow that sends a message to an agent, as an operation of its own, and ends with it. While another operation
 * runs in the session, it waits for its turn.
 */
export const Operation = Workflow.make("effect-tool-executor/Operation/1", {
  payload: { ...work, agent: Schema.String, prompt: Schema.NonEmptyString },
  idempotencyKey: keyOf,
  success: Operations.Operation,
  error: Schema.Union([Problems.Invalid, Problems.OperationConflict, Problems.NotFound])
})

/** Layer that registers the workflows. */
export const layer: Layer.Layer<never, never, SessionDirectory | WorkflowEngine> = Layer.merge(
  Wave.toLayer(Effect.fnUntraced(function*({ name, session, user, ...message }) {
    const directory = yield* SessionDirectory
    const owner = { user, session }
    const wave = `${prefix}${name}`
    yield* cancelled((reason) => directory.cancel(owner, wave, { reason }))
    yield* once(Wave.errorSchema, Effect.asVoid(directory.submit(owner, { ...message, wave })))
    const { end: _, format: __, messages: ___, ...info } = yield* ended(
      directory.wave(owner, wave),
      ({ status }) => status === "ended"
    )
    return info
  })),
  Operation.toLayer(Effect.fnUntraced(function*({ agent, name, prompt, session, user }) {
    const directory = yield* SessionDirectory
    const owner = { user, session }
    const id = `${prefix}${name}`
    yield* cancelled((reason) => directory.cancelOperation(owner, id, reason))
    yield* once(
      Operation.errorSchema,
      Effect.asVoid(directory.start(owner, { agent, prompt, id, onBusy: "reject" }))
    )
    return yield* ended(directory.operation(owner, id), ({ state }) => state === "ended")
  }))
)

/**
 * Layer that completes workflows at the ends of their waves and operations. Provide it to `Server.layerExecutors`.
 * Without it, workflows notice ends when they look for them: after two minutes at first, later once a day.
 */
export const layerEnds: Layer.Layer<EndListener, never, WorkflowEngine> = Layer.effect(
  EndListener,
  Effect.gen(function*() {
    const engine = yield* WorkflowEngine
    return EndListener.of({
      ended: Effect.fnUntraced(function*({ session, user }, what, named) {
        if (!named.startsWith(prefix)) return
        const workflow = what === "wave" ? Wave : Operation
        // the execution follows from the name alone
        const key = { user, session, name: named.slice(prefix.length) }
        const executionId = yield* workflow === Wave
          ? Wave.executionId({ ...key, message: null })
          : Operation.executionId({ ...key, agent: "", prompt: "-" })
        const token = DurableDeferred.tokenFromExecutionId(end, { workflow, executionId })
        yield* Effect.provideService(DurableDeferred.succeed(end, { token, value: undefined }), WorkflowEngine, engine)
      })
    })
  })
)

/** Names of waves and operations of workflows. */
const prefix = "workflow-"

/** Completed at the end. */
const end = DurableDeferred.make("end")

const isFor = (schema: Schema.Top) => Schema.is(schema)

/** Submits until it is accepted or refused for good. A process that is stopped meanwhile submits it again. */
const once = Effect.fnUntraced(function*<E extends Schema.Top>(
  error: E,
  submit: Effect.Effect<void, { readonly _tag: string }>
) {
  const isFinal = isFor(error)
  for (let attempt = 1;; attempt++) {
    const isAccepted = yield* Activity.make({
      name: `submit/${attempt}`,
      success: Schema.Boolean,
      error,
      execute: submit.pipe(
        Effect.as(true),
        Effect.catch((problem) => isFinal(problem) ? Effect.fail(problem as E["Type"]) : Effect.succeed(false))
      ),
      interruptRetryPolicy: Schedule.recurs(0)
    })
    if (isAccepted) return
    yield* DurableClock.sleep({
      name: `submit/${attempt}`,
      duration: later(attempt, Duration.seconds(5), Duration.hours(1))
    })
  }
})

/** Waits until it is told of an end, and looks from time to time. */
const ended = Effect.fnUntraced(function*<A, E>(
  read: Effect.Effect<A, E | Problems.Unavailable>,
  isOver: (it: A) => boolean
) {
  const told = Effect.as(DurableDeferred.await(end), true)
  let isTold = false
  for (let look = 1;; look++) {
    const wait = DurableClock.sleep({
      name: `look/${look}`,
      duration: later(look, Duration.minutes(2), Duration.days(1))
    })
    const slept = Effect.as(wait, false)
    isTold = (yield* DurableDeferred.raceAll({
      name: `look/${look}`,
      success: Schema.Boolean,
      error: Schema.Never,
      effects: isTold ? [slept] : [told, slept]
    })) || isTold
    const found = yield* Effect.asSome(read).pipe(
      Effect.catch((error) => error instanceof Problems.Unavailable ? Effect.succeedNone : Effect.fail(error as E))
    )
    if (Option.isSome(found) && isOver(found.value)) return found.value
  }
})

const later = (attempt: number, first: Duration.Duration, most: Duration.Duration): Duration.Duration =>
  Duration.min(Duration.times(first, 2 ** (attempt - 1)), most)

/** Cancels the work of a workflow that is interrupted. */
const cancelled = (cancel: (reason: string) => Effect.Effect<void, unknown>) =>
  Workflow.addFinalizer((exit) =>
    Exit.hasInterrupts(exit) ? Effect.ignore(cancel("its workflow was interrupted")) : Effect.void
  )
