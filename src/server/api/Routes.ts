/** Routes of the API by path, to find the methods of a path and to count requests by route. */
import { Api } from "./Api.ts"

export interface Route {
  /** As declared in the API: `/api/sessions/:session`. */
  readonly path: string
  readonly methods: ReadonlyArray<string>
}

/** The route of a path; `undefined` for other paths. */
export const find = (path: string): Route | undefined => routes.find(({ pattern }) => pattern.test(path))

const byPath = new Map<string, Array<string>>()

for (const group of Object.values(Api.groups)) {
  for (const { method, path } of Object.values(group.endpoints)) {
    byPath.set(path, [...byPath.get(path) ?? [], method])
  }
}

/** Fixed segments come before parameters, as in the router. */
const routes = Array.from(byPath, ([path, methods]) => ({
  path,
  methods: methods.includes("GET") ? [...methods, "HEAD"] : methods,
  pattern: new RegExp(`^${path.replaceAll(/[.*+?^$()|[\]{}\\]/g, "\\$&").replaceAll(/:\w+/g, "[^/]+")}/?$`, "i")
})).sort((one, other) => one.path.split(":").length - other.path.split(":").length)
