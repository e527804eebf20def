/**
 * Measures how processor time grows with what strangers write.
 *
 * A row feeds one entry with one shape. It is measured at its size and at two, four and eight times as much. A row
 * fails if the largest size takes more than a floor and time grows faster than the size.
 */

/** An entry with a shape that strangers may give it. */
export interface Row {
  readonly name: string
  /** The files of `src` that are fed. */
  readonly feeds: ReadonlyArray<string>
  /** Characters, lines or calls of the smallest input. Quadratic work must exceed the floor at eight times as much. */
  readonly size: number
  /** Makes the input; what it gives is measured. */
  readonly input: (size: number) => () => unknown
}

/** What was measured of a row at one size. */
export interface Measured {
  readonly size: number
  /** Processor time in milliseconds. */
  readonly millis: number
}

export const factors = [1, 2, 4, 8] as const

/** Measures a row at one size: the least of some tries, since a machine has other things to do. */
export const measure = async ({ input, size: least }: Row, factor: number, tries = 1): Promise<Measured> => {
  const size = least * factor
  let millis = Infinity
  for (let i = 0; i < tries; i++) {
    const run = input(size)
    const before = process.cpuUsage()
    await run()
    const { system, user } = process.cpuUsage(before)
    millis = Math.min(millis, (system + user) / 1_000)
  }
  return { size, millis }
}

/** The power of the size by which time grows. */
export const exponent = (one: Measured, other: Measured): number =>
  Math.log(Math.max(other.millis, 1) / Math.max(one.millis, 1)) / Math.log(other.size / one.size)

/** Tells of a row that grows faster than it may: what was measured; `undefined` of all others. */
export const excess = async (
  row: Row,
  { floor, most }: { readonly floor: number; readonly most: number }
): Promise<string | undefined> => {
  const least = await measure(row, 1, 3)
  // stops before it takes minutes
  for (const factor of factors.slice(1)) {
    const now = await measure(row, factor, 2)
    const power = exponent(least, now)
    if (now.millis > floor && power > most) {
      return `${now.size}: ${now.millis} ms, ${least.size}: ${least.millis} ms, power ${power.toFixed(2)}`
    }
  }
  return undefined
}
