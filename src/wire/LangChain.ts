/** The shape of LangChain: messages with `tool_calls`, as class instances, serialized or as plain objects. */
import * as Result from "effect/Result"
import type * as ToolCall from "../core/vocabulary/ToolCall.ts"
import * as ToolContent from "../core/vocabulary/ToolContent.ts"
import * as ToolOutcome from "../core/vocabulary/ToolOutcome.ts"
import * as Answers from "./Answers.ts"
import * as Conversation from "./Conversation.ts"
import * as Shape from "./Shape.ts"
import type { Judged } from "./StrayCalls.ts"

/** A part of an answer: one of LangChain's standard content blocks. */
export type ContentBlock =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "image" | "file"; readonly mimeType: string; readonly data: string }

/** One answer of a tool: what `new ToolMessage` takes, and any list of messages. */
export type ToolMessage = {
  readonly type: "tool"
  readonly tool_call_id: string
  readonly name: string
  readonly status: "success" | "error"
  /** Blocks, where there are images or documents to see. */
  readonly content: string | Array<ContentBlock>
}

/** Name of the shape, for people. */
export const title = "LangChain"

/** What the reader takes, for people. */
export const expected = "an AIMessage, or an array of messages or of tool calls"

/** Tells whether the input can only be meant to be of this shape. */
export const looksLike = (input: unknown): boolean =>
  Shape.isArray(input)
    ? input.some((entry) => isCall(Shape.own(entry, "type")) || isMessage(entry))
    : isMessage(input)

/**
 * Reads the calls that no later message answers.
 *
 * A call from `invalid_tool_calls`, whose arguments are not JSON, keeps their text. A call without an id is an error,
 * since it cannot be answered.
 */
export const read = (input: unknown, judged: Judged): Shape.Read<ReadonlyArray<ToolCall.ToolCall>> => {
  if (!Shape.isArray(input)) return Result.flatMap(readMessage(input, "", true, judged), Conversation.unanswered)
  return Result.flatMap(
    Shape.entries(input, "", (entry, path) =>
      isCall(Shape.own(entry, "type"))
        ? Result.map(readCall(judged)(entry, path), (call): Entries => [call])
        : readMessage(entry, path, false, judged)),
    (entries) => Conversation.unanswered(entries.flat())
  )
}

/** Writes one `tool` message per outcome. */
export const write = (outcomes: ReadonlyArray<ToolOutcome.ToolOutcome>): Array<ToolMessage> =>
  outcomes.map((outcome) => ({
    type: "tool",
    tool_call_id: outcome.callId,
    name: outcome.tool,
    status: ToolOutcome.isError(outcome) ? "error" : "success",
    content: Answers.parts(outcome, textBlock, fileBlock) ?? Answers.answer(outcome)
  }))

type Entries = ReadonlyArray<ToolCall.ToolCall | Conversation.Answer>

const isCall = (type: unknown): boolean => type === "tool_call" || type === "invalid_tool_call"

/** Types of messages; those of roles are other formats', too. */
const types: ReadonlyArray<unknown> = ["ai", "human", "tool", "system", "AIMessageChunk"]

/** The fields of a message: its own, or those of its serialized form. */
const fieldsOf = (
  message: Shape.JsonObject
): { readonly fields: unknown; readonly at: string; readonly type: unknown } => {
  const id = Shape.own(message, "id")
  if (Shape.own(message, "lc") !== undefined && Shape.isArray(id)) {
    return { fields: Shape.own(message, "kwargs"), at: "kwargs", type: classes.get(id.at(-1)) ?? id.at(-1) }
  }
  const type = Shape.own(message, "type")
  const data = Shape.own(message, "data")
  return Shape.isObject(data) && types.includes(type)
    ? { fields: data, at: "data", type }
    : { fields: message, at: "", type: type ?? Shape.own(message, "role") }
}

const classes: ReadonlyMap<unknown, string> = new Map([
  ["AIMessage", "ai"],
  ["AIMessageChunk", "ai"],
  ["HumanMessage", "human"],
  ["SystemMessage", "system"],
  ["ToolMessage", "tool"]
])

const isMessage = (entry: unknown): boolean => {
  if (!Shape.isObject(entry)) return false
  const { fields } = fieldsOf(entry)
  if (Shape.own(entry, "lc") !== undefined || types.includes(Shape.own(entry, "type"))) return true
  const calls = Shape.own(fields, "tool_calls")
  return Shape.own(fields, "invalid_tool_calls") !== undefined ||
    (Shape.isArray(calls) && calls.some((call) => Shape.own(call, "args") !== undefined))
}

const readMessage = (entry: unknown, path: string, alone: boolean, judged: Judged): Shape.Read<Entries> =>
  Result.gen(function*() {
    const message = yield* Shape.object(entry, path, "a message")
    const { at, fields, type } = fieldsOf(message)
    const where = at === "" ? path : Shape.at(path, at)
    const own = yield* Shape.object(fields, where, "the fields of a message")
    if (type === "tool" && !alone) return [{ answers: yield* Shape.string(own, "tool_call_id", where) }]
    if (type !== undefined && type !== "ai" && type !== "AIMessageChunk" && type !== "assistant") {
      if (alone || !types.includes(type) && type !== "user") {
        return yield* Shape.wrong(Shape.at(path, "type"), Shape.is(type), `"ai"`)
      }
      return []
    }
    return yield* readCalls(own, where, type === undefined, judged)
  })

const readCalls = (message: Shape.JsonObject, path: string, isBare: boolean, judged: Judged): Shape.Read<Entries> =>
  Result.gen(function*() {
    const list = (key: string) => {
      const found = Shape.own(message, key) ?? []
      return Shape.isArray(found)
        ? Shape.entries(found, Shape.at(path, key), readCall(judged))
        : Shape.wrong(Shape.at(path, key), Shape.is(found), "an array of tool calls")
    }
    if (isBare && !isMessage(message)) return yield* Shape.wrong(path, "is not a message", expected)
    return [...(yield* list("tool_calls")), ...(yield* list("invalid_tool_calls"))]
  })

const readCall = (judged: Judged) => (entry: unknown, path: string): Shape.Read<ToolCall.ToolCall> =>
  Result.gen(function*() {
    const call = yield* Shape.object(entry, path, "an object with name, args and id")
    judged.add(call)
    const id = yield* Shape.string(call, "id", path)
    const name = yield* Shape.string(call, "name", path)
    const params = Shape.own(call, "args")
    return params === undefined
      ? yield* Shape.wrong(`${path}.args`, "is missing", "an object, {} for none")
      : Shape.call(id, name, params)
  })

const textBlock = (text: string): ContentBlock => ({ type: "text", text })

const fileBlock = (file: ToolContent.FilePart): ContentBlock | undefined => {
  const { data, mediaType: mimeType } = file
  if (ToolContent.isImage(file)) return { type: "image", mimeType, data }
  return ToolContent.isPdf(file) ? { type: "file", mimeType, data } : undefined
}
