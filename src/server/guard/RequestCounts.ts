/**
 * Counts requests by route, method and status. Paths are counted as routes of the API, so the number of counters is
 * bounded.
 */
import * as Context from "effect/Context"
import * as Layer from "effect/Layer"

/** Requests of one route, method and status. */
export interface Count {
  readonly method: string
  /** As declared in the API; `other` for all other paths. */
  readonly route: string
  readonly status: number
  readonly requests: number
}

export class RequestCounts extends Context.Service<RequestCounts, {
  readonly count: (method: string, route: string | undefined, status: number) => void
  readonly counts: () => ReadonlyArray<Count>
}>()("effect-tool-executor/server/RequestCounts") {}

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

const methods = new Set(["GET", "HEAD", "POST", "DELETE", "OPTIONS"])
