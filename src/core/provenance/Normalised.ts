/**
 * Forms in which texts and values are compared.
 *
 * Texts are folded: what a reader sees counts. Values are not: a tool receives them as they are, so a value with
 * invisible or look-alike characters is another value.
 */

/** Characters that nobody sees: soft hyphens, zero-width, bidirectional, tag and control characters. */
const unseen = /[\p{Default_Ignorable_Code_Point}\p{Cc}\uFFF9-\uFFFB\u2800]/gu

// oxlint has no opinion on it: printable ASCII in lower case is its own form
const isPlain = /^[\x20-\x40\x5B-\x7E]*$/

/** The text as a reader sees it: NFKC, lower case, single spaces, no invisible characters, plain quotes and dashes. */
export const textOf = (text: string): string => {
  if (isPlain.test(text)) return collapsed(text)
  let now = text
  // a fold may uncover another one; none has been seen to need more than three
  for (let round = 0; round < 5; round++) {
    const next = collapsed(
      collapsed(now).replaceAll(unseen, "").normalize("NFKC").toLowerCase().normalize("NFKC")
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
    ? collapsed(value)
    : collapsed(value.normalize("NFC").toLowerCase().normalize("NFC").toLowerCase().normalize("NFC"))

/** Separates sentences without a space between them: "our-company.com.They" names our-company.com. */
export const sentencesOf = (text: string): string =>
  text.replaceAll(
    /(?<=(?:^|[^\p{L}\p{N}])[\p{Ll}\p{N}.@/_-]*[\p{Ll}\p{N}/])\.(?=\p{Lu}\p{Ll}*(?:[\s,;:!?'’]|$))/gu,
    ". "
  )

/** The canonical form of a value: as `valueOf`, and a web address without scheme, `www.` and the slash of its root. */
export const canonical = (value: string): string => linkOf(valueOf(value))

/** Drops `http(s)://`, `www.` and the slash of the root. Path and query stay. */
export const linkOf = (text: string): string => {
  if (text.includes(" ")) return text
  const bare = text.replace(/^https?:\/\//, "").replace(/^www\.(?=[^.]+\.)/, "")
  return /^[^/?#]+\/$/.test(bare) ? bare.slice(0, -1) : bare
}

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

const piece =
  /[a-z][a-z0-9+.-]*:\/\/[^\s<>"'`]+|(?:[\p{L}\p{N}_-]+\.)+\p{L}{2,}(?::\d+)?[/?#][^\s<>"'`]*|[\p{L}\p{N}.-]+:\d+(?::\d+)*[^\s<>"'`“”«»(){}[\],;!?*|=:]*|[^\s<>"'`“”«»(){}[\],;!?*|=:]+/gu

/** The tokens of a text in the form of `textOf` or `valueOf`. Addresses, URLs and paths are one token. */
export const tokensOf = (text: string): ReadonlyArray<Token> => {
  const tokens: Array<Token> = []
  for (const match of text.matchAll(piece)) {
    const whole = match[0]
    const lead = /^[#$€£¥@.~_&+-]*/.exec(whole)![0].length
    const bare = whole.slice(lead).replace(whole.includes("/") ? /[.,;:!?)\]}~]+$/ : /[.~_&+%€£¥-]+$/, "")
    if (bare.length === 0) {
      // a name may have no letters at all
      if (/[^\p{P}\p{S}]|\p{So}/u.test(whole)) {
        tokens.push({ text: whole, start: match.index, end: match.index + whole.length })
      }
      continue
    }
    const start = match.index + lead
    tokens.push({ text: bare, start, end: start + bare.length })
  }
  return tokens
}

const collapsed = (text: string): string => text.replaceAll(/\s+/g, " ").trim()
