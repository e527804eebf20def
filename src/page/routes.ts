/**
 * Where one is on the page: the part of the address behind `#`.
 *
 * @since 0.1.0
 */
import { signal } from "@preact/signals"

/** The name of a view, and what it is about. */
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

/** Reads `#/view/part/part`; what is not encoded well is taken as it stands. */
export const routeOf = (hash: string): Route => {
  const [view = "", ...parts] = hash.replace(/^#?\/?/, "").split("/").map(decoded)
  return { view: view === "" ? "questions" : view, parts }
}

/** Gives the address of a view. */
export const to = (view: string, ...parts: ReadonlyArray<string>): string =>
  `#/${[view, ...parts].map(encodeURIComponent).join("/")}`

/** Where one is. */
export const route = signal<Route>(routeOf(location.hash))

/** Goes on following the address. */
export const followAddress = (): void =>
  addEventListener("hashchange", () => {
    route.value = routeOf(location.hash)
  })
