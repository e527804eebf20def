/** How deeply values from outside may be nested: encoders, hashes and loggers recurse over them. */
export const mostDepth = 256

/** What is said of a value that is nested more deeply. */
export const tooDeep = `nested more than ${mostDepth} levels deep`

/** Whether a JSON text is nested more deeply than allowed. */
export const isTextTooDeep = (text: string): boolean => {
  if (text.length <= 2 * mostDepth) return false
  let [depth, isText] = [0, false]
  for (let at = 0; at < text.length; at++) {
    const char = text[at]
    if (isText) {
      if (char === "\\") at++
      else if (char === "\"") isText = false
    } else if (char === "\"") isText = true
    else if (char === "[" || char === "{") {
      if (++depth > mostDepth) return true
    } else if (char === "]" || char === "}") depth--
  }
  return false
}
