/**
 * How the journal in SQL writes lines and takes over calls.
 *
 * Appends of a process have numbers, and the database knows the last one. So an append whose answer was lost is looked up
 * before the next one, and its lines are written once.
 */
import * as Effect from "effect/Effect"
import type * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import type { Epoch } from "../core/store/Epoch.ts"
import * as Journal from "../core/store/Journal.ts"
import * as Tables from "./JournalTables.ts"
import type { Terms } from "./JournalTerms.ts"
import { own, transaction } from "./OwnConnection.ts"
import type { SessionCalls } from "./SessionCalls.ts"
import { loseOthers, sessionId } from "./SessionFence.ts"
import { currentOf } from "./SessionTables.ts"

/**
 * Writes lines, unless their term has ended. An append whose answer was lost is looked up before the next one: its
 * lines may be submitted again, and are written once. Gives the lines of sessions that turned out to be lost, if any.
 */
export const write = Effect.fnUntraced(function*(
  sql: SqlClient.SqlClient,
  terms: Terms,
  given: ReadonlyArray<Journal.Line>,
  calls: SessionCalls | undefined
): Effect.fn.Return<ReadonlySet<Journal.Line> | undefined, SqlError | Journal.JournalError> {
  const termOf = (it: Journal.Line): Journal.Term | undefined => calls === undefined ? it.term : calls.termOf(it)
  const isDue = (it: Journal.Line): boolean => termOf(it)?.isOver !== true && !terms.landed.has(it)
  if (!given.some(isDue)) return undefined
  const term = yield* terms.opened
  if (term.unsure !== undefined) yield* lookUp(sql, terms, term)
  const lines = given.filter(isDue)
  if (lines.length === 0) return undefined
  const needed = lines.map(termOf)
  const epochs = new Set(needed.filter(isEpoch))
  const rows = lines.map(({ entry }, index) => {
    const epoch = needed[index]
    return Tables.rowOf(entry, isEpoch(epoch) ? sessionId(epoch.principal) : undefined)
  })
  const number = ++term.appends
  const since = terms.now()
  const { leaseMillis } = terms
  const written = yield* own(sql)(
    Tables.append(sql, { term: term.id, append: number, leaseMillis, epochs }, rows)
  ).pipe(
    Effect.onError(() =>
      Effect.sync(() => {
        term.unsure = { number, lines: new Set(lines), epochs }
      })
    )
  )
  if (written.isOver) {
    yield* terms.ended(term)
    return yield* failure("append", over)
  }
  if (Tables.isPg(sql)) terms.extend(term, since)
  if (term.claimed.size > 0) { for (const [, key] of rows) if (key !== null) term.claimed.delete(key) }
  if (epochs.size === written.owned.size) {
    calls?.written(lines)
    return undefined
  }
  const lost: ReadonlySet<unknown> = loseOthers(epochs, written.owned)
  calls?.written(lines.filter((_, index) => !lost.has(needed[index])))
  return new Set(lines.filter((_, index) => lost.has(needed[index])))
})

/** Takes over calls of terms that have ended. */
export const claim = Effect.fnUntraced(function*(
  sql: SqlClient.SqlClient,
  terms: Terms,
  keys: ReadonlyArray<string>
): Effect.fn.Return<Journal.Claimed, SqlError | Journal.JournalError> {
  const term = yield* terms.opened
  const { leaseMillis } = terms
  let taken: ReadonlyArray<string> = []
  const claimed = yield* Effect.gen(function*() {
    yield* Tables.lock(sql)
    const held = yield* Tables.held(sql, keys)
    const ended = held.filter((it) => it.tag === "Settled").map((it) => it.key)
    const open = held.filter((it) => it.tag === "Arrived" || it.tag === "Claimed")
    // an unknown claim of this term is one whose answer was lost
    const isLost = (it: Tables.Held) => it.tag === "Claimed" && it.term === term.id && !term.claimed.has(it.key)
    const busy = open.filter((it) => it.isAlive && !isLost(it)).map((it) => it.key)
    if (busy.length > 0) return { _tag: "Busy", keys: busy } as const
    yield* Tables.endTerms(sql, Array.from(new Set(open.map((it) => it.term))).filter((it) => it !== term.id))
    // whoever had a call that is not on record gave no sign of life, either
    if (held.length < new Set(keys).size) yield* Tables.endExpiredTerms(sql, term.id)
    taken = keys.filter((it) => !ended.includes(it))
    // known before it is committed: the next claim sees both or neither
    for (const key of taken) term.claimed.add(key)
    const rows = taken.map(Tables.claimOf)
    if ((yield* Tables.append(sql, { term: term.id, leaseMillis }, rows)).isOver) return undefined
    return { _tag: "Claimed", ended } as const
  }).pipe(
    transaction(sql),
    Effect.onError(() => Effect.sync(() => taken.forEach((key) => term.claimed.delete(key))))
  )
  if (claimed !== undefined) return claimed
  // it held nothing: claims are made in the next one
  yield* terms.ended(term)
  return yield* claim(sql, terms, keys)
})

// Utilities

const over = "its term is over: others have taken over its calls while it gave no sign of life"

const failure = (operation: string, message: string) =>
  new Journal.JournalError({ operation, cause: new Error(message) })

/** Finds out what became of the append whose answer was lost, and keeps it from being written later. */
const lookUp = Effect.fnUntraced(function*(
  sql: SqlClient.SqlClient,
  terms: Terms,
  term: OpenTerm
): Effect.fn.Return<void, SqlError | Journal.JournalError> {
  const { unsure } = term
  if (unsure === undefined) return
  const { epochs } = unsure
  const last = yield* own(sql)(Tables.fence(sql, term.id, unsure.number))
  if (last === undefined) {
    // nobody knows any more whether lines of these sessions were written
    for (const it of epochs) it.lose()
    yield* terms.ended(term)
    return yield* failure("append", over)
  }
  if (last === unsure.number) {
    for (const line of unsure.lines) terms.landed.add(line)
    // an epoch that is current now was so then, and its lines were written
    const current = epochs.size === 0 ? none : yield* own(sql)(currentOf(sql, epochs))
    loseOthers(epochs, current)
  }
  term.unsure = undefined
})

type OpenTerm = Effect.Success<Terms["opened"]>

const none: ReadonlySet<string> = new Set()

const isEpoch = (term: Journal.Term | undefined): term is Epoch => term !== undefined && "principal" in term
