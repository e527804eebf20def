/**
 * Requests to the server. What comes back is what was asked for, or a problem that says what is
 * wrong in words for people; a request never throws.
 *
 * @since 0.1.0
 */

/** What the server says where it did not do what it was asked (RFC 9457), or why it was not reached. */
export interface Problem {
  /** 0: the server was not reached. */
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

/** What became of a request. */
export type Reply<A> =
  | { readonly ok: true; readonly value: A }
  | { readonly ok: false; readonly problem: Problem }

/** Asks for something. Addresses are relative: the page may stand below any path. */
export const get = <A>(path: string): Promise<Reply<A>> => request("GET", path)

/** Changes something. */
export const post = <A>(path: string, body: unknown): Promise<Reply<A>> => request("POST", path, body)

/** Takes something away. */
export const remove = (path: string): Promise<Reply<undefined>> => request("DELETE", path)

/** Makes one text of a problem. */
export const sentenceOf = ({ detail, errors = [], title }: Problem): string =>
  [
    title,
    ...detail === undefined ? [] : [detail],
    ...errors.map((it) => it.path === undefined || it.path === "" ? it.problem : `${it.path}: ${it.problem}`)
  ].join(" ")

// Utilities

const titles: Readonly<Record<number, string>> = {
  401: "You are not logged in any more.",
  403: "You may not do that.",
  404: "There is no such thing.",
  413: "That is too large.",
  429: "A limit is reached. Try again in a moment.",
  503: "This is not possible now. Try again."
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
      problem: { status: 0, title: "The server cannot be reached. Nothing was changed, as far as is known." }
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
