/**
 * Prepares rows for display: unchanged lines fold, changes never do. A line that is too long for one row takes several,
 * so that every character can be reached, and pages are small enough for any browser. Pure.
 */
import type { Marks, Segment } from "./marks.ts"
import { cutBefore } from "./pieces.ts"
import { isChange, marksIn, type Row } from "./rows.ts"

/** One row of a page. */
export type Shown =
  | {
    readonly kind: "fold"
    /** The key that opens the fold. */
    readonly key: string
    readonly what: "lines" | "characters"
    readonly count: number
  }
  | {
    readonly kind: "line"
    readonly row: Row
    /** The segments of the row, computed on first use. */
    readonly marks: () => Marks
    /** Approximate number of characters. */
    readonly size: number
    /** Index of this part of the line, from 0. */
    readonly part: number
    readonly isLast: boolean
    readonly isChanged: boolean
  }

/** How many unchanged lines around a change are shown. */
const context = 3

/** Longer lines are shown in parts of about this length. */
const longLine = 2_000

/** How many equal characters fold within a long line, and how many at both ends stay visible. */
const longSame = 400
const sameAround = 100

/** Finds the differences within rows and caches them, since long lines take time. */
export const keptMarks = (): (row: Row) => Marks => {
  const known = new WeakMap<Row, Marks>()
  return (row) => {
    const marks = known.get(row) ?? marksIn(row)
    known.set(row, marks)
    return marks
  }
}

/** Folds unchanged rows unless `opened` has their key. */
export const shownOf = (
  rows: ReadonlyArray<Row>,
  opened: ReadonlySet<string>,
  marks: (row: Row) => Marks = keptMarks()
): ReadonlyArray<Shown> => {
  const near = nearChanges(rows)
  const shown: Array<Shown> = []
  for (let at = 0; at < rows.length;) {
    let to = at
    while (to < rows.length && near[to] === 0) to++
    const key = `lines ${at}`
    // a fold takes one line itself
    if (to - at > 1 && !opened.has(key)) {
      shown.push({ kind: "fold", key, what: "lines", count: to - at })
      at = to
    } else {
      for (to = Math.max(to, at + 1); at < to; at++) {
        for (const it of lineOf(rows[at]!, at, opened, marks)) shown.push(it)
      }
    }
  }
  return shown
}

/** Returns the first row of each page; `most` limits rows and characters of a page. */
export const pagesOf = (
  shown: ReadonlyArray<Shown>,
  most: { readonly rows: number; readonly characters: number } = { rows: 300, characters: 60_000 }
): ReadonlyArray<number> => {
  const starts = [0]
  let characters = 0
  shown.forEach((it, at) => {
    const size = it.kind === "fold" ? 0 : it.size
    const start = starts.at(-1)!
    if (at > start && (at - start >= most.rows || characters + size > most.characters)) {
      starts.push(at)
      characters = 0
    }
    characters += size
  })
  return starts
}

/** Returns the rows to jump to: the start of each change, and each part of a long line with a change. */
export const changesIn = (shown: ReadonlyArray<Shown>): ReadonlyArray<number> =>
  shown.flatMap((it, at) => {
    const before = shown[at - 1]
    const goesOn = before?.kind === "line" && before.isChanged && it.kind === "line" && it.part === 0 &&
      before.part === 0
    return it.kind === "line" && it.isChanged && !goesOn ? [at] : []
  })

/** Counts added and removed lines. */
export const countsOf = (rows: ReadonlyArray<Row>): { readonly removed: number; readonly added: number } => {
  const differing = rows.filter(isChange)
  return {
    removed: differing.filter(({ before }) => before !== undefined).length,
    added: differing.filter(({ after }) => after !== undefined).length
  }
}

/** Marks the rows near a change, and notes. */
const nearChanges = (rows: ReadonlyArray<Row>): Uint8Array => {
  const near = new Uint8Array(rows.length)
  rows.forEach((row, at) => {
    if (row.kind === "note") near[at] = 1
    else if (row.kind !== "same") near.fill(1, Math.max(0, at - context), at + context + 1)
  })
  return near
}

const lineOf = (
  row: Row,
  at: number,
  opened: ReadonlySet<string>,
  marks: (row: Row) => Marks
): ReadonlyArray<Shown> => {
  const isChanged = isChange(row)
  const length = row.kind === "note" ? row.text.length : Math.max(lengthOf(row.before), lengthOf(row.after))
  if (length <= longLine) {
    return [{ kind: "line", row, marks: () => marks(row), size: length, part: 0, isLast: true, isChanged }]
  }
  const { isCoarse, segments } = marks(row)
  const parts: Array<Shown> = []
  const add = (part: ReadonlyArray<Segment>, size: number) =>
    parts.push({
      kind: "line",
      row,
      marks: () => ({ segments: part, isCoarse }),
      size,
      part: parts.length,
      isLast: false,
      isChanged: part.some(({ kind }) => kind !== "same")
    })
  let part: Array<Segment> = []
  let size = 0
  const close = () => {
    if (part.length > 0) add(part, size)
    part = []
    size = 0
  }
  const put = (kind: Segment["kind"], text: string) => {
    for (let from = 0; from < text.length;) {
      const room = cutBefore(text, from + Math.max(2, longLine - size))
      part.push({ kind, text: text.slice(from, room) })
      size += room - from
      from = room
      if (size >= longLine - 1) close()
    }
  }
  segments.forEach(({ kind, text }, index) => {
    const key = `characters ${at} ${index}`
    const head = index === 0 && segments.length > 1 ? 0 : cutBefore(text, sameAround)
    const tail = index === segments.length - 1 && index > 0 ? text.length : cutBefore(text, text.length - sameAround)
    if (kind !== "same" || tail - head < longSame || opened.has(key)) return put(kind, text)
    put(kind, text.slice(0, head))
    close()
    parts.push({ kind: "fold", key, what: "characters", count: tail - head })
    put(kind, text.slice(tail))
  })
  close()
  const last = parts.findLastIndex(({ kind }) => kind === "line")
  return parts.map((it, index) => it.kind === "line" && index === last ? { ...it, isLast: true } : it)
}

const lengthOf = (line: { readonly text: string } | undefined): number => line?.text.length ?? 0
