/** The shape of `effect/ai`: parts of responses and prompts, encoded as JSON. */
import type * as Prompt from "effect/ai/Prompt"
import type * as ToolCall from "../core/vocabulary/ToolCall.ts"
import * as ToolOutcome from "../core/vocabulary/ToolOutcome.ts"
import * as Answers from "./Answers.ts"
import * as Parts from "./Parts.ts"
import * as PlainJson from "./PlainJson.ts"
import * as Shape from "./Shape.ts"
import type { Judged } from "./StrayCalls.ts"

/** Name of the shape, for people. */
export const title = "effect/ai"

/** What the reader takes, for people. */
export const expected = "a prompt, a response or an assistant message with content, or an array of parts"

const keys: Parts.Keys = { id: "id", name: "name", params: "params" }

/** Tells whether the input, which is not the AI SDK's, can only be meant to be of this shape. */
export const looksLike = (input: unknown): boolean =>
  Parts.someCall(input, keys) ||
  (Shape.own(input, "role") === undefined && Shape.isArray(Shape.own(input, "content")))

/** Reads the calls that have no result yet. */
export const read = (input: unknown, judged: Judged): Shape.Read<ReadonlyArray<ToolCall.ToolCall>> =>
  Parts.read(input, keys, expected, judged)

/**
 * Writes one `tool` message with one `tool-result` part per outcome.
 *
 * `result` is the whole value, if the model is shown all of it, or the failure of the handler. For other outcomes it
 * says what happened, as `effect/ai` does. `modelOutput` is the text for the model.
 */
export const write = (outcomes: ReadonlyArray<ToolOutcome.ToolOutcome>): Prompt.ToolMessageEncoded => ({
  role: "tool",
  content: outcomes.map((outcome): Prompt.ToolResultPartEncoded => {
    const text = Answers.answer(outcome)
    return {
      type: "tool-result",
      id: outcome.callId,
      name: outcome.tool,
      isFailure: ToolOutcome.isError(outcome),
      result: resultOf(outcome, text),
      ...modelOutputOf(outcome, text)
    }
  })
})

const modelOutputOf = (
  outcome: ToolOutcome.ToolOutcome,
  text: string
): Pick<Prompt.ToolResultPartEncoded, "modelOutput"> => {
  const parts = Answers.parts<Prompt.TextPartEncoded | Prompt.FilePartEncoded>(
    outcome,
    (text) => ({ type: "text", text }),
    (file) => file
  )
  // providers refuse parts without text
  return parts !== undefined ? { modelOutput: parts } : text === "" ? {} : { modelOutput: [{ type: "text", text }] }
}

const resultOf = (outcome: ToolOutcome.ToolOutcome, text: string): unknown => {
  const value = PlainJson.inline(outcome)
  if (outcome._tag === "Succeeded") return value === undefined ? text : value
  return outcome._tag === "Failed" && outcome.origin === "handler"
    ? PlainJson.from(outcome.error)
    : { type: outcome._tag === "Denied" ? "execution-denied" : "execution-interrupted", reason: text }
}
