/**
 * Tokens of users. The server stores only their hashes.
 *
 * A token is `tex_`, 256 random bits and a checksum, in letters and digits, so that secret scanners and redaction
 * recognise it. Since it is random, a plain SHA-256 is safe to store.
 */
import { sha256 } from "@noble/hashes/sha2.js"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as Hex from "effect/encoding/Hex"
import * as Redacted from "effect/Redacted"

/** Creates a token. Show it once to its user, and configure its `hash` on the server. */
export const make: Effect.Effect<Redacted.Redacted<string>> = Effect.sync(() => Redacted.make(secret("tex_")))

/** The hash of a token: `sha256:` and 64 hexadecimal digits. */
export const hash = (token: Redacted.Redacted<string>): string => `sha256:${digest(Redacted.value(token))}`

/** Tells whether a text has the form of a token hash. */
export const isHash = (text: unknown): text is string => typeof text === "string" && /^sha256:[0-9a-f]{64}$/.test(text)

/** Tells whether a text is a token with a valid checksum. */
export const isToken = (text: string): boolean => {
  const [, prefix, random, sum] = /^(tex_)([A-Za-z0-9]{43})([A-Za-z0-9]{6})$/.exec(text) ?? []
  return prefix !== undefined && random !== undefined && checksum(prefix + random) === sum
}

/** Creates a secret of 256 random bits with a prefix. */
export const secret = (prefix: string): string => {
  const start = prefix + base62(SecureRandom.randomBytesUnsafe(32), 43)
  return start + checksum(start)
}

const digest = (text: string): string => Hex.encode(sha256(new TextEncoder().encode(text)))

const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

/** 43 digits hold 256 bits. */
const base62 = (bytes: Uint8Array, length: number): string => {
  let left = BigInt(`0x${Hex.encode(bytes)}`)
  let text = ""
  for (let at = 0; at < length; at++) {
    text = digits[Number(left % 62n)]! + text
    left /= 62n
  }
  return text
}

const checksum = (text: string): string => base62(sha256(new TextEncoder().encode(text)), 6)
