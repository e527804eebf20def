/**
 * Start: a call holds all its permits. What may have changed is looked at once more, the host's gates too, what cannot
 * be undone is noted, and its handler begins.
 */
import * as Effect from "effect/Effect"
import { exitOf, isDone } from "../../internal/exitOf.ts"
import type { Reservation } from "../store/Claims.ts"
import type { StateStoreError } from "../store/StateStore.ts"
import type { Grant } from "../vocabulary/Grant.ts"
import type { RegisteredTool } from "../vocabulary/ToolHandlers.ts"
import { Attempt } from "./Attempt.ts"
import type { Call } from "./Call.ts"
import { type End, refused } from "./CallEnd.ts"
import * as CallGates from "./CallGates.ts"
import { LiveContext } from "./LiveContext.ts"
import { recheck } from "./Recheck.ts"
import * as StartNotes from "./StartNotes.ts"
import * as TakenOver from "./TakenOver.ts"
import * as Targets from "./Targets.ts"
import type { WaveState } from "./WaveState.ts"

/** Starts the handler of a call; gives how the call ends if it may not start. */
export const start = (wave: WaveState, call: Call): Effect.Effect<End | undefined> => {
  const looked = look(wave, call)
  const known = exitOf(looked)
  return known?._tag === "Success"
    ? checked(wave, call, known.value)
    : Effect.flatMap(looked, (grants) => checked(wave, call, grants))
}

/**
 * Ends a call that has run in an earlier life: as it is on record, or as if its handler had just given what its tool
 * says that it gave.
 */
export const recall = (wave: WaveState, call: Call): Effect.Effect<void> => {
  const { decided, driver, resumed } = call
  const { endedAt, happened } = resumed!.recalled!
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

// Utilities

/** The handler has begun. */
const running: Effect.Effect<undefined> = Effect.undefined

const checked = (wave: WaveState, call: Call, grants: Grants): Effect.Effect<End | undefined> => {
  const now = wave.now()
  const end = recheck(wave, call, grants, now)
  if (end !== undefined) return Effect.succeed(end)
  const passed = CallGates.pass(wave, call, "recheck")
  const noted = isDone(passed) && call.decided === undefined
    ? note(wave, call)
    : Effect.flatMap(passed, () => call.decided === undefined ? note(wave, call) : Effect.void)
  if (isDone(noted)) return begin(wave, call, now)
  return Effect.flatMap(noted, () => {
    // it may have taken long
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

type Grants = ReadonlyArray<Grant> | StateStoreError | undefined

const nothing: Effect.Effect<Grants> = Effect.undefined

/** What the call is about now, and the standing permissions where one let it through. */
const look = (wave: WaveState, call: Call): Effect.Effect<Grants> => {
  const found = Targets.findAgain(wave, call)
  // it may have been taken back elsewhere; one that has expired since is there as of the time it was given
  const { grant } = call.consent
  const grants: Effect.Effect<Grants> = grant === undefined
    ? nothing
    : wave.engine.store.grants(wave.engine.principal, grant.grantedAt, wave.patience)
  return isDone(found)
    ? grants
    : Effect.map(Effect.all([found, grants], { concurrency: 2 }), ([, grants]) => grants)
}

/**
 * What was read before is stale, what cannot be undone is on record before it happens, and what was reserved is spent.
 * The record comes first: from it somebody else can spend what is reserved where this process does not come to it, and
 * not the other way round.
 */
const note = (wave: WaveState, call: Call): Effect.Effect<void> => {
  const { reservation, tool } = call
  const isStarted = reservation?.isStarted === true && wave.engine.store.holds(reservation)
  const spent = reservation?.leaseMillis === undefined || isStarted
    ? Effect.void
    : Effect.suspend(() => call.decided === undefined ? spend(wave, call, reservation) : Effect.void)
  if (tool!.readOnly) return spent
  const { principal, store } = wave.engine
  const mutated = isStarted ? Effect.void : store.mutated(principal, wave.patience, call)
  const recorded = isDone(mutated)
    ? StartNotes.note(wave, call)
    : Effect.all([mutated, StartNotes.note(wave, call)], together)
  return isDone(recorded) ? spent : Effect.andThen(recorded, spent)
}

const together = { concurrency: 2, discard: true } as const

/** Whoever lost what it had reserved may not start: it may be another's. */
const spend = (wave: WaveState, call: Call, reservation: Reservation): Effect.Effect<void> =>
  Effect.map(wave.engine.store.start(reservation, wave.now(), wave.patience), (isHeld) => {
    if (typeof isHeld === "object") wave.unanswered(call, isHeld)
    if (isHeld !== true) call.decided ??= refused({ _tag: "StoreUnavailable", operation: "start" })
  })

/** Others may have soon what the call has reserved: it stops, and if they may have it already nobody knows what it did. */
const lose = ({ engine: { store } }: WaveState, attempt: Attempt, reservation: Reservation): void => {
  attempt.lose()
  attempt.stop(store.holds(reservation) ? lost : { _tag: "Unknown" })
}

const begin = (wave: WaveState, call: Call, now: number): Effect.Effect<undefined> => {
  const { process: { budget } } = wave
  const tool = call.tool!
  const limit = budget.limit(wave.limitOf(tool), now)
  const attempt = new Attempt(wave, call, tool, now, limit)
  // from here on it is the attempt that ends the call, not who waited for its permits
  call.waiting = undefined
  call.phase = attempt
  budget.execute(1, now)
  const { reservation } = call
  if (reservation?.leaseMillis !== undefined) {
    const { store } = wave.engine
    const onLost = () => lose(wave, attempt, reservation)
    store.watch(reservation, onLost)
    // who stood still for long may write before the timer of the lease has had its turn
    attempt.beforeCommits(() => {
      if (!store.holds(reservation)) onLost()
      return undefined
    })
  }
  if (!tool.readOnly) TakenOver.watch(call, attempt)
  attempt.start(call.gateCall!.params, new LiveContext(wave, call, attempt))
  return running
}
