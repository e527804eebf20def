/** Models of real provider packages, over HTTP, with servers that refuse what the real ones refuse. */
import { assert, describe, it } from "@effect/vitest"
import { LocalExecutor } from "effect-tool-executor"
import * as AiSdk from "effect-tool-executor/ai-sdk"
import type * as AiError from "effect/ai/AiError"
import * as Chat from "effect/ai/Chat"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Latch from "effect/Latch"
import * as Layer from "effect/Layer"
import * as Ref from "effect/Ref"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as ExecutedModel from "../../src/core/engine/ExecutedModel.ts"
import { type Name, names, type Provider, provider } from "../support/providers/providers.ts"
import type { Fault, Turn } from "../support/providers/script.ts"

const toolkit = Toolkit.make(
  Tool.make("add", { description: "Adds", parameters: Schema.Struct({ a: Schema.Finite }), success: Schema.Finite }),
  Tool.dynamic("look", { parameters: { type: "object", properties: { at: { type: "string" } }, required: ["at"] } })
)

/** Nobody runs the calls here. */
const idle = toolkit.toLayer({ add: () => Effect.never, look: () => Effect.never })

type Parts = ReadonlyArray<Response.AnyPart>

const request = (prompt: Prompt.Prompt) =>
  ({ prompt, toolkit, disableToolCallResolution: true, toolCallValidation: "deferred" }) as const

/** Tells each part as it comes. */
const stream = (model: AiSdk.ProviderModel, prompt: Prompt.Prompt, tell: (part: Response.AnyPart) => void = () => {}) =>
  LanguageModel.streamText(request(prompt)).pipe(
    Stream.runForEach((part) => Effect.sync(() => tell(part as Response.AnyPart))),
    Effect.provide([AiSdk.layerLanguageModel(model), idle])
  )

const ways = {
  streamed: (model: AiSdk.ProviderModel, prompt: Prompt.Prompt): Effect.Effect<Parts, AiError.AiError> => {
    const parts: Array<Response.AnyPart> = []
    return Effect.as(stream(model, prompt, (part) => parts.push(part)), parts)
  },
  whole: (model: AiSdk.ProviderModel, prompt: Prompt.Prompt): Effect.Effect<Parts, AiError.AiError> =>
    LanguageModel.generateText(request(prompt)).pipe(
      Effect.map(({ content }) => content as Parts),
      Effect.provide([AiSdk.layerLanguageModel(model), idle])
    )
}

type Way = keyof typeof ways

const callsOf = (parts: Parts) => parts.flatMap((part) => part.type === "tool-call" ? [part] : [])

const textOf = (parts: Parts) =>
  parts.map((part) => part.type === "text" ? part.text : part.type === "text-delta" ? part.delta : "").join("")

const finishOf = (parts: Parts) => parts.find((part) => part.type === "finish")

type Answer = Partial<Pick<Prompt.ToolResultPart, "result" | "isFailure" | "modelOutput">>

/** What was said, and an answer to each call that is not the provider's own. */
const then = (prompt: Prompt.Prompt, parts: Parts, answer: Answer = {}): Prompt.Prompt => {
  const open = callsOf(parts).filter((call) => !call.providerExecuted)
  const said = Prompt.concat(prompt, Prompt.fromResponseParts(parts))
  return open.length === 0 ? said : Prompt.concat(said, [{
    role: "tool",
    content: open.map(({ id, name }) => ({
      type: "tool-result",
      id,
      name,
      isFailure: false,
      result: "done",
      ...answer as object
    }))
  }])
}

/** Talks until the model calls nothing; the prompts go through JSON, as one that is kept does. */
const talk = Effect.fnUntraced(function*(way: Way, { model }: Provider, answer: Answer = {}) {
  const said: Array<Parts> = []
  let prompt = Prompt.make("Go")
  for (let open = true; open;) {
    const parts = yield* ways[way](model, prompt)
    said.push(parts)
    open = callsOf(parts).some((call) => !call.providerExecuted)
    prompt = kept(then(prompt, parts, answer))
  }
  return said
})

const kept = (prompt: Prompt.Prompt): Prompt.Prompt =>
  Schema.decodeSync(Prompt.Prompt)(
    JSON.parse(JSON.stringify(Schema.encodeSync(Prompt.Prompt)(prompt))) as typeof Prompt.Prompt.Encoded
  )

const faulty = (name: Name, fault: Fault, turn: Turn = { text: "A sentence of some length" }) =>
  provider(name, [{ ...turn, fault }])

const png = new Uint8Array([137, 80, 78, 71, 13, 10, 26, 10, 0, 0, 0, 13, 73, 72, 68, 82])

const base64 = Buffer.from(png).toString("base64")

describe.each(names)("%s", (name) => {
  describe.each(["streamed", "whole"] as const)("%s", (way) => {
    it.effect("turns with reasoning and calls side by side go back as the provider wants them", () =>
      Effect.gen(function*() {
        const it = yield* provider(name, [
          {
            reasoning: "Twice, I think",
            text: "Adding…",
            calls: [{ name: "add", args: { a: 1 } }, { name: "look", args: { at: "zwölf 🎈" } }],
            usage: { input: 100, output: 50, reasoning: 20, cached: 40 }
          },
          { reasoning: "Once more", calls: [{ name: "add", args: { a: 2 } }] },
          { text: "All done" }
        ])
        const said = yield* talk(way, it)
        assert.deepStrictEqual(it.server.refusals, [])
        assert.deepStrictEqual(
          said.map((parts) => callsOf(parts).map(({ name, params }) => [name, params])),
          [[["add", { a: 1 }], ["look", { at: "zwölf 🎈" }]], [["add", { a: 2 }]], []]
        )
        assert.strictEqual(textOf(said[0]!), "Adding…")
        assert.strictEqual(textOf(said[2]!), "All done")
        assert.deepStrictEqual(said.map((parts) => finishOf(parts)?.reason), ["tool-calls", "tool-calls", "stop"])
        const { inputTokens, outputTokens } = finishOf(said[0]!)!.usage
        assert.strictEqual(inputTokens.total, 100)
        assert.strictEqual(inputTokens.cacheRead, 40)
        assert.isAtLeast(outputTokens.total!, 50)
      }))

    it.effect("arguments that are no JSON come through, and the answer to them is taken", () =>
      Effect.gen(function*() {
        if (name === "google") return // its arguments are no text
        const it = yield* provider(name, [
          { calls: [{ name: "add", rawArgs: "{\"a\": 1" }, { name: "nothing", rawArgs: "" }] },
          { text: "Sorry" }
        ])
        if (name === "anthropic" && way === "whole") return // nor are its, whole
        const said = yield* talk(way, it, { isFailure: true, result: "These arguments are no JSON." })
        assert.deepStrictEqual(callsOf(said[0]!).map(({ name, params }) => [name, params]), [
          ["add", "{\"a\": 1"],
          ["nothing", {}]
        ])
        assert.deepStrictEqual(it.server.refusals, [])
        assert.strictEqual(textOf(said[1]!), "Sorry")
      }))

    it.effect("a limit says when to come back, in seconds or with a date", () =>
      Effect.gen(function*() {
        const limit = (fault: Fault) =>
          Effect.flatMap(faulty(name, fault), ({ model }) => Effect.flip(ways[way](model, Prompt.make("Go"))))
        const error = yield* limit({ status: 429, retryAfter: 7 })
        assert.strictEqual(error.reason._tag, "RateLimitError")
        assert.isTrue(error.isRetryable)
        assert.strictEqual(Duration.toSeconds(error.retryAfter!), 7)
        const dated = yield* limit({ status: 429, retryAfter: 1_000, as: "date" })
        assert.isAbove(Duration.toSeconds(dated.retryAfter!), 900)
      }))

    it.effect("a provider that is overloaded, or fails, may be asked again; one that refuses may not", () =>
      Effect.gen(function*() {
        const failing = (status: number) =>
          Effect.flatMap(faulty(name, { status }), ({ model }) => Effect.flip(ways[way](model, Prompt.make("Go"))))
        const tags: Array<readonly [number, string, boolean]> = []
        for (const status of [529, 503, 500, 400, 401, 403]) {
          const error = yield* failing(status)
          tags.push([status, error.reason._tag, error.isRetryable])
        }
        assert.deepStrictEqual(tags, [
          [529, "InternalProviderError", true],
          [503, "InternalProviderError", true],
          [500, "InternalProviderError", true],
          [400, "InvalidRequestError", false],
          [401, "AuthenticationError", false],
          [403, "AuthenticationError", false]
        ])
      }))

    it.effect("a connection that breaks is a failure of the network", () =>
      Effect.gen(function*() {
        for (const cut of [0, 3, "arguments"] as const) {
          const { model } = yield* faulty(name, { cut }, {
            text: "A sentence of some length",
            calls: [{ name: "add", args: { a: 123_456_789 } }]
          })
          const error = yield* Effect.flip(ways[way](model, Prompt.make("Go")))
          assert.strictEqual(error.reason._tag, "NetworkError", `cut at ${cut}`)
          assert.isTrue(error.isRetryable)
        }
      }))

    it.effect("an answer that just ends is a failure of the network, unless all was said by then", () =>
      Effect.gen(function*() {
        const turn: Turn = {
          text: "A sentence of some length",
          calls: [{ name: "add", args: { a: 1 } }, { name: "add", args: { a: 2 } }]
        }
        const sound = yield* provider(name, [turn])
        const whole = yield* ways[way](sound.model, Prompt.make("Go"))
        const places = way === "whole" ? 1 : sound.server.lengths[0]!
        const { model } = yield* provider(
          name,
          Array.from({ length: places }, (_, ends) => ({ ...turn, fault: { ends } }))
        )
        let failures = 0
        for (let place = 0; place < places; place++) {
          const result = yield* Effect.result(ways[way](model, Prompt.make("Go")))
          if (Result.isSuccess(result)) {
            assert.deepStrictEqual(callsOf(result.success).length, callsOf(whole).length)
            assert.strictEqual(finishOf(result.success)?.reason, "tool-calls")
          } else {
            failures++
            assert.isTrue(way === "whole" || result.failure.isRetryable, `${place}: ${result.failure.message}`)
          }
        }
        assert.isAtLeast(failures, way === "whole" ? 1 : places - 2)
      }))

    it.effect("pictures reach the model, in prompts and in results", () =>
      Effect.gen(function*() {
        const it = yield* provider(name, [{ calls: [{ name: "look", args: { at: "it" } }] }, { text: "A cat" }])
        const prompt = Prompt.make([{
          role: "user",
          content: [{ type: "text", text: "What is it?" }, { type: "file", mediaType: "image/png", data: png }]
        }])
        const parts = yield* ways[way](it.model, prompt)
        assert.include(JSON.stringify(it.server.requests[0]!.body), base64)
        const before = JSON.stringify(it.server.requests[0]!.body).split(base64).length
        yield* ways[way](
          it.model,
          kept(then(prompt, parts, {
            modelOutput: [
              Prompt.textPart({ text: "Look:" }),
              Prompt.filePart({ mediaType: "image/png", data: base64, fileName: "cat.png" })
            ]
          }))
        )
        assert.deepStrictEqual(it.server.refusals, [])
        const after = JSON.stringify(it.server.requests[1]!.body).split(base64).length
        // chat completions have no files in results
        assert.strictEqual(after, name === "openai-chat" || name === "openai-compatible" ? before : before + 1)
      }))

    it.effect("pictures of results go into a message of their own where the host says so", () =>
      Effect.gen(function*() {
        const it = yield* provider(name, [{ calls: [{ name: "look", args: { at: "it" } }] }, { text: "A cat" }])
        const parts = yield* ways[way](it.model, Prompt.make("Look"))
        const prompt = kept(then(Prompt.make("Look"), parts, {
          modelOutput: [Prompt.filePart({ mediaType: "image/png", data: base64, fileName: "cat.png" })]
        }))
        yield* LanguageModel.generateText(request(prompt)).pipe(
          Effect.provide([AiSdk.layerLanguageModel(it.model, { resultFiles: "message" }), idle])
        )
        assert.deepStrictEqual(it.server.refusals, [])
        const body = JSON.stringify(it.server.requests[1]!.body)
        assert.include(body, base64)
        assert.include(body, "[image/png cat.png: in the next message]")
        assert.include(body, "[image/png cat.png of look, call ")
      }))

    it.effect("an interrupted request is left at once", () =>
      Effect.gen(function*() {
        const { model, server } = yield* faulty(name, { hang: 2 })
        const asked = yield* Latch.make()
        const fiber = yield* ways[way](
          {
            ...bound(model),
            doGenerate: (options) => Effect.runSync(Effect.as(asked.open, model.doGenerate(options))),
            doStream: (options) => Effect.runSync(Effect.as(asked.open, model.doStream(options)))
          },
          Prompt.make("Go")
        ).pipe(Effect.forkChild)
        yield* asked.await
        yield* Effect.promise(() => until(() => server.requests.length === 1))
        yield* Fiber.interrupt(fiber)
        assert.strictEqual(yield* Effect.promise(() => server.requests[0]!.ended), "left")
      }))
  })

  it.effect("nothing is held back until the end", () =>
    Effect.gen(function*() {
      const { model } = yield* faulty(name, { hang: "arguments" }, {
        text: "A sentence of some length",
        calls: [{ name: "add", args: { a: 123_456_789_123 } }]
      })
      const seen: Array<string> = []
      const latch = yield* Latch.make()
      // arguments come whole from Google: the call is the one that hangs
      const last = name === "google" ? "text-delta" : "tool-params-delta"
      const fiber = yield* stream(model, Prompt.make("Go"), (part) => {
        seen.push(part.type)
        if (part.type === last) Effect.runSync(latch.open)
      }).pipe(Effect.forkChild)
      yield* latch.await
      yield* Fiber.interrupt(fiber)
      assert.include(seen, "text-delta")
      assert.notInclude(seen, "finish")
    }))

  it.effect("an error inside the stream is a failure", () =>
    Effect.gen(function*() {
      const { model } = yield* faulty(name, { error: 3 })
      const error = yield* Effect.flip(ways.streamed(model, Prompt.make("Go")))
      assert.strictEqual(error.reason._tag, "InternalProviderError")
      assert.isTrue(error.isRetryable)
    }))

  it.effect("an answer that ends by length or a filter says so", () =>
    Effect.gen(function*() {
      for (const half of ["length", "filter"] as const) {
        const { model } = yield* faulty(name, { half }, { calls: [{ name: "add", args: { a: 123_456_789 } }] })
        const parts = yield* ways.streamed(model, Prompt.make("Go"))
        assert.strictEqual(finishOf(parts)?.reason, half === "length" ? "length" : "content-filter")
      }
    }))
})

describe.each(names)("%s behind the gates", (name) => {
  it.effect("calls of no tool, with wrong arguments, or with broken ones are answered, and the talk goes on", () =>
    Effect.gen(function*() {
      const broken = name === "google" ? { args: { a: "one" } } : { rawArgs: "{\"a\": 1" }
      const it = yield* provider(name, [
        {
          reasoning: "All at once",
          calls: [
            { name: "nothing", args: {} },
            { name: "add", args: { b: 1 } },
            { name: "add", ...broken },
            { name: "add", args: { a: 1 } }
          ]
        },
        { text: "Two" }
      ])
      const executor = LocalExecutor.layer(toolkit, { policy: { default: "allow" } }).pipe(
        Layer.provide(toolkit.toLayer({ add: ({ a }) => Effect.succeed(a + 1), look: () => Effect.void }))
      )
      const answers = yield* Effect.gen(function*() {
        const chat = yield* Chat.empty
        const ask = (prompt: Prompt.RawInput) =>
          Stream.runDrain(chat.streamText({ prompt, toolkit: ExecutedModel.toolkit(toolkit) }))
        yield* ask("Go")
        yield* ask([])
        return (yield* Ref.get(chat.history)).content.flatMap((message) =>
          message.role === "tool"
            ? message.content.flatMap((part) => part.type === "tool-result" ? [[part.name, part.isFailure]] : [])
            : []
        )
      }).pipe(
        Effect.provide(ExecutedModel.layer.pipe(
          Layer.provide(Layer.merge(executor, AiSdk.layerLanguageModel(it.model)))
        ))
      )
      assert.deepStrictEqual(answers, [["nothing", true], ["add", true], ["add", true], ["add", false]])
      assert.deepStrictEqual(it.server.refusals, [])
      assert.strictEqual(it.server.asked.length, 2)
    }))
})

describe("a server that calls itself compatible", () => {
  it.effect("that does not say that it has ended has broken off", () =>
    Effect.gen(function*() {
      const { model } = yield* provider("openai-compatible", [{ text: "Hi" }], { quirks: { noFinish: true } })
      const error = yield* Effect.flip(ways.streamed(model, Prompt.make("Go")))
      assert.strictEqual(error.reason._tag, "NetworkError")
    }))

  it.effect.each(
    [{ whole: true }, { noIndex: true }, { ids: "empty" }, { ids: "repeated" }, { noUsage: true }] as const
  )("may be odd: %o", (quirks) =>
    Effect.gen(function*() {
      const calls = [{ name: "add", args: { a: 1 } }, { name: "look", args: { at: "b" } }]
      const it = yield* provider("openai-compatible", [{ calls }, { text: "Done" }], { quirks })
      const said = yield* talk("streamed", it)
      assert.deepStrictEqual(callsOf(said[0]!).map(({ name, params }) => [name, params]), [
        ["add", { a: 1 }],
        ["look", { at: "b" }]
      ])
      assert.deepStrictEqual(it.server.refusals, [])
    }))
})

describe("searches that the provider runs itself", () => {
  const searching: ReadonlyArray<Turn> = [
    { reasoning: "I do not know", search: "weather in Lima", text: "Sunny.", calls: [{ name: "add", args: { a: 1 } }] },
    { text: "Done" }
  ]

  const webSearch = {
    anthropic: Tool.providerDefined({
      id: "anthropic.web_search_20250305",
      customName: "web",
      providerName: "web_search",
      parameters: Schema.Unknown,
      success: Schema.Unknown
    })(undefined as never),
    "openai-responses": Tool.providerDefined({
      id: "openai.web_search",
      customName: "web",
      providerName: "web_search",
      parameters: Schema.Unknown,
      success: Schema.Unknown
    })(undefined as never)
  }

  describe.each(["anthropic", "openai-responses"] as const)("%s", (name) => {
    it.effect.each(["streamed", "whole"] as const)(
      "go back with what they found, though no toolkit has them, %s",
      (way) =>
        Effect.gen(function*() {
          const it = yield* provider(name, searching)
          const said = yield* talk(way, it)
          assert.deepStrictEqual(it.server.refusals, [])
          assert.deepStrictEqual(callsOf(said[0]!).map(({ name }) => name), ["add"])
          assert.strictEqual(textOf(said[0]!), "Sunny.")
          assert.include(
            JSON.stringify(it.server.requests[1]!.body),
            name === "anthropic" ? "server_tool_use" : "web_search_call"
          )
        })
    )

    it.effect("are parts of the answer where the toolkit has them", () =>
      Effect.gen(function*() {
        const it = yield* provider(name, searching)
        const tools = Toolkit.make(...Object.values(toolkit.tools), webSearch[name])
        const ask = (prompt: Prompt.Prompt) =>
          LanguageModel.generateText({ ...request(prompt), toolkit: tools }).pipe(
            Effect.map(({ content }) => content as Parts),
            Effect.provide([AiSdk.layerLanguageModel(it.model), idle])
          )
        const parts = yield* ask(Prompt.make("Go"))
        assert.deepStrictEqual(
          parts.flatMap((part) =>
            part.type === "tool-call" || part.type === "tool-result"
              ? [[part.type, part.name, part.providerExecuted]]
              : []
          ),
          [["tool-call", "web", true], ["tool-result", "web", true], ["tool-call", "add", false]]
        )
        yield* ask(kept(then(Prompt.make("Go"), parts)))
        assert.deepStrictEqual(it.server.refusals, [])
        assert.include(
          JSON.stringify(it.server.requests[1]!.body),
          name === "anthropic" ? "web_search_tool_result" : "web_search_call"
        )
      }))
  })
})

const bound = (model: AiSdk.ProviderModel): AiSdk.ProviderModel => ({
  specificationVersion: model.specificationVersion,
  provider: model.provider,
  modelId: model.modelId,
  doGenerate: model.doGenerate,
  doStream: model.doStream
})

const until = async (isSo: () => boolean) => {
  while (!isSo()) await new Promise((resolve) => setImmediate(resolve))
}
