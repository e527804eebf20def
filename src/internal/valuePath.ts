/**
 * Paths into JSON values: `rows[0].kind`, the same after `$.` as JSONPath has it, or a JSON Pointer (RFC 6901) such as
 * `/rows/0/kind` where keys hold dots. The empty path is the whole value.
 */
import * as JsonPointer from "effect/JsonPointer"

const part = /(?:^|\.)([^.[\]]+)|\[(\d+)\]/gy

/** Gives the keys of a path; `undefined` if it is not one. */
export const keysOf = (path: string): ReadonlyArray<string> | undefined => {
  if (path.startsWith("/")) return path.slice(1).split("/").map(JsonPointer.unescapeToken)
  const dotted = path.replace(/^\$(?:\.(?=.)|(?=\[)|$)/, "")
  if (dotted.startsWith(".")) return undefined
  const keys: Array<string> = []
  let end = 0
  part.lastIndex = 0
  for (let match = part.exec(dotted); match !== null; match = part.exec(dotted)) {
    keys.push(match[1] ?? match[2]!)
    end = part.lastIndex
  }
  return end === dotted.length ? keys : undefined
}

/** Tells whether a text is a path. */
export const isPath = (path: string): boolean => keysOf(path) !== undefined

/** Gives the value at a path, or `undefined`. */
export const valueAt = (value: unknown, path: string): unknown => {
  let found = value
  for (const key of keysOf(path) ?? []) {
    if (typeof found !== "object" || found === null || !Object.hasOwn(found, key)) return undefined
    if (Array.isArray(found) && !/^\d+$/.test(key)) return undefined
    found = (found as Record<string, unknown>)[key]
  }
  return found
}
