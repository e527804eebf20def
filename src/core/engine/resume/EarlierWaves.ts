/**
 * Restores what a process did before the resumed wave, from its record. A process that the host named continues from
 * the earlier one of that name.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import * as CallLog from "../../../internal/callLog.ts"
import * as Detached from "../../../internal/detached.ts"
import * as RuleSet from "../../rules/RuleSet.ts"
import type { Request, Settlement } from "../../store/Claims.ts"
import type * as Journal from "../../store/Journal.ts"
import { isOfCall } from "../../store/Journal.ts"
import type { ToolOutcome } from "../../vocabulary/ToolOutcome.ts"
import type { WaveHost } from "../call/WaveHost.ts"
import * as TimedPorts from "../ports/TimedPorts.ts"
import { block, recounts } from "../state/State.ts"
import * as RecordedLives from "./RecordedLives.ts"

/** Whether an entry is about a call of the wave's agent, and of its process if the host named that. */
export const isOwn = (
  { origin: { agentPath }, process }: WaveHost,
  entry: Journal.JournalEntry
): entry is Journal.CallEntry =>
  isOfCall(entry) && entry.agentPath.length === agentPath.length &&
  entry.agentPath.every((it, index) => it === agentPath[index]) &&
  (!process.isNamed || entry.process === process.id)

/** Whether an entry is about a call of a sub-agent: it counts for the agent above as well. */
const isBelow = (
  { origin: { agentPath } }: WaveHost,
  entry: Journal.JournalEntry
): entry is Journal.CallEntry =>
  isOfCall(entry) && entry.agentPath.length > agentPath.length &&
  agentPath.every((it, index) => it === entry.agentPath[index])

/**
 * Restores the earlier waves of a process: their successes, blocked tools, and what they used, also through sub-agents.
 *
 * `keys` are the calls that are submitted again. They are counted later.
 */
export const goOn = Effect.fnUntraced(function*(
  wave: WaveHost,
  journal: Journal.Journal["Service"],
  keys: ReadonlySet<string>
): Effect.fn.Return<void> {
  const { engine: { rules, store }, process } = wave
  process.remembers = true
  const entries = yield* read(wave, journal)
  const set = rules.current()
  const successes: Array<RuleSet.Success> = []
  const spent: Array<Spent> = []
  for (const [key, { isSpent, settled, started }] of RecordedLives.of(lastOf(wave, entries))) {
    if (keys.has(key)) continue
    const known = settled ?? started
    if (known === undefined) continue
    const isOurs = isOwn(wave, known)
    if (settled !== undefined && isOurs) {
      block(process, settled.outcome)
      if (settled.outcome._tag === "Succeeded") successes.push(successOf(set, settled))
    }
    // or it was about to start and did not
    if (started === undefined || (settled !== undefined && settled.outcome.startedAt === undefined)) continue
    if (isOurs) {
      process.recalled.add(key)
      process.budget.take()
    }
    if (!isSpent && recounts(process, store, started)) {
      spent.push({ started, endedAt: settled?.at ?? started.at })
    }
  }
  process.history.goOn(set, wave.history, successes)
  yield* spend(wave, spent)
})

/** Reads the record of a process, from its end back to its beginning. */
const read = Effect.fnUntraced(function*(wave: WaveHost, journal: Journal.Journal["Service"]) {
  const { engine: { principal }, origin: { batch }, process } = wave
  const entries = journal.read({ principal, batch, order: "newest" }).pipe(
    Stream.filterMap(({ entry }) =>
      isOwn(wave, entry) || isBelow(wave, entry) ? Result.succeed(entry) : Result.failVoid
    ),
    Stream.takeUntil((entry) => isOwn(wave, entry) && isFirst(entry) && entry.index === 0),
    Stream.runCollect
  )
  const exit = yield* Detached.within(entries, TimedPorts.timeoutMillis)
  if (exit?._tag === "Success") return exit.value.reverse()
  const message = `Process ${JSON.stringify(process.id)} continues without its earlier waves: they could not be read`
  yield* CallLog.log("Warn", message, exit === undefined ? Cause.empty : exit.cause, { principal })
  return []
})

/** A call that counts here although it started in another executor. */
interface Spent {
  readonly started: Journal.Of<"Started">
  readonly endedAt: number
}

/** Returns the entries of the last process: earlier ones of the same name have ended. */
const lastOf = (
  wave: WaveHost,
  entries: ReadonlyArray<Journal.CallEntry>
): ReadonlyArray<Journal.CallEntry> => {
  let from = 0
  let last: Journal.CallEntry | undefined
  for (const [place, entry] of entries.entries()) {
    if (entry._tag !== "Arrived" || !isOwn(wave, entry)) continue
    const isOther = last === undefined || last.session !== entry.session || last.wave !== 1 || entry.index <= last.index
    if (isFirst(entry) && isOther) from = place
    last = entry
  }
  return entries.slice(from)
}

const isFirst = (entry: Journal.CallEntry): boolean =>
  entry._tag === "Arrived" && entry.wave === 1 && entry.isResumed !== true

const successOf = (set: RuleSet.RuleSet, { outcome, routes }: Journal.Of<"Settled">): RuleSet.Success =>
  routes === undefined
    ? RuleSet.success(set, outcome.tool, outputOf(outcome))
    : { tool: outcome.tool, routes }

const outputOf = (outcome: ToolOutcome): unknown =>
  outcome._tag === "Succeeded" && "value" in outcome.output ? outcome.output.value : undefined

const over: Settlement = { started: true, key: "release", windowMillis: 0, value: undefined }

/** Counts what calls used in their batch again. Each claim is a separate request, so one refusal affects no other. */
const spend = Effect.fnUntraced(
  function*({ clock, engine: { rules, store }, patience, scope }: WaveHost, spent: ReadonlyArray<Spent>) {
    const requests: Array<Request> = []
    const ends: Array<number> = []
    for (const { endedAt, started: { callId: owner, process, tool } } of spent) {
      for (const claim of rules.claims(tool, { ...scope, process }).filter((it) => it._tag !== "Batch")) {
        requests.push({ owner, session: store.session, claims: [claim] })
        ends.push(endedAt)
      }
    }
    if (requests.length === 0) return
    const answers = yield* store.reserve(requests, clock.currentTimeMillisUnsafe(), patience)
    for (const [index, answer] of answers.entries()) {
      if (!("operation" in answer) && !("_tag" in answer)) yield* store.settle(answer, over, ends[index]!, patience)
    }
  }
)
