/**
 * What moves the calls of a wave: the one place that acts on what the steps decide.
 *
 * A call that needs to wait for nothing goes from its dispatch to its handler at
 * once; one that has to wait has one fiber from there on. Either way it is the same
 * steps, in the order of `life`.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Arrive from "./Arrive.ts"
import { authorize } from "./Authorize.ts"
import { Call, type Driver as Drives, phases } from "./Call.ts"
import { dispatch, type Dispatched, guard, uncount } from "./Dispatch.ts"
import { cancelled, type End, refused, tooLate } from "./End.ts"
import * as Ending from "./Ending.ts"
import * as Hosts from "./Hosts.ts"
import { permits } from "./Permits.ts"
import type { Received } from "./Received.ts"
import { settle } from "./Settle.ts"
import * as SharedOutcome from "./SharedOutcome.ts"
import { start } from "./Start.ts"
import type { Stoppable } from "./StopPlace.ts"
import type { WaveState } from "./WaveState.ts"

/**
 * What moves the calls of a wave.
 *
 * @category models
 * @since 0.1.0
 */
export class Driver implements Drives, Stoppable {
  readonly wave: WaveState

  constructor(wave: WaveState, received: ReadonlyArray<Received>) {
    this.wave = wave
    const { agent, caller, events, history, options } = wave
    const now = wave.now()
    // what a handler does after its call has its outcome comes too late
    const late = caller?.isOver === true ? cancelled(tooLate) : undefined
    const parent = late === undefined ? caller?.call : undefined
    wave.calls = received.map((call, index) => new Call(this, index, call, now, parent, agent, history, options.told))
    wave.unsettled = wave.calls.length
    wave.stop.waves.add(this)
    if (late !== undefined) { for (const call of wave.calls) call.decided = late }
    if (!events.isObserved) return
    for (const { call, index } of wave.calls) {
      const params = call.malformed?.text ?? call.params
      events.publish({ _tag: "ToolCallQueued", callId: call.id, tool: call.name, index, at: now, params })
    }
  }

  /** Lets a call that was dispatched go on, unless it has its outcome meanwhile. */
  go(call: Call, dispatched: Dispatched): void {
    if (call.isSettled) return
    call.phase = phases.queued
    const rest = Effect.flatMapEager(this.admit(call, dispatched), (next) => this.life(call, next))
    if (!Exit.isExit(rest)) this.wait(call, rest)
    else if (Exit.isFailure(rest)) this.broken(call, rest.cause)
  }

  /** The way of a call from its dispatch on. */
  private readonly life = Effect.fnUntracedEager(function*(this: Driver, call: Call, dispatched: Dispatched) {
    const { wave } = this
    let next: Dispatched | undefined = dispatched
    while (next._tag !== "Admitted") {
      if (next._tag === "Ends") return this.settle(call, next.end)
      call.phase = phases.asking
      next = yield* next._tag === "Asks" ? this.asks(call, next.question) : this.shares(call, next)
      if (call.isSettled || next === undefined) return
    }
    call.phase = phases.queued
    yield* permits(wave, call)
    if (call.isSettled) return
    const end = yield* start(wave, call)
    if (end !== undefined) this.settle(call, end)
  })

  /** The host's gates say whether a call may go on that has reserved all it needs. */
  private admit(call: Call, next: Dispatched): Effect.Effect<Dispatched> {
    if (this.wave.engine.gates.admit.length === 0 || (next._tag !== "Admitted" && next._tag !== "Asks")) {
      return Effect.succeed(next)
    }
    return Effect.map(
      Hosts.pass(this.wave, call, "admit"),
      () => call.decided === undefined ? next : { _tag: "Ends", end: call.decided }
    )
  }

  /** A person says whether the call may run, perhaps with other arguments. */
  private readonly asks = Effect.fnUntracedEager(function*(
    this: Driver,
    call: Call,
    question: Parameters<typeof authorize>[2]
  ): Effect.fn.Return<Dispatched> {
    const authorized = yield* authorize(this.wave, call, question)
    switch (authorized._tag) {
      case "Allowed":
        return { _tag: "Admitted" }
      case "Ends":
        return authorized
      case "Edited":
        return yield* this.edited(call, authorized.params)
    }
  })

  /** A call gets what an equal one has, as soon as nobody needs to be asked; `undefined` if it waits for it. */
  private readonly shares = Effect.fnUntracedEager(function*(
    this: Driver,
    call: Call,
    { question, share }: Extract<Dispatched, { readonly _tag: "Shares" }>
  ): Effect.fn.Return<Dispatched | undefined> {
    const { engine, process } = this.wave
    const { pools } = engine
    if (question !== undefined) {
      const waitsFor = share._tag === "Joins" ? pools.reentry(call, { joined: share.leader }) : undefined
      if (waitsFor !== undefined) return { _tag: "Ends", end: refused({ _tag: "ReentryRefused", waitsFor }) }
      call.sharing = true
      if (share._tag === "Joins") share.leader.isWanted = true
      const asked = yield* this.asks(call, question)
      if (asked._tag !== "Admitted") return asked
      // the equal call may have ended meanwhile
      return yield* this.again(call)
    }
    if (share._tag === "Replays") return { _tag: "Ends", end: SharedOutcome.replay(share.outcome, call.heartbeat) }
    const { leader } = share
    if (leader.isSettled) return yield* this.again(call)
    uncount(process, call)
    call.phase = { _tag: "Joined", leader }
    ;(leader.followers ??= []).push(call)
    pools.checkJoin(call)
    return undefined
  })

  /** A person has edited the arguments: the call goes through the gates anew, without a second question. */
  private readonly edited = Effect.fnUntracedEager(function*(
    this: Driver,
    call: Call,
    params: unknown
  ): Effect.fn.Return<Dispatched> {
    const { wave } = this
    // what was shown was another change, and what is to come is another result
    call.shown = call.sharing = call.anew = undefined
    if (call.reservation !== undefined) wave.engine.leaders.delete(call.reservation.id)
    yield* Arrive.arriveAgain(wave, call, params)
    yield* guard(wave, [call])
    const next = yield* this.again(call)
    // they waited for other arguments
    const { followers = [] } = call
    call.followers = undefined
    for (const follower of followers) if (!follower.isSettled) follower.driver.redispatch(follower)
    return next
  })

  private readonly again = Effect.fnUntracedEager(function*(this: Driver, call: Call): Effect.fn.Return<Dispatched> {
    const [next] = yield* dispatch(this.wave, [call])
    call.sharing = undefined
    return yield* this.admit(call, next!)
  })

  redispatch(call: Call): void {
    call.phase = phases.queued
    call.sharing = call.anew = undefined
    this.wait(
      call,
      Effect.suspend(() => Effect.flatMap(this.again(call), (next) => this.life(call, next)))
    )
  }

  end(call: Call, end: End): void {
    if (call.phase._tag === "Running") call.phase.attempt.stop(end)
    else this.settle(call, end)
  }

  settle(call: Call, end: End, fiber?: Fiber.Fiber<unknown, unknown>): void {
    settle(this.wave, call, end, fiber)
  }

  /** Ends those that have no outcome yet; one whose turn has not come is only marked. */
  cancel(calls: ReadonlyArray<Call>, reason: string): void {
    const end = cancelled(reason)
    // all are marked before the first is ended: what it frees must start none of the others
    for (const call of calls) if (call.attempt === undefined) call.decided ??= end
    for (const call of calls) {
      if (call.phase._tag === "Running") call.phase.attempt.stop({ ...end, started: true } as End)
      else if (call.phase._tag !== "Arrived") this.settle(call, call.decided ?? end)
    }
    this.wave.waits.endDecided()
  }

  decideBehind(from: number, to: number): ReadonlyArray<Call> {
    const { calls, offset, stop } = this.wave
    const behind = calls.slice(Math.max(0, from - offset), Math.max(0, to - offset)).filter((call) =>
      !call.isSettled && call.attempt === undefined
    )
    for (const call of behind) call.decided = stop.skipped
    return behind
  }

  skipBehind(calls: ReadonlyArray<Call>): void {
    for (const call of calls) this.settle(call, call.decided!)
    this.wave.waits.endDecided()
  }

  /** The turn is over: what waits for permits, people or another call ends. */
  endTurn(limitMillis: number): void {
    for (const call of this.wave.calls) {
      const { phase, waiting } = call
      if (phase._tag === "Asking" || phase._tag === "Joined" || phase._tag === "Queued") {
        this.settle(call, refused({ _tag: "DeadlineExceeded", limitMillis }))
      } else if (phase._tag === "Running" && waiting !== undefined) {
        // it runs, and its own time stands still while a person looks at its write
        const { retryOnTimeout: retryable } = call.tool!
        phase.attempt.stop({ _tag: "TimedOut", limitMillis, which: "turn", retryable })
      }
    }
  }

  /** The call goes on in a fiber of its own. */
  private wait(call: Call, rest: Effect.Effect<void>): void {
    const fiber = Effect.runForkWith(this.wave.context)(rest)
    if (!call.isSettled && call.phase._tag !== "Running" && call.phase._tag !== "Joined") call.waiting = fiber
    fiber.addObserver((exit) => {
      if (call.waiting === fiber) call.waiting = undefined
      if (Exit.isFailure(exit)) this.broken(call, exit.cause)
    })
  }

  /** A step has died: that is a bug of ours, and the call has its outcome even so. */
  private broken(call: Call, cause: Cause.Cause<unknown>): void {
    if (call.isSettled) return
    const told = `"${call.call.name}" was not run because of an internal error.`
    this.end(call, Ending.failed(call, "defect", Cause.pretty(cause), told))
  }
}
