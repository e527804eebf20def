/**
 * Calls where no reader of a format looks for them: every call of a message is in the wave, or
 * the message is refused.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { randomFrom, type SeededRandom } from "../../src/testing/SeededRandom.ts"
import * as WireFormat from "../../src/wire/WireFormat.ts"
import { runs } from "../support/seeds.ts"
import * as Wire from "../support/wire.ts"

const args = { path: "a" }
const text = JSON.stringify(args)

/** One call in the shape of each format, of an id and a name. */
const shapes = {
  openai: (id: string, name = "lost") => ({ id, type: "function", function: { name, arguments: text } }),
  custom: (id: string, name = "lost") => ({ id, type: "custom", custom: { name, input: "x" } }),
  legacy: (_: string, name = "lost") => ({ name, arguments: text }),
  responses: (id: string, name = "lost") => ({
    type: "function_call",
    id: `fc_${id}`,
    call_id: id,
    name,
    arguments: text
  }),
  anthropic: (id: string, name = "lost") => ({ type: "tool_use", id, name, input: args }),
  gemini: (id: string, name = "lost") => ({ functionCall: { id, name, args } }),
  nameless: (_: string, name = "lost") => ({ functionCall: { name, args } }),
  bedrock: (id: string, name = "lost") => ({ toolUse: { toolUseId: id, name, input: args } }),
  langchain: (id: string, name = "lost") => ({ type: "tool_call", id, name, args }),
  effect: (id: string, name = "lost") => ({ type: "tool-call", id, name, params: args }),
  aiSdk: (id: string, name = "lost") => ({ type: "tool-call", toolCallId: id, toolName: name, input: args }),
  ui: (id: string, name = "lost") => ({ type: `tool-${name}`, toolCallId: id, state: "input-available", input: args }),
  older: (id: string, name = "lost") => ({ state: "call", toolCallId: id, toolName: name, args }),
  mcp: (id: string, name = "lost") => ({ jsonrpc: "2.0", id, method: "tools/call", params: { name, arguments: args } }),
  native: (id: string, name = "lost") => ({ id, name, params: args })
}

/** Names under which messages have calls, in any format. */
const keys = [
  "tool_calls",
  "toolCalls",
  "tool_call",
  "function_call",
  "functionCall",
  "functionCalls",
  "tool_use",
  "toolUse",
  "toolInvocations",
  "invalid_tool_calls",
  "tool_call_chunks",
  "calls",
  "content",
  "parts",
  "output",
  "steps"
]

const own = shapes.openai("1", "kept")
const message = { role: "assistant", content: null, tool_calls: [own] }

/** Messages with a call of id or name "lost" where their format has none. */
const odd: { readonly [what: string]: unknown } = {
  "a function_call beside tool_calls": { ...message, function_call: shapes.legacy("lost") },
  "a function_call beside empty tool_calls": { ...message, tool_calls: [], function_call: shapes.legacy("lost") },
  "tool calls of AI SDK 4": { role: "assistant", content: "", toolInvocations: [shapes.older("lost")] },
  "tool calls of AI SDK 4 in parts": {
    role: "assistant",
    content: "",
    parts: [{ type: "tool-invocation", toolInvocation: shapes.older("lost") }]
  },
  "tool calls of AI SDK 4 beside those of 5": {
    role: "assistant",
    parts: [shapes.ui("1", "kept")],
    toolInvocations: [shapes.older("lost")]
  },
  "LangChain's raw function_call": {
    type: "ai",
    content: "",
    tool_calls: [],
    additional_kwargs: { function_call: shapes.legacy("lost") }
  },
  "LangChain's raw function_call beside a call": {
    type: "ai",
    content: "",
    tool_calls: [shapes.langchain("1", "kept")],
    additional_kwargs: { function_call: shapes.legacy("lost") }
  },
  "one more of LangChain's raw calls": {
    type: "ai",
    content: "",
    tool_calls: [shapes.langchain("1", "kept")],
    additional_kwargs: { tool_calls: [shapes.openai("1", "kept"), shapes.openai("lost")] }
  },
  "LangChain's call of a standard block alone": { type: "ai", content: [shapes.langchain("lost")], tool_calls: [] },
  "one more chunk of LangChain's": {
    type: "AIMessageChunk",
    content: "",
    tool_calls: [shapes.langchain("1", "kept")],
    tool_call_chunks: [{ ...shapes.langchain("lost"), args: text, index: 1 }]
  },
  "a call of AI SDK 5 without its id, in a part": {
    role: "assistant",
    parts: [{ type: "text", text: "", odd: { type: "tool-lost", state: "input-available", input: args } }]
  },
  "a call that wraps one of the provider's": {
    role: "assistant",
    content: { ...shapes.bedrock("lost").toolUse, toolUse: { type: "server_tool_use", toolUseId: "s", name: "web" } }
  },
  "a request for approval that holds its call": {
    role: "assistant",
    content: [
      shapes.aiSdk("1", "kept"),
      { type: "tool-approval-request", approvalId: "a", toolCall: shapes.aiSdk("lost") }
    ]
  },
  "a request for approval of a call that is not there": {
    role: "assistant",
    content: [shapes.aiSdk("1", "kept"), { type: "tool-approval-request", approvalId: "a", toolCallId: "lost" }]
  },
  "a call above the message of a choice": { choices: [{ message, tool_calls: [shapes.openai("lost")] }] },
  "a call above all choices": { choices: [{ message }], tool_calls: [shapes.openai("lost")] },
  "a call in a choice without calls": {
    choices: [{ message: { role: "assistant", content: "" } }, shapes.openai("lost")]
  },
  "calls in the audio of a message": { ...message, audio: { id: "a", tool_calls: [shapes.openai("lost")] } },
  "a message that is a call itself": { role: "assistant", content: "", ...shapes.legacy("lost") },
  "a block beside the content": {
    ...shapes.anthropic("lost"),
    role: "assistant",
    content: [shapes.anthropic("1", "kept")]
  },
  "a block inside another one": {
    role: "assistant",
    content: [{ type: "text", text: "", content: [shapes.anthropic("lost")] }, shapes.anthropic("1", "kept")]
  },
  "a call that wraps another one": [
    { id: "2", name: "lost", params: {}, functionCall: { id: "1", name: "kept", args: {} } }
  ],
  "a call in the name of a result": [
    { type: "tool-result", id: "0", name: { nested: { type: "tool-call", id: "2", name: "lost", params: {} } } },
    { type: "tool-call", id: "1", name: "kept", params: {} }
  ],
  "a call beside the parts of a candidate": {
    candidates: [{ content: { role: "model", parts: [shapes.gemini("1", "kept")] }, ...shapes.gemini("lost") }]
  },
  "one more of Gemini's functionCalls": {
    candidates: [{ content: { role: "model", parts: [shapes.gemini("1", "kept")] } }],
    functionCalls: [shapes.gemini("1", "kept").functionCall, { name: "lost", args }]
  },
  "a block above Bedrock's message": {
    output: {
      message: { role: "assistant", content: [shapes.bedrock("1", "kept")] },
      content: [shapes.bedrock("lost")]
    }
  },
  "an item in the content of a response's message": {
    output: [{ type: "message", role: "assistant", content: [{ type: "output_text", item: shapes.responses("lost") }] }]
  },
  "an item beside the output": { output: [shapes.responses("1", "kept")], item: shapes.responses("lost") },
  "calls of the result of generateText": {
    content: [shapes.aiSdk("1", "kept")],
    toolCalls: [shapes.aiSdk("1", "kept"), shapes.aiSdk("lost")]
  },
  "calls beside a request of MCP": { ...shapes.mcp("1", "kept"), tool_calls: [shapes.openai("lost")] },
  "calls beside our own": { calls: [shapes.native("1", "kept")], more: [shapes.native("lost")] },
  "text where calls are an array": { role: "assistant", content: [{ type: "text", text: "" }], tool_calls: "[lost]" },
  "an object where calls are an array": { type: "message", role: "assistant", content: [], tool_calls: { 0: "lost" } },
  ...Object.fromEntries(
    ["tool_usee", "Tool_Use", "tool-use", "tooluse", "toolUse", "function-call", "use", "text", ""].map((type) => [
      `a block of the type ${JSON.stringify(type)}`,
      { role: "assistant", content: [shapes.anthropic("1", "kept"), { ...shapes.anthropic("lost"), type }] }
    ])
  ),
  ...Object.fromEntries(
    ["toolcall", "tool_call", "ToolCall", "tool-cal", "call"].map((type) => [
      `a part of the type ${JSON.stringify(type)}`,
      { content: [shapes.effect("1", "kept"), { ...shapes.effect("lost"), type }] }
    ])
  ),
  ...Object.fromEntries(
    ["function-call", "functioncall", "function_cal", "message"].map((type) => [
      `an item of the type ${JSON.stringify(type)}`,
      { output: [shapes.responses("1", "kept"), { ...shapes.responses("lost"), type }] }
    ])
  ),
  ...Object.fromEntries(
    ["functioncall", "function_call", "FunctionCall", "functionCal", "toolUse"].map((key) => [
      `a part with ${key}`,
      { role: "model", parts: [shapes.gemini("1", "kept"), { [key]: shapes.gemini("lost").functionCall }] }
    ])
  ),
  ...Object.fromEntries(
    ["tooluse", "tool_use", "ToolUse", "toolUze"].map((key) => [
      `a block with ${key}`,
      { role: "assistant", content: [shapes.bedrock("1", "kept"), { [key]: shapes.bedrock("lost").toolUse }] }
    ])
  )
}

/** Whether a call of an id or a name is in the wave, or the message is refused. */
const isKept = (input: unknown, lost: string, format: WireFormat.Format | "auto" = "auto"): boolean =>
  Result.match(WireFormat.read(input, format), {
    onFailure: () => true,
    onSuccess: ({ calls }) => calls.some(({ id, name }) => id.endsWith(lost) || name === lost)
  })

describe("a call in an unexpected place", () => {
  for (const [what, input] of Object.entries(odd)) {
    it(`is refused or read: ${what}`, { tags: ["A3"] }, () => {
      for (const format of ["auto", ...Wire.formats] as const) {
        assert.isTrue(isKept(input, "lost", format), format)
      }
    })
  }

  it("is refused or read in the shape of any format, under any name and beside any call", () => {
    const wanted = [{ id: "1", name: "kept", params: args, ok: true }]
    for (const format of Wire.formats) {
      for (const message of Wire.asking[format](wanted)) {
        for (const [shape, make] of Object.entries(shapes)) {
          for (const key of keys) {
            for (const wrap of [(it: unknown) => it, (it: unknown) => [it]]) {
              const input = Array.isArray(message)
                ? [...message, { [key]: wrap(make("lost")) }]
                : { ...(message as object), [key]: wrap(make("lost")) }
              assert.isTrue(isKept(input, "lost"), `${shape} under ${key} of ${JSON.stringify(message)}`)
            }
          }
        }
      }
    }
  })

  it("is a copy where it says the same, and no reason to refuse", () => {
    const copies: ReadonlyArray<unknown> = [
      {
        candidates: [{ content: { role: "model", parts: [shapes.nameless("", "kept")] } }],
        functionCalls: [shapes.nameless("", "kept").functionCall]
      },
      { ...message, toolCalls: [own] },
      { content: [shapes.aiSdk("1", "kept")], toolCalls: [shapes.aiSdk("1", "kept")] },
      {
        role: "assistant",
        content: [
          shapes.aiSdk("1", "kept"),
          { type: "tool-approval-request", approvalId: "a", toolCall: shapes.aiSdk("1", "kept") }
        ]
      },
      {
        type: "ai",
        content: [shapes.anthropic("1", "kept")],
        tool_calls: [shapes.langchain("1", "kept")],
        additional_kwargs: { function_call: shapes.legacy("", "kept"), tool_calls: [own] }
      }
    ]
    for (const input of copies) assert.deepStrictEqual(Wire.calls(input).map(({ name }) => name), ["kept"])
  })

  it("is none in what a call is given, in what it gave, and in what was sent or said beside it", () => {
    const nested = { ...shapes.anthropic("x"), tool_calls: [shapes.openai("x")], functionCall: { name: "x", args } }
    const harmless: ReadonlyArray<unknown> = [
      { ...message, tool_calls: [{ ...own, function: { name: "kept", arguments: JSON.stringify(nested) } }] },
      { role: "assistant", content: [{ ...shapes.anthropic("1", "kept"), input: nested }] },
      { role: "model", parts: [{ functionCall: { name: "kept", args: nested } }] },
      { role: "assistant", content: [{ toolUse: { toolUseId: "1", name: "kept", input: nested } }] },
      {
        output: [shapes.responses("1", "kept")],
        tools: [{ type: "function", name: "lost", parameters: { type: "object" } }],
        metadata: { tool_calls: "3" },
        tool_choice: { type: "function", name: "kept" }
      },
      [
        { role: "assistant", content: [shapes.aiSdk("0", "kept")] },
        {
          role: "tool",
          content: [{
            type: "tool-result",
            toolCallId: "0",
            toolName: "kept",
            output: { type: "json", value: nested }
          }]
        },
        { role: "assistant", content: [shapes.aiSdk("1", "kept")] }
      ],
      { ...shapes.mcp("1", "kept"), params: { name: "kept", arguments: nested, _meta: { tool_calls: [nested] } } },
      {
        role: "assistant",
        parts: [
          { type: "data-calls", data: nested },
          { ...shapes.ui("0", "kept"), state: "output-available", output: nested },
          shapes.ui("1", "kept")
        ],
        metadata: nested
      },
      [{ id: "1", name: "kept", params: nested }]
    ]
    for (const input of harmless) assert.deepStrictEqual(Wire.calls(input).map(({ name }) => name), ["kept"])
  })

  it.prop(
    "is in the wave, or the message is refused, however a message of any format was changed",
    [Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1_000_000 }))],
    ([seed]) => {
      const random = randomFrom(seed)
      const wanted = ["one", "two", "three"].map((name, index) => ({
        id: `id-${index}-x`,
        name,
        params: args,
        ok: true
      }))
      for (const format of Wire.formats) {
        for (const message of Wire.asking[format](wanted)) {
          let input = message
          // one thing is written wrong, or two are elsewhere
          const kind = random.int(5)
          input = changed(input, random, kind)
          if (kind > 1) input = changed(input, random, 2 + random.int(3))
          const has = JSON.stringify(input)
          for (const { id, name } of wanted) {
            // what has lost its name or its id is nobody's
            if (!new RegExp(`"(?:${ids})":"${id}"`).test(has)) continue
            if (!new RegExp(`"(?:${names})":"(?:tool-)?${name}"`).test(has)) continue
            assert.isTrue(isKept(input, name), `${name} of ${has}`)
          }
        }
      }
    },
    { tags: ["A3"], arbitrary: { runs: runs(100) } }
  )
})

/** A message in which something stands elsewhere, twice, deeper or under another name. */
const changed = (message: unknown, random: SeededRandom, kind: number): unknown => {
  const { chance, int, pick } = random
  const copy: unknown = JSON.parse(JSON.stringify(message))
  const places: Array<{ readonly parent: Record<string, unknown>; readonly key: string }> = []
  const walk = (value: unknown) => {
    if (typeof value !== "object" || value === null) return
    for (const [key, inner] of Object.entries(value)) {
      // so may what answers a call, but for its name and its id
      if (isAnswer(value) && !new RegExp(`^(?:${ids}|${names})$`).test(key)) continue
      places.push({ parent: value as Record<string, unknown>, key })
      // what a call is given may be anything
      if (!anything.includes(key) || isRequest(inner)) walk(inner)
    }
  }
  walk(copy)
  const objects = places.filter(({ key, parent }) =>
    typeof parent[key] === "object" && parent[key] !== null && !anything.includes(key) &&
    !isOthers(parent[key] as object)
  )
  if (places.length === 0) return copy
  const { key, parent } = pick(objects.length === 0 || chance(0.5) ? places : objects)
  const value = parent[key]
  // a call of the provider's is nobody else's
  if (key === "providerExecuted" || value === "server_tool_use") return copy
  const misspelt = (name: string) => {
    const at = int(name.length + 1)
    return pick([`${name.slice(0, at)}_${name.slice(at)}`, name.slice(0, at) + name.slice(at + 1), name.toUpperCase()])
  }
  switch (kind) {
    case 0: {
      // under another name
      if (Array.isArray(parent) || key === "name" || key === "toolName") break
      delete parent[key]
      parent[chance(0.5) ? pick(keys) : misspelt(key)] = value
      break
    }
    case 1:
      // another type
      if (typeof value === "string" && (key === "type" || key === "role" || key === "method")) {
        parent[key] = chance(0.5) ? misspelt(value) : pick(["text", "user", "tool", "model", "thing"])
      }
      break
    case 2: {
      // elsewhere, whole
      if (anything.includes(key)) break
      if (objects.length === 0) break
      const target = pick(objects)
      if (JSON.stringify(value)?.includes(JSON.stringify(target.parent[target.key]))) break
      if (Array.isArray(parent)) parent.splice(Number(key), 1)
      else delete parent[key]
      const into = target.parent[target.key] as Record<string, unknown>
      if (typeof into !== "object" || into === null) break
      if (Array.isArray(into)) into.push(value)
      else into[chance(0.5) ? key : pick(keys)] = value
      break
    }
    case 3:
      // deeper
      parent[key] = chance(0.5) ? [value] : { [pick(keys)]: value }
      break
    default:
      // inside something else
      return chance(0.5) ? { ...(Array.isArray(copy) ? { items: copy } : copy as object), [pick(keys)]: value } : copy
  }
  return copy
}

const isAnswer = (entry: object): boolean =>
  "type" in entry && typeof entry.type === "string" && entry.type.endsWith("-result")

/** The names of ids, as a pattern. */
const ids = "id|call_id|callId|toolCallId|tool_call_id|toolUseId|tool_use_id"

/** The names of names, as a pattern. */
const names = "name|toolName|tool_name|type"

/** What the provider runs itself has given, in which there may be anything. */
const isOthers = (entry: object): boolean => {
  const { type } = ("toolUse" in entry && entry.toolUse !== null ? entry.toolUse : entry) as { readonly type?: string }
  return "providerExecuted" in entry || (type !== undefined && /^server_|_search_call$/.test(type))
}

/** What a call is given, and what is said about a message. */
const anything = ["result", "input", "args", "arguments", "params", "usage", "usageMetadata", "_meta", "metadata"]

const isRequest = (params: unknown): boolean =>
  typeof params === "object" && params !== null && "name" in params && "arguments" in params
