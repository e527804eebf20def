/** What OpenAI chat completions refuse, each rule with where it is told. */
import { refuse } from "./protocol.ts"

export interface Message {
  readonly role: string
  readonly content?: string | ReadonlyArray<{ readonly type: string; readonly text?: string }> | null
  readonly reasoning_content?: string
  readonly tool_calls?: ReadonlyArray<ToolCall>
  readonly tool_call_id?: string
}

export interface ToolCall {
  readonly id: string
  /** What Gemini behind a compatible address signs its calls with. */
  readonly extra_content?: object
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

export const check = ({ messages, tools }: Body) => {
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

// Utilities

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
