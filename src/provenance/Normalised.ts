/**
 * Forms in which texts and values are compared.
 *
 * Texts are folded: what a reader sees counts. Values are not: a tool receives them as they are, so a value with
 * invisible or look-alike characters is another value.
 */

/** Characters that nobody sees: soft hyphens, zero-width, bidirectional, tag and control characters. */
const unseen = /[\p{Default_Ignorable_Code_Point}\p{Cc}\uFFF9-\uFFFB\u2800]/gu

/**
 * More marks in a row than any script has (UAX #15, Stream-Safe Text Format). Normalisation sorts them, which takes the
 * square of their number.
 */
const manyMarks = /((?:(?!\u034F)[\p{M}\uFF9E\uFF9F]){30})(?:(?!\u034F)[\p{M}\uFF9E\uFF9F])+/gu

/** Texts of these characters alone have one form but for letter case and spaces. */
const isPlain = /^[\x20-\x7E]*$/

/** Tells whether a text has letters and digits of ASCII alone: simpler expressions find the same in it. */
export const isAscii = (text: string): boolean => isPlain.test(text)

/** The text as a reader sees it: NFKC, lower case, single spaces, no invisible characters, plain quotes and dashes. */
export const textOf = (text: string): string => {
  if (isPlain.test(text)) return collapsedPlain(text.toLowerCase())
  let now = text
  // a fold may uncover another one; none has been seen to need more than three
  for (let round = 0; round < 5; round++) {
    const next = collapsed(
      collapsed(now).replaceAll(unseen, "").replaceAll(manyMarks, "$1").normalize("NFKC").toLowerCase().normalize(
        "NFKC"
      )
        .replaceAll(/[\u2018\u2019\u201B\u2032]/g, "'").replaceAll(/[\u201C\u201D\u201E\u2033]/g, "\"")
        .replaceAll(/[\u2010-\u2015\u2212]/g, "-")
    )
    if (next === now) break
    now = next
  }
  return now
}

/** The value as a tool receives it, but for letter case, spaces and the spelling of accents (NFC). */
export const valueOf = (value: string): string =>
  isPlain.test(value)
    ? collapsedPlain(value.toLowerCase())
    : collapsed(
      value.replaceAll(manyMarks, apart).normalize("NFC").toLowerCase().normalize("NFC").toLowerCase().normalize("NFC")
    )

/** The same marks in groups: no two values become equal by it. */
const apart = (marks: string): string => marks.replaceAll(/[^]{30}/gu, "$&\u034F")

/** Separates sentences without a space between them: "our-company.com.They" names our-company.com. */
export const sentencesOf = (text: string): string =>
  !/\.\p{Lu}/u.test(text) ? text : text.replaceAll(
    /(?<![\p{L}\p{N}])([\p{Ll}\p{N}]+\/?|\/)\.(?=\p{Lu}\p{Ll}*(?:[\s,;:!?'’]|$))/gu,
    "$1. "
  )

/** The canonical form of a value: as `valueOf`, and a web address without scheme, `www.` and the slash of its root. */
export const canonical = (value: string): string => linkOf(valueOf(value))

/** Drops `http(s)://`, `www.` and the slash of the root. Path and query stay. */
export const linkOf = (text: string): string => {
  if (!(text.startsWith("http") || text.startsWith("www.") || text.endsWith("/")) || text.includes(" ")) return text
  const bare = text.replace(/^https?:\/\//, "").replace(/^www\.(?=[^.]+\.)/, "")
  return /^[^/?#]+\/$/.test(bare) ? bare.slice(0, -1) : bare
}

/** Drops these characters from the end of a text. An expression for it would be tried at each of them. */
export const withoutTail = (text: string, characters: string): string => {
  let end = text.length
  while (end > 0 && characters.includes(text[end - 1]!)) end--
  return text.slice(0, end)
}

/**
 * Tells whether a text has a value between the edges of words; `undefined` if it has it in so many words that it is not
 * known.
 */
export const hasWord = (text: string, value: string): boolean | undefined => {
  let looked = 0
  for (let at = text.indexOf(value); at !== -1; at = text.indexOf(value, at + 1)) {
    if (!isWord(text, at - 1) && !isWord(text, at + value.length)) return true
    if (++looked === mostPlaces) return undefined
  }
  return false
}

/** So many places of a value are looked at. */
export const mostPlaces = 10_000

const isWord = (text: string, at: number): boolean => /[\p{L}\p{N}]/u.test(text.charAt(at))

/** A number as `String` writes it: `$1,000.50` is `1000.5`; `undefined` for other texts. */
export const numberOf = (text: string): string | undefined => {
  const digits = /^[$€£¥]?(-?(?:\d{1,3}(?:[,_']\d{3})+|\d{1,15})(?:\.\d{1,10})?)[%€$£¥]?$/.exec(text)?.[1]
  return digits === undefined ? undefined : String(Number(digits.replaceAll(/[,_']/g, "")))
}

/** A piece of a text that counts as a whole. */
export interface Token {
  readonly text: string
  readonly start: number
  readonly end: number
}

/** For texts of ASCII, and for all others. */
const pieces = [["a-z0-9", "a-z", ""], ["\\p{L}\\p{N}", "\\p{L}", "u"]].map(([word, letter, flag]) =>
  new RegExp(
    `[a-z][a-z0-9+.-]*:\\/\\/[^\\s<>"'\`]+` +
      `|(?:[${word}_-]+\\.)+[${letter}]{2,}(?::\\d+)?[/?#][^\\s<>"'\`]*` +
      `|[${word}.-]+:\\d+(?::\\d+)*[^\\s<>"'\`“”«»(){}[\\],;!?*|=:]*` +
      `|[^\\s<>"'\`“”«»(){}[\\],;!?*|=:]+`,
    `g${flag}`
  )
)

/** A text that is one token. */
const single = /^[a-z0-9](?:[a-z0-9@._-]*[a-z0-9])?$/

/** The tokens of a text in the form of `textOf` or `valueOf`. Addresses, URLs and paths are one token. */
export const tokensOf = (text: string): ReadonlyArray<Token> => {
  if (single.test(text)) return [{ text, start: 0, end: text.length }]
  const tokens: Array<Token> = []
  for (const match of text.matchAll(pieces[isAscii(text) ? 0 : 1]!)) {
    const whole = match[0]
    if (single.test(whole)) {
      tokens.push({ text: whole, start: match.index, end: match.index + whole.length })
      continue
    }
    const lead = /^[#$€£¥@.~_&+-]*/.exec(whole)![0].length
    const bare = withoutTail(whole.slice(lead), whole.includes("/") ? ".,;:!?)]}~" : ".~_&+%€£¥-")
    const start = match.index + lead
    if (bare.length > 0) tokens.push({ text: bare, start, end: start + bare.length })
    // a name may have no letters at all
    else if (/[^\p{P}\p{S}]|\p{So}/u.test(whole)) {
      tokens.push({ text: whole, start: match.index, end: match.index + whole.length })
    }
  }
  return tokens
}

const collapsed = (text: string): string => text.replaceAll(/\s+/g, " ").trim()

/** The same for texts whose only white space is the space; most have one form already. */
const collapsedPlain = (text: string): string =>
  text.includes("  ") || text.startsWith(" ") || text.endsWith(" ") ? collapsed(text) : text
