/** What a protocol's server has of its own: what it reads, what it refuses, and how it says a turn. */
import type { IncomingHttpHeaders } from "node:http"
import type { Asked, Place, Said } from "./script.ts"

/** One protocol; `Body` is what its requests look like. */
export interface Protocol<Body> {
  /** Whether what is asked for at a path is a stream; `undefined` if there is no such path. */
  readonly route: (path: string, body: Body) => boolean | undefined
  /** Throws a `Refused` for a request that the real one refuses. */
  readonly check: (body: Body, headers: IncomingHttpHeaders) => void
  readonly asked: (body: Body, path: string) => Omit<Asked, "turn" | "stream">
  /** A new id for a call. */
  readonly callId: () => string
  readonly reply: (said: Said, body: Body) => Reply
  /** The body of an answer with that status. */
  readonly error: (refused: Refused) => unknown
  /** How it says how long to wait, beside `retry-after`. */
  readonly limits: (seconds: number) => { readonly headers?: Record<string, string>; readonly details?: unknown }
  /** The status of a server that has too much to do. */
  readonly overloaded: number
  /** What it writes into a stream that failed. */
  readonly failed: (message: string) => Frame
  /** What a line of a stream ends with. */
  readonly newline?: string
}

/** What a turn is in a protocol: the events of a stream, and the one body of an answer that is none. */
export interface Reply {
  readonly frames: ReadonlyArray<Frame>
  readonly whole: unknown
}

/** One event of a stream. */
export interface Frame {
  readonly event?: string
  /** Written as JSON, or as it is if it is a text. */
  readonly data: unknown
  /** What it is a part of, for faults that come in the middle of it; the arguments are those of the first call. */
  readonly part?: Exclude<Place, number> | undefined
  /** What the server remembers from then on. */
  readonly issued?: () => void
}

/** What is wrong with a request, in the words of the real server. */
export class Refused extends Error {
  readonly status: number
  /** What the protocol says beside the message: `param`, `code`, `details`. */
  readonly more: Record<string, unknown>

  constructor(message: string, status = 400, more: Record<string, unknown> = {}) {
    super(message)
    this.status = status
    this.more = more
  }
}

export const refuse = (message: string, status?: number, more?: Record<string, unknown>): never => {
  throw new Refused(message, status, more)
}

/** How a request ended; `left` is that the client went away before the end of the answer. */
export type Ending = "answered" | "refused" | "failed" | "cut" | "left"

/** Ids that no other server makes. */
export const ids = () => {
  const own = crypto.randomUUID().replaceAll("-", "").slice(0, 12)
  const counter = { value: 0 }
  return (prefix: string) => `${prefix}${own}${String(counter.value++).padStart(6, "0")}`
}
