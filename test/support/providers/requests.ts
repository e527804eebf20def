/** Requests by hand: what a client sent, sent again, as it was or spoilt. */
import type { Server } from "./server.ts"

/** The body of the last request, to be spoilt. */
export const lastBody = <Body>(server: Server): Body => structuredClone(server.requests.at(-1)!.body) as Body

/** Sends a body the way of a server's last request, by default to that server; the status, and what an error says. */
export const post = async (
  from: Server,
  body: unknown,
  to: Server = from
): Promise<{ readonly status: number; readonly message: string; readonly headers: Headers }> => {
  const { headers, path } = from.requests.at(-1)!
  const kept = ["content-type", "authorization", "x-api-key", "anthropic-version", "x-goog-api-key"]
  const response = await fetch(`${to.url}${path}`, {
    method: "POST",
    headers: kept.flatMap((name) =>
      headers[name] === undefined ? [] : [[name, String(headers[name])] as [string, string]]
    ),
    body: JSON.stringify(body)
  })
  const text = await response.text()
  const error = response.ok ? undefined : JSON.parse(text) as { readonly error: { readonly message: string } }
  return { status: response.status, message: error?.error.message ?? "", headers: response.headers }
}
