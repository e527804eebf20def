/** How the servers write their answers, and how they fail at it. */
import type { ServerResponse } from "node:http"
import { setTimeout as pause } from "node:timers/promises"
import { type Ending, type Frame, type Protocol, Refused, type Reply } from "./protocol.ts"
import type { Fault, Place } from "./script.ts"

export const send = (response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}) => {
  response.writeHead(status, { "content-type": "application/json", ...headers })
  response.end(JSON.stringify(body))
}

export const writeWhole = async <Body>(
  protocol: Protocol<Body>,
  response: ServerResponse,
  reply: Reply,
  fault: Fault | undefined
): Promise<Ending> => {
  if (fault !== undefined && "status" in fault) return writeStatus(protocol, response, fault)
  if (fault !== undefined && "error" in fault) return writeStatus(protocol, response, { status: 500 })
  if (fault !== undefined && "hang" in fault) return await gone(response)
  if (fault !== undefined && "cut" in fault) {
    const text = JSON.stringify(reply.whole)
    if (fault.cut !== 0) {
      response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(text) })
      await write(response, text.slice(0, text.length / 2))
    }
    return await breakOff(response)
  }
  for (const { issued } of reply.frames) issued?.()
  send(response, 200, reply.whole)
  return "answered"
}

export const writeStream = async <Body>(
  protocol: Protocol<Body>,
  response: ServerResponse,
  { frames }: Reply,
  fault: Fault | undefined
): Promise<Ending> => {
  if (fault !== undefined && "status" in fault) return writeStatus(protocol, response, fault)
  const place = fault === undefined || "half" in fault
    ? undefined
    : "cut" in fault
    ? fault.cut
    : "error" in fault
    ? fault.error
    : fault.hang
  const { half, whole } = place === undefined ? { whole: frames.length, half: false } : reach(frames, place)
  const newline = protocol.newline ?? "\n"
  if (fault !== undefined && "cut" in fault && fault.cut === 0) return await breakOff(response)
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" })
  response.flushHeaders()
  for (const frame of frames.slice(0, whole)) {
    if (response.destroyed) return "left"
    frame.issued?.()
    await write(response, bytesOf(frame, newline))
  }
  const next = frames[whole]
  // an error is an event of its own: it does not come into the middle of another
  if (half && next !== undefined && fault !== undefined && !("error" in fault)) {
    const bytes = bytesOf(next, newline)
    await write(response, bytes.slice(0, bytes.length / 2))
  }
  if (fault !== undefined && "cut" in fault) return await breakOff(response)
  if (fault !== undefined && "hang" in fault) return await gone(response)
  if (fault !== undefined && "error" in fault) {
    await write(response, bytesOf(protocol.failed("Overloaded"), newline))
    response.end()
    return "failed"
  }
  response.end()
  return "answered"
}

// Utilities

const bytesOf = ({ data, event }: Frame, newline: string) =>
  `${event === undefined ? "" : `event: ${event}${newline}`}data: ${
    typeof data === "string" ? data : JSON.stringify(data)
  }${newline}${newline}`

/** How many events are written whole before a place, and whether half of the next is. */

const reach = (frames: ReadonlyArray<Frame>, place: Place): { readonly whole: number; readonly half: boolean } => {
  if (place !== "arguments") return { whole: Math.min(place, frames.length), half: false }
  const first = frames.findIndex((frame) => frame.argument === true)
  if (first === -1) return { whole: Math.floor(frames.length / 2), half: false }
  const length = frames.slice(first).findIndex((frame) => frame.argument !== true)
  return length === 1 ? { whole: first, half: true } : { whole: first + Math.floor(length / 2), half: false }
}

/** A status instead of an answer. */

const writeStatus = <Body>(
  protocol: Protocol<Body>,
  response: ServerResponse,
  { as, retryAfter, status: asked }: Extract<Fault, { readonly status: number }>
): Ending => {
  const status = asked === 529 ? protocol.overloaded : asked
  const limits = retryAfter === undefined ? {} : protocol.limits(retryAfter)
  const after = retryAfter === undefined ? {} : {
    "retry-after": as === "date" ? new Date(Date.now() + retryAfter * 1_000).toUTCString() : String(retryAfter)
  }
  const message = asked === 429 ? "Rate limit reached" : asked === 529 ? "Overloaded" : "Internal server error"
  const details = limits.details === undefined ? {} : { details: limits.details }
  send(response, status, protocol.error(new Refused(message, status, details)), { ...after, ...limits.headers })
  return "failed"
}

/** Each write is a chunk of its own, with time for the client to read it, or to go away. */

const write = async (response: ServerResponse, text: string) => {
  if (response.destroyed) return
  await new Promise((resolve) => response.write(text, resolve))
  await new Promise((resolve) => setImmediate(resolve))
}

/** What was written is read first: a client forgets what it holds and has not read when a connection breaks. */

const breakOff = async (response: ServerResponse): Promise<Ending> => {
  await pause(5)
  response.destroy()
  return "cut"
}

const gone = (response: ServerResponse): Promise<Ending> =>
  new Promise((resolve) => {
    if (response.destroyed) return resolve("left")
    response.once("close", () => resolve("left"))
  })
