/**
 * One text for every JSON value: object keys sorted at every depth, arrays in order. Two values have the same text
 * exactly when they are the same JSON. Maps, sets, big integers and numbers that are not finite, which JSON does not
 * have, get distinct texts, too.
 */

/** Gives the canonical text of a JSON value; `undefined` properties are left out, as `JSON.stringify` does. */
export const canonicalJson = (value: unknown): string => JSON.stringify(sorted(value)) ?? "null"

/** A copy with its keys in order, since `JSON.stringify` is far faster than building the text here. */
const sorted = (value: unknown): unknown => {
  if (typeof value === "number" && !Number.isFinite(value)) return tagged("number", String(value))
  if (typeof value === "bigint") return tagged("bigint", String(value))
  if (typeof value !== "object" || value === null) return value
  if (value instanceof Map) return tagged("map", sorted(Array.from(value)))
  if (value instanceof Set) return tagged("set", sorted(Array.from(value)))
  if (Array.isArray(value)) return value.map(sorted)
  if ("toJSON" in value && typeof value.toJSON === "function") return sorted(value.toJSON())
  const copy: Record<string, unknown> = {}
  for (const key of inOrder(Object.keys(value))) {
    const property = sorted((value as Record<string, unknown>)[key])
    // a plain assignment would set the prototype and lose the key
    if (key === "__proto__") Object.defineProperty(copy, key, { value: property, enumerable: true })
    else copy[key] = property
  }
  return copy
}

/** What JSON has no text for, told apart from what it has. */
const tagged = (kind: string, value: unknown): unknown => ({ "\u0000": kind, value })

/** Sorts in place; most objects have few keys, and for those an insertion is several times faster than `sort`. */
const inOrder = (keys: Array<string>): Array<string> => {
  if (keys.length > 16) return keys.sort()
  for (let i = 1; i < keys.length; i++) {
    const key = keys[i]!
    let at = i
    for (; at > 0 && keys[at - 1]! > key; at--) keys[at] = keys[at - 1]!
    keys[at] = key
  }
  return keys
}
