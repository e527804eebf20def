/** Each protocol's server refuses what the real one refuses, in its words, and nothing else. */
import { describe, expect, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Anthropic from "../support/providers/anthropicChecks.ts"
import type * as Google from "../support/providers/googleChecks.ts"
import type * as Chat from "../support/providers/openaiChatChecks.ts"
import type * as Responses from "../support/providers/openaiResponsesChecks.ts"
import { type Name, names, type Options, provider } from "../support/providers/providers.ts"
import { lastBody, post } from "../support/providers/requests.ts"
import type { Script, Turn } from "../support/providers/script.ts"
import { converse } from "../support/providers/talk.ts"

/** Two turns of calls, then texts: with the last of the calls answered, the loop is open. */
const turns: ReadonlyArray<Turn> = [
  {
    reasoning: "Both at once",
    text: "Adding…",
    calls: [{ name: "add", args: { a: 1 } }, { name: "take", args: { a: 2 } }]
  },
  { reasoning: "Once more", calls: [{ name: "add", args: { a: 3 } }] }
]

const script: Script = ({ turn }) => turns[turn] ?? { text: "Done" }

type Mutable<A> = A extends (...args: ReadonlyArray<never>) => unknown ? A
  : A extends object ? { -readonly [K in keyof A]: Mutable<A[K]> }
  : A

/** What is spoilt, how, and what the server says of it. */
type Cases<Body> = Record<string, readonly [spoil: (body: Mutable<Body>) => unknown, message: string]>

/** Each of the cases on the body of a sound request with an open loop, which itself is taken. */
const refuses = <Body>(name: Name, cases: Cases<Body>, options: Options = {}, of: Script = script) => {
  it.effect("takes the body that the cases spoil", () =>
    Effect.gen(function*() {
      const { model, server } = yield* provider(name, of, options)
      yield* Effect.promise(() => converse(model, "Go"))
      expect(yield* Effect.promise(() => post(server, lastBody(server)))).toMatchObject({ status: 200 })
      expect(server.refusals).toEqual([])
    }))
  it.effect.each(Object.keys(cases))("refuses %s", (key) =>
    Effect.gen(function*() {
      const [spoil, message] = cases[key]!
      const { model, server } = yield* provider(name, of, options)
      yield* Effect.promise(() => converse(model, "Go"))
      const body = lastBody<Mutable<Body>>(server)
      spoil(body)
      const answer = yield* Effect.promise(() => post(server, body))
      expect(answer.message).toContain(message)
      expect([400, 401, 404]).toContain(answer.status)
      expect(server.refusals).toEqual([{ status: answer.status, message: answer.message, body }])
    }))
}

const chat: Cases<Chat.Body> = {
  "a call without an answer": [
    ({ messages }) => messages.splice(3, 1),
    "An assistant message with 'tool_calls' must be followed by tool messages"
  ],
  "an answer without its call": [
    ({ messages }) => messages.splice(1, 1),
    "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'"
  ],
  "two answers of one call": [
    ({ messages }) => messages.splice(3, 0, messages[2]!),
    "Duplicate value for 'tool_call_id'"
  ],
  "something between a call and its answers": [
    ({ messages }) => messages.splice(2, 0, { role: "user", content: "Wait" }),
    "must be followed by tool messages"
  ],
  "something between the answers": [
    ({ messages }) => messages.splice(3, 0, { role: "user", content: "Wait" }),
    "must be followed by tool messages"
  ],
  "an answer that comes later": [
    ({ messages }) => messages.push(...messages.splice(2, 1)),
    "must be followed by tool messages"
  ],
  "a message that says nothing": [
    ({ messages }) => messages.push({ role: "assistant", content: null }),
    "Invalid value for 'content': expected a string, got null."
  ],
  "calls that are none": [
    ({ messages }) => messages.push({ role: "assistant", content: "", tool_calls: [] }),
    "empty array. Expected an array with minimum length 1"
  ],
  "an id that is too long": [
    ({ messages }) => {
      const id = "x".repeat(41)
      messages[1]!.tool_calls![0]!.id = id
      messages[2]!.tool_call_id = id
    },
    "Expected a string with maximum length 40"
  ],
  "arguments that are no text": [
    ({ messages }) => Object.assign(messages[1]!.tool_calls![0]!.function, { arguments: {} }),
    "expected a string, but got an object instead"
  ],
  "a name that is none": [
    ({ messages }) => messages[1]!.tool_calls![0]!.function.name = "a b",
    "Expected a string that matches the pattern"
  ],
  "one id for two calls": [
    ({ messages }) => {
      messages[1]!.tool_calls![1]!.id = messages[1]!.tool_calls![0]!.id
      messages.splice(3, 1)
    },
    "duplicate tool_call_id"
  ],
  "a role that there is none of": [({ messages }) => messages[0]!.role = "model", "Invalid value: 'model'"],
  "no messages": [(body) => body.messages = [], "Invalid 'messages': empty array"]
}

describe("openai-chat", () => {
  refuses<Chat.Body>("openai-chat", chat)
})

describe("openai-compatible", () => {
  refuses<Chat.Body>("openai-compatible", {
    ...chat,
    "an empty message": [
      ({ messages }) => messages.push({ role: "assistant", content: "" }, { role: "user", content: "Go on" }),
      "with role 'assistant' must not be empty"
    ],
    "arguments that are broken": [
      ({ messages }) => messages[1]!.tool_calls![0]!.function.arguments = "{\"a\":",
      "Invalid tool call arguments"
    ],
    "reasoning that was lost": [
      ({ messages }) => delete messages[4]!.reasoning_content,
      "The `reasoning_content` in the thinking mode must be passed back to the API."
    ],
    "reasoning that was altered": [
      ({ messages }) => messages[1]!.reasoning_content += "!",
      "The `reasoning_content` in the thinking mode must be passed back to the API."
    ]
  })
})

/** The items of a kind, of a body. */
const items = (body: Mutable<Responses.Body>, type: string) => body.input.filter((item) => item.type === type)

const dropItem = (body: Mutable<Responses.Body>, item: Mutable<Responses.Item>) =>
  body.input.splice(body.input.indexOf(item), 1)

const responses: Cases<Responses.Body> = {
  "a call without an answer": [
    (body) => dropItem(body, items(body, "function_call_output")[1]!),
    "No tool output found for function call call_"
  ],
  "an answer without its call": [
    (body) => dropItem(body, items(body, "function_call")[1]!),
    "No tool call found for function call output with call_id call_"
  ],
  "two answers of one call": [
    (body) => body.input.push(items(body, "function_call_output")[1]!),
    "Duplicate 'call_id'"
  ],
  "an answer before its call": [
    (body) => body.input.splice(1, 0, ...dropItem(body, items(body, "function_call_output")[0]!)),
    "No tool"
  ],
  "a person between a call and its answer": [
    (body) =>
      body.input.splice(body.input.indexOf(items(body, "function_call_output")[0]!), 0, {
        role: "user",
        content: [{ text: "Wait" }]
      }),
    "No tool output found for function call"
  ],
  "one id for two calls": [
    (body) => {
      items(body, "function_call")[1]!.call_id = items(body, "function_call")[0]!.call_id!
      dropItem(body, items(body, "function_call_output")[1]!)
    },
    "Duplicate 'call_id'"
  ],
  "an id that is too long": [
    (body) => items(body, "function_call")[0]!.call_id = "x".repeat(65),
    "Expected a string with maximum length 64"
  ],
  "an item that it never wrote": [
    (body) => items(body, "function_call")[0]!.id = "fc_1",
    "Item with id 'fc_1' not found."
  ],
  "a reference to an item that it never wrote": [
    (body) => body.input.unshift({ type: "item_reference", id: "rs_1" }),
    "Item with id 'rs_1' not found."
  ],
  "a type that there is none of": [
    (body) => body.input.push({ type: "tool_use" }),
    "Invalid value: 'tool_use'"
  ],
  "no input": [(body) => body.input = [], "Invalid 'input': empty array"]
}

describe("openai-responses", () => {
  refuses<Responses.Body>("openai-responses", {
    ...responses,
    "a call without its reasoning": [
      (body) => dropItem(body, items(body, "reasoning")[1]!),
      "of type 'function_call' was provided without its required 'reasoning' item: 'rs_"
    ],
    "reasoning without what came of it": [
      (body) => body.input.splice(body.input.indexOf(items(body, "reasoning")[0]!) + 1),
      "of type 'reasoning' was provided without its required following item."
    ],
    "reasoning that was altered": [
      (body) => items(body, "reasoning")[0]!.summary![0]!.text += "!",
      "The summary of item"
    ],
    "encrypted content that was altered": [
      (body) => items(body, "reasoning")[0]!.encrypted_content += "x",
      "could not be verified."
    ],
    "encrypted content of another item": [
      (body) => {
        const [first, second] = items(body, "reasoning")
        first!.encrypted_content = second!.encrypted_content!
      },
      "could not be verified."
    ],
    "reasoning that lost its encrypted content": [
      (body) => delete items(body, "reasoning")[0]!.encrypted_content,
      "Items are not persisted when `store` is set to false."
    ],
    "a reference where nothing is stored": [
      (body) => {
        const [first] = items(body, "reasoning")
        const { id } = first!
        body.input.splice(body.input.indexOf(first!), 1, { type: "item_reference", id: id! })
      },
      "Items are not persisted when `store` is set to false."
    ],
    "an item twice": [
      (body) => body.input.splice(body.input.indexOf(items(body, "reasoning")[0]!), 0, items(body, "reasoning")[0]!),
      "Duplicate item found with id rs_"
    ]
  })
})

describe("openai-responses that stores", () => {
  refuses<Responses.Body>("openai-responses", {
    ...responses,
    "a call without its reasoning": [
      (body) => dropItem(body, items(body, "item_reference").at(-1)!),
      "of type 'function_call' was provided without its required 'reasoning' item: 'rs_"
    ],
    "an item twice": [
      (body) =>
        body.input.splice(body.input.indexOf(items(body, "item_reference")[0]!), 0, items(body, "item_reference")[0]!),
      "Duplicate item found with id"
    ]
  }, { store: true })
})

/** Blocks of a message. */
const blocks = ({ messages }: Mutable<Anthropic.Body>, index: number) =>
  messages[index]!.content as Array<Mutable<Anthropic.Block>>

describe("anthropic", () => {
  refuses<Anthropic.Body>("anthropic", {
    "a call without an answer": [
      (body) => blocks(body, 2).splice(1, 1),
      "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_"
    ],
    "an answer without its call": [
      (body) => blocks(body, 1).splice(3, 1),
      "messages.2.content.1: unexpected `tool_use_id` found in `tool_result` blocks: toolu_"
    ],
    "two answers of one call": [
      (body) => blocks(body, 2).push(blocks(body, 2)[0]!),
      "each tool_use must have a single result. Found multiple `tool_result` blocks with id: toolu_"
    ],
    "a text before the answers": [
      (body) => blocks(body, 2).unshift({ type: "text", text: "Here" }),
      "`tool_use` ids were found without `tool_result` blocks immediately after"
    ],
    "a message between a call and its answers": [
      ({ messages }) =>
        messages.splice(2, 0, { role: "user", content: "Wait" }, { role: "assistant", content: "I wait" }),
      "`tool_use` ids were found without `tool_result` blocks immediately after"
    ],
    "an empty message": [
      (body) => body.messages.push({ role: "user", content: [] }),
      "all messages must have non-empty content except for the optional final assistant message"
    ],
    "an empty text": [
      (body) => blocks(body, 0)[0]!.text = "",
      "messages: text content blocks must be non-empty"
    ],
    "a blank text": [
      (body) => blocks(body, 0)[0]!.text = " \n",
      "text content blocks must contain non-whitespace text"
    ],
    "arguments that are no object": [
      (body) => blocks(body, 1)[2]!.input = "{}",
      "messages.1.content.2.tool_use.input: Input should be a valid dictionary"
    ],
    "an id that is written as those of others may be": [
      (body) => blocks(body, 1)[2]!.id = "call|1",
      "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
    ],
    "one id for two calls": [
      (body) => blocks(body, 3)[1]!.id = blocks(body, 1)[2]!.id!,
      "messages.3.content.1: `tool_use` ids must be unique"
    ],
    "a signature that it never gave": [
      (body) => blocks(body, 1)[0]!.signature = "abc",
      "messages.1.content.0: Invalid `signature` in `thinking` block"
    ],
    "thinking that was altered": [
      (body) => blocks(body, 1)[0]!.thinking += ".",
      "messages.1.content.0: Invalid `signature` in `thinking` block"
    ],
    "thinking that lost its signature": [
      (body) => delete blocks(body, 1)[0]!.signature,
      "messages.1.content.0.thinking.signature: Field required"
    ],
    "thinking that was lost in an open loop": [
      (body) => blocks(body, 1).splice(0, 1),
      "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `text`"
    ],
    "thinking of another turn in an open loop": [
      (body) => blocks(body, 3).splice(0, 1, blocks(body, 1)[0]!),
      "blocks in the latest assistant message cannot be modified"
    ],
    "thinking after what came of it": [
      (body) => blocks(body, 1).push(...blocks(body, 1).splice(0, 1)),
      "Expected `thinking` or `redacted_thinking`, but found `text`"
    ],
    "a conversation that the model begins": [
      ({ messages }) => messages.unshift({ role: "assistant", content: "Hi" }),
      "first message must use the \"user\" role"
    ],
    "a conversation that the model ends": [
      ({ messages }) => messages.push({ role: "assistant", content: "I" }),
      "does not support assistant message prefill"
    ],
    "a role that there is none of": [
      ({ messages }) => messages.push({ role: "system", content: "Be brief" }),
      "Input should be 'user' or 'assistant'"
    ],
    "a choice of tool that thinking forbids": [
      (body) => body.tool_choice = { type: "any" },
      "Thinking may not be enabled when tool_choice forces tool use."
    ],
    "an error that says nothing": [
      (body) => Object.assign(blocks(body, 2)[0]!, { is_error: true, content: "" }),
      "content cannot be empty if `is_error` is true"
    ],
    "an error that shows something": [
      (body) => Object.assign(blocks(body, 2)[0]!, { is_error: true, content: [{ type: "image" }] }),
      "all content must be type \"text\" if `is_error` is true"
    ]
  })

  it.effect("lets the thinking of a loop go that is closed", () =>
    Effect.gen(function*() {
      const { model, server } = yield* provider("anthropic", script)
      yield* Effect.promise(() => converse(model, "Go", "Thanks"))
      const body = lastBody<Mutable<Anthropic.Body>>(server)
      for (const message of body.messages) {
        if (message.role !== "assistant") continue
        message.content = (message.content as Array<Mutable<Anthropic.Block>>).filter(({ type }) => type !== "thinking")
      }
      expect(yield* Effect.promise(() => post(server, body))).toMatchObject({ status: 200 })
    }))
})

describe("anthropic with redacted thinking and a search", () => {
  refuses<Anthropic.Body>(
    "anthropic",
    {
      "redacted thinking that was altered": [
        (body) => blocks(body, 1)[1]!.data += "x",
        "messages.1.content.1: Invalid `data` in `redacted_thinking` block"
      ],
      "redacted thinking that was lost": [
        (body) => blocks(body, 1).splice(1, 1),
        "cannot be modified"
      ],
      "a search without its result": [
        (body) => blocks(body, 1).splice(3, 1),
        "was found without a corresponding `web_search_tool_result` block"
      ],
      "the result of a search that nobody made": [
        (body) => blocks(body, 1).splice(2, 1),
        "unexpected `tool_use_id` found in `web_search_tool_result` blocks: srvtoolu_"
      ],
      "the result of another search": [
        (body) => Object.assign((blocks(body, 1)[3]!.content as Array<object>)[0]!, { encrypted_content: "x" }),
        "Invalid `encrypted_content`"
      ]
    },
    {},
    ({ turn }) =>
      turn === 0
        ? { reasoning: "Look", redacted: "secret", search: "news", calls: [{ name: "add" }] }
        : { text: "Done" }
  )
})

const unequal = "the number of function response parts is equal to the number of function call parts"

describe("google", () => {
  refuses<Google.Body>("google", {
    "a call without an answer": [({ contents }) => contents[2]!.parts.splice(1, 1), unequal],
    "calls without any answer": [({ contents }) => contents.splice(2, 1), unequal],
    "an answer without its call": [({ contents }) => contents[1]!.parts.splice(-1, 1), unequal],
    "answers after no call": [
      ({ contents }) => contents.splice(1, 1),
      "function response turn comes immediately after a function call turn"
    ],
    "two answers of one call": [({ contents }) => contents[2]!.parts.push(contents[2]!.parts[0]!), unequal],
    "answers in another order": [({ contents }) => contents[2]!.parts.reverse(), unequal],
    "something between a call and its answers": [
      ({ contents }) => contents.splice(2, 0, { role: "user", parts: [{ text: "Wait" }] }),
      unequal
    ],
    "calls that nobody asked for": [
      ({ contents }) => contents.splice(0, 1),
      "function call turn comes immediately after a user turn or after a function response turn"
    ],
    "calls right after what the model said": [
      ({ contents }) => contents.splice(3, 0, { role: "model", parts: [{ text: "Well" }] }),
      "function call turn comes immediately after"
    ],
    "a message without parts": [
      ({ contents }) => contents.push({ role: "user", parts: [] }),
      "contents.parts must not be empty"
    ],
    "an empty part": [
      ({ contents }) => contents[0]!.parts.push({ text: "" }),
      "contents[0].parts[1].data: required oneof field 'data' must have one initialized field"
    ],
    "a signature that was lost": [
      ({ contents }) => contents[1]!.parts.forEach((part) => delete part.thoughtSignature),
      "Function call is missing a thought_signature in functionCall parts."
    ],
    "a signature that was lost and glossed over": [
      ({ contents }) =>
        contents[3]!.parts.forEach((part) => part.thoughtSignature = "skip_thought_signature_validator"),
      "Function call is missing a thought_signature in functionCall parts."
    ],
    "a signature of another call": [
      ({ contents }) => {
        const signed = contents[1]!.parts.find((part) => part.thoughtSignature !== undefined)!
        contents[3]!.parts.at(-1)!.thoughtSignature = signed.thoughtSignature!
      },
      "Corrupted thought signature."
    ],
    "a signature that it never gave": [
      ({ contents }) => contents[0]!.parts[0]!.thoughtSignature = "abc",
      "Corrupted thought signature."
    ],
    "arguments that are no object": [
      ({ contents }) => contents[1]!.parts.at(-1)!.functionCall!.args = "{}",
      "function_call.args' (type.googleapis.com/google.protobuf.Struct)"
    ],
    "a role that there is none of": [({ contents }) => contents[0]!.role = "assistant", "Please use a valid role"],
    "a conversation that the model ends": [
      ({ contents }) => contents.push({ role: "model", parts: [{ text: "Well" }] }),
      "Requests ending with a model turn are not supported."
    ],
    "a tool whose name is none": [
      (body) => body.tools![0]!.functionDeclarations![0]!.name = "1 2",
      "Invalid function name."
    ]
  })
})

describe("what another server of the protocol gave", () => {
  const messages: Partial<Record<Name, string>> = {
    "openai-responses": "could not be verified.",
    anthropic: "Invalid `signature` in `thinking` block",
    google: "Corrupted thought signature."
  }

  it.effect.each(names)("%s refuses if it is bound to it, and else takes", (name) =>
    Effect.gen(function*() {
      const one = yield* provider(name, script)
      const other = yield* provider(name, script)
      yield* Effect.promise(() => converse(one.model, "Go"))
      const answer = yield* Effect.promise(() => post(one.server, lastBody(one.server), other.server))
      expect(answer).toMatchObject(
        messages[name] === undefined
          ? { status: 200 }
          : { status: 400, message: expect.stringContaining(messages[name]) }
      )
    }))

  it.effect.each(names)("%s wants a key", (name) =>
    Effect.gen(function*() {
      const { model, server } = yield* provider(name, script)
      yield* Effect.promise(() => converse(model, "Go"))
      const { path } = server.requests.at(-1)!
      const init = { method: "POST", body: JSON.stringify(lastBody(server)) }
      const answer = yield* Effect.promise(() => fetch(`${server.url}${path}`, init))
      expect([400, 401]).toContain(answer.status)
    }))
})
