/** Lines of an output that comes in pieces. */
import type { Readable } from "node:stream"

/**
 * Gives what takes the pieces and tells each line once it is whole. Of a line of more than `maxBytes` nothing is kept;
 * the answer is then `false`.
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

/**
 * Gives a function that takes chunks and delivers their lines one by one, each in a separate microtask. After some
 * lines it pauses until `others` continues. The output is not read meanwhile, so a source that writes without end
 * neither blocks other work nor fills memory. The result is that of `lines`.
 */
export const linesInTurns = (maxBytes: number, onLine: (line: string) => void, others: (goOn: () => void) => void) => {
  let waiting: Array<string> = []
  let next = 0
  const push = lines(maxBytes, (line) => void waiting.push(line))
  let left = linesInOneTurn
  const tell = (source: Readable): void => {
    const line = waiting[next++]
    if (line === undefined) {
      waiting = []
      next = 0
      source.resume()
      return
    }
    onLine(line)
    if (--left > 0) return queueMicrotask(() => tell(source))
    left = linesInOneTurn
    others(() => tell(source))
  }
  return (chunk: Buffer, source: Readable): boolean => {
    source.pause()
    const areWithin = push(chunk)
    tell(source)
    return areWithin
  }
}

const linesInOneTurn = 50
