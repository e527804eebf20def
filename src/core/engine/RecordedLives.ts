/**
 * What is on record of calls that were handed over before: the last life of each, and
 * who has left some in the middle. Pure.
 */
import type { Reservation } from "../store/Claims.ts"
import type * as Journal from "../store/Journal.ts"
import { isOfCall } from "../store/Journal.ts"

/** What is on record of one call. */
export interface Life {
  arrived: Journal.Of<"Arrived"> | undefined
  started: Journal.Of<"Started"> | undefined
  /** A store that outlives its executors knows that it has started. */
  isSpent: boolean
  /** What was so before it was handed over for the last time. */
  before: Pick<Life, "isSpent" | "started">
  settled: Journal.Of<"Settled"> | undefined
  /** The question that is open. */
  asked: Journal.Of<"Asked"> | undefined
  /** Questions that were answered. */
  answered: ReadonlyArray<readonly [Journal.Of<"Asked">, Journal.Of<"Answered">]>
}

/** Why people are asked whether a call runs again. */
export const mayHaveHappened =
  "it was started before, and whatever ran it stopped before the result was recorded: it may have happened already"

/** Gives the last life of each call, by its key. */
export const of = (entries: ReadonlyArray<Journal.JournalEntry>): Map<string, Life> => {
  const lives = new Map<string, Life>()
  for (const entry of entries) {
    if (!isOfCall(entry)) continue
    const { key } = entry
    let life = lives.get(key)
    if (life === undefined || (entry._tag === "Arrived" && entry.isResumed !== true)) {
      lives.set(key, life = { ...unknown, ...notStarted, before: notStarted })
    }
    add(life, entry)
  }
  return lives
}

/**
 * Who has left calls without an end, which could be taken over since it is gone, and
 * what of its reservations is on record as started. Whoever has ended or suspended its
 * calls may be alive, and have others.
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

// Utilities

const unknown = { answered: [], arrived: undefined, asked: undefined, settled: undefined }

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
      // it was about to start, and did not
      if (life.started !== undefined && isSameWave(life.started, entry)) Object.assign(life, life.before)
      return
    case "Started":
      life.started = entry
      if (entry.reservation !== undefined) life.isSpent = true
      // who has let it run once more has done so for this start
      life.answered = life.answered.filter(([asked]) => asked.why !== mayHaveHappened)
      return
    case "Settled":
      life.settled = entry
      return
    case "Asked":
      // one that was asked again under its id has waited since it was asked first
      if (life.asked?.requestId !== entry.requestId) life.asked = entry
      return
    case "Answered":
      if (entry.by === "suspended" || entry.by === "withdrawn") return
      if (life.asked?.requestId === entry.requestId) life.answered = [...life.answered, [life.asked, entry]]
      life.asked = undefined
  }
}

const isSameWave = (one: Journal.CallEntry, other: Journal.CallEntry): boolean =>
  one.session === other.session && one.process === other.process && one.wave === other.wave
