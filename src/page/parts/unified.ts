/**
 * Turns a unified diff into rows. Lines that do not belong to a diff are shown unchanged; nothing is left out. Pure.
 */
import { beside, type Line, linesOf, type Row } from "./rows.ts"

/** Reads the rows of a unified diff of one or more files. */
export const rowsOfDiff = (diff: string): ReadonlyArray<Row> => {
  const rows: Array<Row> = []
  let removed: Array<Line> = []
  let added: Array<Line> = []
  const settle = () => {
    for (const row of beside(removed, added)) rows.push(row)
    removed = []
    added = []
  }
  // lines that the hunk still has on each side; until then a line that looks like a heading is content
  const left = { before: 0, after: 0 }
  const at = { before: 0, after: 0 }
  let last: "before" | "after" | "same" | undefined
  for (const { end, text } of linesOf(diff)) {
    const heading = /^@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@/.exec(text)
    const isIn = left.before > 0 || left.after > 0
    const sign = text[0]
    if (isIn && sign === "-" && left.before > 0) {
      if (last === "after") settle()
      removed.push({ number: at.before++, text: text.slice(1), end: lineEnd(end) })
      left.before--
      last = "before"
    } else if (isIn && sign === "+" && left.after > 0) {
      added.push({ number: at.after++, text: text.slice(1), end: lineEnd(end) })
      left.after--
      last = "after"
    } else if (isIn && (sign === " " || text === "") && left.before > 0 && left.after > 0) {
      settle()
      const line = { text: text.slice(1), end: lineEnd(end) }
      rows.push({ kind: "same", before: { ...line, number: at.before++ }, after: { ...line, number: at.after++ } })
      left.before--
      left.after--
      last = "same"
    } else if (sign === "\\" && last !== undefined && withoutEnd(last, removed, added, rows)) {
      last = undefined
    } else {
      settle()
      rows.push({ kind: "note", text, before: undefined, after: undefined })
      last = undefined
      if (heading === null) {
        left.before = left.after = 0
        continue
      }
      at.before = Number(heading[1])
      at.after = Number(heading[3])
      left.before = Number(heading[2] ?? 1)
      left.after = Number(heading[4] ?? 1)
    }
  }
  settle()
  return rows
}

/** Every line of a diff has an end; a missing end is noted on the next line. */
const lineEnd = (end: Line["end"]): Line["end"] => end === "" ? "\n" : end

/** Removes the end of the last line, for `\ No newline at end of file`. */
const withoutEnd = (
  last: "before" | "after" | "same",
  removed: Array<Line>,
  added: Array<Line>,
  rows: Array<Row>
): boolean => {
  const lines = last === "before" ? removed : added
  const line = lines.pop()
  if (line !== undefined) lines.push({ ...line, end: "" })
  else {
    const row = rows.pop()
    if (row === undefined) return false
    if (row.kind !== "same") return rows.push(row) === 0
    rows.push({ ...row, before: { ...row.before, end: "" }, after: { ...row.after, end: "" } })
  }
  return true
}
