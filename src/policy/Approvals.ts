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
import * as Config from "effect/Config"
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
import { ConfigurationError } from "../ConfigurationError.ts"
import { type Deadline, Deadlines } from "../internal/deadlines.ts"
import { OptionReader } from "../internal/OptionReader.ts"
import * as Grant from "../store/Grant.ts"
import {
  type Answer,
  ApprovalError,
  type ApprovalRequest,
  type Question,
  type Resolution,
  resolve,
  type Shown
} from "./ApprovalRequest.ts"

export * from "./ApprovalRequest.ts"

/**
 * Something that happened to the pending requests: one was asked, or one ended,
 * and how. A request that was withdrawn has no answer.
 *
 * @category models
 * @since 0.1.0
 */
export type Change =
  | { readonly _tag: "Asked"; readonly request: ApprovalRequest }
  | { readonly _tag: "Ended"; readonly id: string; readonly how: Resolution | { readonly _tag: "Withdrawn" } }

/**
 * The pending requests.
 *
 * @category services
 * @since 0.1.0
 */
export class Approvals extends Context.Service<Approvals, {
  /** Makes a request of a question: with its id and its deadline. Nobody is asked yet. For executors. */
  readonly request: (question: Question) => Effect.Effect<ApprovalRequest>
  /**
   * Asks and waits for what becomes of it; interruption withdraws the request. `told` is
   * called the moment that it has become something, for where whoever waits is
   * interrupted before it goes on: the answer was given all the same. For executors.
   */
  readonly ask: (
    request: ApprovalRequest,
    told?: ((resolution: Resolution) => void) | undefined
  ) => Effect.Effect<Resolution>
  /**
   * Answers a request, once. `of` is what was shown, or its `hash`: an answer to
   * another tool or other arguments than the request's changes nothing.
   * Nothing of what the answer allows runs before this has returned.
   */
  readonly answer: (id: string, answer: Answer, of?: Shown) => Effect.Effect<void, ApprovalError>
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
 * Creates the service around a function that asks people and gives their answer.
 * It is interrupted when the request ends another way: answered elsewhere by its
 * id, withdrawn, or expired. Where it dies, or gives something that is not an answer,
 * the request is given up. It is called while other questions are open, too: where people
 * can answer one at a time, as at a terminal, a `Semaphore` makes them take turns.
 *
 * @category constructors
 * @since 0.1.0
 */
export const makeAsk = Effect.fnUntraced(function*<R>(
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
          : Effect.logWarning(`Request ${request.id} could not be put to anybody`, cause)
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
 * The same with options from the configuration, such as environment variables.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerConfig = (
  options: Config.Wrap<Pick<Options, "timeout">>
): Layer.Layer<Approvals, ConfigurationError | Config.ConfigError> =>
  Layer.effect(Approvals, Effect.flatMap(Config.unwrap(options), make))

/**
 * Layer that asks people by a function of the host's.
 *
 * **Example** (Asking in a chat)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Approvals } from "effect-tool-executor"
 *
 * export const layer = Approvals.layerAsk(({ tool, why }) =>
 *   Effect.as(Effect.log(`May ${tool} run? (${why})`), { _tag: "Deny", reason: "nobody is at the chat" })
 * )
 * ```
 *
 * @see {@link makeAsk} for when the function is called and interrupted
 * @category layers
 * @since 0.1.0
 */
export const layerAsk = <R>(
  put: (request: ApprovalRequest) => Effect.Effect<Answer, never, R>,
  options?: Options
): Layer.Layer<Approvals, ConfigurationError, Exclude<R, Scope.Scope>> => Layer.effect(Approvals, makeAsk(put, options))

// Utilities

interface Pending {
  readonly request: ApprovalRequest
  readonly resume: (effect: Effect.Effect<Resolution>) => void
  readonly told: ((resolution: Resolution) => void) | undefined
  deadline: Deadline | undefined
  /** Puts the request to somebody no more. */
  stop: (() => void) | undefined
}

/** `begin` is told of each request when it is pending; what it gives is called when it is not any more. */
const makeWith = Effect.fnUntraced(function*(
  options: Options | undefined,
  begin: (request: ApprovalRequest) => (() => void) | undefined
): Effect.fn.Return<Approvals["Service"], ConfigurationError, Scope.Scope> {
  const reader = new OptionReader()
  const timeout = reader.wait("timeout", options?.timeout ?? "300 seconds")
  const { problems } = reader
  if (problems.length > 0) return yield* new ConfigurationError({ subject: "Approvals", problems })
  const run = Effect.runForkWith(yield* Effect.context<never>())
  const random = yield* Effect.provide(SecureRandom.SecureRandom, SecureRandom.layerWebCrypto)
  const clock = yield* Clock.Clock
  const makeId = options?.makeId ?? random.uuidV4()
  const deadlines = new Deadlines(clock, run)
  const hub = yield* PubSub.sliding<Change>(1_024)
  // oldest first
  const pending = new Map<string, Pending>()
  // what an answer may settle besides, by tool and first target, so that the cost does not grow with those who wait
  const alike = new Map<string, Set<Pending>>()
  let isClosed = false

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
  const remove = (it: Pending, how: Extract<Change, { readonly _tag: "Ended" }>["how"]): boolean => {
    const { id } = it.request
    if (pending.get(id) !== it) return false
    pending.delete(id)
    for (const key of keysOf(it.request)) {
      const others = alike.get(key)
      others?.delete(it)
      if (others?.size === 0) alike.delete(key)
    }
    if (it.deadline !== undefined) deadlines.delete(it.deadline)
    it.stop?.()
    tell({ _tag: "Ended", id, how })
    return true
  }
  // whoever waits goes on in a turn of its own: what runs then is no concern of whoever answers
  const end = (it: Pending, resolution: Resolution) => {
    if (!remove(it, resolution)) return
    it.told?.(resolution)
    it.resume(Effect.as(Effect.yieldNow, resolution))
  }
  const closed: Resolution = { _tag: "Denied", by: "closed" }
  yield* Effect.addFinalizer(() =>
    Effect.sync(() => {
      isClosed = true
      for (const it of Array.from(pending.values())) end(it, closed)
    })
  )

  return Approvals.of({
    request: (question) =>
      Effect.map(question.id === undefined ? makeId : Effect.succeed(question.id), (id) => {
        const askedAt = clock.currentTimeMillisUnsafe()
        const expiresAt = question.expiresAt ?? (timeout === Infinity ? "unlimited" : askedAt + timeout)
        return { ...question, id, askedAt, expiresAt }
      }),
    ask: (request, told) =>
      Effect.callback((resume) => {
        if (isClosed) return resume(Effect.succeed(closed))
        if (pending.has(request.id)) return resume(Effect.die(new Error(`request ${request.id} is already pending`)))
        const it: Pending = { request, resume, told, deadline: undefined, stop: undefined }
        pending.set(request.id, it)
        for (const key of keysOf(request)) {
          const others = alike.get(key)
          if (others === undefined) alike.set(key, new Set([it]))
          else others.add(it)
        }
        if (request.expiresAt !== "unlimited") {
          it.deadline = deadlines.add(request.expiresAt, () => end(it, { _tag: "Denied", by: "timeout" }))
        }
        tell({ _tag: "Asked", request })
        it.stop = begin(request)
        return Effect.sync(() => void remove(it, { _tag: "Withdrawn" }))
      }),
    answer: Effect.fnUntraced(function*(id, answer, of) {
      const grantId = yield* random.uuidV4()
      const it = pending.get(id)
      if (it === undefined) return yield* new ApprovalError({ id, reason: "NotPending" })
      const now = clock.currentTimeMillisUnsafe()
      const resolved = resolve(it.request, answer, { now, grantId, of })
      if (Result.isFailure(resolved)) return yield* resolved.failure
      const resolution = resolved.success
      const grant = resolution._tag === "Approved" ? resolution.grant : undefined
      const { principal, tool } = it.request
      const about = grant === undefined ? [] : grant.targets ?? [undefined]
      const others = about.flatMap((target) => Array.from(alike.get(keyOf(principal, tool, target)) ?? []))
      end(it, resolution)
      if (grant === undefined) return
      // whoever else waits for the same has been answered as well
      for (const other of others) {
        const isCovered = other !== it && other.request.remember !== "call" && Grant.covers(grant, other.request, now)
        if (isCovered) end(other, { _tag: "Approved", grant, isOwn: false })
      }
    }),
    giveUp: (id) =>
      Effect.sync(() => {
        const it = pending.get(id)
        if (it !== undefined) end(it, { _tag: "Denied", by: "noApprover", reason: it.request.why })
      }),
    list: Effect.sync(() => Array.from(pending.values(), (it) => it.request)),
    changes: Stream.fromPubSub(hub)
  })
})

const keyOf = (principal: string, tool: string, target: string | undefined): string =>
  JSON.stringify([principal, tool, target])

/** All requests of a tool, and those that begin with the same target: what covers one has to name that. */
const keysOf = (
  { principal, targets: [first], tool }: Pick<ApprovalRequest, "principal" | "tool" | "targets">
): ReadonlyArray<string> =>
  first === undefined
    ? [keyOf(principal, tool, undefined)]
    : [keyOf(principal, tool, undefined), keyOf(principal, tool, first.text)]
