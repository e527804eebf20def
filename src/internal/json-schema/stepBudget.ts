/** How large a value and a schema are, as far as that is what a check may take. */
import type { Document } from "./document.ts"

/**
 * Gives the steps that a check of a value may take beyond those of any value: as many as are needed where each schema
 * of a document looks at each part of the value a few times, and at each of its characters. What takes more is slow by
 * more than the size of both.
 */
export const stepsFor = ({ parts, schemas }: Document, value: unknown): number => {
  const { chars, nodes } = sizeOf(value)
  const each = schemas.size
  return 32 * parts + nodes * (32 + 8 * each) + chars * (2 + each)
}

/** Counts the parts of a value and the characters in it, one after the other: it may be deeper than a stack. */
const sizeOf = (value: unknown): { readonly nodes: number; readonly chars: number } => {
  const open = [value]
  // a host may pass an object in several places, or in itself
  const known = new Set<unknown>()
  let nodes = 0
  let chars = 0
  while (open.length > 0) {
    const it = open.pop()
    nodes++
    if (typeof it === "string") chars += it.length
    if (typeof it !== "object" || it === null || known.has(it)) continue
    known.add(it)
    if (Array.isArray(it)) {
      for (const item of it) open.push(item)
      continue
    }
    for (const [name, inner] of Object.entries(it)) {
      chars += name.length
      open.push(inner)
    }
  }
  return { nodes, chars }
}
