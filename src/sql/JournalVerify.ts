/** Checks the hash chain of a journal in SQL. */
import * as Effect from "effect/Effect"
import type * as SqlClient from "effect/sql/SqlClient"
import type { SqlError } from "effect/sql/SqlError"
import * as Chain from "../core/store/JournalChain.ts"
import * as Links from "./JournalLinks.ts"
import * as Tables from "./JournalTables.ts"

/** Checks all rows, and compares the chain with a checkpoint. Appends of the meantime are left out. */
export const verify = Effect.fnUntraced(function*(
  sql: SqlClient.SqlClient,
  checkpoint?: Chain.Checkpoint
): Effect.fn.Return<Omit<Chain.Verified, "journal">, SqlError> {
  while (true) {
    const before = yield* Links.state(sql)
    const verified = yield* checkAll(sql, before, checkpoint)
    const after = yield* Links.state(sql)
    // a prune may have removed what was being looked at
    if (after.basePlace === before.basePlace && after.baseHead === before.baseHead) return verified
  }
})

const checkAll = Effect.fnUntraced(function*(
  sql: SqlClient.SqlClient,
  { baseHead, basePlace }: Links.State,
  checkpoint: Chain.Checkpoint | undefined
): Effect.fn.Return<Omit<Chain.Verified, "journal">, SqlError> {
  const end = yield* endOf(sql)
  const findings: Array<Chain.Finding> = []
  const removed: Array<Links.Hashed> = []
  const prunes: Array<Prune> = []
  let [chain, place, entries, number] = [baseHead, basePlace, 0, 0]
  let base: { readonly basePlace: number; readonly baseHead: string } | undefined
  let isMatched = false
  /** Whether a prune removed what was there up to a place. */
  const isBase = (place: number): boolean => baseHead !== "" && place <= basePlace
  const stray = yield* countUntil(sql, baseHead === "" ? 0 : basePlace)
  if (stray.count > 0) findings.push(added(stray.last))
  const unchained = baseHead === "" ? (yield* countUntil(sql, basePlace)).count - stray.count : 0
  while (number < end.number) {
    const some = (yield* Links.links(sql, number, linksAtOnce)).filter((it) => it.number <= end.number)
    if (some.length === 0) break
    const appends = some.filter((it) => it.pruned === undefined)
    const rows = appends.length === 0 ? [] : yield* Links.hashes(sql, place + 1, appends.at(-1)!.last)
    let at = 0
    for (const it of some) {
      number = it.number
      if (it.pruned !== undefined) {
        const { baseHead, basePlace, before } = it.pruned
        if (Links.chained(chain, Links.pruned(before, basePlace, baseHead)) !== it.chain) {
          findings.push({ from: place, to: place, problem: `the record of a prune after entry ${place} was changed` })
        }
        base = it.pruned
        prunes.push({ before, until: place })
      } else {
        for (; at < rows.length && rows[at]!.place < it.first; at++) findings.push(added(rows[at]!.place))
        const own: Array<Links.Hashed> = []
        for (; at < rows.length && rows[at]!.place <= it.last; at++) own.push(rows[at]!)
        if (Links.chained(chain, own.map(({ hash }) => hash).join("")) === it.chain) {
          for (const row of own) if (row.isPruned) removed.push(row)
          entries += own.filter(({ isPruned }) => !isPruned).length
        } else findings.push(broken(it))
        place = it.last
      }
      chain = it.chain
      // that the base is like the checkpoint says nothing, unless it was the base when the checkpoint was made
      if (place === checkpoint?.place && chain === checkpoint.chain) {
        isMatched ||= !isBase(place) || it.pruned?.basePlace === place
      }
    }
  }
  findings.push(...yield* removedByOthers(sql, removed, prunes))
  if (baseHead !== "" && (base?.baseHead !== baseHead || base.basePlace !== basePlace)) {
    findings.push(Chain.missing(1, basePlace))
  }
  if (chain !== end.head) {
    const from = place + 1
    findings.push({ from, to: Math.max(from, end.taken), problem: `the last entries, from ${from} on, are missing` })
  }
  if (end.place > place) findings.push(added(end.place))
  let compared: Chain.Compared = "not compared"
  if (checkpoint !== undefined && checkpoint.place > place) {
    findings.push(Chain.missing(place + 1, checkpoint.place))
  } else if (isMatched) {
    if (entries > 0) compared = "matches"
  } else if (checkpoint !== undefined && !isBase(checkpoint.place)) {
    compared = "differs"
    findings.push(Chain.other(checkpoint))
  }
  return {
    entries,
    unchained,
    pruned: removed.length,
    head: chain === "" ? undefined : { place, chain },
    compared,
    findings
  }
})

/** A record of a prune: entries before a time may be removed, and those that had ended by a place are. */
interface Prune {
  readonly before: number
  readonly until: number
}

/**
 * What was removed without a prune, or with the forged record of one. A prune begins with the oldest entry, so whatever
 * each of those that may have removed an entry would have removed before it is gone as well.
 */
const removedByOthers = Effect.fnUntraced(function*(
  sql: SqlClient.SqlClient,
  removed: ReadonlyArray<Links.Hashed>,
  prunes: ReadonlyArray<Prune>
): Effect.fn.Return<ReadonlyArray<Chain.Finding>, SqlError> {
  const findings: Array<Chain.Finding> = []
  const byTime = prunes.toSorted((one, other) => one.before - other.before)
  /** The last entry for which a prune is the one that goes least far. */
  const lasts = new Map<Prune, number>()
  for (const { at, place } of removed) {
    const least = byTime.find(({ before }) => at < before)
    if (least === undefined) findings.push(Chain.missing(place, place))
    else lasts.set(least, place)
  }
  for (const [{ before }, place] of lasts) {
    const until = Math.min(...prunes.filter((it) => it.before >= before).map((it) => it.until))
    const left = yield* Tables.leftBehind(sql, { before, place, until })
    if (left === undefined) continue
    findings.push({
      from: left,
      to: place,
      problem: `entry ${place} is gone, and entry ${left}, which a prune removes before it, is not: no prune removed it`
    })
  }
  return findings
})

/** Links that are read at once. */
const linksAtOnce = 500

const added = (place: number): Chain.Finding => ({
  from: place,
  to: place,
  problem: `entry ${place} was not written by the journal`
})

const broken = ({ first, last }: Links.Link): Chain.Finding => ({
  from: first,
  to: last,
  problem: first === last
    ? `entry ${first} was changed or removed`
    : `entries ${first} to ${last}, which were written together, were changed, removed or moved`
})

/** The end of the chain and of the entries, at one time. */
const endOf = (sql: SqlClient.SqlClient) =>
  Effect.map(
    sql<{ readonly number: unknown; readonly head: string; readonly place: unknown; readonly taken: unknown }>`
      SELECT (SELECT max(number) FROM tool_executor_journal_links) AS number,
        (SELECT max(place) FROM tool_executor_journal_entries) AS place,
        (SELECT last_place FROM tool_executor_journal WHERE id = 1) AS taken, head
      FROM tool_executor_journal_chain WHERE id = 1
    `.withoutTransform,
    ([row]) => ({
      number: Number(row?.number ?? 0),
      head: row?.head ?? "",
      place: Number(row?.place ?? 0),
      taken: Number(row?.taken ?? 0)
    })
  )

/** How many entries there are up to a place, and which one is the last. */
const countUntil = (sql: SqlClient.SqlClient, place: number) =>
  Effect.map(
    sql<{ readonly count: unknown; readonly last: unknown }>`
      SELECT count(*) AS count, max(place) AS last FROM tool_executor_journal_entries WHERE place <= ${place}
    `.withoutTransform,
    ([row]) => ({ count: Number(row?.count ?? 0), last: Number(row?.last ?? 0) })
  )
