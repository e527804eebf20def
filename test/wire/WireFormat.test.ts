import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as ToolOutcome from "../../src/core/vocabulary/ToolOutcome.ts"
import * as WireFormat from "../../src/wire/WireFormat.ts"
import { calls, denied, failed, formats, read, refusal, shown, succeeded, truncated } from "../support/wire.ts"

const openaiCall = (id: string, name: string, args: unknown) => ({
  id,
  type: "function",
  function: { name, arguments: args }
})

const assistant = (...tool_calls: ReadonlyArray<unknown>) => ({ role: "assistant", content: null, tool_calls })

const toolUse = (id: string, name: string, input: unknown) => ({ type: "tool_use", id, name, input })

const titles = [
  "LangChain:",
  "OpenAI:",
  "OpenAI Responses:",
  "MCP:",
  "Gemini:",
  "Bedrock Converse:",
  "AI SDK:",
  "effect/ai:",
  "Anthropic:",
  "native:"
]

describe("WireFormat", () => {
  describe("OpenAI", () => {
    const reading = { id: "1", name: "read", params: { path: "a" } }
    const writing = { id: "2", name: "write", params: {} }
    const wave = [reading, writing]
    const message = assistant(openaiCall("1", "read", `{"path":"a"}`), openaiCall("2", "write", "{}"))

    it("reads a message, a completion and a bare array alike", () => {
      for (const input of [message, { choices: [{ index: 0, message }] }, message.tool_calls]) {
        assert.deepStrictEqual(read(input), { format: "openai", calls: wave })
        assert.deepStrictEqual(read(input, "openai"), { format: "openai", calls: wave })
      }
    })

    it("takes arguments that are parsed already", () => {
      assert.deepStrictEqual(calls(assistant(openaiCall("1", "read", { path: "a" }))), [reading])
    })

    it("takes messages and calls of servers that leave role and type out", () => {
      const call = { id: "2", function: { name: "write", arguments: "{}" } }
      assert.deepStrictEqual(calls({ tool_calls: [call] }), [writing])
      assert.deepStrictEqual(calls({ choices: [{ message: { tool_calls: [call] } }] }), [writing])
    })

    it("keeps the text of arguments that are not JSON", () => {
      const [call, empty] = calls(assistant(openaiCall("1", "read", `{"path":`), openaiCall("2", "read", "")))
      assert.deepInclude(call, { id: "1", name: "read", params: null })
      assert.strictEqual(call?.malformed?.text, `{"path":`)
      assert.strictEqual(empty?.malformed?.text, "")
    })

    it("leaves it to the executor to refuse arguments that are no object", () => {
      const params = calls(assistant(openaiCall("1", "a", "[1]"), openaiCall("2", "b", null), openaiCall("3", "c", 5)))
      assert.deepStrictEqual(params.map((call) => call.params), [[1], null, 5])
    })

    it("gives a custom tool its input", () => {
      const call = { id: "1", type: "custom", custom: { name: "patch", input: "*** Begin" } }
      assert.deepStrictEqual(read([call]), {
        format: "openai",
        calls: [{ id: "1", name: "patch", params: { input: "*** Begin" } }]
      })
    })

    it("reads a message without calls as an empty wave", () => {
      for (
        const input of [
          { role: "assistant", content: "hi" },
          { role: "assistant", content: null, tool_calls: null },
          { role: "assistant", content: "hi", tool_calls: [] },
          { choices: [{ message: { role: "assistant", content: "hi" } }] }
        ]
      ) {
        assert.deepStrictEqual(read(input), { format: "openai", calls: [] })
      }
    })

    it("takes the one choice that calls tools, and refuses two", () => {
      const text = { message: { role: "assistant", content: "hi" } }
      assert.deepStrictEqual(calls({ choices: [text, { message }] }), wave)
      assert.deepStrictEqual(refusal({ choices: [{ message }, { message }] }), {
        format: "openai",
        path: "choices",
        problem: "has 2 choices with tool calls",
        expected: "one choice: ask for n = 1"
      })
    })

    it("says where a call is wrong", () => {
      assert.deepStrictEqual(
        refusal(
          assistant(openaiCall("1", "a", "{}"), openaiCall("2", "b", "{}"), {
            ...openaiCall("3", "c", "{}"),
            function: {}
          })
        ),
        { format: "openai", path: "tool_calls[2].function.name", problem: "is missing", expected: "a string" }
      )
      const at = (input: unknown) => refusal(input, "openai").path
      assert.strictEqual(at({ choices: [{ message: assistant({ id: 7 }) }] }), "choices[0].message.tool_calls[0].id")
      assert.strictEqual(at([{ id: "1", type: "function", function: { name: "a" } }]), "[0].function.arguments")
      assert.strictEqual(at([{ id: "1", type: "retrieval" }]), "[0].type")
      assert.strictEqual(at([{ id: "1", type: "custom", custom: { name: "a" } }]), "[0].custom.input")
      assert.strictEqual(at([null]), "[0]")
      assert.strictEqual(at({ role: "user", content: "hi" }), "role")
      assert.strictEqual(at({ role: "assistant", tool_calls: {} }), "tool_calls")
      assert.strictEqual(at({ choices: [] }), "choices")
      assert.strictEqual(at({ choices: [{}] }), "choices[0].message")
      assert.strictEqual(at({}), "")
    })

    it("names what it does not read", () => {
      assert.include(refusal({ role: "assistant", function_call: { name: "a", arguments: "" } }), {
        path: "function_call"
      })
      assert.include(refusal({ choices: [{ delta: { tool_calls: [] } }] }), { problem: "is a chunk of a stream" })
    })
  })

  describe("Anthropic", () => {
    const content = [
      { type: "thinking", thinking: "hm", signature: "s" },
      { type: "text", text: "let me see" },
      toolUse("1", "read", { path: "a" }),
      { type: "server_tool_use", id: "s1", name: "web_search", input: {} },
      { type: "web_search_tool_result", tool_use_id: "s1", content: [] },
      toolUse("2", "write", {})
    ]
    const wave = [{ id: "1", name: "read", params: { path: "a" } }, { id: "2", name: "write", params: {} }]

    it("reads a message, a response and a bare array of blocks alike, and passes over what is not ours", () => {
      for (
        const input of [
          { role: "assistant", content },
          { id: "msg_1", type: "message", role: "assistant", content, stop_reason: "tool_use" },
          content
        ]
      ) {
        assert.deepStrictEqual(read(input), { format: "anthropic", calls: wave })
        assert.deepStrictEqual(read(input, "anthropic"), { format: "anthropic", calls: wave })
      }
    })

    it("parses an input that is still text, and keeps it when it is not JSON", () => {
      const [parsed, broken] = calls([toolUse("1", "read", `{"path":"a"}`), toolUse("2", "read", `{"pa`)])
      assert.deepStrictEqual(parsed, wave[0])
      assert.strictEqual(broken?.malformed?.text, `{"pa`)
    })

    it("reads a message without calls as an empty wave", () => {
      assert.deepStrictEqual(read({ role: "assistant", content: [{ type: "text", text: "hi" }] }), {
        format: "anthropic",
        calls: []
      })
      assert.deepStrictEqual(read({ type: "message", role: "assistant", content: "hi" }).format, "anthropic")
      assert.deepStrictEqual(calls({ role: "assistant", content: "hi" }, "anthropic"), [])
    })

    it("says where a block is wrong", () => {
      const at = (input: unknown) => refusal(input, "anthropic").path
      assert.deepStrictEqual(
        refusal({ role: "assistant", content: [content[0], toolUse("1", "a", {}), { type: "tool_use", id: 1 }] }),
        {
          format: "anthropic",
          path: "content[2].id",
          problem: "is 1",
          expected: "a string"
        }
      )
      assert.strictEqual(at([{ type: "tool_use", id: "1", name: "a" }]), "[0].input")
      assert.strictEqual(at([{ text: "hi" }]), "[0].type")
      assert.strictEqual(at({ role: "user", content: [{ type: "tool_result", tool_use_id: "1" }] }), "role")
      assert.strictEqual(at({ role: "assistant" }), "content")
      assert.strictEqual(at({ content: "hi" }), "")
    })
  })

  describe("native", () => {
    it("reads an array and an object with calls alike", () => {
      const input = [{ id: "1", name: "read", params: { path: "a" } }]
      assert.deepStrictEqual(read(input), { format: "native", calls: input })
      assert.deepStrictEqual(read({ calls: input }), { format: "native", calls: input })
    })

    it("numbers calls without an id by their place", () => {
      const ids = calls([{ name: "a" }, { id: "x", name: "b" }, { name: "c" }]).map((call) => call.id)
      assert.deepStrictEqual(ids, ["call_1", "x", "call_3"])
    })

    it("takes absent params for none, and parses text", () => {
      const [none, text, broken, nothing] = calls([
        { name: "a" },
        { name: "a", params: "[1]" },
        { name: "a", params: "{" },
        { name: "a", params: null }
      ])
      assert.deepStrictEqual(none?.params, {})
      assert.deepStrictEqual(text?.params, [1])
      assert.strictEqual(broken?.malformed?.text, "{")
      assert.isNull(nothing?.params)
    })

    it("reads back the calls that it gave", () => {
      const first = calls([{ name: "a", params: "{" }, { name: "b", params: { c: 1 } }])
      assert.deepStrictEqual(calls(JSON.parse(JSON.stringify(first))), first)
    })

    it("refuses a misspelt key rather than run a tool without its arguments", () => {
      assert.deepStrictEqual(refusal({ calls: [{ name: "rm", parameters: { path: "a" } }] }), {
        format: "native",
        path: "calls[0].parameters",
        problem: "is not a key of a call",
        expected: "id, name or params"
      })
      assert.strictEqual(refusal([{ name: "a" }, { id: "1" }]).path, "[1].name")
      assert.strictEqual(refusal([{ id: 1, name: "a" }]).path, "[0].id")
      assert.strictEqual(refusal({ calls: 1 }).path, "calls")
    })
  })

  describe("detection", () => {
    it("takes an empty array for ours", () => {
      assert.deepStrictEqual(read([]), { format: "native", calls: [] })
    })

    it("names every shape when it knows none", () => {
      for (const input of [null, 1, "x", {}, [1], [[]], { role: "system" }, { id: "1", name: "a", params: {} }]) {
        const { expected, format } = refusal(input)
        assert.strictEqual(format, "auto")
        for (const part of titles) assert.include(expected, part)
      }
    })

    it("knows a call of any other format where it stands among parts", () => {
      const foreign = [
        [["anthropic", "openai-responses", "ai-sdk", "effect-ai"], openaiCall("1", "a", "{}")],
        [["anthropic", "openai-responses", "ai-sdk", "effect-ai"], { type: "function" }],
        [["openai-responses", "ai-sdk", "effect-ai"], { type: "x", function: { name: "a", arguments: "{}" } }],
        [["anthropic", "openai-responses", "ai-sdk"], { type: "custom", custom: { name: "a", input: "" } }],
        [["anthropic", "openai", "ai-sdk", "effect-ai"], { type: "function_call" }],
        [["anthropic", "openai", "ai-sdk", "effect-ai"], { type: "custom_tool_call" }],
        [["openai", "openai-responses", "ai-sdk", "effect-ai"], toolUse("1", "a", {})],
        [["openai", "openai-responses", "anthropic"], { type: "tool-call" }]
      ] as const
      for (const [others, part] of foreign) {
        for (const format of others) {
          const parts = [{ type: "text", text: "" }, part]
          const input = format === "openai-responses" ? { output: parts } : { role: "assistant", content: parts }
          const { path, problem } = refusal(input, format)
          assert.match(`${path} ${problem}`, /^(?:content|output)\[1\] is a tool call where this format has none$/)
        }
      }
    })

    it("never loses calls of another format without a word", () => {
      assert.strictEqual(refusal({ role: "assistant", content: [toolUse("1", "a", {})] }, "openai").path, "content[0]")
      assert.strictEqual(
        refusal({ ...assistant(openaiCall("1", "a", "{}")), content: "hi" }, "anthropic").path,
        "tool_calls[0]"
      )
      assert.strictEqual(refusal([openaiCall("1", "a", "{}")], "anthropic").path, "[0]")
      assert.strictEqual(refusal([openaiCall("1", "a", "{}")], "native").path, "[0].type")
      assert.deepStrictEqual(
        read({ role: "assistant", content: [toolUse("1", "a", {})], tool_calls: null }).format,
        "anthropic"
      )
    })
  })

  describe("text", () => {
    it("parses before it reads", () => {
      const wave = Result.getOrThrow(WireFormat.readText(`[{"name":"a","params":{"x":1}}]`))
      assert.deepStrictEqual(wave.calls, [{ id: "call_1", name: "a", params: { x: 1 } }])
    })

    it("says that a text is not JSON", () => {
      const error = Result.getOrThrow(Result.flip(WireFormat.readText("[{", "openai")))
      assert.deepInclude(error, { _tag: "WireFormatError", format: "openai", path: "", expected: "JSON text" })
      assert.match(
        error.message,
        /^Cannot read tool calls in openai format: the input is not JSON \(.+\); expected JSON text$/
      )
    })
  })

  describe("hostile input", () => {
    it("that throws where it is read is refused, in any format", () => {
      const boom = () => {
        throw new Error("it cannot be read")
      }
      const throwing = () => new Proxy({}, { get: boom, has: boom, ownKeys: boom, getOwnPropertyDescriptor: boom })
      const revoked = Proxy.revocable({}, {})
      revoked.revoke()
      for (const format of [...WireFormat.Format.literals, "auto"] as const) {
        for (
          const input of [throwing(), revoked.proxy, [throwing()], assistant(throwing()), assistant(revoked.proxy)]
        ) {
          assert.isTrue(Result.isFailure(WireFormat.read(input, format)), format)
        }
      }
    })

    const long = "x".repeat(5_000_000)

    it("keeps error texts short", () => {
      for (
        const input of [
          long,
          { role: long },
          [{ id: "1", type: long }],
          [{ id: "1", type: "tool_use", [long]: 1 }],
          { calls: [{ name: "a", [long]: 1 }] },
          [{ name: "a", type: "tool_use", id: { [long]: 1 } }],
          { jsonrpc: long },
          { jsonrpc: "2.0", id: 1, method: long },
          { jsonrpc: "2.0", id: [long], method: "tools/call" },
          [{ type: "tool-call", toolCallId: "1", toolName: { [long]: 1 } }],
          [{ type: "tool-call", id: "1", name: [long] }],
          { output: [{ type: "function_call", call_id: { [long]: 1 } }] },
          { output: long }
        ]
      ) {
        for (const format of [...formats, "auto"] as const) {
          const result = WireFormat.read(input, format)
          // where none fits, the shapes are named
          if (Result.isFailure(result)) assert.isBelow(result.failure.message.length, format === "auto" ? 1000 : 500)
        }
      }
      const text = Result.getOrThrow(Result.flip(WireFormat.readText(long)))
      assert.isBelow(text.message.length, 500)
    })

    it("takes names of prototypes for names like any other", () => {
      const json = `[{"id":"__proto__","name":"constructor","params":{"__proto__":{"polluted":1}}},{"name":"toString"}]`
      const [first, second] = Result.getOrThrow(WireFormat.readText(json)).calls
      assert.strictEqual(first?.name, "constructor")
      assert.deepStrictEqual(Object.keys(first?.params as object), ["__proto__"])
      assert.strictEqual(second?.name, "toString")
      assert.isUndefined(({} as { polluted?: unknown }).polluted)
    })

    it("does not take a prototype's properties for the message's", () => {
      const inherited = Object.create({ calls: [{ name: "a" }], role: "assistant" }) as unknown
      assert.strictEqual(refusal(inherited).format, "auto")
      assert.strictEqual(refusal(JSON.parse(`{"__proto__":{"calls":[]}}`)).format, "auto")
    })

    it("keeps arguments that are nested too deeply as their text", () => {
      const nested = (levels: number) => "[".repeat(levels) + "]".repeat(levels)
      const read = (text: string) => calls(assistant(openaiCall("1", "a", text)))[0]
      assert.isUndefined(read(nested(256))?.malformed)
      assert.deepStrictEqual(read(nested(257)), {
        id: "1",
        name: "a",
        params: null,
        malformed: { text: nested(257), message: "nested more than 256 levels deep" }
      })
      // brackets in a text are no levels
      assert.isUndefined(read(JSON.stringify(`"${nested(50_000)}`))?.malformed)
    })
  })

  describe("writing", () => {
    it("answers OpenAI with one message per call", () => {
      assert.deepStrictEqual(WireFormat.write("openai", [succeeded("1", 1), failed("2", "no")]), [
        { role: "tool", tool_call_id: "1", content: "done" },
        { role: "tool", tool_call_id: "2", content: "disk full" }
      ])
    })

    it("answers Anthropic with one message, and marks errors only", () => {
      assert.deepStrictEqual(WireFormat.write("anthropic", [succeeded("1", 1), failed("2", "no")]), {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "1", content: "done" },
          { type: "tool_result", tool_use_id: "2", content: "disk full", is_error: true }
        ]
      })
    })

    it("never gives Anthropic an error without content, which it refuses", () => {
      const { content } = WireFormat.write("anthropic", [failed("1", "", ""), succeeded("2", "", "")])
      assert.deepStrictEqual(content.map((block) => block.content), ["The tool failed.", ""])
    })

    it("tells the model what became of a call that did not run", () => {
      const outcome = denied("1", { _tag: "PolicyDenied", rule: "deny rm" })
      const [message] = WireFormat.write("openai", [outcome])
      assert.strictEqual(message?.content, ToolOutcome.text(outcome))
    })

    it("shows images and documents wherever a format has a place for them, and names them elsewhere", () => {
      const outcome = shown(
        "1",
        { type: "text", text: "a cat" },
        { type: "file", mediaType: "image/png", data: "AQID" },
        { type: "file", mediaType: "application/pdf", data: "AQID", fileName: "cat.pdf" },
        { type: "file", mediaType: "audio/wav", data: "AQID" }
      )
      const [image, pdf, sound] = [
        "data:image/png;base64,AQID",
        "data:application/pdf;base64,AQID",
        "[audio/wav omitted]"
      ]
      assert.deepStrictEqual(WireFormat.write("openai", [outcome]), [{
        role: "tool",
        tool_call_id: "1",
        content: "a cat\n[image/png omitted]\n[application/pdf cat.pdf omitted]\n[audio/wav omitted]"
      }])
      const [item] = WireFormat.write("openai-responses", [outcome])
      assert.deepStrictEqual(item?.type === "function_call_output" && item.output, [
        { type: "input_text", text: "a cat" },
        { type: "input_image", detail: "auto", image_url: image },
        { type: "input_file", filename: "cat.pdf", file_data: pdf },
        { type: "input_text", text: sound }
      ])
      const source = { type: "base64", data: "AQID" } as const
      assert.deepStrictEqual(WireFormat.write("anthropic", [outcome]).content[0]?.content, [
        { type: "text", text: "a cat" },
        { type: "image", source: { ...source, media_type: "image/png" } },
        { type: "document", source: { ...source, media_type: "application/pdf" } },
        { type: "text", text: sound }
      ])
      const data = { type: "data", data: "AQID" } as const
      assert.deepStrictEqual(WireFormat.write("ai-sdk", [outcome]).content[0]?.output, {
        type: "content",
        value: [
          { type: "text", text: "a cat" },
          { type: "file", mediaType: "image/png", data },
          { type: "file", mediaType: "application/pdf", data, filename: "cat.pdf" },
          { type: "text", text: sound }
        ]
      })
      assert.deepStrictEqual(WireFormat.write("langchain", [outcome])[0]?.content, [
        { type: "text", text: "a cat" },
        { type: "image", mimeType: "image/png", data: "AQID" },
        { type: "file", mimeType: "application/pdf", data: "AQID" },
        { type: "text", text: sound }
      ])
      const { parts, response } = WireFormat.write("gemini", [outcome]).parts[0]!.functionResponse
      assert.deepStrictEqual(parts, [
        { inlineData: { mimeType: "image/png", data: "AQID" } },
        { inlineData: { mimeType: "application/pdf", data: "AQID" } }
      ])
      assert.deepStrictEqual(response, {
        output: "a cat\n[image/png attached]\n[application/pdf attached]\n[audio/wav omitted]"
      })
      const { content } = WireFormat.write("bedrock", [outcome]).content[0]!.toolResult
      assert.deepStrictEqual(JSON.parse(JSON.stringify(content)), [
        { text: "a cat" },
        { image: { format: "png", source: { bytes: "AQID" } } },
        { document: { format: "pdf", name: "document 1", source: { bytes: "AQID" } } },
        { text: sound }
      ])
      const bytes = "image" in content[1]! ? content[1].image.source.bytes : undefined
      assert.deepStrictEqual(Array.from(bytes ?? []), [1, 2, 3])
      assert.deepStrictEqual(WireFormat.write("mcp", [outcome])[0]?.result, {
        content: [
          { type: "text", text: "a cat" },
          { type: "image", mimeType: "image/png", data: "AQID" },
          { type: "resource", resource: { uri: "cat.pdf", mimeType: "application/pdf", blob: "AQID" } },
          { type: "audio", mimeType: "audio/wav", data: "AQID" }
        ],
        structuredContent: { n: 1 }
      })
      const [effect] = WireFormat.write("effect-ai", [outcome]).content
      assert.deepStrictEqual(effect?.type === "tool-result" && effect.modelOutput?.map((it) => it.type), [
        "text",
        "file",
        "file",
        "file"
      ])
    })

    it("hands on what a tool of an MCP server gave as it is, and nothing that only looks like it", () => {
      const write = (value: unknown) => WireFormat.write("mcp", [succeeded("1", value)])[0]?.result
      const own = {
        content: [
          { type: "text", text: "hi", annotations: { audience: ["user"] } },
          { type: "image", data: "AQID", mimeType: "image/png" },
          { type: "resource_link", uri: "file:///a", name: "a" }
        ],
        structuredContent: { n: 1 }
      }
      assert.deepStrictEqual<unknown>(write(own), own)
      assert.deepStrictEqual(write({ content: [] }), { content: [] })
      for (
        const value of [
          { ...own, more: 1 },
          { ...own, isError: true },
          { content: [{ type: "paragraph", text: "hi" }] },
          { content: [{ type: "image", data: "AQID" }] },
          { content: "hi" },
          { content: [], structuredContent: [] }
        ]
      ) {
        assert.deepStrictEqual(write(value), {
          content: [{ type: "text", text: "done" }],
          structuredContent: value as never
        })
      }
      assert.deepStrictEqual(
        WireFormat.write("mcp", [truncated("1", own)])[0]?.result,
        { content: [{ type: "text", text: "cut" }] }
      )
    })

    it("writes outcomes as the JSON that they are", () => {
      const outcome = succeeded("1", { a: [1, null, true, "x"] })
      assert.deepStrictEqual(WireFormat.write("native", [outcome]), [outcome as unknown as Record<string, unknown>])
    })

    it("writes values that JSON does not have", () => {
      const loop: Record<string, unknown> = { name: "loop" }
      loop.self = loop
      const value = {
        big: 12n,
        not: NaN,
        gone: undefined,
        call: () => 1,
        list: [undefined, Symbol("s"), -Infinity],
        date: new Date(0),
        badDate: new Date(NaN),
        map: new Map<unknown, unknown>([["k", 1n]]),
        set: new Set([1]),
        loop,
        twice: [loop, loop],
        error: Object.assign(new TypeError("boom"), { code: 7 }),
        get trap(): unknown {
          throw new Error("no")
        },
        own: { toJSON: () => ({ toJSON: () => "not again" }) },
        bad: {
          toJSON: () => {
            throw new Error("no")
          }
        },
        proxy: Proxy.revocable({}, {}).proxy,
        ["\ud800key"]: "\udc00value"
      }
      const revoked = Proxy.revocable({}, {})
      revoked.revoke()
      const [written] = WireFormat.write("native", [failed("1", { ...withoutTrap(value), revoked: revoked.proxy })])
      const shownLoop = { name: "loop", self: "[circular]" }
      assert.deepStrictEqual((written as { error: unknown }).error, {
        big: "12",
        not: null,
        list: [null, null, null],
        date: "1970-01-01T00:00:00.000Z",
        badDate: null,
        map: [["k", "1"]],
        set: [1],
        loop: shownLoop,
        twice: [shownLoop, shownLoop],
        error: { name: "TypeError", message: "boom", code: 7 },
        own: {},
        bad: "[unreadable]",
        proxy: {},
        "\ufffdkey": "\ufffdvalue",
        revoked: "[unreadable]"
      })
      assert.deepInclude(WireFormat.write("native", [failed("1", value)])[0]?.error as object, {
        big: "12",
        trap: "[unreadable]"
      })
    })

    it("cuts off what would end the stack", () => {
      const deep = Array.from({ length: 100_000 }).reduce<unknown>((inner) => [inner], 1)
      assert.include(JSON.stringify(WireFormat.write("native", [succeeded("1", deep)])), "[too deep]")
    })

    it("keeps a key that is called like a prototype", () => {
      const written = WireFormat.write("native", [succeeded("1", JSON.parse(`{"__proto__":{"polluted":1}}`))])
      assert.include(JSON.stringify(written), `{"__proto__":{"polluted":1}}`)
    })

    it("replaces lone surrogates in what the model is told", () => {
      const outcome = succeeded("1", "\ud83d", "cut \ud83d, whole \ud83d\ude00")
      for (const format of formats) {
        const text = JSON.stringify(WireFormat.write(format, [outcome]))
        assert.include(text, "cut \ufffd, whole \ud83d\ude00")
        assert.notInclude(text, "\\ud83d")
      }
    })

    it("answers no calls with no answers", () => {
      assert.deepStrictEqual(WireFormat.write("openai", []), [])
      assert.deepStrictEqual(WireFormat.write("anthropic", []), { role: "user", content: [] })
      assert.deepStrictEqual(WireFormat.write("native", []), [])
    })
  })
})

/** Copies the properties without reading the one that throws. */
const withoutTrap = (value: object): object =>
  Object.fromEntries(
    Object.keys(value).filter((key) => key !== "trap").map((key) => [key, Reflect.get(value, key) as unknown])
  )
