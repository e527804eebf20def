/**
 * Start: a call holds all its permits. Checks again what may have changed, including the host's gates, records what
 * cannot be undone, and starts the handler.
 */
import * as Effect from "effect/Effect"
import { exitOf, isDone } from "../../../internal/exitOf.ts"
import { lostOf, mayLose } from "../../gates/Permit.ts"
import type { Reservation } from "../../store/Claims.ts"
import type { StateStoreError } from "../../store/StateStore.ts"
import type { Grant } from "../../vocabulary/Grant.ts"
import type { RegisteredTool } from "../../vocabulary/ToolHandlers.ts"
import { type End, refused } from "../data/CallEnd.ts"
import * as CallGates from "./arrive/CallGates.ts"
import * as Targets from "./arrive/Targets.ts"
import { Attempt } from "./attempt/Attempt.ts"
import { LiveContext } from "./attempt/LiveContext.ts"
import type { Call } from "./Call.ts"
import * as CallClaims from "./dispatch/CallClaims.ts"
import { recheck } from "./start/Recheck.ts"
import * as StartNotes from "./start/StartNotes.ts"
import * as TakenOver from "./TakenOver.ts"
import type { WaveHost } from "./WaveHost.ts"

/** Starts the handler of a call; gives the end of the call if it may not start. */
export const start = (wave: WaveHost, call: Call): Effect.Effect<End | undefined> => {
  const looked = look(wave, call)
  const known = exitOf(looked)
  return known?._tag === "Success"
    ? checked(wave, call, known.value)
    : Effect.flatMap(looked, (grants) => checked(wave, call, grants))
}

/**
 * Ends a call that ran in an earlier life: with its recorded end, or with the result that its tool reports, as if the
 * handler had just returned it.
 */
export const recall = (wave: WaveHost, call: Call): Effect.Effect<void> => {
  const { decided, driver } = call
  const { endedAt, happened } = call.past!
  if (happened === undefined) {
    driver.settle(call, decided!)
    return Effect.void
  }
  const known = Object.assign(Object.create(call.tool!) as RegisteredTool, {
    handler: () => Effect.succeed(happened.result),
    retry: undefined
  })
  const attempt = new Attempt(wave, call, known, endedAt, { millis: Infinity, which: "tool" })
  attempt.number = happened.attempt - 1
  call.phase = attempt
  wave.process.budget.execute(1, wave.now())
  attempt.start(call.gateCall!.params, new LiveContext(wave, call, attempt))
  return Effect.void
}

/** The handler has started. */
const running: Effect.Effect<undefined> = Effect.undefined

const checked = (wave: WaveHost, call: Call, grants: Grants): Effect.Effect<End | undefined> => {
  const now = wave.now()
  const end = recheck(wave, call, grants, now)
  if (end !== undefined) return Effect.succeed(end)
  const passed = CallGates.pass(wave, call, "recheck")
  const noted = isDone(passed) && call.decided === undefined
    ? note(wave, call)
    : Effect.flatMap(passed, () => call.decided === undefined ? note(wave, call) : Effect.void)
  if (isDone(noted)) return begin(wave, call, now)
  return Effect.flatMap(noted, () => {
    // recording may have taken long
    if (call.isSettled) return running
    const now = wave.now()
    const end = recheck(wave, call, grants, now)
    return end === undefined ? begin(wave, call, now) : Effect.succeed(end)
  })
}

const lost: End = {
  _tag: "Cancelled",
  started: true,
  reason: "the state store could not be reached to renew its lease"
}

const unwritten: End = refused({ _tag: "StoreUnavailable", operation: "journal" })

type Grants = ReadonlyArray<Grant> | StateStoreError | undefined

const nothing: Effect.Effect<Grants> = Effect.undefined

/** The current targets of the call, and the grants if one let it through. */
const look = (wave: WaveHost, call: Call): Effect.Effect<Grants> => {
  const found = Targets.findAgain(wave, call)
  const recalled = !call.hasRun && CallClaims.looksFurther(wave)
    ? CallClaims.recall(wave, [call], wave.now(), soon)
    : Effect.undefined
  // asked as of the time it was given: it may have been revoked elsewhere, but expiry since then does not matter
  const { grant } = call.consent
  const grants: Effect.Effect<Grants> = grant === undefined
    ? nothing
    : wave.engine.store.grants(wave.engine.principal, grant.grantedAt, wave.patience)
  return isDone(found) && isDone(recalled)
    ? grants
    : Effect.map(Effect.all([found, grants, recalled], { concurrency: 3 }), ([, grants, unread]) => {
      if (unread !== undefined) {
        wave.unanswered(call, unread)
        call.decided ??= refused({ _tag: "StoreUnavailable", operation: unread.operation })
      }
      return grants
    })
}

/** Milliseconds for which a call may rely on what other processes did when it was dispatched. */
const soon = 1_000

/**
 * Before the handler starts: earlier reads become stale, the start goes on record, and the reservation is spent.
 *
 * The record must come first: if this process then dies, another one can spend the reservation from the record, but not
 * the other way round.
 */
const note = (wave: WaveHost, call: Call): Effect.Effect<void> => {
  const { reservation, tool } = call
  const isStarted = reservation?.isStarted === true && wave.engine.store.isFresh(reservation, soon)
  const spent = reservation?.leaseMillis === undefined || isStarted
    ? Effect.void
    : Effect.suspend(() => call.decided === undefined ? spend(wave, call, reservation) : Effect.void)
  if (tool!.readOnly) return spent
  const { principal, store } = wave.engine
  const mutated = isStarted ? Effect.void : store.mutated(principal, reservation, wave.patience, call)
  const recorded = isDone(mutated)
    ? StartNotes.note(wave, call)
    : Effect.all([mutated, StartNotes.note(wave, call)], together)
  return isDone(recorded) ? spent : Effect.andThen(recorded, spent)
}

const together = { concurrency: 2, discard: true } as const

/** Spends the reservation. A call that has lost it may not start: another call may hold it. */
const spend = (wave: WaveHost, call: Call, reservation: Reservation): Effect.Effect<void> =>
  Effect.map(wave.engine.store.start(reservation, wave.now(), wave.patience), (isHeld) => {
    if (typeof isHeld === "object") wave.unanswered(call, isHeld)
    if (isHeld !== true) call.decided ??= refused({ _tag: "StoreUnavailable", operation: "start" })
  })

/** Stops a call that loses its reservation. If another call may hold it already, the end is unknown. */
const lose = ({ engine: { store } }: WaveHost, attempt: Attempt, reservation: Reservation): void => {
  attempt.lose()
  attempt.stop(store.holds(reservation) ? lost : { _tag: "Unknown" })
}

const begin = (wave: WaveHost, call: Call, now: number): Effect.Effect<End | undefined> => {
  const because = lostOf(call)
  // the process was frozen while it started the call: another one may hold the permit
  if (because !== undefined) return Effect.succeed({ _tag: "Cancelled", started: false, reason: because })
  const { process: { budget } } = wave
  const tool = call.tool!
  // lost since its start went on record: another process decides what becomes of it
  if (!tool.readOnly && call.record?.term?.isOver === true) return Effect.succeed(unwritten)
  const limit = budget.limit(wave.limitOf(tool), now)
  const attempt = new Attempt(wave, call, tool, now, limit)
  // from here on the attempt ends the call, not the wait for its permits
  call.waiting = undefined
  call.phase = attempt
  budget.execute(1, now)
  const { reservation } = call
  if (reservation?.leaseMillis !== undefined) {
    const { store } = wave.engine
    const onLost = () => lose(wave, attempt, reservation)
    store.watch(reservation, onLost)
    // a process that was frozen may write before the timer of the lease fires
    attempt.beforeCommits(() => {
      if (!store.holds(reservation)) onLost()
      return undefined
    })
  }
  if (mayLose(call)) {
    attempt.beforeCommits(() => {
      const because = lostOf(call)
      if (because !== undefined) call.onLost(because)
      return undefined
    })
  }
  if (!tool.readOnly) TakenOver.watch(call, attempt)
  attempt.start(call.gateCall!.params, new LiveContext(wave, call, attempt))
  return running
}
