/**
 * Handles in free text: what lets its reader reach somebody or something. Links, e-mail addresses, account numbers and
 * phone numbers.
 */
import { linkOf, textOf } from "./Normalised.ts"

const inChunk =
  /[a-z][a-z0-9+.-]{1,20}:\/\/[^\s<>"'`]+|[\p{L}\p{N}._%+-]+@[\p{L}\p{N}_-]+(?:\.[\p{L}\p{N}_-]+)*|\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?(?:[/?#][^\s<>"'`]*)?|(?:[\p{L}\p{N}_-]+\.)+\p{L}[\p{L}\p{N}-]+(?::\d+)?(?:[/?#][^\s<>"'`]*)?|localhost(?::\d+)(?:[/?#][^\s<>"'`]*)?/gu

/** Names of files with these endings are not links: they are no top-level domains. */
const file =
  /\.(?:txt|docx?|xlsx?|pptx?|pdf|csv|tsv|jsonl?|js|mjs|cjs|jsx|tsx?|html?|css|scss|xml|ya?ml|toml|ini|png|jpe?g|gif|svg|webp|mp[34]|wav|log|lock|exe|dll|bak|tmp|sql|java|cpp|hpp|kt|php|rb|go|swift|ipynb|ics|eml|odt|ods|rtf|tex)$/

const spelled =
  /\s*(?:\[\.\]|\(\.\)|\{\.\}|\[dot\]|\(dot\)|\{dot\}|\sdot\s(?=(?:com|net|org|io|co|info|biz|app|dev|me|xyz|ru|cn|de|uk|eu|us|to|ly|gg|ai|site|online|top|club|link)\b))\s*/g
const at = /\s*(?:\[at\]|\(at\)|\{at\}|\[@\]|\(@\))\s*|\sat\s(?=[\p{L}\p{N}-]+\.\p{L}{2,})/gu

/** Digits with what people put between them. */
const run = /\d[\d ().\-+]*\d/y
const wordAround = /[a-z0-9]+/y
const account = /^(?:0x[0-9a-f]{40}|bc1[a-z0-9]{20,}|[13][a-z0-9]{25,34}|[a-z]{2}\d{2}[a-z0-9]{11,30})$/
const dates =
  /\d{4}[-.]\d{2}[-.]\d{2}|\d{1,2}[-.]\d{1,2}[-.]\d{4}|(?:19|20)\d\d ?- ?(?:19|20)\d\d|(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?!\d)/g

/** The handles of a text, each in the form in which it is compared. */
export const handlesOf = (text: string): ReadonlyArray<string> => handlesIn(textOf(text))

/** The handles of a text in the form of `textOf`. */
export const handlesIn = (text: string): ReadonlyArray<string> => {
  const found = new Set<string>()
  collect(text, found)
  if (text.includes("dot") || text.includes("[.]") || text.includes("(.)") || text.includes("{.}")) {
    const plain = text.replaceAll(spelled, ".").replaceAll(at, "@")
    if (plain !== text) collect(plain, found)
  } else if (text.includes("(at)") || text.includes("[at]") || text.includes(" at ")) {
    const plain = text.replaceAll(at, "@")
    if (plain !== text) collect(plain, found)
  }
  return Array.from(found)
}

/** The handle that a value is as a whole; `undefined` if it is none. */
export const handleOf = (value: string): string | undefined => {
  const text = textOf(value)
  const handles = handlesIn(text)
  return handles.length === 1 && (handles[0] === linkOf(text) || /^\+?[\d ().-]+$/.test(text) || account.test(text))
    ? handles[0]
    : undefined
}

const dot = 46
const colon = 58
const atSign = 64
const space = 32

const collect = (text: string, found: Set<string>): void => {
  const length = text.length
  // where the digits that were looked at end
  let done = 0
  for (let i = 0; i < length; i++) {
    const code = text.charCodeAt(i)
    if (code === dot || code === colon || code === atSign) {
      const next = text.charCodeAt(i + 1)
      if (i + 1 >= length || next === space || (code === colon && next !== 47 && !isDigit(next))) continue
      const start = text.lastIndexOf(" ", i) + 1
      const stop = text.indexOf(" ", i)
      const end = stop === -1 ? length : stop
      let rest = text.slice(start, end)
      for (const [whole] of text.slice(start, end).matchAll(inChunk)) {
        const bare = whole.replace(/[.,;:!?)\]}*_~…-]+$/u, "")
        if (bare.length > 0 && !file.test(bare)) found.add(linkOf(bare))
        rest = rest.replace(whole, " ".repeat(whole.length))
      }
      for (let k = Math.max(done - start, 0); k < rest.length; k++) {
        if (isDigit(rest.charCodeAt(k))) k = numberAt(rest, k, found) - 1
      }
      i = end
    } else if (i >= done && isDigit(code)) {
      done = numberAt(text, i, found)
      const inside = text.indexOf(".", i)
      i = (inside === -1 || inside > done ? done : inside) - 1
    }
  }
}

/** Looks at the digits that begin here; gives where they end. */
const numberAt = (text: string, start: number, found: Set<string>): number => {
  let word = start
  while (word > 0 && isLetterOrDigit(text.charCodeAt(word - 1))) word--
  wordAround.lastIndex = word
  const whole = wordAround.exec(text)?.[0] ?? ""
  if (account.test(whole)) {
    found.add(whole)
    return word + whole.length
  }
  run.lastIndex = start
  const span = run.exec(text)?.[0]
  if (span === undefined) return start + 1
  const digits = span.replaceAll(dates, " ").replaceAll(/[^\d]/g, "")
  const isDecimal = /^\d+\.\d+$/.test(span) && !/^\d{3}\.\d{4}$/.test(span)
  if (digits.length >= 7 && !isDecimal) found.add(digits)
  return start + span.length
}

const isDigit = (code: number): boolean => code >= 48 && code <= 57

const isLetterOrDigit = (code: number): boolean => isDigit(code) || (code >= 97 && code <= 122)
