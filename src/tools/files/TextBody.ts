/** Bytes of a response as text, by what the response says of them. */
import * as Result from "effect/Result"
import { isBinary } from "./ReadFile.ts"

/** What a `Content-Type` says: `unknown` where nothing, or nothing that means anything (`application/octet-stream`). */
export const kindOf = (contentType: string | undefined): "text" | "binary" | "unknown" => {
  const type = (contentType ?? "").split(";")[0]!.trim().toLowerCase()
  if (type === "" || type === "application/octet-stream") return "unknown"
  return isText.test(type) ? "text" : "binary"
}

/**
 * Decodes bytes; `undefined` if they are not text. `charset` is there if the response names one that is not known: then
 * the bytes were read as UTF-8.
 *
 * A byte order mark goes before the charset of the response, and UTF-8 is what holds without both. Bytes of unknown
 * kind have to be valid in it. Of a truncated text the piece of a character at its end is left out.
 */
export const decode = (
  bytes: Uint8Array,
  contentType: string | undefined,
  truncated: boolean
): { readonly text: string; readonly charset?: string } | undefined => {
  const charset = markOf(bytes) ?? charsetOf(contentType)
  const options = { fatal: kindOf(contentType) === "unknown" }
  const known = Result.try(() => new TextDecoder(charset, options))
  const decoder = Result.getOrElse(known, () => new TextDecoder("utf-8", options))
  if (!decoder.encoding.startsWith("utf-16") && isBinary(bytes)) return undefined
  const text = Result.try(() => decoder.decode(bytes, { stream: truncated }))
  if (Result.isFailure(text)) return undefined
  return Result.isSuccess(known) ? { text: text.success } : { text: text.success, charset }
}

const isText =
  /^(?:text\/.*|.*\+(?:json|xml|yaml)|application\/(?:json|xml|yaml|toml|sql|graphql|javascript|ecmascript|x-(?:javascript|yaml|sh|toml|ndjson|www-form-urlencoded)|ndjson|jsonl|json-seq))$/

const charsetOf = (contentType: string | undefined): string =>
  /;\s*charset\s*=\s*"?([^\s";]+)/i.exec(contentType ?? "")?.[1] ?? "utf-8"

const markOf = (bytes: Uint8Array): string | undefined => {
  const [first, second, third] = bytes
  if (first === 0xef && second === 0xbb && third === 0xbf) return "utf-8"
  if (first === 0xfe && second === 0xff) return "utf-16be"
  return first === 0xff && second === 0xfe ? "utf-16le" : undefined
}
