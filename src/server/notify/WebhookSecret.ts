/** The secret of the webhook, which signs notifications and from which the key of links is derived. */
import * as Base64 from "effect/encoding/Base64"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import type { Problem } from "../../core/vocabulary/ConfigurationError.ts"

/** The bytes of a secret; `undefined` if it is not valid. */
export const keyOf = (secret: Redacted.Redacted<string>): Uint8Array | undefined => {
  const [, encoded] = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(Redacted.value(secret)) ?? []
  const key = encoded === undefined ? undefined : Result.getOrUndefined(Base64.decode(encoded))
  return key === undefined || key.length < 24 || key.length > 64 ? undefined : key
}

/** What is wrong with one that is not valid. */
export const problem: Problem = {
  path: "secret",
  problem: "it is not a valid secret",
  expected: "whsec_ and 24 to 64 bytes as base64"
}

/** A public URL without what stands behind its path. */
export const baseOf = (publicUrl: URL): string => publicUrl.href.replace(/[#?].*$/, "").replace(/\/+$/, "")

/** The address of an option; `undefined` if it is not one of a web server. */
export const addressOf = (text: string): URL | undefined => {
  const url = URL.canParse(text) ? new URL(text) : undefined
  return url !== undefined && /^https?:$/.test(url.protocol) && url.username === "" && url.password === ""
    ? url
    : undefined
}
