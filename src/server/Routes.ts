/**
 * The endpoints of the API by path: for what is asked of a path that is there for another method, and
 * for counting requests by route, whatever ids they name.
 */
import { Api } from "./Api.ts"

/** A path of the API. */
export interface Route {
  /** As the API writes it: `/api/sessions/:session`. */
  readonly path: string
  readonly methods: ReadonlyArray<string>
}

/** Gives the route of a path; `undefined`: the API has none like it. */
export const find = (path: string): Route | undefined => routes.find(({ pattern }) => pattern.test(path))

// Utilities

const byPath = new Map<string, Array<string>>()

for (const group of Object.values(Api.groups)) {
  for (const { method, path } of Object.values(group.endpoints)) {
    byPath.set(path, [...byPath.get(path) ?? [], method])
  }
}

/** Fixed words before parameters, as the router has it. */
const routes = Array.from(byPath, ([path, methods]) => ({
  path,
  methods: methods.includes("GET") ? [...methods, "HEAD"] : methods,
  pattern: new RegExp(`^${path.replaceAll(/[.*+?^$()|[\]{}\\]/g, "\\$&").replaceAll(/:\w+/g, "[^/]+")}/?$`, "i")
})).sort((one, other) => one.path.split(":").length - other.path.split(":").length)
