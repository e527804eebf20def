/**
 * Gate 12's questions: pending requests for permission, answered by id, in any
 * order, from wherever people are.
 *
 * An executor that finds this service in its context asks; without it nobody is
 * there, and what would be asked is refused at once. A request is answered
 * once; it ends with silence after its time and when the scope closes.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as PubSub from "effect/PubSub"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { ConfigurationError, validateStrict } from "../ConfigurationError.ts"
import * as FileChange from "../FileChange.ts"
import { canonicalJson } from "../internal/canonicalJson.ts"
import * as Grant from "../store/Grant.ts"

/**
 * A pending question.
 *
 * @category models
 * @since 0.1.0
 */
export interface ApprovalRequest {
  /** Cannot be guessed. */
  readonly id: string
  readonly principal: string
  /** Names of the sub-agents from the root down to the one that calls; empty: the root itself. */
  readonly agentPath: ReadonlyArray<string>
  readonly batch: string
  readonly process: string
  readonly callId: string
  readonly tool: string
  /** What the tool says it is: an answer is remembered for no other of that name. */
  readonly revision?: string | undefined
  /** The tool's concurrency class. */
  readonly class: string
  /** The arguments that the tool will be called with. */
  readonly args: unknown
  /** What the call is about, as far as it is known. */
  readonly targets: ReadonlyArray<{ readonly text: string; readonly kind?: "exact" | "protected" | undefined }>
  /** Why it is asked. */
  readonly why: string
  /** What the call would write, where it can tell: a unified diff of at most 20,000 characters, or why there is none. */
  readonly preview: Preview | undefined
  /** The call runs already and waits with its write: its arguments cannot be edited any more. */
  readonly isRunning: boolean
  /** What an answer may be remembered for at most. */
  readonly remember: "call" | "resources" | "tool"
  /** Epoch milliseconds. */
  readonly askedAt: number
  /** Epoch milliseconds after which silence is a no. */
  readonly expiresAt: number
}

/**
 * What a call would write, as it is shown.
 *
 * @category models
 * @since 0.1.0
 */
export type Preview =
  | { readonly _tag: "Diff"; readonly diff: string }
  | { readonly _tag: "None"; readonly because: string }

const params = Schema.optionalKey(Schema.Json)
const scope = Schema.optionalKey(Schema.Literals(["resources", "tool"]))
const agents = Schema.optionalKey(Schema.Literals(["subtree", "all"]))

/**
 * Schema of an answer.
 *
 * **Details**
 *
 * `ApproveForDuration` and `ApproveForScope` are remembered, for the targets of
 * this call to the letter, or for the whole tool if it never names any or `scope`
 * says so, for the agent that asked and its sub-agents, or with `agents: "all"` for
 * every agent of the principal. `Deny` and silence never are. `params` are edited arguments: the call is
 * looked at anew with them, without a second question, and nothing is
 * remembered.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Answer = Schema.Union([
  Schema.TaggedStruct("ApproveOnce", { params }),
  Schema.TaggedStruct("ApproveForDuration", { params, duration: Schema.String, scope, agents }),
  Schema.TaggedStruct("ApproveForScope", { params, scope, agents }),
  Schema.TaggedStruct("Deny", { reason: Schema.optionalKey(Schema.String) })
])

/**
 * What a person says to a request.
 *
 * @category models
 * @since 0.1.0
 */
export type Answer = typeof Answer.Type

/**
 * How a request ended.
 *
 * @category models
 * @since 0.1.0
 */
export type Resolution =
  /** `grant` is what the answer made, or, of another request's answer, what covers this one. */
  | {
    readonly _tag: "Approved"
    readonly grant: Grant.Grant | undefined
    readonly isOwn: boolean
    /** The edited arguments, if there are any. */
    readonly edited?: { readonly params: unknown } | undefined
  }
  | {
    readonly _tag: "Denied"
    readonly by: "user" | "timeout" | "closed" | "noApprover"
    readonly reason?: string | undefined
  }

/**
 * Error of an answer that changes nothing.
 *
 * @category errors
 * @since 0.1.0
 */
export class ApprovalError extends Schema.TaggedError<ApprovalError>("effect-tool-executor/ApprovalError")(
  "ApprovalError",
  {
    id: Schema.String,
    /**
     * `NotPending`: unknown, answered already or expired. `NotTheSame`: the answer
     * was to another call. `NotEditable`: the call runs already. `NotAnAnswer`: it
     * has another form; `problem` says where.
     */
    reason: Schema.Literals(["NotPending", "NotTheSame", "NoDuration", "NotEditable", "NotAnAnswer"]),
    problem: Schema.optionalKey(Schema.String)
  }
) {
  override get message(): string {
    switch (this.reason) {
      case "NotPending":
        return `Request ${this.id} is not pending: it is unknown, was answered or has expired.`
      case "NotTheSame":
        return `Request ${this.id} is about another tool or other arguments than what was answered.`
      case "NotEditable":
        return `The call of request ${this.id} runs already: its arguments cannot be edited. Approve or deny it.`
      case "NotAnAnswer":
        return `The answer to request ${this.id} is none (${this.problem}); expected ApproveOnce, ApproveForDuration, ApproveForScope or Deny.`
      case "NoDuration":
        return `The duration of the answer to request ${this.id} is none, or has no end; give one such as "1 hour".`
    }
  }
}

/**
 * What an executor asks.
 *
 * @category models
 * @since 0.1.0
 */
export type Question = Omit<ApprovalRequest, "id" | "askedAt" | "expiresAt">

/**
 * What a person was shown: the tool with its arguments, or their `hash`.
 *
 * @category models
 * @since 0.1.0
 */
export type Shown = { readonly tool: string; readonly args: unknown } | { readonly hash: string }

/**
 * Gives the SHA-256 of a tool and its arguments, in hex: what a page sends back
 * with the answer, so that it is one to this call and no other. Arguments nested
 * too deeply have the empty text, and no answer with a hash is to them.
 *
 * @category getters
 * @since 0.1.0
 */
export const hash = ({ args, tool }: { readonly tool: string; readonly args: unknown }): string =>
  FileChange.hashOf(canonical([tool, args]))

/**
 * Something that happened to the pending requests.
 *
 * @category models
 * @since 0.1.0
 */
export type Change =
  | { readonly _tag: "Asked"; readonly request: ApprovalRequest }
  | { readonly _tag: "Ended"; readonly id: string }

/**
 * The pending requests.
 *
 * @category services
 * @since 0.1.0
 */
export class Approvals extends Context.Service<Approvals, {
  /** Asks; `onEnd` is called once, unless the question is withdrawn first. For executors. */
  readonly ask: (question: Question, onEnd: (resolution: Resolution) => void) => {
    readonly request: ApprovalRequest
    readonly withdraw: () => void
  }
  /**
   * Answers a request, once. `of` is what was shown, itself or its `hash`: an
   * answer to another tool or other arguments than the request's changes nothing.
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
 * When an executor asks: about each call when its turn comes, or about all calls
 * of a wave that would get so far before any of them runs. Default `"perCall"`.
 *
 * @category references
 * @since 0.1.0
 */
export const Mode = Context.Reference<"perCall" | "upfront">("effect-tool-executor/policy/Approvals/Mode", {
  defaultValue: () => "perCall"
})

/**
 * Options of the requests.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** How long a request waits for an answer. Default 300 seconds. */
  readonly timeout?: Duration.Input | undefined
}

/**
 * Creates the service; what is pending when the scope closes is refused. Fails
 * with `ConfigurationError` where the timeout is no duration.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = Effect.fnUntraced(function*(
  options?: Options
): Effect.fn.Return<Approvals["Service"], ConfigurationError, Scope.Scope> {
  const given = Duration.fromInput(options?.timeout ?? "300 seconds")
  if (Option.isNone(given)) {
    const problem = { path: "timeout", problem: "it is no duration", expected: "a duration such as \"5 minutes\"" }
    return yield* new ConfigurationError({ subject: "Approvals", problems: [problem] })
  }
  const context = yield* Effect.context<never>()
  const random = yield* Effect.provide(SecureRandom.SecureRandom, SecureRandom.layerWebCrypto)
  const clock = yield* Clock.Clock
  const hub = yield* PubSub.sliding<Change>(1_024)
  const patience = Duration.toMillis(given.value)
  // in order of their age, which is the order in which they expire
  const pending = new Map<string, Pending>()
  // what an answer may settle besides: by tool, and by the first target, so that it does not depend on how many wait
  const alike = new Map<string, Set<Pending>>()
  let timer: Fiber.Fiber<void> | undefined
  let isClosed = false

  // in a turn of its own: who answers at once must not do so while the question is still being put
  const tell = (change: Change) => {
    Effect.runForkWith(context)(Effect.andThen(Effect.yieldNow, PubSub.publish(hub, change)))
  }
  const remove = (it: Pending): boolean => {
    if (!pending.delete(it.request.id)) return false
    for (const key of keysOf(it.request)) {
      const others = alike.get(key)
      others?.delete(it)
      if (others?.size === 0) alike.delete(key)
    }
    tell({ _tag: "Ended", id: it.request.id })
    return true
  }
  const end = (it: Pending, resolution: Resolution) => {
    if (remove(it)) it.onEnd(resolution)
  }
  const expire: Effect.Effect<void> = Effect.suspend(() => {
    const now = clock.currentTimeMillisUnsafe()
    for (const it of pending.values()) {
      if (it.request.expiresAt > now) return Effect.andThen(Effect.sleep(it.request.expiresAt - now), expire)
      end(it, { _tag: "Denied", by: "timeout" })
    }
    timer = undefined
    return Effect.void
  })
  yield* Effect.addFinalizer(() =>
    Effect.sync(() => {
      timer?.interruptUnsafe()
      isClosed = true
      for (const it of Array.from(pending.values())) end(it, { _tag: "Denied", by: "closed" })
    })
  )

  return Approvals.of({
    ask: (question, onEnd) => {
      const askedAt = clock.currentTimeMillisUnsafe()
      const id = Effect.runSyncWith(context)(random.uuidV4())
      const it: Pending = { request: { ...question, id, askedAt, expiresAt: askedAt + patience }, onEnd }
      pending.set(id, it)
      for (const key of keysOf(question)) {
        const others = alike.get(key)
        if (others === undefined) alike.set(key, new Set([it]))
        else others.add(it)
      }
      tell({ _tag: "Asked", request: it.request })
      // in a turn of its own, also where the time is none
      const soon = (then: Effect.Effect<void>) => Effect.runForkWith(context)(Effect.andThen(Effect.yieldNow, then))
      if (isClosed) soon(Effect.sync(() => end(it, { _tag: "Denied", by: "closed" })))
      else timer ??= soon(expire)
      return { request: it.request, withdraw: () => void remove(it) }
    },
    answer: Effect.fnUntraced(function*(id, answer, of) {
      // it may come from a page, as it was sent
      const problems = validateStrict(Answer, withoutUndefined(answer), "")
      if (problems.length > 0) {
        const problem = problems.map((it) => `${it.path}: ${it.problem}`).join("; ")
        return yield* new ApprovalError({ id, reason: "NotAnAnswer", problem })
      }
      const it = pending.get(id)
      if (it === undefined) return yield* new ApprovalError({ id, reason: "NotPending" })
      if (of !== undefined && !isShown(it.request, of)) return yield* new ApprovalError({ id, reason: "NotTheSame" })
      if (it.request.isRunning && answer._tag !== "Deny" && answer.params !== undefined) {
        return yield* new ApprovalError({ id, reason: "NotEditable" })
      }
      if (answer._tag === "Deny") return end(it, { _tag: "Denied", by: "user", reason: answer.reason })
      const now = clock.currentTimeMillisUnsafe()
      const grant = grantOf(it.request, answer, now, yield* random.uuidV4())
      if (grant === "NoDuration") return yield* new ApprovalError({ id, reason: grant })
      const { principal, tool } = it.request
      const about = grant === undefined ? [] : grant.targets ?? [undefined]
      const others = about.flatMap((target) => Array.from(alike.get(keyOf(principal, tool, target)) ?? []))
      const edited = answer.params === undefined ? undefined : { params: answer.params }
      end(it, { _tag: "Approved", grant, isOwn: true, edited })
      if (grant === undefined) return
      // whoever else waits for the same has been answered, too
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

/**
 * Layer of pending requests, for executors and whoever answers.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (options?: Options): Layer.Layer<Approvals, ConfigurationError> =>
  Layer.effect(Approvals, make(options))

// Utilities

interface Pending {
  readonly request: ApprovalRequest
  readonly onEnd: (resolution: Resolution) => void
}

const withoutUndefined = (value: unknown): unknown =>
  typeof value === "object" && value !== null
    ? Object.fromEntries(Object.entries(value).filter(([, it]) => it !== undefined))
    : value

const keyOf = (principal: string, tool: string, target: string | undefined): string =>
  JSON.stringify([principal, tool, target])

/** All requests of a tool, and those that begin with the same target: what covers one has to name that. */
const keysOf = (
  { principal, targets: [first], tool }: Pick<ApprovalRequest, "principal" | "tool" | "targets">
): ReadonlyArray<string> =>
  first === undefined
    ? [keyOf(principal, tool, undefined)]
    : [keyOf(principal, tool, undefined), keyOf(principal, tool, first.text)]

/** What is too deep to be compared is not the same. */
const isShown = (request: ApprovalRequest, of: Shown): boolean => {
  const own = hash(request)
  return own !== "" && own === ("hash" in of ? of.hash.toLowerCase() : hash(of))
}

const canonical = (value: unknown): string | undefined => {
  try {
    return canonicalJson(value)
  } catch {
    return undefined
  }
}

const grantOf = (
  request: ApprovalRequest,
  answer: Exclude<Answer, { readonly _tag: "Deny" }>,
  now: number,
  id: string
): Grant.Grant | undefined | "NoDuration" => {
  const { principal, remember, revision, targets, tool } = request
  // an edit holds for its call alone
  const isKept = remember !== "call" && answer.params === undefined
  if (answer._tag === "ApproveOnce") return undefined
  const isWhole = targets.length === 0 || (answer.scope === "tool" && remember === "tool")
  const agentPath = answer.agents === "all" ? [] : request.agentPath
  const base = { id, principal, tool, revision, agentPath, grantedAt: now, answer: answer._tag } as const
  const about = isWhole ? base : { ...base, targets: targets.map((it) => it.text) }
  if (answer._tag === "ApproveForScope") return isKept ? about : undefined
  const duration = Duration.fromInput(answer.duration as Duration.Input)
  if (duration._tag === "None" || !(Duration.toMillis(duration.value) > 0) || !Duration.isFinite(duration.value)) {
    return "NoDuration"
  }
  return !isKept ? undefined : { ...about, expiresAt: now + Duration.toMillis(duration.value) }
}
