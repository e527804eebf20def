/** Finds the differences within a line, as one list of segments, by words and, at their edges, by characters. Pure. */
import { cutBefore } from "./pieces.ts"
import { compare } from "./sequences.ts"

/** A part of a line: in both versions (`same`), or only before (`removed`) or after (`added`). */
export interface Segment {
  readonly kind: "same" | "removed" | "added"
  readonly text: string
}

/** The segments of a line; `isCoarse`: unchanged parts may be marked. */
export interface Marks {
  readonly segments: ReadonlyArray<Segment>
  readonly isCoarse: boolean
}

/** Marks what differs between a line before and after. */
export const marksOf = (before: string, after: string): Marks => {
  if (before === after) return { segments: segments([["same", before]]), isCoarse: false }
  const from = commonStart(before, after)
  const tail = commonEnd(before, after, from)
  const [removed, added] = [before.slice(from, before.length - tail), after.slice(from, after.length - tail)]
  const middle = marksBetween(removed, added)
  const found = segments([
    ["same", before.slice(0, from)],
    ...middle.segments.map(({ kind, text }) => [kind, text] as const),
    ["same", before.slice(before.length - tail)]
  ])
  // if nearly all of a line is marked, marks do not help
  if (before.length < 2_000 && sameIn(found) * 5 < Math.max(visible(before), visible(after))) {
    return { segments: segments([["removed", before], ["added", after]]), isCoarse: false }
  }
  return { segments: found, isCoarse: middle.isCoarse }
}

const segments = (
  parts: ReadonlyArray<readonly [kind: Segment["kind"], text: string]>
): ReadonlyArray<Segment> => {
  const found: Array<{ readonly kind: Segment["kind"]; text: string }> = []
  for (const [kind, text] of parts) {
    if (text === "") continue
    const last = found.at(-1)
    if (last?.kind === kind) last.text += text
    else found.push({ kind, text })
  }
  return found
}

/** Up to this many characters are compared by words; longer texts are first compared in larger parts. */
const maxByWord = 20_000

/** How many characters of all parts of one line are compared by words. */
const maxAllByWord = 200_000

const marksBetween = (before: string, after: string): Marks => {
  if (before.length + after.length <= maxByWord) return byParts(before, after, wordsOf, plainly)
  let left = maxAllByWord
  return byParts(before, after, partsOf, (removed, added) => {
    const size = removed.length + added.length
    if (removed === "" || added === "") return plainly(removed, added)
    if (size > maxByWord || size > left) return { ...plainly(removed, added), isCoarse: true }
    left -= size
    return byParts(removed, added, wordsOf, plainly)
  })
}

/** Compares two texts part by part, and replaced parts with `within`. */
const byParts = (
  before: string,
  after: string,
  cut: (text: string) => ReadonlyArray<string>,
  within: (removed: string, added: string) => Marks
): Marks => {
  if (before === "" || after === "") return plainly(before, after)
  const [ours, theirs] = [cut(before), cut(after)]
  const compared = compare(ours, theirs)
  let { isCoarse } = compared
  const parts: Array<readonly [Segment["kind"], string]> = []
  let at = 0
  let there = 0
  for (const stretch of compared.stretches) {
    if (stretch.kind === "same") {
      parts.push(["same", ours.slice(at, at + stretch.count).join("")])
      at += stretch.count
      there += stretch.count
      continue
    }
    const removed = ours.slice(at, at += stretch.removed).join("")
    const added = theirs.slice(there, there += stretch.added).join("")
    const from = commonStart(removed, added)
    const tail = commonEnd(removed, added, from)
    const inner = within(removed.slice(from, removed.length - tail), added.slice(from, added.length - tail))
    isCoarse ||= inner.isCoarse
    parts.push(
      ["same", removed.slice(0, from)],
      ...inner.segments.map(({ kind, text }) => [kind, text] as const),
      ["same", removed.slice(removed.length - tail)]
    )
  }
  return { segments: segments(parts), isCoarse }
}

const plainly = (removed: string, added: string): Marks => ({
  segments: segments([["removed", removed], ["added", added]]),
  isCoarse: false
})

/** Words, spaces, and single characters with their combining marks. */
const wordPattern = /[\p{L}\p{N}_][\p{L}\p{N}\p{M}_]*|[ \t]+|[^]\p{M}*/gu

const wordsOf = (text: string): ReadonlyArray<string> =>
  (text.match(wordPattern) ?? []).flatMap((word) => word.length > 64 ? partsOf(word) : [word])

/**
 * Cuts a text into parts of about 30 characters at places that depend on its own characters, so an insertion moves no
 * cut elsewhere.
 */
const partsOf = (text: string): ReadonlyArray<string> => {
  const parts: Array<string> = []
  let from = 0
  let before = 0
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    const isCut = (Math.imul(code, 31) + Math.imul(before, 17)) % 32 === 0 || at - from === 256
    before = code
    if (!isCut || at === from || isMark(text, at) || cutBefore(text, at) !== at) continue
    parts.push(text.slice(from, at))
    from = at
  }
  parts.push(text.slice(from))
  return parts
}

/** Length of what both begin with, whole characters with what is written above them. */
const commonStart = (before: string, after: string): number => {
  const most = Math.min(before.length, after.length)
  let at = 0
  while (at < most && before.charCodeAt(at) === after.charCodeAt(at)) at++
  const cut = Math.min(cutBefore(before, at), cutBefore(after, at))
  return isMark(before, cut) || isMark(after, cut) ? wholeBefore(before, cut) : cut
}

/** Length of what both end with, behind what they begin with. */
const commonEnd = (before: string, after: string, from: number): number => {
  const most = Math.min(before.length, after.length) - from
  let tail = 0
  while (tail < most && before.charCodeAt(before.length - 1 - tail) === after.charCodeAt(after.length - 1 - tail)) {
    tail++
  }
  // an end starts neither inside a character nor with a combining mark
  while (
    tail > 0 &&
    (isMark(before, before.length - tail) || cutBefore(before, before.length - tail) !== before.length - tail ||
      cutBefore(after, after.length - tail) !== after.length - tail)
  ) tail--
  return tail
}

const isMark = (text: string, at: number): boolean => {
  const code = text.codePointAt(at)
  return code !== undefined && code > 0x2ff && /\p{M}/u.test(String.fromCodePoint(code))
}

/** Goes back to before the character that the marks at a place are written above. */
const wholeBefore = (text: string, at: number): number => {
  let cut = at
  do cut = cutBefore(text, cut - 1)
  while (cut > 0 && isMark(text, cut))
  return Math.max(0, cut)
}

const visible = (text: string): number => text.replaceAll(/\s/g, "").length

const sameIn = (found: ReadonlyArray<Segment>): number =>
  found.reduce((sum, { kind, text }) => kind === "same" ? sum + visible(text) : sum, 0)
