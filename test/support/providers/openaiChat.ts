/**
 * OpenAI chat completions. Servers that are compatible with them are the same with a `Variant`.
 *
 * The stream is that of https://platform.openai.com/docs/api-reference/chat-streaming.
 */
import { type Finish, messagesOf, parsed, type Part, type Said, type Usage } from "./script.ts"
import { type Frame, ids, type Protocol, refuse, Refused } from "./server.ts"

export interface Message {
  readonly role: string
  readonly content?: string | ReadonlyArray<{ readonly type: string; readonly text?: string }> | null
  readonly reasoning_content?: string
  readonly tool_calls?: ReadonlyArray<ToolCall>
  readonly tool_call_id?: string
}

export interface ToolCall {
  readonly id: string
  readonly type: string
  readonly function: { readonly name: string; readonly arguments: string }
}

export interface Body {
  readonly model: string
  readonly messages: ReadonlyArray<Message>
  readonly stream?: boolean
  readonly stream_options?: { readonly include_usage?: boolean }
  readonly tools?: ReadonlyArray<{ readonly function: { readonly name: string } }>
}

/** What a compatible server does otherwise. */
export interface Variant {
  /** Checks beside those of OpenAI. */
  readonly check?: (body: Body) => void
  /** The deltas of calls. */
  readonly callDeltas?: (said: Said) => ReadonlyArray<Frame["data"]>
  /** Whether it shows its reasoning. */
  readonly reasons?: (said: Said) => void
}

export const openaiChat = (variant: Variant = {}): Protocol<Body> => {
  const id = ids()
  return {
    route: (path, body) => path === "/v1/chat/completions" ? body.stream === true : undefined,
    check: (body, headers) => {
      if (headers.authorization?.startsWith("Bearer ") !== true) {
        refuse("You didn't provide an API key. You need to provide your API key in an Authorization header.", 401)
      }
      check(body)
      variant.check?.(body)
    },
    asked: (body) => ({
      model: body.model,
      system: body.messages.filter(isSystem).map(textOf).join("\n"),
      tools: body.tools?.map((tool) => tool.function.name) ?? [],
      messages: messagesOf(body.messages.flatMap(partsOf))
    }),
    callId: () => id("call_"),
    reply: (said, body) => {
      const head = { id: id("chatcmpl-"), created: 1_700_000_000, model: body.model }
      const chunk = (delta: object, finish: string | null = null, argument = false): Frame => ({
        data: {
          ...head,
          object: "chat.completion.chunk",
          choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }]
        },
        argument
      })
      const { noFinish, noUsage } = said.quirks
      const reasoning = variant.reasons === undefined ? undefined : said.reasoning
      const usage = noUsage === true ? {} : { usage: usageOf(said.usage) }
      return {
        frames: [
          { ...chunk({ role: "assistant", content: "" }), issued: () => variant.reasons?.(said) },
          ...said.cut(reasoning ?? "").map((text) => chunk({ reasoning_content: text })),
          ...said.cut(said.text ?? "").map((content) => chunk({ content })),
          ...(variant.callDeltas ?? callDeltas)(said).map((delta) =>
            chunk({ tool_calls: [delta] }, null, isArgument(delta))
          ),
          ...noFinish === true ? [] : [chunk({}, finishes[said.finish])],
          ...body.stream_options?.include_usage === true && noUsage !== true
            ? [{ data: { ...head, object: "chat.completion.chunk", choices: [], ...usage } }]
            : [],
          { data: "[DONE]" }
        ],
        whole: {
          ...head,
          object: "chat.completion",
          choices: [{
            index: 0,
            message: {
              role: "assistant",
              content: said.text ?? null,
              refusal: null,
              ...reasoning === undefined ? {} : { reasoning_content: reasoning },
              ...said.calls.length === 0 ? {} : {
                tool_calls: said.calls.map((call) => ({
                  id: said.quirks.noIds === true ? "" : call.id,
                  type: "function",
                  function: { name: call.name, arguments: call.raw }
                }))
              }
            },
            logprobs: null,
            finish_reason: noFinish === true ? null : finishes[said.finish]
          }],
          ...usage
        }
      }
    },
    error: errorOf,
    limits: limitsOf,
    overloaded: 503,
    // as it comes in the middle of streams: https://github.com/open-octo/octo-agent/pull/910
    failed: () => ({ data: errorOf(new Refused("The server had an error while processing your request.", 500)) })
  }
}

/** The deltas of calls as OpenAI writes them: first the name, then the arguments in pieces. */
export const callDeltas = (said: Said): ReadonlyArray<Frame["data"]> =>
  said.calls.flatMap((call, index) => [
    { index, id: call.id, type: "function", function: { name: call.name, arguments: "" } },
    ...said.cut(call.raw).map((text) => ({ index, function: { arguments: text } }))
  ])

/** The body of an error, of both of OpenAI's protocols: https://platform.openai.com/docs/guides/error-codes */
export const errorOf = ({ message, more, status }: Refused) => ({
  error: {
    message,
    type: status >= 500 ? "server_error" : status === 429 ? "requests" : "invalid_request_error",
    param: more.param ?? null,
    code: more.code ?? (status === 429 ? "rate_limit_exceeded" : status === 401 ? "invalid_api_key" : null)
  }
})

/** https://platform.openai.com/docs/guides/rate-limits#rate-limits-in-headers; `retry-after-ms` its own client reads. */
export const limitsOf = (seconds: number) => ({
  headers: {
    "retry-after-ms": String(seconds * 1_000),
    "x-ratelimit-remaining-requests": "0",
    "x-ratelimit-reset-requests": `${seconds}s`
  }
})

// Utilities

const finishes: Record<Finish, string> = {
  stop: "stop",
  calls: "tool_calls",
  length: "length",
  filter: "content_filter"
}

const isArgument = (delta: unknown) => (delta as Partial<ToolCall>).function?.arguments !== ""

const isSystem = ({ role }: Message) => role === "system" || role === "developer"

const textOf = ({ content }: Message): string =>
  typeof content === "string" ? content : content?.map(({ text }) => text ?? "").join("") ?? ""

const usageOf = ({ cached, input, output, reasoning }: Usage) => ({
  prompt_tokens: input,
  completion_tokens: output,
  total_tokens: input + output,
  prompt_tokens_details: { cached_tokens: cached },
  completion_tokens_details: { reasoning_tokens: reasoning }
})

const partsOf = (message: Message): ReadonlyArray<Part> => {
  const text = textOf(message)
  switch (message.role) {
    case "user":
      return [{ of: "user", text }]
    case "assistant":
      return [
        { of: "assistant", text },
        ...message.tool_calls?.map(({ function: { arguments: args, name }, id }) => ({
          of: "call" as const,
          call: { id, name, args: parsed(args) }
        })) ?? []
      ]
    case "tool":
      return [{ of: "result", id: message.tool_call_id ?? "", text }]
    default:
      return []
  }
}

const check = ({ messages, tools }: Body) => {
  if (messages.length === 0) {
    // https://github.com/CopilotKit/CopilotKit/issues/529
    refuse(
      "Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.",
      400,
      { param: "messages", code: "empty_array" }
    )
  }
  for (const { function: { name } } of tools ?? []) {
    // https://platform.openai.com/docs/api-reference/chat/create: a-z, A-Z, 0-9, underscores and dashes, 64 at most
    if (!/^[a-zA-Z0-9_-]{1,64}$/.test(name)) {
      refuse(
        "Invalid 'tools[0].function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'."
      )
    }
  }
  messages.forEach((message, index) => {
    const param = `messages.[${index}]`
    switch (message.role) {
      case "assistant":
        return checkAssistant(message, index, messages)
      case "tool": {
        const before = messages.slice(0, index).findLast(({ role }) => role !== "tool")
        const asked = before?.role === "assistant" ? before.tool_calls ?? [] : []
        const answers = messages.slice(0, index).slice(messages.indexOf(before!) + 1)
        if (!asked.some(({ id }) => id === message.tool_call_id)) {
          // https://github.com/miurla/morphic/issues/136
          refuse(
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
            400,
            { param: `${param}.role` }
          )
        }
        if (answers.some(({ tool_call_id: id }) => id === message.tool_call_id)) {
          // https://github.com/agno-agi/agno/issues/5116
          refuse(
            `Invalid parameter: Duplicate value for 'tool_call_id' of '${message.tool_call_id}', in messages[${
              index - 1
            }] and messages[${index}].`,
            400,
            { param: `${param}.tool_call_id` }
          )
        }
        if (message.content === undefined || message.content === null) nullContent(index, "null")
        return undefined
      }
      case "user":
      case "system":
      case "developer":
        if (message.content === undefined || message.content === null) nullContent(index, "null")
        if (Array.isArray(message.content) && message.content.length === 0) nullContent(index, "an empty array")
        return undefined
      default:
        return refuse(
          `Invalid value: '${message.role}'. Supported values are: 'system', 'assistant', 'user', 'function', 'tool', and 'developer'.`,
          400,
          { param: `messages[${index}].role`, code: "invalid_value" }
        )
    }
  })
}

const checkAssistant = (message: Message, index: number, messages: ReadonlyArray<Message>) => {
  const calls = message.tool_calls
  if (calls === undefined) {
    // https://github.com/run-llama/llama_index/pull/17921
    if (message.content === undefined || message.content === null) nullContent(index, "null")
    return
  }
  if (calls.length === 0) {
    // https://github.com/home-assistant/core/pull/118577
    refuse(
      `Invalid 'messages[${index}].tool_calls': empty array. Expected an array with minimum length 1, but got an empty array instead.`,
      400,
      { param: `messages[${index}].tool_calls`, code: "empty_array" }
    )
  }
  const answered = messages.slice(index + 1)
  const end = answered.findIndex(({ role }) => role !== "tool")
  const answers = new Set(answered.slice(0, end === -1 ? undefined : end).map(({ tool_call_id: id }) => id))
  const open = calls.filter(({ id }) => !answers.has(id))
  if (open.length > 0) {
    // https://github.com/BerriAI/litellm/issues/10083
    refuse(
      `An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: ${
        open.map(({ id }) => id).join(", ")
      }`,
      400,
      { param: `messages.[${index + 1}].role` }
    )
  }
  calls.forEach((call, n) => {
    const param = `messages[${index}].tool_calls[${n}]`
    // https://github.com/vercel/ai/issues/5171
    if (call.id.length > 40) {
      refuse(
        `Invalid '${param}.id': string too long. Expected a string with maximum length 40, but got a string with length ${call.id.length} instead.`,
        400,
        { param: `${param}.id`, code: "string_above_max_length" }
      )
    }
    // what strict compatible servers say of it: https://github.com/openclaw/openclaw/pull/47136
    if (calls.findIndex(({ id }) => id === call.id) !== n) refuse(`duplicate tool_call_id: ${call.id}`, 400, { param })
    if (typeof call.function.arguments !== "string") {
      refuse(`Invalid type for '${param}.function.arguments': expected a string, but got an object instead.`, 400, {
        param: `${param}.function.arguments`,
        code: "invalid_type"
      })
    }
    if (!/^[a-zA-Z0-9_-]{1,64}$/.test(call.function.name)) {
      refuse(
        `Invalid '${param}.function.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.`,
        400,
        { param: `${param}.function.name`, code: "invalid_value" }
      )
    }
  })
}

const nullContent = (index: number, got: string) =>
  refuse(`Invalid value for 'content': expected a string, got ${got}.`, 400, { param: `messages.[${index}].content` })
