/** The current view of the page: the part of the URL after `#`. */
import { signal } from "@preact/signals"

/** The name of a view and its parameters. */
export interface Route {
  readonly view: string
  readonly parts: ReadonlyArray<string>
}

const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** Reads `#/view/part/part`. Invalid encodings are taken literally. */
export const routeOf = (hash: string): Route => {
  const [view = "", ...parts] = hash.replace(/^#?\/?/, "").split("/").map(decoded)
  return { view: view === "" ? "approvals" : view, parts }
}

/** Returns the URL of a view. */
export const to = (view: string, ...parts: ReadonlyArray<string>): string =>
  `#/${[view, ...parts].map(encodeURIComponent).join("/")}`

/** The current route. */
export const route = signal<Route>(routeOf(location.hash))

/** Follows changes of the URL. */
export const followAddress = (): void =>
  addEventListener("hashchange", () => {
    route.value = routeOf(location.hash)
  })
