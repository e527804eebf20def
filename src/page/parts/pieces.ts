/**
 * Cuts untrusted text into pieces that can each be shown as what they are: invisible characters, look-alike letters,
 * and right-to-left text. Joined, the pieces are the text; nothing is left out or decoded. Pure.
 */
import { hidden } from "../../internal/escape.ts"

/** A part of a text. */
export type Piece =
  | { readonly kind: "plain" | "tab" | "newline"; readonly text: string }
  /** Right-to-left text, isolated so that surrounding text keeps its place. */
  | { readonly kind: "backwards"; readonly text: string }
  /** Shown by its code point: `⟨U+202E⟩`. */
  | { readonly kind: "hidden"; readonly text: string; readonly shown: string; readonly name: string }
  /** Letters that look like others, followed by `shown`. */
  | { readonly kind: "alike"; readonly text: string; readonly shown: string; readonly name: string }

/** A piece that is invisible or looks like something else. */
export type Marked = Extract<Piece, { readonly kind: "hidden" | "alike" }>

/** Cuts a text into pieces. `around` is the text it was cut from. */
export const pieces = (text: string, around: string = text): ReadonlyArray<Piece> => {
  const found: Array<Piece> = []
  const deceptive = deceptiveIn(around)
  let plainFrom = 0
  for (const match of text.matchAll(special)) {
    const at = match.index
    const piece = pieceOf(match, text, deceptive)
    if (piece === undefined) continue
    if (at > plainFrom) found.push({ kind: "plain", text: text.slice(plainFrom, at) })
    found.push(piece)
    plainFrom = at + piece.text.length
  }
  if (plainFrom < text.length) found.push({ kind: "plain", text: text.slice(plainFrom) })
  return found
}

/** Whether a piece must be marked for people. */
export const isMarked = (piece: Piece): piece is Marked => piece.kind === "hidden" || piece.kind === "alike"

/** Counts the hidden and look-alike characters of a folded text. */
export const countMarked = (text: string): number => {
  let count = 0
  for (const piece of pieces(text)) if (isMarked(piece)) count += [...piece.text].length
  return count
}

/** Returns the name of a code point, such as `U+202E`. */
export const codePoint = (char: string): string =>
  `U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`

/** Spells out every non-ASCII character by code point, for texts that look the same. */
export const spelled = (text: string): string => text.replaceAll(/[^ -~]/gu, (char) => `⟨${codePoint(char)}⟩`)

/** Returns the last position up to `at` that does not split a surrogate pair. */
export const cutBefore = (text: string, at: number): number => {
  if (at <= 0 || at >= text.length) return Math.max(0, Math.min(at, text.length))
  const code = text.charCodeAt(at)
  const before = text.charCodeAt(at - 1)
  return code >= 0xdc00 && code < 0xe000 && before >= 0xd800 && before < 0xdc00 ? at - 1 : at
}

/** Blocks whose letters run from right to left (Unicode's `DerivedBidiClass.txt`, by block). */
const backwards = "\\u0590-\\u08FF\\uFB1D-\\uFDFF\\uFE70-\\uFEFC\\u{10800}-\\u{10FFF}\\u{1E800}-\\u{1EFFF}"

/** Scripts with letters that look like Latin ones. Scripts that mix with Latin without spaces, such as Han, are left out. */
const scripts = [
  "Cyrillic",
  "Greek",
  "Armenian",
  "Coptic",
  "Cherokee",
  "Lisu",
  "Georgian",
  "Deseret",
  "Osage",
  "Glagolitic",
  "Canadian_Aboriginal",
  "Tifinagh",
  "Vai",
  "Runic",
  "Gothic",
  "Old_Italic",
  "Bamum"
]

const foreign = scripts.map((script) => `\\p{Script=${script}}`).join("")

/** Letters that look exactly like Latin ones, from Unicode's `confusables.txt` (UTS 39). */
const looksLatin: ReadonlyMap<string, string> = new Map([
  ["Cyrillic", "аеорсухіјѕһԁԛԝӏѵүгпьвкмнтАВЕІЈКМНОРСТУХЅԌԚԜѴЗӀҮЬ"],
  ["Greek", "αγεικνορτυχωϲϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧϹϺ"],
  ["Armenian", "օսոհցյքզգաՕՍԼՏ"]
])

/** Other characters that look like ASCII ones. */
const passesFor: ReadonlyMap<string, string> = new Map([
  ..."ɑaɡgɩiƽ5ǀ|ǃ!ꞌ'‐-‑-‒-−-˗-⁃-﹣-⁄/∕/⧸/╱/⟋/꞉:∶:ː:․.ꓸ.‚,ˋ`∼~˜~⁓~∗*⁎*꞊=‹<›>ᐸ<ᐳ>⧵\\∖\\⟍\\∣|⏐|￨|＃#"
    .matchAll(/(..)/gu)
].map(([pair]) => [...pair!] as [string, string]))

/** Compatibility forms of ASCII characters: full width, mathematical, Roman numerals. */
const compatible =
  "\\uFF01-\\uFF5E\\u{1D400}-\\u{1D7FF}\\u2102-\\u2149\\u2160-\\u217F\\u037E\\u1FEF\\u{1FBF0}-\\u{1FBF9}"

const escaped = (chars: Iterable<string>): string =>
  [...chars].map((char) => `\\u{${char.codePointAt(0)!.toString(16)}}`).join("")

const special = new RegExp(
  `(?<hidden>(?<one>${hidden.source})\\k<one>*)` +
    `|(?<backwards>(?:(?!${hidden.source})[${backwards}])+(?: (?:(?!${hidden.source})[${backwards}])+)*)` +
    `|(?<foreign>(?:(?!\\p{M})[${foreign}])+)` +
    `|(?<alone>[${escaped(passesFor.keys())}${compatible}])`,
  "gu"
)

/** How far around a letter its word is searched. */
const reach = 64

const pieceOf = (match: RegExpExecArray, whole: string, deceptive: ReadonlySet<string>): Piece | undefined => {
  const [text] = match
  const groups = match.groups ?? {}
  if (groups.hidden !== undefined) return hiddenPiece(groups.one ?? "", text)
  if (groups.backwards !== undefined) return { kind: "backwards", text }
  if (groups.foreign !== undefined) return foreignPiece(text, match.index, whole, deceptive)
  const like = passesFor.get(text) ?? text.normalize("NFKC")
  if (!/^[!-~]$/.test(like)) return undefined
  return { kind: "alike", text, shown: `⟨${codePoint(text)}⟩`, name: `${codePoint(text)}, looks like ${like}` }
}

const hiddenPiece = (one: string, text: string): Piece => {
  if (text === "\t" || text === "\n") return { kind: text === "\t" ? "tab" : "newline", text }
  // tabs and line breaks are shown one by one
  if (one === "\t" || one === "\n") return { kind: one === "\t" ? "tab" : "newline", text: one.repeat(text.length) }
  const times = text.length / one.length
  const count = times === 1 ? "" : ` ×${times}`
  const name = nameOf(one)
  return { kind: "hidden", text, shown: `⟨${codePoint(one)}${count}⟩`, name: `${codePoint(one)}${count}, ${name}` }
}

const foreignPiece = (
  text: string,
  at: number,
  whole: string,
  deceptive: ReadonlySet<string>
): Piece | undefined => {
  const script = scriptOf(text)
  const before = whole.slice(cutBefore(whole, Math.max(0, at - reach)), at)
  const after = whole.slice(at + text.length, cutBefore(whole, at + text.length + reach))
  const isInWord = latin.test(`${/[\p{L}\p{M}\p{N}_]*$/u.exec(before)?.[0]}${/^[\p{L}\p{M}\p{N}_]*/u.exec(after)?.[0]}`)
  const isInToken = latin.test(`${/[^\s"'`]*$/u.exec(before)?.[0]}${/^[^\s"'`]*/u.exec(after)?.[0]}`)
  const letters = looksLatin.get(script) ?? ""
  const passes = [...text].every((char) => letters.includes(char))
  if (!isInWord && !(passes && (isInToken || deceptive.has(script)))) return undefined
  const points = [...text].map(codePoint)
  const some = points.length > 4 ? [...points.slice(0, 3), "…"] : points
  return {
    kind: "alike",
    text,
    shown: `⟨${script} ${some.join(" ")}⟩`,
    name: `${points.length === 1 ? "a letter" : "letters"} of ${script}: ${points.slice(0, 50).join(" ")}`
  }
}

const latin = /\p{Script=Latin}/u

const scriptTests = scripts.map((script) => [script, new RegExp(`\\p{Script=${script}}`, "u")] as const)

const scriptOf = (text: string): string =>
  (scriptTests.find(([, test]) => test.test(text))?.[0] ?? "another script").replace("_", " ")

/** Returns the scripts of which a text only has letters that look Latin. No language is written with these alone. */
const deceptiveIn = (text: string): ReadonlySet<string> =>
  new Set(
    [...deceptiveTests].flatMap(([script, [any, plain]]) => any.test(text) && !plain.test(text) ? [script] : [])
  )

const deceptiveTests = [...looksLatin].map(([script, letters]) =>
  [
    script,
    [
      new RegExp(`\\p{Script=${script}}`, "u"),
      new RegExp(`(?![${letters}\\p{M}])\\p{Script=${script}}`, "u")
    ]
  ] as const
)

const names: ReadonlyMap<string, string> = new Map([
  ["\0", "null character"],
  ["\b", "backspace"],
  ["\r", "carriage return"],
  ["\u001b", "escape, which controls terminals"],
  ["\u007f", "delete"],
  ["\u0085", "next line"],
  ["\u00a0", "no-break space"],
  ["\u00ad", "soft hyphen"],
  ["\u061c", "Arabic letter mark, changes the text direction"],
  ["\u200b", "zero width space"],
  ["\u200c", "zero width non-joiner"],
  ["\u200d", "zero width joiner"],
  ["\u200e", "left-to-right mark, changes the text direction"],
  ["\u200f", "right-to-left mark, changes the text direction"],
  ["\u2028", "line separator"],
  ["\u2029", "paragraph separator"],
  ["\u202a", "left-to-right embedding, changes the text direction"],
  ["\u202b", "right-to-left embedding, changes the text direction"],
  ["\u202c", "end of a changed text direction"],
  ["\u202d", "left-to-right override, changes the text direction"],
  ["\u202e", "right-to-left override, changes the text direction"],
  ["\u2060", "word joiner"],
  ["\u2066", "left-to-right isolate, changes the text direction"],
  ["\u2067", "right-to-left isolate, changes the text direction"],
  ["\u2068", "first strong isolate, changes the text direction"],
  ["\u2069", "end of an isolate"],
  ["\u3000", "ideographic space"],
  ["\ufe0f", "variation selector"],
  ["\ufeff", "byte order mark"]
])

const kinds: ReadonlyArray<readonly [RegExp, string]> = [
  [/\p{Cc}/u, "control character"],
  [/\p{Cs}/u, "half of a character"],
  [/\p{Co}/u, "private-use character"],
  [/\p{Cn}/u, "unassigned character"],
  [/\p{Zs}/u, "an unusual space"],
  [/[\u{e0000}-\u{e007f}]/u, "invisible tag"],
  [/\p{Default_Ignorable_Code_Point}/u, "invisible"],
  [/\p{M}/u, "one of many stacked marks"]
]

const nameOf = (char: string): string => names.get(char) ?? kinds.find(([test]) => test.test(char))?.[1] ?? "invisible"
