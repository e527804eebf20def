/**
 * Anthropic messages. The stream is that of https://platform.claude.com/docs/en/build-with-claude/streaming;
 * what is refused is in `anthropicChecks.ts`.
 */
import { type Block, type Body, check, contentOf, type Issued } from "./anthropicChecks.ts"
import { type Frame, ids, type Protocol, Refused } from "./protocol.ts"
import { type Finish, isRecord, messagesOf, parsed, type Part, type Said, type SaidCall, type Usage } from "./script.ts"

export const anthropic = (): Protocol<Body> => {
  const id = ids()
  const issued: Issued = { thoughts: new Map(), withCall: new Map(), searches: new Set() }

  /** Blocks with the deltas that they are streamed in. */
  const blocksOf = (said: Said): ReadonlyArray<Streamed> => {
    const thinking = said.reasoning === undefined ? [] : [thinkingOf(said.reasoning, said, `${id("EqQB")}==`)]
    const redacted: ReadonlyArray<Streamed> = said.redacted === undefined ? [] : [{
      block: { type: "redacted_thinking", data: `${said.redacted}${id("")}` },
      deltas: []
    }]
    const thoughts: ReadonlyArray<Streamed> = [...thinking, ...redacted]
    const keys = thoughts.map(({ block }) => block.signature ?? block.data ?? "")
    return [
      ...thoughts.map((streamed, index) => ({
        ...streamed,
        issued: () => issued.thoughts.set(keys[index]!, streamed.block.thinking)
      })),
      ...said.search === undefined ? [] : searchOf(said.search, said.searchFails, id, issued),
      ...said.text === undefined ? [] : [textOf(said.text, said)],
      ...said.calls.map((call) => ({
        ...callOf(call, said),
        issued: () => issued.withCall.set(call.id, keys)
      })),
      ...said.after === undefined ? [] : [textOf(said.after, said)]
    ]
  }

  return {
    route: (path, body) => path === "/v1/messages" ? body.stream === true : undefined,
    check: (body, headers) => check(body, headers, issued),
    asked: (body) => ({
      model: body.model,
      system: typeof body.system === "string" ? body.system : body.system?.map(({ text }) => text).join("\n") ?? "",
      tools: body.tools?.map(({ name }) => name) ?? [],
      messages: messagesOf(body.messages.flatMap(({ content, role }) => contentOf(content).flatMap(partsOf(role))))
    }),
    callId: () => id("toolu_01"),
    reply: (said, body) => {
      const blocks = blocksOf(said)
      const head = { id: id("msg_01"), type: "message", role: "assistant", model: body.model }
      const stop = { stop_reason: finishes[said.finish], stop_sequence: null }
      const usage = usageOf(said.usage)
      const firstCall = blocks.findIndex(({ block }) => block.type === "tool_use")
      return {
        frames: [
          frame("message_start", {
            message: {
              ...head,
              content: [],
              stop_reason: null,
              stop_sequence: null,
              usage: { ...usage, output_tokens: 1 }
            }
          }),
          ...blocks.flatMap(({ block, deltas, issued, opened }, index): ReadonlyArray<Frame> => [
            // what a call needs to come back with is bound from its start, as it may never be whole
            {
              ...frame("content_block_start", { index, content_block: opened ?? block }),
              ...block.type === "tool_use" && issued !== undefined ? { issued } : {}
            },
            ...index === 0 ? [frame("ping", {})] : [],
            ...deltas.map((delta) => ({
              ...frame("content_block_delta", { index, delta }),
              part: partOf(block, index === firstCall)
            })),
            {
              ...frame("content_block_stop", { index }),
              ...block.type !== "tool_use" && issued !== undefined ? { issued } : {}
            }
          ]),
          { ...frame("message_delta", { delta: stop, usage: { output_tokens: usage.output_tokens } }), part: "end" },
          frame("message_stop", {})
        ],
        whole: { ...head, content: blocks.map(({ block }) => block), ...stop, usage }
      }
    },
    error: errorOf,
    // https://platform.claude.com/docs/en/api/rate-limits#response-headers
    limits: (seconds) => ({
      headers: {
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": new Date(Date.now() + seconds * 1_000).toISOString()
      }
    }),
    overloaded: 529,
    // https://platform.claude.com/docs/en/build-with-claude/streaming#error-events
    failed: (message) => frame("error", { error: errorOf(new Refused(message, 529)).error })
  }
}

// Utilities

interface Streamed {
  readonly block: Block
  /** The block as it is opened, before its deltas. */
  readonly opened?: Block
  readonly deltas: ReadonlyArray<object>
  readonly issued?: () => void
}

const partOf = ({ type }: Block, first: boolean): Frame["part"] => {
  if (type === "thinking") return "reasoning"
  if (type === "text") return "text"
  return type === "tool_use" && first ? "arguments" : undefined
}

const frame = (type: string, rest: object): Frame => ({ event: type, data: { type, ...rest } })

const finishes: Record<Finish, string> = {
  stop: "end_turn",
  calls: "tool_use",
  length: "max_tokens",
  filter: "refusal"
}

/** https://platform.claude.com/docs/en/api/errors */
const types: Record<number, string> = {
  401: "authentication_error",
  403: "permission_error",
  404: "not_found_error",
  413: "request_too_large",
  429: "rate_limit_error",
  500: "api_error",
  529: "overloaded_error"
}

const errorOf = ({ message, status }: Refused) => ({
  type: "error",
  error: { type: types[status] ?? "invalid_request_error", message },
  request_id: "req_011CTWFpbkpKZzpBJezq7xnK"
})

const usageOf = ({ cached, input, output }: Usage) => ({
  input_tokens: input - cached,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: cached,
  output_tokens: output,
  service_tier: "standard"
})

const thinkingOf = (thinking: string, said: Said, signature: string): Streamed => ({
  block: { type: "thinking", thinking, signature },
  opened: { type: "thinking", thinking: "", signature: "" },
  deltas: [
    ...said.cut(thinking).map((piece) => ({ type: "thinking_delta", thinking: piece })),
    { type: "signature_delta", signature }
  ]
})

const textOf = (text: string, said: Said): Streamed => ({
  block: { type: "text", text },
  opened: { type: "text", text: "" },
  deltas: said.cut(text).map((piece) => ({ type: "text_delta", text: piece }))
})

const callOf = ({ half, id, name, raw }: SaidCall, said: Said): Streamed => {
  const input = parsed(raw)
  return {
    // where it is not streamed, what is no object cannot be written
    block: { type: "tool_use", id, name, input: isRecord(input) ? input : {} },
    opened: { type: "tool_use", id, name, input: {} },
    deltas: [
      { type: "input_json_delta", partial_json: "" },
      ...raw === "{}" && !half
        ? []
        : said.cut(raw).map((piece) => ({ type: "input_json_delta", partial_json: piece }))
    ]
  }
}

/** A search that the server runs itself: https://platform.claude.com/docs/en/agents-and-tools/tool-use/web-search-tool */
const searchOf = (
  query: string,
  fails: boolean,
  id: (prefix: string) => string,
  issued: Issued
): ReadonlyArray<Streamed> => {
  const use = id("srvtoolu_01")
  const result = {
    type: "web_search_result",
    url: "https://example.com/",
    title: query,
    encrypted_content: id("EqgfC"),
    page_age: null
  }
  return [
    {
      block: { type: "server_tool_use", id: use, name: "web_search", input: { query } },
      opened: { type: "server_tool_use", id: use, name: "web_search", input: {} },
      deltas: [{ type: "input_json_delta", partial_json: JSON.stringify({ query }) }]
    },
    {
      block: {
        type: "web_search_tool_result",
        tool_use_id: use,
        content: fails ? { type: "web_search_tool_result_error", error_code: "max_uses_exceeded" } : [result]
      },
      deltas: [],
      issued: () => issued.searches.add(result.encrypted_content)
    }
  ]
}

const partsOf = (role: string) => (block: Block): ReadonlyArray<Part> => {
  switch (block.type) {
    case "text":
      return [{ of: role === "assistant" ? "assistant" : "user", text: block.text ?? "" }]
    case "tool_use":
      return [{ of: "call", call: { id: block.id ?? "", name: block.name ?? "", args: block.input } }]
    case "tool_result": {
      const text = contentOf(block.content ?? "").map((part) => part.text ?? "").join("")
      return [{ of: "result", id: block.tool_use_id ?? "", text }]
    }
    default:
      return []
  }
}
