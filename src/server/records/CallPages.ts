/**
 * The journal as a list of calls: their entries, folded, as far as a user may read them.
 *
 * A page reads a bounded number of entries, so an empty page may still have a `next`. Each call appears at one of its
 * entries, the anchor: its arrival, or the newest of its entries that the filter is about.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type * as Journal from "../../core/store/Journal.ts"
import * as JournalCalls from "../../core/store/JournalCalls.ts"
import { type CallEntry, isOfCall } from "../../core/store/JournalEntry.ts"
import * as ToolOutcome from "../../core/vocabulary/ToolOutcome.ts"
import { clip } from "../../internal/clip.ts"
import * as PlainJson from "../../wire/PlainJson.ts"
import type { User } from "../api/ApiAccess.ts"
import { Invalid, NotFound } from "../api/ApiProblems.ts"
import type { CallState, RecordedCall, RecordedCallDetail, RecordedCalls } from "../api/ApiRecords.ts"
import * as Principals from "../users/Principals.ts"
import { readsRecordsOf } from "../users/Rights.ts"
import * as EntryWire from "./EntryWire.ts"
import * as JournalPages from "./JournalPages.ts"

/** Filters. Absent fields exclude nothing. */
export interface Wanted
  extends Pick<JournalPages.Wanted, "user" | "session" | "batch" | "tool" | "call" | "search" | "since" | "before">
{
  /** Name of the sub-agent that called; empty: the root. */
  readonly agent?: string
  readonly state?: CallState
  readonly limit?: number
}

type Service = Journal.Journal["Service"]

const mostCalls = 200

/** Reads of the journal per page at most: matches may be rare. */
const mostParts = 8

/** Calls that are read together. Other requests get a turn in between. */
const atOnce = 50

/** Entries of these calls that are read at most: a call that was submitted again and again is folded in part. */
const mostEntries = 2_000

/** Characters of the anchors of these calls. */
const mostAnchorChars = 1_000_000

/** Characters of a summary. */
const mostChars = 200

/** Reads a page of calls, newest first. */
export const read = Effect.fnUntraced(function*(
  journal: Service,
  user: User,
  wanted: Wanted
): Effect.fn.Return<typeof RecordedCalls.Type, Invalid | Journal.JournalError> {
  const errors = JournalPages.problemsOf(wanted, mostCalls)
  if (errors.length > 0) return yield* new Invalid({ errors })
  const { limit = 100 } = wanted
  const query = JournalPages.queryOf(user, wanted)
  const { isAnchor, narrow } = anchorOf(wanted)
  const calls: Array<RecordedCall> = []
  let next = wanted.before
  for (let part = 0; part < mostParts && calls.length < limit; part++) {
    const entries = Math.min(atOnce, limit - calls.length)
    const page: Journal.Page = yield* journal.page({ ...query, ...narrow, before: next }, {
      entries,
      chars: mostAnchorChars
    })
    const found = page.entries.flatMap(({ entry, place }) => isOfCall(entry) ? [{ entry, place }] : [])
    const foldOf = yield* foldsOf(journal, found)
    for (const it of found) {
      const { call, place } = foldOf(it)
      const isShown = call.entries.findLast(isAnchor) === it.entry && matches(wanted, call)
      if (isShown) calls.push(shown(call, place))
    }
    next = page.next
    if (next === undefined) return { calls }
    yield* Effect.yieldNow
  }
  return next === undefined ? { calls } : { calls, next }
})

/** Reads the call whose entry is at a place. */
export const one = Effect.fnUntraced(function*(
  journal: Service,
  user: User,
  place: number
): Effect.fn.Return<RecordedCallDetail, NotFound | Journal.JournalError> {
  const isPlace = Number.isSafeInteger(place) && place > 0
  const page: Journal.Page = isPlace
    ? yield* journal.page({ after: place - 1, before: place + 1 }, { entries: 1, chars: mostAnchorChars })
    : { entries: [] }
  const entry = page.entries[0]?.entry
  const isReadable = entry !== undefined && isOfCall(entry) &&
    readsRecordsOf(user, Principals.fromPrincipal(entry.principal).user)
  if (!isReadable) return yield* new NotFound({})
  const { call, place: first } = (yield* foldsOf(journal, [{ entry, place }]))({ entry, place })
  const { args, entries, outcome } = call
  const diff = lastOf(entries, "Asked")?.preview
  return {
    ...shown(call, first),
    ...args?._tag === "Full" ? { args: PlainJson.shown(args.value) } : {},
    ...outcome === undefined ? {} : { modelText: ToolOutcome.text(outcome) },
    ...diff === undefined ? {} : { diff },
    entries: entries.map((it) => JSON.parse(JSON.stringify(EntryWire.of(it))))
  }
})

// Utilities

interface Found {
  readonly entry: CallEntry
  readonly place: number
}

/** A call with the place of its first entry. */
interface Fold {
  readonly call: JournalCalls.RecordedCall
  readonly place: number
}

/** Reads the calls of entries; gives the call of each entry. */
const foldsOf = Effect.fnUntraced(function*(
  journal: Service,
  found: ReadonlyArray<Found>
): Effect.fn.Return<(of: Found) => Fold, Journal.JournalError> {
  const keys = Array.from(new Set(found.map(({ entry }) => entry.key)))
  const places = new Map<number, CallEntry>(found.map(({ entry, place }) => [place, entry]))
  const known = keys.length === 0
    ? []
    : yield* Stream.runCollect(Stream.take(journal.read({ keys }), mostEntries))
  for (const { entry, place } of known) if (isOfCall(entry) && !places.has(place)) places.set(place, entry)
  const inOrder = Array.from(places).sort(([one], [other]) => one - other)
  const placeOf = new Map(inOrder.map(([place, entry]) => [entry, place]))
  const callOf = new Map<CallEntry, Fold>()
  for (const call of JournalCalls.callsOf(placeOf.keys())) {
    const fold = { call, place: placeOf.get(call.first)! }
    for (const entry of call.entries) callOf.set(entry, fold)
  }
  return ({ entry }) => callOf.get(entry)!
})

const outcomes: { readonly [T in ToolOutcome.Tag]: CallState } = {
  Succeeded: "succeeded",
  Failed: "failed",
  TimedOut: "timedOut",
  Denied: "denied",
  Cancelled: "cancelled",
  Skipped: "skipped",
  Unknown: "unknown"
}

/** At which of its entries a call appears in a page, and how the journal is searched for these. */
const anchorOf = ({ search, state }: Wanted): {
  readonly isAnchor: (entry: CallEntry) => boolean
  readonly narrow: Journal.Query
} => {
  // the text is searched in what is shown, so that hidden fields cannot be probed
  if (search !== undefined) return { isAnchor: (it) => contains(it, search), narrow: { text: search, tag: undefined } }
  const tag = Object.entries(outcomes).find(([, it]) => it === state)?.[0]
  if (tag !== undefined) {
    return { isAnchor: (it) => it._tag === "Settled", narrow: { tag: "Settled", text: `"outcome":{"_tag":"${tag}"` } }
  }
  return {
    isAnchor: (it) => it._tag === "Arrived" && it.isResumed !== true,
    narrow: { tag: "Arrived", isOpen: state !== undefined }
  }
}

const contains = (entry: CallEntry, search: string): boolean =>
  JSON.stringify(EntryWire.of(entry)).toLowerCase().includes(search.toLowerCase())

const matches = ({ agent, session, state }: Wanted, call: JournalCalls.RecordedCall): boolean =>
  (agent === undefined || (call.first.agentPath.at(-1) ?? "") === agent) &&
  (session === undefined || Principals.fromPrincipal(call.first.principal).session === session) &&
  (state === undefined || stateOf(call) === state)

const stateOf = ({ asking, entries, outcome }: JournalCalls.RecordedCall): CallState => {
  if (outcome !== undefined) return outcomes[outcome._tag]
  const last = entries.findLast(({ _tag }) => _tag === "Suspended" || _tag === "Started" || _tag === "Arrived")
  if (last?._tag === "Suspended") return "suspended"
  const request = asking.at(-1)
  if (request !== undefined && request[1] === undefined) return "waiting"
  return last?._tag === "Started" ? "running" : "queued"
}

const shown = (call: JournalCalls.RecordedCall, place: number): RecordedCall => {
  const { args, endedAt, entries, first, startedAt } = call
  const decidedBy = deciderOf(entries)
  const requestId = lastOf(entries, "Asked")?.requestId
  return {
    place,
    ...Principals.fromPrincipal(first.principal),
    agentPath: first.agentPath,
    batch: first.batch,
    callId: first.callId,
    tool: first.tool,
    targets: lastOf(entries, "Arrived")?.targets ?? [],
    summary: args?._tag === "Full" ? clip(JSON.stringify(PlainJson.shown(args.value)), mostChars) : "",
    state: stateOf(call),
    ...decidedBy === undefined ? {} : { decidedBy },
    ...requestId === undefined ? {} : { requestId },
    at: first.at,
    ...startedAt === undefined ? {} : { startedAt },
    ...endedAt === undefined ? {} : { endedAt }
  }
}

/** What admitted or refused a call: the last entry that says so. A person's answer says more than its consequence. */
const deciderOf = (entries: ReadonlyArray<CallEntry>): RecordedCall["decidedBy"] => {
  let decider: RecordedCall["decidedBy"]
  for (const it of entries) {
    if (it._tag === "Answered") {
      if (it.by === "withdrawn" || it.by === "suspended") continue
      const name = it.by === "grant" ? it.grant?.id : it.person
      decider = { kind: it.by === "user" ? "person" : it.by, ...name === undefined ? {} : { name } }
    } else if (
      it._tag === "Decided" && it.verdict === "refused" && (decider === undefined || it.gate !== "permission")
    ) {
      decider = { kind: "gate", name: it.gate }
    } else if (it._tag === "Reviewed") {
      if (it.decides === true) decider = { kind: "reviewer", name: it.model }
    } else if (it._tag === "Started" && it.allowedBy === "policy") decider ??= { kind: "policy" }
    else if (it._tag === "Started" && it.allowedBy === "answer") decider ??= { kind: "person" }
    else if (it._tag === "Started") decider ??= { kind: "grant", name: it.allowedBy }
  }
  return decider
}

const lastOf = <T extends CallEntry["_tag"]>(entries: ReadonlyArray<CallEntry>, tag: T) =>
  entries.findLast((it): it is Extract<CallEntry, { readonly _tag: T }> => it._tag === tag)
