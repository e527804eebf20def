/** The shape of the AI SDK (`ai`): its model messages, the messages of its UI, and the parts of its results. */
import type * as Schema from "effect/Schema"
import type * as ToolCall from "../core/vocabulary/ToolCall.ts"
import * as ToolContent from "../core/vocabulary/ToolContent.ts"
import type * as ToolOutcome from "../core/vocabulary/ToolOutcome.ts"
import * as Answers from "./Answers.ts"
import * as Parts from "./Parts.ts"
import * as PlainJson from "./PlainJson.ts"
import type * as Shape from "./Shape.ts"
import type { Judged } from "./StrayCalls.ts"
import * as UiMessages from "./UiMessages.ts"

/** A part of what a tool gave. */
export type ContentPart =
  | { readonly type: "text"; readonly text: string }
  | {
    readonly type: "file"
    readonly mediaType: string
    readonly data: { readonly type: "data"; readonly data: string }
    readonly filename?: string
  }

/** What a tool gave, and whether that is an error. */
export type ToolResultOutput =
  | { readonly type: "text" | "error-text"; readonly value: string }
  | { readonly type: "json"; readonly value: Schema.Json }
  /** There are files to see. */
  | { readonly type: "content"; readonly value: Array<ContentPart> }
  /** A person said no. */
  | { readonly type: "execution-denied"; readonly reason: string }

/** One answer of a tool. */
export interface ToolResultPart {
  readonly type: "tool-result"
  readonly toolCallId: string
  readonly toolName: string
  readonly output: ToolResultOutput
}

/** The one message that carries every answer, a `ToolModelMessage`. */
export interface ToolMessage {
  readonly role: "tool"
  // the SDK takes no readonly array
  readonly content: Array<ToolResultPart>
}

/** Name of the shape, for people. */
export const title = "AI SDK"

/** What the reader takes, for people. */
export const expected = "an assistant message, also one of the UI, or an array of messages, parts or tool calls"

const keys: Parts.Keys = { id: "toolCallId", name: "toolName", params: "input" }

/** Tells whether the input can only be meant to be of this shape. */
export const looksLike = (input: unknown): boolean => Parts.someCall(input, keys) || UiMessages.looksLike(input)

/** Reads the calls that have no result yet. */
export const read = (input: unknown, judged: Judged): Shape.Read<ReadonlyArray<ToolCall.ToolCall>> =>
  UiMessages.looksLike(input) ? UiMessages.read(input, judged) : Parts.read(input, keys, expected, judged)

/** Writes one `tool` message with one `tool-result` part per outcome. */
export const write = (outcomes: ReadonlyArray<ToolOutcome.ToolOutcome>): ToolMessage => ({
  role: "tool",
  content: outcomes.map((outcome): ToolResultPart => ({
    type: "tool-result",
    toolCallId: outcome.callId,
    toolName: outcome.tool,
    output: outputOf(outcome)
  }))
})

/** Gives what a model is shown as the SDK has it: parts, where there are files to see, else the text. */
export const shown = (content: ToolContent.ToolContent): ToolResultOutput => {
  const value = Answers.blocks(content, textPart, filePart)
  return value === undefined ? { type: "text", value: ToolContent.textOf(content) } : { type: "content", value }
}

const textPart = (text: string): ContentPart => ({ type: "text", text })

const filePart = (file: ToolContent.FilePart): ContentPart | undefined => {
  if (!ToolContent.isImage(file) && !ToolContent.isPdf(file)) return undefined
  const { data, fileName, mediaType } = file
  return {
    type: "file",
    mediaType,
    data: { type: "data", data },
    ...fileName === undefined ? {} : { filename: fileName }
  }
}

const outputOf = (outcome: ToolOutcome.ToolOutcome): ToolResultOutput => {
  const text = Answers.answer(outcome)
  if (outcome._tag === "Succeeded") {
    const parts = Answers.parts(outcome, textPart, filePart)
    if (parts !== undefined) return { type: "content", value: parts }
    const value = PlainJson.inline(outcome)
    // the SDK tells the model the JSON text, which a tool may have put in other words
    return value !== undefined && JSON.stringify(value) === text
      ? { type: "json", value }
      : { type: "text", value: text }
  }
  return outcome._tag === "Denied" && outcome.reason._tag === "PermissionDenied" && outcome.reason.by === "user"
    ? { type: "execution-denied", reason: text }
    : { type: "error-text", value: text }
}
