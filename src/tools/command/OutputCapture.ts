/** The head and the tail of an output of any length. */
import * as Utf8 from "../files/Utf8.ts"

/** Keeps the first and the last bytes of what is pushed. */
export interface OutputCapture {
  readonly push: (chunk: Buffer) => void
  /** The text so far; where bytes were dropped a line says how many. */
  readonly text: () => { readonly text: string; readonly droppedBytes: number }
}

/** Makes a capture that keeps at most `maxBytes`, half of them from the start. */
export const make = (maxBytes: number): OutputCapture => {
  const half = Math.floor(maxBytes / 2)
  const head: Array<Buffer> = []
  let headBytes = 0
  const tail: Array<Buffer> = []
  let tailBytes = 0
  let total = 0

  return {
    push: (chunk) => {
      total += chunk.length
      const first = chunk.subarray(0, half - headBytes)
      if (first.length > 0) {
        head.push(first)
        headBytes += first.length
      }
      const rest = chunk.subarray(first.length)
      if (rest.length === 0) return
      tail.push(rest)
      tailBytes += rest.length
      while (tailBytes - tail[0]!.length >= half) tailBytes -= tail.shift()!.length
    },
    text: () => {
      const start = Buffer.concat(head)
      const end = Buffer.concat(tail)
      if (total <= half * 2) return { text: Utf8.decode(Buffer.concat([start, end])), droppedBytes: 0 }
      const shownStart = start.subarray(0, Utf8.wholeLength(start))
      const cut = end.subarray(end.length - half)
      const shownEnd = cut.subarray(Utf8.firstWhole(cut))
      const droppedBytes = total - shownStart.length - shownEnd.length
      return {
        text: `${Utf8.decode(shownStart)}\n[${droppedBytes} bytes are not shown]\n${Utf8.decode(shownEnd)}`,
        droppedBytes
      }
    }
  }
}
