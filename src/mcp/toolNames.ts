/** Names of foreign tools as providers take them. */
import { hashOf } from "../FileChange.ts"

/** What every provider takes for the name of a tool. */
const maxLength = 64

/**
 * Gives the names under which tools are registered: the prefix and the tool's own
 * name, with `_` for what providers do not take. Where two would be the same, or
 * one too long, a hash of the tool's own name tells them apart.
 */
export const toolNames = (prefix: string, names: ReadonlyArray<string>): ReadonlyArray<string> => {
  const plain = names.map((name) => prefix + name.replaceAll(/[^a-zA-Z0-9_-]/g, "_"))
  return plain.map((name, index) => {
    const own = names[index]!
    const isClear = name === prefix + own || plain.indexOf(name) === plain.lastIndexOf(name)
    return isClear && name.length <= maxLength
      ? name
      : `${name.slice(0, maxLength - 9)}_${hashOf(own).slice(0, 8)}`
  })
}
