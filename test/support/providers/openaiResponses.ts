/**
 * OpenAI responses. The stream is that of https://platform.openai.com/docs/api-reference/responses-streaming;
 * what is refused is in `openaiResponsesChecks.ts`.
 */
import { errorOf, limitsOf } from "./openaiChat.ts"
import { type Body, check, type Issued, type Item, type Output } from "./openaiResponsesChecks.ts"
import { type Frame, ids, type Protocol } from "./protocol.ts"
import { messagesOf, parsed, type Part, type Said, type SaidCall, type Usage } from "./script.ts"

export const openaiResponses = (): Protocol<Body> => {
  const id = ids()
  const issued: Issued = { items: new Map(), calls: new Map() }

  /** The items of a turn, each with what comes between its opening and its end. */
  const outputsOf = (said: Said): ReadonlyArray<Streamed> => [
    ...said.reasoning === undefined ? [] : [reasoningOf(said.reasoning, said, id)],
    ...said.search === undefined ? [] : [searchOf(said.search, id)],
    ...said.text === undefined ? [] : [messageOf(said.text, said, id("msg_"))],
    ...said.calls.map((call) => callOf(call, said, id("fc_"))),
    ...said.after === undefined ? [] : [messageOf(said.after, said, id("msg_"))]
  ]

  return {
    route: (path, body) => path === "/v1/responses" ? body.stream === true : undefined,
    check: (body, headers) => check(body, headers, issued),
    asked: (body) => ({
      model: body.model,
      system: body.input.filter(isSystem).map(textOf).join("\n"),
      tools: body.tools?.map(({ name, type }) => name ?? type) ?? [],
      messages: messagesOf(body.input.flatMap((item) => partsOf(item, issued)))
    }),
    callId: () => id("call_"),
    reply: (said, body) => {
      const outputs = outputsOf(said)
      const reasoning = outputs.find(({ item }) => item.type === "reasoning")?.item.id
      const stored = body.store !== false
      const encrypted = body.include?.includes("reasoning.encrypted_content") === true
      const shown = (item: Output) => encrypted ? item : { ...item, encrypted_content: undefined }
      const response = {
        id: id("resp_"),
        object: "response",
        created_at: 1_700_000_000,
        model: body.model,
        store: stored,
        error: null
      }
      const open = { ...response, status: "in_progress", output: [], usage: null, incomplete_details: null }
      const short = said.finish === "length" || said.finish === "filter"
      const end = {
        ...response,
        status: short ? "incomplete" : "completed",
        output: outputs.map(({ item }) => shown(item)),
        usage: usageOf(said.usage),
        incomplete_details: short
          ? { reason: said.finish === "length" ? "max_output_tokens" : "content_filter" }
          : null
      }
      const issue = (item: Output) => () => {
        const bound = item.type === "reasoning" ? undefined : reasoning
        issued.items.set(item.id, { item, reasoning: bound, stored: false })
        if (item.call_id !== undefined) issued.calls.set(item.call_id, item.id)
      }
      // an answer that was broken off is not kept: https://github.com/anomalyco/opencode/issues/4426
      const store = () => {
        for (const { item } of outputs) issued.items.set(item.id, { ...issued.items.get(item.id)!, stored })
      }
      const events: ReadonlyArray<Event> = [
        { type: "response.created", response: open },
        { type: "response.in_progress", response: open },
        ...outputs.flatMap(({ deltas, item, opened }, index): ReadonlyArray<Event> => [
          { type: "response.output_item.added", output_index: index, item: opened },
          ...deltas.map((delta) => ({ item_id: item.id, output_index: index, ...delta })),
          { type: "response.output_item.done", output_index: index, item: shown(item), issued: issue(item) }
        ]),
        { type: short ? "response.incomplete" : "response.completed", response: end, issued: store }
      ]
      const firstCall = outputs.findIndex(({ item }) => item.type === "function_call")
      return {
        frames: events.map((event, sequence) => ({ ...frame(event, sequence), part: partOf(event, firstCall) })),
        whole: end
      }
    },
    error: errorOf,
    limits: limitsOf,
    overloaded: 503,
    // https://platform.openai.com/docs/api-reference/responses-streaming/error
    failed: (message) => frame({ type: "error", code: "server_error", message, param: null }, 999)
  }
}

// Utilities

interface Event {
  readonly type: string
  readonly issued?: () => void
  readonly [key: string]: unknown
}

interface Streamed {
  readonly item: Output
  readonly opened: object
  readonly deltas: ReadonlyArray<Event>
}

const frame = ({ issued, type, ...rest }: Event, sequence: number): Frame => ({
  event: type,
  data: { type, ...rest, sequence_number: sequence },
  ...issued === undefined ? {} : { issued }
})

const partOf = ({ output_index: index, type }: Event, firstCall: number): Frame["part"] => {
  if (type === "response.reasoning_summary_text.delta") return "reasoning"
  if (type === "response.output_text.delta") return "text"
  if (type === "response.function_call_arguments.delta") return index === firstCall ? "arguments" : undefined
  return type === "response.completed" || type === "response.incomplete" ? "end" : undefined
}

const usageOf = ({ cached, input, output, reasoning }: Usage) => ({
  input_tokens: input,
  input_tokens_details: { cached_tokens: cached },
  output_tokens: output,
  output_tokens_details: { reasoning_tokens: reasoning },
  total_tokens: input + output
})

const reasoningOf = (text: string, said: Said, id: (prefix: string) => string): Streamed => {
  const part = { type: "summary_text", text }
  const item = { type: "reasoning", id: id("rs_"), summary: [part], encrypted_content: id("gAAAAAB") }
  const at = { summary_index: 0 }
  return {
    item,
    opened: { ...item, summary: [], encrypted_content: undefined },
    deltas: [
      { type: "response.reasoning_summary_part.added", ...at, part: { ...part, text: "" } },
      ...said.cut(text).map((delta) => ({ type: "response.reasoning_summary_text.delta", ...at, delta })),
      { type: "response.reasoning_summary_text.done", ...at, text },
      { type: "response.reasoning_summary_part.done", ...at, part }
    ]
  }
}

const searchOf = (query: string, id: (prefix: string) => string): Streamed => {
  const item = {
    type: "web_search_call",
    id: id("ws_"),
    status: "completed",
    action: { type: "search", query, sources: [{ type: "url", url: "https://example.com/" }] }
  }
  return {
    item,
    opened: { type: item.type, id: item.id, status: "in_progress" },
    deltas: ["in_progress", "searching", "completed"].map((step) => ({ type: `response.web_search_call.${step}` }))
  }
}

const messageOf = (text: string, said: Said, id: string): Streamed => {
  const part = { type: "output_text", text, annotations: [], logprobs: [] }
  const item = { type: "message", id, status: "completed", role: "assistant", content: [part] }
  const at = { content_index: 0 }
  return {
    item,
    opened: { ...item, status: "in_progress", content: [] },
    deltas: [
      { type: "response.content_part.added", ...at, part: { ...part, text: "" } },
      ...said.cut(text).map((delta) => ({ type: "response.output_text.delta", ...at, delta, logprobs: [] })),
      { type: "response.output_text.done", ...at, text, logprobs: [] },
      { type: "response.content_part.done", ...at, part }
    ]
  }
}

const callOf = ({ half, id: callId, name, raw }: SaidCall, said: Said, id: string): Streamed => {
  const item = {
    type: "function_call",
    id,
    call_id: callId,
    name,
    arguments: raw,
    status: half ? "incomplete" : "completed"
  }
  return {
    item,
    opened: { ...item, arguments: "", status: "in_progress" },
    deltas: [
      ...said.cut(raw).map((delta) => ({ type: "response.function_call_arguments.delta", delta })),
      ...half ? [] : [{ type: "response.function_call_arguments.done", arguments: raw }]
    ]
  }
}

const isSystem = ({ role }: Item) => role === "system" || role === "developer"

const textOf = ({ content }: Item): string =>
  typeof content === "string" ? content : content?.map(({ text }) => text ?? "").join("") ?? ""

const partsOf = (given: Item, issued: Issued): ReadonlyArray<Part> => {
  const item: Item = given.type === "item_reference" ? issued.items.get(given.id ?? "")?.item ?? given : given
  if (item.role === "assistant") return [{ of: "assistant", text: textOf(item) }]
  if (item.role === "user") return [{ of: "user", text: textOf(item) }]
  if (item.type === "function_call") {
    return [{
      of: "call",
      call: { id: item.call_id ?? "", name: item.name ?? "", args: parsed(item.arguments ?? "") }
    }]
  }
  if (item.type === "function_call_output") {
    const { output } = item
    const text = typeof output === "string" ? output : output?.map((part) => part.text ?? "").join("") ?? ""
    return [{ of: "result", id: item.call_id ?? "", text }]
  }
  return []
}
