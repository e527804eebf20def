/**
 * The shape of OpenAI's Responses API.
 *
 * Items that are not client tool calls are skipped: messages, reasoning, and the results of the provider's own tools.
 * Shell and patch calls, which a client has to answer, are calls of tools of those names. Calls that need another kind
 * of answer, such as a screenshot, are refused.
 */
import * as Result from "effect/Result"
import * as ToolCall from "../core/vocabulary/ToolCall.ts"
import * as ToolContent from "../core/vocabulary/ToolContent.ts"
import type * as ToolOutcome from "../core/vocabulary/ToolOutcome.ts"
import * as Answers from "./Answers.ts"
import * as Conversation from "./Conversation.ts"
import * as Shape from "./Shape.ts"
import type { Judged } from "./StrayCalls.ts"

/** A part of an answer. */
export type OutputPart =
  | { readonly type: "input_text"; readonly text: string }
  | { readonly type: "input_image"; readonly detail: "auto"; readonly image_url: string }
  | { readonly type: "input_file"; readonly filename: string; readonly file_data: string }

/** What a command gave. */
export interface ShellOutput {
  readonly stdout: string
  readonly stderr: string
  readonly outcome: { readonly type: "exit"; readonly exit_code: 0 | 1 } | { readonly type: "timeout" }
}

/** One answer of a tool, as an item of the next request's `input`; its type goes by that of the call. */
export type OutputItem =
  | {
    readonly type: "function_call_output" | "custom_tool_call_output"
    readonly call_id: string
    /** Parts, where there are images or documents to see. */
    readonly output: string | Array<OutputPart>
  }
  | { readonly type: "shell_call_output"; readonly call_id: string; readonly output: Array<ShellOutput> }
  /** The `id` is the one that the call has as `call_id`. */
  | { readonly type: "local_shell_call_output"; readonly id: string; readonly output: string }
  | {
    readonly type: "apply_patch_call_output"
    readonly call_id: string
    readonly status: "completed" | "failed"
    readonly output: string
  }

/** Name of the shape, for people. */
export const title = "OpenAI Responses"

/** What the reader takes, for people. */
export const expected = "a response with output, or the array of its items"

/** Tells whether the input can only be meant to be of this shape. */
export const looksLike = (input: unknown): boolean =>
  Shape.isArray(input)
    ? input.some((entry) => {
      const type = Shape.own(entry, "type")
      return type === "message" || (type === "reasoning" && Shape.own(entry, "summary") !== undefined) ||
        // LangChain puts the arguments next to the name
        (typeof type === "string" && type.endsWith("_call") && type !== "tool_call")
    })
    : Shape.isArray(Shape.own(input, "output"))

/**
 * Reads the calls of a response that have no output yet.
 *
 * A custom tool, whose input is plain text, gets it as `{ input }`. A call of a built-in tool is one of `shell`,
 * `local_shell` or `apply_patch` with its action or operation. Their answers are items of other types, so their calls
 * have the type before the id, such as `custom_tool_call:`. A function that is in a namespace has it in its name:
 * `files.delete`.
 */
export const read = (input: unknown, judged: Judged): Shape.Read<ReadonlyArray<ToolCall.ToolCall>> => {
  const items = Shape.isArray(input) ? input : Shape.own(input, "output")
  if (!Shape.isArray(items)) {
    return Shape.isObject(input) && items !== undefined
      ? Shape.wrong("output", Shape.is(items), "an array of items")
      : Shape.wrong("", Shape.isObject(input) ? "is not a response" : Shape.is(input), expected)
  }
  return Result.flatMap(
    Shape.found(items, Shape.isArray(input) ? "" : "output", readItem(judged)),
    Conversation.unanswered
  )
}

/** Writes one item per outcome. */
export const write = (outcomes: ReadonlyArray<ToolOutcome.ToolOutcome>): Array<OutputItem> =>
  outcomes.map((outcome): OutputItem => {
    const [, type, id] = marked.exec(outcome.callId) ?? []
    const call_id = id ?? outcome.callId
    const output = Answers.answer(outcome)
    switch (type) {
      case "shell_call":
        return { type: "shell_call_output", call_id, output: [shellOutput(outcome, output)] }
      case "local_shell_call":
        return { type: "local_shell_call_output", id: call_id, output }
      case "apply_patch_call": {
        const status = outcome._tag === "Succeeded" ? "completed" : "failed"
        return { type: "apply_patch_call_output", call_id, status, output }
      }
      default: {
        const parts = Answers.parts(outcome, textPart, filePart) ?? output
        return {
          type: type === "custom_tool_call" ? "custom_tool_call_output" : "function_call_output",
          call_id,
          output: parts
        }
      }
    }
  })

const marked = /^(function_call|custom_tool_call|shell_call|local_shell_call|apply_patch_call):([^]*)$/

/** Calls of the provider's own tools, which it runs itself. */
const providers = ["web_search_call", "file_search_call", "image_generation_call", "code_interpreter_call", "mcp_call"]

/** Where the built-in tools that a client runs have what they are to do. */
const builtIn: Readonly<Record<string, string>> = {
  shell_call: "action",
  local_shell_call: "action",
  apply_patch_call: "operation"
}

/** Marks the ids of all but functions, and those of functions that would be taken for them. */
const idOf = (type: string, id: string): string => type !== "function_call" || marked.test(id) ? `${type}:${id}` : id

const textPart = (text: string): OutputPart => ({ type: "input_text", text })

const filePart = (file: ToolContent.FilePart): OutputPart | undefined => {
  if (ToolContent.isImage(file)) {
    return { type: "input_image", detail: "auto", image_url: ToolContent.dataUrl(file) }
  }
  return ToolContent.isPdf(file)
    ? { type: "input_file", filename: file.fileName ?? "file.pdf", file_data: ToolContent.dataUrl(file) }
    : undefined
}

const shellOutput = (outcome: ToolOutcome.ToolOutcome, text: string): ShellOutput =>
  outcome._tag === "Succeeded"
    ? { stdout: text, stderr: "", outcome: { type: "exit", exit_code: 0 } }
    : {
      stdout: "",
      stderr: text,
      outcome: outcome._tag === "TimedOut" ? { type: "timeout" } : { type: "exit", exit_code: 1 }
    }

type Entry = ToolCall.ToolCall | Conversation.Foreign | Conversation.Answer

const readItem = (judged: Judged) => (entry: unknown, path: string): Shape.Read<Entry | undefined> =>
  Result.gen(function*() {
    const item = yield* Shape.object(entry, path, "an item")
    const type = yield* Shape.string(item, "type", path, "the type of the item")
    if (type.endsWith("_call_output") || type === "tool_search_output") {
      const id = Shape.own(item, type === "local_shell_call_output" ? "id" : "call_id")
      return typeof id === "string" ? { answers: idOf(answeredType(type), id) } : undefined
    }
    const isOthers = isProviders(type, item)
    if (isOthers) judged.add(item)
    if (!type.endsWith("_call") || isOthers) return undefined
    judged.add(item)
    const id = idOf(type, yield* Shape.string(item, "call_id", path))
    const task = Object.hasOwn(builtIn, type) ? builtIn[type] : undefined
    if (task !== undefined) {
      const params = yield* Shape.object(Shape.own(item, task), `${path}.${task}`, "an object")
      return ToolCall.make(id, type.slice(0, -"_call".length), params)
    }
    if (type !== "function_call" && type !== "custom_tool_call") {
      const problem = `is ${JSON.stringify(Shape.clip(type))}, a call that has to be answered in its own way`
      return { id, mistake: { path, problem, expected: "its answer after it, or the items without it" } }
    }
    const name = yield* nameOf(item, path)
    if (type === "custom_tool_call") {
      return ToolCall.make(id, name, { input: yield* Shape.string(item, "input", path) })
    }
    const params = Shape.own(item, "arguments")
    return params === undefined
      ? yield* Shape.wrong(`${path}.arguments`, "is missing", `JSON text, "{}" for none`)
      : Shape.call(id, name, params)
  })

const answeredType = (type: string): string =>
  type === "tool_search_output" ? "tool_search_call" : type.slice(0, -"_output".length)

const isProviders = (type: string, item: Shape.JsonObject): boolean =>
  providers.includes(type) ||
  (type === "tool_search_call" && Shape.own(item, "execution") === "server") ||
  (type === "shell_call" && Shape.own(Shape.own(item, "environment"), "type") === "container_reference")

/** The name with its namespace: `delete` of `files` is not any `delete`. */
const nameOf = (item: Shape.JsonObject, path: string): Shape.Read<string> =>
  Result.gen(function*() {
    const name = yield* Shape.string(item, "name", path)
    if ((Shape.own(item, "namespace") ?? null) === null) return name
    const namespace = yield* Shape.string(item, "namespace", path)
    return namespace === ""
      ? yield* Shape.wrong(`${path}.namespace`, "is empty", "the name of a namespace, or none")
      : `${namespace}.${name}`
  })
