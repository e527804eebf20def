/**
 * Messages of the AI SDK's UI: parts of type `tool-NAME` and `dynamic-tool`, whose state says what has become of a
 * call.
 */
import * as Result from "effect/Result"
import type * as ToolCall from "../core/vocabulary/ToolCall.ts"
import * as Shape from "./Shape.ts"
import type { Judged } from "./StrayCalls.ts"

/** Tells whether the input can only be meant to be of this shape. Gemini has parts, too, but no types of them. */
export const looksLike = (input: unknown): boolean => Shape.isArray(input) ? input.some(isMessage) : isMessage(input)

/**
 * Reads the calls that have no output yet, of a message or of an array of them. Those that a person has yet to allow
 * are not among them.
 */
export const read = (input: unknown, judged: Judged): Shape.Read<ReadonlyArray<ToolCall.ToolCall>> => {
  if (!Shape.isArray(input)) {
    const role = Shape.own(input, "role")
    return role === "assistant" ? readMessage(judged)(input, "") : Shape.wrong("role", Shape.is(role), `"assistant"`)
  }
  return Result.map(Shape.entries(input, "", readMessage(judged)), (all) => all.flat())
}

const isMessage = (entry: unknown): boolean => {
  const parts = Shape.own(entry, "parts")
  return Shape.isArray(parts) &&
    (Shape.own(entry, "role") === "assistant" || parts.some((part) => typeof Shape.own(part, "type") === "string"))
}

const readMessage = (judged: Judged) => (entry: unknown, path: string): Shape.Read<ReadonlyArray<ToolCall.ToolCall>> =>
  Result.gen(function*() {
    const message = yield* Shape.object(entry, path, "a message with parts")
    const parts = Shape.own(message, "parts")
    const at = Shape.at(path, "parts")
    const role = Shape.own(message, "role")
    return Shape.isArray(parts)
      ? yield* Shape.found(
        parts,
        at,
        (part, at) =>
          Result.flatMap(readPart(part, at, judged), (call) =>
            call === undefined || role === "assistant"
              ? Result.succeed(call)
              : Shape.wrong(
                at,
                "is a call in a message that is not the assistant's",
                "calls in messages of the assistant"
              ))
      )
      : yield* Shape.wrong(at, Shape.is(parts), "an array of parts")
  })

const readPart = (entry: unknown, path: string, judged: Judged): Shape.Read<ToolCall.ToolCall | undefined> =>
  Result.gen(function*() {
    const part = yield* Shape.object(entry, path, "a part")
    const type = yield* Shape.string(part, "type", path, "the type of the part")
    if (type === "tool-invocation" || (type !== "dynamic-tool" && !type.startsWith("tool-"))) {
      return type === "tool-invocation"
        ? yield* Shape.wrong(path, "is a tool call of an older AI SDK", "a part of type tool-NAME")
        : undefined
    }
    judged.add(part)
    if (Shape.own(part, "providerExecuted") === true || (yield* isOver(part, path))) return undefined
    const id = yield* Shape.string(part, "toolCallId", path)
    const name = type === "dynamic-tool" ? yield* Shape.string(part, "toolName", path) : type.slice("tool-".length)
    const params = Shape.own(part, "input")
    return params === undefined
      ? yield* Shape.wrong(`${path}.input`, "is missing", "an object, {} for none")
      : Shape.call(id, name, params)
  })

/** Whether the call is not to be run: it has its answer, or a person has denied it, or has yet to allow it. */
const isOver = (part: Shape.JsonObject, path: string): Shape.Read<boolean> => {
  const state = Shape.own(part, "state")
  switch (state) {
    case "input-available":
      return Result.succeed(false)
    // a person has not answered yet: it is not to be run
    case "approval-requested":
      return Result.succeed(true)
    case "approval-responded":
      return Result.succeed(Shape.own(Shape.own(part, "approval"), "approved") === false)
    case "output-available":
      return Result.succeed(Shape.own(part, "preliminary") !== true)
    case "output-error":
    case "output-denied":
      return Result.succeed(true)
    default:
      return Shape.wrong(
        `${path}.state`,
        state === "input-streaming" ? "says that the call is still being written" : Shape.is(state),
        "the state of a complete call, such as \"input-available\""
      )
  }
}
