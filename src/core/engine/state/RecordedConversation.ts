/**
 * Restores a conversation from its record: what its user said, and what its calls returned.
 *
 * Only what is on record as it was proves anything. Words, arguments and outputs that were left out or redacted do not.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import * as CallLog from "../../../internal/callLog.ts"
import * as Detached from "../../../internal/detached.ts"
import type { Witness } from "../../gates/Provenance.ts"
import type * as Journal from "../../store/Journal.ts"
import type { RegisteredTool } from "../../vocabulary/ToolHandlers.ts"
import * as TimedPorts from "../ports/TimedPorts.ts"
import type { JournalWriter } from "../report/JournalWriter.ts"

/** What a conversation is known by on record. */
export interface Name {
  readonly batch: string
  /** The name of its session; absent: it is a batch. */
  readonly session: string | undefined
}

/** Names a conversation among those on record. */
export const idOf = ({ batch, session }: Name): string =>
  session === undefined ? `batch ${batch}` : `session ${session}`

export interface Names {
  readonly names: Set<string>
  /** The place of the last entry that was read. */
  after: number
}

/** What a record is read into. */
export interface Into {
  /** Who listens to the conversation, if anybody does. */
  readonly witness: Witness | undefined
  readonly toolOf: (name: string) => RegisteredTool | undefined
  readonly heard: (text: string, from: "user" | "foreign") => void
  /** A reviewer gave a verdict. */
  readonly reviewed: (isDenial: boolean, at: number) => void
  /** A person approved a call. */
  readonly approved: () => void
  /** The result of a call is on record. */
  readonly settled: (tool: string, callId: string) => void
  /** So much arrived and was heard in it. */
  readonly counted: (count: number) => void
}

/** So many entries are read of the end of a record. */
const mostEntries = 50_000

/**
 * Restores a conversation. If its record cannot be read, nothing of it is proved. Gives all conversations on record, if
 * the whole record was read.
 */
export const restore = Effect.fnUntraced(function*(
  { driver: journal }: JournalWriter,
  principal: string,
  name: Name,
  into: Into
): Effect.fn.Return<Names | undefined> {
  const entries = journal.read({ principal, order: "newest" }).pipe(
    Stream.take(mostEntries),
    Stream.runCollect
  )
  const exit = yield* Detached.within(entries, TimedPorts.timeoutMillis)
  if (exit?._tag === "Success") {
    const isPart = exit.value.length === mostEntries
    if (isPart) into.witness?.forgot()
    const entries = exit.value.map(({ entry }) => entry).reverse()
    read(entries, name, into)
    return isPart ? undefined : { names: new Set(entries.flatMap(namesIn)), after: exit.value[0]?.place ?? 0 }
  }
  into.witness?.forgot()
  const message = "A conversation continues without its record, which could not be read: more calls need approval"
  yield* CallLog.log("Warn", message, exit === undefined ? Cause.empty : exit.cause, { principal })
  return undefined
})

/** Adds the conversations that came on record since; false if these could not be read. */
export const catchUp = (
  { driver: journal }: JournalWriter,
  principal: string,
  known: Names
): Effect.Effect<boolean> => {
  const newer = Stream.runForEach(
    journal.read({ principal, after: known.after }),
    ({ entry, place }) =>
      Effect.sync(() => {
        for (const name of namesIn(entry)) known.names.add(name)
        known.after = Math.max(known.after, place)
      })
  )
  return Effect.map(Detached.within(newer, TimedPorts.timeoutMillis), (exit) => exit?._tag === "Success")
}

const namesIn = (entry: Journal.JournalEntry): ReadonlyArray<string> =>
  entry._tag === "Arrived" || entry._tag === "Heard"
    ? [idOf({ batch: entry.batch, session: entry.conversation })]
    : []

/** Reads entries, oldest first. Nothing is known of the text in those that were pruned. */
export const read = (
  entries: ReadonlyArray<Journal.JournalEntry>,
  name: Name,
  { approved, counted, heard, reviewed, settled, toolOf, witness }: Into
): void => {
  const isOf = isIn(name)
  const { count, isWhole } = countOf(entries.filter(isOf))
  if (!isWhole) witness?.forgot()
  counted(count)
  // by the key of their calls
  const arguments_ = new Map<string, { readonly args: Journal.KeptArguments; isEdited: boolean }>()
  for (const entry of entries) {
    switch (entry._tag) {
      case "Gap":
        witness?.forgot()
        break
      case "Heard":
        if (!isOf(entry)) break
        if (entry.text === undefined) witness?.forgot()
        else heard(entry.text, entry.from)
        break
      case "Arrived":
        if (isOf(entry)) arguments_.set(entry.key, { args: entry.args, isEdited: false })
        break
      case "Started": {
        const known = arguments_.get(entry.key)
        if (known !== undefined && entry.isEdited === true) known.isEdited = true
        break
      }
      case "Reviewed":
        if (!arguments_.has(entry.key) || entry.problem !== undefined) break
        reviewed(entry.decides === true && entry.verdict === "deny", entry.at)
        break
      case "Answered":
        if (arguments_.has(entry.key) && entry.by === "user" && entry.answer !== "Deny") approved()
        break
      case "Settled": {
        const known = arguments_.get(entry.key)
        if (known === undefined) break
        settled(entry.tool, entry.callId)
        if (witness !== undefined) receiveRecorded(entry, known, witness, toolOf(entry.tool))
        break
      }
    }
  }
}

type Numbered = Journal.Of<"Arrived" | "Heard">

const isIn = ({ batch, session }: Name) => (entry: Journal.JournalEntry): entry is Numbered =>
  (entry._tag === "Arrived" || entry._tag === "Heard") &&
  (session === undefined ? entry.conversation === undefined && entry.batch === batch : entry.conversation === session)

/** How much arrived and was heard, and whether all of it is on record. */
const countOf = (entries: ReadonlyArray<Numbered>): { readonly count: number; readonly isWhole: boolean } => {
  const ordinals = new Set<number>()
  let count = 0
  for (const entry of entries) {
    // refused before it belonged to a conversation
    if (entry._tag === "Arrived" && entry.class === undefined) continue
    if (entry.ordinal === undefined) return { count, isWhole: false }
    ordinals.add(entry.ordinal)
    count = Math.max(count, entry.ordinal + 1)
  }
  return { count, isWhole: ordinals.size === count }
}

const receiveRecorded = (
  { callId, isIncomplete, outcome, tool: name }: Journal.Of<"Settled">,
  { args, isEdited }: { readonly args: Journal.KeptArguments; readonly isEdited: boolean },
  witness: Witness,
  tool: RegisteredTool | undefined
): void => {
  const from = { name, callId }
  if (outcome._tag === "Failed") return witness.foreign(from, outcome.error)
  if (outcome._tag !== "Succeeded") return
  const { output } = outcome
  if (output._tag === "Artifact" || isIncomplete === true || args._tag !== "Full" || isEdited) {
    witness.forgot()
    return witness.foreign(from, "value" in output && output.value !== undefined ? output.value : output.modelText)
  }
  witness.received({ ...from, tool }, args.value, output.value ?? output.modelText)
}
