/**
 * Drives the calls of a wave. Only this module acts on what the steps decide.
 *
 * A call that waits for nothing runs from dispatch to handler synchronously. A call that has to wait continues in one
 * fiber. Both take the same steps, in the order of `life`.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import { causeText } from "../../../internal/causeText.ts"
import { exitOf, isDone } from "../../../internal/exitOf.ts"
import type { Objection } from "../../gates/Permissions.ts"
import type { WaveHistory } from "../../rules/RuleHistory.ts"
import type { ToolRefusal } from "../../vocabulary/ToolRefusal.ts"
import { cancelled, type End, refused, tooLate } from "../data/CallEnd.ts"
import type { Received } from "../data/Received.ts"
import type { Reporter } from "../report/Reporter.ts"
import * as Arrive from "./Arrive.ts"
import * as CallGates from "./arrive/CallGates.ts"
import * as HandlerExit from "./attempt/HandlerExit.ts"
import { authorize } from "./Authorize.ts"
import { type Agent, Call, type Driver as Drives, phases } from "./Call.ts"
import { dispatch, type Dispatched, guard, uncount } from "./Dispatch.ts"
import * as SharedOutcome from "./dispatch/SharedOutcome.ts"
import { permits } from "./Permits.ts"
import { settle } from "./Settle.ts"
import { recall, start } from "./Start.ts"
import type { Stoppable } from "./StopPlace.ts"
import type { WaveHost } from "./WaveHost.ts"

/** Drives the calls of a wave. */
export class Driver implements Drives, Stoppable {
  readonly wave: WaveHost
  readonly parent: Call | undefined
  readonly agent: Agent
  readonly history: WaveHistory
  readonly told: boolean
  readonly begunAt: number

  constructor(wave: WaveHost, agent: Agent, received: ReadonlyArray<Received>) {
    this.wave = wave
    const { caller } = wave
    // a handler's calls are too late once its own call has its outcome
    const late = caller?.isOver === true ? cancelled(tooLate) : undefined
    this.parent = late === undefined ? caller?.call : undefined
    this.agent = agent
    this.history = wave.history
    this.told = wave.options.told
    this.begunAt = wave.begunAt
    wave.calls = received.map((call, index) => new Call(this, index, call))
    wave.tally.unsettled = wave.calls.length
    if (wave.stop.isOn) wave.stop.waves.add(this)
    if (late !== undefined) { for (const call of wave.calls) call.decided = late }
    wave.facts?.begin(wave.calls, this.begunAt)
  }

  get facts(): Reporter | undefined {
    return this.wave.facts
  }

  get isParallel(): boolean {
    return this.wave.mode === "parallel"
  }

  now(): number {
    return this.wave.now()
  }

  unproved(call: Call): Objection | undefined {
    const { engine: { conversations }, process } = this.wave
    return conversations?.unproved(call, process)
  }

  /** Continues a dispatched call, unless it has its outcome by now. */
  go(call: Call, dispatched: Dispatched): void {
    if (call.isSettled) return
    const rest = this.life(call, dispatched)
    if (rest === Effect.void) return
    const exit = exitOf(rest)
    if (exit === undefined) this.wait(call, rest)
    else if (exit._tag === "Failure") this.broken(call, exit.cause)
  }

  /** Runs the steps of a call after dispatch: approval, permits, start. */
  private life(call: Call, dispatched: Dispatched): Effect.Effect<void> {
    if (dispatched._tag === "Admitted" && this.wave.gates.admit.length === 0) return this.proceed(call)
    if (dispatched._tag === "Recalled") return recall(this.wave, call)
    return Effect.flatMapEager(
      allowed(this, call, dispatched),
      (isAllowed) => isAllowed ? this.proceed(call) : Effect.void
    )
  }

  private proceed(call: Call): Effect.Effect<void> {
    call.phase = phases.queued
    const entered = permits(this.wave, call)
    return isDone(entered) ? this.begin(call) : Effect.flatMap(entered, () => this.begin(call))
  }

  /** Starts a call that holds all its permits. */
  private begin(call: Call): Effect.Effect<void> {
    if (call.isSettled) return Effect.void
    const started = start(this.wave, call)
    const known = exitOf(started)
    if (known?._tag !== "Success") return Effect.map(started, (end) => this.unlessRuns(call, end))
    this.unlessRuns(call, known.value)
    return Effect.void
  }

  private unlessRuns(call: Call, end: End | undefined): void {
    if (end !== undefined) this.settle(call, end)
  }

  redispatch(call: Call): void {
    call.phase = phases.queued
    call.peers = { ...call.peers, isSharing: undefined, runsItself: undefined }
    // it counted as running while the call that it had joined was running
    if (this.wave.offset + call.index > this.wave.stop.index) return this.settle(call, this.wave.stop.skipped)
    this.wait(
      call,
      Effect.flatMap(
        Effect.suspend(() => again(this, call)),
        // as in a run: none starts before all calls that waited for the same one have been dispatched
        (next) => Effect.flatMap(next._tag === "Admitted" ? Effect.yieldNow : Effect.void, () => this.life(call, next))
      )
    )
  }

  rests(call: Call): boolean {
    const { peers: { behind }, phase } = call
    switch (phase._tag) {
      case "Arrived":
        // its run has not begun
        return true
      case "Asking":
        return this.wave.waits.isPending(call) || (behind !== undefined && rests(behind))
      case "Joined":
        return rests(phase.leader)
      case "Running":
        return call.tool!.continues !== undefined && phase.rests
      default:
        return false
    }
  }

  end(call: Call, end: End): void {
    if (call.phase._tag === "Running") call.phase.stop(end)
    else this.settle(call, end)
  }

  settle(call: Call, end: End, fiber?: Fiber.Fiber<unknown, unknown>): void {
    settle(this.wave, call, end, fiber)
  }

  /** Ends the calls without an outcome; a call whose turn has not come is only marked. */
  cancel(calls: ReadonlyArray<Call>, reason: string): void {
    const end = cancelled(reason)
    this.endAll(calls, () => end)
  }

  /** Refuses the calls that have not started; a call whose turn has not come is only marked. */
  refuse(calls: ReadonlyArray<Call>, reason: (call: Call) => ToolRefusal): void {
    this.endAll(calls.filter((call) => call.attempt === undefined), (call) => refused(reason(call)))
  }

  private endAll(calls: ReadonlyArray<Call>, endOf: (call: Call) => End): void {
    // mark all before ending the first: what it releases must not start any of the others
    for (const call of calls) if (call.attempt === undefined) call.decided ??= endOf(call)
    for (const call of calls) {
      if (call.phase._tag === "Running") call.phase.stop({ ...endOf(call), started: true } as End)
      else if (call.phase._tag === "Doubted") {
        call.phase.mayWait = false
        call.phase.isDropped ||= !this.wave.isSuspended(call)
      } else if (call.phase._tag !== "Arrived") this.settle(call, call.decided ?? endOf(call))
    }
    this.wave.waits.endDecided()
  }

  decideBehind(from: number, to: number): ReadonlyArray<Call> {
    const { calls, offset, stop } = this.wave
    const behind = calls.slice(Math.max(0, from - offset), Math.max(0, to - offset)).filter(isSkipped)
    for (const call of behind) call.decided = stop.skipped
    return behind
  }

  skipBehind(calls: ReadonlyArray<Call>): void {
    for (const call of calls) this.settle(call, call.decided!)
    this.wave.waits.endDecided()
  }

  /** Ends the turn: refuses calls that wait for gates, permits, approvers or another call. */
  endTurn(limitMillis: number): void {
    for (const call of this.wave.calls) {
      if (call.phase._tag === "Arrived") call.decided ??= refused({ _tag: "DeadlineExceeded", limitMillis })
    }
    this.wave.waits.endDecided()
    for (const call of this.wave.calls) {
      const { phase, waiting } = call
      if (phase._tag === "Asking" || phase._tag === "Joined" || phase._tag === "Queued") {
        this.settle(call, refused({ _tag: "DeadlineExceeded", limitMillis }))
      } else if (phase._tag === "Running" && waiting !== undefined) {
        // it is running, but its own limit is paused while approvers look at its write
        const { retryOnTimeout: retryable } = call.tool!
        phase.stop({ _tag: "TimedOut", limitMillis, which: "turn", retryable })
      }
    }
  }

  /** Continues the call in its own fiber. */
  private wait(call: Call, rest: Effect.Effect<void>): void {
    const fiber = Effect.runForkWith(call.trace?.context ?? this.wave.context)(rest)
    if (!call.isSettled && call.phase._tag !== "Running" && call.phase._tag !== "Joined") call.waiting = fiber
    fiber.addObserver((exit) => {
      if (call.waiting === fiber) call.waiting = undefined
      if (Exit.isFailure(exit)) this.broken(call, exit.cause)
    })
  }

  /** Ends a call whose step died. That is a bug in the executor, but the call must still get an outcome. */
  private broken(call: Call, cause: Cause.Cause<unknown>): void {
    if (!Cause.hasInterruptsOnly(cause)) {
      this.wave.log(call, `"${call.call.name}" was stopped: a step of the executor died`, cause)
    }
    if (call.isSettled) return
    const told = `"${call.call.name}" was not run because of an internal error.`
    this.end(call, HandlerExit.failed(call, "defect", causeText(cause), told))
  }
}

/** Whether a call of any wave waits for nothing but approvals. */
const rests = (call: Call): boolean => !call.isSettled && call.driver.rests(call)

/**
 * Whether a call is skipped: no outcome, not even on record, and not started. A call that joined a running one counts
 * as running.
 */
const isSkipped = ({ hasStarted, isSettled, joined, past }: Call): boolean =>
  !isSettled && !hasStarted && past === undefined && joined?.hasStarted !== true

/** Returns whether the call continues to its permits, once that is decided. */
const allowed = Effect.fnUntracedEager(function*(
  driver: Driver,
  call: Call,
  dispatched: Dispatched
): Effect.fn.Return<boolean> {
  call.phase = phases.queued
  let next: Dispatched | undefined = yield* admit(driver, call, dispatched)
  if (call.isSettled) return false
  while (next._tag !== "Admitted" && next._tag !== "Recalled") {
    if (next._tag === "Ends") {
      driver.settle(call, next.end)
      return false
    }
    call.phase = phases.asking
    next = yield* next._tag === "Asks" ? asks(driver, call, next.question) : shares(driver, call, next)
    if (call.isSettled || next === undefined) return false
  }
  return true
})

/** Requests approval of a call; an approver may edit its arguments. */
const asks = Effect.fnUntracedEager(function*(
  driver: Driver,
  call: Call,
  question: Parameters<typeof authorize>[2]
): Effect.fn.Return<Dispatched> {
  const authorized = yield* authorize(driver.wave, call, question)
  switch (authorized._tag) {
    case "Allowed":
      return { _tag: "Admitted" }
    case "Ends":
      return authorized
    case "Edited":
      return yield* edited(driver, call, authorized.params)
  }
})

/**
 * Shares an equal call's outcome, after approval if needed. Returns `undefined` if the call waits for the equal one.
 */
const shares = Effect.fnUntracedEager(function*(
  driver: Driver,
  call: Call,
  { question, share }: Extract<Dispatched, { readonly _tag: "Shares" }>
): Effect.fn.Return<Dispatched | undefined> {
  const { engine, process } = driver.wave
  const { pools } = engine
  if (question !== undefined) {
    const waitsFor = share._tag === "Joins" ? pools.reentry(call, { joined: share.leader }) : undefined
    if (waitsFor !== undefined) return { _tag: "Ends", end: refused({ _tag: "ReentryRefused", waitsFor }) }
    call.peers = { ...call.peers, isSharing: true }
    if (share._tag === "Joins") share.leader.peers = { ...share.leader.peers, isWanted: true }
    const asked = yield* asks(driver, call, question)
    if (asked._tag !== "Admitted") return asked
    // the equal call may have ended meanwhile
    return yield* again(driver, call)
  }
  if (share._tag === "Replays") return { _tag: "Ends", end: SharedOutcome.replay(share.outcome, call.heartbeat) }
  const { leader } = share
  if (leader.isSettled) return yield* again(driver, call)
  uncount(process, call)
  call.phase = { _tag: "Joined", leader }
  const { followers = [] } = leader.peers
  followers.push(call)
  leader.peers = { ...leader.peers, followers }
  // it no longer writes: release the calls that waited for its write
  call.over()
  pools.checkJoin(call)
  return undefined
})

/** Applies edited arguments: the call passes the gates again, without a second request. */
const edited = Effect.fnUntracedEager(function*(
  driver: Driver,
  call: Call,
  params: unknown
): Effect.fn.Return<Dispatched> {
  const { wave } = driver
  // the preview and the shared outcome were for the old arguments
  call.consent = { ...call.consent, shown: undefined }
  call.peers = { ...call.peers, isSharing: undefined, runsItself: undefined }
  if (call.reservation !== undefined) wave.engine.leaders.delete(call.reservation.id)
  yield* Arrive.arriveAgain(wave, call, params)
  yield* guard(wave, [call])
  const next = yield* again(driver, call)
  // these calls joined the old arguments
  const { followers = [] } = call.peers
  call.peers = { ...call.peers, followers: undefined }
  for (const follower of followers) if (!follower.isSettled) follower.driver.redispatch(follower)
  return next
})

const again = Effect.fnUntracedEager(function*(driver: Driver, call: Call): Effect.fn.Return<Dispatched> {
  const [it] = yield* dispatch(driver.wave, [call])
  if (call.peers.isSharing) call.peers = { ...call.peers, isSharing: undefined }
  return yield* admit(driver, call, it!.next)
})

/** Asks the host's gates about a call that has reserved everything it needs. */
const admit = ({ wave }: Driver, call: Call, next: Dispatched): Effect.Effect<Dispatched> =>
  wave.gates.admit.length === 0 || (next._tag !== "Admitted" && next._tag !== "Asks")
    ? Effect.succeed(next)
    : Effect.map(
      CallGates.pass(wave, call, "admit"),
      () => call.decided === undefined ? next : { _tag: "Ends", end: call.decided }
    )
