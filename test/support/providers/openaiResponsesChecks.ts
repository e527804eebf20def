/** What OpenAI responses refuses, each rule with where it is told. */
import type { IncomingHttpHeaders } from "node:http"
import { refuse } from "./protocol.ts"

export interface Item {
  /** A message may leave it out. */
  readonly type?: string
  readonly role?: string
  readonly content?: string | ReadonlyArray<{ readonly text?: string }>
  readonly id?: string
  readonly call_id?: string
  readonly name?: string
  readonly arguments?: string
  readonly output?: string | ReadonlyArray<{ readonly text?: string }>
  readonly summary?: ReadonlyArray<{ readonly text: string }>
  readonly encrypted_content?: string | null
}

/** An item that the server wrote. */
export interface Output extends Item {
  readonly type: string
  readonly id: string
}

export interface Body {
  readonly model: string
  readonly input: ReadonlyArray<Item>
  readonly stream?: boolean
  readonly store?: boolean
  readonly include?: ReadonlyArray<string>
  readonly tools?: ReadonlyArray<{ readonly type: string; readonly name?: string }>
}

/** What the server said before. */
export interface Issued {
  readonly items: Map<string, {
    readonly item: Output
    /** The id of the reasoning that it came from. */
    readonly reasoning: string | undefined
    /** Whether a reference to it is enough. */
    readonly stored: boolean
  }>
  /** The ids of items, by the ids of their calls. */
  readonly calls: Map<string, string>
}

export const check = (body: Body, headers: IncomingHttpHeaders, issued: Issued): void => {
  if (headers.authorization?.startsWith("Bearer ") !== true) {
    refuse("You didn't provide an API key. You need to provide your API key in an Authorization header.", 401)
  }
  const { input } = body
  if (input.length === 0) {
    fail("Invalid 'input': empty array. Expected an array with minimum length 1, but got an empty array instead.")
  }
  input.forEach((item, index) => {
    const path = `input[${index}]`
    if (item.type === undefined || item.type === "message") return checkMessage(item, path, issued)
    if (item.type === "function_call") return checkCall(item, index, input, issued)
    if (item.type === "function_call_output") return checkOutput(item, index, input)
    if (item.type === "reasoning") return checkReasoning(item, index, input, issued)
    if (item.type === "item_reference") return checkReference(item, index, body, issued)
    if (item.type === "web_search_call") return checkKnown(item, issued)
    return fail(`Invalid value: '${item.type}'.`, `${path}.type`)
  })
  checkOnce(input)
}

// Utilities

const fail = (message: string, param = "input", code: string | null = null, status = 400) =>
  refuse(message, status, { param, code })

const isMessage = ({ role }: Item) => role === "user" || role === "system" || role === "developer"

/** An id that the server did not make: https://github.com/vercel/ai/issues/7543 */
const checkKnown = ({ id }: Item, issued: Issued) => {
  if (id !== undefined && !issued.items.has(id)) fail(`Item with id '${id}' not found.`, "input", null, 404)
}

const checkMessage = (item: Item, path: string, issued: Issued) => {
  if (item.role !== "assistant" && !isMessage(item)) fail(`Invalid value: '${item.role}'.`, `${path}.role`)
  if (item.content === undefined || item.content === null) {
    fail(`Missing required parameter: '${path}.content'.`, `${path}.content`, "missing_required_parameter")
  }
  if (item.role === "user" && item.content?.length === 0 && Array.isArray(item.content)) {
    fail(
      `Invalid '${path}.content': empty array. Expected an array with minimum length 1, but got an empty array instead.`,
      `${path}.content`,
      "empty_array"
    )
  }
  checkKnown(item, issued)
}

const checkCall = (item: Item, index: number, input: ReadonlyArray<Item>, issued: Issued) => {
  const path = `input[${index}]`
  checkKnown(item, issued)
  // https://github.com/openclaw/openclaw/pull/875
  if ((item.call_id ?? "").length > 64) {
    fail(
      `Invalid '${path}.call_id': string too long. Expected a string with maximum length 64, but got a string with length ${item.call_id?.length} instead.`,
      `${path}.call_id`,
      "string_above_max_length"
    )
  }
  if (typeof item.arguments !== "string") {
    fail(
      `Invalid type for '${path}.arguments': expected a string, but got an object instead.`,
      `${path}.arguments`,
      "invalid_type"
    )
  }
  if (!/^[a-zA-Z0-9_-]{1,128}$/.test(item.name ?? "")) {
    fail(
      `Invalid '${path}.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.`,
      `${path}.name`,
      "invalid_value"
    )
  }
  // https://github.com/earendil-works/pi/issues/9057
  if (input.slice(0, index).some((other) => other.type === "function_call" && other.call_id === item.call_id)) {
    fail(`Duplicate 'call_id': ${item.call_id}`)
  }
  const answer = input.findIndex((other) => other.type === "function_call_output" && other.call_id === item.call_id)
  // https://github.com/bytedance/trae-agent/issues/245
  if (answer === -1) fail(`No tool output found for function call ${item.call_id}.`)
  // stricter than the real one, which pairs by id alone: what is said in between is out of order everywhere else
  if (input.slice(index, answer).some(isMessage)) fail(`No tool output found for function call ${item.call_id}.`)
  // The real one binds them by the item's id alone and takes a call without an id and without its reasoning for
  // one of somebody else. Here the id of the call is enough: reasoning that is lost in silence is lost all the same.
  // https://github.com/TanStack/ai/issues/1212
  const own = issued.calls.get(item.call_id ?? "")
  const reasoning = own === undefined ? undefined : issued.items.get(own)?.reasoning
  if (reasoning !== undefined && !input.slice(0, index).some(({ id }) => id === reasoning)) {
    fail(`Item '${own}' of type 'function_call' was provided without its required 'reasoning' item: '${reasoning}'.`)
  }
}

const checkOutput = (item: Item, index: number, input: ReadonlyArray<Item>) => {
  const before = input.slice(0, index)
  // https://github.com/vercel/ai/issues/8216
  if (!before.some((other) => other.type === "function_call" && other.call_id === item.call_id)) {
    fail(`No tool call found for function call output with call_id ${item.call_id}.`)
  }
  if (before.some((other) => other.type === "function_call_output" && other.call_id === item.call_id)) {
    fail(`Duplicate 'call_id': ${item.call_id}`)
  }
  if (item.output === undefined || item.output === null) {
    fail(
      `Missing required parameter: 'input[${index}].output'.`,
      `input[${index}].output`,
      "missing_required_parameter"
    )
  }
}

/** Reasoning is followed by what came of it: https://github.com/vercel/ai/pull/10827 */
const checkFollowed = (id: string, index: number, input: ReadonlyArray<Item>) => {
  const next = input[index + 1]
  if (next === undefined || isMessage(next) || next.type === "function_call_output") {
    fail(`Item '${id}' of type 'reasoning' was provided without its required following item.`)
  }
}

const checkReasoning = (item: Item, index: number, input: ReadonlyArray<Item>, issued: Issued) => {
  const own = [...issued.items.values()].find(({ item: { encrypted_content: content, id, type } }) =>
    type === "reasoning" && (item.id === undefined ? content === item.encrypted_content : id === item.id)
  )?.item
  if (item.encrypted_content === undefined || item.encrypted_content === null) {
    return fail(
      `Item with id '${item.id}' not found. Items are not persisted when \`store\` is set to false. Try again with \`store\` set to true, or remove this item from your input.`,
      "input",
      null,
      404
    )
  }
  if (own === undefined || own.encrypted_content !== item.encrypted_content) {
    const content = item.encrypted_content
    // https://github.com/openai/codex/issues/8119
    return fail(
      `The encrypted content ${content.slice(0, 4)}...${content.slice(-4)} could not be verified.`,
      "input",
      "invalid_encrypted_content"
    )
  }
  // stricter than the real one, which does not read the summary: what goes back is what came
  if (item.summary?.map(({ text }) => text).join("") !== own.summary?.map(({ text }) => text).join("")) {
    fail(`The summary of item '${own.id}' is not the one that it was given.`)
  }
  return checkFollowed(own.id, index, input)
}

/** https://github.com/openai/openai-agents-python/issues/919 */
const checkReference = ({ id = "" }: Item, index: number, { input, store }: Body, issued: Issued) => {
  const own = issued.items.get(id)
  if (store === false) {
    fail(
      `Item with id '${id}' not found. Items are not persisted when \`store\` is set to false. Try again with \`store\` set to true, or remove this item from your input.`,
      "input",
      null,
      404
    )
  }
  if (own?.stored !== true) return fail(`Item with id '${id}' not found.`, "input", null, 404)
  if (own.item.type === "reasoning") return checkFollowed(id, index, input)
  if (own.reasoning !== undefined && !input.slice(0, index).some((other) => other.id === own.reasoning)) {
    fail(
      `Item '${id}' of type '${own.item.type}' was provided without its required 'reasoning' item: '${own.reasoning}'.`
    )
  }
}

/** https://github.com/vercel/ai/issues/7883 */
const checkOnce = (input: ReadonlyArray<Item>) => {
  const seen = new Set<string>()
  for (const { id } of input) {
    if (id === undefined) continue
    if (seen.has(id)) fail(`Duplicate item found with id ${id}. Remove duplicate items from your input and try again.`)
    seen.add(id)
  }
}
