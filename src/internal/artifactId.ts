/**
 * Ids of artifacts that are kept outside of the process: they sort by age, and say how large the payload is and how its
 * characters are kept, so that nothing is looked up before it is read.
 */
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Hex from "effect/encoding/Hex"
import type { Width } from "./textBytes.ts"

/** What an id says of its payload. */
export interface Said {
  readonly at: number
  readonly chars: number
  readonly width: Width
}

/** Makes the ids of one store. */
export const maker = (): (said: Said) => string => {
  let order = 0
  return ({ at, chars, width }) => {
    const time = Math.max(0, at).toString(36).padStart(9, "0")
    const inOrder = (++order % 36 ** 3).toString(36).padStart(3, "0")
    const random = Hex.encode(SecureRandom.randomBytesUnsafe(6))
    return `art_${time}${inOrder}${random}-${chars.toString(36)}${width === 1 ? "n" : "w"}`
  }
}

/** `undefined` if the text is not an id. */
export const read = (id: string): Said | undefined => {
  const [, at, chars, width] = pattern.exec(id) ?? []
  return at === undefined || chars === undefined
    ? undefined
    : { at: Number.parseInt(at, 36), chars: Number.parseInt(chars, 36), width: width === "n" ? 1 : 2 }
}

const pattern = /^art_([0-9a-z]{9})[0-9a-z]{3}[0-9a-f]{12}-([0-9a-z]{1,9})([nw])$/
