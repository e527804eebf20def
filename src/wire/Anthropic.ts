/**
 * The shape of Anthropic messages.
 *
 * Blocks that are not client tool calls are skipped: text, thinking, and the results of the provider's own tools.
 */
import * as Result from "effect/Result"
import type * as ToolCall from "../core/vocabulary/ToolCall.ts"
import * as ToolContent from "../core/vocabulary/ToolContent.ts"
import * as ToolOutcome from "../core/vocabulary/ToolOutcome.ts"
import * as Answers from "./Answers.ts"
import * as Shape from "./Shape.ts"
import type { Judged } from "./StrayCalls.ts"

/** A part of an answer. */
export type ContentBlock =
  | { readonly type: "text"; readonly text: string }
  | {
    readonly type: "image"
    readonly source: {
      readonly type: "base64"
      readonly media_type: typeof ToolContent.imageTypes[number]
      readonly data: string
    }
  }
  | {
    readonly type: "document"
    readonly source: { readonly type: "base64"; readonly media_type: "application/pdf"; readonly data: string }
  }

/** One answer of a tool. */
export interface ToolResultBlock {
  readonly type: "tool_result"
  readonly tool_use_id: string
  /** Blocks, where there are images or documents to see. */
  readonly content: string | Array<ContentBlock>
  /** Only there when it is an error. */
  readonly is_error?: true
}

/** The one message that carries every answer. */
export interface UserMessage {
  readonly role: "user"
  readonly content: Array<ToolResultBlock>
}

/** Name of the shape, for people. */
export const title = "Anthropic"

/** What the reader takes, for people. */
export const expected = "an assistant message with content blocks, or the array of its content blocks"

const knownBlock = /^(?:text|(?:redacted_)?thinking|(?:\w+_)?tool_(?:use|result))$/

/** Tells whether the input can only be meant to be of this shape. */
export const looksLike = (input: unknown): boolean =>
  Shape.isArray(input)
    ? input.some((entry) => {
      const type = Shape.own(entry, "type")
      return typeof type === "string" && type.length < 100 && knownBlock.test(type)
    })
    : Shape.own(input, "role") !== undefined &&
      (Shape.isArray(Shape.own(input, "content")) || Shape.own(input, "type") === "message")

/** Reads the calls of a message. */
export const read = (input: unknown, judged: Judged): Shape.Read<ReadonlyArray<ToolCall.ToolCall>> =>
  Result.flatMap(
    Shape.content(input, expected, "content blocks of type tool_use"),
    ({ parts, path }) => Shape.found(parts, path, readBlock(judged))
  )

/** Writes one `user` message with one `tool_result` block per outcome. */
export const write = (outcomes: ReadonlyArray<ToolOutcome.ToolOutcome>): UserMessage => ({
  role: "user",
  content: outcomes.map((outcome): ToolResultBlock => {
    const content = Answers.parts(outcome, textBlock, fileBlock) ?? Answers.answer(outcome)
    const block = { type: "tool_result" as const, tool_use_id: outcome.callId, content }
    return ToolOutcome.isError(outcome) ? { ...block, is_error: true } : block
  })
})

const textBlock = (text: string): ContentBlock => ({ type: "text", text })

const fileBlock = (file: ToolContent.FilePart): ContentBlock | undefined => {
  const { data } = file
  if (ToolContent.isImage(file)) {
    return { type: "image", source: { type: "base64", media_type: file.mediaType, data } }
  }
  return ToolContent.isPdf(file)
    ? { type: "document", source: { type: "base64", media_type: file.mediaType, data } }
    : undefined
}

const readBlock = (judged: Judged) => (entry: unknown, path: string): Shape.Read<ToolCall.ToolCall | undefined> =>
  Result.gen(function*() {
    const block = yield* Shape.object(entry, path, "a content block")
    const type = yield* Shape.string(block, "type", path, "the type of the block")
    if (type !== "tool_use") return undefined
    judged.add(block)
    const id = yield* Shape.string(block, "id", path)
    const name = yield* Shape.string(block, "name", path)
    const params = Shape.own(block, "input")
    return params === undefined
      ? yield* Shape.wrong(`${path}.input`, "is missing", "an object, {} for none")
      : Shape.call(id, name, params)
  })
