/** Paths into JSON values, such as `rows[0].kind`; the empty path is the whole value. */

const part = /(?:^|\.)([^.[\]]+)|\[(\d+)\]/gy

/** Gives the keys of a path; `undefined` if it is not one. */
const keysOf = (path: string): ReadonlyArray<string> | undefined => {
  const keys: Array<string> = []
  let end = 0
  part.lastIndex = 0
  for (let match = part.exec(path); match !== null; match = part.exec(path)) {
    keys.push(match[1] ?? match[2]!)
    end = part.lastIndex
  }
  return end === path.length ? keys : undefined
}

/** Tells whether a text is a path. */
export const isPath = (path: string): boolean => keysOf(path) !== undefined

/** Gives the value at a path; `undefined` if there is none. */
export const valueAt = (value: unknown, path: string): unknown => {
  let found = value
  for (const key of keysOf(path) ?? []) {
    if (typeof found !== "object" || found === null || !Object.hasOwn(found, key)) return undefined
    found = (found as Record<string, unknown>)[key]
  }
  return found
}
