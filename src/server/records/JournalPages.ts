/**
 * Pages of the journal that a user may read.
 *
 * A page is limited in entries, in characters and in entries examined, so an empty page may still have a `next`. The
 * journal itself leaves out entries of other users.
 */
import * as Effect from "effect/Effect"
import type * as Journal from "../../core/store/Journal.ts"
import { covers, type User } from "../api/ApiAccess.ts"
import { Invalid } from "../api/ApiProblems.ts"
import type { Entries } from "../api/ApiRecords.ts"
import * as Principals from "../users/Principals.ts"
import { readsRecordsOf } from "../users/Rights.ts"
import * as EntryWire from "./EntryWire.ts"

/** Filters. Absent fields exclude nothing. */
export interface Wanted {
  readonly user?: string
  readonly session?: string
  readonly batch?: string
  readonly tool?: string
  readonly call?: string
  readonly search?: string
  readonly since?: number
  readonly order?: "newest" | "oldest"
  readonly after?: number
  readonly before?: number
  readonly limit?: number
}

const mostEntries = 1_000

/** Reads of the journal per page at most: matches may be rare. */
const mostParts = 8

/** Entries that are encoded before other requests get a turn. */
const atOnce = 50

/** Characters after which a page ends. */
const mostChars = 1_000_000

export const read = Effect.fnUntraced(function*(
  journal: Journal.Journal["Service"],
  user: User,
  wanted: Wanted
): Effect.fn.Return<typeof Entries.Type, Invalid | Journal.JournalError> {
  const errors = problemsOf(wanted, mostEntries)
  if (errors.length > 0) return yield* new Invalid({ errors })
  const { limit = mostEntries, search } = wanted
  const query = queryOf(user, wanted)
  const text = search?.toLowerCase()
  const entries: Array<typeof Entries.Type["entries"][number]> = []
  let chars = 0
  let next = query.order === "newest" ? wanted.before : wanted.after
  for (let part = 0; part < mostParts && entries.length < limit && chars < mostChars; part++) {
    const from = query.order === "newest" ? { before: next } : { after: next }
    const page = yield* journal.page({ ...query, ...from }, {
      entries: limit - entries.length,
      chars: mostChars - chars
    })
    for (const [index, { entry, place }] of page.entries.entries()) {
      if (index % atOnce === atOnce - 1) yield* Effect.yieldNow
      const owner = Principals.fromPrincipal(entry.principal)
      if (wanted.session !== undefined && wanted.session !== owner.session) continue
      const shown = EntryWire.of(entry)
      // search only what is shown, so that hidden fields cannot be probed
      const json = JSON.stringify(shown)
      chars += json.length
      if (text === undefined || json.toLowerCase().includes(text)) {
        entries.push({ place, ...owner, entry: JSON.parse(json) })
      }
    }
    next = page.next
    if (next === undefined) return { entries }
  }
  return next === undefined ? { entries } : { entries, next }
})

/** The part of the filter that the journal applies, with the entries that the user may read. */
export const queryOf = (user: User, wanted: Wanted): Journal.Query & { readonly order: "newest" | "oldest" } => {
  const { after, batch, before, call, order = "newest", search, session, since, tool } = wanted
  const owners = ownersOf(user, wanted)
  const principal = owners?.length === 1 && session !== undefined
    ? Principals.toPrincipal({ user: owners[0]!, session })
    : undefined
  return { principal, owners, batch, tool, callId: call, since, after, before, order, text: search }
}

/** Owners of the entries that a user may read; `undefined`: all. */
const ownersOf = (user: User, { user: wanted }: Wanted): ReadonlyArray<string> | undefined => {
  if (wanted !== undefined) return readsRecordsOf(user, wanted) ? [wanted] : []
  if (covers(user.records, "*")) return undefined
  return Array.from(new Set([...user.records, user.name])).filter((it) => readsRecordsOf(user, it))
}

/** What is wrong with the bounds of a page of at most so many items. */
export const problemsOf = (
  { after, before, limit }: Pick<Wanted, "after" | "before" | "limit">,
  most: number
): Invalid["errors"] => [
  ...limit === undefined || (Number.isInteger(limit) && limit >= 1 && limit <= most) ? [] : [
    { path: "limit", problem: `it is ${limit}`, expected: `a whole number from 1 to ${most}` }
  ],
  ...Object.entries({ after, before }).flatMap(([path, place]) =>
    place === undefined || (Number.isSafeInteger(place) && place >= 0)
      ? []
      : [{ path, problem: `it is ${place}`, expected: "the `next` of another page" }]
  )
]
