/**
 * Lets arrivals go in runs: neighbours of one lane that may overlap go together,
 * everything else one after the other, in order of arrival.
 */

/** One that has arrived. */
export interface Arrival {
  /** It is over, or will not go at all. Again does nothing. */
  readonly leave: () => void
}

interface Entry {
  readonly lane: string
  readonly mayOverlap: boolean
  readonly go: () => void
  state: "waiting" | "going" | "gone"
}

/** A gate for what belongs together, such as the calls of one request. */
export const makeRunGate = () => {
  const waiting: Array<Entry> = []
  let going = 0
  let lane: string | undefined
  const advance = (): void => {
    while (waiting.length > 0) {
      const next = waiting[0]!
      if (next.state === "gone") waiting.shift()
      else if (going === 0 || (next.mayOverlap && next.lane === lane)) {
        waiting.shift()
        // nobody joins one that is to be alone
        lane = next.mayOverlap ? next.lane : undefined
        going++
        next.state = "going"
        next.go()
      } else return
    }
  }
  return {
    arrive: (lane: string, mayOverlap: boolean, go: () => void): Arrival => {
      const entry: Entry = { lane, mayOverlap, go, state: "waiting" }
      waiting.push(entry)
      advance()
      return {
        leave: () => {
          const { state } = entry
          entry.state = "gone"
          if (state === "going") going--
          if (state !== "gone") advance()
        }
      }
    }
  }
}
