/**
 * OpenAI chat completions. Servers that are compatible with them are the same with a `Variant`.
 *
 * The stream is that of https://platform.openai.com/docs/api-reference/chat-streaming.
 */
import { type Body, check, type Message } from "./openaiChatChecks.ts"
import { type Frame, ids, type Protocol, refuse, Refused } from "./protocol.ts"
import { type Finish, messagesOf, parsed, type Part, type Said, type Usage } from "./script.ts"

/** What a compatible server does otherwise. */
export interface Variant {
  /** Checks beside those of OpenAI. */
  readonly check?: (body: Body) => void
  /** The deltas of calls. */
  readonly callDeltas?: (said: Said) => ReadonlyArray<CallDelta>
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
      const chunk = (delta: object, part?: Frame["part"], finish: string | null = null): Frame => ({
        data: {
          ...head,
          object: "chat.completion.chunk",
          choices: [{ index: 0, delta, logprobs: null, finish_reason: finish }]
        },
        part
      })
      const { noFinish, noUsage } = said.quirks
      const reasoning = variant.reasons === undefined ? undefined : said.reasoning
      const usage = noUsage === true ? {} : { usage: usageOf(said.usage) }
      return {
        frames: [
          { ...chunk({ role: "assistant", content: "" }), issued: () => variant.reasons?.(said) },
          ...said.cut(reasoning ?? "").map((text) => chunk({ reasoning_content: text }, "reasoning")),
          ...said.cut(said.text ?? "").map((content) => chunk({ content }, "text")),
          ...(variant.callDeltas ?? callDeltas)(said).map((delta) =>
            chunk({ tool_calls: [delta] }, isArgument(delta, said) ? "arguments" : undefined)
          ),
          ...said.cut(said.after ?? "").map((content) => chunk({ content }, "text")),
          ...noFinish === true ? [] : [chunk({}, "end", finishes[said.finish])],
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
              content: said.text === undefined && said.after === undefined
                ? null
                : `${said.text ?? ""}${said.after ?? ""}`,
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

/** What is written of a call at once. */
export interface CallDelta {
  readonly index?: number
  readonly id?: string
  readonly type?: string
  readonly function: { readonly name?: string; readonly arguments: string }
}

/** The deltas of calls as OpenAI writes them: first the name, then the arguments in pieces. */
export const callDeltas = (said: Said): ReadonlyArray<CallDelta> =>
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

/** Whether a delta has arguments of the first call. */
const isArgument = (delta: CallDelta, { calls }: Said) =>
  delta.function.arguments !== "" && (delta.index === undefined ? delta.id === calls[0]?.id : delta.index === 0)

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
