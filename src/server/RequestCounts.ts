/**
 * How many requests there were, by route, method and status: never by what they name, so that nobody makes the
 * list longer than the API is.
 */
import * as Context from "effect/Context"
import * as Layer from "effect/Layer"

/** Requests of one route, method and status. */
export interface Count {
  readonly method: string
  /** As the API writes it; `other`: the API has none like it. */
  readonly route: string
  readonly status: number
  readonly requests: number
}

/** The counts. */
export class RequestCounts extends Context.Service<RequestCounts, {
  readonly count: (method: string, route: string | undefined, status: number) => void
  readonly counts: () => ReadonlyArray<Count>
}>()("effect-tool-executor/server/RequestCounts") {}

/** Layer that counts, from zero. */
export const layer: Layer.Layer<RequestCounts> = Layer.sync(RequestCounts, () => {
  const counts = new Map<string, Count>()
  return RequestCounts.of({
    count: (given, path, status) => {
      const method = methods.has(given) ? given : "other"
      const route = path ?? "other"
      const key = `${method} ${route} ${status}`
      counts.set(key, { method, route, status, requests: (counts.get(key)?.requests ?? 0) + 1 })
    },
    counts: () => Array.from(counts.values())
  })
})

// Utilities

const methods = new Set(["GET", "HEAD", "POST", "DELETE", "OPTIONS"])
