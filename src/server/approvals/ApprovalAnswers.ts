/**
 * Answers of users to approval requests: who may answer, what an answer means, and what else it covers.
 *
 * Everything is checked by the rows, so that any process can answer. Then one conditional update decides. If it changes
 * nothing, somebody else was first, and the rows are read again to say who.
 */
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as Approvals from "../../core/gates/Approvals.ts"
import { ApprovalTableError } from "../../core/store/ApprovalTable.ts"
import * as Grant from "../../core/vocabulary/Grant.ts"
import { covers, type User } from "../api/ApiAccess.ts"
import type { ResolvedApproval } from "../api/ApiApprovals.ts"
import { AlreadyEnded, NotAnswered, NotFound } from "../api/ApiProblems.ts"
import type { Access } from "../users/Access.ts"
import type { Answering, ApprovalRows, EndedRow, Row } from "./ApprovalRows.ts"
import * as RedactedArguments from "./RedactedArguments.ts"
import type { Kept } from "./RedactedRequest.ts"
import * as ResolvedRequest from "./ResolvedRequest.ts"

/** An answer of a user to an approval request. */
export interface Given {
  readonly id: string
  readonly hash: string
  readonly answer: Approvals.Answer
}

type Problem = NotAnswered["errors"][number]

/** Why nothing was answered, and the requests among them that are resolved. */
export class Refused {
  readonly _tag = "Refused"
  readonly problems: ReadonlyArray<Problem>
  private readonly ended: ReadonlyArray<ResolvedApproval>

  constructor(problems: ReadonlyArray<Problem>, ended: ReadonlyArray<ResolvedApproval> = []) {
    this.problems = problems
    this.ended = ended
  }

  /** The problem of an answer to one request. */
  get ofOne(): AlreadyEnded | NotAnswered {
    const [ended] = this.ended
    if (ended === undefined) return this.ofAll
    const { answer, by, endedAt: at, how, id, reason } = ended
    return new AlreadyEnded({
      id,
      how,
      at,
      detail: ResolvedRequest.sentence(ended),
      ...(by === undefined ? {} : { by }),
      ...(answer === undefined ? {} : { answer }),
      ...(reason === undefined ? {} : { reason })
    })
  }

  get ofAll(): NotAnswered {
    return new NotAnswered({ errors: this.problems })
  }
}

/** The end of a row, which may have expired without anybody noting it. */
export const endOf = (
  { end, kept: { summary: { expiresAt } } }: Pick<Row, "end" | "kept">,
  now: number
): ResolvedRequest.End | undefined =>
  end ?? (expiresAt !== "unlimited" && expiresAt <= now
    ? { at: expiresAt, ending: { _tag: "Denied", by: "timeout" } }
    : undefined)

/** A request that the user may not answer looks like one that does not exist. */
export const isSeen = (user: User, row: Row | undefined): row is Row =>
  row !== undefined && covers(user.approve, row.kept.summary.user)

/** The approvals among those given before that still count: their people may still answer, with the roles they have now. */
export type Still = (kept: Kept) => Effect.Effect<Kept, ApprovalTableError>

/** Looks the people up who approved a request. */
export const stillBy = (userNamed: NonNullable<Access["Service"]["userNamed"]>): Still =>
  Effect.fnUntraced(function*(kept) {
    const { approvals, user: owner } = kept.summary
    if (approvals === undefined) return kept
    const all = yield* Effect.forEach(approvals, (it) =>
      Effect.map(
        Effect.mapError(userNamed(it.person), (cause) => new ApprovalTableError({ operation: "answer", cause })),
        (found) => {
          const now = Option.getOrUndefined(found)
          if (now === undefined || !covers(now.approve, owner)) return []
          const roles = it.roles?.filter((role) => now.roles?.includes(role) === true)
          return [roles === undefined ? it : { ...it, roles }]
        }
      ))
    return { ...kept, summary: { ...kept.summary, approvals: all.flat() } }
  })

/**
 * Gives answers of a user: all or none. The result has the requests in their order, then those that are covered. One
 * without an end needs others, too.
 */
export const give = (
  rows: ApprovalRows,
  user: User,
  given: ReadonlyArray<Given>,
  now: () => number,
  still: Still,
  tries = 10
): Effect.Effect<ReadonlyArray<Answering>, NotFound | Refused | ApprovalTableError> =>
  Effect.gen(function*() {
    const at = now()
    const found = yield* rows.find(given.map(({ id }) => id))
    const unknown = given.filter(({ id }) => !isSeen(user, found.get(id)))
    if (unknown.length > 0) return yield* new NotFound({ detail: nameless(unknown.map(({ id }) => id)) })
    const seen = new Set<string>()
    const over: Array<ResolvedApproval> = []
    const stale = given.flatMap((it) => {
      const row = found.get(it.id)!
      const end = endOf(row, at)
      const ended = end === undefined ? undefined : ResolvedRequest.of(row.kept.summary, end)
      if (ended !== undefined) over.push(ended)
      const problem = seen.has(it.id) ? twice(it.id) : ended === undefined ? mismatch(row, it) : resolved(ended)
      seen.add(it.id)
      return problem === undefined ? [] : [problem]
    })
    if (stale.length > 0) return yield* Effect.fail(new Refused(stale, over))
    const moved = yield* Effect.filter(given, (it) => isMoved(rows, found.get(it.id)!.kept, it.answer))
    if (moved.length > 0) return yield* Effect.fail(new Refused(moved.map(({ id }) => notPutBack(id))))
    const meant = yield* Effect.forEach(given, ({ answer, id }) => {
      const row = found.get(id)!
      return Effect.map(still(row.kept), (kept) => {
        const said = Approvals.resolve(asked(kept), answer, {
          now: at,
          grantId: SecureRandom.uuidV4Unsafe(),
          person: { name: user.name, roles: user.roles }
        })
        return Result.map(said, (it) => answering(row, it, at))
      })
    })
    const wrong = meant.flatMap((it) => Result.isFailure(it) ? [notTaken(it.failure)] : [])
    if (wrong.length > 0) return yield* Effect.fail(new Refused(wrong))
    const answers = meant.flatMap((it) => Result.isSuccess(it) ? [it.success] : [])
    return yield* put(rows, answers, at)
  }).pipe(Effect.flatMap((ended) => {
    if (ended.length > 0) return Effect.succeed(ended)
    return tries > 1
      ? give(rows, user, given, now, still, tries - 1)
      : new ApprovalTableError({ operation: "answer", cause: "other processes change the requests all the time" })
  }))

/** Ends requests by answers, and others that the answers cover. The result is empty if one had ended. */
export const put = Effect.fnUntraced(function*(
  rows: ApprovalRows,
  answers: ReadonlyArray<Answering>,
  now: number
): Effect.fn.Return<ReadonlyArray<Answering>, ApprovalTableError> {
  const all = [...answers, ...yield* coveredBy(rows, answers, now)]
  const changed = yield* rows.answer(all, now)
  return all.filter(({ kept }) => changed.has(kept.summary.id))
})

/** What an answer does to a row. */
export const answering = (
  { kept, version }: Omit<Row, "end">,
  said: Approvals.Resolution | Approvals.Waiting,
  at: number
): Answering =>
  said._tag === "Waiting"
    ? {
      kept: { ...kept, summary: { ...kept.summary, approvals: said.approvals } },
      end: undefined,
      isCovered: false,
      version
    }
    : { kept, end: { at, ending: said }, isCovered: false, version }

/** The rows among some that ended. */
export const endedOf = (all: ReadonlyArray<Answering>): ReadonlyArray<EndedRow> =>
  all.flatMap(({ end, kept }) => end === undefined ? [] : [{ kept, end }])

/** Pending requests that the grants of answers cover. */
const coveredBy = Effect.fnUntraced(function*(
  rows: ApprovalRows,
  answers: ReadonlyArray<Answering>,
  now: number
): Effect.fn.Return<ReadonlyArray<Answering>, ApprovalTableError> {
  const grants = endedOf(answers).flatMap(({ end: { ending } }) =>
    ending._tag === "Approved" && ending.grant !== undefined ? [{ ...ending, grant: ending.grant }] : []
  )
  const covered = new Map<string, Answering>()
  const own = new Set(answers.map(({ kept }) => kept.summary.id))
  const alike = new Map<string, ReadonlyArray<Row>>()
  for (const { grant, person } of grants) {
    const key = JSON.stringify([grant.principal, grant.tool])
    const others = alike.get(key) ?? (yield* rows.alike(grant.principal, grant.tool))
    alike.set(key, others.filter(({ kept }) => !own.has(kept.summary.id) && !covered.has(kept.summary.id)))
    for (const { kept, version } of alike.get(key)!) {
      const { revision, summary: { agentPath, approvers, remember, tool }, targets } = kept
      const about = { tool, revision, agentPath, targets, approvers }
      if (remember === "call" || !Grant.covers(grant, about, now)) continue
      const ending = { _tag: "Approved" as const, grant, isOwn: false, ...(person === undefined ? {} : { person }) }
      covered.set(kept.summary.id, { kept, end: { at: now, ending }, isCovered: true, version })
    }
  }
  return Array.from(covered.values())
})

/** The request as far as an answer needs it. */
const asked = ({ principal, revision, summary, targets = summary.targets }: Kept): Approvals.ApprovalRequest => ({
  ...summary,
  principal,
  revision,
  targets,
  index: 0,
  args: null,
  preview: undefined
})

/** Whether edited arguments have moved a redacted part. */
const isMoved = (
  rows: ApprovalRows,
  { redacted, summary }: Kept,
  answer: Approvals.Answer
): Effect.Effect<boolean, ApprovalTableError> => {
  if (redacted === "none" || answer._tag === "Deny" || answer.params === undefined) return Effect.succeed(false)
  if (redacted === "fixed") return Effect.succeed(true)
  const params: Schema.Json = answer.params
  return Effect.map(
    rows.details(summary.id),
    (it) => it !== undefined && !RedactedArguments.isInPlace(params, it.args)
  )
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

const resolved = ({ answer, by, endedAt: at, how, id }: ResolvedApproval): Problem => ({
  id,
  reason: "AlreadyEnded",
  problem: ResolvedRequest.sentence({ how, by }),
  at,
  ...(by === undefined ? {} : { by }),
  ...(answer === undefined ? {} : { answer })
})

const mismatch = ({ kept }: Row, { hash, id }: Given): Problem | undefined =>
  kept.summary.hash === hash.toLowerCase()
    ? undefined
    : { id, reason: "NotTheSame", problem: "It has changed since it was shown. Review it again." }

const notTaken = ({ id, message, reason }: Approvals.ApprovalError): Problem => ({
  id,
  reason: reason === "NotPending" ? "AlreadyEnded" : reason,
  problem: message
})
