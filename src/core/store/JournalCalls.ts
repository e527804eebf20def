/** What a journal says of each call, put together from its entries, and what in it does not go together. Pure. */
import type { ToolOutcome } from "../vocabulary/ToolOutcome.ts"
import { type CallEntry, isOfCall, type JournalEntry, type Of, type Recorded } from "./JournalEntry.ts"

/** One call on record: from its submission to its end, resumed lives included. */
export interface RecordedCall {
  /** The first entry of it: who it is of, and when. */
  readonly first: CallEntry
  readonly entries: ReadonlyArray<CallEntry>
  readonly args: Of<"Arrived">["args"] | undefined
  /** When its handler was started for the last time; absent if it never was. */
  readonly startedAt: number | undefined
  readonly outcome: ToolOutcome | undefined
  readonly endedAt: number | undefined
  /** When its approval was requested; a pending request has no end. */
  readonly asking: ReadonlyArray<readonly [from: number, to: number | undefined]>
}

/**
 * The calls of a journal, in the order in which they arrived. A call that was handed again after its end is another
 * one.
 */
export const callsOf = (entries: Iterable<JournalEntry>): ReadonlyArray<RecordedCall> => {
  const calls: Array<Array<CallEntry>> = []
  const last = new Map<string, Array<CallEntry>>()
  for (const entry of entries) {
    if (!isOfCall(entry)) continue
    const known = last.get(entry.key)
    const isAnew = entry._tag === "Arrived" && entry.isResumed !== true
    if (known !== undefined && !isAnew) known.push(entry)
    else {
      const call = [entry]
      last.set(entry.key, call)
      calls.push(call)
    }
  }
  return calls.map(callOf)
}

/** Something that does not go together: a call that was started and has no end, or a record that cannot be right. */
export interface Finding {
  readonly kind: "NoEnd" | "Twice" | "Unannounced" | "Order" | "Gap"
  /** The call it is about; absent where it is about none. */
  readonly call: RecordedCall | undefined
  readonly problem: string
}

/** What does not go together in a journal; nothing where every call that was started has its one end. */
export const verify = (recorded: Iterable<Recorded>): ReadonlyArray<Finding> => {
  const findings: Array<Finding> = []
  const entries: Array<JournalEntry> = []
  let last = 0
  for (const { entry, place } of recorded) {
    if (place <= last) findings.push({ kind: "Order", call: undefined, problem: `place ${place} comes behind ${last}` })
    if (entry._tag === "Gap") {
      const lost = `${entry.lost} ${entry.lost === 1 ? "entry is" : "entries are"} missing before place ${place}`
      findings.push({ kind: "Gap", call: undefined, problem: lost })
    }
    last = place
    entries.push(entry)
  }
  for (const call of callsOf(entries)) {
    const found = (kind: Finding["kind"], problem: string) => findings.push({ kind, call, problem })
    if (call.first._tag !== "Arrived") found("Unannounced", "its first entries are missing")
    const ends = call.entries.filter((it) => it._tag === "Settled")
    if (ends.length > 1) found("Twice", `it has ${ends.length} ends`)
    if (call.startedAt !== undefined && ends.length === 0) found("NoEnd", "it was started and has no end")
  }
  return findings
}

const callOf = (entries: ReadonlyArray<CallEntry>): RecordedCall => {
  const settled = lastOf(entries, "Settled")
  const asking: Array<[from: number, to: number | undefined]> = []
  for (const { _tag, at } of entries) {
    if (_tag === "Asked") asking.push([at, undefined])
    const open = asking.at(-1)
    if ((_tag === "Answered" || _tag === "Suspended") && open !== undefined) open[1] = at
  }
  return {
    first: entries[0]!,
    entries,
    args: lastOf(entries, "Arrived")?.args,
    startedAt: lastOf(entries, "Started")?.at,
    outcome: settled?.outcome,
    endedAt: settled?.at,
    asking
  }
}

const lastOf = <T extends CallEntry["_tag"]>(entries: ReadonlyArray<CallEntry>, tag: T): Of<T> | undefined =>
  entries.findLast((it): it is Extract<CallEntry, Of<T>> => it._tag === tag)
