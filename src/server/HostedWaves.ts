/** The waves of one session: opened, stopped and forgotten together. */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type { ToolExecutors } from "../core/engine/ToolExecutors.ts"
import type { KnownWaves } from "./KnownWaves.ts"
import { type Owner, toPrincipal } from "./Principals.ts"
import type { ServedWave } from "./ServedWave.ts"
import { retryMillis, type SessionPart, stateOf, type Unfinished, unfinished } from "./SessionPart.ts"
import type { Turns } from "./Turns.ts"

export interface Given {
  readonly executors: ToolExecutors["Service"]
  readonly known: KnownWaves
  readonly turns: Turns
  readonly open: SessionPart["open"]
  readonly interrupt: (wave: ServedWave) => Effect.Effect<void>
}

export const make = ({ executors, interrupt, known, open, turns }: Given): SessionPart => {
  // a wave whose end is being stored is not over
  const running = (owner: Owner) => known.of(owner).filter((it) => !it.isOver)
  /** Leaves nothing of a session in memory. */
  const drop = (owner: Owner) =>
    Effect.suspend(() => {
      for (const wave of known.of(owner)) known.remove(wave)
      known.stirs.stir(owner)
      return Effect.andThen(turns.leaveAll(owner), executors.invalidate(toPrincipal(owner)))
    })
  return {
    open,
    state: (owner) => stateOf(running(owner).map((it) => it.isWaiting ? "waiting" : "running")),
    isAsking: (owner) => running(owner).some((it) => it.isAsking),
    changed: (owner) => known.stirs.next(owner),
    leave: (owner) =>
      Effect.sync(() => {
        for (const wave of running(owner)) wave.left ??= "closed"
      }),
    stop: (owner) =>
      Effect.suspend(() => {
        const waves = running(owner)
        for (const wave of waves) wave.left = "stopped"
        const stopped = waves.some((it) => it.isUnderWay)
          ? executors.end(toPrincipal(owner), "the session is being moved")
          : Effect.void
        const early = waves.filter((it) => !it.isUnderWay)
        return Effect.forEach(early, interrupt, { discard: true }).pipe(
          Effect.andThen(stopped),
          Effect.andThen(Effect.forEach(waves, (it) => Deferred.await(it.over), { discard: true }))
        )
      }),
    retryAt: (owner, now) =>
      Math.min(
        ...known.of(owner).flatMap(({ hasFailed, stuck }) => hasFailed ? [stuck?.retryAt ?? now + retryMillis] : [])
      ),
    forget: (owner) =>
      Effect.suspend(() => {
        const left = unfinished(known.of(owner).map(leftOf))
        return Effect.as(drop(owner), left)
      }),
    lose: (owner) =>
      Effect.suspend(() => {
        const waves = running(owner)
        for (const wave of waves) {
          wave.left = "lost"
          wave.log.close()
        }
        const interrupted = Effect.forEach(waves, interrupt, { concurrency: "unbounded", discard: true })
        return Effect.andThen(drop(owner), interrupted)
      })
  }
}

const leftOf = ({ hasEnded, hasFailed, left }: ServedWave): Unfinished =>
  hasFailed ? "failed" : hasEnded ? "nothing" : left === undefined ? "failed" : left === "stopped" ? left : "waiting"
