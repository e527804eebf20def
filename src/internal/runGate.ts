/**
 * Lets arrivals go in runs: neighbours of one lane that may overlap go together, everything else one after the other,
 * in order of arrival.
 */

/** What an arrival is, as far as others wait for it. */
export interface Item {
  /** Neighbours of one lane go together; without one it goes with whatever goes. */
  readonly lane: string | undefined
  /** Nobody that comes after it goes with it. */
  readonly closes: boolean
}

/** Arrived and not yet classified: later runs wait for it. */
export interface Arrival {
  /** It is known what it is; `go` is called once it may go. */
  readonly ready: (item: Item, go: () => void) => void
  /** It is over, or will never start. A second time does nothing. */
  readonly leave: () => void
}

interface Entry {
  item: Item | undefined
  go: () => void
  state: "waiting" | "going" | "gone"
}

/** A gate for what belongs together, such as the calls of one request. */
export const makeRunGate = () => {
  const waiting: Array<Entry> = []
  let going = 0
  /** Lane of the current run; undefined: closed to others. */
  let lane: string | undefined
  const mayGo = ({ lane: own }: Item): boolean => going === 0 || (lane !== undefined && (own ?? lane) === lane)
  const advance = (): void => {
    while (waiting.length > 0) {
      const next = waiting[0]!
      if (next.state === "gone") waiting.shift()
      else if (next.item !== undefined && mayGo(next.item)) {
        waiting.shift()
        if (next.item.lane !== undefined) lane = next.item.closes ? undefined : next.item.lane
        going++
        next.state = "going"
        next.go()
      } else return
    }
  }
  return {
    arrive: (): Arrival => {
      const entry: Entry = { item: undefined, go: () => {}, state: "waiting" }
      waiting.push(entry)
      return {
        ready: (item, go) => {
          entry.item = item
          entry.go = go
          advance()
        },
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
