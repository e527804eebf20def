/**
 * What a write does to files: paths, what is there before, what is there after.
 *
 * A tool previews its write as file changes; a person is shown their diff, the files must still be as shown when the
 * write commits, and what was there before is kept for undoing it.
 *
 * **Example** (Showing a change)
 *
 * ```ts
 * import { FileChange } from "effect-tool-executor"
 *
 * FileChange.diff([{ path: "a.txt", before: "one\n", after: "two\n" }])
 * // => "--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-one\n+two\n"
 * ```
 */
import { sha256 } from "@noble/hashes/sha2.js"
import * as Hex from "effect/encoding/Hex"
import * as TextDiff from "effect/TextDiff"

/** What becomes of one file. */
export interface FileChange {
  /** Relative to the root of the tool, with `/`; of a link, what it leads to. */
  readonly path: string
  /** The content now; absent if there is no such file. */
  readonly before: string | Uint8Array | undefined
  /** The content once it is written; absent: the file is removed. */
  readonly after: string | Uint8Array | undefined
  /** `protected`: it guards other things, nothing allows the write without asking. */
  readonly kind?: "exact" | "protected" | undefined
  /** A tool that runs what is there: `protected` while the policy lets a call of that tool run without asking. */
  readonly runBy?: string | undefined
}

/** Tells whether a value is a list of changes: it may come from code that no compiler has seen. */
export const isChanges = (value: unknown): value is ReadonlyArray<FileChange> =>
  Array.isArray(value) && value.every((it: unknown) => {
    if (typeof it !== "object" || it === null) return false
    const { after, before, path } = it as { readonly [K in keyof FileChange]?: unknown }
    return typeof path === "string" && isContent(before) && isContent(after)
  })

/** Tells whether a change leaves the file as it is. */
export const isNothing = ({ after, before }: FileChange): boolean => {
  if (after === undefined || before === undefined) return after === before
  const [one, other] = [bytesOf(after), bytesOf(before)]
  return one.length === other.length && one.every((byte, index) => byte === other[index])
}

/**
 * Shows changes as a unified diff, file by file.
 *
 * **Details**
 *
 * What cannot be shown line by line (not text, or over 300,000 characters) is one line with the sizes. A diff over
 * `maxChars` (default 20,000) is cut at a line, and says how many lines are missing.
 */
export const diff = (
  changes: ReadonlyArray<FileChange>,
  options?: { readonly maxChars?: number | undefined }
): string => {
  const whole = changes.map(diffOne).join("")
  const limit = options?.maxChars ?? 20_000
  if (whole.length <= limit) return whole
  const cut = whole.lastIndexOf("\n", limit - 1) + 1
  const missing = whole.slice(cut).split("\n").length - 1
  return `${whole.slice(0, cut)}[${missing} more lines are not shown]\n`
}

/** Gives one text for files that are the same: a SHA-256 of their paths and of what is there before the change. */
export const fingerprint = (changes: ReadonlyArray<FileChange>): string =>
  hash(changes.flatMap(({ before, path }) => [path, before]))

/** Gives the SHA-256 of one content, in hex; the empty text if there is no content. */
export const hashOf = (content: FileChange["before"]): string =>
  content === undefined ? "" : Hex.encode(sha256(bytesOf(content)))

/** Gives a content as bytes. */
export const bytesOf = (content: string | Uint8Array): Uint8Array =>
  typeof content === "string" ? new TextEncoder().encode(content) : content

// Utilities

const isContent = (value: unknown): boolean =>
  value === undefined || typeof value === "string" || value instanceof Uint8Array

/** So much text is compared; more would hold up everybody else. */
const maxText = 300_000

const maxEdits = 200

/** Parts cannot run into each other: each is hashed by itself first. */
const hash = (parts: ReadonlyArray<FileChange["before"]>): string => {
  const whole = sha256.create()
  for (const part of parts) whole.update(part === undefined ? new Uint8Array(32) : sha256(bytesOf(part)))
  return Hex.encode(whole.digest())
}

const diffOne = ({ after, before, path }: FileChange): string => {
  const texts = [textOf(before), textOf(after)] as const
  const name = /^[^"\\\p{C}]*$/u.test(path) ? path : JSON.stringify(path)
  const fromFile = before === undefined ? "/dev/null" : name
  const toFile = after === undefined ? "/dev/null" : name
  if (texts[0] === undefined || texts[1] === undefined || texts[0].length + texts[1].length > maxText) {
    return `--- ${fromFile}\n+++ ${toFile}\n[${sizeOf(before)} become ${sizeOf(after)}]\n`
  }
  const lines = TextDiff.unified(TextDiff.lines(texts[0], texts[1], { maxEdits }), { fromFile, toFile })
  if (lines !== "") return lines
  const what = before === after ? "nothing changes" : before === undefined
    ? "an empty file is created"
    : after === undefined
    ? "an empty file is removed"
    : "nothing changes"
  return `--- ${fromFile}\n+++ ${toFile}\n[${what}]\n`
}

/** The text of a content; `undefined` if it is not text. */
const textOf = (content: FileChange["before"]): string | undefined => {
  if (content === undefined) return ""
  if (typeof content === "string") return content
  if (content.length > maxText) return undefined
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content)
    return text.includes("\0") ? undefined : text
  } catch {
    return undefined
  }
}

const sizeOf = (content: FileChange["before"]): string =>
  `${(content === undefined ? 0 : bytesOf(content).length).toLocaleString("en")} bytes`
