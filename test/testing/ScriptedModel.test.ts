/** A language model that answers what a script says. */
import { assert, describe, it } from "@effect/vitest"
import * as AiError from "effect/ai/AiError"
import * as Chat from "effect/ai/Chat"
import * as LanguageModel from "effect/ai/LanguageModel"
import { ModelName, ProviderName } from "effect/ai/Model"
import type * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as VirtualTime from "../../src/testing/VirtualTime.ts"

const Add = Tool.make("add", { parameters: Schema.Struct({ n: Schema.Finite }), success: Schema.Finite })
const kit = Toolkit.make(Add)
const handlers = kit.toLayer({ add: ({ n }) => Effect.succeed(n + 1) })

const ask = LanguageModel.generateText({ prompt: "go" })

const deferred = {
  prompt: "go",
  toolkit: kit,
  disableToolCallResolution: true,
  toolCallValidation: "deferred"
} as const

const stream = Stream.runCollect(LanguageModel.streamText(deferred))

const textOf = (parts: ReadonlyArray<{ readonly type: string }>) =>
  parts.map((it) => "delta" in it ? `${it.type} ${it.delta}` : it.type)

describe("a scripted model", () => {
  it.effect("streams reasoning, text and calls in pieces, and the end with its usage", () =>
    Effect.gen(function*() {
      const parts = yield* stream
      assert.deepStrictEqual(textOf(parts), [
        "reasoning-start",
        "reasoning-delta let",
        "reasoning-delta  me",
        "reasoning-end",
        "text-start",
        "text-delta a",
        "text-delta b c",
        "text-end",
        "tool-params-start",
        "tool-params-delta {\"n\"",
        "tool-params-delta :1}",
        "tool-params-end",
        "tool-call",
        "finish"
      ])
      assert.deepStrictEqual(parts[3]!.metadata, { anthropic: { signature: "abc" } })
      const end = parts.at(-1)!
      if (end.type !== "finish") return assert.fail(end.type)
      assert.strictEqual(end.reason, "tool-calls")
      assert.deepStrictEqual({ ...end.usage.inputTokens }, {
        uncached: 7,
        total: 10,
        cacheRead: 3,
        cacheWrite: undefined
      })
      assert.deepStrictEqual({ ...end.usage.outputTokens }, { total: 5, text: 3, reasoning: 2 })
    }).pipe(Effect.provide([
      handlers,
      ScriptedModel.layer([{
        reasoning: { text: "let me", metadata: { anthropic: { signature: "abc" } } },
        text: ["a", "b c"],
        calls: [{ name: "add", params: { n: 1 } }],
        usage: { input: 10, cacheRead: 3, output: 5, reasoning: 2 }
      }])
    ])))

  it.effect("gives the same in one piece to generateText", () =>
    Effect.gen(function*() {
      const response = yield* LanguageModel.generateText(deferred)
      assert.strictEqual(response.text, "a b c")
      assert.deepStrictEqual(response.reasoning.map((it) => [it.text, it.metadata]), [["let me", { p: { s: "abc" } }]])
      assert.deepStrictEqual(
        response.toolCalls.map((it) => [it.id, it.name, it.params, it.metadata]),
        [["m-1", "add", { n: 1 }, {}], ["mine", "nope", "{\"n\":", { p: { s: "sig" } }]]
      )
      assert.strictEqual(response.finishReason, "length")
      assert.deepStrictEqual([yield* ProviderName, yield* ModelName], ["p", "m"])
    }).pipe(Effect.provide([
      handlers,
      ScriptedModel.layer([{
        reasoning: { text: "let me", metadata: { p: { s: "abc" } } },
        text: "a b c",
        calls: [{ name: "add", params: { n: 1 } }, {
          id: "mine",
          name: "nope",
          params: "{\"n\":",
          metadata: { p: { s: "sig" } }
        }],
        finish: "length"
      }], { provider: "p", model: "m" })
    ])))

  it.effect("says what was asked when more is asked than is scripted, and keeps it", () =>
    Effect.gen(function*() {
      const scripted = yield* ScriptedModel.make([{ text: "one" }])
      const error = yield* Effect.flip(Effect.provide(Effect.andThen(ask, ask), scripted.layer))
      assert.isTrue(AiError.isAiError(error) && !error.isRetryable)
      for (const text of ["Request 2", "the script has 1 turn", "user: \"go\""]) assert.include(error.message, text)
      assert.lengthOf(yield* scripted.requests, 2)
      const [only, ...others] = yield* scripted.unexpected
      assert.lengthOf(others, 0)
      assert.strictEqual(only!.request.turn, 1)
      assert.include(error.message, only!.message)
      assert.strictEqual(yield* scripted.left, 0)
    }))

  it.effect("compares what it is sent with what the turn expects", () =>
    Effect.gen(function*() {
      const expect = (text: string) => ({
        user: "go",
        system: "kind",
        tools: ["add"],
        toolChoice: "auto",
        results: [{ id: "1", name: "add", isFailure: false, includes: text }]
      })
      const call = { calls: [{ id: "1", name: "add", params: { n: 1 } }] }
      const run = (includes: string) =>
        Effect.gen(function*() {
          const scripted = yield* ScriptedModel.make([call, { text: "done", expect: expect(includes) }])
          const chat = yield* Chat.fromPrompt([{ role: "system", content: "be kind" }])
          yield* chat.generateText({ prompt: "go", toolkit: kit }).pipe(Effect.provide(scripted.layer))
          const second = yield* Effect.result(
            chat.generateText({ prompt: [] as Prompt.RawInput, toolkit: kit }).pipe(Effect.provide(scripted.layer))
          )
          return { second, unexpected: yield* scripted.unexpected, left: yield* scripted.left }
        })
      const good = yield* run("2")
      assert.deepStrictEqual([good.second._tag, good.unexpected.length, good.left], ["Success", 0, 0])
      const bad = yield* run("3")
      assert.strictEqual(bad.second._tag, "Failure")
      assert.deepStrictEqual(bad.unexpected.map((it) => it.message.split("\n")), [[
        "Request 2 to the model \"scripted\": results[0] does not hold \"3\": \"2\". It was sent:",
        "  (3 messages before)",
        "  tool add (1): 2"
      ]])
    }).pipe(Effect.provide(handlers)))

  it.effect("answers by a function of what it is asked", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* ask).text, "turn 0 with ")
      assert.strictEqual((yield* LanguageModel.generateText(deferred)).text, "turn 1 with add")
      assert.include((yield* Effect.flip(ask)).message, "turn.txt: this key is unknown")
    }).pipe(Effect.provide([
      handlers,
      ScriptedModel.layer(({ tools, turn }) =>
        turn < 2
          ? Effect.succeed({ text: `turn ${turn} with ${tools.join()}` })
          : { txt: "" } as {}
      )
    ])))

  it.effect("refuses a script with keys that mean nothing, and names them all", () =>
    Effect.gen(function*() {
      const script: ReadonlyArray<object> = [
        { txt: "hello", calls: [{ tool: "add", name: "add" }] },
        { text: "x", fails: "a", never: true, takes: "soon" }
      ]
      const { message } = yield* Effect.flip(ScriptedModel.make(script))
      for (const text of ["script[0].txt", "script[0].calls[0].tool", "script[1].takes"]) assert.include(message, text)
      const both = yield* Effect.flip(ScriptedModel.make([{ fails: "a", never: true }]))
      assert.include(both.message, "at most one of fails, dies and never")
    }))

  it.effect("takes its time, before the first part and between parts", () =>
    VirtualTime.run(
      Effect.gen(function*() {
        const times: Array<number> = []
        yield* Stream.runForEach(
          LanguageModel.streamText({ prompt: "go" }),
          () => Effect.map(VirtualTime.now, (now) => times.push(now))
        )
        assert.deepStrictEqual(times, [1000, 1100, 1200, 1300])
        yield* ask
        assert.strictEqual(yield* VirtualTime.now, 2600)
      }).pipe(Effect.provide(
        ScriptedModel.layer(() => ({ text: "a", takes: "1 second", between: "100 millis" }))
      ))
    ))

  it.effect("fails, dies, hangs or is cut off where the script says", () =>
    VirtualTime.run(
      Effect.gen(function*() {
        const seen: Array<string> = []
        const streamed = Stream.runForEach(
          LanguageModel.streamText({ prompt: "go" }),
          (part) => Effect.sync(() => seen.push(part.type))
        )
        const overloaded = yield* Effect.flip(streamed)
        assert.isTrue(AiError.isAiError(overloaded) && overloaded.isRetryable)
        assert.include(String(overloaded), "overloaded")
        const limited = yield* Effect.flip(streamed)
        assert.isTrue(AiError.isAiError(limited) && limited.reason._tag === "RateLimitError")
        assert.deepStrictEqual(seen.splice(0), ["text-start", "text-delta"])
        assert.strictEqual((yield* Effect.exit(ask))._tag, "Failure")
        const hanging = yield* Effect.forkChild(streamed)
        yield* Effect.sleep("1 day")
        assert.isUndefined(hanging.pollUnsafe())
        yield* Fiber.interrupt(hanging)
        yield* streamed
        assert.deepStrictEqual(seen, ["text-start", "text-delta"])
        assert.strictEqual((yield* ask).text, "a")
      }).pipe(Effect.provide(
        ScriptedModel.layer([
          { text: "a b", fails: "overloaded" },
          {
            text: "a b",
            cutAfter: 2,
            fails: AiError.make({ module: "m", method: "m", reason: new AiError.RateLimitError({}) })
          },
          { dies: "a bug" },
          { text: "a b", never: true },
          { text: "a b", cutAfter: 2 },
          { text: "a b", cutAfter: 2 }
        ])
      ))
    ))

  it.effect("sends parts of any other kind as they are", () =>
    Effect.gen(function*() {
      const parts = yield* stream
      assert.deepStrictEqual(parts.map((it) => it.type), [
        "response-metadata",
        "text-start",
        "text-delta",
        "text-end",
        "file",
        "finish"
      ])
      assert.isTrue(parts.at(-1)!.type === "finish" && (parts.at(-1) as { reason: string }).reason === "other")
    }).pipe(Effect.provide([
      handlers,
      ScriptedModel.layer([{
        parts: [
          { type: "response-metadata", id: "r", modelId: "m", timestamp: undefined },
          { type: "text", text: "a" },
          { type: "file", mediaType: "text/plain", data: "YQ==" }
        ],
        finish: "other"
      }])
    ])))

  it.effect("answers one request after the other when many ask at once", () =>
    Effect.gen(function*() {
      const responses = yield* Effect.all([ask, ask, ask], { concurrency: "unbounded" })
      assert.deepStrictEqual(responses.map((it) => it.text), ["0", "1", "2"])
      const { requests } = yield* ScriptedModel.ScriptedModel
      assert.deepStrictEqual((yield* requests).map((it) => it.turn), [0, 1, 2])
    }).pipe(Effect.provide(ScriptedModel.layer(({ turn }) => ({ text: `${turn}`, takes: 3 - turn }))), VirtualTime.run))
})
