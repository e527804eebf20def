/**
 * The time of a call whose handler waits for sub-agents: it stands still while
 * people are asked and none of the sub-agents executes anything.
 */
import type { ParentClock } from "../gates/TurnBudget.ts"
import type { Attempt } from "./Attempt.ts"

/** The time of a call, for the sub-agents that its handler makes. */
export class NestedClock implements ParentClock {
  private readonly attempt: Attempt
  private readonly budget: Pick<ParentClock, "ask">
  private asking = 0
  private executing = 0
  private isPaused = false

  constructor(attempt: Attempt, budget: Pick<ParentClock, "ask">) {
    this.attempt = attempt
    this.budget = budget
  }

  /** Epoch milliseconds at which the call is stopped. */
  get deadline(): number {
    return this.attempt.deadline
  }

  /** So many more questions are open below. */
  ask(more: number, now: number): void {
    this.asking += more
    this.budget.ask(more, now)
    this.tick(now)
  }

  /** So many more handlers execute below. */
  execute(more: number, now: number): void {
    this.executing += more
    this.tick(now)
  }

  private tick(now: number): void {
    const pauses = this.asking > 0 && this.executing === 0
    // once the time is up it no longer stands still
    const isUp = this.attempt.isSettled || (pauses && now >= this.deadline)
    if (pauses === this.isPaused || isUp) return
    this.isPaused = pauses
    if (pauses) this.attempt.pause()
    else this.attempt.resume()
  }
}
