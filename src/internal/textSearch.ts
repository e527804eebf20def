/**
 * Searches one text in another in linear time, whatever they are.
 *
 * `indexOf` looks at the last 250 characters of a pattern only, so a long pattern in a text like it costs pattern ×
 * text. Texts by models and strangers are searched with this instead.
 */

/** Gives the first place of a pattern in a text, at `from` or after it; -1 if there is none. */
export const indexIn = (text: string, pattern: string, from = 0): number => finder(pattern)(text, from)

/** Gives the parts of a text between the places of a pattern. */
export const splitBy = (text: string, pattern: string): ReadonlyArray<string> => {
  const find = finder(pattern)
  const parts: Array<string> = []
  let from = 0
  for (let at = find(text, 0); at !== -1; at = find(text, from)) {
    parts.push(text.slice(from, at))
    from = at + pattern.length
  }
  parts.push(text.slice(from))
  return parts
}

const finder = (pattern: string): (text: string, from: number) => number => {
  if (pattern.length <= wellSearched) return (text, from) => text.indexOf(pattern, from)
  const head = pattern.slice(0, wellSearched)
  let borders: Uint32Array | undefined
  return (text, from) => {
    const first = text.indexOf(head, from)
    return first === -1 ? -1 : search(text, pattern, borders ??= bordersOf(pattern), first)
  }
}

/** `indexOf` is linear for patterns of so many characters. */
const wellSearched = 250

/** By Knuth, Morris and Pratt. */
const search = (text: string, pattern: string, borders: Uint32Array, from: number): number => {
  let matched = 0
  for (let at = from; at < text.length; at++) {
    const code = text.charCodeAt(at)
    while (matched > 0 && pattern.charCodeAt(matched) !== code) matched = borders[matched - 1]!
    if (pattern.charCodeAt(matched) === code) matched++
    if (matched === pattern.length) return at + 1 - matched
  }
  return -1
}

/** Of each beginning of a pattern, the length of its longest proper beginning that is its end, too. */
const bordersOf = (pattern: string): Uint32Array => {
  const borders = new Uint32Array(pattern.length)
  for (let at = 1, length = 0; at < pattern.length; at++) {
    const code = pattern.charCodeAt(at)
    while (length > 0 && pattern.charCodeAt(length) !== code) length = borders[length - 1]!
    if (pattern.charCodeAt(length) === code) length++
    borders[at] = length
  }
  return borders
}
