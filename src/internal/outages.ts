/**
 * Logs a part that fails repeatedly, such as an unreachable database: the first failure in full, and later ones as a
 * number, once a minute.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"

/** Milliseconds before the same failure is logged again. */
const quiet = 60_000

/** The failures of one driver, shared by its users. */
export class Outages {
  private readonly known = new Map<string, { readonly since: number; left: number }>()

  /** What is to be logged of a failure at a time; nothing where it is only counted. */
  failed(what: string, now: number): string | undefined {
    const known = this.known.get(what)
    if (known !== undefined && Math.abs(now - known.since) < quiet) {
      known.left++
      return undefined
    }
    this.known.set(what, { since: now, left: 0 })
    return known === undefined || known.left === 0
      ? what
      : `${what}; so did ${known.left} more since this was last said`
  }

  /** Logs a failure, or counts it. */
  warn(what: string, cause: unknown): Effect.Effect<void> {
    return Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const message = this.failed(what, now)
      return message === undefined ? Effect.void : Effect.logWarning(message, cause)
    })
  }

  /** It works again; gives how many failures were only counted, if that is for the caller to say. */
  over(what: string): number | undefined {
    const known = this.known.get(what)
    this.known.delete(what)
    return known?.left
  }
}

/** The failures of a driver: executors that share one have them together. */
export const outagesOf = (driver: object): Outages => {
  let outages = all.get(driver)
  if (outages === undefined) all.set(driver, outages = new Outages())
  return outages
}

const all = new WeakMap<object, Outages>()
