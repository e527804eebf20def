/**
 * Texts as bytes in which every character has its place, so that a part of one is read without the rest; and no
 * character is lost, also where the text is not well-formed.
 */
import { sha256 } from "@noble/hashes/sha2.js"
import * as Hex from "effect/encoding/Hex"

/** Bytes that each character of a text takes. */
export type Width = 1 | 2

/** The least width that has room for all characters of a text. */
export const widthOf = (text: string): Width => {
  for (let at = 0; at < text.length; at++) if (text.charCodeAt(at) > 0xff) return 2
  return 1
}

export const bytesOf = (text: string, width: Width): Uint8Array => {
  const bytes = new Uint8Array(text.length * width)
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at)
    bytes[at * width] = code
    if (width === 2) bytes[at * 2 + 1] = code >> 8
  }
  return bytes
}

export const textOf = (bytes: Uint8Array, width: Width): string => {
  let text = ""
  const chars = Math.floor(bytes.length / width)
  for (let from = 0; from < chars; from += chunkChars) {
    const codes = Array.from(
      { length: Math.min(chunkChars, chars - from) },
      (_, index) => {
        const at = (from + index) * width
        return width === 1 ? bytes[at]! : bytes[at]! | (bytes[at + 1]! << 8)
      }
    )
    text += String.fromCharCode(...codes)
  }
  return text
}

/** A short name for a text of any length, which tells nothing of it; no two texts have the same. */
export const keyOf = (text: string): string => Hex.encode(sha256(bytesOf(text, 2)))

/** As many arguments as every engine takes. */
const chunkChars = 8_192
