/**
 * Approval requests as rows of an `ApprovalTable`, which outlive this process.
 *
 * Requests of the same moment become pending in one statement, and end in one. Rows that this release cannot read are
 * left out, with a warning.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type {
  ApprovalRow,
  ApprovalTable,
  ApprovalTableError,
  Begun,
  NewRow,
  RowEnd
} from "../../core/store/ApprovalTable.ts"
import type { Epoch } from "../../core/store/SessionRegistry.ts"
import { Grouped } from "../../internal/grouped.ts"
import * as ApprovalRows from "./ApprovalRows.ts"
import type { RedactedRequest } from "./RedactedRequest.ts"
import * as ResolvedRequest from "./ResolvedRequest.ts"
import * as StoredApproval from "./StoredApproval.ts"

type Table = ApprovalTable["Service"]

/** Creates the rows of a table. */
export const make = (
  table: Table,
  bounds: ApprovalRows.Bounds,
  now: () => number,
  context: Context.Context<never>
): ApprovalRows.ApprovalRows => {
  const begins = new Grouped(inParts(table.begin), context)
  const ends = new Grouped(
    (rows: ReadonlyArray<Parameters<Table["end"]>[0][number]>) =>
      Effect.map(table.end(rows), (ended) => rows.map(({ id }) => ended.has(id))),
    context
  )
  return {
    isLasting: true,
    hold: table.hold,
    begin: (shown, epoch, replaces) =>
      epoch === undefined
        ? Effect.succeed({ _tag: "Lost" })
        : Effect.flatMap(begins.ask(rowOf(shown, epoch, replaces)), (begun): Effect.Effect<ApprovalRows.Begun> => {
          if (begun._tag !== "Known") return Effect.succeed(begun)
          return Effect.map(readable(begun.row), (row) => ({ _tag: "Known", row: row ?? unreadable(shown, begun.row) }))
        }),
    answer: (answers, now) =>
      table.answer(
        answers.map(({ end, isCovered, kept, version }) => ({
          id: kept.summary.id,
          end: end && endingOf({ end, kept }).end,
          hash: kept.summary.hash,
          isCovered,
          approvals: approvalsOf(kept),
          version
        })),
        now
      ),
    take: (epoch, ids) =>
      epoch === undefined
        ? Effect.succeed([])
        : Effect.flatMap(table.take(epoch, ids), (taken) =>
          Effect.map(
            Effect.forEach(taken, ({ end, id }) => Effect.map(readEnd(end, id), (read) => ({ id, end: read }))),
            (all) => all.flatMap(({ end, id }) => end === undefined ? [] : [{ id, end }])
          )),
    end: (ending, epoch) => epoch === undefined ? Effect.succeed(false) : ends.ask({ epoch, ...endingOf(ending) }),
    settle: (epoch, ids, end) =>
      epoch === undefined
        ? Effect.succeed({ pending: 0, withdrawn: [] })
        : Effect.flatMap(
          table.settle(epoch, ids, { how: "withdrawn", at: end.at, ending: StoredApproval.writeEnd(end.ending) }),
          ({ pending, withdrawn }) => Effect.map(ended(withdrawn), (withdrawn) => ({ pending, withdrawn }))
        ),
    find: (ids) =>
      Effect.flatMap(
        table.find(ids),
        (found) => Effect.map(rows(found), (all) => new Map(all.map((row) => [row.kept.summary.id, row])))
      ),
    details: (id) =>
      Effect.flatMap(
        table.details(id),
        (text) => text === undefined ? Effect.undefined : orWarn(StoredApproval.readDetails(text), id)
      ),
    alike: (principal, tool) => Effect.flatMap(table.alike(principal, tool), rows),
    list: Effect.fnUntraced(function*(users) {
      const since = now() - bounds.millis
      const limit = { open: ApprovalRows.maxListed, ended: bounds.number }
      const found = yield* table.list({ users, since, limit })
      return { open: yield* rows(found.open), ended: yield* ended(found.ended), pending: found.pending }
    }),
    count: table.count
  }
}

/** Requests of one statement at most. */
const atOnce = 50

/** Answers in parts, none of which has an id twice. */
const inParts = (begin: Table["begin"]) =>
  Effect.fnUntraced(function*(rows: ReadonlyArray<NewRow>): Effect.fn.Return<ReadonlyArray<Begun>, ApprovalTableError> {
    const parts: Array<Map<string, NewRow>> = []
    for (const row of rows) {
      const last = parts.at(-1)
      if (last === undefined || last.size === atOnce || last.has(row.id)) parts.push(new Map([[row.id, row]]))
      else last.set(row.id, row)
    }
    const begun = yield* Effect.forEach(parts, (part) => begin(Array.from(part.values())))
    return begun.flat()
  })

const rowOf = (
  { details, kept, owner, request }: RedactedRequest,
  epoch: Epoch,
  replaces: string | undefined
): NewRow => ({
  id: request.id,
  epoch,
  user: owner.user,
  tool: request.tool,
  hash: kept.summary.hash,
  requestedAt: request.requestedAt,
  expiresAt: request.expiresAt === "unlimited" ? undefined : request.expiresAt,
  request: StoredApproval.writeRequest(kept),
  details: StoredApproval.writeDetails(details()),
  approvals: approvalsOf(kept),
  replaces
})

const approvalsOf = ({ summary: { approvals } }: RedactedRequest["kept"]): string | undefined =>
  approvals === undefined ? undefined : StoredApproval.writeApprovals(approvals)

const endingOf = ({ end: { at, ending }, kept }: ApprovalRows.Ending) => {
  const { how } = ResolvedRequest.of(kept.summary, { at, ending })
  return { id: kept.summary.id, end: { how, at, ending: StoredApproval.writeEnd(ending, kept) } }
}

const orWarn = <A>(read: Result.Result<A, Error>, id: string): Effect.Effect<A | undefined> =>
  Result.isSuccess(read)
    ? Effect.succeed(read.success)
    : Effect.as(
      Effect.logWarning(`The record of approval request ${id} cannot be read: ${read.failure.message}`),
      undefined
    )

const readEnd = (end: RowEnd, id: string): Effect.Effect<ResolvedRequest.End | undefined> =>
  Effect.map(
    orWarn(StoredApproval.readEnd(end.ending), id),
    (ending) => ending === undefined ? undefined : { at: end.at, ending }
  )

const readable = Effect.fnUntraced(function*(
  { approvals: given, end, hash, id, request, version }: ApprovalRow
): Effect.fn.Return<
  ApprovalRows.Row | undefined
> {
  const bare = yield* orWarn(StoredApproval.readRequest(request, { id, hash }), id)
  if (bare === undefined) return undefined
  const approvals = given === undefined ? undefined : yield* orWarn(StoredApproval.readApprovals(given), id)
  const kept = approvals === undefined ? bare : { ...bare, summary: { ...bare.summary, approvals } }
  if (end === undefined) return { kept, version, end }
  const read = yield* readEnd(end, id)
  return read === undefined ? undefined : { kept, version, end: read }
})

/** A row that cannot be read, as one that the request replaces. */
const unreadable = ({ kept }: RedactedRequest, { end, hash, version }: ApprovalRow): ApprovalRows.Row => ({
  kept: { ...kept, summary: { ...kept.summary, hash } },
  version,
  end: end === undefined ? undefined : { at: end.at, ending: { _tag: "Withdrawn" } }
})

const rows = (all: ReadonlyArray<ApprovalRow>): Effect.Effect<ReadonlyArray<ApprovalRows.Row>> =>
  Effect.map(Effect.forEach(all, readable), (read) => read.flatMap((row) => row === undefined ? [] : [row]))

const ended = (all: ReadonlyArray<ApprovalRow>): Effect.Effect<ReadonlyArray<ApprovalRows.EndedRow>> =>
  Effect.map(rows(all), (read) => read.flatMap(({ end, kept }) => end === undefined ? [] : [{ kept, end }]))
