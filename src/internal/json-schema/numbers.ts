/** Numbers as JSON writes them: in decimals. */

/** Tells whether a number is a multiple of another, by how both are written: 19.99 is one of 0.01. */
export const isMultiple = (value: number, of: number): boolean => {
  if (!Number.isFinite(value)) return false
  const isWhole = value % of === 0
  if (isWhole || (Number.isSafeInteger(value) && Number.isSafeInteger(of))) return isWhole
  const [one, other] = [decimalOf(value), decimalOf(of)]
  const least = Math.min(one.exponent, other.exponent)
  const unitsOf = ({ digits, exponent }: Decimal): bigint => digits * 10n ** BigInt(exponent - least)
  return unitsOf(one) % unitsOf(other) === 0n
}

/** A number: its digits, and how many places they are to the left of the point. */
interface Decimal {
  readonly digits: bigint
  readonly exponent: number
}

const decimalOf = (value: number): Decimal => {
  const [mantissa = "", exponent = "0"] = String(value).split("e")
  const [whole = "", rest = ""] = mantissa.split(".")
  return { digits: BigInt(whole + rest), exponent: Number(exponent) - rest.length }
}
