/**
 * The clock of a call whose handler waits for sub-agents. It pauses while approval requests are pending and none of the
 * sub-agents executes anything.
 */
import type { ParentClock } from "../../../gates/TurnBudget.ts"
import type { Attempt } from "./Attempt.ts"

/** The clock of a call, for the sub-agents that its handler starts. */
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

  /** Changes the number of pending approval requests below. */
  ask(more: number, now: number): void {
    this.asking += more
    this.budget.ask(more, now)
    this.tick(now)
  }

  /** Changes the number of handlers that execute below. */
  execute(more: number, now: number): void {
    this.executing += more
    this.tick(now)
  }

  private tick(now: number): void {
    const pauses = this.asking > 0 && this.executing === 0
    // after the deadline the clock no longer pauses
    const isUp = this.attempt.isSettled || (pauses && now >= this.deadline)
    if (pauses === this.isPaused || isUp) return
    this.isPaused = pauses
    if (pauses) this.attempt.pause()
    else this.attempt.resume()
  }
}
