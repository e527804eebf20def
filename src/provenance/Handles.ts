/**
 * Handles in free text: what lets its reader reach somebody or something. Links, e-mail addresses, account numbers and
 * phone numbers.
 */
import { isAscii, linkOf, textOf, withoutTail } from "./Normalised.ts"

/** For texts of ASCII, and for all others. */
const inChunk = [["a-z0-9", "a-z", ""], ["\\p{L}\\p{N}", "\\p{L}", "u"]].map(([word, letter, flag]) =>
  new RegExp(
    `[a-z][a-z0-9+.-]{1,20}:\\/\\/[^\\s<>"'\`]+` +
      `|[${word}._%+-]+@[${word}_-]+(?:\\.[${word}_-]+)*` +
      `|\\d{1,3}(?:\\.\\d{1,3}){3}(?::\\d+)?(?:[/?#][^\\s<>"'\`]*)?` +
      `|(?:[${word}_-]+\\.)+[${letter}][${word}-]+(?::\\d+)?(?:[/?#][^\\s<>"'\`]*)?` +
      `|localhost(?::\\d+)(?:[/?#][^\\s<>"'\`]*)?`,
    `g${flag}`
  )
)

/**
 * Bare names of files with these endings are not links: they are no top-level domains. A link, with a scheme, a path, a
 * query or a fragment, may end as it likes.
 */
const file =
  /^[^:/?#@]+\.(?:txt|docx?|xlsx?|pptx?|pdf|csv|tsv|jsonl?|js|mjs|cjs|jsx|tsx?|html?|css|scss|xml|ya?ml|toml|ini|png|jpe?g|gif|svg|webp|mp[34]|wav|log|lock|exe|dll|bak|tmp|sql|java|cpp|hpp|kt|php|rb|go|swift|ipynb|ics|eml|odt|ods|rtf|tex)$/

const spelled =
  /\s*(?:\[\.\]|\(\.\)|\{\.\}|\[dot\]|\(dot\)|\{dot\}|\sdot\s(?=(?:com|net|org|io|co|info|biz|app|dev|me|xyz|ru|cn|de|uk|eu|us|to|ly|gg|ai|site|online|top|club|link)\b))\s*/g
const at = /\s*(?:\[at\]|\(at\)|\{at\}|\[@\]|\(@\))\s*|\sat\s(?=[\p{L}\p{N}-]+\.\p{L}{2,})/gu

/** Digits with what people put between them. */
const run = /\d[\d ().\-+]*\d/y
/** No account number has more letters and digits. */
const mostLetters = 90
const account = /^(?:0x[0-9a-f]{40}|bc1[a-z0-9]{20,}|[13][a-z0-9]{25,34}|[a-z]{2}\d{2}[a-z0-9]{11,30})$/
const dates =
  /\d{4}[-.]\d{2}[-.]\d{2}|\d{1,2}[-.]\d{1,2}[-.]\d{4}|(?:19|20)\d\d ?- ?(?:19|20)\d\d|(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?!\d)/g

/** The handles of a text, each in the form in which it is compared. */
export const handlesOf = (text: string): ReadonlyArray<string> => handlesIn(textOf(text))

/** The handles of a text in the form of `textOf`. */
export const handlesIn = (text: string): ReadonlyArray<string> => {
  const found = new Set<string>()
  collect(text, found)
  const plain = isWritten(text) ? written(text) : text
  const said = isSpelled(plain) ? plain.replaceAll(spelled, ".").replaceAll(at, "@") : plain
  if (said !== text) collect(said, found)
  return found.size === 0 ? none : Array.from(found)
}

const none: ReadonlyArray<string> = []

/** Tells whether a text may spell addresses out. */
const isSpelled = (text: string): boolean => {
  if (text.includes("dot") || /[([{](?:\.|@|at)[)\]}]/.test(text)) return true
  for (let i = text.indexOf(" at "); i !== -1; i = text.indexOf(" at ", i + 1)) {
    const end = text.indexOf(" ", i + 4)
    if (text.slice(i + 4, end === -1 ? text.length - 1 : end - 1).includes(".")) return true
  }
  return false
}

/** Tells whether a text may have addresses as markup or a browser would read them. */
const isWritten = (text: string): boolean => /[&%\\\u3002]|<!--|https?:\/(?!\/)/.test(text)

/**
 * A text as a browser reads its addresses: without comments and escapes, with entities and needless percent signs
 * decoded, and with slashes and full stops where it takes something else for them.
 */
const written = (text: string): string => {
  const plain = withoutComments(text)
    .replaceAll(
      /&(?:#(?:x([0-9a-f]{1,8})|(\d{1,8}));?|([a-z]{3,7});)/g,
      (whole, hex, decimal, name) =>
        name === undefined
          ? characterOf(Number.parseInt(hex ?? decimal, hex === undefined ? 10 : 16))
          : entities.get(name) ?? whole
    )
    .replaceAll(/%(?:2[de]|3\d|[46][1-9a-f]|[57][0-9a]|5f|7e)/g, (it) => characterOf(Number.parseInt(it.slice(1), 16)))
    .replaceAll(/\\(?=[!-/:-@[^-`{-~])/g, "").replaceAll("\\", "/")
    .replaceAll(/(?<=[a-z0-9])\u3002(?=[a-z0-9])/g, ".")
    .replaceAll(/(https?:)\/(?!\/)/g, "$1//")
  return plain === text ? text : textOf(plain)
}

const entities = new Map([
  ["amp", "&"],
  ["period", "."],
  ["sol", "/"],
  ["bsol", "\\"],
  ["colon", ":"],
  ["commat", "@"],
  ["quest", "?"],
  ["num", "#"],
  ["equals", "="],
  ["percnt", "%"],
  ["lowbar", "_"],
  ["hyphen", "-"],
  ["dash", "-"],
  ["shy", ""],
  ["tab", ""],
  ["newline", ""]
])

/** Addresses are read without control characters. */
const characterOf = (code: number): string => code < 32 || code > 0x10FFFF ? "" : String.fromCodePoint(code)

const withoutComments = (text: string): string => {
  const [first = "", ...parts] = text.split("<!--")
  return first + parts.map((it) => {
    const end = it.indexOf("-->")
    return end === -1 ? "" : it.slice(end + 3)
  }).join("")
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
  /** The next full stop. */
  let stop = -1
  const trigger = /[.:@\d]/g
  for (let match = trigger.exec(text); match !== null; match = trigger.exec(text)) {
    const i = match.index
    const code = text.charCodeAt(i)
    if (code === dot || code === colon || code === atSign) {
      const next = text.charCodeAt(i + 1)
      if (i + 1 >= length || next === space || (code === colon && next !== 47 && !isDigit(next))) continue
      const start = text.lastIndexOf(" ", i) + 1
      const behindIt = text.indexOf(" ", i)
      const end = behindIt === -1 ? length : behindIt
      const chunk = text.slice(start, end)
      let rest = ""
      let behind = 0
      for (const { 0: whole, index } of linksIn(chunk)) {
        const bare = withoutTail(whole, ".,;:!?)]}*_~…-")
        if (bare.length > 0 && !file.test(bare)) found.add(linkOf(bare))
        rest += chunk.slice(behind, index) + " ".repeat(whole.length)
        behind = index + whole.length
      }
      rest += chunk.slice(behind)
      for (let k = Math.max(done - start, 0); k < rest.length; k++) {
        if (isDigit(rest.charCodeAt(k))) k = numberAt(rest, k, found) - 1
      }
      trigger.lastIndex = end
    } else if (i >= done && isDigit(code)) {
      done = numberAt(text, i, found)
      if (stop < i) stop = text.indexOf(".", i)
      if (stop === -1) stop = length
      trigger.lastIndex = Math.min(stop, done)
    }
  }
}

/** A longer text without spaces is no address: searching it for some would take too long. */
const longest = 300

/** The links and addresses in a text without spaces. One that is too long for that is one as a whole. */
const linksIn = (chunk: string): Iterable<{ readonly 0: string; readonly index: number }> =>
  chunk.length <= longest ? chunk.matchAll(inChunk[isAscii(chunk) ? 0 : 1]!) : [{ 0: chunk, index: 0 }]

/** Looks at the digits that begin here; gives where they end, which is always further on. */
const numberAt = (text: string, start: number, found: Set<string>): number => {
  let [word, end] = [start, start + 1]
  while (end - word <= mostLetters && isLetterOrDigit(text.charCodeAt(word - 1))) word--
  while (end - word <= mostLetters && isLetterOrDigit(text.charCodeAt(end))) end++
  const whole = text.slice(word, end)
  if (whole.length <= mostLetters && account.test(whole)) {
    found.add(whole)
    return end
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
