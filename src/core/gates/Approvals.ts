/**
 * Gate 12's questions: pending requests for permission, answered by id, in any
 * order, from wherever people are.
 *
 * An executor that finds this service in its context asks. Without it nobody is
 * there, and whatever would be asked is refused at once. A request is answered once.
 * It ends unanswered when its time is over or the scope closes, and is withdrawn
 * when whoever asked no longer waits for it.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as SecureRandom from "effect/crypto/SecureRandom"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as PubSub from "effect/PubSub"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as CallLog from "../../internal/callLog.ts"
import { Deadlines } from "../../internal/deadlines.ts"
import { OptionReader } from "../../internal/OptionReader.ts"
import { ConfigurationError } from "../vocabulary/ConfigurationError.ts"
import type { Answer, ApprovalError, ApprovalRequest, NewRequest, Resolution, Shown } from "./ApprovalRequest.ts"
import { type Begin, type Ending, type Given, PendingRequests } from "./PendingRequests.ts"

export * from "./ApprovalRequest.ts"
export type { Begin, Ending, Given } from "./PendingRequests.ts"

/**
 * Something that happened to the pending requests: one was asked, or one ended,
 * and how. A request that was withdrawn has no answer.
 *
 * @category models
 * @since 0.1.0
 */
export type Change =
  | { readonly _tag: "Requested"; readonly request: ApprovalRequest }
  | { readonly _tag: "Ended"; readonly id: string; readonly how: Ending }

/**
 * The pending requests.
 *
 * @category services
 * @since 0.1.0
 */
export class Approvals extends Context.Service<Approvals, {
  /** Makes a request of a question: with its id and its deadline. Nobody is asked yet. For executors. */
  readonly request: (question: NewRequest) => Effect.Effect<ApprovalRequest>
  /**
   * Asks and waits for what becomes of it; interruption withdraws the request. `told` is
   * called the moment that it has become something, for where whoever waits is
   * interrupted before it goes on: the answer was given all the same. For executors.
   */
  readonly submit: (
    request: ApprovalRequest,
    onResolved?: ((resolution: Resolution) => void) | undefined
  ) => Effect.Effect<Resolution>
  /**
   * Answers a request, once. `of` is what was shown, or its `hash`: an answer to
   * another tool or other arguments than the request's changes nothing. `person` is
   * who answers, for the record.
   * Nothing of what the answer allows runs before this has returned.
   */
  readonly answer: (id: string, answer: Answer, of?: Shown, person?: string) => Effect.Effect<void, ApprovalError>
  /** Gives a request up, where nobody can be asked about it: it is refused at once, as without `Approvals`. */
  readonly giveUp: (id: string) => Effect.Effect<void>
  /** The pending requests, oldest first. */
  readonly list: Effect.Effect<ReadonlyArray<ApprovalRequest>>
  /** What happens from now on; a slow reader may miss some and finds them in `list`. */
  readonly changes: Stream.Stream<Change>
}>()("effect-tool-executor/policy/Approvals") {}

/**
 * Options of the requests.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** How long a request waits for an answer, or `"unlimited"`, if its question does not say so. Default 300 seconds. */
  readonly timeout?: Duration.Input | "unlimited" | undefined
  /** Makes the id of a request, if its question does not bring one. Default: a random UUID, which cannot be guessed. */
  readonly makeId?: Effect.Effect<string> | undefined
}

/**
 * Creates the service, in memory; what is pending when the scope closes is
 * refused. Fails with `ConfigurationError` where the timeout is not a duration.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (
  options?: Options
): Effect.Effect<Approvals["Service"], ConfigurationError, Scope.Scope> => makeWith(options, () => undefined)

/**
 * The pending requests, for whoever keeps a record of them: the service, and what
 * only its keeper does.
 *
 * @category models
 * @since 0.1.0
 */
export interface Recorded {
  readonly approvals: Approvals["Service"]
  /** Answers several, now and in one step: all of them, or none, and why. */
  readonly answerAll: (given: ReadonlyArray<Given>) => Result.Result<void, ReadonlyArray<ApprovalError>>
  /** Ends the wait for answers: what is asked now or later is suspended. */
  readonly suspend: (reason: string) => Effect.Effect<void>
}

/**
 * Creates the service for whoever keeps a record: `begin` is told of each request when it is
 * pending, and what it gives is told how it ended, both in the step in which it happens.
 *
 * @category constructors
 * @since 0.1.0
 */
export const makeRecorded = Effect.fnUntraced(function*(
  begin: Begin,
  options?: Options
): Effect.fn.Return<Recorded, ConfigurationError, Scope.Scope> {
  const reader = new OptionReader()
  const timeout = reader.wait("timeout", options?.timeout ?? "300 seconds")
  const { problems } = reader
  if (problems.length > 0) return yield* new ConfigurationError({ subject: "Approvals", problems })
  const run = Effect.runForkWith(yield* Effect.context<never>())
  const random = yield* Effect.provide(SecureRandom.SecureRandom, SecureRandom.layerWebCrypto)
  const clock = yield* Clock.Clock
  const makeId = options?.makeId ?? random.uuidV4()
  const hub = yield* PubSub.sliding<Change>(1_024)

  let untold: Array<Change> = []
  // in a turn of its own: an answer given at once must not come while the question is still being put
  const tell = (change: Change) => {
    if (untold.push(change) > 1) return
    const all = Effect.suspend(() => {
      const changes = untold
      untold = []
      return PubSub.publishAll(hub, changes)
    })
    run(Effect.asVoid(Effect.andThen(Effect.yieldNow, all)))
  }
  const pending = new PendingRequests(clock, new Deadlines(clock, run), (request) => {
    tell({ _tag: "Requested", request })
    const ended = begin(request)
    return (how) => {
      ended?.(how)
      tell({ _tag: "Ended", id: request.id, how })
    }
  })
  yield* Effect.addFinalizer(() => Effect.sync(() => pending.endAll({ _tag: "Denied", by: "closed" })))

  const answerAll: Recorded["answerAll"] = (given) => pending.answer(given)
  const approvals = Approvals.of({
    request: (question) =>
      Effect.map(question.id === undefined ? makeId : Effect.succeed(question.id), (id) => {
        const now = clock.currentTimeMillisUnsafe()
        const { requestedAt = now, expiresAt = timeout === Infinity ? "unlimited" : now + timeout } = question
        return { ...question, id, requestedAt, expiresAt }
      }),
    submit: (request, onResolved) => pending.wait(request, onResolved),
    answer: (id, answer, of, person) =>
      Effect.suspend(() =>
        Effect.fromResult(Result.mapError(answerAll([{ id, answer, of, person }]), ([problem]) => problem!))
      ),
    giveUp: (id) =>
      Effect.sync(() => pending.endOne(id, ({ why }) => ({ _tag: "Denied", by: "noApprover", reason: why }))),
    list: Effect.sync(() => pending.list()),
    changes: Stream.fromPubSub(hub)
  })
  return {
    approvals,
    answerAll,
    suspend: (reason) => Effect.sync(() => pending.endAll({ _tag: "Suspended", reason }))
  }
})

/**
 * Creates the service around a function that asks people and gives their answer.
 * It is interrupted when the request ends another way: answered elsewhere by its
 * id, withdrawn, or expired. Where it dies, or gives something that is not an answer,
 * the request is given up. It is called while other questions are open, too: where people
 * can answer one at a time, as at a terminal, a `Semaphore` makes them take turns.
 *
 * @category constructors
 * @since 0.1.0
 */
export const makeApprover = Effect.fnUntraced(function*<R>(
  put: (request: ApprovalRequest) => Effect.Effect<Answer, never, R>,
  options?: Options
): Effect.fn.Return<Approvals["Service"], ConfigurationError, Scope.Scope | R> {
  const run = Effect.runForkWith(yield* Effect.context<R>())
  const approvals: Approvals["Service"] = yield* makeWith(options, (request) => {
    const fiber = run(Effect.yieldNow.pipe(
      Effect.flatMap(() => put(request)),
      // it ends the request, which interrupts this
      Effect.flatMap((answer) => Effect.uninterruptible(approvals.answer(request.id, answer, request))),
      Effect.tapCause((cause) =>
        Cause.hasInterruptsOnly(cause)
          ? Effect.void
          : CallLog.log("Warn", `Request ${request.id} could not be put to anybody`, cause, request)
      ),
      Effect.onExit((exit) => Exit.isSuccess(exit) ? Effect.void : approvals.giveUp(request.id))
    ))
    return () => fiber.interruptUnsafe()
  })
  return approvals
})

/**
 * Layer of pending requests, for executors and whoever answers.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options?: Options): Layer.Layer<Approvals, ConfigurationError> =>
  Layer.effect(Approvals, make(options))

/**
 * Layer that asks people by a function of the host's.
 *
 * **Example** (Asking in a chat)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Approvals } from "effect-tool-executor"
 *
 * export const layer = Approvals.layerApprover(({ tool, why }) =>
 *   Effect.as(Effect.log(`May ${tool} run? (${why})`), { _tag: "Deny", reason: "nobody is at the chat" })
 * )
 * ```
 *
 * @see {@link makeApprover} for when the function is called and interrupted
 * @category layers
 * @since 0.1.0
 */
export const layerApprover = <R>(
  put: (request: ApprovalRequest) => Effect.Effect<Answer, never, R>,
  options?: Options
): Layer.Layer<Approvals, ConfigurationError, Exclude<R, Scope.Scope>> =>
  Layer.effect(Approvals, makeApprover(put, options))

// Utilities

const makeWith = (
  options: Options | undefined,
  begin: Begin
): Effect.Effect<Approvals["Service"], ConfigurationError, Scope.Scope> =>
  Effect.map(makeRecorded(begin, options), (it) => it.approvals)
