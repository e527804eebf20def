/**
 * Where `tool-executor serve` may serve, and under which names it is reached.
 *
 * Loopback is open to every program and user of this machine, so tokens are asked for there, too. Beyond it they must
 * not travel readable: there is TLS, or somebody says who ends it.
 */
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import type { Problem } from "../../core/vocabulary/ConfigurationError.ts"
import { escape } from "../../internal/escape.ts"
import { defaults, type ServeConfig } from "./ServeConfig.ts"

export interface ServeAddress {
  readonly host: string
  readonly port: number
  readonly isTls: boolean
  /** Where users reach it, if that has been said. */
  readonly publicUrl: string | undefined
  /** The hosts that requests may be for, as they stand in URLs and without port. */
  readonly names: ReadonlyArray<string>
  /** What an operator should know, though it is served. */
  readonly warnings: ReadonlyArray<string>
}

/** Gives the address, or why nothing is served there and what to do. */
export const make = (
  server: NonNullable<ServeConfig["server"]>,
  given: { readonly host: string | undefined; readonly port: number | undefined }
): Result.Result<ServeAddress, Problem> => {
  const host = given.host ?? server.host ?? defaults.host
  const port = given.port ?? server.port ?? defaults.port
  const { publicUrl, tls, users = {} } = server
  if (Object.keys(users).length === 0) {
    return refused(
      "users",
      "it has no users",
      "at least one user. `tool-executor token ada` creates a token and prints the entry for this file. Loopback also " +
        "needs a token, because every program on this machine can reach it"
    )
  }
  if (tls !== undefined && publicUrl?.startsWith("http:") === true) {
    return refused("publicUrl", "it must begin with https://, because server.tls is set", "https://…")
  }
  const at = { host, port, isTls: tls !== undefined, publicUrl, names: namesOf(host, publicUrl) }
  if (isLoopback(host)) return Result.succeed({ ...at, warnings: [] })
  const shown = escape(host)
  if (tls === undefined && publicUrl === undefined) {
    return refused(
      "host",
      `tokens would be sent unencrypted beyond this machine (${shown})`,
      "HTTPS: either server.tls, or server.publicUrl \"https://…\" of a proxy that terminates TLS"
    )
  }
  if (isAnywhere(host) && publicUrl === undefined) {
    return refused(
      "host",
      `${shown} means every address of this machine`,
      "its public name, as server.publicUrl \"https://…\""
    )
  }
  const isReadable = publicUrl?.startsWith("http:") === true
  return Result.succeed({
    ...at,
    warnings: isReadable
      ? ["server.publicUrl is not https: tokens and data are sent unencrypted"]
      : []
  })
}

/** Gives the URL of an address whose port is known. */
export const urlOf = ({ host, isTls }: ServeAddress, port: number): string =>
  `${isTls ? "https" : "http"}://${inUrl(host)}:${port}`

/**
 * Gives what is wrong with the place of a server whose config may be wrong in other ways, too: what cannot be read
 * counts as not given, users as there.
 */
export const problemsOf = (server: unknown, given: Parameters<typeof make>[1]): ReadonlyArray<Problem> => {
  const { host, publicUrl, tls, users } = Predicate.isObject(server) ? server as Readonly<Record<string, unknown>> : {}
  const address = make({
    ...typeof host === "string" ? { host } : {},
    ...typeof publicUrl === "string" && URL.canParse(publicUrl) ? { publicUrl } : {},
    ...tls === undefined ? {} : { tls: { cert: "", key: "" } },
    users: Predicate.isObject(users) ? users as NonNullable<NonNullable<ServeConfig["server"]>["users"]> : {}
  }, given)
  return Result.isFailure(address) ? [address.failure] : []
}

const refused = (field: string, problem: string, expected: string): Result.Result<never, Problem> =>
  Result.fail({ path: `server.${field}`, problem, expected })

const isLoopback = (host: string): boolean => /^(?:localhost|127(?:\.\d{1,3}){3}|::1)$/i.test(host)

/** An address that stands for all. */
export const isAnywhere = (host: string): boolean => host === "0.0.0.0" || host === "::"

const inUrl = (host: string): string => host.includes(":") ? `[${host}]` : host.toLowerCase()

const namesOf = (host: string, publicUrl: string | undefined): ReadonlyArray<string> =>
  Array.from(
    new Set([
      "localhost",
      "127.0.0.1",
      "[::1]",
      ...isAnywhere(host) ? [] : [inUrl(host)],
      ...publicUrl === undefined ? [] : [new URL(publicUrl).hostname]
    ])
  )
