/**
 * The approval requests of all sessions, for people: those that wait, and those that ended lately,
 * how and by whom.
 *
 * It stands around `Approvals`: executors ask through what it gives them, and what they ask is
 * on record here. Only what is on this record can be answered, once, by somebody who may: a hash is
 * no authority, it says what was seen.
 *
 * @since 0.1.0
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
import { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import { ToolHandlers } from "../core/vocabulary/ToolHandlers.ts"
import { OptionReader } from "../internal/OptionReader.ts"
import { covers, type User } from "./ApiAccess.ts"
import type { ApprovalRequest, ApprovalSummary, Part, ResolvedApproval } from "./ApiApprovals.ts"
import { AlreadyEnded, NotAnswered, NotFound } from "./ApiProblems.ts"
import { ApprovalRecord } from "./ApprovalRecord.ts"
import { LiveLog } from "./LiveLog.ts"
import type { Owner } from "./Principals.ts"
import * as RedactedRequest from "./RedactedRequest.ts"

/**
 * An answer to an approval request, as a person gives it.
 *
 * @category models
 * @since 0.1.0
 */
export interface Given {
  readonly id: string
  readonly hash: string
  readonly answer: Approvals.Answer
}

/**
 * The approval requests. What `user` may not see is not there for them.
 *
 * @category services
 * @since 0.1.0
 */
export class PendingApprovals extends Context.Service<PendingApprovals, {
  /** Those that wait, oldest first, and those that ended lately, newest first. */
  readonly list: (user: User) => Effect.Effect<{
    readonly open: ReadonlyArray<ApprovalSummary>
    readonly ended: ReadonlyArray<ResolvedApproval>
  }>
  /** One of them, whole, whether it waits or is over. */
  readonly get: (user: User, id: string) => Effect.Effect<Option.Option<ApprovalRequest | ResolvedApproval>>
  /** A part of what a file holds before or after the call, from a character on. */
  readonly part: (
    user: User,
    at: { readonly id: string; readonly index: number; readonly side: "before" | "after"; readonly from: number }
  ) => Effect.Effect<Option.Option<typeof Part.Type>>
  /** Answers one. */
  readonly answer: (user: User, given: Given) => Effect.Effect<ResolvedApproval, NotFound | AlreadyEnded | NotAnswered>
  /** Answers several: all of them, or none where one is stale or wrong. */
  readonly answerAll: (
    user: User,
    given: ReadonlyArray<Given>
  ) => Effect.Effect<ReadonlyArray<ResolvedApproval>, NotFound | NotAnswered>
  /** How many wait. */
  readonly count: Effect.Effect<number>
  /** Ends the wait for all answers: what is asked now or later is suspended, and asked again when it is resumed. */
  readonly suspend: (reason: string) => Effect.Effect<void>
}>()("effect-tool-executor/server/PendingApprovals") {}

/**
 * Options of the approval requests.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** How long an approval request waits for an answer, or `"unlimited"`. Default 24 hours. */
  readonly timeout?: Duration.Input | "unlimited" | undefined
  /** Approval requests that are over and still shown. Default 1,000. */
  readonly maxEnded?: number | undefined
  /** How long those are shown. Default 24 hours. */
  readonly keepEnded?: Duration.Input | undefined
  /** JSON Schema of a tool's arguments, for a form. Default: from the `ToolHandlers`, if they are there. */
  readonly schemaOf?: ((tool: string) => Schema.Json | undefined) | undefined
}

/**
 * Options where nothing is said.
 *
 * @category constants
 * @since 0.1.0
 */
export const defaults = { timeout: "24 hours", maxEnded: 1_000, keepEnded: "24 hours" } as const

/**
 * Layer of the approval requests, and of the `Approvals` through which executors ask them.
 *
 * @category layers
 * @since 0.1.0
 */
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
    const handlers = Option.getOrUndefined(yield* Effect.serviceOption(ToolHandlers))
    const schemaOf = options.schemaOf ??
      ((tool: string) => handlers?.current().get(tool)?.jsonSchema as Schema.Json | undefined)
    const record = new ApprovalRecord({ number, millis }, () => clock.currentTimeMillisUnsafe())
    const coming = new WeakMap<Approvals.ApprovalRequest, RedactedRequest.RedactedRequest>()
    const { answerAll, approvals, suspend } = yield* Approvals.makeRecorded((request) => {
      const shown = coming.get(request)!
      const { owner, summary } = shown
      record.begin(shown)
      log.tell(owner.user, { _tag: "ApprovalRequested", approval: summary })
      return (how) => {
        const { approval } = record.end(shown, how)
        log.tell(owner.user, { _tag: "ApprovalResolved", approval })
      }
    }, { timeout: options.timeout ?? defaults.timeout })

    /** Answers all or none, in one step: nothing comes between a look at the record and the answer. */
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
            const shown = RedactedRequest.make(request, handlers?.current().get(request.tool)?.redactor.declared)
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
            // those that are asked again after a start come in any order
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
        suspend
      })
    ))
  }))

// Utilities

/** What one may not see is as unknown as what is not there. */
const isSeen = (user: User, it: { readonly owner: Owner } | undefined): boolean =>
  it !== undefined && covers(user.approve, it.owner.user)

type Problem = NotAnswered["errors"][number]

const notShown: Approvals.Resolution = {
  _tag: "Denied",
  by: "noApprover",
  reason: "its arguments are nested too deeply, or are not JSON, and cannot be shown to a person"
}

const nameless = (ids: ReadonlyArray<string>): string =>
  `There is no such approval: ${ids.join(", ")}. Nothing was answered.`

const twice = (id: string): Problem => ({
  id,
  reason: "NotAnAnswer",
  problem: "There are two answers to it. Give one."
})

const notPutBack = (id: string): Problem => ({
  id,
  reason: "NotEditable",
  problem:
    "A part of its arguments is not shown, and stands elsewhere in the edited ones. Leave it where it was, or write a new one."
})

/** Why an answer is to something that is not asked, or not any more. */
const staleness = (record: ApprovalRecord, { hash, id }: Given): Problem | undefined => {
  const open = record.open.get(id)
  if (open === undefined) {
    const { by, endedAt: at, ...ended } = record.ended.get(id)!.approval
    const problem = `It is over: ${saidOf({ by, ...ended })}.`
    return { id, reason: "AlreadyEnded", problem, at, ...(by === undefined ? {} : { by }) }
  }
  return open.summary.hash === hash.toLowerCase()
    ? undefined
    : { id, reason: "NotTheSame", problem: "It asks about something else than what was answered. Look at it again." }
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
    detail: `It is over: ${saidOf({ how, by })}.`,
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
      return `an answer to another approval${by === undefined ? "" : `, by ${by},`} held for it, too`
    case "expired":
      return "its time ran out"
    case "withdrawn":
      return "its call waits for it no more"
    case "suspended":
      return "the server stops, and asks again when it goes on"
    case "closed":
      return "nobody could be asked any more"
  }
}
