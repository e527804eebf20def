/** Cuts text that a model or a tool chose to the width of a terminal. */
import * as CliOutput from "effect/cli/CliOutput"
import { escape } from "../internal/escape.ts"

/** Escapes the text and cuts it to a number of terminal columns, with `…` for what was cut. */
export const clip = (text: string, columns: number): string => {
  // a character is at least one column wide once it is escaped, or a mark on one
  const looked = text.length > columns * 4 ? text.slice(0, columns * 4) : text
  const shown = escape(looked)
  if (looked === text && CliOutput.displayWidth(shown) <= columns) return shown
  let cut = ""
  let width = 0
  for (const { segment } of graphemes.segment(shown)) {
    width += CliOutput.displayWidth(segment)
    if (width > columns - 1) break
    cut += segment
  }
  return `${cut}…`
}

const graphemes = new Intl.Segmenter("en", { granularity: "grapheme" })
