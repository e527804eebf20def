/**
 * Gate 12: pending approval requests, answered by id and in any order.
 *
 * An executor submits requests to this service if its context has one. Without it, calls that need approval are denied
 * immediately. A request is answered once. It is denied when it expires or the scope closes, and withdrawn when its
 * call no longer waits.
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
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as CallLog from "../../internal/callLog.ts"
import { Deadlines } from "../../internal/deadlines.ts"
import { OptionReader } from "../../internal/OptionReader.ts"
import type { GivenApproval } from "../vocabulary/Approvers.ts"
import { ConfigurationError } from "../vocabulary/ConfigurationError.ts"
import { escalationOf, type Person } from "../vocabulary/WhoApproves.ts"
import type { Answer, ApprovalError, ApprovalRequest, NewRequest, Resolution, Shown } from "./ApprovalRequest.ts"
import { type Begin, type Ending, type Expire, type Notice, PendingRequests } from "./PendingRequests.ts"

export * from "./ApprovalRequest.ts"
export type { Begin, Ending } from "./PendingRequests.ts"

/**
 * A change of the pending requests. A withdrawn request has no answer. `Approved`: a person has approved the request,
 * and others are still needed. `Escalated`: others may answer now as well. `Reminded`: approvers are to be notified
 * again.
 */
export type Change =
  | { readonly _tag: "Requested"; readonly request: ApprovalRequest }
  | { readonly _tag: Notice["why"]; readonly request: ApprovalRequest }
  | { readonly _tag: "Ended"; readonly id: string; readonly how: Ending }

/** The pending requests. */
export class Approvals extends Context.Service<Approvals, {
  /** Gives a new request its id and deadline, without submitting it. For executors. */
  readonly request: (question: NewRequest) => Effect.Effect<ApprovalRequest>
  /**
   * Makes a request pending and waits for its resolution. Interruption withdraws it. `onResolved` runs in the step that
   * resolves the request, so that an answer counts even if the waiting call is interrupted before it resumes.
   * `onApproved` is called when a person has approved it and others are still needed. Both return an effect that ends
   * once that is on record. For executors.
   */
  readonly submit: (
    request: ApprovalRequest,
    onResolved?: ((resolution: Resolution) => Effect.Effect<void>) | undefined,
    onApproved?: ((approvals: ReadonlyArray<GivenApproval>) => Effect.Effect<void>) | undefined
  ) => Effect.Effect<Resolution>
  /**
   * Answers a request, once. `of` is what the approver saw, or its `hash`: an answer to a different tool or different
   * arguments is rejected. `person` is the approver, a name or a name with roles: the caller has authenticated them. The
   * approved call runs only after this has returned. If others have to approve as well, the request stays pending.
   */
  readonly answer: (
    id: string,
    answer: Answer,
    of?: Shown,
    person?: string | Person
  ) => Effect.Effect<void, ApprovalError>
  /** Denies a request immediately because no approver can be reached, as without `Approvals`. */
  readonly giveUp: (id: string) => Effect.Effect<void>
  /** The pending requests, oldest first. */
  readonly list: Effect.Effect<ReadonlyArray<ApprovalRequest>>
  /** Changes from now on. A slow reader may miss some and finds them in `list`. */
  readonly changes: Stream.Stream<Change>
}>()("effect-tool-executor/policy/Approvals") {}

/** Options of the requests. */
export interface Options {
  /** How long a request waits for an answer, or `"unlimited"`, if it has no deadline yet. Default 300 seconds. */
  readonly timeout?: Duration.Input | "unlimited" | undefined
  /** Makes the id of a request that has none. Default: a random UUID, which cannot be guessed. */
  readonly makeId?: Effect.Effect<string> | undefined
  /** Who answers with the function of `layerApprover`, for requests that say who approves. Default: nobody by name. */
  readonly person?: string | Person | undefined
}

/** Creates the service in memory. Requests that are pending when the scope closes are denied. */
export const make = (
  options?: Options
): Effect.Effect<Approvals["Service"], ConfigurationError, Scope.Scope> => makeWith(options, () => undefined)

/** The service, and what a server that records the requests also needs. */
export interface Recorded {
  readonly approvals: Approvals["Service"]
  /** Resolves a request, if it is pending. The effect ends once that is on record. */
  readonly end: (id: string, resolution: Resolution) => Effect.Effect<void>
  /** Notes the approvals of a request, if it is pending. The effect ends once they are on record. */
  readonly approved: (id: string, approvals: ReadonlyArray<GivenApproval>) => Effect.Effect<void>
  /** Suspends all pending and all later requests. */
  readonly suspend: (reason: string) => Effect.Effect<void>
}

/** How a server records the requests. */
export interface Recording {
  /** Runs when a request becomes pending and returns a callback for its end; both run inside the step. */
  readonly begin: Begin
  /** Ends a request whose deadline has passed. Default: it is denied. */
  readonly expire?: Expire | undefined
  /** How requests end that are pending when the scope closes. Default: they are denied. */
  readonly closed?: Resolution | undefined
}

/** Creates the service for a server that records the requests. */
export const makeRecorded = Effect.fnUntraced(function*(
  { begin, closed = { _tag: "Denied", by: "closed" }, expire }: Recording,
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
  // after a yield: an immediate answer must not arrive while the request is still being submitted
  const tell = (change: Change) => {
    if (untold.push(change) > 1) return
    const all = Effect.suspend(() => {
      const changes = untold
      untold = []
      return PubSub.publishAll(hub, changes)
    })
    run(Effect.asVoid(Effect.andThen(Effect.yieldNow, all)))
  }
  const beginning: Begin = (request) => {
    tell({ _tag: "Requested", request })
    const ended = begin(request)
    return (how) => {
      ended?.(how)
      tell({ _tag: "Ended", id: request.id, how })
    }
  }
  const noticed = ({ request, why }: Notice) => tell({ _tag: why, request })
  const pending = new PendingRequests(clock, new Deadlines(clock, run), beginning, noticed, expire)
  yield* Effect.addFinalizer(() => Effect.sync(() => pending.endAll(closed)))

  const approvals = Approvals.of({
    request: (question) =>
      Effect.map(question.id === undefined ? makeId : Effect.succeed(question.id), (id) => {
        const now = clock.currentTimeMillisUnsafe()
        const { requestedAt = now, expiresAt = timeout === Infinity ? "unlimited" : now + timeout } = question
        return { ...question, id, requestedAt, expiresAt, ...escalationOf(question.approvers, requestedAt) }
      }),
    submit: (request, onResolved, onApproved) => pending.wait(request, onResolved, onApproved),
    answer: (id, answer, of, person) =>
      Effect.suspend(() => Effect.fromResult(pending.answer({ id, answer, of, person }))),
    giveUp: (id) =>
      Effect.sync(() => void pending.endOne(id, ({ why }) => ({ _tag: "Denied", by: "noApprover", reason: why }))),
    list: Effect.sync(() => pending.list()),
    changes: Stream.fromPubSub(hub)
  })
  return {
    approvals,
    end: (id, resolution) => pending.endOne(id, () => resolution),
    approved: (id, approvals) => pending.approved(id, approvals),
    suspend: (reason) => Effect.sync(() => pending.endAll({ _tag: "Suspended", reason }))
  }
})

/**
 * Creates the service around a function that returns the answer of an approver. The function is interrupted when the
 * request ends another way: answered elsewhere by its id, withdrawn, or expired. If it dies or returns an invalid
 * answer, the request is denied. Several requests can be open concurrently; use a `Semaphore` where an approver can
 * answer only one at a time, as in a terminal.
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
      Effect.flatMap((answer) =>
        Effect.uninterruptible(approvals.answer(request.id, answer, request, options?.person))
      ),
      Effect.tapCause((cause) =>
        Cause.hasInterruptsOnly(cause)
          ? Effect.void
          : CallLog.log("Warn", `Request ${request.id} did not reach an approver`, cause, request)
      ),
      Effect.onExit((exit) => Exit.isSuccess(exit) ? Effect.void : approvals.giveUp(request.id))
    ))
    return () => fiber.interruptUnsafe()
  })
  return approvals
})

/** Layer of pending requests, for executors and approvers. */
export const layer = (options?: Options): Layer.Layer<Approvals, ConfigurationError> =>
  Layer.effect(Approvals, make(options))

/**
 * Layer whose approver is a function of the host.
 *
 * **Example** (Approving in a chat)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Approvals } from "effect-tool-executor"
 *
 * export const layer = Approvals.layerApprover(({ tool, why }) =>
 *   Effect.as(Effect.log(`May ${tool} run? (${why})`), { _tag: "Deny", reason: "the chat is closed" })
 * )
 * ```
 *
 * @see {@link makeApprover} for when the function is called and interrupted
 */
export const layerApprover = <R>(
  put: (request: ApprovalRequest) => Effect.Effect<Answer, never, R>,
  options?: Options
): Layer.Layer<Approvals, ConfigurationError, Exclude<R, Scope.Scope>> =>
  Layer.effect(Approvals, makeApprover(put, options))

const makeWith = (
  options: Options | undefined,
  begin: Begin
): Effect.Effect<Approvals["Service"], ConfigurationError, Scope.Scope> =>
  Effect.map(makeRecorded({ begin }, options), (it) => it.approvals)
