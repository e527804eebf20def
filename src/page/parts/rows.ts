/**
 * Turns two versions of a text into rows shown side by side: equal, changed, removed and added lines. Together the rows
 * contain both texts completely, line ends included. Pure.
 */
import { type Marks, marksOf } from "./marks.ts"
import { compare, type Stretch } from "./sequences.ts"

/** How a line ends; `""`: the text ends with it. */
export type End = "\n" | "\r\n" | ""

/** A line of one of the two texts. */
export interface Line {
  /** From 1; 0 where it is not known. */
  readonly number: number
  readonly text: string
  readonly end: End
}

/** The lines of one row. A `note` is text between the hunks of a diff. */
export type Row =
  | { readonly kind: "same" | "changed"; readonly before: Line; readonly after: Line }
  | { readonly kind: "removed"; readonly before: Line; readonly after: undefined }
  | { readonly kind: "added"; readonly before: undefined; readonly after: Line }
  | { readonly kind: "note"; readonly text: string; readonly before: undefined; readonly after: undefined }

/** All rows of a file; `isCoarse`: unchanged lines may be marked as changed. */
export interface Rows {
  readonly rows: ReadonlyArray<Row>
  readonly isCoarse: boolean
}

/** Compares a file before and after; a missing file has no lines. */
export const rowsOf = (before: string | null, after: string | null): Rows => {
  const [ours, theirs] = [linesOf(before ?? ""), linesOf(after ?? "")]
  const compared = compare(ours.map(({ text }) => text), theirs.map(({ text }) => text))
  let at = 0
  let there = 0
  const rows: Array<Row> = []
  for (const stretch of compared.stretches) {
    const [here, other] = sizeOf(stretch)
    const [removed, added] = [ours.slice(at, at += here), theirs.slice(there, there += other)]
    if (stretch.kind === "same") removed.forEach((line, index) => rows.push(rowOf(line, added[index])))
    else for (const row of beside(removed, added)) rows.push(row)
  }
  return { rows, isCoarse: compared.isCoarse }
}

/** Cuts a text into lines. A final line end does not add an empty line. */
export const linesOf = (text: string): ReadonlyArray<Line> => {
  const lines: Array<Line> = []
  for (let from = 0; from < text.length;) {
    const found = text.indexOf("\n", from)
    const end: End = found === -1 ? "" : found > from && text[found - 1] === "\r" ? "\r\n" : "\n"
    const to = found === -1 ? text.length : found + 1
    lines.push({ number: lines.length + 1, text: text.slice(from, to - end.length), end })
    from = to
  }
  return lines
}

/** Pairs removed lines with the lines that replaced them. */
export const beside = (removed: ReadonlyArray<Line>, added: ReadonlyArray<Line>): ReadonlyArray<Row> => {
  const rows: Array<Row> = []
  let at = 0
  let there = 0
  for (const [here, other] of pairs(removed, added)) {
    rows.push(...alone(removed.slice(at, here), added.slice(there, other)))
    rows.push(rowOf(removed[here]!, added[other]))
    at = here + 1
    there = other + 1
  }
  rows.push(...alone(removed.slice(at), added.slice(there)))
  return rows
}

/** Whether a row is a change. */
export const isChange = (row: Row): boolean => row.kind !== "same" && row.kind !== "note"

/** Returns the differences within a row. */
export const marksIn = (row: Row): Marks =>
  row.before !== undefined && row.after !== undefined
    ? marksOf(row.before.text, row.after.text)
    : {
      segments: [{
        kind: row.kind === "removed" || row.kind === "added" ? row.kind : "same",
        text: row.kind === "note" ? row.text : (row.before ?? row.after).text
      }],
      isCoarse: false
    }

/** Explains a change that is hard to see. */
export const hintOf = ({ after, before, kind }: Row): string | undefined => {
  if (kind === "same" || before === undefined || after === undefined) return undefined
  if (before.text === after.text) {
    return `Only the line ending changed: ${endName(before.end)} before, ${endName(after.end)} after`
  }
  const ends = before.end === after.end
    ? ""
    : `; the line ending changed too: ${endName(before.end)} before, ${endName(after.end)} after`
  if (before.text.replaceAll(/\s/g, "") === after.text.replaceAll(/\s/g, "")) return `Only whitespace changed${ends}`
  if (before.text.normalize("NFKC") === after.text.normalize("NFKC")) {
    return `Looks the same, but uses different characters${ends}`
  }
  return ends === "" ? undefined : ends.slice(2).replace("the line ending changed too", "The line ending changed")
}

/** Explains changes to the whole file that are hard to see. */
export const hintsOf = (rows: ReadonlyArray<Row>): ReadonlyArray<string> => {
  const last = (side: "before" | "after") => rows.findLast((row) => row[side] !== undefined)?.[side]
  const [before, after] = [last("before"), last("after")]
  const ends = rows.filter((row) => row.kind === "changed" && endsDiffer(row.before, row.after))
  const spaces = rows.filter((row) => hintOf(row)?.startsWith("Only whitespace") === true).length
  return [
    ...ends.length > 1
      ? [
        `Line endings changed in ${ends.length} lines: ${endsIn(rows, "before")} before, ${endsIn(rows, "after")} after`
      ]
      : [],
    ...spaces > 0 ? [`Only whitespace changed in ${lines(spaces)}`] : [],
    ...before?.end === "" && after?.end !== "" && after !== undefined
      ? ["Before, the file did not end with a line break"]
      : [],
    ...after?.end === "" && before?.end !== "" ? ["The file does not end with a line break"] : []
  ]
}

/** The name of a line end. */
export const endName = (end: End): string => end === "\n" ? "LF" : end === "\r\n" ? "CRLF" : "none"

const lines = (count: number): string => count === 1 ? "1 line" : `${count} lines`

const sizeOf = (stretch: Stretch): readonly [number, number] =>
  stretch.kind === "same" ? [stretch.count, stretch.count] : [stretch.removed, stretch.added]

const rowOf = (before: Line, after: Line | undefined): Row =>
  after === undefined
    ? { kind: "removed", before, after }
    : { kind: before.text === after.text && before.end === after.end ? "same" : "changed", before, after }

const alone = (removed: ReadonlyArray<Line>, added: ReadonlyArray<Line>): ReadonlyArray<Row> => [
  ...removed.map((before): Row => ({ kind: "removed", before, after: undefined })),
  ...added.map((after): Row => ({ kind: "added", before: undefined, after }))
]

/** Up to this many pairs are searched for similar lines; beyond that, lines are paired in order. */
const maxPairs = 2_500

/** Chooses which lines share a row: in order, or by similarity if one side has more lines. */
const pairs = (
  removed: ReadonlyArray<Line>,
  added: ReadonlyArray<Line>
): ReadonlyArray<readonly [number, number]> => {
  const [here, other] = [removed.length, added.length]
  if (here === other || here * other > maxPairs) {
    return Array.from({ length: Math.min(here, other) }, (_, at) => [at, at] as const)
  }
  const [ours, theirs] = [removed.map(wordsIn), added.map(wordsIn)]
  const width = other + 1
  const best = new Float64Array((here + 1) * width)
  for (let at = here - 1; at >= 0; at--) {
    for (let there = other - 1; there >= 0; there--) {
      best[at * width + there] = Math.max(
        best[(at + 1) * width + there]!,
        best[at * width + there + 1]!,
        likeness(ours[at]!, theirs[there]!) + best[(at + 1) * width + there + 1]!
      )
    }
  }
  const found: Array<readonly [number, number]> = []
  for (let at = 0, there = 0; at < here && there < other;) {
    const now = best[at * width + there]!
    if (now === best[(at + 1) * width + there]!) at++
    else if (now === best[at * width + there + 1]!) there++
    else found.push([at++, there++])
  }
  return found
}

/** The share of words that two lines have in common, from 0 to 1; a small share counts as 0. */
const likeness = (before: ReadonlySet<string>, after: ReadonlySet<string>): number => {
  let common = 0
  for (const word of before) if (after.has(word)) common++
  const share = (common + 0.1) / (Math.max(before.size, after.size) + 0.1)
  return share < 0.3 ? 0 : share
}

const wordsIn = ({ text }: Line): ReadonlySet<string> =>
  new Set(text.slice(0, 500).match(/[\p{L}\p{N}_]+|[^\s\p{L}\p{N}_]/gu) ?? [])

const endsDiffer = (before: Line, after: Line): boolean =>
  before.end !== after.end && before.end !== "" && after.end !== ""

const endsIn = (rows: ReadonlyArray<Row>, side: "before" | "after"): string =>
  [...new Set(rows.flatMap((row) => row[side] === undefined || row[side].end === "" ? [] : [endName(row[side].end)]))]
    .join(" and ")
