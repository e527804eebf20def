/**
 * What the journal says about calls that were submitted before: the last life of each call, and the sessions that left
 * calls unfinished. Pure.
 */
import type { Reservation } from "../../store/Claims.ts"
import type * as Journal from "../../store/Journal.ts"
import { isOfCall } from "../../store/Journal.ts"
import type { GivenApproval } from "../../vocabulary/Approvers.ts"

/** What is on record of one call. */
export interface Life {
  arrived: Journal.Of<"Arrived"> | undefined
  /** Its first entry: whose wave it was submitted in at first. */
  readonly first: Journal.CallEntry
  started: Journal.Of<"Started"> | undefined
  /** Its start is recorded in a store that outlives its executors. */
  isSpent: boolean
  /** Its state before it was last submitted. */
  before: Pick<Life, "isSpent" | "started">
  settled: Journal.Of<"Settled"> | undefined
  /** The last verdict of a reviewer. */
  reviewed: Journal.Of<"Reviewed"> | undefined
  /** The approval request that is still open. */
  asked: Journal.Of<"Asked"> | undefined
  /** Who has approved it. */
  approved: ReadonlyArray<Journal.Of<"ApprovedBy">>
  /** The approval requests that were answered. */
  answered: ReadonlyArray<readonly [Journal.Of<"Asked">, Journal.Of<"Answered">]>
}

/** Why approval is requested before a call runs again. */
export const mayHaveHappened =
  "it was started before, and its process stopped before the result was recorded: it may have happened already"

/** Gives the last life of each call, by its key. */
export const of = (entries: ReadonlyArray<Journal.JournalEntry>): Map<string, Life> => {
  const lives = new Map<string, Life>()
  for (const entry of entries) {
    if (!isOfCall(entry)) continue
    const { key } = entry
    let life = lives.get(key)
    if (life === undefined || (entry._tag === "Arrived" && entry.isResumed !== true)) {
      lives.set(key, life = { ...unknown, ...notStarted, first: entry, before: notStarted })
    }
    add(life, entry)
  }
  return lives
}

/**
 * Gives the sessions that ended with unfinished calls, each with its reservations that are recorded as started.
 *
 * A session that ended or suspended its calls is not listed: it may be alive and have other calls.
 */
export const goneOf = (entries: ReadonlyArray<Journal.JournalEntry>): Map<string, Array<Reservation>> => {
  const gone = new Map<string, Array<Reservation>>()
  const open = new Map<string, string>()
  for (const entry of entries) {
    if (!isOfCall(entry)) continue
    const { key, session } = entry
    if (entry._tag === "Arrived") {
      const before = open.get(key)
      if (before !== undefined && entry.isResumed === true) gone.set(before, [])
      open.set(key, session)
    } else if (entry._tag === "Settled" || entry._tag === "Suspended") open.delete(key)
  }
  for (const session of open.values()) gone.set(session, [])
  for (const entry of entries) {
    if (entry._tag === "Started" && entry.reservation !== undefined) gone.get(entry.session)?.push(entry.reservation)
  }
  return gone
}

const unknown = {
  answered: [],
  approved: [],
  arrived: undefined,
  asked: undefined,
  reviewed: undefined,
  settled: undefined
}

const notStarted = { isSpent: false, started: undefined }

const add = (life: Life, entry: Journal.CallEntry): void => {
  switch (entry._tag) {
    case "Arrived": {
      const { isSpent, started } = life
      life.arrived = entry
      life.before = { isSpent, started }
      return
    }
    case "Suspended":
      // it was about to start, but did not
      if (entry.isStarted !== true && life.started !== undefined && isSameWave(life.started, entry)) {
        Object.assign(life, life.before)
      }
      return
    case "Started":
      life.started = entry
      if (entry.reservation !== undefined) life.isSpent = true
      // approvals to run it again apply to this start only
      life.answered = life.answered.filter(([asked]) => asked.why !== mayHaveHappened)
      return
    case "Settled":
      life.settled = entry
      return
    case "Reviewed":
      life.reviewed = entry
      return
    case "Asked":
      // a request repeated under its id has been open since the first time
      if (life.asked?.requestId !== entry.requestId) life.asked = entry
      return
    case "ApprovedBy":
      life.approved = [...life.approved, entry]
      return
    case "Answered":
      // the request may have been stored although nobody heard of that: it is asked again under its id
      if (entry.by === "suspended" || entry.by === "withdrawn" || entry.by === "noApprover") return
      if (life.asked?.requestId === entry.requestId) life.answered = [...life.answered, [life.asked, entry]]
      life.asked = undefined
  }
}

/** The approvals of a request that are on record. Those with data are not: the record leaves their data out. */
export const approvalsOf = (
  { approved }: Life,
  { requestId }: Journal.Of<"Asked">
): ReadonlyArray<GivenApproval> =>
  approved.flatMap((it) => it.requestId === requestId && it.hasData !== true ? [it.approval] : [])

const isSameWave = (one: Journal.CallEntry, other: Journal.CallEntry): boolean =>
  one.session === other.session && one.process === other.process && one.wave === other.wave
