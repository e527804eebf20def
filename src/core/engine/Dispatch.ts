/**
 * Dispatch: what is looked at when the run of a call begins, and what it reserves. Gates 1, 2 and 6 to 11, and which
 * calls a person has to be asked about.
 *
 * All calls of a run are dispatched before any of them starts; what they reserve is reserved in one step.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { exitOf } from "../../internal/exitOf.ts"
import * as HostGates from "../gates/HostGates.ts"
import type * as Permissions from "../gates/Permissions.ts"
import type { Claim, KeyTaken, Refused, Request, Reservation } from "../store/Claims.ts"
import type { StateStoreError } from "../store/StateStore.ts"
import type { ToolOutcome } from "../vocabulary/ToolOutcome.ts"
import * as Authorize from "./Authorize.ts"
import type { Call } from "./Call.ts"
import * as CallClaims from "./CallClaims.ts"
import { denied, type End, refused } from "./CallEnd.ts"
import * as CallGates from "./CallGates.ts"
import type { Reserved } from "./RetryingStore.ts"
import { blockedEnd, type ProcessState, turnEnd } from "./State.ts"
import type { WaveState } from "./WaveState.ts"

/** What becomes of a call at Dispatch. */
export type Dispatched =
  | { readonly _tag: "Ends"; readonly end: End }
  /** It goes on to its permits. */
  | { readonly _tag: "Admitted" }
  /** It goes on once a person has allowed it. */
  | { readonly _tag: "Asks"; readonly question: Permissions.Asks }
  /** It has run in an earlier life, and ends as what is known of that says. */
  | { readonly _tag: "Recalled" }
  /** It gets what an equal call has or will have, once a person has allowed it where one has to. */
  | { readonly _tag: "Shares"; readonly share: Share; readonly question: Permissions.Asks | undefined }

/** What an equal call has for another: its execution, or the outcome that is kept. */
export type Share =
  | { readonly _tag: "Joins"; readonly leader: Call }
  | { readonly _tag: "Replays"; readonly outcome: ToolOutcome }

/**
 * Gate 7 for the calls of a run, all at once: the guards of one call are asked in order, those of different calls side
 * by side.
 */
export const guard = (wave: WaveState, calls: ReadonlyArray<Call>): Effect.Effect<void> =>
  wave.gates.guard.length === 0 ? Effect.void : Effect.flatMapEager(Authorize.refuseUnanswerable(wave, calls), () => {
    const now = wave.now()
    return Effect.forEach(
      calls.filter((call) => endBefore(wave, call, now) === undefined),
      (call) =>
        Effect.map(CallGates.ask(wave, call, "guard"), (verdict) => {
          if (verdict !== call.consent.guarded) call.consent = { ...call.consent, guarded: verdict }
        }),
      { concurrency: "unbounded", discard: true }
    )
  })

/** A call at its dispatch. */
export interface Dispatching {
  readonly call: Call
  /** What it wants of the store. */
  readonly wanted: Wanted
  /** What the store answered, if it was asked. */
  answer: Reserved | undefined
  /** What becomes of the call. */
  next: Dispatched
}

/**
 * Dispatches calls that begin together, in their order. One that was dispatched before, with other arguments, replaces
 * what it has reserved. One that nobody can approve is refused first and reserves nothing: the others are judged
 * without it.
 */
export const dispatch = Effect.fnUntracedEager(function*(
  wave: WaveState,
  calls: ReadonlyArray<Call>
): Effect.fn.Return<ReadonlyArray<Dispatching>> {
  if (wave.process.people === undefined) yield* Authorize.refuseUnanswerable(wave, calls)
  const begun = wave.now()
  const requests: Array<Request> = []
  const run: Array<Dispatching> = []
  for (const call of calls) {
    const wanted = want(wave, call, begun)
    if (wanted._tag === "Request") {
      requests.push(calls.length === 1 ? starting(wave, call, wanted.request) : wanted.request)
    }
    run.push({ call, wanted, answer: undefined, next: admitted })
  }
  const asked = requests.length === 0 ? nobody : wave.engine.store.reserve(requests, begun, wave.patience)
  const isSlow = !Exit.isExit(asked)
  const answers = yield* asked
  const now = isSlow ? wave.now() : begun
  // all of it before any of them waits again: what nobody has noted, nobody gives back
  let answered = 0
  for (const it of run) {
    if (it.wanted._tag !== "Request") continue
    it.answer = answers[answered++]!
    note(wave, it.call, it.wanted.request, it.answer)
  }
  let isLogged = false
  for (const it of run) {
    const { answer, call, wanted } = it
    if (wanted._tag === "Recalled" || (wanted._tag === "Request" && isRecalled(call))) {
      it.next = yield* recalled(wave, call, answer)
    } else if (answer !== undefined && "operation" in answer) {
      // the same is true of all that were asked about with it
      if (!isLogged) wave.unanswered(call, answer)
      isLogged = true
      it.next = ends(call.decided ?? unavailable(answer))
    } else {
      const next = judged(wave, it, isSlow, now)
      const known = exitOf(next)
      it.next = known?._tag === "Success" ? known.value : yield* next
    }
  }
  return run
})

/** Gives what a call would reserve now, or how it ends. */
export const claims = (wave: WaveState, call: Call, now: number): End | ReadonlyArray<Claim> =>
  endBefore(wave, call, now) ?? denied(call.consent.guarded) ?? CallClaims.of(wave, call)

/** Counts a call in its turn. */
export const count = (process: ProcessState, call: Call): void => {
  if (call.counted) return
  call.counted = true
  process.budget.take()
}

/** Takes a call out of the turn's count again: it runs nothing itself. */
export const uncount = (process: ProcessState, call: Call): void => {
  if (!call.counted) return
  call.counted = false
  process.budget.giveBack()
}

// Utilities

const nobody: Effect.Effect<ReadonlyArray<never>> = Effect.succeed([])

const admitted: Dispatched = { _tag: "Admitted" }
const recalls: Dispatched = { _tag: "Recalled" }
const passes: Effect.Effect<Dispatched> = Effect.succeed(admitted)
const ends = (end: End): Dispatched => ({ _tag: "Ends", end })

/** What a call wants of the store. */
export type Wanted =
  | { readonly _tag: "Ends"; readonly end: End }
  /** An ordering rule forbids it: that is told, unless an equal call is to be. */
  | { readonly _tag: "OutOfOrder"; readonly end: End; readonly key: Claim | undefined }
  | { readonly _tag: "Nothing" }
  /** Its end is known, and what it has used up is counted. */
  | { readonly _tag: "Recalled" }
  | { readonly _tag: "Request"; readonly request: Request }

const nothing: Wanted = { _tag: "Nothing" }

/** What becomes of a call whose answer is there. */
const judged = (wave: WaveState, it: Dispatching, isSlow: boolean, now: number): Effect.Effect<Dispatched> => {
  const { answer, call, wanted } = it
  const over = wanted._tag === "Ends" ? wanted.end : call.decided ?? turnEnd(wave.process, call.counted, now)
  if (over !== undefined) return Effect.succeed(ends(over))
  if (wanted._tag === "OutOfOrder") return Effect.mapEager(outOfOrder(wave, call, wanted), ends)
  const end = isSlow && call.resumed?.started === undefined ? CallClaims.orderEnd(wave, call) : undefined
  if (end !== undefined) return Effect.succeed(ends(end))
  return answer !== undefined && "_tag" in answer ? taken(wave, call, answer as Refused) : reserved(wave, call)
}

const want = (wave: WaveState, call: Call, now: number): Wanted => {
  if (call.resumed?.started !== undefined) return wantAgain(wave, call, now)
  const found = claims(wave, call, now)
  if ("_tag" in found) return { _tag: "Ends", end: found }
  const end = CallClaims.orderEnd(wave, call)
  if (end !== undefined) {
    return { _tag: "OutOfOrder", end, key: found.find((it) => it._tag === "Key") }
  }
  return ask(wave, call, found)
}

/** Of a call that had started in an earlier life: what that has used up is used up, and refuses it nothing. */
const wantAgain = (wave: WaveState, call: Call, now: number): Wanted => {
  const isOver = isRecalled(call)
  const end = isOver
    ? undefined
    : call.decided ?? turnEnd(wave.process, true, now) ?? denied(call.consent.refused ?? call.consent.guarded)
  if (end !== undefined) return { _tag: "Ends", end }
  const all = isOver && call.resumed!.started === "spent" ? [] : CallClaims.again(wave, call)
  // what its earlier life has spent stays so; its key tells equal calls of how it ends this time
  const claims = call.resumed!.started === "spent" ? all.filter((it) => it._tag === "Key") : all
  const wanted = ask(wave, call, claims)
  return isOver && wanted._tag === "Nothing" ? { _tag: "Recalled" } : wanted
}

const isRecalled = (call: Call): boolean => call.resumed?.recalled !== undefined

const ask = (wave: WaveState, call: Call, claims: ReadonlyArray<Claim>): Wanted => {
  const { call: { id: owner }, reservation: replaces } = call
  const { session } = wave.engine.store
  if (replaces === undefined) {
    if (claims.length === 0) return nothing
    return { _tag: "Request", request: { owner, session, claims } }
  }
  // nobody is to join it any more; it is this call's until the store has replaced it
  wave.engine.leaders.delete(replaces.id)
  return { _tag: "Request", request: { owner, session, claims, replaces } }
}

/** What a call has used up is noted, and its place in the turn; it waits for its turn to end. */
const recalled = (
  wave: WaveState,
  call: Call,
  answer: Reservation | Refused | StateStoreError | undefined
): Effect.Effect<Dispatched> => {
  count(wave.process, call)
  const spent = answer !== undefined && "_tag" in answer && !("operation" in answer)
    ? spendRest(wave, call, answer)
    : Effect.void
  return Effect.mapEager(spent, () => {
    if (call.reservation !== undefined && CallClaims.leads(wave, call)) {
      wave.engine.leaders.set(call.reservation.id, call)
    }
    return recalls
  })
}

/** Something of what a call has used up is taken, which is no reason not to spend the rest. */
const spendRest = Effect.fnUntracedEager(function*(wave: WaveState, call: Call, refused: Refused) {
  const { call: { id: owner } } = call
  const { store } = wave.engine
  const { session } = store
  let claims = CallClaims.again(wave, call)
  for (let it: Refused | undefined = refused; it !== undefined;) {
    const left: ReadonlyArray<Claim> = claims.filter((claim) => !isRefusedBy(claim, it!))
    if (left.length === 0 || left.length === claims.length) return
    claims = left
    const asked = { owner, session, claims }
    const answers: ReadonlyArray<Reserved> = yield* store.reserve([asked], wave.now(), wave.patience)
    const answer = answers[0]!
    note(wave, call, asked, answer)
    it = "_tag" in answer && !("operation" in answer) ? answer : undefined
  }
})

const isRefusedBy = (claim: Claim, it: Refused): boolean => {
  switch (it._tag) {
    case "KeyTaken":
      return claim._tag === "Key"
    case "CallsUsedUp":
      return claim._tag === "Calls"
    case "GroupTaken":
      return claim._tag === "Group" && claim.group === it.group
    case "CoolingDown":
      return claim._tag === "Cooldown"
  }
}

/**
 * A call that is alone, and that nobody and nothing is waited for, as far as is known, starts as soon as it has what it
 * asks for. So it is only where a journal says what has not started after all.
 */
const starting = ({ engine, gates }: WaveState, call: Call, request: Request): Request => {
  const { approval, journal, pools, principal, store } = engine
  const isAtOnce = store.outlives && journal !== undefined && call.resumed === undefined &&
    request.replaces === undefined && approval !== "upfront" && gates.admit.length === 0 &&
    gates.recheck.length === 0 &&
    pools.isFree(call.tool!) && Authorize.asks(call) === undefined
  return isAtOnce ? { ...request, starts: { mutates: call.tool!.readOnly ? undefined : principal } } : request
}

/** Notes what a call holds now. */
const note = (
  wave: WaveState,
  call: Call,
  { replaces }: Request,
  answer: Reservation | Refused | StateStoreError
): void => {
  // a store that cannot be reached has replaced nothing
  const held = "operation" in answer ? replaces : "_tag" in answer ? undefined : answer
  if (held !== undefined) wave.tally.hasReserved = true
  if (held === undefined || !call.isSettled) call.reservation = held
  else wave.note(wave.engine.store.giveBack(held, wave.now(), wave.patience))
}

const endBefore = (wave: WaveState, call: Call, now: number): End | undefined =>
  call.decided ?? turnEnd(wave.process, call.counted, now) ?? blockedEnd(wave.process, call.call.name) ??
    denied(call.consent.refused)

/** Everything of the call is reserved: gate 12, as far as it has been answered. */
const reserved = (wave: WaveState, call: Call): Effect.Effect<Dispatched> => {
  count(wave.process, call)
  if (call.reservation !== undefined && CallClaims.leads(wave, call)) wave.engine.leaders.set(call.reservation.id, call)
  const question = toAsk(wave, call)
  return question === undefined ?
    passes :
    Effect.mapEager(
      Authorize.isGranted(wave, call, question),
      (it): Dispatched => it ? admitted : { _tag: "Asks", question }
    )
}

/** What a person is asked about it. Where nobody is there, whatever came so far has a permission, or needs none. */
const toAsk = (wave: WaveState, call: Call): Permissions.Asks | undefined =>
  Authorize.isAnswerable(wave, call) ? Authorize.asks(call) : undefined

/** A claim of the call could not be had. */
const taken = Effect.fnUntracedEager(function*(
  wave: WaveState,
  call: Call,
  it: Refused
): Effect.fn.Return<Dispatched> {
  const { leaders, rules, store } = wave.engine
  if (call.resumed?.started !== undefined) {
    yield* spendRest(wave, call, it)
    return yield* reserved(wave, call)
  }
  if (it._tag !== "KeyTaken") {
    return ends(refused(HostGates.orRefused("Rules", () => rules.explain(call.call.name, it), call.gateCall!, wave)))
  }
  // the store may not know yet that the other one is over
  if (it.running && store.pendingKey(it.reservation) === "release") return ends(unavailable({ operation: "settle" }))
  const leader = it.running ? leaders.get(it.reservation) : undefined
  const gets = CallClaims.duplicate(wave, call, it, leader !== undefined && !leader.isSettled)
  if (gets._tag === "Anew" && call.peers.runsItself !== true) {
    call.peers = { ...call.peers, runsItself: true }
    return (yield* dispatch(wave, [call]))[0]!.next
  }
  if (gets._tag === "Refused" || gets._tag === "Anew") return ends(duplicateOf(wave, it))
  const question = toAsk(wave, call)
  const isOpen = question !== undefined && !(yield* Authorize.isGranted(wave, call, question))
  const share: Share = gets._tag === "Joins" ? { _tag: "Joins", leader: leader! } : gets
  return { _tag: "Shares", share, question: isOpen ? question : undefined }
})

/** An ordering rule forbids the call; where an equal one has nothing for it that is told instead. */
const outOfOrder = Effect.fnUntracedEager(function*(
  wave: WaveState,
  call: Call,
  { end, key }: Extract<Wanted, { readonly _tag: "OutOfOrder" }>
): Effect.fn.Return<End> {
  if (key !== undefined) {
    const found = yield* wave.engine.store.check([key], wave.now(), wave.patience)
    if (found !== undefined && "operation" in found) {
      wave.unanswered(call, found)
      return unavailable(found)
    }
    if (found?._tag === "KeyTaken") {
      const leader = found.running ? wave.engine.leaders.get(found.reservation) : undefined
      const gets = CallClaims.duplicate(wave, call, found, leader !== undefined && !leader.isSettled)
      if (gets._tag === "Refused") return duplicateOf(wave, found)
    }
  }
  return end
})

const duplicateOf = (wave: WaveState, { owner: of, reservation, running }: KeyTaken): End =>
  refused({ _tag: "DuplicateCall", of, running: running && wave.engine.store.pendingKey(reservation) !== "keep" })

const unavailable = ({ operation }: { readonly operation: string }): End =>
  refused({ _tag: "StoreUnavailable", operation })
