/**
 * Pages of the journal, as far as a user may read it.
 *
 * A page is bounded in entries, in characters and in how many entries are looked at for it: one
 * with few entries, or none, may still have a `next` to go on from. What others may not
 * read is left out by the journal itself, which is read from the end that is asked for: the newest
 * one, if nothing is said.
 */
import * as Effect from "effect/Effect"
import type * as Journal from "../core/store/Journal.ts"
import { covers, type User } from "./ApiAccess.ts"
import { Invalid } from "./ApiProblems.ts"
import type { Entries } from "./ApiRecords.ts"
import * as EntryWire from "./EntryWire.ts"
import * as Principals from "./Principals.ts"
import { readsRecordsOf } from "./Rights.ts"

/** Which entries are wanted; what is absent excludes nothing. */
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

/** Entries of a page at most. */
const mostEntries = 1_000

/** Parts of the journal that are read for a page at most: what is searched for may be rare. */
const mostParts = 8

/** Entries that are made ready at once, before others have their turn. */
const atOnce = 50

/** Characters of a page after which it ends. */
const mostChars = 1_000_000

/** Reads a page. */
export const read = Effect.fnUntraced(function*(
  journal: Journal.Journal["Service"],
  user: User,
  wanted: Wanted
): Effect.fn.Return<typeof Entries.Type, Invalid | Journal.JournalError> {
  const errors = problems(wanted)
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
      // of what is shown, so that nothing else can be found out
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

// Utilities

/** What the journal leaves out by itself. */
const queryOf = (user: User, wanted: Wanted): Journal.Query & { readonly order: "newest" | "oldest" } => {
  const { after, batch, before, call, order = "newest", search, session, since, tool } = wanted
  const owners = ownersOf(user, wanted)
  const principal = owners?.length === 1 && session !== undefined
    ? Principals.toPrincipal({ user: owners[0]!, session })
    : undefined
  return { principal, owners, batch, tool, callId: call, since, after, before, order, text: search }
}

/** Whose entries a user may read of those that are wanted; `undefined`: everybody's. */
const ownersOf = (user: User, { user: wanted }: Wanted): ReadonlyArray<string> | undefined => {
  if (wanted !== undefined) return readsRecordsOf(user, wanted) ? [wanted] : []
  if (covers(user.records, "*")) return undefined
  return Array.from(new Set([...user.records, user.name])).filter((it) => readsRecordsOf(user, it))
}

const problems = ({ after, before, limit }: Wanted): Invalid["errors"] => [
  ...limit === undefined || (Number.isInteger(limit) && limit >= 1 && limit <= mostEntries) ? [] : [
    { path: "limit", problem: `it is ${limit}`, expected: `a whole number from 1 to ${mostEntries}` }
  ],
  ...Object.entries({ after, before }).flatMap(([path, place]) =>
    place === undefined || (Number.isSafeInteger(place) && place >= 0)
      ? []
      : [{ path, problem: `it is ${place}`, expected: "the `next` of another page" }]
  )
]
