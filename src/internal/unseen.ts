/**
 * Finds text that a model reads and a person does not see: tag characters, zero-width characters, direction controls,
 * runs of variation selectors and other characters without a glyph.
 *
 * Where writing needs such a character, it is expected: joiners in emoji and in Arabic or Indic words, marks of
 * direction in texts with right-to-left letters, variation selectors on emoji and ideographs, tags in flags, spaces of
 * no width between words that have no other space, colours of a terminal.
 */
import * as Predicate from "effect/Predicate"
import { clip } from "./clip.ts"

/** Invisible text that was found. */
export interface Unseen {
  /** How many characters. */
  readonly count: number
  /** What they are, such as `12 tag characters`. */
  readonly kinds: string
  /** The text that they spell, where it can be read. Not for models: it may be an instruction. */
  readonly spells: string | undefined
}

/** Says what was found, for people. */
export const inWords = ({ kinds, spells }: Unseen): string =>
  spells === undefined ? kinds : `${kinds} that spell ${JSON.stringify(spells)}`

/** Finds what is invisible in a text and not expected there. */
export const find = (text: string): Unseen | undefined => {
  if (!maybe.test(text)) return undefined
  const found = new Map<string, Array<string>>()
  let count = 0
  for (const [, run] of text.matchAll(patternFor(text))) {
    if (run === undefined) continue
    for (const char of run) {
      count++
      const kind = kindOf(char.codePointAt(0)!)
      const chars = found.get(kind)
      if (chars === undefined) found.set(kind, [char])
      else chars.push(char)
    }
  }
  if (count === 0) return undefined
  const groups = Array.from(found)
  return {
    count,
    kinds: groups.map(([kind, chars]) => `${chars.length} ${kind}${chars.length === 1 ? "" : "s"}`).join(", "),
    spells: joined(groups.map(([kind, chars]) => spelled(kind, chars)))
  }
}

/** The text without what `find` finds. */
export const without = (text: string): string => {
  if (!maybe.test(text)) return text
  let shown = text
  for (let pass = 0; pass < passes; pass++) {
    const next = shown.replace(patternFor(shown), (match: string, run?: string) => run === undefined ? match : "")
    if (next === shown) return shown
    // what was kept may stand differently now
    shown = next
  }
  return shown.replace(everything, "")
}

/** Finds what is invisible in the texts of a JSON value, keys included; `path` leads to the first of them. */
export const findIn = (value: unknown): (Unseen & { readonly path: string }) | undefined => {
  const all: Array<Unseen & { readonly path: string }> = []
  const visit = (it: unknown, path: string, depth: number): void => {
    if (typeof it === "string") {
      const unseen = find(it)
      if (unseen !== undefined) all.push({ ...unseen, path })
    } else if (depth < maxDepth && Array.isArray(it)) {
      for (let at = 0; at < it.length; at++) visit(it[at], `${path}[${at}]`, depth + 1)
    } else if (depth < maxDepth && Predicate.isObject(it)) {
      for (const [key, inner] of Object.entries(it)) {
        visit(key, path, depth + 1)
        visit(inner, path === "" ? without(key) : `${path}.${without(key)}`, depth + 1)
      }
    }
  }
  visit(value, "", 0)
  const [first] = all
  if (first === undefined || all.length === 1) return first
  return {
    path: first.path,
    count: all.reduce((sum, it) => sum + it.count, 0),
    kinds: listed(all.map((it) => it.kinds)),
    spells: joined(all.map((it) => it.spells))
  }
}

/** The JSON value without what `findIn` finds; the same object if there is nothing. */
export const withoutIn = (value: unknown, depth = 0): unknown => {
  if (typeof value === "string") return without(value)
  if (depth >= maxDepth) return value
  if (Array.isArray(value)) {
    const list = value.map((it) => withoutIn(it, depth + 1))
    return list.every((it, at) => it === value[at]) ? value : list
  }
  if (!isPlain(value)) return value
  const entries = Object.entries(value)
  const shown = entries.map(([key, it]) => [without(key), withoutIn(it, depth + 1)] as const)
  return shown.every(([key, it], at) => key === entries[at]![0] && it === entries[at]![1])
    ? value
    : Object.fromEntries(shown)
}

// Utilities

/** Values are nested less deeply than this, or are not looked at any further. */
const maxDepth = 1_000

const isPlain = (value: unknown): value is object =>
  Predicate.isObject(value) && [null, Object.prototype].includes(Object.getPrototypeOf(value) as object | null)

/** A cheap look for what may be invisible: most texts have none of it. */
const maybe = new RegExp(
  "[\\0-\\x08\\x0b\\x0e-\\x1f\\x7f-\\x9f\\xad\\u034f\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180b-\\u180f\\u200b-\\u200f" +
    "\\u202a-\\u202e\\u2060-\\u206f\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb\\ud82f\\ud834\\udb40-\\udb43]"
)

const invisible = "[\\p{Default_Ignorable_Code_Point}\\ufff0-\\ufffb]|(?![\\t\\n\\f\\r])\\p{Cc}"

const of = (scripts: string): string => scripts.split(" ").map((it) => `\\p{Script=${it}}`).join("")

/** Scripts whose letters join, or whose syllables stack: joiners say how. */
const joining = of(
  "Arabic Syriac Nko Mandaic Mongolian Devanagari Bengali Gurmukhi Gujarati Oriya Tamil Telugu Kannada Malayalam " +
    "Sinhala Myanmar Khmer Tibetan Javanese Balinese Sundanese Chakma Meetei_Mayek Newa Grantha Brahmi Kaithi Sharada"
)

/** Scripts without spaces between words: they may be broken at a space of no width. */
const spaceless = of("Thai Lao Khmer Myanmar Tibetan Javanese Balinese Han Hiragana Katakana")

const rightToLeft = new RegExp(
  `[${of("Hebrew Arabic Syriac Thaana Nko Mandaic Samaritan Adlam Hanifi_Rohingya")}]`,
  "u"
)

const picture = "(?:\\p{Extended_Pictographic}|\\p{Regional_Indicator})[\\ufe0e\\ufe0f]?\\p{Emoji_Modifier}?\\ufe0f?"

/** No further invisible character follows: one is writing, several are text. */
const alone = `(?!${invisible})`

/** After so many passes, expected characters are taken out as well. */
const passes = 4

const everything = new RegExp(invisible, "gu")

/** A part of the parameters; each text can be read in one way only, or a long one would take forever. */
const colour = "(?:[345]8[;:]5[;:]\\d+|[345]8[;:]2(?:[;:]\\d*){3}|(?![345]8[;:][25][;:])(?!0*8(?!\\d))\\d{0,3})"

const expected = [
  // flags of parts of countries
  "\\u{1f3f4}[\\u{e0030}-\\u{e0039}\\u{e0061}-\\u{e007a}]{3,6}\\u{e007f}",
  `${picture}(?:\\u200d${picture})*`,
  "[0-9#*][\\ufe0e\\ufe0f]\\u20e3?(?![\\ufe00-\\ufe0f\\u{e0100}-\\u{e01ef}])",
  `[\\p{Sm}\\u2018-\\u201d\\u3001\\u3002\\uff01\\uff0c\\uff0e\\uff1a\\uff1b\\uff1f][\\ufe00\\ufe01]${alone}`,
  `\\p{Script=Han}[\\ufe00-\\ufe02\\u{e0100}-\\u{e01ef}]${alone}`,
  `\\p{Script=Mongolian}[\\u180b-\\u180d\\u180f]${alone}`,
  "\\u180e(?=\\p{Script=Mongolian})",
  `(?<=[${joining}])[\\u200c\\u200d]${alone}`,
  `(?<=[${spaceless}])\\u200b${alone}`,
  "(?<=\\p{L})\\u00ad(?=\\p{L})",
  "(?<=[\\p{L}\\p{M}])\\u034f(?=\\p{M})",
  "\\u115f[\\u1160-\\u11ff]|[\\u1100-\\u115e\\ua960-\\ua97c]\\u1160",
  "(?<=\\p{Script=Khmer})[\\u17b4\\u17b5]",
  "(?<![^])\\ufeff",
  `\\x1b\\[${colour}(?:;${colour})*m`
]

/** In texts with right-to-left letters: marks, embeddings and isolates. Overrides hide the order of any text. */
const directions = `(?<!${invisible})[\\u200e\\u200f\\u061c\\u202a-\\u202c\\u2066-\\u2069]{1,2}${alone}`

const patternOf = (parts: ReadonlyArray<string>): RegExp =>
  new RegExp(`${parts.map((it) => `(?:${it})`).join("|")}|((?:${invisible})+?)`, "gu")

const pattern = patternOf(expected)

const patternOfBoth = patternOf([...expected, directions])

const patternFor = (text: string): RegExp => rightToLeft.test(text) ? patternOfBoth : pattern

const kindOf = (code: number): string => {
  if (code >= 0xe0000 && code <= 0xe007f) return "tag character"
  if ((code >= 0xfe00 && code <= 0xfe0f) || (code >= 0xe0100 && code <= 0xe01ef)) return "variation selector"
  if ([0x200e, 0x200f, 0x061c].includes(code) || (code >= 0x202a && code <= 0x202e)) return "direction control"
  if (code >= 0x2066 && code <= 0x2069) return "direction control"
  if ((code >= 0x200b && code <= 0x200d) || code === 0x2060 || code === 0xfeff) return "zero-width character"
  return code < 0xa0 ? "control character" : "other invisible character"
}

/** The text that characters of a kind carry. */
const spelled = (kind: string, chars: ReadonlyArray<string>): string | undefined =>
  kind === "tag character" ? tagged(chars) : kind === "variation selector" ? selected(chars) : undefined

const joined = (texts: ReadonlyArray<string | undefined>): string | undefined => {
  const known = texts.filter((it) => it !== undefined)
  return known.length === 0 ? undefined : clip(known.join(" "), maxSpelled)
}

const listed = (texts: ReadonlyArray<string>): string =>
  texts.slice(0, 3).join("; ") + (texts.length > 3 ? `; and ${texts.length - 3} more texts` : "")

const tagged = (chars: ReadonlyArray<string>): string | undefined =>
  readable(chars.map((it) => String.fromCharCode(it.codePointAt(0)! - 0xe0000)).join(""))

/** Each selector may stand for a byte. */
const selected = (chars: ReadonlyArray<string>): string | undefined =>
  readable(new TextDecoder().decode(Uint8Array.from(chars, (it) => {
    const code = it.codePointAt(0)!
    return code >= 0xe0100 ? code - 0xe0100 + 16 : code - 0xfe00
  })))

const maxSpelled = 200

/** Nothing if most of the characters are not plain text. */
const readable = (text: string): string | undefined => {
  const plain = text.replace(/[^\x20-\x7e]+/g, " ").trim()
  return plain.length * 2 < text.length || plain.length < 2 ? undefined : plain
}
