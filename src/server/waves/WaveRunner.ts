/**
 * Runs the waves of a server: finds each in memory or else in the store, starts or continues it, and forgets it.
 *
 * The layers above use it in this order: `continueAll` once; `find`, and only if there is none `start`; `drain` last.
 * One wave of a name runs at a time: `launch` is the only place that starts one, and it looks once more.
 */
import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FiberMap from "effect/FiberMap"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type { ToolExecutors } from "../../core/engine/ToolExecutors.ts"
import type { ToolCall } from "../../core/vocabulary/ToolCall.ts"
import * as WireFormat from "../../wire/WireFormat.ts"
import type { TooMany, Unavailable, WaveUnreadable } from "../api/ApiProblems.ts"
import type { Access } from "../users/Access.ts"
import { annotated, type Owner, toPrincipal } from "../users/Principals.ts"
import * as EndListener from "../work/EndListener.ts"
import { orPutAside } from "../work/putAside.ts"
import type { Works } from "../work/Work.ts"
import type { KnownWaves } from "./KnownWaves.ts"
import type { ServedWave } from "./ServedWave.ts"
import * as WaveAdmission from "./WaveAdmission.ts"
import type * as WaveOptions from "./WaveOptions.ts"
import * as Refusals from "./WaveRefusals.ts"
import * as WaveRun from "./WaveRun.ts"
import * as WaveStore from "./WaveStore.ts"

export interface Given {
  readonly access: Access["Service"]
  readonly bounds: WaveOptions.Checked
  readonly executors: ToolExecutors["Service"]
  readonly listener: EndListener.EndListener["Service"] | undefined
  readonly around: WaveRun.Around
  readonly known: KnownWaves
  readonly fibers: FiberMap.FiberMap<ServedWave, void, never>
}

/** How a wave continues that was stored. */
interface How {
  /** One that cannot continue is not tried before its time. */
  readonly isPatient: boolean
  /** Its user may still run calls; otherwise it is cancelled. */
  readonly mayRun?: boolean
}

export class WaveRunner implements Works {
  private readonly given: Given
  private isDraining = false

  constructor(given: Given) {
    this.given = given
  }

  /** Fails once the server is about to stop. */
  readonly unlessDraining = Effect.suspend(() => this.isDraining ? Refusals.stopping : Effect.void)

  /** A wave in memory, or in the store: there, what has no end continues. */
  find(owner: Owner, name: string, how: How): Effect.Effect<ServedWave | undefined, Unavailable | WaveUnreadable> {
    const { around: { store }, known } = this.given
    return Effect.gen({ self: this }, function*() {
      const here = known.get(owner, name)
      if (here !== undefined && (here.status !== "suspended" || this.isDraining)) return here
      const kept = yield* Effect.catchTag(store.get(owner, name), "WaveUnreadable", Refusals.unreadable).pipe(
        Refusals.orUnavailable,
        annotated(owner, name)
      )
      // another request may have been first
      const meanwhile = known.get(owner, name)
      if (meanwhile !== here && meanwhile !== undefined) return meanwhile
      if (kept === undefined) return here
      // the next start resumes it
      if (kept.ended === undefined && this.isDraining) return here ?? (yield* Refusals.stopping)
      const wave = kept.ended === undefined
        ? yield* this.resume(kept.submitted, how)
        : yield* this.restore(kept.submitted, kept.ended)
      // it may have run, so it is not run again under its name
      const problem = "its message is not valid"
      return wave ?? (yield* Refusals.unreadable(new WaveStore.WaveUnreadable({ wave: name, problem })))
    })
  }

  /** Runs a wave, or returns the one of its name that another request has started meanwhile. */
  start(
    submitted: WaveStore.SubmittedWave,
    calls: ReadonlyArray<ToolCall>
  ): Effect.Effect<ServedWave, TooMany | Unavailable> {
    const { known } = this.given
    return Effect.gen({ self: this }, function*() {
      const wave = known.served(submitted, calls)
      yield* this.admit(submitted, wave)
      const here = known.get(submitted, submitted.wave)
      if (here !== undefined) return here
      yield* this.unlessDraining
      return yield* this.launch(wave, WaveRun.first)
    })
  }

  /** Refuses a wave, or a session without one, above the limits. */
  admit(owner: Owner, wave?: ServedWave): Effect.Effect<void, TooMany> {
    const { bounds, executors, known } = this.given
    return Effect.flatMap(executors.active, (active) => {
      const refusal = WaveAdmission.refusal(bounds, owner, known.running(), active, wave)
      return refusal === undefined ? Effect.void : Effect.fail(refusal)
    })
  }

  /** Cancels a wave. One that cannot continue ends without trying again. */
  cancel(wave: ServedWave, reason: string): Effect.Effect<void, Unavailable> {
    if (wave.phase._tag !== "Over" || wave.stuck === undefined) return wave.cancelAll(reason)
    const again = this.given.known.served(wave.submitted, wave.calls)
    return Effect.andThen(again.cancel(reason), this.launch(again, WaveRun.again))
  }

  /** Continues what earlier starts left. What kept a wave from continuing may have gone with the last one. */
  readonly continueAll: Effect.Effect<void, WaveStore.WaveStoreError> = Effect.gen({ self: this }, function*() {
    const { access, around: { store } } = this.given
    const open = yield* store.open
    for (const user of new Set(open.map((it) => it.user))) {
      const mayRun = yield* Effect.result(access.mayRun(user))
      if (Result.isFailure(mayRun)) {
        const { cause, message } = mayRun.failure
        yield* Effect.logWarning(`${message}; the waves of ${user} are left for the next start`, cause)
      } else yield* this.continue(open.filter((it) => it.user === user), { mayRun: mayRun.success, isPatient: false })
    }
  })

  open(owner: Owner): Effect.Effect<void, Unavailable> {
    const { access, around: { store } } = this.given
    return Effect.gen({ self: this }, function*() {
      yield* this.unlessDraining
      const waves = yield* store.openOf(owner)
      if (waves.length > 0) yield* this.continue(waves, { mayRun: yield* access.mayRun(owner.user), isPatient: true })
    }).pipe(Refusals.orUnavailable, annotated(owner))
  }

  of(owner: Owner): ReadonlyArray<ServedWave> {
    return this.given.known.of(owner)
  }

  changed(owner: Owner): Effect.Effect<void> {
    return this.given.known.stirs.next(owner)
  }

  interrupt(wave: ServedWave): Effect.Effect<void> {
    return FiberMap.remove(this.given.fibers, wave)
  }

  halt(owner: Owner, waves: ReadonlyArray<ServedWave>): Effect.Effect<void> {
    const idle = waves.filter((it) => it.process === undefined)
    const ended = this.given.executors.end(toPrincipal(owner), "the session is being moved")
    return Effect.andThen(
      Effect.forEach(idle, (it) => this.interrupt(it), { discard: true }),
      idle.length < waves.length ? ended : Effect.void
    )
  }

  drop(owner: Owner): Effect.Effect<void> {
    const { around: { turns }, executors, known } = this.given
    return Effect.suspend(() => {
      for (const wave of known.of(owner)) known.remove(wave)
      known.stirs.stir(owner)
      return Effect.andThen(turns.leaveAll(owner), executors.invalidate(toPrincipal(owner)))
    })
  }

  /** Refuses work from now on, and ends what runs after a time. */
  drain(within: Duration.Input): Effect.Effect<void> {
    const { executors, fibers, known } = this.given
    return Effect.gen({ self: this }, function*() {
      this.isDraining = true
      const empty = FiberMap.awaitEmpty(fibers)
      if (Option.isNone(yield* Effect.timeoutOption(empty, within))) {
        const stop = (wave: ServedWave) =>
          wave.process === undefined
            ? this.interrupt(wave)
            : executors.end(toPrincipal(wave.submitted), "the server is stopping")
        yield* Effect.forEach(known.running(), stop, { concurrency: "unbounded", discard: true })
      }
      yield* empty
    })
  }

  private continue(waves: ReadonlyArray<WaveStore.SubmittedWave>, how: How): Effect.Effect<void> {
    return Effect.forEach(waves, (wave) => {
      const here = this.given.known.get(wave, wave.wave)
      return here === undefined || here.status === "suspended"
        ? orPutAside(wave, `The wave ${JSON.stringify(wave.wave)}`)(this.resume(wave, how))
        : Effect.void
    }, { discard: true })
  }

  /** A wave that has ended, from its records. */
  private restore(submitted: WaveStore.SubmittedWave, ended: WaveStore.Ended): Effect.Effect<ServedWave | undefined> {
    const { known } = this.given
    return Effect.map(this.read(submitted, true), (wave) => {
      if (wave === undefined) return undefined
      wave.recall(ended)
      known.add(wave)
      known.evict()
      return wave
    })
  }

  /** Continues a wave without an end. */
  private resume(
    submitted: WaveStore.SubmittedWave,
    { isPatient, mayRun = true }: How
  ): Effect.Effect<ServedWave | undefined> {
    const { known } = this.given
    return Effect.gen({ self: this }, function*() {
      const wave = yield* this.read(submitted, false)
      if (wave === undefined) return undefined
      const now = yield* Clock.currentTimeMillis
      if (isPatient && now < (submitted.stuck?.retryAt ?? 0)) {
        wave.rest(now)
        known.add(wave)
        return wave
      }
      if (!mayRun) yield* wave.cancel("its user may no longer run calls")
      return yield* this.launch(wave, WaveRun.again)
    })
  }

  private read(submitted: WaveStore.SubmittedWave, hasEnded: boolean): Effect.Effect<ServedWave | undefined> {
    const read = WireFormat.read(submitted.message, submitted.format)
    return Result.isSuccess(read)
      ? Effect.sync(() => this.given.known.served(submitted, read.success.calls, hasEnded))
      : Effect.as(Effect.logError("A submitted wave can no longer be read", read.failure), undefined)
  }

  /** Registers a wave and runs it in the background, unless one of its name is there. Returns the one that is. */
  private launch(wave: ServedWave, run: typeof WaveRun.first): Effect.Effect<ServedWave> {
    const { around, fibers, known, listener } = this.given
    return Effect.suspend(() => {
      const here = known.get(wave.submitted, wave.submitted.wave)
      if (here !== undefined && here.status !== "suspended") return Effect.succeed(here)
      known.add(wave)
      const told = Effect.suspend(() =>
        wave.remains === "nothing"
          ? EndListener.tell(listener, wave.submitted, "wave", wave.submitted.wave)
          : Effect.void
      )
      const over = Effect.sync(() => {
        if (wave.outcome?._tag === "Refused") known.remove(wave)
        known.evict()
      })
      const ran = Effect.andThen(Effect.ensuring(run(around, wave), over), told)
      return Effect.as(FiberMap.run(fibers, wave, ran, { startImmediately: true }), wave)
    })
  }
}
