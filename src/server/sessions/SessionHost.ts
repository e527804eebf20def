/**
 * Hosts sessions one at a time: opens what a session has left in the stores, says when nothing of it runs, and closes it
 * again, so that a session that waits for people costs rows and no memory.
 *
 * It decides nothing about who may host a session. In a process that is alone, every session is opened at startup and
 * stays open; where several processes share the stores, a session is opened by the process that holds it.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type { Left } from "../../core/store/SessionRegistry.ts"
import type { Unavailable } from "../api/ApiProblems.ts"
import { PendingApprovals } from "../approvals/PendingApprovals.ts"
import { Operations } from "../operations/Operations.ts"
import { type Owner, toPrincipal } from "../users/Principals.ts"
import { Waves } from "../waves/Waves.ts"
import { unfinished, type Works } from "../work/Work.ts"

export class SessionHost extends Context.Service<SessionHost, {
  /**
   * Continues what has no end in the stores. Does nothing for what runs here already, so it may be called again, also
   * after an answer arrived.
   */
  readonly open: (owner: Owner) => Effect.Effect<void, Unavailable>
  /**
   * Waits until nothing of a session runs: all its waves and operations have ended, or wait only for approvals. It may
   * be called again at any time, and something may start as soon as it returns.
   */
  readonly idle: (owner: Owner) => Effect.Effect<void>
  /**
   * Suspends a session and forgets it. Its pending approval requests keep their ids. What runs may take this long,
   * 20 seconds by default; then it is stopped, as if the server stopped. Returns what is left in the stores.
   */
  readonly close: (owner: Owner, within?: Duration.Input) => Effect.Effect<Left>
  /**
   * The session belongs to another process: everything of it is interrupted at once and writes nothing. Its streams end,
   * so that clients reconnect.
   */
  readonly lose: (owner: Owner, reason: string) => Effect.Effect<void>
}>()("effect-tool-executor/server/SessionHost") {}

/** Layer of the host over the waves, the operations and the approval requests. */
export const layer: Layer.Layer<SessionHost, never, Operations | PendingApprovals | Waves> = Layer.effect(
  SessionHost,
  Effect.gen(function*() {
    const { hosting: waves } = yield* Waves
    const { hosting: operations } = yield* Operations
    const approvals = yield* PendingApprovals
    const parts: ReadonlyArray<Works> = [waves, operations]
    const each = <A, E>(of: (part: Works) => Effect.Effect<A, E>) => Effect.forEach(parts, of, together)
    const runningOf = (part: Works, owner: Owner) => part.of(owner).filter((it) => !it.isOver)
    const running = (owner: Owner) => parts.flatMap((part) => runningOf(part, owner))
    /** `waiting`: everything that runs waits for nothing but approvals. `over`: nothing runs. */
    const state = (owner: Owner): "running" | "waiting" | "over" => {
      const works = running(owner)
      return works.length === 0 ? "over" : works.every((it) => it.isWaiting) ? "waiting" : "running"
    }
    /** Waits until the state may have changed since this was called. */
    const changed = (owner: Owner) => {
      const changes = parts.map((it) => it.changed(owner))
      // an agent may begin to wait for its agents in the background without an event
      const news = Effect.raceAll(
        running(owner).some((it) => it.isAsking) ? [...changes, Effect.sleep("1 second")] : changes
      )
      // what is reported of a call comes before it waits
      return Effect.andThen(news, Effect.yieldNow)
    }
    const stop = (owner: Owner) =>
      each((part) =>
        Effect.suspend(() => {
          const works = runningOf(part, owner)
          for (const it of works) it.leave("stopped")
          return Effect.andThen(
            part.halt(owner, works),
            Effect.forEach(works, (it) => it.over, { discard: true })
          )
        })
      )
    const lose = (owner: Owner) =>
      each((part) =>
        Effect.suspend(() => {
          const works = runningOf(part, owner)
          for (const it of works) it.leave("lost")
          return Effect.andThen(
            part.drop(owner),
            Effect.forEach(works, (it) => part.interrupt(it), { ...together, discard: true })
          )
        })
      )
    return SessionHost.of({
      open: (owner) => Effect.asVoid(each((it) => it.open(owner))),
      idle: (owner) =>
        Effect.gen(function*() {
          for (;;) {
            const change = changed(owner)
            if (state(owner) !== "running") return
            yield* change
          }
        }),
      close: Effect.fnUntraced(function*(owner, within = defaultWithin): Effect.fn.Return<Left> {
        const principal = toPrincipal(owner)
        let end = (yield* Clock.currentTimeMillis) + Duration.toMillis(within)
        let until: number | undefined
        let isStored = true
        for (;;) {
          const change = changed(owner)
          if (state(owner) === "over") break
          if (state(owner) === "waiting") {
            // what is suspended from now on is not reported: readers connect again
            for (const part of parts) part.leaves?.(owner)
            for (const it of running(owner)) it.leave("closed")
            const suspended = yield* approvals.suspendOf(principal, "the session is not in memory")
            until = earliest(until, suspended.until)
            isStored = isStored && suspended.isStored
            end = Math.max(end, (yield* Clock.currentTimeMillis) + endMillis)
          }
          const left = end - (yield* Clock.currentTimeMillis)
          if (left <= 0) yield* stop(owner)
          else if (state(owner) !== "over") yield* Effect.timeoutOption(change, left)
        }
        const now = yield* Clock.currentTimeMillis
        const works = parts.flatMap((it) => it.of(owner))
        const retryAt = Math.min(...works.map((it) => it.retryAt(now)))
        const remains = unfinished(works.map((it) => it.remains))
        yield* each((it) => it.drop(owner))
        switch (remains) {
          case "nothing":
            // withdraws requests whose calls were cancelled before they could ask again
            yield* approvals.suspendOf(principal, "nothing of the session is left")
            return { _tag: "Nothing" }
          case "failed":
            return { _tag: "Waiting", until: earliest(until, retryAt) }
          case "stopped":
            return { _tag: "Open" }
          case "waiting":
            return isStored ? { _tag: "Waiting", until } : { _tag: "Open" }
        }
      }, Effect.uninterruptible),
      lose: (owner) => Effect.asVoid(Effect.timeoutOption(lose(owner), "5 seconds"))
    })
  })
)

const together = { concurrency: "unbounded" } as const

/** How long calls that run may take until they are stopped. */
const defaultWithin = "20 seconds"

/** What was suspended has at least this long to end. */
const endMillis = 5_000

const earliest = (one: number | undefined, other: number | undefined): number | undefined =>
  one === undefined || other === undefined ? one ?? other : Math.min(one, other)
