/** Cuts of UTF-8 bytes that do not go through a character. */

/** Gives how many leading bytes hold only whole characters. */
export const wholeLength = (bytes: Uint8Array): number => {
  for (let back = 1; back <= Math.min(3, bytes.length); back++) {
    const byte = bytes[bytes.length - back]!
    if ((byte & 0b1100_0000) === 0b1000_0000) continue
    const needs = byte >= 0b1111_0000 ? 4 : byte >= 0b1110_0000 ? 3 : byte >= 0b1100_0000 ? 2 : 1
    return needs > back ? bytes.length - back : bytes.length
  }
  return bytes.length
}

/** Gives the offset of the first byte that begins a character. */
export const firstWhole = (bytes: Uint8Array): number => {
  let offset = 0
  while (offset < 3 && offset < bytes.length && (bytes[offset]! & 0b1100_0000) === 0b1000_0000) offset++
  return offset
}

/** Decodes bytes; what is not UTF-8 becomes U+FFFD, and a byte order mark is kept. */
export const decode = (bytes: Uint8Array): string => decoder.decode(bytes)

const decoder = new TextDecoder("utf-8", { ignoreBOM: true })
