/**
 * Handlers that outlived their outcome.
 *
 * A call that is stopped has its outcome at once; its fiber may still clean up,
 * or be deaf to interruption. Until that fiber ends it is listed here.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import type { Orphan } from "../Executor.ts"
import { clip } from "../internal/clip.ts"
import type { CallState } from "./CallState.ts"
import type { Engine } from "./Engine.ts"

/**
 * The orphans of an executor.
 *
 * @category models
 * @since 0.1.0
 */
export class Orphans {
  private readonly running = new Map<Fiber.Fiber<unknown, unknown>, Orphan>()
  private total = 0
  private blocked = 0

  /** Lists a fiber until it ends; then `onEnd` is called. It counts from `confirm` on: one that is just ending does not. */
  add(fiber: Fiber.Fiber<unknown, unknown>, orphan: Orphan, onEnd: () => void): void {
    this.running.set(fiber, orphan)
    fiber.addObserver(() => {
      this.running.delete(fiber)
      onEnd()
    })
  }

  /** Tells whether the handler of a call still runs. */
  has({ callId, tool }: { readonly callId: string; readonly tool: string }): boolean {
    return this.current.some((it) => it.callId === callId && it.tool === tool)
  }

  /** Counts the orphan of a fiber, if it still is one. */
  confirm(fiber: Fiber.Fiber<unknown, unknown>): void {
    if (this.running.has(fiber)) this.total++
  }

  /** Counts a commit, report or artifact that came after the outcome. */
  lateWrite(): void {
    this.blocked++
  }

  /** Those that still run. */
  get current(): ReadonlyArray<Orphan> {
    return Array.from(this.running.values())
  }

  /** How many there ever were, and how many late writes were kept out. */
  get counts(): { readonly orphans: number; readonly lateWritesBlocked: number } {
    return { orphans: this.total, lateWritesBlocked: this.blocked }
  }
}

/**
 * Takes up a handler that still runs although its call has its outcome. Who waits
 * for what it touches waits for its clean-up, but not for ever.
 *
 * @category registering
 * @since 0.1.0
 */
export const linger = (
  engine: Engine,
  call: CallState,
  fiber: Fiber.Fiber<unknown, unknown>,
  host: { readonly now: () => number; readonly detach: (effect: Effect.Effect<void>) => Fiber.Fiber<void> },
  onEnd: () => void
): void => {
  const { id: callId, name: tool } = call.call
  const because = `call ${clip(callId, 100)} of "${tool}" was stopped but still runs, and both touch the same`
  const patience = call.resources.length === 0 ? undefined : host.detach(Effect.andThen(
    Effect.sleep(engine.graceMillis),
    Effect.sync(() => engine.pools.block(call, because))
  ))
  engine.orphans.add(fiber, { callId, tool, since: host.now() }, () => {
    patience?.interruptUnsafe()
    onEnd()
  })
  host.detach(Effect.andThen(Effect.yieldNow, Effect.sync(() => engine.orphans.confirm(fiber))))
}
