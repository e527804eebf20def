/**
 * Texts of stored records: one JSON object each, whose field `v` says which version of the format it has.
 *
 * Values in memory have no `v`. A release reads every version that its `readers` list, and writes the last one.
 */
import * as Result from "effect/Result"

/** Reads the records of one version. */
export type Reader<A> = (value: unknown) => Result.Result<A, { readonly message: string }>

/** The text of a record: its JSON with the version in front. */
export const encode = (version: number, json: string): string =>
  json === "{}" ? `{"v":${version}}` : `{"v":${version},${json.slice(1)}`

/** The record of a text, or what is wrong with it. */
export const decode = <A>(
  readers: { readonly [version: number]: Reader<A> },
  text: string
): Result.Result<A, Error> => {
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch (cause) {
    return Result.fail(new Error("it is not JSON", { cause }))
  }
  if (typeof parsed !== "object" || parsed === null) return Result.fail(new Error("it is not a JSON object"))
  const { v, ...record } = parsed as { readonly [key: string]: unknown }
  const reader = typeof v === "number" && Object.hasOwn(readers, v) ? readers[v] : undefined
  if (reader === undefined) {
    const known = Object.keys(readers).join(", ")
    return Result.fail(new Error(`it has version ${JSON.stringify(v) ?? "none"}, and this release reads ${known}`))
  }
  return Result.mapError(reader(record), (it) => new Error(it.message))
}
