/** How long a call waited, had approval requests pending and ran, computed from its facts. Nanoseconds. */
import type { CallFact } from "../../facts/Fact.ts"
import type { ToolOutcome } from "../../vocabulary/ToolOutcome.ts"

export class CallTimes {
  private readonly arrivedAt: bigint
  private requestedAt = 0n
  private attemptedAt: bigint | undefined
  /** Time during which approval requests were pending. */
  asked = 0n
  /** From its arrival to its start, without the time of approval requests. */
  queued = 0n
  hasStarted = false
  /** The current attempt is the first one in this process. */
  isFirst = false
  /** Duration of the attempt that the last fact ended; `undefined` if it ended none. */
  ran: bigint | undefined

  constructor(arrivedAt: bigint) {
    this.arrivedAt = arrivedAt
  }

  add({ _tag }: CallFact, now: bigint): void {
    switch (_tag) {
      case "Presented":
        this.requestedAt = now
        return
      case "Answered":
        this.asked += now - this.requestedAt
        return
      case "Started":
      case "Recalled":
        this.attemptedAt = now
        this.isFirst = !this.hasStarted
        this.hasStarted = true
        if (this.isFirst) this.queued = now - this.arrivedAt - this.asked
        return
      case "AttemptFailed":
      case "Settled":
      case "Suspended":
        this.ran = this.attemptedAt === undefined ? undefined : now - this.attemptedAt
        this.attemptedAt = undefined
    }
  }
}

/** Converts nanoseconds to seconds. */
export const seconds = (nanos: bigint): number => Number(nanos) / 1e9

/** The reason why a call did not succeed: the name of its refusal or of its outcome. */
export const errorOf = (outcome: ToolOutcome): string | undefined =>
  outcome._tag === "Succeeded" ? undefined : outcome._tag === "Denied" ? outcome.reason._tag : outcome._tag
