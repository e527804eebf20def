/**
 * Pending and recently resolved approval requests of all sessions.
 *
 * It wraps `Approvals`: executors request approval through it, and each request is recorded here. Only recorded
 * requests can be answered, once, by a user who may. The hash does not authorise anything: it identifies what the user
 * saw.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as Approvals from "../core/gates/Approvals.ts"
import * as Checkpoints from "../core/output/Checkpoints.ts"
import { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import { ToolHandlers } from "../core/vocabulary/ToolHandlers.ts"
import { OptionReader } from "../internal/OptionReader.ts"
import { covers, type User } from "./ApiAccess.ts"
import type { ApprovalRequest, ApprovalSummary, Part, ResolvedApproval } from "./ApiApprovals.ts"
import { AlreadyEnded, NotAnswered, NotFound } from "./ApiProblems.ts"
import { ApprovalRecord } from "./ApprovalRecord.ts"
import * as KnownFacts from "./KnownFacts.ts"
import { LiveLog } from "./LiveLog.ts"
import type { Owner } from "./Principals.ts"
import * as RedactedRequest from "./RedactedRequest.ts"

/** An answer of a user to an approval request. */
export interface Given {
  readonly id: string
  readonly hash: string
  readonly answer: Approvals.Answer
}

/** The approval requests. Requests that `user` may not answer do not exist for them. */
export class PendingApprovals extends Context.Service<PendingApprovals, {
  /** Pending requests, oldest first, and recently resolved ones, newest first. */
  readonly list: (user: User) => Effect.Effect<{
    readonly open: ReadonlyArray<ApprovalSummary>
    readonly ended: ReadonlyArray<ResolvedApproval>
  }>
  /** A pending request with all its details, or a resolved one. */
  readonly get: (user: User, id: string) => Effect.Effect<Option.Option<ApprovalRequest | ResolvedApproval>>
  /** A part of a file before or after the call, beginning at a character. */
  readonly part: (
    user: User,
    at: { readonly id: string; readonly index: number; readonly side: "before" | "after"; readonly from: number }
  ) => Effect.Effect<Option.Option<typeof Part.Type>>
  /** Answers a request. */
  readonly answer: (user: User, given: Given) => Effect.Effect<ResolvedApproval, NotFound | AlreadyEnded | NotAnswered>
  /** Answers several requests: all of them, or none if one answer is stale or invalid. */
  readonly answerAll: (
    user: User,
    given: ReadonlyArray<Given>
  ) => Effect.Effect<ReadonlyArray<ResolvedApproval>, NotFound | NotAnswered>
  /** Number of pending requests. */
  readonly count: Effect.Effect<number>
  /** Suspends the pending requests of a session. They can still be answered, and return when their calls are resumed. */
  readonly suspendOf: (principal: string, reason: string) => Effect.Effect<Suspended>
  /** Suspends pending and later requests. They return when their calls are resumed. */
  readonly suspend: (reason: string) => Effect.Effect<void>
}>()("effect-tool-executor/server/PendingApprovals") {}

/** The suspended requests of a session. */
export interface Suspended {
  readonly pending: number
  /** When the earliest one expires, in epoch milliseconds. */
  readonly until: number | undefined
  /** All of them are stored. */
  readonly isStored: boolean
}

/** Options of approval requests. */
export interface Options {
  /** Time until a request expires, or `"unlimited"`. Default 24 hours. */
  readonly timeout?: Duration.Input | "unlimited" | undefined
  /** Resolved requests that are listed. Default 1,000. */
  readonly maxEnded?: number | undefined
  /** How long resolved requests are listed. Default 24 hours. */
  readonly keepEnded?: Duration.Input | undefined
  /** JSON Schema of a tool's arguments, for a form. Default: from the `ToolHandlers` in the context. */
  readonly schemaOf?: ((tool: string) => Schema.Json | undefined) | undefined
}

/** Default options. */
export const defaults = { timeout: "24 hours", maxEnded: 1_000, keepEnded: "24 hours" } as const

/** Layer of the approval requests, and of the `Approvals` that executors use. */
export const layer = (
  options: Options = {}
): Layer.Layer<PendingApprovals | Approvals.Approvals, ConfigurationError, LiveLog> =>
  Layer.effectContext(Effect.gen(function*() {
    const reader = new OptionReader()
    reader.wait("timeout", options.timeout ?? defaults.timeout)
    const number = reader.count("maxEnded", options.maxEnded ?? defaults.maxEnded, 0)
    const millis = reader.millis("keepEnded", options.keepEnded ?? defaults.keepEnded, true)
    const { problems } = reader
    if (problems.length > 0) return yield* new ConfigurationError({ subject: "PendingApprovals", problems })
    const log = yield* LiveLog
    const clock = yield* Clock.Clock
    const keepsWrites = Option.isSome(yield* Effect.serviceOption(Checkpoints.Checkpoints))
    const handlers = Option.getOrUndefined(yield* Effect.serviceOption(ToolHandlers))
    const schemaOf = options.schemaOf ??
      ((tool: string) => handlers?.current().get(tool)?.jsonSchema as Schema.Json | undefined)
    const record = new ApprovalRecord({ number, millis }, () => clock.currentTimeMillisUnsafe())
    const coming = new WeakMap<Approvals.ApprovalRequest, RedactedRequest.RedactedRequest>()
    const { answerAll, approvals, end, suspend } = yield* Approvals.makeRecorded((request) => {
      const shown = coming.get(request)!
      const { owner, summary } = shown
      record.begin(shown)
      log.tell(owner.user, { _tag: "ApprovalRequested", approval: summary })
      return (how) => {
        const { approval } = record.end(shown, how)
        log.tell(owner.user, { _tag: "ApprovalResolved", approval })
      }
    }, { timeout: options.timeout ?? defaults.timeout })

    /** Answers all or none, in one synchronous step. */
    const settle = (
      user: User,
      given: ReadonlyArray<Given>
    ): Result.Result<ReadonlyArray<ResolvedApproval>, NotFound | NotAnswered> => {
      const asked = given.map(({ id }) => record.open.get(id) ?? record.ended.get(id))
      const unknown = given.filter((_, at) => !isSeen(user, asked[at]))
      if (unknown.length > 0) return Result.fail(new NotFound({ detail: nameless(unknown.map(({ id }) => id)) }))
      const seen = new Set<string>()
      const stale = given.flatMap((it) => {
        const problem = seen.has(it.id) ? twice(it.id) : staleness(record, it)
        seen.add(it.id)
        return problem === undefined ? [] : [problem]
      })
      if (stale.length > 0) return Result.fail(new NotAnswered({ errors: stale }))
      const meant = given.flatMap(({ answer, id }) => {
        const whole = record.open.get(id)!.meant(answer)
        return whole === undefined ? [] : [{ id, answer: whole, person: user.name }]
      })
      const lost = given.filter(({ id }) => meant.every((it) => it.id !== id))
      if (lost.length > 0) return Result.fail(new NotAnswered({ errors: lost.map(({ id }) => notPutBack(id)) }))
      const said = answerAll(meant)
      return Result.isFailure(said)
        ? Result.fail(new NotAnswered({ errors: said.failure.map(notTaken) }))
        : Result.succeed(given.map(({ id }) => record.ended.get(id)!.approval))
    }

    return Context.make(
      Approvals.Approvals,
      Approvals.Approvals.of({
        ...approvals,
        submit: (request, told) =>
          Effect.suspend(() => {
            const tool = handlers?.current().get(request.tool)
            const facts = KnownFacts.of(request, tool, keepsWrites)
            const shown = RedactedRequest.make(request, facts, tool?.redactor.declared)
            if (shown === undefined) return Effect.succeed(notShown)
            coming.set(request, shown)
            return approvals.submit(request, told)
          })
      })
    ).pipe(Context.add(
      PendingApprovals,
      PendingApprovals.of({
        list: (user) =>
          Effect.map(Effect.sync(() => record.forget()), () => ({
            // after a restart, requests return in any order
            open: Array.from(record.open.values()).filter((it) => isSeen(user, it)).map((it) => it.summary)
              .sort((a, b) => a.requestedAt - b.requestedAt),
            ended: Array.from(record.ended.values()).filter((it) => isSeen(user, it)).map((it) => it.approval).reverse()
          })),
        get: (user, id) =>
          Effect.sync(() => {
            record.forget()
            const open = record.open.get(id)
            const found = open ?? record.ended.get(id)
            if (!isSeen(user, found)) return Option.none()
            return Option.some(
              open === undefined ? record.ended.get(id)!.approval : open.whole(schemaOf(open.request.tool))
            )
          }),
        part: (user, { id, ...at }) =>
          Effect.sync(() => {
            const open = record.open.get(id)
            return isSeen(user, open) ? Option.fromUndefinedOr(open?.part(at)) : Option.none()
          }),
        answer: (user, given) =>
          Effect.suspend((): Effect.Effect<ResolvedApproval, NotFound | AlreadyEnded | NotAnswered> => {
            const ended = record.ended.get(given.id)
            if (ended !== undefined && isSeen(user, ended)) return Effect.fail(alreadyEnded(ended.approval))
            return Effect.fromResult(Result.map(settle(user, [given]), ([it]) => it!))
          }),
        answerAll: (user, given) => Effect.suspend(() => Effect.fromResult(settle(user, given))),
        count: Effect.sync(() => record.open.size),
        suspendOf: (principal, reason) =>
          Effect.sync(() => {
            const all = Array.from(record.open.values(), (it) => it.request).filter((it) => it.principal === principal)
            for (const { id } of all) end(id, { _tag: "Suspended", reason })
            const ends = all.flatMap(({ expiresAt }) => expiresAt === "unlimited" ? [] : [expiresAt])
            const until = ends.length === 0 ? undefined : Math.min(...ends)
            return { pending: all.length, until, isStored: true }
          }),
        suspend
      })
    ))
  }))

/** A request that the user may not answer looks like one that does not exist. */
const isSeen = (user: User, it: { readonly owner: Owner } | undefined): boolean =>
  it !== undefined && covers(user.approve, it.owner.user)

type Problem = NotAnswered["errors"][number]

const notShown: Approvals.Resolution = {
  _tag: "Denied",
  by: "noApprover",
  reason: "its arguments are nested too deeply or are not JSON, so they cannot be shown to an approver"
}

const nameless = (ids: ReadonlyArray<string>): string =>
  `Approval request not found: ${ids.join(", ")}. Nothing was answered.`

const twice = (id: string): Problem => ({
  id,
  reason: "NotAnAnswer",
  problem: "It has two answers. Give one."
})

const notPutBack = (id: string): Problem => ({
  id,
  reason: "NotEditable",
  problem: "A redacted part of its arguments was moved. Leave it in place, or write a new value."
})

/** Why an answer does not match a pending request. */
const staleness = (record: ApprovalRecord, { hash, id }: Given): Problem | undefined => {
  const open = record.open.get(id)
  if (open === undefined) {
    const { by, endedAt: at, ...ended } = record.ended.get(id)!.approval
    const problem = `It is resolved: ${saidOf({ by, ...ended })}.`
    return { id, reason: "AlreadyEnded", problem, at, ...(by === undefined ? {} : { by }) }
  }
  return open.summary.hash === hash.toLowerCase()
    ? undefined
    : { id, reason: "NotTheSame", problem: "It has changed since it was shown. Review it again." }
}

const notTaken = ({ id, message, reason }: Approvals.ApprovalError): Problem => ({
  id,
  reason: reason === "NotPending" ? "AlreadyEnded" : reason,
  problem: message
})

const alreadyEnded = ({ by, endedAt: at, how, id }: ResolvedApproval): AlreadyEnded =>
  new AlreadyEnded({
    id,
    how,
    at,
    detail: `It is resolved: ${saidOf({ how, by })}.`,
    ...(by === undefined ? {} : { by })
  })

const saidOf = ({ by, how }: { readonly how: ResolvedApproval["how"]; readonly by?: string | undefined }): string => {
  const who = by === undefined ? "" : ` by ${by}`
  switch (how) {
    case "approved":
      return `it was approved${who}`
    case "denied":
      return `it was denied${who}`
    case "covered":
      return `the answer to another request${by === undefined ? "" : ` by ${by}`} applied to it`
    case "expired":
      return "it expired"
    case "withdrawn":
      return "its call no longer waits for it"
    case "suspended":
      return "the server stopped, and it returns when the server resumes"
    case "closed":
      return "the session ended"
  }
}
