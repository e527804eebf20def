/** Lines of an output that comes in pieces. */

/**
 * Gives what takes the pieces and tells each line once it is whole. Of a line of
 * more than `maxBytes` nothing is kept; the answer is then `false`.
 */
export const lines = (maxBytes: number, onLine: (line: string) => void) => {
  let open: Array<Buffer> = []
  let size = 0
  const isWithin = (piece: Buffer): boolean => {
    size += piece.length
    if (size <= maxBytes && piece.length > 0) open.push(piece)
    return size <= maxBytes
  }
  return (chunk: Buffer): boolean => {
    let from = 0
    let areWithin = true
    for (let end = chunk.indexOf("\n"); end >= 0; end = chunk.indexOf("\n", from)) {
      if (isWithin(chunk.subarray(from, end))) onLine(Buffer.concat(open).toString("utf8"))
      else areWithin = false
      open = []
      size = 0
      from = end + 1
    }
    return isWithin(chunk.subarray(from)) && areWithin
  }
}
