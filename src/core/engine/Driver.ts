/**
 * What moves the calls of a wave: the one place that acts on what the steps decide.
 *
 * A call that needs to wait for nothing goes from its dispatch to its handler at once; one that has to wait has one
 * fiber from there on. Either way it is the same steps, in the order of `life`.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import { causeText } from "../../internal/causeText.ts"
import { exitOf, isDone } from "../../internal/exitOf.ts"
import type { WaveHistory } from "../rules/RuleHistory.ts"
import type { ToolRefusal } from "../vocabulary/ToolRefusal.ts"
import * as Arrive from "./Arrive.ts"
import { authorize } from "./Authorize.ts"
import { type Agent, Call, type Driver as Drives, phases } from "./Call.ts"
import { cancelled, type End, refused, tooLate } from "./CallEnd.ts"
import * as CallGates from "./CallGates.ts"
import { dispatch, type Dispatched, guard, uncount } from "./Dispatch.ts"
import * as HandlerExit from "./HandlerExit.ts"
import { permits } from "./Permits.ts"
import type { Received } from "./Received.ts"
import type { Reporter } from "./report/Reporter.ts"
import { settle } from "./Settle.ts"
import * as SharedOutcome from "./SharedOutcome.ts"
import { recall, start } from "./Start.ts"
import type { Stoppable } from "./StopPlace.ts"
import type { WaveState } from "./WaveState.ts"

/** What moves the calls of a wave. */
export class Driver implements Drives, Stoppable {
  readonly wave: WaveState
  readonly parent: Call | undefined
  readonly agent: Agent
  readonly history: WaveHistory
  readonly told: boolean
  readonly begunAt: number

  constructor(wave: WaveState, agent: Agent, received: ReadonlyArray<Received>) {
    this.wave = wave
    const { caller } = wave
    // what a handler does after its call has its outcome comes too late
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

  /** Lets a call that was dispatched go on, unless it has its outcome meanwhile. */
  go(call: Call, dispatched: Dispatched): void {
    if (call.isSettled) return
    const rest = this.life(call, dispatched)
    if (rest === Effect.void) return
    if (!Exit.isExit(rest)) this.wait(call, rest)
    else if (Exit.isFailure(rest)) this.broken(call, rest.cause)
  }

  /** The way of a call from its dispatch on: allowed, permits, start. */
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

  /** It holds all its permits. */
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
    // it counted as running as long as the call ran that it had joined
    if (this.wave.offset + call.index > this.wave.stop.index) return this.settle(call, this.wave.stop.skipped)
    this.wait(
      call,
      Effect.flatMap(
        Effect.suspend(() => again(this, call)),
        // as in a run: none starts before all that waited with it have found whom to wait for now
        (next) => Effect.flatMap(next._tag === "Admitted" ? Effect.yieldNow : Effect.void, () => this.life(call, next))
      )
    )
  }

  end(call: Call, end: End): void {
    if (call.phase._tag === "Running") call.phase.stop(end)
    else this.settle(call, end)
  }

  settle(call: Call, end: End, fiber?: Fiber.Fiber<unknown, unknown>): void {
    settle(this.wave, call, end, fiber)
  }

  /** Ends those that have no outcome yet; one whose turn has not come is only marked. */
  cancel(calls: ReadonlyArray<Call>, reason: string): void {
    const end = cancelled(reason)
    this.endAll(calls, () => end)
  }

  /** Refuses those that have not started; one whose turn has not come is only marked. */
  refuse(calls: ReadonlyArray<Call>, reason: (call: Call) => ToolRefusal): void {
    this.endAll(calls.filter((call) => call.attempt === undefined), (call) => refused(reason(call)))
  }

  private endAll(calls: ReadonlyArray<Call>, endOf: (call: Call) => End): void {
    // all are marked before the first is ended: what it frees must start none of the others
    for (const call of calls) if (call.attempt === undefined) call.decided ??= endOf(call)
    for (const call of calls) {
      if (call.phase._tag === "Running") call.phase.stop({ ...endOf(call), started: true } as End)
      else if (call.phase._tag !== "Arrived") this.settle(call, call.decided ?? endOf(call))
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

  /** The turn is over: what waits for gates, permits, people or another call ends. */
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
        // it runs, and its own time stands still while a person looks at its write
        const { retryOnTimeout: retryable } = call.tool!
        phase.stop({ _tag: "TimedOut", limitMillis, which: "turn", retryable })
      }
    }
  }

  /** The call goes on in a fiber of its own. */
  private wait(call: Call, rest: Effect.Effect<void>): void {
    const fiber = Effect.runForkWith(call.trace?.context ?? this.wave.context)(rest)
    if (!call.isSettled && call.phase._tag !== "Running" && call.phase._tag !== "Joined") call.waiting = fiber
    fiber.addObserver((exit) => {
      if (call.waiting === fiber) call.waiting = undefined
      if (Exit.isFailure(exit)) this.broken(call, exit.cause)
    })
  }

  /** A step has died: that is a bug of ours, and the call has its outcome even so. */
  private broken(call: Call, cause: Cause.Cause<unknown>): void {
    if (!Cause.hasInterruptsOnly(cause)) this.wave.log(call, `"${call.call.name}" was given up: a step died`, cause)
    if (call.isSettled) return
    const told = `"${call.call.name}" was not run because of an internal error.`
    this.end(call, HandlerExit.failed(call, "defect", causeText(cause), told))
  }
}

// Utilities

/** It has no outcome, on record neither, and has not started; whoever joined a call that runs counts as running. */
const isSkipped = ({ hasStarted, isSettled, joined, resumed }: Call): boolean =>
  !isSettled && !hasStarted && resumed?.recalled === undefined && joined?.hasStarted !== true

/** Ends once it is known whether the call goes on to its permits. */
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

/** A person says whether the call may run, perhaps with other arguments. */
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

/** A call gets what an equal one has, as soon as nobody needs to be asked; `undefined` if it waits for it. */
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
  // it writes nothing itself: who waited for that waits no longer
  call.over()
  pools.checkJoin(call)
  return undefined
})

/** A person has edited the arguments: the call goes through the gates anew, without a second question. */
const edited = Effect.fnUntracedEager(function*(
  driver: Driver,
  call: Call,
  params: unknown
): Effect.fn.Return<Dispatched> {
  const { wave } = driver
  // what was shown was another change, and what is to come is another result
  call.consent = { ...call.consent, shown: undefined }
  call.peers = { ...call.peers, isSharing: undefined, runsItself: undefined }
  if (call.reservation !== undefined) wave.engine.leaders.delete(call.reservation.id)
  yield* Arrive.arriveAgain(wave, call, params)
  yield* guard(wave, [call])
  const next = yield* again(driver, call)
  // they waited for other arguments
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

/** The host's gates say whether a call may go on that has reserved all it needs. */
const admit = ({ wave }: Driver, call: Call, next: Dispatched): Effect.Effect<Dispatched> =>
  wave.gates.admit.length === 0 || (next._tag !== "Admitted" && next._tag !== "Asks")
    ? Effect.succeed(next)
    : Effect.map(
      CallGates.pass(wave, call, "admit"),
      () => call.decided === undefined ? next : { _tag: "Ends", end: call.decided }
    )
