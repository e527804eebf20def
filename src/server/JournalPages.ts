/**
 * Pages of the journal, as far as a user may read it.
 *
 * A page is bounded in entries, in characters and in how many entries are looked at for it: one
 * with few entries, or none, may still have a `next` to go on from. The journal is
 * never held as a whole, and read from the end that is asked for: the newest one, if
 * nothing is said.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type * as Journal from "../store/Journal.ts"
import type { User } from "./ApiAccess.ts"
import { Invalid } from "./ApiProblems.ts"
import type { Entries } from "./ApiRecords.ts"
import * as Principals from "./Principals.ts"
import { readsRecordsOf } from "./Rights.ts"
import * as ShownEntry from "./ShownEntry.ts"

/**
 * Which entries are wanted; what is absent excludes nothing.
 *
 * @category models
 * @since 0.1.0
 */
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

/** Entries that are looked at for a page at most: what is searched for may be rare. */
const mostLookedAt = 20_000

/** Characters of a page after which it ends. */
const mostChars = 5_000_000

/**
 * Reads a page.
 *
 * @category reading
 * @since 0.1.0
 */
export const read = Effect.fnUntraced(function*(
  journal: Journal.Journal["Service"],
  user: User,
  wanted: Wanted
): Effect.fn.Return<typeof Entries.Type, Invalid | Journal.JournalError> {
  const errors = problems(wanted)
  if (errors.length > 0) return yield* new Invalid({ errors })
  const { limit = mostEntries, search } = wanted
  const text = search?.toLowerCase()
  const entries: Array<typeof Entries.Type["entries"][number]> = []
  let chars = 0
  let lookedAt = 0
  let last = 0
  yield* journal.read(queryOf(wanted)).pipe(
    Stream.takeUntil(({ entry, place }) => {
      last = place
      lookedAt++
      const owner = Principals.fromPrincipal(entry.principal)
      if (isOf(wanted, owner) && readsRecordsOf(user, owner.user)) {
        const shown = ShownEntry.of(entry)
        // of what is shown, so that nothing else can be found out
        const json = JSON.stringify(shown)
        if (text === undefined || json.toLowerCase().includes(text)) {
          chars += json.length
          entries.push({ place, ...owner, entry: JSON.parse(json) })
        }
      }
      return isFull()
    }),
    Stream.runDrain
  )
  return isFull() ? { entries, next: last } : { entries }

  function isFull(): boolean {
    return entries.length >= limit || chars >= mostChars || lookedAt >= mostLookedAt
  }
})

// Utilities

/** What the journal can leave out by itself. */
const queryOf = (
  { after, batch, before, call, order = "newest", session, since, tool, user }: Wanted
): Journal.Query => ({
  principal: user === undefined || session === undefined ? undefined : Principals.toPrincipal({ user, session }),
  batch,
  tool,
  callId: call,
  since,
  after,
  before,
  order
})

const isOf = ({ session, user }: Wanted, owner: Principals.Owner): boolean =>
  (user === undefined || user === owner.user) && (session === undefined || session === owner.session)

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
