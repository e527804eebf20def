/**
 * Dispatch: gates 1, 2 and 6 to 11. Checks a call when its run begins, reserves what it needs, and finds the calls that
 * need approval.
 *
 * All calls of a run are dispatched before any of them starts. Their reservations are made in one step.
 */
import * as Effect from "effect/Effect"
import { exitOf, isDone } from "../../../internal/exitOf.ts"
import * as HostGates from "../../gates/HostGates.ts"
import type * as Permissions from "../../gates/Permissions.ts"
import type { Claim, KeyTaken, Refused, Request, Reservation } from "../../store/Claims.ts"
import type { StateStoreError } from "../../store/StateStore.ts"
import type { ToolOutcome } from "../../vocabulary/ToolOutcome.ts"
import type { RunsAgain } from "../../vocabulary/ToolRefusal.ts"
import { denied, type End, refused } from "../data/CallEnd.ts"
import type { Reserved } from "../ports/RetryingStore.ts"
import { blockedEnd, type ProcessState, turnEnd } from "../state/State.ts"
import * as CallGates from "./arrive/CallGates.ts"
import * as Authorize from "./Authorize.ts"
import type { Call } from "./Call.ts"
import * as CallClaims from "./dispatch/CallClaims.ts"
import type { WaveHost } from "./WaveHost.ts"

/** The result of dispatching a call. */
export type Dispatched =
  | { readonly _tag: "Ends"; readonly end: End }
  /** It continues with its permits. */
  | { readonly _tag: "Admitted" }
  /** It continues once an approver allows it. */
  | { readonly _tag: "Asks"; readonly question: Permissions.Asks }
  /** It ran before a crash, and ends as that run is recorded. */
  | { readonly _tag: "Recalled" }
  /** It shares an equal call's outcome, after approval if it needs one. */
  | { readonly _tag: "Shares"; readonly share: Share; readonly question: Permissions.Asks | undefined }

/** What a call shares with an equal one: its running execution, or its kept outcome. */
export type Share =
  | { readonly _tag: "Joins"; readonly leader: Call }
  | { readonly _tag: "Replays"; readonly outcome: ToolOutcome }

/**
 * Runs gate 7 for the calls of a run. The guards of one call are asked in order, those of different calls concurrently.
 */
export const guard = (wave: WaveHost, calls: ReadonlyArray<Call>): Effect.Effect<void> =>
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
  /** What it asks of the store. */
  readonly wanted: Wanted
  /** What the store answered, if it was asked. */
  answer: Reserved | undefined
  /** The result of its dispatch. */
  next: Dispatched
}

/**
 * Dispatches calls that begin together, in order.
 *
 * Dispatching a call again with other arguments replaces its reservation. Calls that need approval without an approver
 * are refused first and reserve nothing, so the others are judged without them.
 */
export const dispatch = (
  wave: WaveHost,
  calls: ReadonlyArray<Call>
): Effect.Effect<ReadonlyArray<Dispatching>> => {
  const unanswerable = wave.process.people === undefined ? Authorize.refuseUnanswerable(wave, calls) : Effect.void
  return isDone(unanswerable) ? looked(wave, calls) : Effect.flatMap(unanswerable, () => looked(wave, calls))
}

const looked = (wave: WaveHost, calls: ReadonlyArray<Call>): Effect.Effect<ReadonlyArray<Dispatching>> => {
  if (!CallClaims.looksFurther(wave)) return asks(wave, calls, undefined)
  const unread = CallClaims.recall(wave, calls, wave.now(), 0)
  const known = exitOf(unread)
  return known?._tag === "Success"
    ? asks(wave, calls, known.value)
    : Effect.flatMap(unread, (it) => asks(wave, calls, it))
}

/** Asks the store for what all calls need. */
const asks = (
  wave: WaveHost,
  calls: ReadonlyArray<Call>,
  unread: StateStoreError | undefined
): Effect.Effect<ReadonlyArray<Dispatching>> => {
  const begun = wave.now()
  const requests: Array<Request> = []
  const run: Array<Dispatching> = []
  for (const call of calls) {
    const wanted = want(wave, call, begun, unread)
    if (wanted._tag === "Request") {
      requests.push(calls.length === 1 ? starting(wave, call, wanted.request) : wanted.request)
    }
    run.push({ call, wanted, answer: undefined, next: admitted })
  }
  if (requests.length === 0) return decide(wave, run, nothingAsked, false, begun)
  const asked = wave.engine.store.reserve(requests, begun, wave.patienceAt(begun))
  const known = exitOf(asked)
  return known?._tag === "Success"
    ? decide(wave, run, known.value, false, begun)
    : Effect.flatMap(asked, (answers) => decide(wave, run, answers, true, wave.now()))
}

const nothingAsked: ReadonlyArray<Reserved> = []

/** Decides about each call, once the store has answered. */
const decide = (
  wave: WaveHost,
  run: ReadonlyArray<Dispatching>,
  answers: ReadonlyArray<Reserved>,
  isSlow: boolean,
  now: number
): Effect.Effect<ReadonlyArray<Dispatching>> => {
  // note all answers before any call waits again: a reservation that is not noted would never be returned
  let answered = 0
  for (const it of run) {
    if (it.wanted._tag !== "Request") continue
    it.answer = answers[answered++]!
    note(wave, it.call, it.wanted.request, it.answer)
  }
  return decideFrom(wave, run, 0, { isLogged: false, isSlow, now })
}

const decideFrom = (
  wave: WaveHost,
  run: ReadonlyArray<Dispatching>,
  from: number,
  state: { isLogged: boolean; readonly isSlow: boolean; readonly now: number }
): Effect.Effect<ReadonlyArray<Dispatching>> => {
  for (let at = from; at < run.length; at++) {
    const it = run[at]!
    const { answer, call } = it
    if (answer !== undefined && "operation" in answer && !isReplayed(call)) {
      // the calls of one request share the error: log it once
      if (!state.isLogged) wave.unanswered(call, answer)
      state.isLogged = true
      it.next = ends(call.decided ?? unavailable(answer))
      continue
    }
    const next = judged(wave, it, state.isSlow, state.now)
    if (next === passes) continue
    const known = exitOf(next)
    if (known?._tag === "Success") it.next = known.value
    else {
      return Effect.flatMap(next, (value) => {
        it.next = value
        return decideFrom(wave, run, at + 1, state)
      })
    }
  }
  return Effect.succeed(run)
}

/** Returns what a call would reserve now, or its end. */
export const claims = (wave: WaveHost, call: Call, now: number): End | ReadonlyArray<Claim> =>
  endBefore(wave, call, now) ?? denied(call.consent.guarded) ?? CallClaims.of(wave, call)

/** Counts a call in its turn. */
export const count = (process: ProcessState, call: Call): void => {
  if (call.counted) return
  call.counted = true
  process.budget.take()
}

/** Removes a call from the turn's count: it runs nothing itself. */
export const uncount = (process: ProcessState, call: Call): void => {
  if (!call.counted) return
  call.counted = false
  process.budget.giveBack()
}

const admitted: Dispatched = { _tag: "Admitted" }
const replays: Effect.Effect<Dispatched> = Effect.succeed({ _tag: "Recalled" })
const passes: Effect.Effect<Dispatched> = Effect.succeed(admitted)
const ends = (end: End): Dispatched => ({ _tag: "Ends", end })

/** What a call asks of the store. */
export type Wanted =
  | { readonly _tag: "Ends"; readonly end: End }
  /** An ordering rule forbids it. That is reported unless it is refused as a duplicate. */
  | { readonly _tag: "OutOfOrder"; readonly end: End; readonly key: Claim | undefined }
  | { readonly _tag: "Nothing" }
  | { readonly _tag: "Request"; readonly request: Request }

const nothing: Wanted = { _tag: "Nothing" }

/** Decides about a call after the store answered. */
const judged = (wave: WaveHost, it: Dispatching, isSlow: boolean, now: number): Effect.Effect<Dispatched> => {
  const { answer, call, wanted } = it
  if (isReplayed(call)) return reserved(wave, call)
  const over = wanted._tag === "Ends" ? wanted.end : call.decided ?? turnEnd(wave.process, isCounted(call), now)
  if (over !== undefined) return Effect.succeed(ends(over))
  if (wanted._tag === "OutOfOrder") return Effect.mapEager(outOfOrder(wave, call, wanted), ends)
  const end = isSlow && !call.hasRun ? CallClaims.orderEnd(wave, call) : undefined
  if (end !== undefined) return Effect.succeed(ends(end))
  return answer !== undefined && "_tag" in answer ? taken(wave, call, answer as Refused) : reserved(wave, call)
}

const want = (wave: WaveHost, call: Call, now: number, unread: StateStoreError | undefined): Wanted => {
  const found = isReplayed(call) ? CallClaims.of(wave, call) : claims(wave, call, now)
  if ("_tag" in found) return { _tag: "Ends", end: found }
  if (call.hasRun) return ask(wave, call, found)
  if (unread !== undefined && call.rules!.asks.length > 0) {
    wave.unanswered(call, unread)
    return { _tag: "Ends", end: unavailable(unread) }
  }
  const end = CallClaims.orderEnd(wave, call)
  if (end !== undefined) {
    return { _tag: "OutOfOrder", end, key: found.find((it) => it._tag === "Key") }
  }
  return ask(wave, call, found)
}

/** It ran in an earlier life and does not run again: what it used is counted, and it ends at its place. */
const isReplayed = (call: Call): boolean => call.past !== undefined && call.hasRun

/** What a call asks of the store. A resumed one that had not started has reserved the same before. */
export const requestOf = (
  { engine: { store }, options }: WaveHost,
  { call: { id: owner }, hasRun, record }: Call,
  claims: ReadonlyArray<Claim>
): Request => {
  const request = { owner, session: store.session, claims }
  if (record === undefined || !store.mayOutlive) return hasRun ? { ...request, isPartial: true } : request
  return { ...request, call: record.key, isPartial: hasRun, isResumed: options.resume !== undefined && !hasRun }
}

const ask = (wave: WaveHost, call: Call, claims: ReadonlyArray<Claim>): Wanted => {
  const { reservation: replaces } = call
  if (replaces === undefined) {
    return claims.length === 0 ? nothing : { _tag: "Request", request: requestOf(wave, call, claims) }
  }
  // no call may join it any more; the reservation is this call's until the store has replaced it
  wave.engine.leaders.delete(replaces.id)
  return { _tag: "Request", request: { ...requestOf(wave, call, claims), replaces } }
}

/**
 * Marks a request as a start if the call would start as soon as its reservation is made: it is the only one, and
 * neither permits nor gates nor approvers are in its way.
 *
 * Requires a journal, which records a call that did not start after all.
 */
const starting = ({ engine, gates }: WaveHost, call: Call, request: Request): Request => {
  const { approval, journal, pools, principal, store } = engine
  const isAtOnce = store.outlives && journal !== undefined && call.memory === undefined &&
    request.replaces === undefined && approval !== "upfront" && gates.admit.length === 0 &&
    gates.recheck.length === 0 &&
    pools.isFree(call.tool!) && Authorize.asks(call) === undefined
  return isAtOnce ? { ...request, starts: { mutates: call.tool!.readOnly ? undefined : principal } } : request
}

/** Notes the reservation that a call holds now; returns one that comes too late. */
const note = (
  wave: WaveHost,
  call: Call,
  { replaces }: Request,
  answer: Reservation | Refused | StateStoreError
): void => {
  // an unreachable store has replaced nothing
  const held = "operation" in answer ? replaces : "_tag" in answer ? undefined : answer
  if (held !== undefined) wave.tally.hasReserved = true
  if (held === undefined || !call.isSettled) call.reservation = held
  else wave.note(wave.engine.store.giveBack(held, wave.now(), wave.patience))
}

const endBefore = (wave: WaveHost, call: Call, now: number): End | undefined =>
  call.decided ?? turnEnd(wave.process, isCounted(call), now) ??
    (call.hasRun ? undefined : blockedEnd(wave.process, call.call.name)) ?? denied(call.consent.refused)

/** Whether it has its place in the turn. */
const isCounted = (call: Call): boolean => call.counted || call.hasRun

/** Counts a call whose claims are all reserved, then runs gate 12 as far as grants answer it. */
const reserved = (wave: WaveHost, call: Call): Effect.Effect<Dispatched> => {
  count(wave.process, call)
  if (call.reservation !== undefined && CallClaims.leads(wave, call)) wave.engine.leaders.set(call.reservation.id, call)
  if (call.past !== undefined) return replays
  const question = toAsk(wave, call)
  return question === undefined ?
    passes :
    Effect.mapEager(
      Authorize.isGranted(wave, call, question),
      (it): Dispatched => it ? admitted : { _tag: "Asks", question }
    )
}

/**
 * Returns the approval request that a call needs. Without an approver every call that got here is covered or needs
 * none.
 */
const toAsk = (wave: WaveHost, call: Call): Permissions.Asks | undefined =>
  Authorize.isAnswerable(wave, call) ? Authorize.asks(call) : undefined

/** Handles a refused claim: the call shares an outcome, runs itself, or is refused. */
const taken = Effect.fnUntracedEager(function*(
  wave: WaveHost,
  call: Call,
  it: Refused
): Effect.fn.Return<Dispatched> {
  const { leaders, rules, store } = wave.engine
  // all that it used is used by others now
  if (call.hasRun) return yield* reserved(wave, call)
  if (it._tag !== "KeyTaken") {
    return ends(refused(HostGates.orRefused("Rules", () => rules.explain(call.call.name, it), call.gateCall!, wave)))
  }
  // the store may not know yet that the other call ended
  if (it.running && store.pendingKey(it.reservation) === "release") return ends(unavailable({ operation: "settle" }))
  const leader = it.running ? leaders.get(it.reservation) : undefined
  const gets = CallClaims.duplicate(wave, call, it, leader !== undefined && !leader.isSettled)
  if (gets._tag === "Anew" && call.peers.runsItself !== true) {
    call.peers = { ...call.peers, runsItself: true }
    return (yield* dispatch(wave, [call]))[0]!.next
  }
  if (gets._tag === "Refused" || gets._tag === "Anew") {
    return ends(duplicateOf(wave, it, gets._tag === "Anew" ? {} : gets))
  }
  const question = toAsk(wave, call)
  const isOpen = question !== undefined && !(yield* Authorize.isGranted(wave, call, question))
  const share: Share = gets._tag === "Joins" ? { _tag: "Joins", leader: leader! } : gets
  return { _tag: "Shares", share, question: isOpen ? question : undefined }
})

/** Returns the end of a call that an ordering rule forbids: that rule, or a duplicate of an equal call. */
const outOfOrder = Effect.fnUntracedEager(function*(
  wave: WaveHost,
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
      if (gets._tag === "Refused") return duplicateOf(wave, found, gets)
    }
  }
  return end
})

const duplicateOf = (
  wave: WaveHost,
  found: KeyTaken,
  { runsAgain }: { readonly runsAgain?: RunsAgain | undefined }
): End => {
  const { endedAt, isOvertaken: changedSince, owner: of, until } = found
  const now = wave.now()
  // the store may not know yet that the other call ended
  if (found.running && wave.engine.store.pendingKey(found.reservation) === "keep") {
    return refused({ _tag: "DuplicateCall", of, running: false, changedSince })
  }
  return refused({
    _tag: "DuplicateCall",
    of,
    running: found.running,
    ...endedAt === undefined ? undefined : { endedMillisAgo: Math.max(0, now - endedAt) },
    ...runsAgain === undefined ? undefined : { runsAgain },
    ...until === undefined || runsAgain === "nextMessage" ? undefined : { retryAfterMillis: Math.max(0, until - now) },
    changedSince
  })
}

const unavailable = ({ operation }: { readonly operation: string }): End =>
  refused({ _tag: "StoreUnavailable", operation })
