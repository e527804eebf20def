import { assert, describe, it } from "@effect/vitest"
import * as AiSdk from "effect-tool-executor/ai-sdk"
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { specModel } from "../support/specModel.ts"

type Version = AiSdk.ProviderModel["specificationVersion"]

const versions = ["v2", "v3", "v4"] as const

const usage = (version: Version) =>
  version === "v2"
    ? { inputTokens: 10, outputTokens: 5, totalTokens: 15, cachedInputTokens: 4, reasoningTokens: 2 }
    : {
      inputTokens: { total: 10, noCache: 6, cacheRead: 4, cacheWrite: 0 },
      outputTokens: { total: 5, text: 3, reasoning: 2 }
    }

const ended = (version: Version, reason: string, raw?: string) => ({
  finishReason: version === "v2" ? reason : { unified: reason, raw },
  usage: usage(version)
})

const finish = (version: Version, reason: string, raw?: string) => ({ type: "finish", ...ended(version, reason, raw) })

const Search = Tool.make("search", {
  description: "Finds documents",
  parameters: Schema.Struct({ query: Schema.String }),
  success: Schema.String
})

const Any = Tool.dynamic("any", {
  parameters: { type: "object", properties: { when: { type: "string", format: "date" } }, required: ["when"] }
})

const Web = Tool.providerDefined({
  id: "plain.web_search",
  customName: "web",
  providerName: "web_search",
  args: Schema.Struct({ maxUses: Schema.Finite }),
  parameters: Schema.Struct({ query: Schema.String }),
  success: Schema.Array(Schema.Struct({ url: Schema.String }))
})({ maxUses: 3 })

const toolkit = Toolkit.make(Search, Any, Web)

const handlers = toolkit.toLayer({
  search: ({ query }) => Effect.succeed(`${query}.md`),
  any: () => Effect.succeed(null)
})

type Request = {
  readonly prompt?: Prompt.RawInput
  readonly toolChoice?: LanguageModel.ToolChoice<"search" | "any" | "web">
  readonly options?: AiSdk.LayerOptions
}

/** The parts of a stream, calls unresolved and unchecked, as an executor asks for them. */
const streamed = ({ model }: { readonly model: AiSdk.ProviderModel }, request: Request = {}) =>
  LanguageModel.streamText({
    prompt: request.prompt ?? "Hello",
    toolkit,
    toolChoice: request.toolChoice ?? "auto",
    disableToolCallResolution: true,
    toolCallValidation: "deferred"
  }).pipe(
    Stream.runCollect,
    Effect.provide([AiSdk.layerLanguageModel(model, request.options), handlers])
  ) as Effect.Effect<ReadonlyArray<Response.AnyPart>, unknown>

const generated = ({ model }: { readonly model: AiSdk.ProviderModel }, request: Request = {}) =>
  LanguageModel.generateText({
    prompt: request.prompt ?? "Hello",
    toolkit,
    toolChoice: request.toolChoice ?? "auto",
    disableToolCallResolution: true,
    toolCallValidation: "deferred"
  }).pipe(
    Effect.map(({ content }) => content as ReadonlyArray<Response.AnyPart>),
    Effect.provide([AiSdk.layerLanguageModel(model, request.options), handlers])
  )

/** What a test compares: without the mark of a part, and without what is empty. */
const plain = (parts: ReadonlyArray<Response.AnyPart>): ReadonlyArray<Readonly<Record<string, unknown>>> =>
  parts.map((part) =>
    Object.fromEntries(
      Object.entries(JSON.parse(JSON.stringify(part)) as Record<string, unknown>).filter(([key, value]) =>
        !key.startsWith("~") && !(key === "metadata" && Object.keys(value as object).length === 0)
      )
    )
  )

/** What a model of that version is sent for a prompt. */
const sent = (version: Version, request: Request) => {
  const spec = specModel(version, { stream: [finish(version, "stop")] })
  return Effect.map(streamed(spec, request), () => spec.calls[0]!)
}

describe("a model of the AI SDK", () => {
  for (const version of versions) {
    describe(`of specification ${version}`, () => {
      it.effect("streams text, reasoning and calls, part by part, with what the provider says of each", () =>
        Effect.gen(function*() {
          const parts = yield* streamed(specModel(version, {
            stream: [
              { type: "stream-start", warnings: [] },
              { type: "response-metadata", id: "r1", modelId: "plain-1b", timestamp: new Date(0) },
              { type: "reasoning-start", id: "0" },
              { type: "reasoning-delta", id: "0", delta: "Hm" },
              { type: "reasoning-delta", id: "0", delta: "", providerMetadata: { plain: { signature: "abc" } } },
              { type: "reasoning-end", id: "0" },
              { type: "text-start", id: "1", providerMetadata: { plain: { itemId: "m1", none: undefined } } },
              { type: "text-delta", id: "1", delta: "Hi" },
              { type: "text-end", id: "1" },
              { type: "tool-input-start", id: "c1", toolName: "search" },
              { type: "tool-input-delta", id: "c1", delta: "{\"query\":" },
              { type: "tool-input-delta", id: "c1", delta: "\"a\"}" },
              { type: "tool-input-end", id: "c1" },
              {
                type: "tool-call",
                toolCallId: "c1",
                toolName: "search",
                input: "{\"query\":\"a\"}",
                providerMetadata: { plain: { thoughtSignature: "sig" } }
              },
              { type: "raw", rawValue: 1 },
              { type: "of-a-version-to-come", x: 1 },
              finish(version, "tool-calls")
            ]
          }))
          assert.deepStrictEqual(plain(parts), [
            { type: "response-metadata", id: "r1", modelId: "plain-1b", timestamp: "1970-01-01T00:00:00.000Z" },
            { type: "reasoning-start", id: "0" },
            { type: "reasoning-delta", id: "0", delta: "Hm" },
            { type: "reasoning-delta", id: "0", delta: "", metadata: { plain: { signature: "abc" } } },
            { type: "reasoning-end", id: "0" },
            { type: "text-start", id: "1", metadata: { plain: { itemId: "m1" } } },
            { type: "text-delta", id: "1", delta: "Hi" },
            { type: "text-end", id: "1" },
            { type: "tool-params-start", id: "c1", name: "search", providerExecuted: false },
            { type: "tool-params-delta", id: "c1", delta: "{\"query\":" },
            { type: "tool-params-delta", id: "c1", delta: "\"a\"}" },
            { type: "tool-params-end", id: "c1" },
            {
              type: "tool-call",
              id: "c1",
              name: "search",
              params: { query: "a" },
              providerExecuted: false,
              metadata: { plain: { thoughtSignature: "sig" } }
            },
            {
              type: "finish",
              reason: "tool-calls",
              usage: {
                inputTokens: version === "v2"
                  ? { total: 10, cacheRead: 4 }
                  : { total: 10, uncached: 6, cacheRead: 4, cacheWrite: 0 },
                outputTokens: version === "v2" ? { total: 5, reasoning: 2 } : { total: 5, text: 3, reasoning: 2 }
              }
            }
          ])
        }))

      it.effect("answers at once", () =>
        Effect.gen(function*() {
          const parts = yield* generated(specModel(version, {
            answer: {
              content: [
                { type: "reasoning", text: "Hm", providerMetadata: { plain: { signature: "abc" } } },
                { type: "text", text: "Hi" },
                { type: "tool-call", toolCallId: "c1", toolName: "search", input: "" }
              ],
              ...ended(version, "stop"),
              response: { id: "r1", headers: { a: "b" } },
              warnings: []
            }
          }))
          assert.deepStrictEqual(plain(parts).slice(0, 4), [
            { type: "reasoning", text: "Hm", metadata: { plain: { signature: "abc" } } },
            { type: "text", text: "Hi" },
            { type: "tool-call", id: "c1", name: "search", params: {}, providerExecuted: false },
            { type: "response-metadata", id: "r1" }
          ])
          assert.strictEqual(plain(parts)[4]?.reason, "stop")
        }))

      it.effect(
        "hands on calls that no tool takes: unknown names, wrong arguments, broken JSON",
        () =>
          Effect.gen(function*() {
            const call = (toolCallId: string, toolName: string, input: unknown) => ({
              type: "tool-call",
              toolCallId,
              toolName,
              input
            })
            const calls = [
              call("1", "nothing", "{}"),
              call("2", "search", "{\"q\":1}"),
              call("3", "search", "{\"query\": \"a"),
              call("4", "search", "  "),
              call("5", "search", "[1]"),
              call("6", "any", "null")
            ]
            const expected = [{}, { q: 1 }, "{\"query\": \"a", {}, [1], null]
            const paramsOf = (parts: ReadonlyArray<Response.AnyPart>) =>
              parts.flatMap((part) => part.type === "tool-call" ? [part.params] : [])
            const stream = yield* streamed(specModel(version, { stream: [...calls, finish(version, "tool-calls")] }))
            assert.deepStrictEqual(paramsOf(stream), expected)
            const whole = yield* generated(
              specModel(version, { answer: { content: calls, ...ended(version, "tool-calls"), warnings: [] } })
            )
            assert.deepStrictEqual(paramsOf(whole), expected)
          }),
        { tags: ["AG19"] }
      )

      it.effect("fails where the stream has no finish part, behind what it has", () =>
        Effect.gen(function*() {
          const seen: Array<string> = []
          const { model } = specModel(version, {
            stream: [{ type: "text-start", id: "0" }, { type: "text-delta", id: "0", delta: "Hi" }]
          })
          const error = yield* LanguageModel.streamText({ prompt: "Hello" }).pipe(
            Stream.runForEach((part) => Effect.sync(() => seen.push(part.type))),
            Effect.flip,
            Effect.provide(AiSdk.layerLanguageModel(model))
          )
          assert.deepStrictEqual([error.reason._tag, error.isRetryable], ["NetworkError", true])
          assert.deepStrictEqual(seen, ["text-start", "text-delta"])
        }))

      it.effect("fails with an error of the stream, and lets what came before it through", () =>
        Effect.gen(function*() {
          const seen: Array<string> = []
          const { model } = specModel(version, {
            stream: [
              { type: "text-start", id: "0" },
              { type: "error", error: { type: "overloaded_error", message: "Overloaded" } },
              finish(version, "error")
            ]
          })
          const error = yield* LanguageModel.streamText({ prompt: "Hello" }).pipe(
            Stream.runForEach((part) => Effect.sync(() => seen.push(part.type))),
            Effect.flip,
            Effect.provide(AiSdk.layerLanguageModel(model))
          )
          assert.deepStrictEqual(seen, ["text-start"])
          assert.strictEqual(error.reason._tag, "InternalProviderError")
          assert.isTrue(error.isRetryable)
          assert.include(error.message, "Overloaded")
        }))

      it.effect("sends every tool with its JSON Schema, and those of providers as they are", () =>
        Effect.gen(function*() {
          const { toolChoice, tools } = yield* sent(version, {})
          assert.deepStrictEqual(toolChoice, { type: "auto" })
          assert.deepStrictEqual(tools, [
            {
              type: "function",
              name: "search",
              description: "Finds documents",
              inputSchema: Tool.getJsonSchema(Search)
            },
            {
              type: "function",
              name: "any",
              inputSchema: {
                type: "object",
                properties: { when: { type: "string", format: "date" } },
                required: ["when"]
              }
            },
            {
              type: version === "v2" ? "provider-defined" : "provider",
              id: "plain.web_search",
              name: "web",
              args: { maxUses: 3 }
            }
          ])
        }))

      it.effect("chooses tools in every form", () =>
        Effect.gen(function*() {
          const choose = (toolChoice: NonNullable<Request["toolChoice"]>) =>
            Effect.map(
              sent(version, { toolChoice }),
              ({ toolChoice, tools }) => ({
                toolChoice,
                tools: (tools as ReadonlyArray<{ readonly name: string }>).map(({ name }) => name)
              })
            )
          const all = ["search", "any", "web"]
          assert.deepStrictEqual(yield* choose("none"), { toolChoice: { type: "none" }, tools: all })
          assert.deepStrictEqual(yield* choose("required"), { toolChoice: { type: "required" }, tools: all })
          assert.deepStrictEqual(yield* choose({ tool: "any" }), {
            toolChoice: { type: "tool", toolName: "any" },
            tools: all
          })
          assert.deepStrictEqual(yield* choose({ oneOf: ["any"] }), { toolChoice: { type: "auto" }, tools: ["any"] })
          assert.deepStrictEqual(yield* choose({ mode: "required", oneOf: ["any", "web"] }), {
            toolChoice: { type: "required" },
            tools: ["any", "web"]
          })
        }))
    })
  }
})
