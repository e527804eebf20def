/**
 * A window of lines, cut out of a file that goes by in chunks.
 *
 * Only the lines asked for are kept in memory. A chunk may end anywhere, also within a character.
 */
import * as Utf8 from "./Utf8.ts"

const newline = 10

/** What was asked for, and what was found. */
export interface LineWindow {
  /** Takes the next chunk. */
  readonly push: (chunk: Buffer) => void
  /** Whether no further line will be kept. */
  readonly isFull: () => boolean
  /** Ends the window; no chunk may follow. */
  readonly end: () => {
    readonly content: string
    /** Last line in `content`; one less than the first if `content` is empty. */
    readonly endLine: number
    /** Lines that went by. */
    readonly lines: number
    /** Whether the one line in `content` was too long and lacks its end. */
    readonly cut: boolean
  }
}

/**
 * Makes a window of at most `maxLines` lines and `maxBytes` bytes, beginning with line `startLine` (from 1). A line
 * that would exceed the bytes is left out whole, unless it is the first: then it is cut.
 */
export const make = (startLine: number, maxLines: number, maxBytes: number): LineWindow => {
  const lastLine = startLine + maxLines - 1
  const pieces: Array<Buffer> = []
  let bytes = 0
  let newlines = 0
  let unfinished = false
  let unfinishedPieces = 0
  let endLine = startLine - 1
  let full = false
  let cut = false

  const keep = (piece: Buffer, line: number, finishes: boolean) => {
    if (bytes + piece.length > maxBytes) {
      full = true
      if (endLine >= startLine) {
        pieces.length -= unfinishedPieces
      } else {
        pieces.push(Buffer.from(piece.subarray(0, maxBytes - bytes)))
        endLine = line
        cut = true
      }
      return
    }
    pieces.push(Buffer.from(piece))
    bytes += piece.length
    unfinishedPieces = finishes ? 0 : unfinishedPieces + 1
    if (finishes) endLine = line
  }

  return {
    push: (chunk) => {
      let at = 0
      while (at < chunk.length) {
        const found = chunk.indexOf(newline, at)
        const end = found === -1 ? chunk.length : found + 1
        const line = newlines + 1
        if (!full && line >= startLine && line <= lastLine) keep(chunk.subarray(at, end), line, found !== -1)
        unfinished = found === -1
        if (!unfinished) newlines++
        at = end
      }
    },
    isFull: () => full || newlines >= lastLine,
    end: () => {
      const lines = newlines + (unfinished ? 1 : 0)
      if (!full && unfinishedPieces > 0) endLine = lines
      const whole = Buffer.concat(pieces)
      return {
        content: Utf8.decode(cut ? whole.subarray(0, Utf8.wholeLength(whole)) : whole),
        endLine,
        lines,
        cut
      }
    }
  }
}
