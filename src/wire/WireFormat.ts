/**
 * Waves on the wire: calls are read from, and outcomes written back to, the shapes of OpenAI (chat completions and the
 * Responses API), of Anthropic messages, of Gemini, of Bedrock's Converse API, of MCP, of LangChain, of `effect/ai`, of
 * the AI SDK, and our own.
 *
 * A call that is in a message is read or refused, and never passed over. Images and documents that a tool gives are
 * written wherever a shape has a place for them; otherwise a text names them.
 *
 * n calls in, n outcomes out, with the same ids and in the same order; equal ids are kept. What a provider's message
 * must look like is checked here, and one `WireFormatError` says what is wrong with it. What a model wrote into the
 * arguments of a call is not: that is refused call by call, by the executor.
 *
 * Ids are strings here. Where a shape has more than that, such as the numbers of JSON-RPC, the id of a call says it,
 * and `write` gives back what came in.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as ToolCall from "../core/vocabulary/ToolCall.ts"
import type * as ToolOutcome from "../core/vocabulary/ToolOutcome.ts"
import * as AiSdk from "./AiSdk.ts"
import * as Anthropic from "./Anthropic.ts"
import * as Bedrock from "./Bedrock.ts"
import * as EffectAi from "./EffectAi.ts"
import * as Gemini from "./Gemini.ts"
import * as LangChain from "./LangChain.ts"
import * as Mcp from "./Mcp.ts"
import * as Native from "./Native.ts"
import * as OpenAi from "./OpenAi.ts"
import * as OpenAiResponses from "./OpenAiResponses.ts"
import * as Shape from "./Shape.ts"
import * as StrayCalls from "./StrayCalls.ts"

/** Schema of the name of a format, in the order in which `detect` tries them. */
export const Format = Schema.Literals([
  "langchain",
  "openai",
  "openai-responses",
  "mcp",
  "gemini",
  "bedrock",
  "ai-sdk",
  "effect-ai",
  "anthropic",
  "native"
])

/** Name of a format. */
export type Format = typeof Format.Type

/** The calls of a message, in its order, and the format they came in. */
export interface Wave {
  readonly format: Format
  readonly calls: ReadonlyArray<ToolCall.ToolCall>
}

/** What `write` gives, by format. */
export interface Written {
  /** One `tool` message per outcome, as plain objects that LangChain takes for messages. */
  readonly langchain: Array<LangChain.ToolMessage>
  /** One `tool` message per outcome. */
  readonly openai: Array<OpenAi.ToolMessage>
  /** One item per outcome, for the `input` of the next request. */
  readonly "openai-responses": Array<OpenAiResponses.OutputItem>
  /** One JSON-RPC response per outcome, also for a single request. */
  readonly mcp: Array<Mcp.ToolResponse>
  /** One `user` content with a part per outcome. */
  readonly gemini: Gemini.UserContent
  /** One `user` message with a block per outcome. */
  readonly bedrock: Bedrock.UserMessage
  /** One `tool` message with a part per outcome. */
  readonly "ai-sdk": AiSdk.ToolMessage
  /** One `tool` message of a `Prompt`, encoded, with a part per outcome. */
  readonly "effect-ai": Prompt.ToolMessageEncoded
  /** One `user` message with a block per outcome. */
  readonly anthropic: Anthropic.UserMessage
  /** The outcomes as plain JSON. */
  readonly native: ReadonlyArray<Shape.JsonObject>
}

/** Error of a message that is not of its format. */
export class WireFormatError extends Schema.TaggedError<WireFormatError>(
  "effect-tool-executor/WireFormat/WireFormatError"
)("WireFormatError", {
  /** The format it was read as; `auto` when it looked like none. */
  format: Schema.Literals([...Format.literals, "auto"]),
  /** Path from the root, such as `tool_calls[2].function.name`; empty for the whole. */
  path: Schema.String,
  /** What is wrong there, beginning with a verb. */
  problem: Schema.String,
  /** What would be right. */
  expected: Schema.String
}) {
  override get message(): string {
    const where = this.path === "" ? "the input" : this.path
    const what = this.format === "auto" ? "tool calls" : `tool calls in ${this.format} format`
    return `Cannot read ${what}: ${where} ${this.problem}; expected ${this.expected}`
  }
}

/**
 * Detects the format of a message by its shape.
 *
 * An empty array is `native`. An ambiguous message, such as plain text, has no calls, and its answer is empty.
 */
export const detect = (input: unknown): Result.Result<Format, WireFormatError> => {
  return readable("auto", () => {
    const format = Format.literals.find((it) => shapes[it].looksLike(input))
    return format !== undefined ? Result.succeed(format) : Result.fail(
      new WireFormatError({
        format: "auto",
        path: "",
        problem: Shape.isObject(input) || Shape.isArray(input) ? "has an unknown shape" : Shape.is(input),
        expected: Format.literals.map((it) => `${shapes[it].title}: ${shapes[it].expected}`).join("; ")
      })
    )
  })
}

/**
 * Reads the calls of a message.
 *
 * It takes any JSON value and never throws. A message without calls is an empty wave. Arguments that are not JSON
 * become a call that keeps their text, which the executor refuses.
 *
 * **Example** (Reading what a model wants)
 *
 * ```ts import.meta.vitest
 * import * as Result from "effect/Result"
 * import { WireFormat } from "effect-tool-executor"
 *
 * const wave = WireFormat.read({
 *   role: "assistant",
 *   content: [{ type: "tool_use", id: "toolu_1", name: "search", input: { query: "effect" } }]
 * })
 * Result.getOrThrow(wave).format // => "anthropic"
 * Result.getOrThrow(wave).calls // => [{ id: "toolu_1", name: "search", params: { query: "effect" } }]
 * ```
 *
 * @see {@link readText} for text that is to be parsed first
 */
export const read = (input: unknown, format: Format | "auto" = "auto"): Result.Result<Wave, WireFormatError> =>
  Result.flatMap(
    format === "auto" ? detect(input) : Result.succeed(format),
    (known) =>
      readable(known, () =>
        Result.mapBoth(readAll(shapes[known], input), {
          onSuccess: (calls): Wave => ({ format: known, calls }),
          onFailure: (mistake) => new WireFormatError({ format: known, ...mistake })
        }))
  )

/**
 * Reads the calls of a message from its text.
 *
 * @see {@link read} for a message that is parsed already
 */
export const readText = (text: string, format: Format | "auto" = "auto"): Result.Result<Wave, WireFormatError> =>
  Result.flatMap(
    Result.try({
      try: () => JSON.parse(text) as unknown,
      catch: (error) =>
        new WireFormatError({
          format,
          path: "",
          problem: `is not JSON (${Shape.clip(error instanceof Error ? error.message : String(error), 200)})`,
          expected: "JSON text"
        })
    }),
    (input) => read(input, format)
  )

/**
 * Writes the answers to a wave in the shape of its provider.
 *
 * One answer per outcome, in order, as a value that `JSON.stringify` takes. The text for the model is
 * `ToolOutcome.text`; lone surrogates in it are replaced.
 *
 * **Example** (Answering)
 *
 * ```ts import.meta.vitest
 * import { ToolOutcome } from "effect-tool-executor"
 * import { WireFormat } from "effect-tool-executor"
 *
 * const outcome: ToolOutcome.ToolOutcome = {
 *   _tag: "Skipped", callId: "1", tool: "rm", index: 0, attempt: 0, queuedAt: 0, commits: 0, because: "the wave ended"
 * }
 * WireFormat.write("openai", [outcome])
 * // => [{ role: "tool", tool_call_id: "1", content: '"rm" was not run, because the wave ended.' }]
 * ```
 */
export const write = <F extends Format>(format: F, outcomes: ReadonlyArray<ToolOutcome.ToolOutcome>): Written[F] =>
  shapes[format].write(outcomes)

/** A message may be no JSON: one that throws where it is read, or has no end of depth, is not read. */
const readable = <A>(
  format: Format | "auto",
  read: () => Result.Result<A, WireFormatError>
): Result.Result<A, WireFormatError> =>
  Result.flatMap(
    Result.try({
      try: read,
      catch: () => new WireFormatError({ format, path: "", problem: "cannot be read", expected: "plain JSON" })
    }),
    (it) => it
  )

/** The calls that a format finds in a message; one that it does not look at is a mistake. */
const readAll = (
  { expected, read }: Pick<WireShape<Format>, "expected" | "read">,
  input: unknown
): Shape.Read<ReadonlyArray<ToolCall.ToolCall>> => {
  const judged: StrayCalls.Judged = new Set()
  return Result.flatMap(read(input, judged), (calls) => {
    const stray = StrayCalls.find(input, judged, expected)
    return stray === undefined ? Result.succeed(calls) : Result.fail(stray)
  })
}

/** What a format is made of: a file in `wire/`. */
interface WireShape<F extends Format> {
  readonly title: string
  readonly expected: string
  readonly looksLike: (input: unknown) => boolean
  readonly read: (input: unknown, judged: StrayCalls.Judged) => Shape.Read<ReadonlyArray<ToolCall.ToolCall>>
  readonly write: (outcomes: ReadonlyArray<ToolOutcome.ToolOutcome>) => Written[F]
}

const shapes: { readonly [F in Format]: WireShape<F> } = {
  langchain: LangChain,
  gemini: Gemini,
  bedrock: Bedrock,
  openai: OpenAi,
  "openai-responses": OpenAiResponses,
  mcp: Mcp,
  "ai-sdk": AiSdk,
  "effect-ai": EffectAi,
  anthropic: Anthropic,
  native: Native
}
