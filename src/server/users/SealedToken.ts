/**
 * The token of a login, encrypted with its cookie. The browser alone has the cookie, and the server alone what it
 * encrypts: whoever reads the stored logins can act for nobody.
 *
 * A cookie has 256 random bits and encrypts one token, so its key is used with one nonce.
 */
import { hkdf } from "@noble/hashes/hkdf.js"
import { sha256 } from "@noble/hashes/sha2.js"
import * as Aead from "effect/crypto/Aead"
import type { CryptoError } from "effect/crypto/CryptoError"
import * as SecureRandom from "effect/crypto/SecureRandom"
import * as Effect from "effect/Effect"
import * as Base64 from "effect/encoding/Base64"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"

/** Encrypts and decrypts tokens. */
export interface SealedToken {
  readonly seal: (cookie: string, token: Redacted.Redacted<string>) => Effect.Effect<string>
  /** `undefined` if the cookie or what is stored is another one. */
  readonly open: (cookie: string, sealed: string) => Effect.Effect<Redacted.Redacted<string> | undefined>
}

export const make: Effect.Effect<SealedToken> = Effect.gen(function*() {
  const aead = yield* Aead.Aead
  return {
    seal: (cookie: string, token: Redacted.Redacted<string>) =>
      Effect.gen(function*() {
        const sealed = yield* aead.encrypt(yield* keyOf(cookie), encoder.encode(Redacted.value(token)), { nonce })
        return version + Base64.encode(sealed)
      }).pipe(Effect.orDie),
    open: (cookie: string, sealed: string) =>
      Effect.gen(function*() {
        if (!sealed.startsWith(version)) return undefined
        const bytes = Result.getOrUndefined(Base64.decode(sealed.slice(version.length)))
        if (bytes === undefined) return undefined
        const token = yield* aead.decrypt(yield* keyOf(cookie), bytes, { nonce })
        return Redacted.make(new TextDecoder().decode(token))
      }).pipe(Effect.orElseSucceed(() => undefined))
  }
}).pipe(Effect.provide(Layer.provide(Aead.layerWebCrypto, SecureRandom.layerWebCrypto)))

const version = "v1:"

const encoder = new TextEncoder()

const nonce = new Uint8Array(24)

/** The stored hash of the cookie says nothing about the key. */
const keyOf = (cookie: string): Effect.Effect<Aead.Key, CryptoError> =>
  Aead.key(
    Aead.xchacha20Poly1305,
    hkdf(sha256, encoder.encode(cookie), undefined, encoder.encode("effect-tool-executor/server/SealedToken"), 32)
  )
