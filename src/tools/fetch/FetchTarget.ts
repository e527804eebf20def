/**
 * What a URL is about: the server that would be asked.
 *
 * It looks at the text alone. Where the name of a host leads to is not its concern (see `PublicAddress`).
 */
import * as Result from "effect/Result"
import type * as ToolAnnotations from "../../core/vocabulary/ToolAnnotations.ts"
import { clip } from "../../internal/clip.ts"
import * as WiderTargets from "../workspace/WiderTargets.ts"

/** A URL that can be fetched. */
export interface FetchTarget {
  readonly url: URL
  /**
   * Host in its one canonical text: lower case, IDN in Punycode, numbers of an address in their usual form, no dot at
   * the end; with the port where it is not the default of the scheme.
   */
  readonly host: string
  /** The same without the port, and without the brackets of an IPv6 address. */
  readonly hostname: string
}

/** Most characters of a URL. */
export const maxLength = 8_000

/** Parses a URL; the failure says what is wrong and what would be right. */
export const parse = (text: string, base?: string): Result.Result<FetchTarget, string> => {
  if (text.length > maxLength) return Result.fail(`The URL has ${text.length} characters. Use at most ${maxLength}.`)
  if (!URL.canParse(text, base)) {
    return Result.fail("It is not an absolute URL. Give one such as https://example.com/page.")
  }
  const url = new URL(text, base)
  if (url.protocol !== "http:" && url.protocol !== "https:") {
    return Result.fail(`Its scheme is "${clip(url.protocol.slice(0, -1), 30)}". Only http and https can be fetched.`)
  }
  if (url.username !== "" || url.password !== "") {
    return Result.fail("It holds a user name or password. Give the URL without the part before the @.")
  }
  if (url.port === "0") return Result.fail("Port 0 is not a port. Give the port of the server, or leave it out.")
  if (url.hostname.endsWith(".")) url.hostname = url.hostname.slice(0, -1)
  const hostname = url.hostname.replace(/^\[(.*)\]$/, "$1")
  return hostname.length <= 253 && (hostname !== url.hostname || isName.test(hostname))
    ? Result.succeed({ url, host: url.host, hostname })
    : Result.fail("Its host name is not valid. Give a host such as example.com.")
}

/**
 * Gives what a call with a `url` is about, for policies: the host in its canonical text. A URL that cannot be fetched
 * is a text that only a pattern for the whole tool allows.
 */
export const targets = (params: unknown): ToolAnnotations.TargetsOf => {
  const { url } = params as { readonly url: string }
  return Result.match(parse(url), {
    onSuccess: ({ host }) => {
      const wider = WiderTargets.domains(host)
      return [wider.length === 0 ? { text: host } : { text: host, wider }]
    },
    // no host has quotes
    onFailure: () => [{ text: `URL ${JSON.stringify(clip(url, 300))}`, kind: "exact" }]
  })
}

/** Labels of letters, digits, `-` and `_`, none of them empty. */
const isName = /^[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*$/
