/**
 * The chain of a journal's lines: each line has a hash over itself and the hash of the line before. A line that was
 * changed, removed or moved breaks it.
 */
import { createHash } from "node:crypto"

export interface Link {
  readonly place: number
  /** Empty: nothing is chained yet. */
  readonly chain: string
}

/** Before the first line. */
export const start: Link = { place: 0, chain: "" }

/** Gives the line of a text that follows another line, and its link. */
export const after = (last: Link, text: string): { readonly line: string; readonly link: Link } => {
  const place = last.place + 1
  const rest = text.slice(1)
  const chain = hashOf(last.chain, place, Buffer.from(rest))
  return { line: `{"place":${place},"chain":"${chain}",${rest}\n`, link: { place, chain } }
}

/** Reads place and hash at the beginning of a line; `length` is where the rest begins. */
export const read = (line: string): (Link & { readonly length: number }) | undefined => {
  const [head, place, chain = ""] = /^\{"place":([1-9]\d*),(?:"chain":"([\w-]{43})",)?/.exec(line) ?? []
  return head === undefined ? undefined : { place: Number(place), chain, length: head.length }
}

/** The hash of a line by its place and what follows its hash. */
export const hashOf = (before: string, place: number, rest: Uint8Array): string =>
  createHash("sha256").update(`${before}\n${place}\n`).update(rest).digest("base64url")
