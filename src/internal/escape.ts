/** Makes text that a model or a tool chose safe to show to a person: one line, nothing hidden. */
/**
 * Characters without a visible glyph: controls, formats (with the marks that turn the direction of text), unassigned,
 * private and lone surrogates, separators other than the space, characters invisible by default, blank glyphs (Braille,
 * music, Khitan), and marks piled more than two high. For `replace` and as a part of other patterns; it has the flag
 * `g`.
 */
export const hidden =
  /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800\u{1D159}]|\u{16FE4}|(?! )\p{Zs}|(?<=\p{M}{2})\p{M}/gu

/** Shows every character that is not visible, or does something, as an escape such as `\n` or `\u202e`. */
export const escape = (text: string): string => text.replace(hidden, escapeOne)

/** Escapes the text line by line, for messages of our own that have several. */
export const escapeLines = (text: string): string => text.split("\n").map(escape).join("\n")

/** Escapes the same characters inside the text of a JSON value, which stays the same value. */
export const escapeJson = (json: string): string =>
  json.replace(
    hidden,
    (char) =>
      char === "\n" ?
        char :
        Array.from({ length: char.length }, (_, at) => `\\u${char.charCodeAt(at).toString(16).padStart(4, "0")}`).join(
          ""
        )
  )

const short: ReadonlyMap<string, string> = new Map([["\n", "\\n"], ["\r", "\\r"], ["\t", "\\t"]])

const escapeOne = (char: string): string => {
  const code = char.codePointAt(0)!
  return short.get(char) ?? (code > 0xffff ? `\\u{${code.toString(16)}}` : `\\u${code.toString(16).padStart(4, "0")}`)
}
