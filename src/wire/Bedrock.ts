/** The shape of the Converse API of Amazon Bedrock: `toolUse` blocks, and their results. */
import * as Base64 from "effect/encoding/Base64"
import * as Result from "effect/Result"
import type * as ToolCall from "../core/vocabulary/ToolCall.ts"
import * as ToolContent from "../core/vocabulary/ToolContent.ts"
import * as ToolOutcome from "../core/vocabulary/ToolOutcome.ts"
import * as Answers from "./Answers.ts"
import * as Shape from "./Shape.ts"
import type { Judged } from "./StrayCalls.ts"

/** A part of an answer. The bytes are what the SDK takes; as JSON they are the base64 that the API takes. */
export type ToolResultContentBlock =
  | { readonly text: string }
  | {
    readonly image: {
      readonly format: "png" | "jpeg" | "gif" | "webp"
      readonly source: { readonly bytes: Uint8Array }
    }
  }
  | {
    readonly document: {
      readonly format: "pdf"
      readonly name: string
      readonly source: { readonly bytes: Uint8Array }
    }
  }

/** One answer of a tool. */
export interface ToolResultBlock {
  readonly toolResult: {
    readonly toolUseId: string
    readonly status: "success" | "error"
    readonly content: Array<ToolResultContentBlock>
  }
}

/** The one message that carries every answer. */
export interface UserMessage {
  readonly role: "user"
  readonly content: Array<ToolResultBlock>
}

/** Name of the shape, for people. */
export const title = "Bedrock Converse"

/** What the reader takes, for people. */
export const expected = "a response, an assistant message, or the array of its content blocks"

/** Tells whether the input can only be meant to be of this shape. */
export const looksLike = (input: unknown): boolean => {
  const message = messageOf(input).message
  const blocks = Shape.isArray(message) ? message : Shape.own(message, "content")
  return message !== input ||
    (Shape.isArray(blocks) && blocks.some((it) => Shape.own(it, "toolUse") !== undefined))
}

/** Reads the calls of a message. */
export const read = (input: unknown, judged: Judged): Shape.Read<ReadonlyArray<ToolCall.ToolCall>> => {
  const { at, message } = messageOf(input)
  return Result.flatMap(
    Shape.content(message, expected, wanted),
    ({ parts, path }) => Shape.found(parts, at === "" ? path : `${at}.${path}`, readBlock(judged))
  )
}

/** Writes one `user` message with one `toolResult` block per outcome. */
export const write = (outcomes: ReadonlyArray<ToolOutcome.ToolOutcome>): UserMessage => ({
  role: "user",
  content: outcomes.map((outcome) => {
    let documents = 0
    const blocks = Answers.parts(outcome, textBlock, (file) => fileBlock(file, () => ++documents))
    return {
      toolResult: {
        toolUseId: outcome.callId,
        status: ToolOutcome.isError(outcome) ? "error" : "success",
        content: blocks ?? [textBlock(Answers.answer(outcome))]
      }
    }
  })
})

/** The message of a response, and where it is; else what came in. */
const messageOf = (input: unknown): { readonly message: unknown; readonly at: string } => {
  const message = Shape.own(Shape.own(input, "output"), "message")
  return message === undefined ? { message: input, at: "" } : { message, at: "output.message" }
}

const wanted = "content blocks with toolUse"

const readBlock = (judged: Judged) => (entry: unknown, path: string): Shape.Read<ToolCall.ToolCall | undefined> =>
  Result.gen(function*() {
    const block = yield* Shape.object(entry, path, "a content block")
    const found = Shape.own(block, "toolUse")
    if (found === undefined) {
      // of every kind of block there is one key
      return Object.keys(block).length === 1
        ? undefined
        : yield* Shape.wrong(path, "is not a content block of Converse", wanted)
    }
    const at = `${path}.toolUse`
    const use = yield* Shape.object(found, at, "an object with toolUseId, name and input")
    judged.add(use)
    // the provider's own tools
    if (Shape.own(use, "type") === "server_tool_use") return undefined
    const id = yield* Shape.string(use, "toolUseId", at)
    const name = yield* Shape.string(use, "name", at)
    const params = Shape.own(use, "input")
    return params === undefined
      ? yield* Shape.wrong(`${at}.input`, "is missing", "an object, {} for none")
      : Shape.call(id, name, params)
  })

// a block without text is refused
const textBlock = (text: string): ToolResultContentBlock => ({ text: text.trim() === "" ? "(no text)" : text })

const fileBlock = (file: ToolContent.FilePart, place: () => number): ToolResultContentBlock | undefined => {
  const decoded = Base64.decode(file.data)
  if (Result.isFailure(decoded)) return undefined
  const source = { bytes: new Bytes(decoded.success) }
  if (ToolContent.isImage(file)) {
    return { image: { format: formats[file.mediaType], source } }
  }
  // a name of our own: a model might take another's for an instruction
  return ToolContent.isPdf(file) ? { document: { format: "pdf", name: `document ${place()}`, source } } : undefined
}

const formats = { "image/png": "png", "image/jpeg": "jpeg", "image/gif": "gif", "image/webp": "webp" } as const

/** Bytes that are base64 as JSON. */
class Bytes extends Uint8Array {
  toJSON(): string {
    return Base64.encode(this)
  }
}
