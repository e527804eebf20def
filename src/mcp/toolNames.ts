/** Names of foreign tools as providers take them. */
import { hashOf } from "../core/vocabulary/FileChange.ts"

/** What every provider takes for the name of a tool. */
const maxLength = 64

/**
 * Gives the names under which tools are registered: the prefix and the tool's own name, with `_` for what providers do
 * not take. Where that is the name of another, too long or nothing, a hash of the tool's own name tells them apart.
 *
 * The order of the tools changes nothing. Own names are expected to differ.
 */
export const toolNames = (prefix: string, names: Iterable<string>): ReadonlyMap<string, string> => {
  const plain = new Map(Array.from(names, (own) => [own, prefix + own.replaceAll(/[^a-zA-Z0-9_-]/g, "_")]))
  const claims = new Map<string, number>()
  for (const name of plain.values()) claims.set(name, (claims.get(name) ?? 0) + 1)
  const isKept = ([own, name]: readonly [string, string]) =>
    name !== "" && name.length <= maxLength && (name === prefix + own || claims.get(name) === 1)
  const entries = Array.from(plain)
  const kept = entries.filter(isKept)
  const given = new Map(kept)
  const taken = new Set(given.values())
  // in a fixed order, since the result for one name may depend on another
  for (const [own, name] of entries.filter((entry) => !isKept(entry)).sort(([a], [b]) => a < b ? -1 : 1)) {
    let unique: string
    for (let attempt = 0;; attempt++) {
      unique = `${name.slice(0, maxLength - 9)}_${hashOf(wellFormed(own) + "\0".repeat(attempt)).slice(0, 8)}`
      if (!taken.has(unique)) break
    }
    given.set(own, unique)
    taken.add(unique)
  }
  return given
}

/** A name whose bytes are its own: halves of characters would all be the same ones. */
const wellFormed = (name: string): string => JSON.stringify(name).slice(1, -1)
