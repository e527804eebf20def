/**
 * Gives what has to go, oldest first, so that the rest is within a size and a count. What takes no room does not go to
 * make some.
 */
export const surplus = <A>(
  oldestFirst: ReadonlyArray<A>,
  sizeOf: (one: A) => number,
  room: number,
  maxCount: number
): ReadonlyArray<A> => {
  let size = oldestFirst.reduce((sum, it) => sum + sizeOf(it), 0)
  let count = oldestFirst.length
  return oldestFirst.filter((it) => {
    const isOver = (size > room && sizeOf(it) > 0) || count > maxCount
    if (!isOver) return false
    size -= sizeOf(it)
    count--
    return true
  })
}
