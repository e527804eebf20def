/**
 * The shape of OpenAI's Responses API.
 *
 * Items that are no calls of ours are passed over: messages, reasoning, what
 * the provider's own tools did, and calls of built-in tools such as
 * `computer_call` and `shell_call`, which have answers of their own.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import * as ToolCall from "../ToolCall.ts"
import type * as ToolOutcome from "../ToolOutcome.ts"
import * as Shape from "./Shape.ts"

/**
 * One answer of a tool, as an item of the next request's `input`.
 *
 * @category models
 * @since 0.1.0
 */
export interface OutputItem {
  /** `custom_tool_call_output` where the model called a custom tool. */
  readonly type: "function_call_output" | "custom_tool_call_output"
  readonly call_id: string
  readonly output: string
}

/**
 * Name of the shape, for people.
 *
 * @category constants
 * @since 0.1.0
 */
export const title = "OpenAI Responses"

/**
 * What the reader takes, for people.
 *
 * @category constants
 * @since 0.1.0
 */
export const expected = "a response with output, or the array of its items"

/**
 * Tells whether the input can only be meant to be of this shape.
 *
 * @category predicates
 * @since 0.1.0
 */
export const looksLike = (input: unknown): boolean =>
  Shape.isArray(input)
    ? input.some((entry) => {
      const type = Shape.own(entry, "type")
      return type === "message" || (type === "reasoning" && Shape.own(entry, "summary") !== undefined) ||
        (typeof type === "string" && type.endsWith("_call"))
    })
    : Shape.isArray(Shape.own(input, "output"))

/**
 * Reads the calls of a response that have no output yet.
 *
 * **Details**
 *
 * A custom tool, whose input is plain text, gets it as `{ input }`. Its answer
 * is an item of another type, so its call has `custom_tool_call:` before its id.
 *
 * @category reading
 * @since 0.1.0
 */
export const read = (input: unknown): Shape.Read<ReadonlyArray<ToolCall.ToolCall>> => {
  const items = Shape.isArray(input) ? input : Shape.own(input, "output")
  if (!Shape.isArray(items)) {
    return Shape.isObject(input) && items !== undefined
      ? Shape.wrong("output", Shape.is(items), "an array of items")
      : Shape.wrong("", Shape.isObject(input) ? "is no response" : Shape.is(input), expected)
  }
  return Result.map(Shape.found(items, Shape.isArray(input) ? "" : "output", readItem), Shape.unanswered)
}

/**
 * Writes one item per outcome.
 *
 * @category writing
 * @since 0.1.0
 */
export const write = (outcomes: ReadonlyArray<ToolOutcome.ToolOutcome>): ReadonlyArray<OutputItem> =>
  outcomes.map((outcome) => {
    const [, type, id] = marked.exec(outcome.callId) ?? []
    return {
      type: type === "custom_tool_call" ? "custom_tool_call_output" : "function_call_output",
      call_id: id ?? outcome.callId,
      output: Shape.answer(outcome)
    }
  })

// Utilities

const wanted = "an item of type function_call"

const marked = /^(function_call|custom_tool_call):([^]*)$/

/** Marks the ids of custom tools, and those of functions that would be taken for them. */
const idOf = (type: string, id: string): string => type === "custom_tool_call" || marked.test(id) ? `${type}:${id}` : id

const readItem = (entry: unknown, path: string): Shape.Read<ToolCall.ToolCall | Shape.Answer | undefined> =>
  Result.gen(function*() {
    const item = yield* Shape.object(entry, path, "an item")
    const type = yield* Shape.string(item, "type", path, "the type of the item")
    if (type === "function_call_output" || type === "custom_tool_call_output") {
      const id = Shape.own(item, "call_id")
      return typeof id === "string" ? { answers: idOf(type.slice(0, -"_output".length), id) } : undefined
    }
    if (type !== "function_call" && type !== "custom_tool_call") {
      const content = Shape.own(item, "content")
      if (Shape.isArray(content)) {
        yield* Shape.entries(content, `${path}.content`, (part, at) => Shape.passOver(part, at, wanted))
      }
      return yield* Shape.passOver(item, path, wanted)
    }
    const id = idOf(type, yield* Shape.string(item, "call_id", path))
    const name = yield* Shape.string(item, "name", path)
    if (type === "custom_tool_call") {
      return ToolCall.make(id, name, { input: yield* Shape.string(item, "input", path) })
    }
    const params = Shape.own(item, "arguments")
    return params === undefined
      ? yield* Shape.wrong(`${path}.arguments`, "is missing", `JSON text, "{}" for none`)
      : Shape.call(id, name, params)
  })
