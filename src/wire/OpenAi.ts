/**
 * The shape of OpenAI chat completions, which many servers copy.
 *
 * Only whole messages are read, no chunks of a stream. The items of the Responses API are in `OpenAiResponses`.
 */
import * as Result from "effect/Result"
import * as ToolCall from "../core/vocabulary/ToolCall.ts"
import type * as ToolOutcome from "../core/vocabulary/ToolOutcome.ts"
import * as Answers from "./Answers.ts"
import * as Shape from "./Shape.ts"
import type { Judged } from "./StrayCalls.ts"

/** One answer of a tool. */
export interface ToolMessage {
  readonly role: "tool"
  readonly tool_call_id: string
  readonly content: string
}

/** Name of the shape, for people. */
export const title = "OpenAI"

/** What the reader takes, for people. */
export const expected =
  "an assistant message with tool_calls, a chat completion with choices, or an array of tool calls"

/** Tells whether the input can only be meant to be of this shape. */
export const looksLike = (input: unknown): boolean =>
  Shape.isArray(input)
    ? input.some((entry) =>
      Shape.isObject(Shape.own(entry, "function")) || Shape.own(entry, "type") === "function" ||
      Shape.isObject(Shape.own(entry, "custom"))
    )
    : Shape.own(input, "type") !== "message" && (
      Shape.own(input, "choices") !== undefined || (Shape.own(input, "tool_calls") ?? null) !== null ||
      (Shape.own(input, "role") === "assistant" && !Shape.isArray(Shape.own(input, "content")) &&
        !Shape.isArray(Shape.own(input, "parts")))
    )

/** Reads the calls of a message. */
export const read = (input: unknown, judged: Judged): Shape.Read<ReadonlyArray<ToolCall.ToolCall>> => {
  if (Shape.isArray(input)) return Shape.entries(input, "", readCall(judged))
  if (!Shape.isObject(input)) return Shape.wrong("", Shape.is(input), expected)
  const choices = Shape.own(input, "choices")
  return choices === undefined ? readMessage(input, "", judged) : readChoices(choices, judged)
}

/** Writes one `tool` message per outcome. The format has no files: a text names them. */
export const write = (outcomes: ReadonlyArray<ToolOutcome.ToolOutcome>): Array<ToolMessage> =>
  outcomes.map((outcome) => ({
    role: "tool",
    tool_call_id: outcome.callId,
    content: Answers.answer(outcome)
  }))

const readChoices = (choices: unknown, judged: Judged): Shape.Read<ReadonlyArray<ToolCall.ToolCall>> => {
  if (!Shape.isArray(choices) || choices.length === 0) {
    return Shape.wrong("choices", Shape.isArray(choices) ? "is empty" : Shape.is(choices), "an array with one choice")
  }
  const withCalls = choices.flatMap((choice, index) => {
    const calls = Shape.own(Shape.own(choice, "message"), "tool_calls")
    return Shape.isArray(calls) && calls.length > 0 ? [index] : []
  })
  if (withCalls.length > 1) {
    return Shape.wrong("choices", `has ${withCalls.length} choices with tool calls`, "one choice: ask for n = 1")
  }
  const index = withCalls[0] ?? 0
  const path = `choices[${index}]`
  return Result.gen(function*() {
    const choice = yield* Shape.object(choices[index], path, "an object with a message")
    if (Shape.own(choice, "message") === undefined && Shape.own(choice, "delta") !== undefined) {
      return yield* Shape.wrong(path, "is a chunk of a stream", "the whole message, put together from its chunks")
    }
    const message = yield* Shape.object(Shape.own(choice, "message"), `${path}.message`, "an assistant message")
    return yield* readMessage(message, `${path}.message`, judged)
  })
}

const readMessage = (
  message: Shape.JsonObject,
  path: string,
  judged: Judged
): Shape.Read<ReadonlyArray<ToolCall.ToolCall>> =>
  Result.gen(function*() {
    const role = Shape.own(message, "role")
    const calls = Shape.own(message, "tool_calls")
    // some servers leave the role out
    if (role !== undefined && role !== "assistant") {
      return yield* Shape.wrong(Shape.at(path, "role"), Shape.is(role), `"assistant"`)
    }
    if (Shape.isArray(calls)) return yield* Shape.entries(calls, Shape.at(path, "tool_calls"), readCall(judged))
    if (calls !== undefined && calls !== null) {
      return yield* Shape.wrong(Shape.at(path, "tool_calls"), Shape.is(calls), "an array of tool calls")
    }
    if (Shape.isObject(Shape.own(message, "function_call"))) {
      return yield* Shape.wrong(
        Shape.at(path, "function_call"),
        "has no id to answer",
        "tool_calls, which replaced it"
      )
    }
    return role === undefined && path === ""
      ? yield* Shape.wrong("", "is neither a message nor a completion", expected)
      : []
  })

const readCall = (judged: Judged) => (entry: unknown, path: string): Shape.Read<ToolCall.ToolCall> =>
  Result.gen(function*() {
    const call = yield* Shape.object(entry, path, "an object with id, type and function")
    judged.add(call)
    const id = yield* Shape.string(call, "id", path)
    // some servers leave the type out
    const type = Shape.own(call, "type") ?? "function"
    if (type === "custom") {
      const custom = yield* Shape.object(Shape.own(call, "custom"), `${path}.custom`, "an object with name and input")
      judged.add(custom)
      const name = yield* Shape.string(custom, "name", `${path}.custom`)
      return ToolCall.make(id, name, { input: yield* Shape.string(custom, "input", `${path}.custom`) })
    }
    if (type !== "function") return yield* Shape.wrong(`${path}.type`, Shape.is(type), `"function" or "custom"`)
    const fn = yield* Shape.object(Shape.own(call, "function"), `${path}.function`, "an object with name and arguments")
    judged.add(fn)
    const name = yield* Shape.string(fn, "name", `${path}.function`)
    const params = Shape.own(fn, "arguments")
    if (params === undefined) {
      return yield* Shape.wrong(`${path}.function.arguments`, "is missing", `JSON text, "{}" for none`)
    }
    return Shape.call(id, name, params)
  })
