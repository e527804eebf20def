/**
 * Wildcards of policy patterns: `*` is any run of characters, `/` and line breaks included, `?` is one character.
 * Everything else is itself.
 *
 * Written out because a regular expression with several `.*` takes a time that grows with a power of the text's length,
 * and the text is a model's.
 */

/** Tells whether the whole text fits the pattern, in time pattern × text at most. */
export const matches = (pattern: string, text: string): boolean => {
  const wanted = Array.from(pattern)
  const given = Array.from(text)
  let at = 0
  let next = 0
  // where the last * stands, and up to where it has been tried
  let star = -1
  let tried = 0
  while (at < given.length) {
    if (wanted[next] === "*") {
      star = next++
      tried = at
    } else if (next < wanted.length && (wanted[next] === "?" || wanted[next] === given[at])) {
      next++
      at++
    } else if (star !== -1) {
      next = star + 1
      at = ++tried
    } else return false
  }
  while (wanted[next] === "*") next++
  return next === wanted.length
}
