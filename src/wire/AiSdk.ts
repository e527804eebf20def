/**
 * The shape of the AI SDK (`ai`): its model messages and the parts of its results.
 *
 * @since 0.1.0
 */
import type * as Schema from "effect/Schema"
import type * as ToolCall from "../ToolCall.ts"
import type * as ToolOutcome from "../ToolOutcome.ts"
import * as Parts from "./Parts.ts"
import * as PlainJson from "./PlainJson.ts"
import * as Shape from "./Shape.ts"

/**
 * What a tool gave, and whether that is an error.
 *
 * @category models
 * @since 0.1.0
 */
export type ToolResultOutput =
  | { readonly type: "text" | "error-text"; readonly value: string }
  | { readonly type: "json"; readonly value: Schema.Json }
  /** A person said no. */
  | { readonly type: "execution-denied"; readonly reason: string }

/**
 * One answer of a tool.
 *
 * @category models
 * @since 0.1.0
 */
export interface ToolResultPart {
  readonly type: "tool-result"
  readonly toolCallId: string
  readonly toolName: string
  readonly output: ToolResultOutput
}

/**
 * The one message that carries every answer, a `ToolModelMessage`.
 *
 * @category models
 * @since 0.1.0
 */
export interface ToolMessage {
  readonly role: "tool"
  // the SDK takes no readonly array
  readonly content: Array<ToolResultPart>
}

/**
 * Name of the shape, for people.
 *
 * @category constants
 * @since 0.1.0
 */
export const title = "AI SDK"

/**
 * What the reader takes, for people.
 *
 * @category constants
 * @since 0.1.0
 */
export const expected = "an assistant message, or an array of parts or tool calls"

const keys: Parts.Keys = { id: "toolCallId", name: "toolName", params: "input" }

/**
 * Tells whether the input can only be meant to be of this shape.
 *
 * @category predicates
 * @since 0.1.0
 */
export const looksLike = (input: unknown): boolean => Parts.someCall(input, keys)

/**
 * Reads the calls that have no result yet.
 *
 * @category reading
 * @since 0.1.0
 */
export const read = (input: unknown): Shape.Read<ReadonlyArray<ToolCall.ToolCall>> => Parts.read(input, keys, expected)

/**
 * Writes one `tool` message with one `tool-result` part per outcome.
 *
 * @category writing
 * @since 0.1.0
 */
export const write = (outcomes: ReadonlyArray<ToolOutcome.ToolOutcome>): ToolMessage => ({
  role: "tool",
  content: outcomes.map((outcome): ToolResultPart => ({
    type: "tool-result",
    toolCallId: outcome.callId,
    toolName: outcome.tool,
    output: outputOf(outcome)
  }))
})

// Utilities

const outputOf = (outcome: ToolOutcome.ToolOutcome): ToolResultOutput => {
  const text = Shape.answer(outcome)
  if (outcome._tag === "Succeeded") {
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
