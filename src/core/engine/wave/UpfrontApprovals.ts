/**
 * Upfront approval: one round of approval requests for a wave, before anything of it runs.
 *
 * A rehearsal finds the calls that need approval. Each call reserves what it would reserve at its dispatch, assuming
 * that earlier calls were admitted and earlier runs succeeded. All reservations are given back before approval is
 * requested, so that nothing is reserved while requests are pending.
 *
 * Calls that turn out later to need approval request it then, and hold up what has not started.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as HostGates from "../../gates/HostGates.ts"
import type { Asks } from "../../gates/Permissions.ts"
import * as RuleSet from "../../rules/RuleSet.ts"
import type { Reservation } from "../../store/Claims.ts"
import * as Arrive from "../call/Arrive.ts"
import * as CallGates from "../call/arrive/CallGates.ts"
import * as Authorize from "../call/Authorize.ts"
import * as ApprovalRound from "../call/authorize/ApprovalRound.ts"
import type * as Preview from "../call/authorize/Preview.ts"
import * as StandingGrants from "../call/authorize/StandingGrants.ts"
import { type Call, phases } from "../call/Call.ts"
import * as Dispatch from "../call/Dispatch.ts"
import * as CallClaims from "../call/dispatch/CallClaims.ts"
import type { WaveHost } from "../call/WaveHost.ts"

/** Requests approval for every call of the wave that the earlier gates would let through, and waits for all answers. */
export const ask = Effect.fnUntraced(function*(wave: WaveHost, runs: ReadonlyArray<ReadonlyArray<Call>>) {
  const live = wave.calls.filter((call) => call.decided === undefined && call.past === undefined)
  if (wave.gates.guard.length > 0) yield* wave.waits.wait(live, Dispatch.guard(wave, live))
  const asked = yield* rehearse(wave, runs)
  const previews = yield* previewsOf(wave, asked)
  const questions: Array<readonly [Call, Effect.Effect<void>]> = []
  for (const [call, question] of asked) {
    if (call.isSettled || call.decided !== undefined) continue
    const found = previews.get(call)
    call.consent = { ...call.consent, shown: found?.shown }
    if (found?.isNothing === true) call.consent = { ...call.consent, approved: "unchanged" }
    else questions.push([call, answer(wave, call, { ...question, preview: found?.preview })])
  }
  if (questions.length === 0) return
  wave.waits.isUpfront = true
  yield* wave.waits.waitAll(questions)
  wave.waits.isUpfront = false
})

/** Requests approval for a call and notes the answer. Edited arguments pass Arrival again once no request is open. */
const answer = Effect.fnUntraced(function*(wave: WaveHost, call: Call, question: ApprovalRound.Question) {
  call.phase = phases.asking
  const said = Authorize.resolved(
    call,
    question,
    yield* ApprovalRound.withCall(wave, call, ApprovalRound.ask(wave, call, question))
  )
  call.phase = phases.arrived
  if (said._tag === "Ends") {
    if (said.end._tag === "Denied") call.consent = { ...call.consent, refused: said.end.reason }
    else call.decided ??= said.end
  }
  if (said._tag !== "Edited") return
  // the preview was of the original arguments
  call.consent = { ...call.consent, shown: undefined }
  yield* wave.waits.quiet(call.index)
  if (!call.isSettled) yield* Arrive.arriveAgain(wave, call, said.params)
})

/** Previews the calls, concurrently. */
const previewsOf = Effect.fnUntraced(function*(wave: WaveHost, asked: ReadonlyArray<readonly [Call, Asks]>) {
  const found = new Map<Call, Preview.Previewed>()
  const telling: Array<Call> = []
  for (const [call] of asked) {
    if (call.tool!.preview === undefined) continue
    if (Authorize.writerBefore(wave, call) === undefined) telling.push(call)
    else found.set(call, writtenFirst)
  }
  if (telling.length > 0) {
    const all = Effect.forEach(
      telling,
      (call) => Effect.map(Authorize.preview(wave, call), (it) => void found.set(call, it)),
      { concurrency: "unbounded", discard: true }
    )
    yield* wave.waits.wait(telling, all)
  }
  return found
})

const writtenFirst: Preview.Previewed = {
  preview: { _tag: "None", because: "an earlier call writes to the same resource first" },
  shown: undefined,
  isNothing: false
}

/** Waits for a store; `undefined` if the call has ended meanwhile. */
const waitFor = <A>(wave: WaveHost, call: Call, effect: Effect.Effect<A>): Effect.Effect<A | undefined> => {
  if (Exit.isExit(effect)) return effect
  let found: A | undefined
  const told = Effect.map(effect, (it) => {
    found = it
  })
  return Effect.map(wave.waits.wait([call], told), () => found)
}

/** Finds the calls that need approval. On any exit, gives back everything it has taken. */
const rehearse = (wave: WaveHost, runs: ReadonlyArray<ReadonlyArray<Call>>) => {
  const { engine: { store }, process } = wave
  const taken: Taken = { held: [], counted: [] }
  return Effect.ensuring(
    rehearseRuns(wave, runs, taken),
    Effect.sync(() => {
      for (const it of taken.held) wave.note(store.giveBack(it, wave.now(), wave.patience))
      for (const call of taken.counted) Dispatch.uncount(process, call)
    })
  )
}

/** What a rehearsal has taken: reservations and places in the turn. */
interface Taken {
  readonly held: Array<Reservation>
  readonly counted: Array<Call>
}

const rehearseRuns = Effect.fnUntraced(function*(
  wave: WaveHost,
  runs: ReadonlyArray<ReadonlyArray<Call>>,
  { counted, held }: Taken
) {
  const { process } = wave
  const asked: Array<readonly [call: Call, question: Asks]> = []
  const assumed = new Set(process.history.succeeded)
  let rehearsed: RuleSet.Success | undefined
  yield* CallClaims.recall(wave, wave.calls, wave.now(), 0)
  for (const run of runs) {
    // calls of one run are dispatched together: only the next run sees their effects
    const ran: Array<RuleSet.Success> = []
    for (const call of run) {
      const isRecalled = call.past !== undefined
      if (call.decided !== undefined && !isRecalled) continue
      const { batch, exitWanted, last, session } = process.history
      const seen = (past: RuleSet.Past): RuleSet.Past => ({
        last: rehearsed ?? past.last,
        succeeded: new Set([...past.succeeded, ...assumed])
      })
      const reserved = yield* reserve(wave, call, {
        exitWanted,
        last: rehearsed ?? last,
        succeeded: assumed,
        batch: seen(batch),
        session: seen(session)
      })
      if (reserved === undefined) continue
      held.push(...reserved)
      if (!call.counted && (!isRecalled || call.hasStarted)) {
        Dispatch.count(process, call)
        counted.push(call)
      }
      const success = successOf(wave, call)
      if (success !== undefined) ran.push(success)
      if (isRecalled) continue
      const question = Authorize.asks(call)
      if (question === undefined) continue
      const grant = yield* waitFor(wave, call, StandingGrants.grantFor(wave, call, question))
      if (call.decided !== undefined || grant !== undefined) continue
      const waitsFor = yield* waitFor(wave, call, Authorize.reentry(wave, call))
      if (call.decided !== undefined || waitsFor !== undefined) continue
      const verdict = yield* waitFor(wave, call, CallGates.ask(wave, call, "admit"))
      if (call.decided === undefined && verdict === undefined) asked.push([call, question])
    }
    for (const { tool } of ran) assumed.add(tool)
    rehearsed = ran.at(-1) ?? rehearsed
  }
  return asked
})

/** The success that is expected of a call, or that it had in an earlier life. */
const successOf = (wave: WaveHost, { call: { name: tool }, decided, past }: Call): RuleSet.Success | undefined => {
  if (past === undefined || past.happened !== undefined) return { tool, routes: [] }
  if (decided?._tag !== "Succeeded") return undefined
  const { output } = decided
  const { routes } = past
  return routes !== undefined
    ? { tool, routes }
    : RuleSet.success(wave.engine.rules.current(), tool, "value" in output ? output.value : undefined)
}

/** Reserves what a call would reserve at its dispatch; `undefined` if it would be refused. */
const reserve = Effect.fnUntraced(function*(
  wave: WaveHost,
  call: Call,
  history: RuleSet.History
): Effect.fn.Return<ReadonlyArray<Reservation> | undefined> {
  const { rules, store } = wave.engine
  const { hasRun, past } = call
  if (past !== undefined && !hasRun) return []
  const claims = past === undefined ? Dispatch.claims(wave, call, wave.now()) : CallClaims.of(wave, call)
  if ("_tag" in claims) return undefined
  // a rule that throws here throws again at the dispatch of the call, and is logged there
  const forbidden = hasRun ? undefined : HostGates.orRefused(
    "Rules",
    () => rules.check(history, call.call.name, call.gateCall),
    call.gateCall!
  )
  if (forbidden !== undefined) return undefined
  if (claims.length === 0) return []
  const request = Dispatch.requestOf(wave, call, claims)
  const answers = yield* waitFor(wave, call, store.reserve([request], wave.now(), wave.patience))
  const answer = answers?.[0]
  if (answer === undefined || "operation" in answer) return undefined
  if (!("_tag" in answer)) return [answer]
  if (hasRun) return []
  // a call that may share another's outcome needs approval like one that runs
  const gets = answer._tag === "KeyTaken" ? CallClaims.duplicate(wave, call, answer, true)._tag : "Refused"
  return gets === "Joins" || gets === "Replays" ? [] : undefined
})
