/** Each protocol's server fails in the ways that real ones do, when its script says so. */
import { APICallError } from "@ai-sdk/provider"
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { type Name, names, provider } from "../support/providers/providers.ts"
import type { Turn } from "../support/providers/script.ts"
import { streamUntil, toolsOf, user } from "../support/providers/talk.ts"

const asking = { prompt: [user("Go")], tools: toolsOf("add") }

/** A turn with text and two calls, and what becomes of it; the next is sound. */
const turn = (fault: NonNullable<Turn["fault"]>): ReadonlyArray<Turn> => [
  {
    text: "I shall add these two numbers for you",
    calls: [{ name: "add", args: { a: "one two three four" } }, { name: "add", args: { a: "five six seven eight" } }],
    deltas: 13,
    fault
  },
  { text: "Sound again" }
]

/** What a streamed turn with a fault becomes, and how the server took it. */
const fails = (name: Name, fault: NonNullable<Turn["fault"]>, onPart?: Parameters<typeof streamUntil>[2]) =>
  Effect.gen(function*() {
    const { model, server } = yield* provider(name, turn(fault))
    const controller = new AbortController()
    const options = { ...asking, abortSignal: controller.signal }
    const { broken, parts } = yield* Effect.promise(() =>
      streamUntil(
        model,
        options,
        (part) => onPart?.(part) ?? (part.type === "text-delta" && "hang" in fault ? controller.abort() : undefined)
      )
    )
    const ended = yield* Effect.promise(() => server.requests[0]!.ended)
    const next = yield* Effect.promise(() => streamUntil(model, asking))
    expect(textOf(next.parts)).toBe("Sound again")
    expect(server.refusals).toEqual([])
    const calls = parts.flatMap((part) => part.type === "tool-call" ? [part.input] : [])
    return { broken, parts, ended, calls, text: textOf(parts), server }
  })

const textOf = (parts: ReadonlyArray<{ readonly type: string; readonly delta?: string }>) =>
  parts.map((part) => part.type === "text-delta" ? part.delta : "").join("")

const errorsOf = (parts: ReadonlyArray<{ readonly type: string; readonly error?: unknown }>) =>
  parts.flatMap((part) => part.type === "error" ? [part.error] : [])

const finishOf = (parts: Effect.Success<ReturnType<typeof fails>>["parts"]) =>
  parts.flatMap((part) => part.type === "finish" ? [part.finishReason.unified] : [])

describe.each(names)("%s", (name) => {
  it.effect("is cut before any answer", () =>
    Effect.gen(function*() {
      const { broken, ended, parts } = yield* fails(name, { cut: 0 })
      expect(parts).toEqual([])
      expect(APICallError.isInstance(broken) && broken.isRetryable).toBe(true)
      expect(ended).toBe("cut")
    }))

  it.effect("is cut in the middle of a text", () =>
    Effect.gen(function*() {
      const { broken, calls, ended, text } = yield* fails(name, { cut: "text" })
      expect(broken).toBeDefined()
      expect("I shall add these two numbers for you".startsWith(text)).toBe(true)
      expect(calls).toEqual([])
      expect(ended).toBe("cut")
    }))

  it.effect("is cut in the middle of a call's arguments", () =>
    Effect.gen(function*() {
      const { broken, calls, ended, text } = yield* fails(name, { cut: "arguments" })
      expect(broken).toBeDefined()
      expect(text).toBe("I shall add these two numbers for you")
      expect(calls).toEqual([])
      expect(ended).toBe("cut")
    }))

  it.effect("is cut before it says that it ends", () =>
    Effect.gen(function*() {
      const { broken, ended, parts } = yield* fails(name, { cut: "end" })
      expect(broken).toBeDefined()
      expect(finishOf(parts)).toEqual([])
      expect(ended).toBe("cut")
    }))

  it.effect("is cut after every event but the last", () =>
    Effect.gen(function*() {
      const whole = yield* provider(name, turn({ cut: 0 }).map(({ fault: _, ...sound }) => sound))
      yield* Effect.promise(() => streamUntil(whole.model, asking))
      const cuts = Array.from({ length: whole.server.lengths[0]! - 1 }, (_, place) => place + 1)
      const { model, server } = yield* provider(name, cuts.map((cut) => turn({ cut })[0]!))
      for (const _ of cuts) {
        const { broken, parts } = yield* Effect.promise(() => streamUntil(model, asking))
        expect(broken).toBeDefined()
        expect(finishOf(parts)).toEqual([])
      }
      expect(server.refusals).toEqual([])
    }))

  it.effect("says that it has enough, and for how long", () =>
    Effect.gen(function*() {
      const { broken, ended } = yield* fails(name, { status: 429, retryAfter: 7 })
      if (!APICallError.isInstance(broken)) throw new Error("no error of an API")
      expect(broken).toMatchObject({ statusCode: 429, isRetryable: true })
      expect(broken.responseHeaders).toMatchObject({ "retry-after": "7" })
      const wait = {
        "openai-chat": broken.responseHeaders?.["retry-after-ms"],
        "openai-responses": broken.responseHeaders?.["retry-after-ms"],
        "openai-compatible": broken.responseHeaders?.["retry-after-ms"],
        anthropic: broken.responseHeaders?.["anthropic-ratelimit-requests-remaining"],
        google: (broken.data as { readonly error: { readonly details?: unknown } }).error.details
      }
      expect(wait[name]).toEqual(
        {
          "openai-chat": "7000",
          "openai-responses": "7000",
          "openai-compatible": "7000",
          anthropic: "0",
          google: [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "7s" }]
        }[name]
      )
      expect(ended).toBe("failed")
    }))

  it.effect("says until when it has enough", () =>
    Effect.gen(function*() {
      const { broken } = yield* fails(name, { status: 429, retryAfter: 60, as: "date" })
      const after = APICallError.isInstance(broken) ? broken.responseHeaders?.["retry-after"] : undefined
      expect(after).toMatch(/GMT$/)
    }))

  it.effect("has too much to do", () =>
    Effect.gen(function*() {
      const { broken } = yield* fails(name, { status: 529 })
      expect(broken).toMatchObject({ statusCode: name === "anthropic" ? 529 : 503, isRetryable: true })
    }))

  it.effect("fails by itself", () =>
    Effect.gen(function*() {
      const { broken } = yield* fails(name, { status: 500 })
      expect(broken).toMatchObject({ statusCode: 500, isRetryable: true })
    }))

  it.effect("fails in the middle of a stream", () =>
    Effect.gen(function*() {
      const { calls, ended, parts, text } = yield* fails(name, { error: "text" })
      expect(errorsOf(parts)).toHaveLength(1)
      expect("I shall add these two numbers for you".startsWith(text)).toBe(true)
      expect(text).not.toBe("")
      expect(calls).toEqual([])
      expect(ended).toBe("failed")
    }))

  it.effect("hangs until the client goes away", () =>
    Effect.gen(function*() {
      const { broken, calls, ended } = yield* fails(name, { hang: "text" })
      expect(broken).toMatchObject({ name: "AbortError" })
      expect(calls).toEqual([])
      expect(ended).toBe("left")
    }))

  it.effect("ends by length with a call half written", () =>
    Effect.gen(function*() {
      const { calls, ended, parts } = yield* fails(name, { half: "length" })
      expect(finishOf(parts)).toEqual(["length"])
      expect(calls[0]).toBe("{\"a\":\"one two three four\"}")
      expect(calls.slice(1)).not.toContain("{\"a\":\"five six seven eight\"}")
      expect(ended).toBe("answered")
    }))

  it.effect("ends by a filter with a call half written", () =>
    Effect.gen(function*() {
      const { calls, parts } = yield* fails(name, { half: "filter" })
      expect(finishOf(parts)).toEqual(["content-filter"])
      expect(calls.slice(1)).not.toContain("{\"a\":\"five six seven eight\"}")
    }))

  it.effect("fails as well where nothing is streamed", () =>
    Effect.gen(function*() {
      const faults: ReadonlyArray<NonNullable<Turn["fault"]>> = [
        { cut: 0 },
        { cut: 3 },
        { cut: "arguments" },
        { error: 3 },
        { status: 429, retryAfter: 1 },
        { hang: 0 }
      ]
      const { model, server } = yield* provider(name, faults.map((fault) => turn(fault)[0]!))
      for (const _ of faults) {
        const controller = new AbortController()
        const answer = Promise.resolve(model.doGenerate({ ...asking, abortSignal: controller.signal }))
        if (server.requests.length === faults.length - 1) {
          // only the last one hangs, and only when it was asked
          yield* Effect.promise(() => untilTrue(() => server.asked.length === faults.length))
          controller.abort()
        }
        const broken = yield* Effect.promise(() => answer.then(() => undefined, (error: unknown) => error))
        expect(broken).toBeInstanceOf(Error)
      }
      const ended = yield* Effect.promise(() => Promise.all(server.requests.map(({ ended }) => ended)))
      expect(ended).toEqual(["cut", "cut", "cut", "failed", "failed", "left"])
    }))
})

const untilTrue = async (condition: () => boolean) => {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve))
}
