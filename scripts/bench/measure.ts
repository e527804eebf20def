// Medians over interleaved rounds, so that a slow minute of the machine slows all sides of a ratio.

/** One of the things that are compared. */
export interface Side {
  /** How many calls one run makes. */
  readonly calls: number
  /** Gets a run ready, which is not timed. */
  readonly prepare: () => () => Promise<unknown>
}

/** How long one comparison measures. */
export interface Effort {
  /** Milliseconds that every side runs before it counts, so that the compiler is done with it. */
  readonly warm?: number
  /** Milliseconds that every side is measured. */
  readonly measured?: number
  /** Rounds there are at least, however long they take. */
  readonly rounds?: number
}

export const median = (values: ReadonlyArray<number>): number => {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)]!
}

/** Microseconds until now: of the wall, or of the processor under `--cpu`, for a machine that others keep busy. */
const now: () => number = process.argv.includes("--cpu")
  ? () => {
    const { system, user } = process.threadCpuUsage()
    return system + user
  }
  : () => Number(process.hrtime.bigint()) / 1_000

/** Microseconds that a run takes. */
export const time = async (run: () => Promise<unknown>): Promise<number> => {
  const start = now()
  await run()
  return now() - start
}

/** What every side takes of a round: longer than a slice of the scheduler, or a dearer side would be interrupted more. */
const share = 300_000

/** Medians of microseconds per call, the sides taken in turn. */
export const compare = async <const Sides extends ReadonlyArray<Side>>(
  sides: Sides,
  { measured = 2_100, rounds = 7, warm = 1_000 }: Effort = {}
): Promise<{ readonly [I in keyof Sides]: number }> => {
  const sample = async ({ calls, prepare }: Side) => {
    // each begins with a young generation that is small again, not with the one its neighbour has grown: for calls that
    // allocate this is a third of the time
    globalThis.gc?.()
    let [spent, runs] = [0, 0]
    do {
      spent += await time(prepare())
      runs++
      // a turn of the event loop, as every program has: finalizers and weak references do not pile up
      await new Promise((resolve) => setImmediate(resolve))
    } while (spent < share)
    return spent / runs / calls
  }
  const samples = sides.map((): Array<number> => [])
  const repeat = async (milliseconds: number, least: number) => {
    const end = performance.now() + milliseconds * sides.length
    for (let round = 0; round < least || performance.now() < end; round++) {
      // the other way round each time: nobody always follows the same neighbour
      const turn = round % 2 === 0 ? [...sides.keys()] : [...sides.keys()].reverse()
      for (const side of turn) samples[side]!.push(await sample(sides[side]!))
    }
  }
  await repeat(warm, 2)
  for (const cold of samples) cold.length = 0
  await repeat(measured, rounds)
  return samples.map(median) as never
}

/** Megabytes of the heap that are in use once it is swept. */
export const heap = (): number => {
  globalThis.gc?.()
  return process.memoryUsage().heapUsed / 1e6
}

/** A figure with two places. */
export const fixed = (value: number): number => Number(value.toFixed(2))
