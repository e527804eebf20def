/**
 * The shape of MCP: `tools/call` requests and their results, as JSON-RPC.
 *
 * Only requests for tools are read; the rest of the protocol is a server's.
 */
import * as Result from "effect/Result"
import type * as ToolCall from "../core/vocabulary/ToolCall.ts"
import type * as ToolContent from "../core/vocabulary/ToolContent.ts"
import type * as ToolOutcome from "../core/vocabulary/ToolOutcome.ts"
import * as Answers from "./Answers.ts"
import * as PlainJson from "./PlainJson.ts"
import * as Shape from "./Shape.ts"
import type { Judged } from "./StrayCalls.ts"

/** A block of content: text, image, audio, resource, or whatever else a tool of an MCP server gave. */
export type ContentBlock =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "image" | "audio"; readonly data: string; readonly mimeType: string }
  | {
    readonly type: "resource"
    readonly resource:
      | { readonly uri: string; readonly blob: string; readonly mimeType?: string }
      | { readonly uri: string; readonly text: string; readonly mimeType?: string }
  }
  | { readonly type: "resource_link"; readonly uri: string; readonly name: string }

/** What a call gave. */
export type ToolResult = {
  readonly content: Array<ContentBlock>
  /** Only there when it is an error. */
  readonly isError?: true
  /** The output, where it is an object and the model is shown all of it. */
  readonly structuredContent?: Record<string, unknown>
}

/** One answer of a tool. A refusal is an answer too, so that the model reads it, and no error of the protocol. */
export interface ToolResponse {
  readonly jsonrpc: "2.0"
  /** The id of the request, of the type that it came in with. */
  readonly id: string | number
  readonly result: ToolResult
}

/** Name of the shape, for people. */
export const title = "MCP"

/** What the reader takes, for people. */
export const expected = "a JSON-RPC request tools/call, or an array of them"

/** Tells whether the input can only be meant to be of this shape. */
export const looksLike = (input: unknown): boolean =>
  Shape.isArray(input)
    ? input.some((entry) => Shape.own(entry, "jsonrpc") !== undefined)
    : Shape.own(input, "jsonrpc") !== undefined

/**
 * Reads the calls of a request, or of a batch of them.
 *
 * String ids are kept. A number becomes its digits; a string that looks like a number, such as `"1"`, keeps its quotes.
 */
export const read = (input: unknown, judged: Judged): Shape.Read<ReadonlyArray<ToolCall.ToolCall>> =>
  Shape.isArray(input)
    ? Shape.entries(input, "", readRequest(judged))
    : Result.map(readRequest(judged)(input, ""), (call) => [call])

/** Writes one response per outcome, as an array also for a single request. */
export const write = (outcomes: ReadonlyArray<ToolOutcome.ToolOutcome>): Array<ToolResponse> =>
  outcomes.map((outcome) => ({ jsonrpc: "2.0", id: requestId(outcome.callId), result: resultOf(outcome) }))

/**
 * Writes the result of one call.
 *
 * Results of MCP servers are passed through. For other tools the value, if it is an object, is `structuredContent`, and
 * the text for the model is the content. An output that is too large has only the content.
 */
export const resultOf = (outcome: ToolOutcome.ToolOutcome): ToolResult => {
  const content = Answers.parts(outcome, textBlock, fileBlock) ?? [textBlock(Answers.answer(outcome))]
  if (outcome._tag !== "Succeeded") {
    return outcome._tag === "Failed" && Shape.isObject(outcome.error) && isResult(outcome.error) &&
        isTold(outcome.error.content, outcome.modelText)
      ? { ...outcome.error, isError: true }
      : { content, isError: true }
  }
  const value = PlainJson.inline(outcome)
  if (!Shape.isObject(value)) return { content }
  return isResult(value) ? { ...value } : { content, structuredContent: { ...value } }
}

const textBlock = (text: string): ContentBlock => ({ type: "text", text })

const fileBlock = ({ data, fileName, mediaType }: ToolContent.FilePart): ContentBlock =>
  mediaType.startsWith("image/")
    ? { type: "image", data, mimeType: mediaType }
    : mediaType.startsWith("audio/")
    ? { type: "audio", data, mimeType: mediaType }
    : { type: "resource", resource: { uri: fileName ?? "file:///file", blob: data, mimeType: mediaType } }

/** Nothing but what MCP has for a result: of a value that has more, that would be lost. */
const isResult = (value: Shape.JsonObject): value is Shape.JsonObject & ToolResult => {
  const content = Shape.own(value, "content")
  const structured = Shape.own(value, "structuredContent")
  const meta = Shape.own(value, "_meta")
  return Object.keys(value).every((key) => key === "content" || key === "structuredContent" || key === "_meta") &&
    Shape.isArray(content) && content.every(isBlock) && (structured === undefined || Shape.isObject(structured)) &&
    (meta === undefined || Shape.isObject(meta))
}

/** Whether the model was shown all texts; of a text that was cut, the rest is gone. */
const isTold = (content: ReadonlyArray<ContentBlock>, text: string): boolean =>
  content.length <= text.length && content.every((block) => block.type !== "text" || text.includes(String(block.text)))

const isBlock = (block: unknown): block is ContentBlock => {
  const has = (parent: unknown, ...keys: ReadonlyArray<string>) =>
    keys.every((key) => typeof Shape.own(parent, key) === "string")
  const resource = Shape.own(block, "resource")
  switch (Shape.own(block, "type")) {
    case "text":
      return has(block, "text")
    case "image":
    case "audio":
      return has(block, "data", "mimeType")
    case "resource":
      return has(resource, "uri") && (has(resource, "blob") || has(resource, "text"))
    case "resource_link":
      return has(block, "uri", "name")
    default:
      return false
  }
}

const readRequest = (judged: Judged) => (entry: unknown, path: string): Shape.Read<ToolCall.ToolCall> =>
  Result.gen(function*() {
    const request = yield* Shape.object(entry, path, "a JSON-RPC request tools/call")
    const version = Shape.own(request, "jsonrpc")
    if (version !== "2.0") return yield* Shape.wrong(Shape.at(path, "jsonrpc"), Shape.is(version), `"2.0"`)
    const method = Shape.own(request, "method")
    if (method !== "tools/call") {
      return yield* Shape.wrong(Shape.at(path, "method"), Shape.is(method), `"tools/call"`)
    }
    const id = Shape.own(request, "id")
    if (typeof id !== "string" && !(typeof id === "number" && Number.isFinite(id))) {
      const problem = id === undefined ? "is missing, and a notification has no answer" : Shape.is(id)
      return yield* Shape.wrong(Shape.at(path, "id"), problem, "a string or a number")
    }
    const at = Shape.at(path, "params")
    const params = yield* Shape.object(Shape.own(request, "params"), at, "an object with name and arguments")
    judged.add(request).add(params)
    const name = yield* Shape.string(params, "name", at)
    return Shape.call(callId(id), name, Shape.own(params, "arguments"))
  })

/** Ids are strings here: an id that would not survive the round trip becomes JSON. */
const callId = (id: string | number): string => requestId(String(id)) === id ? String(id) : JSON.stringify(id)

const requestId = (id: string): string | number => {
  try {
    const parsed: unknown = JSON.parse(id)
    return typeof parsed === "string" || typeof parsed === "number" ? parsed : id
  } catch {
    return id
  }
}
