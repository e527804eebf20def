/** Numbers as JSON writes them: in decimals. */
import * as BigDecimal from "effect/BigDecimal"

/** Tells whether a number is a multiple of another, by how both are written: 19.99 is one of 0.01. */
export const isMultiple = (value: number, of: number): boolean => {
  if (!Number.isFinite(value)) return false
  const isWhole = value % of === 0
  if (isWhole || (Number.isSafeInteger(value) && Number.isSafeInteger(of))) return isWhole
  return BigDecimal.isZero(
    BigDecimal.remainderUnsafe(BigDecimal.fromNumberUnsafe(value), BigDecimal.fromNumberUnsafe(of))
  )
}
