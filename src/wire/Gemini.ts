/** The shape of Gemini: `functionCall` parts of a content, and their responses. */
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type * as ToolCall from "../core/vocabulary/ToolCall.ts"
import * as ToolContent from "../core/vocabulary/ToolContent.ts"
import type * as ToolOutcome from "../core/vocabulary/ToolOutcome.ts"
import * as Answers from "./Answers.ts"
import * as Conversation from "./Conversation.ts"
import * as PlainJson from "./PlainJson.ts"
import * as Shape from "./Shape.ts"
import type { Judged } from "./StrayCalls.ts"

/** A file attached to an answer. */
export interface InlinePart {
  readonly inlineData: { readonly mimeType: string; readonly data: string }
}

/** One answer of a tool. */
export interface FunctionResponsePart {
  readonly functionResponse: {
    /** Only there where the call had one; else its place and its name say which call it answers. */
    readonly id?: string
    readonly name: string
    readonly response: { readonly output: Schema.Json } | { readonly error: string }
    /** Images and documents. */
    readonly parts?: Array<InlinePart>
  }
}

/** The one content that carries every answer. */
export interface UserContent {
  readonly role: "user"
  readonly parts: Array<FunctionResponsePart>
}

/** Name of the shape, for people. */
export const title = "Gemini"

/** What the reader takes, for people. */
export const expected = "a response, a content, or an array of contents or parts"

/** Tells whether the input can only be meant to be of this shape. */
export const looksLike = (input: unknown): boolean =>
  Shape.isArray(input)
    ? input.some((entry) => isContent(entry) || Shape.own(entry, "functionCall") !== undefined)
    : isContent(input) || Shape.own(input, "candidates") !== undefined

/**
 * Reads the calls without a response.
 *
 * Calls without an id get `#1`, `#2`, … by position, and are answered in order; `write` omits these ids. A response
 * without a known id belongs to the first unanswered call of its name.
 */
export const read = (input: unknown, judged: Judged): Shape.Read<ReadonlyArray<ToolCall.ToolCall>> =>
  Result.gen(function*() {
    if (!Shape.isArray(input) && !Shape.isObject(input)) return yield* Shape.wrong("", Shape.is(input), expected)
    const readPart = partReader(judged)
    const entries = Shape.isArray(input)
      ? yield* Shape.entries(
        input,
        "",
        (entry, path) =>
          Shape.own(entry, "parts") !== undefined || Shape.own(entry, "role") !== undefined
            ? readContent(entry, path, readPart)
            : Result.map(readPart(entry, path), (it) => [it])
      )
      : Shape.own(input, "candidates") === undefined
      ? [yield* readMessage(input, readPart)]
      : [yield* readCandidates(Shape.own(input, "candidates"), readPart)]
    return yield* Conversation.unanswered(
      entries.flat().filter((it) => it !== undefined)
    )
  })

/** Writes one `user` content with one `functionResponse` part per outcome. */
export const write = (outcomes: ReadonlyArray<ToolOutcome.ToolOutcome>): UserContent => ({
  role: "user",
  parts: outcomes.map((outcome): FunctionResponsePart => {
    const { callId, tool: name } = outcome
    const shown = Answers.parts<string | InlinePart>(outcome, (text) => text, filePart)
    const files = shown?.filter((it) => typeof it !== "string")
    return {
      functionResponse: {
        ...made.test(callId) ? {} : { id: marked.test(callId) ? callId.slice(1) : callId },
        name,
        response: shown === undefined ? responseOf(outcome) : { output: shown.map(textOf).join("\n") },
        ...files === undefined ? {} : { parts: files }
      }
    }
  })
})

type Entry = ToolCall.ToolCall | Conversation.Answer | undefined

type ReadPart = (entry: unknown, path: string) => Shape.Read<Entry>

const wanted = "parts with functionCall"

/** What else a part may have. */
const partKeys = [
  "text",
  "thought",
  "thoughtSignature",
  "inlineData",
  "fileData",
  "executableCode",
  "codeExecutionResult",
  "toolCall",
  "toolResponse"
]

/** An id that was made here, and one that would be taken for it. */
const made = /^#\d+$/
const marked = /^##+\d+$/

const idOf = (id: string): string => made.test(id) || marked.test(id) ? `#${id}` : id

/** The AI SDK's messages have parts, too, whose types are named. */
const isContent = (entry: unknown): boolean => {
  const parts = Shape.own(entry, "parts")
  return Shape.isArray(parts) && Shape.own(entry, "role") !== "assistant" &&
    (Shape.own(entry, "role") === "model" || parts.every((part) => Shape.own(part, "type") === undefined))
}

const readMessage = (content: Shape.JsonObject, readPart: ReadPart): Shape.Read<ReadonlyArray<Entry>> => {
  const role = Shape.own(content, "role")
  if (role !== undefined && role !== "model") return Shape.wrong("role", Shape.is(role), `"model"`)
  return Shape.own(content, "parts") === undefined && role === undefined
    ? Shape.wrong("", "is not a content", expected)
    : readContent(content, "", readPart)
}

const readContent = (entry: unknown, path: string, readPart: ReadPart): Shape.Read<ReadonlyArray<Entry>> => {
  const role = Shape.own(entry, "role")
  if (role !== undefined && role !== "model" && role !== "user" && role !== "function") {
    return Shape.wrong(Shape.at(path, "role"), Shape.is(role), `"model" or "user"`)
  }
  const parts = Shape.own(entry, "parts") ?? []
  return Shape.isArray(parts)
    ? Shape.entries(
      parts,
      Shape.at(path, "parts"),
      (part, at) =>
        role === "user" && Shape.own(part, "functionCall") !== undefined
          ? Shape.wrong(at, "is a call in a content of the user", "calls in contents of the model")
          : readPart(part, at)
    )
    : Shape.wrong(Shape.at(path, "parts"), Shape.is(parts), "an array of parts")
}

const readCandidates = (candidates: unknown, readPart: ReadPart): Shape.Read<ReadonlyArray<Entry>> => {
  if (!Shape.isArray(candidates)) return Shape.wrong("candidates", Shape.is(candidates), "an array of candidates")
  const withCalls = candidates.flatMap((candidate, index) => {
    const parts = Shape.own(Shape.own(candidate, "content"), "parts")
    return Shape.isArray(parts) && parts.some((it) => Shape.own(it, "functionCall") !== undefined) ? [index] : []
  })
  if (withCalls.length > 1) {
    return Shape.wrong("candidates", `has ${withCalls.length} candidates with calls`, "one: ask for candidateCount = 1")
  }
  return Result.map(
    Shape.entries(candidates, "candidates", (candidate, path) => {
      if (!Shape.isObject(candidate)) return Shape.wrong(path, Shape.is(candidate), "a candidate")
      // a blocked candidate has no content
      const content = Shape.own(candidate, "content") ?? {}
      return Shape.isObject(content)
        ? readContent(content, `${path}.content`, readPart)
        : Shape.wrong(`${path}.content`, Shape.is(content), "a content with parts")
    }),
    (all) => all.flat()
  )
}

/** Reads the parts of one conversation, in their order. */
const partReader = (judged: Judged): ReadPart => {
  const open = new Map<unknown, Conversation.Queue<string>>()
  const ids = new Set<string>()
  const answered = new Set<string>()
  let place = 0
  const firstOpen = (name: unknown): string | undefined => {
    const waiting = open.get(name)
    let id = waiting?.take()
    while (id !== undefined && answered.has(id)) id = waiting?.take()
    return id
  }
  return (entry, path) =>
    Result.gen(function*() {
      const part = yield* Shape.object(entry, path, "a part")
      const answer = Shape.own(part, "functionResponse")
      if (answer !== undefined) {
        const id = Shape.own(answer, "id")
        const own = typeof id === "string" ? idOf(id) : undefined
        // some transports drop ids: an answered call is never run again
        const answers = own !== undefined && ids.has(own) ? own : firstOpen(Shape.own(answer, "name"))
        if (answers !== undefined) answered.add(answers)
        return { answers }
      }
      if (Shape.own(part, "function_call") !== undefined) {
        return yield* Shape.wrong(`${path}.function_call`, "is not in the form that the API writes", "functionCall")
      }
      const found = Shape.own(part, "functionCall")
      if (found === undefined) {
        return partKeys.some((key) => Shape.own(part, key) !== undefined)
          ? undefined
          : yield* Shape.wrong(path, "is not a Gemini part", wanted)
      }
      const at = `${path}.functionCall`
      const call = yield* Shape.object(found, at, "an object with name and args")
      const name = yield* Shape.string(call, "name", at)
      if (Shape.own(call, "willContinue") === true || Shape.own(call, "partialArgs") !== undefined) {
        return yield* Shape.wrong(at, "is a chunk of a stream", "the whole call, put together from its chunks")
      }
      judged.add(call)
      place++
      const params = Shape.own(call, "args") ?? {}
      const id = (Shape.own(call, "id") ?? null) === null ? `#${place}` : idOf(yield* Shape.string(call, "id", at))
      ids.add(id)
      const waiting = open.get(name)
      if (waiting === undefined) open.set(name, new Conversation.Queue(id))
      else waiting.add(id)
      return Shape.call(id, name, params)
    })
}

/** The value itself, if the model is shown all of it. */
const responseOf = (outcome: ToolOutcome.ToolOutcome): FunctionResponsePart["functionResponse"]["response"] => {
  const text = Answers.answer(outcome)
  if (outcome._tag !== "Succeeded") return { error: text }
  const value = PlainJson.inline(outcome)
  return { output: value !== undefined && JSON.stringify(value) === text ? value : text }
}

/** The text that refers to an attached file. */
const textOf = (part: string | InlinePart): string =>
  typeof part === "string" ? part : `[${part.inlineData.mimeType} attached]`

const filePart = (file: ToolContent.FilePart): InlinePart | undefined =>
  ToolContent.isImage(file) || ToolContent.isPdf(file)
    ? { inlineData: { mimeType: file.mediaType, data: file.data } }
    : undefined
