/**
 * File changes of a write: paths, old contents and new contents.
 *
 * Approvers see them as a diff. The files must be unchanged when the write commits, and the old contents are kept for
 * undo.
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

export interface FileChange {
  /** Relative to the tool's root, with `/`. For a link: its destination. */
  readonly path: string
  /** The current content; absent if the file does not exist. */
  readonly before: string | Uint8Array | undefined
  /** The new content; absent if the file is removed. */
  readonly after: string | Uint8Array | undefined
  /** `protected`: the file guards other things, so the write always needs approval. */
  readonly kind?: "exact" | "protected" | undefined
  /** A tool that runs this file. It is `protected` while the policy lets calls of that tool run without approval. */
  readonly runBy?: string | undefined
}

/** Whether a value, possibly from untyped code, is a list of changes. */
export const isChanges = (value: unknown): value is ReadonlyArray<FileChange> =>
  Array.isArray(value) && value.every((it: unknown) => {
    if (typeof it !== "object" || it === null) return false
    const { after, before, path } = it as { readonly [K in keyof FileChange]?: unknown }
    return typeof path === "string" && isContent(before) && isContent(after)
  })

/** Whether a change leaves the file unchanged. */
export const isNothing = ({ after, before }: FileChange): boolean => {
  if (after === undefined || before === undefined) return after === before
  const [one, other] = [bytesOf(after), bytesOf(before)]
  return one.length === other.length && one.every((byte, index) => byte === other[index])
}

/**
 * Formats changes as a unified diff.
 *
 * Binary files and files over 300,000 characters take one line with their sizes. A diff over `maxChars` (default
 * 20,000) is cut at a line and says how many lines are missing.
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

/** Whether a diff shows all of its changes: it was not cut, and no file is there with its sizes alone. */
export const isWhole = (diff: string): boolean => !/^\[(?:\d+ more lines|[\d,]+ bytes become) /m.test(diff)

/** Returns a SHA-256 of paths and old contents: equal for equal files. */
export const fingerprint = (changes: ReadonlyArray<FileChange>): string =>
  hash(changes.flatMap(({ before, path }) => [path, before]))

/** Returns the SHA-256 of a content in hex; empty without a content. */
export const hashOf = (content: FileChange["before"]): string =>
  content === undefined ? "" : Hex.encode(sha256(bytesOf(content)))

export const bytesOf = (content: string | Uint8Array): Uint8Array =>
  typeof content === "string" ? new TextEncoder().encode(content) : content

const isContent = (value: unknown): boolean =>
  value === undefined || typeof value === "string" || value instanceof Uint8Array

/** Limits the time a diff blocks other fibers. */
const maxText = 300_000

const maxEdits = 200

/** Hashes each part first, so that adjacent parts cannot be confused. */
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

/** The text of a content; `undefined` if it is binary. */
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
