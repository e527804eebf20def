/**
 * Asking up front: one round of questions for a wave, before anything of it runs.
 *
 * Who is asked about is found by a rehearsal: each call reserves what it would
 * at its dispatch, as if those before it were admitted and the runs before its own
 * had succeeded, and all of it is given back before anybody is asked. Nothing is
 * reserved while people think.
 *
 * What becomes askable later is asked then, and holds up what has not started.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type { Asks } from "../policy/Permissions.ts"
import type { Reservation } from "../store/StateStore.ts"
import * as Arrival from "./Arrival.ts"
import type { Calls } from "./Calls.ts"
import type { CallState } from "./CallState.ts"
import type { Previewed } from "./ConfirmedWrites.ts"
import type { Engine, ProcessState } from "./Engine.ts"
import { refusalOf, writerBefore } from "./Questions.ts"
import * as Stages from "./Stages.ts"

/**
 * Asks about every call of the wave that the earlier gates would let through,
 * and waits for all answers.
 *
 * @category stages
 * @since 0.1.0
 */
export const ask = Effect.fnUntraced(function*(
  engine: Engine,
  process: ProcessState,
  calls: Calls,
  runs: ReadonlyArray<ReadonlyArray<CallState>>
) {
  const live = calls.all.filter((call) => call.decided === undefined)
  if (engine.guards.length > 0) yield* calls.waits.wait(live, Stages.guard(engine, process, live, calls.now()))
  const asked = yield* rehearse(engine, process, calls, runs)
  const edited: Array<readonly [call: CallState, params: unknown]> = []
  const previews = yield* previewsOf(calls, asked)
  for (const [call, question] of asked) {
    if (call.outcome !== undefined || call.decided !== undefined) continue
    const found = previews.get(call)
    call.shown = found?.shown
    if (found?.isNothing === true) {
      call.approved = true
      continue
    }
    calls.questions.ask(call, { ...question, preview: found?.preview }, (resolution) => {
      if (resolution._tag === "Denied") call.refused = refusalOf(resolution)
      else if (resolution._tag === "Suspended") {
        call.decided ??= { _tag: "Cancelled", started: false, reason: resolution.reason }
      } else {
        calls.questions.approve(call, resolution)
        if (resolution.edited !== undefined) edited.push([call, resolution.edited.params])
      }
    })
  }
  if (asked.length > 0) yield* calls.waits.wait(asked.map(([call]) => call), calls.questions.answered)
  for (const [call, params] of edited) {
    // what was shown was another change
    call.shown = undefined
    const admitted = call.outcome === undefined
      ? Arrival.readmit(engine, process, call, params, calls.now())
      : undefined
    if (admitted !== undefined) yield* calls.waits.wait([call], admitted)
  }
})

// Utilities

/** What the calls would write, all at once. */
const previewsOf = Effect.fnUntraced(function*(calls: Calls, asked: ReadonlyArray<readonly [CallState, Asks]>) {
  const found = new Map<CallState, Previewed>()
  const telling: Array<CallState> = []
  for (const [call] of asked) {
    if (call.tool!.preview === undefined) continue
    if (writerBefore(calls.all, call) === undefined) telling.push(call)
    else {found.set(call, {
        preview: { _tag: "None", because: "an earlier call writes to the same first" },
        shown: undefined,
        isNothing: false
      })}
  }
  if (telling.length > 0) {
    const all = Effect.forEach(
      telling,
      (call) => Effect.map(calls.questions.previewOf(call), (it) => void found.set(call, it)),
      { concurrency: "unbounded", discard: true }
    )
    yield* calls.waits.wait(telling, all)
  }
  return found
})

/** What a store says; `undefined` where nobody waits for it any more. */
const waitFor = <A>(calls: Calls, call: CallState, effect: Effect.Effect<A>): Effect.Effect<A | undefined> =>
  Effect.suspend(() => {
    let found: A | undefined
    const told = Effect.map(effect, (it) => {
      found = it
    })
    return Effect.map(calls.waits.wait([call], told), () => found)
  })

const rehearse = Effect.fnUntraced(function*(
  engine: Engine,
  process: ProcessState,
  calls: Calls,
  runs: ReadonlyArray<ReadonlyArray<CallState>>
) {
  const { exitWanted, inBatch, last, succeeded } = process.history
  const assumed = new Set(succeeded)
  let before = last
  // calls of one run are dispatched together: what they do is there for the next one's
  let ran: Array<string> = []
  let present: ReadonlyArray<CallState> | undefined
  const held: Array<Reservation> = []
  const counted: Array<CallState> = []
  const asked: Array<readonly [call: CallState, question: Asks]> = []
  for (const [run, call] of runs.flatMap((run) => run.map((call) => [run, call] as const))) {
    if (call.decided !== undefined) continue
    if (run !== present) {
      for (const tool of ran) assumed.add(tool)
      before = ran.length === 0 ? before : { tool: ran.at(-1)!, routes: [] }
      ran = []
      present = run
    }
    const claims = Stages.claims(engine, process, call, calls.now())
    if ("_tag" in claims) continue
    const { tool: { name: tool } } = call.gateCall!
    const history = { exitWanted, inBatch, last: before, succeeded: assumed }
    if (engine.rules.check(history, tool, call.gateCall) !== undefined) continue
    if (claims.length > 0) {
      const answer = calls.ledger.reserve(call.call.id, claims, calls.now())
      const reserved = "wait" in answer ? yield* waitFor(calls, call, answer.wait) : answer
      if (reserved === undefined || "operation" in reserved) continue
      if (!("_tag" in reserved)) held.push(reserved)
      // who may get another call's outcome is asked about like one that runs
      else if (reserved._tag !== "KeyTaken") continue
      else {
        const { _tag: gets } = Stages.duplicate(engine, process, call, reserved, true)
        if (gets !== "Joins" && gets !== "Replays") continue
      }
    }
    Stages.count(process, call)
    counted.push(call)
    ran.push(tool)
    const question = Stages.asks(call)
    if (question === undefined) continue
    const known = calls.questions.grantFor(call, question)
    const grant = "wait" in known ? yield* waitFor(calls, call, known.wait) : known.grant
    if (call.decided !== undefined || grant !== undefined) continue
    const reentry = Stages.reentry(engine, process, call, calls.now())
    const waitsFor = Effect.isEffect(reentry) ? yield* waitFor(calls, call, reentry) : reentry
    if (call.decided === undefined && waitsFor === undefined) asked.push([call, question])
  }
  for (const reservation of held) calls.ledger.giveBack(reservation)
  for (const call of counted) Stages.uncount(process, call)
  return asked
})
