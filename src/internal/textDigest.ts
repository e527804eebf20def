/** A 128-bit digest of texts: fast, and good enough that no two texts of one process share it. Not for passwords. */

/** Random per process, so that texts with equal digests cannot be prepared. */
const seed = crypto.getRandomValues(new Int32Array(4))

/** The digest of the texts added since `begin`, as four integers. One object serves all texts of a caller. */
export class TextDigest {
  first = 0
  second = 0
  third = 0
  fourth = 0

  begin(): void {
    this.first = seed[0]!
    this.second = seed[1]!
    this.third = seed[2]!
    this.fourth = seed[3]!
  }

  /** Begins where another digest is now. */
  continue({ first, fourth, second, third }: TextDigest): void {
    this.first = first
    this.second = second
    this.third = third
    this.fourth = fourth
  }

  /** Adds a text, two characters at a time; its length tells where it ends. */
  add(text: string): void {
    const { length } = text
    let a = this.first ^ length
    let b = this.second
    let c = this.third
    let d = this.fourth
    const even = length & ~1
    for (let at = 0; at < even; at += 2) {
      const pair = text.charCodeAt(at) | text.charCodeAt(at + 1) << 16
      a = b ^ Math.imul(a ^ pair, 597399067)
      b = c ^ Math.imul(b ^ pair, -1425107063)
      c = d ^ Math.imul(c ^ pair, 951274213)
      d = a ^ Math.imul(d ^ pair, -1578923117)
    }
    const rest = even < length ? text.charCodeAt(even) : 0
    this.first = b ^ Math.imul(a ^ rest, 597399067)
    this.second = c ^ Math.imul(b ^ rest, -1425107063)
    this.third = d ^ Math.imul(c ^ rest, 951274213)
    this.fourth = this.first ^ Math.imul(d ^ rest, -1578923117)
  }

  /** Lets every bit depend on every other. */
  end(): void {
    const a = Math.imul(this.third ^ this.first >>> 18, 597399067)
    const b = Math.imul(this.fourth ^ this.second >>> 22, -1425107063)
    const c = Math.imul(a ^ this.third >>> 17, 951274213)
    const d = Math.imul(b ^ this.fourth >>> 19, -1578923117)
    this.first = a ^ b ^ c ^ d
    this.second = b ^ this.first
    this.third = c ^ this.first
    this.fourth = d ^ this.first
  }
}
