/**
 * What the messages of `effect/ai` and of the AI SDK have in common: parts of the same types, in which the keys of a
 * call have other names.
 */
import * as Result from "effect/Result"
import type * as ToolCall from "../core/vocabulary/ToolCall.ts"
import * as Conversation from "./Conversation.ts"
import * as Shape from "./Shape.ts"
import type { Judged } from "./StrayCalls.ts"

/** Names of the keys of a `tool-call` part. */
export interface Keys {
  readonly id: string
  readonly name: string
  readonly params: string
}

/** Tells whether the input has a `tool-call` part with one of the keys. */
export const someCall = (input: unknown, keys: Keys): boolean => {
  const entries = contentOf(input)
  return entries.some((entry) =>
    [entry, ...contentOf(entry)].some((part) =>
      Shape.own(part, "type") === "tool-call" &&
      (Shape.own(part, keys.id) !== undefined || Shape.own(part, keys.name) !== undefined)
    )
  )
}

/**
 * Reads the calls of a message, of a conversation or of an array of parts that have no result yet.
 *
 * What the provider runs itself is passed over, and what a person has denied already: the library answers that.
 */
export const read = (
  input: unknown,
  keys: Keys,
  expected: string,
  judged: Judged
): Shape.Read<ReadonlyArray<ToolCall.ToolCall>> =>
  Result.gen(function*() {
    const { parts, path } = yield* Shape.content(input, expected, wanted)
    const readPart = partReader(keys, judged)
    const found = yield* Shape.entries(parts, path, (entry, at) => {
      if (Shape.own(entry, "role") === undefined) return Result.map(readPart(entry, at), (it) => [it])
      const content = Shape.own(entry, "content")
      if (typeof content === "string") return Result.succeed([])
      return Shape.isArray(content)
        ? Shape.entries(content, `${at}.content`, readPart)
        : Shape.wrong(`${at}.content`, Shape.is(content), "text or an array of parts")
    })
    return yield* Conversation.unanswered(found.flat().filter((it) => it !== undefined))
  })

const wanted = "parts of type tool-call"

const contentOf = (input: unknown): ReadonlyArray<unknown> => {
  const content = Shape.isArray(input) ? input : Shape.own(input, "content")
  return Shape.isArray(content) ? content : []
}

/** Reads the parts of one conversation, in their order. */
const partReader = (keys: Keys, judged: Judged) => {
  const asked = new Map<unknown, unknown>()
  return (entry: unknown, path: string): Shape.Read<ToolCall.ToolCall | Conversation.Answer | undefined> =>
    Result.gen(function*() {
      const part = yield* Shape.object(entry, path, "a part")
      const type = yield* Shape.string(part, "type", path, "the type of the part")
      if (Shape.own(part, "providerExecuted") === true) return undefined
      switch (type) {
        case "tool-call": {
          judged.add(part)
          const id = yield* Shape.string(part, keys.id, path)
          const name = yield* Shape.string(part, keys.name, path)
          const params = Shape.own(part, keys.params)
          return params === undefined
            ? yield* Shape.wrong(`${path}.${keys.params}`, "is missing", "an object, {} for none")
            : Shape.call(id, name, params)
        }
        case "tool-result":
        case "tool-error": {
          const answers = yield* Shape.string(part, keys.id, path)
          return Shape.own(part, "preliminary") === true ? undefined : { answers }
        }
        case "tool-approval-request": {
          const id = Shape.own(part, "toolCallId") ?? Shape.own(Shape.own(part, "toolCall"), "toolCallId")
          asked.set(Shape.own(part, "approvalId"), id)
          return undefined
        }
        case "tool-approval-response":
          return Shape.own(part, "approved") === false
            ? { answers: asked.get(Shape.own(part, "approvalId")) }
            : undefined
        default:
          return undefined
      }
    })
}
