/**
 * Regular expressions of JSON Schema, matched in time that grows no faster than
 * the text. The engine of JavaScript goes back and tries again, for hours over
 * thirty characters if a pattern wants it.
 */
import * as Result from "effect/Result"
import { RE2JS } from "re2js"

/** A pattern that is ready to be matched. */
export interface Linear {
  readonly test: (text: string) => boolean
  /** About how many states its engine has, so what it takes to make it. */
  readonly size: number
}

/** So many states at most: a few thousandths of a second to make them. */
const maxSize = 5_000

/**
 * Compiles a pattern for RE2; `undefined` if RE2 has none like it (look-around,
 * back references, very many repetitions) or it is no regular expression.
 */
export const linearPattern = (source: string): Linear | undefined => {
  const size = sizeOf(source)
  if (size > maxSize) return undefined
  return Result.getOrUndefined(Result.try(() => {
    nativePattern(source)
    const engine = RE2JS.compile(translate(source))
    return { test: (text: string) => engine.test(text), size }
  }))
}

/** Compiles a pattern for JavaScript; the older syntax, which takes `[\w-.]`, will do. Throws if it is none. */
export const nativePattern = (source: string): RegExp =>
  Result.getOrElse(Result.try(() => new RegExp(source, "u")), () => new RegExp(source))

// Utilities

const spaces = "\\t-\\r \\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}\\x{feff}"

/** Says the same for RE2, in which `\s`, `\S` and `.` stand for something else. */
const translate = (source: string): string => {
  let inClass = false
  return RE2JS.translateRegExp(source).replaceAll(/\\.|[[\].]/gsu, (token) => {
    if (token === "[") inClass = true
    if (token === "]") inClass = false
    if (token === "\\s") return inClass ? spaces : `[${spaces}]`
    if (inClass) return token
    return token === "\\S" ? `[^${spaces}]` : token === "." ? "[^\\n\\r\\x{2028}\\x{2029}]" : token
  })
}

/** Adds up the parts of a pattern, those that are repeated as often as they are. */
const sizeOf = (source: string): number => {
  const outer: Array<number> = []
  let total = 0
  let last = 0
  for (const [token] of source.matchAll(/\\.|\[(?:\\.|[^\]\\])*\]|\{\d+(?:,\d*)?\}|./gsu)) {
    const [least, most] = /^\{(\d+)(?:,(\d*))?\}$/.exec(token)?.slice(1) ?? []
    if (token === "(") {
      outer.push(total)
      total = 0
    } else if (token === ")") {
      last = total + 1
      total = (outer.pop() ?? 0) + last
    } else if (least === undefined) {
      last = 1 + (token.length >> 3)
      total += last
    } else {
      total += last * Math.max(Number(least), Number(most ?? 0))
    }
  }
  return total
}
