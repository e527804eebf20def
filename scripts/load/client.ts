// Clients of the server under load: requests, and streams that can be cut anywhere.
import type { ApiApprovals, ApiModels } from "effect-tool-executor/server"
import { Agent, type IncomingMessage, request } from "node:http"
import { tokenOf } from "./tokens.ts"

const agent = new Agent({ keepAlive: true, maxSockets: Infinity })

export interface Answer<A> {
  readonly status: number
  readonly json: A
}

const open = (
  url: string,
  user: number,
  method: string,
  body: unknown,
  headers: Record<string, string>,
  signal?: AbortSignal
): Promise<IncomingMessage> =>
  new Promise((resolve, reject) => {
    const sent = request(url, {
      agent,
      method,
      ...signal === undefined ? {} : { signal },
      headers: {
        authorization: `Bearer ${tokenOf(user)}`,
        ...body === undefined ? {} : { "content-type": "application/json" },
        ...headers
      }
    }, resolve)
    sent.on("error", (error: NodeJS.ErrnoException) =>
      // a connection that was kept has ended just when it was used again
      sent.reusedSocket && error.code === "ECONNRESET"
        ? resolve(open(url, user, method, body, headers, signal))
        : reject(error))
    sent.end(body === undefined ? undefined : JSON.stringify(body))
  })

/** Sends a request and reads its answer. */
export const send = async <A>(
  url: string,
  user: number,
  method: string,
  path: string,
  body?: unknown,
  signal?: AbortSignal
): Promise<Answer<A>> => {
  const response = await open(`${url}${path}`, user, method, body, {}, signal)
  let text = ""
  for await (const part of response.setEncoding("utf8")) text += part
  return { status: response.statusCode ?? 0, json: (text === "" ? undefined : JSON.parse(text)) as A }
}

/** A server-sent event, and when it came. */
export interface Event {
  readonly id: string | undefined
  readonly event: string
  readonly data: ApiApprovals.LiveItem | ApiModels.WaveItem
  readonly at: number
}

/** A stream that is read until it ends, or is cut. */
export interface Listening {
  readonly cut: () => void
  readonly ended: Promise<void>
}

/** Reads a stream, of what a body submits if there is one; `told` is called at once with each event. */
export const listen = async (
  url: string,
  user: number,
  path: string,
  told: (event: Event) => void,
  after?: string,
  body?: unknown
): Promise<Listening> => {
  const response = await open(`${url}${path}`, user, body === undefined ? "GET" : "POST", body, {
    accept: "text/event-stream",
    ...after === undefined ? {} : { "last-event-id": after }
  })
  if (response.statusCode !== 200) throw new Error(`${path}: ${response.statusCode}`)
  let left = ""
  let isCut = false
  response.setEncoding("utf8").on("data", (part: string) => {
    if (isCut) return
    const blocks = (left + part).split("\n\n")
    left = blocks.pop() ?? ""
    for (const block of blocks) {
      const field = (name: string) =>
        block.split("\n").find((line) => line.startsWith(`${name}:`))?.slice(name.length + 1).trimStart()
      const data = field("data")
      if (data === undefined || isCut) continue
      told({ id: field("id"), event: field("event") ?? "message", data: JSON.parse(data), at: Date.now() })
    }
  })
  const ended = new Promise<void>((resolve) => {
    response.once("close", resolve)
    response.once("error", () => resolve())
  })
  return {
    cut: () => {
      isCut = true
      response.destroy()
    },
    ended
  }
}

/** A message with calls, in our own format: `[tool, key, milliseconds]` each. */
export const message = (calls: ReadonlyArray<readonly [tool: string, key: string, millis: number]>) => ({
  format: "native",
  message: calls.map(([name, key, millis]) => ({ id: key, name, params: { key, millis } }))
})

/** Names of what is of the life of a call: exactly once each. */
export const isLife = (event: string): boolean =>
  /^(?:tool_call_(?:queued|start|complete)|tool_approval_(?:request|resolved)|tools_end|wave_suspended)$/.test(event)
