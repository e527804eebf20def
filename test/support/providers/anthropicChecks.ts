/** What Anthropic messages refuses, each rule with where it is told. */
import type { IncomingHttpHeaders } from "node:http"
import { refuse } from "./protocol.ts"
import { isRecord } from "./script.ts"

export interface Block {
  readonly type: string
  readonly text?: string
  readonly thinking?: string
  readonly signature?: string
  readonly data?: string
  readonly id?: string
  readonly name?: string
  readonly input?: unknown
  readonly tool_use_id?: string
  readonly is_error?: boolean
  readonly content?: string | object
}

export interface Message {
  readonly role: string
  readonly content: string | ReadonlyArray<Block>
}

export interface Body {
  readonly model: string
  readonly system?: string | ReadonlyArray<{ readonly text: string }>
  readonly messages: ReadonlyArray<Message>
  readonly stream?: boolean
  readonly tools?: ReadonlyArray<{ readonly name: string }>
  readonly tool_choice?: { readonly type: string }
  readonly thinking?: { readonly type: string }
}

/** What the server said before, as far as it must come back as it was. */
export interface Issued {
  /** Signatures, and the data of redacted thinking, with the text that belongs to them. */
  readonly thoughts: Map<string, string | undefined>
  /** The signatures of the turn that a call was made in, in order, by the call's id. */
  readonly withCall: Map<string, ReadonlyArray<string>>
  /** The encrypted contents of search results. */
  readonly searches: Set<string>
}

export const contentOf = (content: string | object): ReadonlyArray<Block> =>
  typeof content === "string"
    ? [{ type: "text", text: content }]
    : Array.isArray(content)
    ? content as ReadonlyArray<Block>
    : []

export const check = (body: Body, headers: IncomingHttpHeaders, issued: Issued): void => {
  const { messages } = body
  // https://platform.claude.com/docs/en/api/overview#authentication
  if (headers["x-api-key"] === undefined) refuse("x-api-key header is required", 401)
  if (headers["anthropic-version"] === undefined) refuse("anthropic-version: header is required")
  if (messages.length === 0) refuse("messages: at least one message is required")
  if (isThinking(body) && ["any", "tool"].includes(body.tool_choice?.type ?? "")) {
    // https://platform.claude.com/docs/en/build-with-claude/extended-thinking#extended-thinking-with-tool-use
    refuse("Thinking may not be enabled when tool_choice forces tool use.")
  }
  messages.forEach(({ content, role }, index) => {
    if (role !== "user" && role !== "assistant") {
      refuse(`messages.${index}.role: Input should be 'user' or 'assistant'`)
    }
    // https://github.com/glowingjade/obsidian-smart-composer/pull/156
    if (content.length === 0) {
      refuse(
        `messages.${index}: all messages must have non-empty content except for the optional final assistant message`
      )
    }
    contentOf(content).forEach((block, n) => checkBlock(block, `messages.${index}.content.${n}`, issued))
  })
  if (messages[0]?.role !== "user") refuse("messages: first message must use the \"user\" role")
  checkIds(messages)
  messages.forEach((message, index) =>
    message.role === "assistant"
      ? checkAnswered(message, index, messages[index + 1])
      : checkAnswers(message, index, messages[index - 1])
  )
  checkSearches(messages)
  if (isThinking(body)) checkThinking(messages, issued)
  // https://github.com/agenticloops-ai/agentic-ai-engineering/issues/43
  if (messages.at(-1)?.role === "assistant") {
    refuse("This model does not support assistant message prefill. The conversation must end with a user message.")
  }
}

// Utilities

const isThinking = ({ thinking }: Body) => thinking !== undefined && thinking.type !== "disabled"

const isThought = ({ type }: Block) => type === "thinking" || type === "redacted_thinking"

const checkBlock = (block: Block, path: string, issued: Issued) => {
  switch (block.type) {
    case "text":
      // https://github.com/anthropics/claude-code/issues/59812
      if ((block.text ?? "") === "") refuse("messages: text content blocks must be non-empty")
      if ((block.text ?? "").trim() === "") refuse("messages: text content blocks must contain non-whitespace text")
      return
    case "thinking":
      if (block.signature === undefined) refuse(`${path}.thinking.signature: Field required`)
      // the text, the signature and who issued it are bound: https://github.com/anthropics/anthropic-sdk-python/issues/1598
      if (!issued.thoughts.has(block.signature!) || issued.thoughts.get(block.signature!) !== block.thinking) {
        refuse(`${path}: Invalid \`signature\` in \`thinking\` block`)
      }
      return
    case "redacted_thinking":
      // https://github.com/anthropics/claude-code/issues/56708
      if (!issued.thoughts.has(block.data ?? "")) refuse(`${path}: Invalid \`data\` in \`redacted_thinking\` block`)
      return
    case "tool_use":
      // https://github.com/earendil-works/pi/issues/9048
      if (!/^[a-zA-Z0-9_-]+$/.test(block.id ?? "")) {
        refuse(`${path}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'`)
      }
      if (!/^[a-zA-Z0-9_-]{1,128}$/.test(block.name ?? "")) {
        refuse(`${path}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'`)
      }
      // https://github.com/anthropics/claude-code/issues/6696
      if (!isRecord(block.input)) refuse(`${path}.tool_use.input: Input should be a valid dictionary`)
      return
    case "tool_result":
      // https://github.com/jlevy/markform/issues/153
      if (
        block.is_error === true &&
        (block.content === undefined || block.content === "" || contentOf(block.content).length === 0)
      ) {
        refuse(`${path}.tool_result: content cannot be empty if \`is_error\` is true`)
      }
      if (Array.isArray(block.content)) {
        // https://github.com/vellum-ai/vellum-assistant/pull/18387
        if (block.is_error === true && contentOf(block.content).some(({ type }) => type !== "text")) {
          refuse(`${path}.tool_result: all content must be type "text" if \`is_error\` is true`)
        }
        contentOf(block.content).forEach((part, n) => {
          if (part.type === "text") checkBlock(part, `${path}.tool_result.content.${n}`, issued)
        })
      }
      return
    case "web_search_tool_result":
      // it must go back as it came; the words are this server's own
      for (const result of Array.isArray(block.content) ? block.content : []) {
        if (!issued.searches.has(String(result.encrypted_content))) {
          refuse(`${path}: Invalid \`encrypted_content\` in \`search_result\` block`)
        }
      }
  }
}

/** https://github.com/trycua/cua/issues/524 */
const checkIds = (messages: ReadonlyArray<Message>) => {
  const seen = new Set<string>()
  messages.forEach(({ content }, index) =>
    contentOf(content).forEach(({ id, type }, n) => {
      if (type !== "tool_use" || id === undefined) return
      if (seen.has(id)) refuse(`messages.${index}.content.${n}: \`tool_use\` ids must be unique`)
      seen.add(id)
    })
  )
}

/**
 * Every call is answered in the very next message, before anything else in it:
 * https://platform.claude.com/docs/en/agents-and-tools/tool-use/handle-tool-calls and
 * https://github.com/anthropics/claude-code/issues/8210
 */
const checkAnswered = ({ content }: Message, index: number, next: Message | undefined) => {
  const calls = contentOf(content).filter(({ type }) => type === "tool_use")
  if (calls.length === 0) return
  const blocks = next?.role === "user" ? contentOf(next.content) : []
  const end = blocks.findIndex(({ type }) => type !== "tool_result")
  const answers = new Set(blocks.slice(0, end === -1 ? undefined : end).map((block) => block.tool_use_id))
  const open = calls.filter(({ id }) => !answers.has(id)).map(({ id }) => id)
  if (open.length > 0) {
    refuse(
      `messages.${index}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${
        open.join(", ")
      }. Each \`tool_use\` block must have a corresponding \`tool_result\` block in the next message.`
    )
  }
}

const checkAnswers = ({ content }: Message, index: number, before: Message | undefined) => {
  const calls = before?.role === "assistant" ? contentOf(before.content).filter(({ type }) => type === "tool_use") : []
  const results = contentOf(content).map((block, n) => ({ ...block, n })).filter(({ type }) => type === "tool_result")
  results.forEach(({ n, tool_use_id: id }, position) => {
    // https://github.com/anthropics/claude-code/issues/18947
    if (!calls.some((call) => call.id === id)) {
      refuse(
        `messages.${index}.content.${n}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${id}. Each \`tool_result\` block must have a corresponding \`tool_use\` block in the previous message.`
      )
    }
    // https://github.com/vectorize-io/hindsight/pull/4250
    if (results.findIndex((other) => other.tool_use_id === id) !== position) {
      refuse(
        `messages.${index}.content.${n}: each tool_use must have a single result. Found multiple \`tool_result\` blocks with id: ${id}`
      )
    }
  })
}

/** A result of the server's own tools comes after its use, in the same message: https://github.com/anthropics/claude-code/issues/64383; that a use has its result is in this server's own words. */
const checkSearches = (messages: ReadonlyArray<Message>) =>
  messages.forEach(({ content }, index) => {
    const blocks = contentOf(content)
    blocks.forEach((block, n) => {
      const uses = (other: Block) => other.type === "server_tool_use"
      if (block.type === "web_search_tool_result") {
        if (!blocks.slice(0, n).some((other) => uses(other) && other.id === block.tool_use_id)) {
          refuse(
            `messages.${index}.content.${n}: unexpected \`tool_use_id\` found in \`web_search_tool_result\` blocks: ${block.tool_use_id}. Each \`web_search_tool_result\` block must have a corresponding \`server_tool_use\` block before it.`
          )
        }
      } else if (uses(block) && !blocks.slice(n + 1).some((other) => other.tool_use_id === block.id)) {
        refuse(
          `messages.${index}: \`web_search\` tool use with id \`${block.id}\` was found without a corresponding \`web_search_tool_result\` block`
        )
      }
    })
  })

/**
 * While a loop of calls is open, the thinking of each of its turns stands before its calls, whole and in order:
 * https://platform.claude.com/docs/en/build-with-claude/extended-thinking#preserving-thinking-blocks and
 * https://github.com/RooCodeInc/Roo-Code/pull/10351, https://github.com/anthropics/claude-code/issues/63155. Calls of somebody else have none to keep.
 */
const checkThinking = (messages: ReadonlyArray<Message>, issued: Issued) => {
  const start = messages.findLastIndex(({ content, role }) =>
    role === "user" && contentOf(content).some(({ type }) => type !== "tool_result")
  )
  messages.forEach(({ content, role }, index) => {
    if (role !== "assistant" || index < start) return
    const blocks = contentOf(content)
    const first = blocks.findIndex(({ type }) => type === "tool_use")
    const call = blocks.slice(first).find(({ id, type }) => type === "tool_use" && issued.withCall.has(id ?? ""))
    if (first === -1 || call === undefined) return
    const thoughts = blocks.slice(0, first).filter(isThought).map(({ data, signature }) => signature ?? data ?? "")
    const expected = issued.withCall.get(call.id ?? "") ?? []
    if (expected.length > 0 && thoughts.length === 0) {
      refuse(
        `messages.${index}.content.0.type: Expected \`thinking\` or \`redacted_thinking\`, but found \`${
          blocks[0]?.type
        }\`. When \`thinking\` is enabled, a final \`assistant\` message must start with a thinking block (preceeding the lastmost set of \`tool_use\` and \`tool_result\` blocks). We recommend you include thinking blocks from previous turns. To avoid this requirement, disable \`thinking\`. Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking`
      )
    }
    if (thoughts.length !== expected.length || thoughts.some((key, n) => key !== expected[n])) {
      refuse(
        `messages.${index}.content.0: \`thinking\` or \`redacted_thinking\` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response.`
      )
    }
  })
}
