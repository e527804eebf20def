/**
 * What answers the requests of a session over HTTP, apart from the connections on which it is read: a connection that
 * is lost cancels nothing, and the client reads on where it was.
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"

/** The replies of one session. */
export interface HttpReplies {
  /** Runs what answers a request, for the connection and for those that may come after it; `undefined` where too many run. */
  readonly open: <E, R>(
    handle: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>,
    options: { readonly isPrimed: boolean }
  ) => Effect.Effect<HttpServerResponse.HttpServerResponse | undefined, E, R>
  /** What has come after an event, and what still comes. */
  readonly resume: (lastEventId: string) => HttpServerResponse.HttpServerResponse | undefined
  /** Ends every reply. */
  readonly end: Effect.Effect<void>
}

/** What all sessions keep for clients that come back. */
export interface Kept {
  readonly replies: Map<Reply, { readonly until: number; readonly forget: () => void }>
  chars: number
}

export const makeKept = (): Kept => ({ replies: new Map(), chars: 0 })

/** Creates the replies of a session, which run in a scope. */
export const make = (scope: Scope.Scope, kept: Kept): HttpReplies => {
  const known = new Map<number, Reply>()
  const running = new Map<Reply, Scope.Closeable>()
  let last = 0

  const keep = (reply: Reply, now: number) => {
    const { size } = reply
    if (!known.has(reply.id)) return
    if (size > maxKeptChars / 4) return void known.delete(reply.id)
    kept.chars += size
    kept.replies.set(reply, {
      until: now + keptMillis,
      forget: () => {
        known.delete(reply.id)
        kept.replies.delete(reply)
        kept.chars -= size
      }
    })
    for (const { forget, until } of kept.replies.values()) {
      if (kept.chars <= maxKeptChars && kept.replies.size <= maxKept && until > now) return
      forget()
    }
  }
  const run = <E, R>(
    reply: Reply,
    handle: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>,
    first: Deferred.Deferred<HttpServerResponse.HttpServerResponse | undefined, E>
  ) => {
    const own = Scope.makeUnsafe()
    running.set(reply, own)
    // the request's own scope ends with its connection
    return Effect.provideService(handle, Scope.Scope, own).pipe(
      Effect.flatMap((response) => {
        const { body } = response
        if (body._tag === "Stream") {
          return Stream.decodeText(body.stream).pipe(
            Stream.runForEach((text) =>
              Effect.sync(() => {
                reply.take(text)
                Deferred.doneUnsafe(first, Effect.undefined)
              })
            ),
            Effect.orDie
          )
        }
        if (Deferred.doneUnsafe(first, Effect.succeed(response))) known.delete(reply.id)
        // a connection has been told meanwhile that there will be a stream
        else if (body._tag === "Uint8Array") reply.take(new TextDecoder().decode(body.body))
        return Effect.void
      }),
      Effect.onExit((exit) =>
        Effect.flatMap(Clock.currentTimeMillis, (now) => {
          running.delete(reply)
          reply.finish()
          keep(reply, now)
          Deferred.doneUnsafe(first, Effect.as(exit, undefined))
          return Scope.close(own, exit)
        })
      )
    )
  }
  return {
    open: <E, R>(
      handle: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>,
      { isPrimed }: { readonly isPrimed: boolean }
    ) =>
      Effect.gen(function*() {
        if (running.size >= maxRunning) return undefined
        const reply = new Reply(++last)
        const first = Deferred.makeUnsafe<HttpServerResponse.HttpServerResponse | undefined, E>()
        known.set(reply.id, reply)
        yield* Effect.forkIn(run(reply, handle, first), scope, { startImmediately: true })
        const whole = yield* Effect.timeoutOption(Deferred.await(first), firstAnswerTimeout)
        if (Option.isSome(whole) && whole.value !== undefined) return whole.value
        Deferred.doneUnsafe(first, Effect.undefined)
        return streamOf(reply, 0, isPrimed ? `id: ${reply.id}-0\ndata: \n\n` : comment)
      }),
    resume: (lastEventId) => {
      const [, id, event] = /^(\d{1,15})-(\d{1,15})$/.exec(lastEventId) ?? []
      const reply = id === undefined ? undefined : known.get(Number(id))
      return reply === undefined || Number(event) > reply.last ? undefined : streamOf(reply, Number(event), comment)
    },
    end: Effect.suspend(() => {
      for (const reply of known.values()) {
        kept.replies.get(reply)?.forget()
        reply.finish()
      }
      known.clear()
      return Effect.forEach(Array.from(running.values()), (own) => Scope.close(own, Exit.void), { discard: true })
    })
  }
}

/** After this time the connection gets a stream, even if the reply is not ready. */
const firstAnswerTimeout = "200 millis"

/** Maximum number of concurrent requests of a session; a turn has at most 1,000 calls. */
const maxRunning = 2_000

/** How long, how many and how much is kept of replies that are whole. */
const keptMillis = 5 * 60_000
const maxKept = 1_000
const maxKeptChars = 64_000_000

/** Events of a reply that are kept while it runs; of more progress the oldest is let go. */
const maxEvents = 1_000

/** Says no more than that somebody is there. */
const comment = ": keepalive\n\n"

const keepAlive = "15 seconds"

/** The answer to one request, in the making. */
class Reply {
  readonly id: number
  /** Characters that are kept of it. */
  size = 0
  /** The last event; 0 is the one that says no more than where the stream begins. */
  last = 0
  #events: Array<string> = []
  #isOver = false
  #more = Deferred.makeUnsafe<void>()
  #reader = 0

  constructor(id: number) {
    this.id = id
  }

  /** Takes messages, a line each, framed as events or not. */
  take(text: string) {
    for (const line of text.split("\n")) {
      const data = line.startsWith("data: ") ? line.slice("data: ".length) : line
      if (data === "") continue
      this.#events.push(data)
      this.last++
      this.size += data.length
      if (this.#events.length > maxEvents) this.size -= this.#events.shift()!.length
    }
    this.#wake()
  }

  finish() {
    this.#isOver = true
    this.#wake()
  }

  /** Reads from after an event, until there is no more or another one reads. */
  read(after: number): Stream.Stream<string> {
    const reader = ++this.#reader
    this.#wake()
    const next = (at: number): Effect.Effect<readonly [string, number] | undefined> =>
      Effect.suspend(() => {
        if (reader !== this.#reader) return Effect.succeed(undefined)
        if (at < this.last) {
          const first = this.last - this.#events.length
          const from = Math.max(at, first)
          const text = this.#events.slice(from - first)
            .map((data, index) => `id: ${this.id}-${from + index + 1}\ndata: ${data}\n\n`)
          return Effect.succeed([text.join(""), this.last] as const)
        }
        if (this.#isOver) return Effect.succeed(undefined)
        return Effect.flatMap(
          Effect.timeoutOption(Deferred.await(this.#more), keepAlive),
          (more): Effect.Effect<readonly [string, number] | undefined> =>
            Option.isSome(more) ? next(at) : Effect.succeed([comment, at] as const)
        )
      })
    return Stream.unfold(after, next)
  }

  #wake() {
    const more = this.#more
    this.#more = Deferred.makeUnsafe<void>()
    Deferred.doneUnsafe(more, Effect.void)
  }
}

/** A stream with an immediate first event, so that its client learns of it. */
const streamOf = (reply: Reply, after: number, beginning: string) =>
  HttpServerResponse.stream(Stream.encodeText(Stream.concat(Stream.make(beginning), reply.read(after))), {
    contentType: "text/event-stream",
    headers: { "cache-control": "no-cache" }
  })
