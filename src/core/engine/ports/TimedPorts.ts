/**
 * Drivers as an executor uses them: the journal, artifacts, checkpoints and approvers.
 *
 * Their timeouts are decided here only. A driver that throws, dies or does not answer in time counts as failed. The
 * state store is in `RetryingStore`.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import * as CallLog from "../../../internal/callLog.ts"
import { clip } from "../../../internal/clip.ts"
import { type Deadline, Deadlines } from "../../../internal/deadlines.ts"
import * as Detached from "../../../internal/detached.ts"
import { escape } from "../../../internal/escape.ts"
import { type Outages, outagesOf } from "../../../internal/outages.ts"
import { ToolContext } from "../../contract/ToolContext.ts"
import type { ReviewProblem, ReviewVerdict } from "../../facts/Fact.ts"
import { type ApprovalRequest, type Approvals, type NewRequest, Resolution } from "../../gates/Approvals.ts"
import { type Breaker, type Reviewer, type ReviewRequest, Verdict } from "../../gates/Reviewer.ts"
import { ArtifactError, type ArtifactStore } from "../../output/ArtifactStore.ts"
import { CheckpointError, type Checkpoints } from "../../output/Checkpoints.ts"
import { type Journal, JournalError } from "../../store/Journal.ts"
import { GivenApproval } from "../../vocabulary/Approvers.ts"
import { escalationOf } from "../../vocabulary/WhoApproves.ts"

/** How long a driver may take for an answer; the state store has a separate setting. */
export const timeoutMillis = 5_000

/** Waits for a driver no longer than `millis`, and not for its clean-up. `failed` makes the error. */
export const inTime = <A, E>(
  effect: Effect.Effect<A, unknown>,
  failed: (cause: unknown) => E,
  millis = timeoutMillis
): Effect.Effect<A, E> =>
  Effect.flatMap(Detached.within(effect, millis), (exit) => {
    if (exit === undefined) return Effect.fail(failed("no answer in time"))
    return Exit.isSuccess(exit) ? Effect.succeed(exit.value) : Effect.fail(failed(Cause.squash(exit.cause)))
  })

/** What an executor uses of an artifact store; pruning is left to its host. */
export type Artifacts = Pick<ArtifactStore["Service"], "put" | "read">

/** An artifact store that answers in time. */
export const artifactStore = (driver: Artifacts): Artifacts => {
  const outages = outagesOf(driver)
  const failed = (id: string) => (cause: unknown) =>
    cause instanceof ArtifactError ? cause : new ArtifactError({ reason: "StoreFailed", id, cause })
  return {
    put: (owner, payload) =>
      inTime(
        logged(outages, "ArtifactStore.put", Effect.suspend(() => driver.put(owner, payload)), owner),
        failed("")
      ),
    read: (owner, id, range) =>
      inTime(
        logged(outages, "ArtifactStore.read", Effect.suspend(() => driver.read(owner, id, range)), owner),
        failed(id)
      )
  }
}

/** What an executor uses of checkpoints; pruning is left to their host. */
export type Kept = Omit<Checkpoints["Service"], "prune">

/** Checkpoints that answer in time. */
export const checkpoints = (driver: Kept): Kept => {
  const outages = outagesOf(driver)
  const failed = (id: string) => (cause: unknown) =>
    cause instanceof CheckpointError ? cause : new CheckpointError({ reason: "Store", id, cause })
  return {
    save: (write) =>
      inTime(logged(outages, "Checkpoints.save", Effect.suspend(() => driver.save(write)), write), failed("")),
    list: (principal) => inTime(Effect.suspend(() => driver.list(principal)), failed("")),
    content: (checkpoint, path) =>
      inTime(Effect.suspend(() => driver.content(checkpoint, path)), failed(checkpoint.id)),
    forget: (checkpoint) => inTime(Effect.suspend(() => driver.forget(checkpoint)), failed(checkpoint.id))
  }
}

/** A journal that answers in time. */
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
    // a claim that succeeds late has to be given back: its caller decides how long to wait
    claim: (keys, principal) => inTime(Effect.suspend(() => driver.claim(keys, principal)), failed("claim"), Infinity)
  }
}

/** Approvers as an executor asks them: neither method fails, dies or hangs, whatever the driver does. */
export interface People {
  /** Makes a request with an id; `undefined` if that failed, which counts as a missing approver. */
  readonly request: (question: NewRequest) => Effect.Effect<ApprovalRequest | undefined>
  /**
   * Waits for the answer to a request. What follows runs in a separate turn, never in the fiber that answers.
   * Interruption withdraws the request immediately. `told` is called once, as soon as there is an answer: it is not
   * lost if the caller is interrupted before its turn. `heard` is called with approvals after which others are needed.
   * Both return an effect that ends once that is on record.
   */
  readonly submit: (
    request: ApprovalRequest,
    told: (resolution: Resolution) => Effect.Effect<void>,
    heard: (approvals: ReadonlyArray<GivenApproval>) => Effect.Effect<void>
  ) => Effect.Effect<Resolution>
}

/** Approvers who answer in time. Silence after the request has expired is a denial, and so is a malformed answer. */
export const people = (driver: Approvals["Service"], context: Context.Context<never>): People => {
  const run = Effect.runForkWith(context)
  const clock = Context.get(context, Clock.Clock)
  const deadlines = new Deadlines(clock, run)
  const warn = (what: string, cause: Cause.Cause<unknown> | string, question: NewRequest) =>
    CallLog.log("Warn", `Approvals.${what}`, cause, question)

  return {
    request: (question) =>
      inTime(Effect.suspend(() => driver.request(question)), (cause) => cause).pipe(
        Effect.filterOrFail(isRequest, () => "it is not an approval request"),
        Effect.map(({ requestedAt, expiresAt, id }) => ({
          ...question,
          requestedAt,
          expiresAt,
          id,
          ...escalationOf(question.approvers, requestedAt)
        })),
        Effect.catch((cause) => Effect.as(warn("request failed", Cause.die(cause), question), undefined))
      ),
    submit: (request, told, heard) =>
      Effect.callback((resume) => {
        let deadline: Deadline | undefined
        let isOver = false
        let isTold = false
        const tell = (resolution: Resolution) => {
          if (isTold || isOver || !isResolution(resolution)) return Effect.void
          isTold = true
          return told(resolution)
        }
        const hear = (approvals: ReadonlyArray<GivenApproval>) =>
          !isOver && areApprovals(approvals) ? heard(approvals) : Effect.void
        const asked = run(Effect.suspend(() => driver.submit(request, tell, hear)))
        const end = (resolution: Resolution) => {
          if (isOver) return
          void tell(resolution)
          isOver = true
          if (deadline !== undefined) deadlines.delete(deadline)
          resume(Effect.as(Effect.yieldNow, resolution))
        }
        asked.addObserver((exit) => {
          if (isOver) return
          if (Exit.isFailure(exit)) {
            run(warn("submit failed", exit.cause, request))
            return end({ _tag: "Denied", by: "noApprover", reason: request.why })
          }
          if (isResolution(exit.value)) return end(exit.value)
          run(warn("submit gave an invalid answer", Cause.die(exit.value), request))
          end({ _tag: "Denied", by: "closed" })
        })
        if (isOver) return
        if (request.expiresAt !== "unlimited") {
          deadline = deadlines.add(request.expiresAt + timeoutMillis, () => {
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

/** What a reviewer said. Without a verdict, a person is to be asked because of the `problem`. */
export interface Said {
  readonly verdict: typeof ReviewVerdict.Type
  readonly reason: string
  readonly problem?: typeof ReviewProblem.Type | undefined
}

/** A reviewer as an executor asks it: it never fails, dies or hangs, whatever the driver does. */
export interface Reviewing {
  readonly model: string
  readonly breaker: Breaker
  /** `stopped` tells, once there is a place for the review, what is said without it. */
  readonly review: (
    request: ReviewRequest,
    about: CallLog.About,
    stopped: () => Said | undefined
  ) => Effect.Effect<Said>
}

/** A reviewer that answers in time. Only a well-formed verdict counts. */
export const reviewer = (driver: Reviewer["Service"]): Reviewing => {
  const { concurrency, timeoutMillis } = driver.limits
  // a wave may have a thousand calls
  const places = Semaphore.makeUnsafe(concurrency)
  const asked = (request: ReviewRequest) => Detached.within(Effect.suspend(() => driver.review(request)), timeoutMillis)
  const without = (problem: NonNullable<Said["problem"]>, reason: string): Said => ({ verdict: "ask", reason, problem })
  const heard = (exit: Exit.Exit<unknown, unknown> | undefined, about: CallLog.About): Effect.Effect<Said> => {
    if (exit === undefined) {
      return Effect.succeed(without("timeout", `the reviewer did not answer within ${timeoutMillis / 1_000} s`))
    }
    if (Exit.isFailure(exit)) {
      const failed = without("failed", "the reviewer could not be asked")
      return Effect.as(CallLog.log("Warn", "Reviewer.review failed", exit.cause, about), failed)
    }
    if (!isVerdict(exit.value)) return Effect.succeed(without("malformed", "the reviewer's verdict was malformed"))
    const { _tag, reason } = exit.value
    return Effect.succeed({ verdict: verdicts[_tag], reason: plain(reason) })
  }
  return {
    model: driver.model,
    breaker: driver.breaker(),
    review: (request, about, stopped) =>
      places.withPermits(1)(Effect.suspend(() => {
        const early = stopped()
        return early === undefined
          ? Effect.flatMap(asked(request), (exit) => heard(exit, about))
          : Effect.succeed(early)
      }))
  }
}

const verdicts = { Allow: "allow", Person: "ask", Deny: "deny" } as const

/** A reviewer is a model, too: its reason is one visible line. */
const plain = (reason: string): string => escape(clip(reason.replaceAll(/\s+/g, " ").trim(), 500)) || "no reason given"

/** Answers of approvers are checked, also where reading them throws: only a well-formed one lets a call run. */
const safely = <A>(is: (value: unknown) => value is A) => (value: unknown): value is A => {
  try {
    return is(value)
  } catch {
    return false
  }
}

const isResolution = safely(Schema.is(Resolution))

const isVerdict = safely(Schema.is(Verdict))

const areApprovals = safely(Schema.is(Schema.Array(GivenApproval)))

const isRequest = safely(Schema.is(Schema.Struct({
  id: Schema.String,
  requestedAt: Schema.Finite,
  expiresAt: Schema.Union([Schema.Finite, Schema.Literal("unlimited")])
})))

/** Logs failures with the call that they affect: the outcome of the call does not mention them. */
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

/** A missing artifact is an answer, not an outage. */
const isAnswered = (cause: Cause.Cause<unknown>): boolean => {
  const error = Cause.findErrorOption(cause)
  return error._tag === "Some" && error.value instanceof ArtifactError && error.value.reason !== "StoreFailed"
}
