/**
 * Sends the calls of a conversation to people once a reviewer keeps denying them: either the reviewer is wrong, or the
 * agent does not give up.
 */
import type { Breaker } from "../core/gates/Reviewer.ts"

/** When denials open the breaker of a conversation. */
export interface BreakerLimits {
  readonly inARow: number
  readonly denials: number
  readonly windowMillis: number
}

/** More conversations than these are not kept: the oldest one is forgotten. */
const maxConversations = 1_000

interface State {
  /** Denials since the last other verdict. */
  inARow: number
  /** When the last denials were given, oldest first. */
  denied: ReadonlyArray<number>
}

/** The breakers of all conversations of one executor. */
export class ReviewBreaker implements Breaker {
  private readonly limits: BreakerLimits | undefined
  private readonly all = new Map<string, State>()

  constructor(limits: BreakerLimits | undefined) {
    this.limits = limits
  }

  /** Returns why people decide everything in a conversation now; `undefined` if the reviewer is asked. */
  openedBy(conversation: string, now: number): string | undefined {
    const state = this.all.get(conversation)
    if (state === undefined || this.limits === undefined) return undefined
    const { denials, inARow, windowMillis } = this.limits
    const recent = state.denied.filter((at) => at > now - windowMillis)
    if (recent.length === 0) {
      this.all.delete(conversation)
      return undefined
    }
    return state.inARow >= inARow
      ? `it denied ${state.inARow} ${state.inARow === 1 ? "call" : "calls in a row"}`
      : recent.length >= denials
      ? `it denied ${recent.length} calls in a short time`
      : undefined
  }

  /** Counts a verdict; while people decide everything, none counts. */
  count(conversation: string, isDenial: boolean, now: number): void {
    if (this.limits === undefined || this.openedBy(conversation, now) !== undefined) return
    const { denied = [], inARow = 0 } = this.all.get(conversation) ?? {}
    if (!isDenial && denied.length === 0) return
    this.all.delete(conversation)
    const since = now - this.limits.windowMillis
    this.all.set(conversation, {
      inARow: isDenial ? inARow + 1 : 0,
      denied: isDenial ? [...denied.filter((at) => at > since), now].slice(-this.limits.denials) : denied
    })
    if (this.all.size > maxConversations) this.all.delete(this.all.keys().next().value!)
  }

  /** Closes the breaker of a conversation: a person approved a call in it. */
  close(conversation: string): void {
    this.all.delete(conversation)
  }
}
