/**
 * The failure of `fetch_url` without a response: a plain tagged value with a message for the model.
 *
 * A response with a status such as 404 is not covered: that is a result.
 */
import * as Schema from "effect/Schema"
import { clip } from "../../internal/clip.ts"

/** Schema of a failure of `fetch_url`. */
export const FetchFailure = Schema.Struct({
  error: Schema.Literals([
    /** The text is no URL that can be fetched. */
    "InvalidUrl",
    /** The name of the host leads to no address. */
    "UnknownHost",
    /** The host is, or its name leads to, an address that is not public. */
    "ForbiddenAddress",
    /** No connection in time. */
    "ConnectTimeout",
    /** The connection was refused, or broke before there was a response. */
    "ConnectionFailed",
    /** The certificate of the server is not valid for the host, or there is no TLS. */
    "TlsFailed",
    /** What came is no HTTP response, or its body is broken off or cannot be decoded. */
    "InvalidResponse",
    /** The page leads to itself, or on and on. */
    "TooManyRedirects",
    /** The body is not text. */
    "BinaryContent"
  ]),
  /** The URL it is about, as the model gave it or as a redirect did; at most 300 characters. */
  url: Schema.String,
  /** What was wrong, and what would be right. */
  message: Schema.String
})

/** A failure of `fetch_url`. */
export type FetchFailure = typeof FetchFailure.Type

export const make = (error: FetchFailure["error"], url: string, message: string): FetchFailure => ({
  error,
  url: clip(url, 300),
  message
})
