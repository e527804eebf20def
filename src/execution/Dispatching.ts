/**
 * How calls get from their run's beginning to their permits: dispatched, joined
 * to another one, asked about, dispatched anew.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type { Asks } from "../policy/Permissions.ts"
import type { Reservation } from "../store/StateStore.ts"
import * as Arrival from "./Arrival.ts"
import type { Calls } from "./Calls.ts"
import { CallState } from "./CallState.ts"
import type { Engine, ProcessState } from "./Engine.ts"
import type { Reserved } from "./PatientStore.ts"
import * as SharedOutcome from "./SharedOutcome.ts"
import * as Stages from "./Stages.ts"

/** A call on its way to its permits, and whether what it touches is known. */
interface Entering {
  readonly call: CallState
  isKnown: boolean
}

/**
 * The dispatching of the calls of one wave.
 *
 * @category models
 * @since 0.1.0
 */
export class Dispatching {
  private readonly engine: Engine
  private readonly process: ProcessState
  private readonly calls: Calls
  /** Admitted, while people are asked about others of the wave. */
  private readonly held: Array<CallState> = []

  constructor(engine: Engine, process: ProcessState, calls: Calls) {
    this.engine = engine
    this.process = process
    this.calls = calls
  }

  /** Dispatches a call, at once or by an effect where something has to be waited for; true if it goes on to its permits. */
  dispatch(call: CallState, now = this.calls.now()): boolean | Effect.Effect<boolean> {
    const { engine, process } = this
    const claims = Stages.claims(engine, process, call, now)
    if ("_tag" in claims) return this.dispatched(call, { _tag: "Decided", end: claims })
    Stages.count(process, call)
    // one whose arguments were edited has reserved something before
    const { reservation: replaces } = call
    if (replaces !== undefined) {
      engine.leaders.delete(replaces.id)
      call.reservation = undefined
    }
    if (claims.length === 0) {
      if (replaces !== undefined) this.calls.ledger.giveBack(replaces)
      return this.dispatched(call, Stages.reserved(engine, process, call, undefined))
    }
    const answer = this.calls.ledger.reserve(call.call.id, claims, now, replaces)
    if (!("wait" in answer)) return this.reserved(call, answer, replaces)
    let reserved: Reserved | undefined
    const asked = Effect.map(answer.wait, (it) => {
      reserved = it
    })
    // one that is cancelled meanwhile waits no longer
    return Effect.flatMap(this.calls.waits.wait([call], asked), () => {
      const admitted = this.reserved(call, reserved, replaces)
      return typeof admitted === "boolean" ? Effect.succeed(admitted) : admitted
    })
  }

  private reserved(
    call: CallState,
    reserved: Reserved | undefined,
    replaces: Reservation | undefined
  ): boolean | Effect.Effect<boolean> {
    if (call.outcome !== undefined) {
      const isReserved = reserved !== undefined && !("_tag" in reserved)
      if (isReserved) this.calls.ledger.giveBack(reserved)
      return false
    }
    // a store that cannot be reached has replaced nothing
    if (reserved !== undefined && "operation" in reserved && replaces !== undefined) call.reservation = replaces
    return this.dispatched(call, Stages.reserved(this.engine, this.process, call, reserved))
  }

  private dispatched(call: CallState, it: Stages.Dispatched): boolean | Effect.Effect<boolean> {
    call.sharing = undefined
    // it may have been settled while it was dispatched anew: then what it has reserved goes back
    if (call.outcome !== undefined) {
      this.giveBack(call)
      return false
    }
    switch (it._tag) {
      case "Admitted":
        return true
      case "Asks":
        return this.unlessReentrant(call, () => this.calls.questions.authorize(call, it.question))
      case "Decided":
        this.calls.settle(call, it.end)
        return false
      case "Shares":
        return this.sharing(call, it.share, it.question)
      case "Anew":
        call.anew = true
        return this.dispatch(call)
    }
  }

  /** Gate 12 for a call that gets another one's outcome: it goes on as soon as nobody needs to be asked. */
  private sharing(
    call: CallState,
    share: Stages.Share,
    question: Asks | undefined
  ): boolean | Effect.Effect<boolean> {
    if (question === undefined) return this.share(call, share)
    const waitsFor = share instanceof CallState ? this.engine.pools.reentry(call, { joined: share }) : undefined
    if (waitsFor !== undefined) {
      this.calls.deadlock(call, waitsFor)
      return false
    }
    call.sharing = true
    if (share instanceof CallState) share.isWanted = true
    const allowed = this.calls.questions.authorize(call, question)
    if (typeof allowed === "boolean") return allowed ? this.share(call, share) : false
    return Effect.flatMap(allowed, (isAllowed) => {
      const shared = isAllowed ? this.share(call, share) : false
      return typeof shared === "boolean" ? Effect.succeed(shared) : shared
    })
  }

  private share(call: CallState, share: Stages.Share): boolean | Effect.Effect<boolean> {
    if (!(share instanceof CallState)) {
      this.calls.settle(call, SharedOutcome.replay(share.outcome, call.heartbeat))
      return false
    }
    // it may have ended while a store was asked for permissions
    if (share.outcome !== undefined) return this.dispatch(call)
    Stages.uncount(this.process, call)
    call.joined = share
    ;(share.followers ??= []).push(call)
    this.engine.pools.checkJoin(call)
    return false
  }

  /** Goes on with a call that would not wait for its own caller, as far as that is known: about another nobody is asked. */
  private unlessReentrant(
    call: CallState,
    goOn: () => boolean | Effect.Effect<boolean>
  ): boolean | Effect.Effect<boolean> {
    const found = Stages.reentry(this.engine, this.process, call, this.calls.now())
    const decide = (waitsFor: string | undefined) => {
      if (waitsFor === undefined || call.decided !== undefined) return goOn()
      this.calls.deadlock(call, waitsFor)
      return false
    }
    if (!Effect.isEffect(found)) return decide(found)
    let waitsFor: string | undefined
    const asked = Effect.map(found, (it) => {
      waitsFor = it
    })
    return Effect.flatMap(this.calls.waits.wait([call], asked), () => {
      const admitted = decide(waitsFor)
      return typeof admitted === "boolean" ? Effect.succeed(admitted) : admitted
    })
  }

  /** A person has allowed the call, perhaps with other arguments: it goes on. */
  approved(call: CallState, edited: { readonly params: unknown } | undefined): void {
    const rest = edited !== undefined
      ? this.readmit(call, edited.params)
      // an equal call may have ended meanwhile
      : call.sharing === true
      ? this.proceed(call)
      : this.enter([call])
    if (rest !== undefined) this.calls.detach(Effect.uninterruptible(rest))
  }

  /** A person has edited the arguments: the call goes through the gates anew, without a second question. */
  private readmit(call: CallState, params: unknown): Effect.Effect<void> {
    const { engine, process } = this
    // what was shown was another change, and what is to come is another result
    call.shown = undefined
    call.sharing = undefined
    call.anew = undefined
    if (call.reservation !== undefined) engine.leaders.delete(call.reservation.id)
    const { followers = [] } = call
    call.followers = undefined
    const admitted = Effect.suspend(() =>
      Arrival.readmit(engine, process, call, params, this.calls.now()) ?? Effect.void
    )
    const guarded = Effect.suspend(() => Stages.guard(engine, process, [call], this.calls.now()))
    return Effect.flatMap(
      this.calls.waits.wait([call], Effect.andThen(admitted, guarded)),
      () =>
        Effect.map(this.proceed(call), () => {
          // they waited for other arguments
          for (const follower of followers) if (follower.outcome === undefined) follower.owner.redispatch(follower)
        })
    )
  }

  /** Every gate up to 4 and 5 is passed: dispatches the call and lets it go to its permits. */
  private proceed(call: CallState): Effect.Effect<void> {
    const enter = (admitted: boolean) => (admitted ? this.enter([call]) : undefined) ?? Effect.void
    const dispatched = this.dispatch(call)
    return typeof dispatched === "boolean" ? enter(dispatched) : Effect.flatMap(dispatched, enter)
  }

  private giveBack(call: CallState): void {
    if (call.reservation === undefined) return
    this.engine.leaders.delete(call.reservation.id)
    this.calls.ledger.giveBack(call.reservation)
  }

  /**
   * Finds what admitted calls touch and lets each go to its permits, in their
   * order: at once, or when that is found; the effect waits for the last of them.
   */
  enter(admitted: ReadonlyArray<CallState>): Effect.Effect<void> | undefined {
    // where people are asked before anything runs, nothing starts while they think
    if (this.engine.approval === "upfront" && (this.calls.questions.isOpen || this.held.length > 0)) {
      for (const call of admitted) call.isDeferred = true
      this.held.push(...admitted)
      return undefined
    }
    const ready: Array<CallState> = []
    const waiting: Array<CallState> = []
    const slow: Array<Effect.Effect<void>> = []
    // those from the first whose keys are not known yet
    const queue: Array<Entering> = []
    const known = (entry: Entering) => {
      if (entry.isKnown) return
      if (entry.call.decided !== undefined) this.calls.settle(entry.call, entry.call.decided)
      entry.isKnown = true
      entry.call.isDeferred = true
      this.enterKnown(queue)
    }
    for (const call of admitted) {
      const found = Stages.resources(this.process, call, this.calls.now())
      const isKnown = !Effect.isEffect(found)
      if (isKnown) call.resources = found
      // one that touches nothing waits for nobody
      if (isKnown && (queue.length === 0 || call.resources.length === 0)) {
        ready.push(call)
        continue
      }
      const entry = { call, isKnown }
      // once its own keys are known it waits for the others' alone
      if (isKnown) call.isDeferred = true
      queue.push(entry)
      if (!isKnown) {
        waiting.push(call)
        const finding = Effect.map(found, (keys) => {
          call.resources = keys
        })
        slow.push(Effect.map(this.calls.waits.wait([call], finding), () => known(entry)))
      }
    }
    this.takePermits(ready)
    if (slow.length === 0) return undefined
    const all = Effect.forEach(slow, (it) => it, { concurrency: "unbounded", discard: true })
    // nobody waits any more: whatever has not been told by now is as it is
    return Effect.map(this.calls.waits.wait(waiting, all), () => Array.from(queue).forEach(known))
  }

  /** Nobody is asked any more: what was held up goes on. */
  answered(): void {
    if (this.held.length === 0) return
    const held = this.held.splice(0).filter((call) => call.outcome === undefined).sort((a, b) => a.index - b.index)
    for (const call of held) call.isDeferred = false
    const entered = this.enter(held)
    if (entered !== undefined) this.calls.detach(Effect.uninterruptible(entered))
  }

  /** Lets those go to their permits that no earlier one holds up. */
  private enterKnown(queue: Array<Entering>): void {
    const ready: Array<CallState> = []
    while (queue[0]?.isKnown === true) {
      const { call } = queue.shift()!
      call.isDeferred = false
      if (call.outcome === undefined) ready.push(call)
    }
    this.takePermits(ready)
  }

  /** Starts each call once it holds its permits. */
  private takePermits(ready: ReadonlyArray<CallState>): void {
    for (const call of ready) {
      const held = this.engine.pools.enter(call)
      if (Exit.isExit(held)) this.calls.start(call)
      else this.calls.detach(Effect.map(held, () => this.calls.start(call)))
    }
  }

  /** Dispatches a call anew whose leader has nothing to share. */
  redispatch(call: CallState): void {
    call.joined = undefined
    call.sharing = undefined
    call.anew = undefined
    this.calls.detach(Effect.uninterruptible(this.proceed(call)))
  }
}
