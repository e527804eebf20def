/** How the servers write their answers, and how they fail at it. */
import type { ServerResponse } from "node:http"
import { setTimeout as pause } from "node:timers/promises"
import { type Ending, type Frame, type Protocol, Refused, type Reply } from "./protocol.ts"
import type { Fault, Place } from "./script.ts"

export const send = (response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}) => {
  response.writeHead(status, { "content-type": "application/json", ...headers })
  response.end(JSON.stringify(body))
}

/** Writes a turn, as a stream or whole, up to its fault. */
export const write = async <Body>(
  protocol: Protocol<Body>,
  response: ServerResponse,
  reply: Reply,
  { fault, stream }: { readonly fault: Fault | undefined; readonly stream: boolean }
): Promise<Ending> => {
  if (fault !== undefined && "status" in fault) return writeStatus(protocol, response, fault)
  const end = endOf(fault)
  if (end?.how === "cut" && end.place === 0) return await breakOff(response)
  return stream
    ? await writeStream(protocol, response, reply.frames, end)
    : await writeWhole(protocol, response, reply, end)
}

// Utilities

/** Where a stream ends too early, and how. */
interface End {
  readonly how: "cut" | "ends" | "error" | "hang"
  readonly place: Place
}

const endOf = (fault: Fault | undefined): End | undefined => {
  if (fault === undefined) return undefined
  if ("cut" in fault) return { how: "cut", place: fault.cut }
  if ("ends" in fault) return { how: "ends", place: fault.ends }
  if ("error" in fault) return { how: "error", place: fault.error }
  return "hang" in fault ? { how: "hang", place: fault.hang } : undefined
}

const writeStream = async <Body>(
  protocol: Protocol<Body>,
  response: ServerResponse,
  frames: ReadonlyArray<Frame>,
  end: End | undefined
): Promise<Ending> => {
  const newline = protocol.newline ?? "\n"
  const { half, whole } = end === undefined ? { whole: frames.length, half: undefined } : reach(frames, end.place)
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" })
  response.flushHeaders()
  for (const frame of frames.slice(0, whole)) {
    if (response.destroyed) return "left"
    frame.issued?.()
    await writeChunk(response, bytesOf(frame, newline))
  }
  // an error is an event of its own: it does not come into the middle of another
  if (half !== undefined && end?.how !== "error") {
    const bytes = bytesOf(half, newline)
    await writeChunk(response, bytes.slice(0, bytes.length / 2))
  }
  if (end?.how === "cut") return await breakOff(response)
  if (end?.how === "hang") return await gone(response)
  if (end?.how === "error") await writeChunk(response, bytesOf(protocol.failed("Overloaded"), newline))
  response.end()
  return end === undefined ? "answered" : "failed"
}

const writeWhole = async <Body>(
  protocol: Protocol<Body>,
  response: ServerResponse,
  { frames, whole }: Reply,
  end: End | undefined
): Promise<Ending> => {
  if (end?.how === "error") return writeStatus(protocol, response, { status: 500 })
  if (end?.how === "hang") return await gone(response)
  if (end?.how === "ends") {
    const text = JSON.stringify(whole)
    response.writeHead(200, { "content-type": "application/json" })
    response.end(text.slice(0, text.length / 2))
    return "failed"
  }
  if (end?.how === "cut") {
    const text = JSON.stringify(whole)
    response.writeHead(200, { "content-type": "application/json", "content-length": Buffer.byteLength(text) })
    await writeChunk(response, text.slice(0, text.length / 2))
    return await breakOff(response)
  }
  for (const { issued } of frames) issued?.()
  send(response, 200, whole)
  return "answered"
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

const bytesOf = ({ data, event }: Frame, newline: string) =>
  `${event === undefined ? "" : `event: ${event}${newline}`}data: ${
    typeof data === "string" ? data : JSON.stringify(data)
  }${newline}${newline}`

/** How many events are written whole before a place, and which one is half after them. */
const reach = (frames: ReadonlyArray<Frame>, place: Place) => {
  if (typeof place === "number") return { whole: Math.min(place, frames.length), half: undefined }
  const first = frames.findIndex(({ part }) => part === place)
  if (first === -1) return { whole: Math.floor(frames.length / 2), half: undefined }
  const count = frames.filter(({ part }) => part === place).length
  if (place === "end" || count > 1) return { whole: first + Math.floor(count / 2), half: undefined }
  return { whole: first, half: frames[first] }
}

/** Each write is a chunk of its own, with time for the client to read it, or to go away. */
const writeChunk = async (response: ServerResponse, text: string) => {
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
