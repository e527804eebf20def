/** One answer of a scripted model as plain data, and the provider parts it becomes. Pure. */
import * as AiError from "effect/ai/AiError"
import * as Response from "effect/ai/Response"
import * as Duration from "effect/Duration"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"

const optional = Schema.optional

const Span = Schema.declare(
  (input): input is Duration.Input =>
    !Number.isNaN(input) &&
    Option.exists(Duration.fromInput(input as Duration.Input), (it) => Duration.toMillis(it) >= 0),
  { expected: "a duration such as \"50 millis\" or \"5 minutes\"" }
)

/** One delta per word, or the listed deltas. */
const Text = Schema.Union([Schema.String, Schema.Array(Schema.String)])

/** With provider data, such as a signature or item id, sent at the end of the text. */
const Piece = Schema.Union([
  Text,
  Schema.Struct({ text: Text, metadata: optional(Response.ProviderMetadata) })
])

const Call = Schema.Struct({
  /** Default: a new id. */
  id: optional(Schema.String),
  name: Schema.String,
  /** Default: `{}`. A text is sent unchanged, as invalid JSON. */
  params: optional(Schema.Unknown),
  metadata: optional(Response.ProviderMetadata)
})

const Part = Schema.declare(
  (input): input is Response.AllPartsEncoded => Predicate.isObject(input) && typeof input["type"] === "string",
  { expected: "a part of a response, such as { type: \"text\", text: \"…\" }" }
)

const Tokens = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/** What a turn expects of its request. Omitted fields are not checked. */
export const Expectation = Schema.Struct({
  /** A text in the last user message. */
  user: optional(Schema.String),
  /** A text in the system messages. */
  system: optional(Schema.String),
  /** All results since the model's last answer, in order. */
  results: optional(Schema.Array(Schema.Struct({
    id: optional(Schema.String),
    name: optional(Schema.String),
    isFailure: optional(Schema.Boolean),
    /** A text in the result, as the model reads it. */
    includes: optional(Schema.String)
  }))),
  /** The callable tools, in any order. */
  tools: optional(Schema.Array(Schema.String)),
  toolChoice: optional(Schema.Unknown)
})

export type Expectation = typeof Expectation.Type

/**
 * One answer of a scripted model: reasoning, text, calls, other parts and the end, in this order. With `fails`, `dies`
 * or `never` it ends that way instead, immediately or after `cutAfter` parts.
 */
export const Turn = Schema.Struct({
  reasoning: optional(Piece),
  text: optional(Piece),
  calls: optional(Schema.Array(Call)),
  /** Other parts, in provider encoding. One with `type: "finish"` is the end. */
  parts: optional(Schema.Array(Part)),
  /** Default: `"tool-calls"` with calls, else `"stop"`. */
  finish: optional(Response.FinishReason),
  /** Total tokens; `cacheRead` and `cacheWrite` are part of `input`, `reasoning` of `output`. Default: 0 and 0. */
  usage: optional(Schema.Struct({
    input: optional(Tokens),
    output: optional(Tokens),
    cacheRead: optional(Tokens),
    cacheWrite: optional(Tokens),
    reasoning: optional(Tokens)
  })),
  /** Delay of the first part. Default: none. */
  takes: optional(Span),
  /** Delay between parts. Default: none. */
  between: optional(Span),
  /** Ends silently after this many stream parts. */
  cutAfter: optional(Tokens),
  /** Fails with this error, or with a provider's internal error. */
  fails: optional(Schema.Union([
    Schema.String,
    Schema.declare(AiError.isAiError, { expected: "a text or an AiError" })
  ])),
  dies: optional(Schema.String),
  /** Stops sending and never ends. */
  never: optional(Schema.Literal(true)),
  expect: optional(Expectation)
}).check(
  Schema.makeFilter(
    (turn) => [turn.fails, turn.dies, turn.never].filter((it) => it !== undefined).length <= 1,
    { expected: "at most one of fails, dies and never" }
  )
)

export type Turn = typeof Turn.Type

/** Returns all stream parts of a turn. `makeId` makes ids of calls without one. */
export const partsOf = (turn: Turn, makeId: () => string): ReadonlyArray<Response.StreamPartEncoded> => {
  const calls = turn.calls ?? []
  const parts: Array<Response.AllPartsEncoded> = [
    ...turn.reasoning === undefined ? [] : blockOf("reasoning", "reasoning", turn.reasoning),
    ...turn.text === undefined ? [] : blockOf("text", "text", turn.text),
    ...calls.flatMap((call) => callParts(call, call.id ?? makeId())),
    ...(turn.parts ?? []).flatMap((part, index) =>
      part.type === "text" || part.type === "reasoning" ? blockOf(part.type, `${part.type}-${index}`, part) : [part]
    )
  ]
  if (!parts.some((part) => part.type === "finish")) {
    parts.push({
      type: "finish",
      reason: turn.finish ?? (calls.length > 0 ? "tool-calls" : "stop"),
      usage: usageOf(turn.usage ?? {})
    })
  }
  return parts as ReadonlyArray<Response.StreamPartEncoded>
}

/** Combines stream parts as in a complete response. Unfinished text is kept; unfinished reasoning is not. */
export const whole = (parts: ReadonlyArray<Response.StreamPartEncoded>): Array<Response.PartEncoded> => {
  const found: Array<Response.PartEncoded | Block> = []
  const open = new Map<string, Block>()
  for (const part of parts) {
    switch (part.type) {
      case "text-start":
      case "reasoning-start": {
        const type = part.type === "text-start" ? "text" : "reasoning"
        const block = grown({ block: type, text: "", metadata: {} }, part)
        open.set(part.id, block)
        found.push(block)
        break
      }
      case "text-delta":
      case "reasoning-delta":
      case "text-end":
      case "reasoning-end": {
        const block = open.get(part.id)
        if (block === undefined) break
        const next = grown(block, part)
        found[found.indexOf(block)] = next
        open.set(part.id, next)
        if (!("delta" in part)) open.delete(part.id)
        break
      }
      case "tool-params-start":
      case "tool-params-delta":
      case "tool-params-end":
      case "error":
        break
      default:
        found.push(part)
    }
  }
  const unended = new Set(open.values())
  return found.flatMap((it): Array<Response.PartEncoded> => {
    if (!("block" in it)) return [it]
    const { block: type, metadata, text } = it
    if (unended.has(it) && (type === "reasoning" || text === "")) return []
    return [{ type, text, metadata }]
  })
}

interface Block {
  readonly block: "text" | "reasoning"
  readonly text: string
  readonly metadata: Response.ProviderMetadata
}

const grown = (
  block: Block,
  part: { readonly delta?: string; readonly metadata?: Response.ProviderMetadata | undefined }
): Block => ({
  ...block,
  text: block.text + (part.delta ?? ""),
  metadata: { ...block.metadata, ...part.metadata }
})

const blockOf = (
  type: "text" | "reasoning",
  id: string,
  piece: typeof Piece.Type
): ReadonlyArray<Response.StreamPartEncoded> => {
  const { metadata, text } = typeof piece === "string" || !("text" in piece) ? { text: piece } : piece
  return [
    { type: `${type}-start`, id },
    ...deltasOf(text).map((delta) => ({ type: `${type}-delta`, id, delta }) as const),
    { type: `${type}-end`, id, ...metadata === undefined ? {} : { metadata } }
  ]
}

/** Splits a text into words, each with its leading whitespace. */
const deltasOf = (text: typeof Text.Type): ReadonlyArray<string> =>
  typeof text === "string" ? text.match(/\s*\S+|\s+/g) ?? [] : text

const callParts = (
  { metadata, name, params = {} }: typeof Call.Type,
  id: string
): ReadonlyArray<Response.StreamPartEncoded> => {
  const json = typeof params === "string" ? params : JSON.stringify(params) ?? ""
  const middle = Math.ceil(json.length / 2)
  return [
    { type: "tool-params-start", id, name },
    { type: "tool-params-delta", id, delta: json.slice(0, middle) },
    { type: "tool-params-delta", id, delta: json.slice(middle) },
    { type: "tool-params-end", id },
    { type: "tool-call", id, name, params, ...metadata === undefined ? {} : { metadata } }
  ]
}

const usageOf = (
  { cacheRead, cacheWrite, input = 0, output = 0, reasoning }: NonNullable<Turn["usage"]>
): typeof Response.Usage.Encoded => ({
  inputTokens: {
    uncached: Math.max(0, input - (cacheRead ?? 0) - (cacheWrite ?? 0)),
    total: input,
    cacheRead,
    cacheWrite
  },
  outputTokens: { total: output, text: Math.max(0, output - (reasoning ?? 0)), reasoning }
})
