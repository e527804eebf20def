/** Requests to the server. A reply is the value or a problem with text for people. A request never throws. */

/** A problem reported by the server (RFC 9457), or the reason why the server was not reached. */
export interface Problem {
  /** HTTP status; 0 if the server was not reached. */
  readonly status: number
  readonly title: string
  readonly detail?: string
  readonly how?: string
  readonly by?: string
  readonly at?: number
  readonly errors?: ReadonlyArray<{
    readonly id?: string
    readonly path?: string
    readonly reason?: string
    readonly problem: string
    readonly by?: string
  }>
}

/** The result of a request. */
export type Reply<A> =
  | { readonly ok: true; readonly value: A }
  | { readonly ok: false; readonly problem: Problem }

/** Sends a GET request. Paths are relative, since the page can be mounted below any path. */
export const get = <A>(path: string): Promise<Reply<A>> => request("GET", path)

/** Sends a POST request. */
export const post = <A>(path: string, body: unknown): Promise<Reply<A>> => request("POST", path, body)

/** Sends a DELETE request. */
export const remove = (path: string): Promise<Reply<undefined>> => request("DELETE", path)

/** Formats a problem as one text. */
export const sentenceOf = ({ detail, errors = [], title }: Problem): string =>
  [
    title,
    ...detail === undefined ? [] : [detail],
    ...errors.map((it) => it.path === undefined || it.path === "" ? it.problem : `${it.path}: ${it.problem}`)
  ].join(" ")

const titles: Readonly<Record<number, string>> = {
  401: "Your session has ended. Log in again.",
  403: "You do not have permission to do this.",
  404: "Not found.",
  413: "The request is too large.",
  429: "Too many requests. Try again in a moment.",
  503: "The server is unavailable. Try again."
}

const request = async <A>(method: string, path: string, body?: unknown): Promise<Reply<A>> => {
  try {
    const response = await fetch(path, {
      method,
      headers: method === "GET" ? {} : { "content-type": "application/json" },
      ...body === undefined ? {} : { body: JSON.stringify(body) }
    })
    const content = jsonOf(await response.text())
    if (response.ok) return { ok: true, value: content as A }
    const problem = typeof content === "object" && content !== null ? content as Partial<Problem> : {}
    const title = problem.title ?? titles[response.status] ?? `The server answered with ${response.status}.`
    return { ok: false, problem: { ...problem, title, status: response.status } }
  } catch {
    return {
      ok: false,
      problem: { status: 0, title: "The server cannot be reached. Your change may not have been saved." }
    }
  }
}

const jsonOf = (text: string): unknown => {
  try {
    return text === "" ? undefined : JSON.parse(text)
  } catch {
    return undefined
  }
}
