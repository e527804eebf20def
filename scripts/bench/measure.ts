// Medians over interleaved rounds, so that a slow minute of the machine slows all sides of a ratio.

export const median = (values: ReadonlyArray<number>): number => {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)]!
}

export const time = async (run: () => Promise<unknown>): Promise<number> => {
  const start = process.hrtime.bigint()
  await run()
  return Number(process.hrtime.bigint() - start) / 1000
}

export interface Side {
  readonly name: string
  readonly prepare: () => () => Promise<unknown>
}

/** Medians of microseconds per call, the sides taken in turn. */
export const compare = async (
  sides: ReadonlyArray<Side>,
  size: number,
  rounds: number
): Promise<ReadonlyArray<number>> => {
  const times = sides.map((): Array<number> => [])
  for (let round = -Math.ceil(rounds / 4); round < rounds; round++) {
    for (const [index, side] of sides.entries()) {
      const run = side.prepare()
      const micros = await time(run)
      if (round >= 0) times[index]!.push(micros / size)
    }
  }
  return times.map(median)
}

/** A figure as the table shows it. */
export const fixed = (value: number): number => Number(value.toFixed(2))
