/**
 * Handlers that outlived their outcome.
 *
 * A stopped call has its outcome immediately; its fiber may still clean up, or ignore interruption. It is listed here
 * until it ends.
 */
import type * as Fiber from "effect/Fiber"

/** A handler that still runs although its call has its outcome. */
export interface Orphan {
  readonly callId: string
  readonly tool: string
  /** Epoch milliseconds at which its call got its outcome. */
  readonly since: number
}

/** The orphans of an executor. */
export class Orphans {
  private readonly running = new Map<Fiber.Fiber<unknown, unknown>, Orphan>()
  private total = 0
  private blocked = 0

  /**
   * Lists a fiber until it ends, then calls `onEnd`. It counts only after `confirm`, which skips fibers that were just
   * ending.
   */
  add(fiber: Fiber.Fiber<unknown, unknown>, orphan: Orphan, onEnd: () => void): void {
    this.running.set(fiber, orphan)
    fiber.addObserver(() => {
      this.running.delete(fiber)
      onEnd()
    })
  }

  /** Whether the handler of a call still runs. */
  has({ callId, tool }: { readonly callId: string; readonly tool: string }): boolean {
    return this.current.some((it) => it.callId === callId && it.tool === tool)
  }

  /** Counts the orphan of a fiber, if it still runs. */
  confirm(fiber: Fiber.Fiber<unknown, unknown>): void {
    if (this.running.has(fiber)) this.total++
  }

  /** Counts a commit, report or artifact that came after the outcome. */
  lateWrite(): void {
    this.blocked++
  }

  /** The orphans that still run. */
  get current(): ReadonlyArray<Orphan> {
    return Array.from(this.running.values())
  }

  /** How many orphans there have been, and how many late writes were blocked. */
  get counts(): { readonly orphans: number; readonly lateWritesBlocked: number } {
    return { orphans: this.total, lateWritesBlocked: this.blocked }
  }
}
