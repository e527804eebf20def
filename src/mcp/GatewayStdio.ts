/** A gateway on standard input and output. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Predicate from "effect/Predicate"
import * as Queue from "effect/Queue"
import * as Result from "effect/Result"
import * as Sink from "effect/Sink"
import * as Stdio from "effect/Stdio"
import * as Stream from "effect/Stream"
import type { GatewayLifecycle } from "./GatewayLifecycle.ts"

/**
 * Layer of the standard input that the server of a gateway reads.
 *
 * It holds back what the lifecycle does not admit, and ends once every call is answered. Messages that would stop the
 * server from reading are answered here.
 */
export const layer = (lifecycle: GatewayLifecycle): Layer.Layer<Stdio.Stdio, never, Stdio.Stdio> =>
  Layer.effect(
    Stdio.Stdio,
    Effect.map(Stdio.Stdio, (stdio) => {
      const waiting = makeWaiting()
      return Stdio.make({
        ...stdio,
        stdin: guarded(lifecycle, stdio, waiting),
        stdout: (options) =>
          Sink.mapInput(stdio.stdout(options), (chunk: string | Uint8Array) => (waiting.settle(chunk), chunk))
      })
    })
  )

const guarded = (lifecycle: GatewayLifecycle, stdio: Stdio.Stdio, waiting: Waiting): Stream.Stream<Uint8Array> => {
  const lines = Stream.concat(
    // an input that cannot be read is at its end
    Stream.catchCause(stdio.stdin, () => Stream.empty),
    Stream.drain(Stream.fromEffect(lifecycle.end("the client is gone")))
  ).pipe(Stream.interruptWhen(lifecycle.over), Stream.decodeText, Stream.splitLines)
  const refuse = (code: number, message: string) => {
    const answer = JSON.stringify({ jsonrpc: "2.0", id: null, error: { code, message } })
    // a client that does not read has no answer, and others their order
    return Effect.andThen(
      Effect.logWarning(`a message on standard input was left out: ${message}`),
      Effect.ignore(Stream.run(Stream.make(`${answer}\n`), stdio.stdout({ endOnDone: false })))
    )
  }
  return Stream.callback<string>((admitted) =>
    Stream.runForEach(lines, (line) => {
      if (line.length > maxLineChars) return refuse(-32_600, `A message may have at most ${maxLineChars} characters.`)
      const message = parse(line)
      if (message === undefined) return line.trim() === "" ? Effect.void : refuse(-32_700, "Parse error")
      if (!Predicate.isObjectOrArray(message)) return refuse(-32_600, "This is not a message of the protocol.")
      const { accepted, refused } = waiting.take(message)
      const told = Effect.forEach(refused, (problem) => refuse(-32_600, problem), { discard: true })
      if (accepted === undefined) return told
      const pass = Effect.asVoid(
        Queue.offer(admitted, `${accepted === message ? line : JSON.stringify(accepted)}\n`)
      )
      const admission = lifecycle.admit("", accepted)
      const passed = admission === undefined
        ? pass
        : Effect.asVoid(
          Effect.forkScoped(
            Effect.flatMap(admission, (isAdmitted) => isAdmitted ? pass : Effect.sync(() => waiting.forget(accepted))),
            { startImmediately: true }
          )
        )
      return refused.length === 0 ? passed : Effect.andThen(told, passed)
    }).pipe(Effect.ensuring(Effect.andThen(Effect.yieldNow, Queue.end(admitted))))
  ).pipe(Stream.encodeText)
}

/** The server reads no longer line. */
const maxLineChars = 10 * 1024 * 1024

const parse = (line: string): unknown => Result.getOrUndefined(Result.try((): unknown => JSON.parse(line)))

/** The ids of requests that have no answer yet: a server that got one of them again would lose what came with it. */
interface Waiting {
  /** Gives what of a message may go on, and why the rest may not. */
  readonly take: (message: object) => { readonly accepted: object | undefined; readonly refused: ReadonlyArray<string> }
  /** Takes the ids of answered requests out of a written chunk. */
  readonly settle: (chunk: string | Uint8Array) => void
  /** It is not answered, since it did not go on. */
  readonly forget: (message: object) => void
}

const makeWaiting = (): Waiting => {
  const ids = new Set<unknown>()
  const problemOf = (message: unknown): string | undefined => {
    if (!isRequest(message)) return undefined
    const { id } = message
    if (typeof id !== "string" && typeof id !== "number") return "The id of a request is a string or a number."
    if (ids.has(id)) return `A request with the id ${JSON.stringify(id)} has no answer yet.`
    ids.add(id)
    return undefined
  }
  const each = (message: unknown): ReadonlyArray<unknown> => Array.isArray(message) ? message : [message]
  return {
    take: (message) => {
      const refused: Array<string> = []
      const accepted = each(message).filter((it) => {
        const problem = problemOf(it)
        if (problem !== undefined) refused.push(problem)
        return problem === undefined
      })
      if (refused.length === 0) return { accepted: message, refused }
      return { accepted: accepted.length === 0 ? undefined : accepted, refused }
    },
    settle: (chunk) => {
      if (ids.size === 0) return
      const text = typeof chunk === "string" ? chunk : new TextDecoder().decode(chunk)
      for (const line of text.split("\n")) {
        // what a server writes begins so: a long answer is not read for its id
        const head = /^\{"jsonrpc":"2\.0","id":("(?:[^"\\]|\\.)*"|-?[\d.eE+-]+),"(?:result|error)"/.exec(line)
        if (head !== null) ids.delete(JSON.parse(head[1]!))
        else if (line.startsWith("[")) { for (const it of each(parse(line))) if (isAnswer(it)) ids.delete(it.id) }
      }
    },
    forget: (message) => {
      for (const it of each(message)) if (isRequest(it)) ids.delete(it.id)
    }
  }
}

const isRequest = (message: unknown): message is { readonly id: unknown } =>
  Predicate.hasProperty(message, "method") && Predicate.hasProperty(message, "id")

const isAnswer = (message: unknown): message is { readonly id: unknown } =>
  !Predicate.hasProperty(message, "method") && Predicate.hasProperty(message, "id")
