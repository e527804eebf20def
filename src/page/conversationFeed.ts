/**
 * Follows the events of a conversation. Names of events are open, which an event source cannot follow, so the stream is
 * read as text. A stream that ends or falls silent is continued after its last event.
 */
import type { AgentItem } from "../server/api/ApiOperations.ts"

/** The state of the stream. */
export interface Listener {
  /** Items that came together. */
  readonly onItems: (items: ReadonlyArray<AgentItem>) => void
  /** The conversation cannot be followed: it is gone, or the user is logged out. */
  readonly onGone: () => void
}

/** The server sends something at least every 15 seconds. */
const silence = 40_000
const firstPause = 500
const longestPause = 10_000

/** Follows a stream until the result is called. */
export const followEvents = (path: string, listener: Listener): () => void => {
  const stop = new AbortController()
  void follow(path, listener, stop.signal)
  return () => stop.abort()
}

const follow = async (path: string, { onGone, onItems }: Listener, stop: AbortSignal): Promise<void> => {
  let cursor: string | undefined
  let pause = firstPause
  while (!stop.aborted) {
    try {
      const silent = new AbortController()
      let timer = setTimeout(() => silent.abort(), silence)
      const response = await fetch(path, {
        headers: { accept: "text/event-stream", ...cursor === undefined ? {} : { "last-event-id": cursor } },
        signal: AbortSignal.any([stop, silent.signal])
      })
      if (response.status === 401 || response.status === 404) return onGone()
      if (!response.ok || response.body === null) throw new Error(`the server answered with ${response.status}`)
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader()
      let rest = ""
      for (let read = await reader.read(); !read.done; read = await reader.read()) {
        clearTimeout(timer)
        timer = setTimeout(() => silent.abort(), silence)
        pause = firstPause
        const { events, left } = eventsIn(rest + read.value)
        rest = left
        cursor = events.findLast((it) => it.id !== undefined)?.id ?? cursor
        if (events.length > 0) onItems(events.map(({ data }) => JSON.parse(data) as AgentItem))
      }
      clearTimeout(timer)
    } catch {
      // it is continued below
    }
    if (stop.aborted) return
    await new Promise((resolve) => setTimeout(resolve, pause))
    pause = Math.min(longestPause, pause * 2)
  }
}

/** A server-sent event. */
export interface ServerEvent {
  readonly id: string | undefined
  readonly data: string
}

/** The complete events at the beginning of a text, and what is left of it. Comments and events without data are left out. */
export const eventsIn = (text: string): { readonly events: ReadonlyArray<ServerEvent>; readonly left: string } => {
  const blocks = text.split(/\r\n\r\n|\n\n/)
  const left = blocks.pop() ?? ""
  const events = blocks.flatMap((block): ReadonlyArray<ServerEvent> => {
    const fields = block.split(/\r\n|\n/).map((line) => {
      const at = line.indexOf(":")
      return at < 0 ? [line, ""] as const : [line.slice(0, at), line.slice(at + 1).replace(/^ /, "")] as const
    })
    const data = fields.flatMap(([name, value]) => name === "data" ? [value] : []).join("\n")
    return data === "" ? [] : [{ id: fields.findLast(([name]) => name === "id")?.[1], data }]
  })
  return { events, left }
}
