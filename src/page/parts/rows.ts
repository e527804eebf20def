/**
 * Two texts of a file as rows that are shown side by side: lines that are the same, changed, taken
 * out or put in. Together the rows are both texts whole, line ends included. Pure.
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

/** What is shown beside each other. `note` is what a diff says between its parts. */
export type Row =
  | { readonly kind: "same" | "changed"; readonly before: Line; readonly after: Line }
  | { readonly kind: "removed"; readonly before: Line; readonly after: undefined }
  | { readonly kind: "added"; readonly before: undefined; readonly after: Line }
  | { readonly kind: "note"; readonly text: string; readonly before: undefined; readonly after: undefined }

/** All of a file; `isCoarse`: lines may be marked as changed that could be told to have moved. */
export interface Rows {
  readonly rows: ReadonlyArray<Row>
  readonly isCoarse: boolean
}

/** Compares a file before and after; one that is not there has no lines. */
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

/** Cuts a text into lines; what ends with a line end has no empty line behind it. */
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

/** Puts lines that were taken out beside those that came in their place. */
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

/** Tells whether a row is of what differs. */
export const isChange = (row: Row): boolean => row.kind !== "same" && row.kind !== "note"

/** Gives what differs within a row, as far as it is one line. */
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

/** Says of a changed row what the eye does not see, or sees and does not understand. */
export const hintOf = ({ after, before, kind }: Row): string | undefined => {
  if (kind === "same" || before === undefined || after === undefined) return undefined
  if (before.text === after.text) {
    return `Only the end of the line differs: ${endName(before.end)} before, ${endName(after.end)} after`
  }
  const ends = before.end === after.end
    ? ""
    : `; its end too: ${endName(before.end)} before, ${endName(after.end)} after`
  if (before.text.replaceAll(/\s/g, "") === after.text.replaceAll(/\s/g, "")) return `Only white space differs${ends}`
  if (before.text.normalize("NFKC") === after.text.normalize("NFKC")) {
    return `It reads the same, and is written with other characters${ends}`
  }
  return ends === "" ? undefined : ends.slice(2).replace("its", "Its")
}

/** Says what of the whole file the eye does not see. */
export const hintsOf = (rows: ReadonlyArray<Row>): ReadonlyArray<string> => {
  const last = (side: "before" | "after") => rows.findLast((row) => row[side] !== undefined)?.[side]
  const [before, after] = [last("before"), last("after")]
  const ends = rows.filter((row) => row.kind === "changed" && endsDiffer(row.before, row.after))
  const spaces = rows.filter((row) => hintOf(row)?.startsWith("Only white space") === true).length
  return [
    ...ends.length > 1
      ? [`The ends of ${ends.length} lines differ: ${endsIn(rows, "before")} before, ${endsIn(rows, "after")} after`]
      : [],
    ...spaces > 0 ? [`In ${lines(spaces)} only white space differs`] : [],
    ...before?.end === "" && after?.end !== "" && after !== undefined
      ? ["Before, the file does not end with a line end"]
      : [],
    ...after?.end === "" && before?.end !== "" ? ["The file does not end with a line end"] : []
  ]
}

/** Names the end of a line. */
export const endName = (end: End): string => end === "\n" ? "LF" : end === "\r\n" ? "CRLF" : "none"

// Utilities

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

/** So many pairs of lines are looked at for those that are alike; past that they stand beside each other in turn. */
const maxPairs = 2_500

/** Chooses which lines stand beside each other: as many as are there, or, where the one side has more, those that are alike. */
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

/** How many of their words two lines have in common, from 0 to 1; few of them are none. */
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
