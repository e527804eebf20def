/** What models of each specification are sent of a conversation. */
import { assert, describe, it } from "@effect/vitest"
import * as AiSdk from "effect-tool-executor/ai-sdk"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Effect from "effect/Effect"
import { specModel } from "../support/specModel.ts"

type Version = AiSdk.ProviderModel["specificationVersion"]

const versions = ["v2", "v3", "v4"] as const

const nothing = { content: [], finishReason: "stop", usage: {}, warnings: [] }

const sent = (version: Version, prompt: Prompt.RawInput, options: AiSdk.LayerOptions = {}) => {
  const { calls, model } = specModel(version, { answer: nothing })
  return LanguageModel.generateText({ prompt }).pipe(
    Effect.provide(AiSdk.layerLanguageModel(model, options)),
    Effect.map(() => calls[0]!.prompt)
  )
}

const call = (id: string, params: unknown, more: object = {}) =>
  ({ type: "tool-call", id, name: "search", params, ...more }) as const

const result = (id: string, more: object) =>
  ({ type: "tool-result", id, name: "search", isFailure: false, result: "done", ...more }) as const

/** The output of one result as the model of a version is sent it. */
const output = (version: Version, more: object, options?: AiSdk.LayerOptions) =>
  Effect.map(
    sent(version, [{ role: "tool", content: [result("1", more)] }], options),
    (messages) => messages.flatMap(({ content }) => content as ReadonlyArray<{ readonly output: unknown }>)[0]?.output
  )

const bytes = new Uint8Array([1, 2, 3])

const image = { type: "file", mediaType: "image/png", data: "AQID", fileName: "a.png" } as const

const pdf = { type: "file", mediaType: "application/pdf", data: bytes } as const

const address = { type: "file", mediaType: "image/png", data: new URL("https://example.com/a.png") } as const

describe("a prompt", () => {
  for (const version of versions) {
    describe(`for specification ${version}`, () => {
      it.effect("has its messages, with what a provider said of each part byte for byte", () =>
        Effect.gen(function*() {
          const said = (value: string) => ({ plain: { value }, other: { n: 1.5 }, none: null })
          const back = (value: string) => ({ providerOptions: { plain: { value }, other: { n: 1.5 } } })
          const messages = yield* sent(version, [
            { role: "system", content: "Be brief", options: said("s") },
            { role: "user", content: [{ type: "text", text: "Hi", options: said("u") }], options: said("m") },
            {
              role: "assistant",
              content: [
                { type: "reasoning", text: "", options: said("sig\u0000nature==") },
                { type: "text", text: "", options: said("item") },
                { type: "text", text: "Searching" },
                call("1", { query: "a" }, { options: said("thought") })
              ]
            },
            { role: "tool", content: [result("1", { options: said("r") })] }
          ])
          assert.deepStrictEqual(messages as unknown, [
            { role: "system", content: "Be brief", ...back("s") },
            { role: "user", content: [{ type: "text", text: "Hi", ...back("u") }], ...back("m") },
            {
              role: "assistant",
              content: [
                { type: "reasoning", text: "", ...back("sig\u0000nature==") },
                { type: "text", text: "", ...back("item") },
                { type: "text", text: "Searching" },
                {
                  type: "tool-call",
                  toolCallId: "1",
                  toolName: "search",
                  input: { query: "a" },
                  ...back("thought")
                }
              ]
            },
            {
              role: "tool",
              content: [{
                type: "tool-result",
                toolCallId: "1",
                toolName: "search",
                output: { type: "text", value: "done" },
                ...back("r")
              }]
            }
          ])
        }))

      it.effect("has files as the specification has them", () =>
        Effect.gen(function*() {
          const messages = yield* sent(version, [{
            role: "user",
            content: [
              image,
              pdf,
              address,
              { type: "file", mediaType: "image/png", data: "https://example.com/b.png" },
              { type: "file", mediaType: "image/jpeg", data: "data:image/png;base64,AQID" }
            ]
          }])
          const data = (it: string | Uint8Array | URL) =>
            version !== "v4" ? it : it instanceof URL ? { type: "url", url: it } : { type: "data", data: it }
          assert.deepStrictEqual(messages as unknown, [{
            role: "user",
            content: [
              { type: "file", mediaType: "image/png", data: data("AQID"), filename: "a.png" },
              { type: "file", mediaType: "application/pdf", data: data(bytes) },
              { type: "file", mediaType: "image/png", data: data(new URL("https://example.com/a.png")) },
              { type: "file", mediaType: "image/png", data: data(new URL("https://example.com/b.png")) },
              { type: "file", mediaType: "image/jpeg", data: data("AQID") }
            ]
          }])
        }))

      it.effect("has results in every form", () =>
        Effect.gen(function*() {
          assert.deepStrictEqual(yield* output(version, {}), { type: "text", value: "done" })
          assert.deepStrictEqual(yield* output(version, { result: { a: [1] } }), { type: "json", value: { a: [1] } })
          assert.deepStrictEqual(yield* output(version, { result: undefined }), { type: "json", value: null })
          assert.deepStrictEqual(yield* output(version, { isFailure: true }), { type: "error-text", value: "done" })
          assert.deepStrictEqual(yield* output(version, { isFailure: true, result: { a: 1 } }), {
            type: "error-json",
            value: { a: 1 }
          })
          assert.deepStrictEqual(
            yield* output(version, { isFailure: true, result: { type: "execution-denied", reason: "No." } }),
            version === "v2" ? { type: "error-text", value: "No." } : { type: "execution-denied", reason: "No." }
          )
          const texts = [{ type: "text", text: "a" }, { type: "text", text: "b" }]
          assert.deepStrictEqual(yield* output(version, { modelOutput: texts }), { type: "text", value: "a\nb" })
          assert.deepStrictEqual(yield* output(version, { isFailure: true, modelOutput: texts }), {
            type: "error-text",
            value: "a\nb"
          })
        }))

      it.effect("has files of results as the specification has them", () =>
        Effect.gen(function*() {
          const modelOutput = [{ type: "text", text: "Look" }, image, pdf, address]
          const expected = {
            v2: [
              { type: "text", text: "Look" },
              { type: "media", mediaType: "image/png", data: "AQID" },
              { type: "media", mediaType: "application/pdf", data: "AQID" },
              { type: "text", text: "https://example.com/a.png" }
            ],
            v3: [
              { type: "text", text: "Look" },
              { type: "image-data", mediaType: "image/png", data: "AQID" },
              { type: "file-data", mediaType: "application/pdf", data: "AQID" },
              { type: "image-url", url: "https://example.com/a.png" }
            ],
            v4: [
              { type: "text", text: "Look" },
              { type: "file", mediaType: "image/png", data: { type: "data", data: "AQID" }, filename: "a.png" },
              { type: "file", mediaType: "application/pdf", data: { type: "data", data: bytes } },
              {
                type: "file",
                mediaType: "image/png",
                data: { type: "url", url: new URL("https://example.com/a.png") }
              }
            ]
          }
          assert.deepStrictEqual(yield* output(version, { modelOutput }, { resultFiles: "result" }), {
            type: "content",
            value: expected[version]
          })
          // chat completions have none, which the name tells
          assert.deepStrictEqual(yield* output(version, { modelOutput }), {
            type: "text",
            value: "Look\n[image/png a.png omitted]\n[application/pdf omitted]\n[image/png omitted]"
          })
        }))

      it.effect("has an object for the arguments of a call, whatever the model wrote", () =>
        Effect.gen(function*() {
          const params = ["{\"broken", "", null, [1], 7, undefined, { a: 1 }]
          const messages = yield* sent(version, [{
            role: "assistant",
            content: [...params.map((it, n) => call(String(n), it)), call("own", "raw", { providerExecuted: true })]
          }])
          assert.deepStrictEqual(
            messages.flatMap(({ content }) =>
              (content as ReadonlyArray<{ readonly input: unknown }>).map((it) => it.input)
            ),
            [{}, {}, {}, {}, {}, {}, { a: 1 }, "raw"]
          )
        }))

      it.effect("has results in one message behind their calls, and those of the provider with them", () =>
        Effect.gen(function*() {
          const messages = yield* sent(version, [
            {
              role: "assistant",
              content: [
                call("own", {}, { providerExecuted: true }),
                result("own", { providerExecuted: true }),
                call("1", {}),
                call("2", {}),
                call("3", {}),
                result("1", {}),
                { type: "tool-approval-request", approvalId: "a", toolCallId: "2" }
              ]
            },
            { role: "tool", content: [result("2", {})] },
            { role: "tool", content: [result("3", {})] }
          ])
          assert.deepStrictEqual(
            messages.map(({ content, role }) => [
              role,
              (content as ReadonlyArray<{ readonly type: string; readonly toolCallId: string }>).map((
                { toolCallId, type }
              ) => `${type} ${toolCallId}`)
            ]),
            [
              ["assistant", ["tool-call own", "tool-result own", "tool-call 1", "tool-call 2", "tool-call 3"]],
              ["tool", ["tool-result 1", "tool-result 2", "tool-result 3"]]
            ]
          )
        }))

      it.effect("has no text and no message without content", () =>
        Effect.gen(function*() {
          const messages = yield* sent(version, [
            { role: "user", content: [{ type: "text", text: "Hi" }, { type: "text", text: " " }] },
            { role: "assistant", content: [{ type: "text", text: "" }] },
            { role: "user", content: "" },
            { role: "tool", content: [] }
          ])
          assert.deepStrictEqual(messages as unknown, [{ role: "user", content: [{ type: "text", text: "Hi" }] }])
        }))

      it.effect("has the answer to a question of the provider's own, where the specification knows such", () =>
        Effect.gen(function*() {
          const answer = { type: "tool-approval-response", approvalId: "a", approved: false, reason: "No." } as const
          const messages = yield* sent(version, [{ role: "tool", content: [answer] }])
          assert.deepStrictEqual(messages as unknown, version === "v2" ? [] : [{ role: "tool", content: [answer] }])
        }))
    })
  }

  it.effect("brings back what effect/ai has no part for, to the model that said it alone", () =>
    Effect.gen(function*() {
      const said = [
        { type: "custom", kind: "plain.compaction", providerMetadata: { plain: { blob: "xyz" } } },
        { type: "reasoning-file", mediaType: "image/png", data: { type: "data", data: bytes } },
        { type: "reasoning-file", mediaType: "image/png", data: { type: "url", url: new URL("https://a.example/b") } },
        { type: "tool-call", toolCallId: "1", toolName: "web", input: "{\"q\":1}", providerExecuted: true },
        {
          type: "tool-result",
          toolCallId: "1",
          toolName: "web",
          result: [{ url: "u" }],
          providerMetadata: { p: { a: 1 } }
        },
        { type: "tool-result", toolCallId: "2", toolName: "web", result: { code: 1 }, isError: true },
        { type: "tool-result", toolCallId: "3", toolName: "web", result: "text" },
        { type: "tool-result", toolCallId: "3", toolName: "web", result: "half", preliminary: true },
        { type: "text", text: "Hi" }
      ]
      const { calls, model } = specModel("v4", { answer: { ...nothing, content: said } })
      const ask = (prompt: Prompt.RawInput, asked: AiSdk.ProviderModel = model) =>
        LanguageModel.generateText({ prompt }).pipe(Effect.provide(AiSdk.layerLanguageModel(asked)))
      const { content } = yield* ask("Hi")
      const history = Prompt.fromResponseParts(content as ReadonlyArray<Response.AnyPart>)
      yield* ask(history)
      assert.deepStrictEqual(calls[1]!.prompt as unknown, [{
        role: "assistant",
        content: [
          { type: "custom", kind: "plain.compaction", providerOptions: { plain: { blob: "xyz" } } },
          { type: "reasoning-file", mediaType: "image/png", data: { type: "data", data: "AQID" } },
          {
            type: "reasoning-file",
            mediaType: "image/png",
            data: { type: "url", url: new URL("https://a.example/b") }
          },
          { type: "tool-call", toolCallId: "1", toolName: "web", input: { q: 1 }, providerExecuted: true },
          {
            type: "tool-result",
            toolCallId: "1",
            toolName: "web",
            output: { type: "json", value: [{ url: "u" }] },
            providerOptions: { p: { a: 1 } }
          },
          { type: "tool-result", toolCallId: "2", toolName: "web", output: { type: "error-json", value: { code: 1 } } },
          { type: "tool-result", toolCallId: "3", toolName: "web", output: { type: "text", value: "text" } },
          { type: "text", text: "Hi" }
        ]
      }])
      yield* ask(history, { ...model, modelId: "plain-2" })
      assert.deepStrictEqual(calls[2]!.prompt as unknown, [{
        role: "assistant",
        content: [{ type: "text", text: "Hi" }]
      }])
    }))
})
