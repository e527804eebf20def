/**
 * Pending and recently resolved approval requests of all sessions.
 *
 * It wraps `Approvals`: executors request approval through it, and each request becomes a row (`ApprovalRows`). Only
 * rows can be answered, once, by a user who may. The hash does not authorise anything: it identifies what the user saw.
 *
 * With an `ApprovalTable` in the context, several processes share the rows. Any of them answers; the one that holds a
 * session takes the answers (`refresh`). Without one, the rows are in memory.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as SecureRandom from "effect/crypto/SecureRandom"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Approvals from "../../core/gates/Approvals.ts"
import * as Checkpoints from "../../core/output/Checkpoints.ts"
import { ApprovalTable, type ApprovalTableError } from "../../core/store/ApprovalTable.ts"
import { SessionRegistry } from "../../core/store/SessionRegistry.ts"
import { ConfigurationError } from "../../core/vocabulary/ConfigurationError.ts"
import { ToolHandlers } from "../../core/vocabulary/ToolHandlers.ts"
import { OptionReader } from "../../internal/OptionReader.ts"
import { covers, type User } from "../api/ApiAccess.ts"
import type { AnsweredApproval, ApprovalRequest, ApprovalSummary, Part, ResolvedApproval } from "../api/ApiApprovals.ts"
import { type AlreadyEnded, type NotAnswered, type NotFound, Unavailable } from "../api/ApiProblems.ts"
import { LiveLog } from "../live/LiveLog.ts"
import { Access } from "../users/Access.ts"
import type { Owner } from "../users/Principals.ts"
import * as ApprovalAnswers from "./ApprovalAnswers.ts"
import * as ApprovalRows from "./ApprovalRows.ts"
import * as KnownFacts from "./KnownFacts.ts"
import * as RedactedRequest from "./RedactedRequest.ts"
import * as ResolvedRequest from "./ResolvedRequest.ts"
import * as StoredApprovalRows from "./StoredApprovalRows.ts"
import * as WaitingRequests from "./WaitingRequests.ts"

/** An answer of a user to an approval request. */
export type Given = ApprovalAnswers.Given

/** What is suspended of a session. */
export type Suspended = WaitingRequests.Suspended

/** The approval requests. Requests that `user` may not answer do not exist for them. */
export class PendingApprovals extends Context.Service<PendingApprovals, {
  /**
   * Pending requests, oldest first, and recently resolved ones, newest first; the newest 1,000 of each. `pending` counts
   * all pending ones.
   */
  readonly list: (user: User) => Effect.Effect<{
    readonly open: ReadonlyArray<ApprovalSummary>
    readonly ended: ReadonlyArray<ResolvedApproval>
    readonly pending: number
  }, Unavailable>
  /** A pending request with all its details, or a resolved one. */
  readonly get: (
    user: User,
    id: string
  ) => Effect.Effect<Option.Option<ApprovalRequest | ResolvedApproval>, Unavailable>
  /** A part of a file before or after the call, beginning at a character, if the call waits in this process. */
  readonly part: (
    user: User,
    at: { readonly id: string; readonly index: number; readonly side: "before" | "after"; readonly from: number }
  ) => Effect.Effect<Option.Option<typeof Part.Type>>
  /** Whether a request of an operation, or of its sub-agents, is pending. */
  readonly isPending: (
    owner: Owner,
    of: { readonly operation: string; readonly id: string }
  ) => Effect.Effect<boolean, Unavailable>
  /** Answers a request. `waiting`: others have to approve it as well. */
  readonly answer: (
    user: User,
    given: Given
  ) => Effect.Effect<AnsweredApproval, NotFound | AlreadyEnded | NotAnswered | Unavailable>
  /** Answers several requests: all of them, or none if one answer is stale or invalid. */
  readonly answerAll: (
    user: User,
    given: ReadonlyArray<Given>
  ) => Effect.Effect<ReadonlyArray<AnsweredApproval>, NotFound | NotAnswered | Unavailable>
  /** Number of pending requests. */
  readonly count: Effect.Effect<number>
  /** Resolves the calls of a session that wait in this process for requests that were answered in another one. */
  readonly refresh: (principal: string) => Effect.Effect<void, Unavailable>
  /**
   * Suspends the pending requests of a session. They can still be answered, and return when their calls are resumed.
   * Requests of the session that no call waits for are withdrawn.
   */
  readonly suspendOf: (principal: string, reason: string) => Effect.Effect<Suspended>
  /** Suspends pending and later requests. They return when their calls are resumed. */
  readonly suspend: (reason: string) => Effect.Effect<void>
}>()("effect-tool-executor/server/PendingApprovals") {}

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
    const clock = yield* Clock.Clock
    const now = () => clock.currentTimeMillisUnsafe()
    const table = Option.getOrUndefined(yield* Effect.serviceOption(ApprovalTable))
    if (table === undefined) {
      const registry = Option.getOrUndefined(yield* Effect.serviceOption(SessionRegistry))
      return yield* over(ApprovalRows.make({ number, millis }, now, registry?.current), options)
    }
    const prune = Effect.catch(
      Effect.suspend(() => table.prune(now() - millis)),
      (error) => Effect.logWarning(error.message, error)
    )
    yield* Effect.forkScoped(Effect.repeat(prune, Schedule.jittered(Schedule.spaced("10 minutes"))))
    return yield* over(StoredApprovalRows.make(table, { number, millis }, now, yield* Effect.context<never>()), options)
  }))

const over = Effect.fnUntraced(function*(
  rows: ApprovalRows.ApprovalRows,
  options: Options
): Effect.fn.Return<
  Context.Context<PendingApprovals | Approvals.Approvals>,
  ConfigurationError,
  LiveLog | Scope.Scope
> {
  const log = yield* LiveLog
  const clock = yield* Clock.Clock
  const now = () => clock.currentTimeMillisUnsafe()
  const run = Effect.runForkWith(yield* Effect.context<never>())
  const keepsWrites = Option.isSome(yield* Effect.serviceOption(Checkpoints.Checkpoints))
  const handlers = Option.getOrUndefined(yield* Effect.serviceOption(ToolHandlers))
  const schemaOf = options.schemaOf ??
    ((tool: string) => handlers?.current().get(tool)?.jsonSchema as Schema.Json | undefined)
  const userNamed = Option.getOrUndefined(yield* Effect.serviceOption(Access))?.userNamed
  const still: ApprovalAnswers.Still = userNamed === undefined ? Effect.succeed : ApprovalAnswers.stillBy(userNamed)
  const resolved = (ended: ReadonlyArray<ApprovalRows.EndedRow>) => {
    for (const { end, kept: { summary } } of ended) {
      log.tell(summary.user, { _tag: "ApprovalResolved", approval: ResolvedRequest.of(summary, end) })
    }
  }
  const requested = ({ summary }: RedactedRequest.Kept) =>
    log.tell(summary.user, { _tag: "ApprovalRequested", approval: summary })
  const recorded = yield* Approvals.makeRecorded({
    begin: (request) => here.began(request),
    expire: (request) => here.expire(request),
    ...rows.isLasting ? { closed: { _tag: "Suspended", reason: "the server stops" } as const } : {}
  }, { timeout: options.timeout ?? defaults.timeout })
  const here = new WaitingRequests.WaitingRequests({ rows, recorded, now, run, requested, resolved })

  /**
   * Reports answers, and resolves the calls of this process that wait for them. Gives what ends once the answers are on
   * record, also where their rows are in memory.
   */
  const answered = (changed: ReadonlyArray<ApprovalRows.Answering>) =>
    Effect.suspend(() => {
      resolved(ApprovalAnswers.endedOf(changed))
      for (const { end, kept: { summary } } of changed) {
        if (end === undefined) log.tell(summary.user, { _tag: "ApprovalChanged", approval: summary })
      }
      const principals = new Set(changed.map(({ kept }) => kept.principal))
      return Effect.map(Effect.forEach(principals, (it) => here.refresh(it)), (recorded) => recorded.flat())
    })
  const give = (user: User, given: ReadonlyArray<Given>) =>
    ApprovalAnswers.give(rows, user, given, now, still).pipe(
      Effect.tap((changed) =>
        Effect.flatMap(
          answered(changed),
          (recorded) => Effect.all(recorded, { concurrency: "unbounded", discard: true })
        )
      ),
      Effect.map((changed) =>
        changed.slice(0, given.length).map(({ end, kept }) =>
          end === undefined ? ResolvedRequest.waiting(kept) : ResolvedRequest.of(kept.summary, end)
        )
      ),
      Effect.catchTag("ApprovalTableError", unavailable)
    )

  return Context.make(
    Approvals.Approvals,
    Approvals.Approvals.of({
      ...recorded.approvals,
      submit: (request, told, heard) =>
        Effect.suspend(() => {
          const tool = handlers?.current().get(request.tool)
          const facts = KnownFacts.of(request, tool, keepsWrites)
          const shown = RedactedRequest.make(request, facts, tool?.redactor.declared)
          return shown === undefined ? Effect.succeed(notShown) : here.submit(shown, told, heard)
        }),
      answer: Effect.fnUntraced(function*(id, answer, of, person) {
        const shown = here.byId(id)
        const notPending = new Approvals.ApprovalError({ id, reason: "NotPending" })
        if (shown === undefined) return yield* notPending
        const found = yield* Effect.catchTag(rows.find([id]), "ApprovalTableError", () => Effect.fail(notPending))
        const row = found.get(id)
        const at = now()
        if (row === undefined || ApprovalAnswers.endOf(row, at) !== undefined) return yield* notPending
        const kept = yield* Effect.catchTag(still(row.kept), "ApprovalTableError", () => Effect.fail(notPending))
        const { summary: { approvals } } = kept
        const request = approvals === undefined ? shown.request : { ...shown.request, approvals }
        const grantId = SecureRandom.uuidV4Unsafe()
        const said = yield* Effect.fromResult(Approvals.resolve(request, answer, { now: at, grantId, of, person }))
        const put = ApprovalAnswers.put(rows, [ApprovalAnswers.answering(row, said, at)], at)
        const changed = yield* Effect.tap(put, answered).pipe(
          Effect.catchTag("ApprovalTableError", () => Effect.succeed([]))
        )
        if (changed.length === 0) return yield* notPending
      }),
      giveUp: (id) => here.giveUp(id)
    })
  ).pipe(Context.add(
    PendingApprovals,
    PendingApprovals.of({
      list: ({ approve }) =>
        rows.list(approve.includes("*") ? undefined : approve).pipe(
          Effect.map(({ ended, open, pending }) => {
            const at = now()
            const over = open.flatMap((row): ReadonlyArray<ApprovalRows.EndedRow> => {
              const end = ApprovalAnswers.endOf(row, at)
              return end === undefined ? [] : [{ ...row, end }]
            })
            const all = over.length === 0 ? ended : [...over, ...ended].sort((a, b) => b.end.at - a.end.at)
            return {
              open: open.filter((row) => ApprovalAnswers.endOf(row, at) === undefined).map(({ kept }) => kept.summary),
              ended: all.map(({ end, kept }) => ResolvedRequest.of(kept.summary, end)),
              pending: pending - over.length
            }
          }),
          Effect.catch(unavailable)
        ),
      get: (user, id) =>
        Effect.gen(function*() {
          const row = (yield* rows.find([id])).get(id)
          if (!ApprovalAnswers.isSeen(user, row)) return Option.none()
          const { kept } = row
          const end = ApprovalAnswers.endOf(row, now())
          if (end !== undefined) return Option.some(ResolvedRequest.of(kept.summary, end))
          const shown = here.find(kept.principal, id)
          const details = shown === undefined ? yield* rows.details(id) : shown.details()
          return details === undefined
            ? Option.none()
            : Option.some(RedactedRequest.whole(kept, details, schemaOf(kept.summary.tool), shown !== undefined))
        }).pipe(Effect.catch(unavailable)),
      part: (user, { id, ...at }) =>
        Effect.sync(() => {
          const shown = here.byId(id)
          return shown !== undefined && covers(user.approve, shown.owner.user)
            ? Option.fromUndefinedOr(shown.part(at))
            : Option.none()
        }),
      isPending: ({ session, user }, { id, operation }) =>
        Effect.map(rows.find([id]), (found) => {
          const row = found.get(id)
          if (row === undefined || ApprovalAnswers.endOf(row, now()) !== undefined) return false
          const { summary } = row.kept
          return summary.user === user && summary.session === session && summary.operation === operation
        }).pipe(Effect.catch(unavailable)),
      answer: (user, given) =>
        give(user, [given]).pipe(
          Effect.map(([it]) => it!),
          Effect.catchTag("Refused", (it) => Effect.fail(it.ofOne))
        ),
      answerAll: (user, given) => Effect.catchTag(give(user, given), "Refused", (it) => Effect.fail(it.ofAll)),
      count: Effect.catch(rows.count, () => Effect.sync(() => here.size)),
      refresh: (principal) => Effect.catch(Effect.asVoid(here.refresh(principal)), unavailable),
      suspendOf: (principal, reason) => here.suspendOf(principal, reason),
      suspend: (reason) => here.suspend(reason)
    })
  ))
})

const unavailable = (error: ApprovalTableError) =>
  Effect.andThen(
    Effect.logWarning(error.message, error),
    Effect.fail(new Unavailable({ detail: "The store of approval requests does not answer." }))
  )

const notShown: Approvals.Resolution = {
  _tag: "Denied",
  by: "noApprover",
  reason: "its arguments are nested too deeply or are not JSON, so they cannot be shown to an approver"
}
