/** How much of a value its reader still sees where names and shapes of secrets took something out. */
import { mark } from "./texts.ts"

/** What is left of a value, and whether it still tells what the value was. */
export interface Seen {
  /** What is left; a mark that stands alone in its text tells how long the secret was. */
  readonly left: unknown
  /** At most one token was taken out: no text that a shell would split, expand or run. */
  readonly isWhole: boolean
}

/** Compares a value with what redaction left of it. */
export const seen = (value: unknown, left: unknown): Seen => {
  let places = 0
  let isPlain = left !== mark
  const take = (text: string, isAlone: boolean): void => {
    places++
    isPlain &&= isAlone && token.test(text)
  }
  const visit = (before: unknown, after: unknown): unknown => {
    if (Object.is(before, after)) return after
    if (typeof after === "string" && (typeof before === "string" || typeof before === "number")) {
      return text(String(before), after)
    }
    if (Array.isArray(before) && Array.isArray(after) && before.length === after.length) {
      return after.map((it, index) => visit(before[index], it))
    }
    if (isRecord(before) && isRecord(after)) {
      const [was, is] = [Object.entries(before), Object.entries(after)]
      if (was.length === is.length) return Object.fromEntries(visit(was, is) as typeof is)
    }
    take("", false)
    return after
  }
  const text = (before: string, after: string): string => {
    const at = after.indexOf(mark)
    const [head, tail] = at === -1 ? ["", after] : [after.slice(0, at), after.slice(at + mark.length)]
    const length = before.length - head.length - tail.length
    if (at === -1 || tail.includes(mark) || length < 0 || !before.startsWith(head) || !before.endsWith(tail)) {
      take(before, false)
      return after
    }
    take(before.slice(at, at + length), true)
    return `${head}${mark.slice(0, -1)}: ${length} ${length === 1 ? "character" : "characters"}]${tail}`
  }
  const shown = visit(value, left)
  return { left: shown, isWhole: isPlain && places <= 1 }
}

const isRecord = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** Nothing in it parts words or means something to a shell, and all of it is visible. */
const token = /^[^\s\p{C};&|<>()$`"'\\{}[\]*?~#!]*$/u
