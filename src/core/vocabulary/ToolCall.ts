/**
 * A tool call requested by a model, with untrusted JSON parameters.
 *
 * `WireFormat` reads calls from provider messages. Code can make typed calls of a toolkit with `for`.
 *
 * **Example** (Typed calls and outcomes)
 *
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 * import { ToolCall, type ToolProcess } from "effect-tool-executor"
 *
 * const Search = Tool.make("search", {
 *   parameters: Schema.Struct({ query: Schema.String }),
 *   success: Schema.Struct({ hits: Schema.Finite })
 * })
 * const call = ToolCall.for(Toolkit.make(Search))
 *
 * export const hits = (process: ToolProcess.ToolProcess) =>
 *   Effect.map(process.executeWave([call("1", "search", { query: "fish" })]), ({ outcomes: [found] }) =>
 *     found._tag === "Succeeded" && found.output._tag !== "Artifact" ? found.output.value.hits : 0)
 * ```
 */
import type * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as Schema from "effect/Schema"
import { isTextTooDeep, tooDeep } from "../../internal/jsonDepth.ts"
import type { Name, ToolsOf } from "../../internal/toolkitTypes.ts"

/** Arguments that are not valid JSON, or are nested more than 256 levels deep. */
export class MalformedArguments extends Schema.Opaque<MalformedArguments>()(Schema.Struct({
  /** The text as the model sent it. */
  text: Schema.String,
  message: Schema.String
})) {}

/** A tool call requested by a model. */
export class ToolCall extends Schema.Opaque<ToolCall>()(Schema.Struct({
  /** The provider's call id; not necessarily unique in a wave. */
  id: Schema.String,
  /** The tool name as the model wrote it. */
  name: Schema.String,
  /** Untrusted JSON; `null` if `malformed` is set. */
  params: Schema.Unknown,
  /** Set if the arguments could not be read: the call is refused. Empty text counts as `{}`. */
  malformed: Schema.optionalKey(MalformedArguments)
})) {}

/** A call whose tool, and so output type, is known. */
export interface Typed<T extends Tool.Any> extends ToolCall {
  readonly name: T["name"]
  /** Type-level only; never set. */
  readonly "~tool"?: T
}

/** Creates typed calls of the tools of a toolkit; see `for`. */
export interface Constructor<Tools extends Record<string, Tool.Any>> {
  <N extends Name<Tools>>(id: string, name: N, ...params: ParamsOf<Tools[N]>): Typed<Tools[N]>
}

/** Creates a call from JSON parameters. */
export const make = (id: string, name: string, params: unknown = {}): ToolCall => ({ id, name, params })

/**
 * Creates a call from the text of its arguments.
 *
 * Text that is not JSON, including empty text, or is nested more than 256 levels deep, is kept in `malformed`. The
 * executor treats empty text as `{}` and refuses other text with `InvalidParameters`.
 */
export const fromText = (id: string, name: string, text: string): ToolCall => {
  const malformed = (message: string): ToolCall => ({ id, name, params: null, malformed: { text, message } })
  if (isTextTooDeep(text)) return malformed(tooDeep)
  try {
    return { id, name, params: JSON.parse(text) as unknown }
  } catch (error) {
    return malformed(error instanceof Error ? error.message : String(error))
  }
}

/**
 * Creates typed calls of one or more toolkits; unknown names and wrong parameters do not compile. Parameters are in
 * encoded form, and outcomes have typed outputs (`ToolOutcome.For`).
 *
 * The compiler matches tools by name only.
 */
const makeFor = <T extends Toolkit.Any>(_toolkits: T | ReadonlyArray<T>): Constructor<ToolsOf<T>> => make

export {
  /** Creates typed calls of one or more toolkits; unknown names and wrong parameters do not compile. */
  makeFor as for
}

/** Makes `params` optional if all of its fields are. */
type ParamsOf<T extends Tool.Any> = {} extends Tool.ParametersEncoded<T> ? [params?: Tool.ParametersEncoded<T>]
  : [params: Tool.ParametersEncoded<T>]
