/**
 * What a process did before the wave that is resumed, as its record has it: a process
 * that the host has named goes on where the one of that name was.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as RuleSet from "../policy/RuleSet.ts"
import type { Request, Settlement } from "../store/Claims.ts"
import type * as Journal from "../store/Journal.ts"
import type { ToolOutcome } from "../ToolOutcome.ts"
import * as Lives from "./Lives.ts"
import { block, recounts } from "./State.ts"
import type { WaveState } from "./WaveState.ts"

/**
 * Lets a process go on from its earlier waves: what succeeded in them, which tools are
 * blocked, and what they have used up. `entries` are those of its calls; `keys` are the
 * calls that are handed over again, which come later.
 *
 * @category steps
 * @since 0.1.0
 */
export const goOn = Effect.fnUntraced(function*(
  wave: WaveState,
  entries: ReadonlyArray<Journal.CallEntry>,
  keys: ReadonlySet<string>
): Effect.fn.Return<void> {
  const { engine: { rules, store }, process } = wave
  if (process.remembers) return
  process.remembers = true
  const set = rules.current()
  const successes: Array<RuleSet.Success> = []
  const spent: Array<Spent> = []
  for (const [key, { isSpent, settled, started }] of Lives.of(lastOf(entries))) {
    if (keys.has(key)) continue
    if (settled !== undefined) {
      block(process, settled.outcome)
      if (settled.outcome._tag === "Succeeded") successes.push(successOf(set, settled))
      // it was about to start, and did not
      if (settled.outcome.startedAt === undefined) continue
    }
    if (started === undefined) continue
    process.recalled.add(key)
    process.budget.take()
    if (!isSpent && recounts(process, store, started)) {
      spent.push({ started, endedAt: settled?.at ?? started.at })
    }
  }
  process.history.goOn(set, wave.history, successes)
  yield* spend(wave, spent)
})

// Utilities

/** A call that counts here although it started elsewhere. */
interface Spent {
  readonly started: Journal.Of<"Started">
  readonly endedAt: number
}

/** Those of the last process: others of its name have come to their end before. */
const lastOf = (entries: ReadonlyArray<Journal.CallEntry>): ReadonlyArray<Journal.CallEntry> => {
  let from = 0
  let last: Journal.CallEntry | undefined
  for (const [place, entry] of entries.entries()) {
    if (entry._tag !== "Arrived") continue
    const isFirst = entry.wave === 1 && entry.isResumed !== true
    const isOther = last === undefined || last.session !== entry.session || last.wave !== 1 || entry.index <= last.index
    if (isFirst && isOther) from = place
    last = entry
  }
  return entries.slice(from)
}

const successOf = (set: RuleSet.RuleSet, { outcome, routes }: Journal.Of<"Settled">): RuleSet.Success =>
  routes === undefined
    ? RuleSet.success(set, outcome.tool, outputOf(outcome))
    : { tool: outcome.tool, routes }

const outputOf = (outcome: ToolOutcome): unknown =>
  outcome._tag === "Succeeded" && "value" in outcome.output ? outcome.output.value : undefined

const over: Settlement = { started: true, key: "release", windowMillis: 0, value: undefined }

/** What calls have used up in their batch counts once more, each by itself: nothing of it is refused. */
const spend = Effect.fnUntraced(
  function*({ clock, engine: { rules, store }, patience, scope }: WaveState, spent: ReadonlyArray<Spent>) {
    const requests: Array<Request> = []
    const ends: Array<number> = []
    for (const { endedAt, started: { callId: owner, tool } } of spent) {
      for (const claim of rules.claims(tool, scope)) {
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
