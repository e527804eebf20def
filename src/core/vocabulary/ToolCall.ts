/**
 * A call: one tool invocation that a model asked for.
 *
 * Its parameters are untrusted JSON. Nothing here decides whether a call may run; how calls are read from a provider's
 * message is in `WireFormat`. Calls that code makes are typed by their toolkit with `for`, and so are their outcomes.
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
import type { Name, ToolsOf } from "../../internal/toolkitTypes.ts"

/** Arguments that a model sent as text which is not JSON. */
export class MalformedArguments extends Schema.Opaque<MalformedArguments>()(Schema.Struct({
  /** The text exactly as the model sent it. */
  text: Schema.String,
  /** Why it is not JSON. */
  message: Schema.String
})) {}

/** One tool invocation that a model asked for. */
export class ToolCall extends Schema.Opaque<ToolCall>()(Schema.Struct({
  /** The provider's id of the call; ids need not be unique in a wave. */
  id: Schema.String,
  /** The tool's name as the model wrote it. */
  name: Schema.String,
  /** Untrusted JSON; `null` when `malformed` is there. */
  params: Schema.Unknown,
  /** Set when the arguments were not JSON; such a call is refused. An empty text alone is `{}`. */
  malformed: Schema.optionalKey(MalformedArguments)
})) {}

/** A call that the compiler knows the tool of, and so the type of its output. */
export interface Typed<T extends Tool.Any> extends ToolCall {
  readonly name: T["name"]
  /** For the compiler alone: it is never there. */
  readonly "~tool"?: T
}

/** Creates typed calls of the tools of a toolkit; see `for`. */
export interface Constructor<Tools extends Record<string, Tool.Any>> {
  <N extends Name<Tools>>(id: string, name: N, ...params: ParamsOf<Tools[N]>): Typed<Tools[N]>
}

/** Creates a call from parameters that are JSON already. */
export const make = (id: string, name: string, params: unknown = {}): ToolCall => ({ id, name, params })

/**
 * Creates a call from the text of its arguments.
 *
 * **Details**
 *
 * Text that is not JSON, the empty text included, becomes a call that keeps the text; the executor refuses it with
 * `InvalidParameters` and says what was wrong with it. The empty text it takes for `{}`, which a tool may require more
 * than.
 */
export const fromText = (id: string, name: string, text: string): ToolCall => {
  try {
    return { id, name, params: JSON.parse(text) as unknown }
  } catch (error) {
    return {
      id,
      name,
      params: null,
      malformed: { text, message: error instanceof Error ? error.message : String(error) }
    }
  }
}

/**
 * Gives the constructor of calls of the tools of one or more toolkits: a name that is no tool, or parameters that it
 * does not take, do not compile. Parameters are in their encoded form. What executes such calls gives outcomes that
 * know the type of their outputs (`ToolOutcome.For`).
 *
 * **Gotchas**
 *
 * The compiler takes the tools for those that the executor has by their names.
 */
const makeFor = <T extends Toolkit.Any>(_toolkits: T | ReadonlyArray<T>): Constructor<ToolsOf<T>> => make

export {
  /**
   * Gives the constructor of calls of the tools of one or more toolkits: a name that is no tool, or parameters that it
   * does not take, do not compile.
   */
  makeFor as for
}

// Utilities

/** Parameters that may all be left out may be left out. */
type ParamsOf<T extends Tool.Any> = {} extends Tool.ParametersEncoded<T> ? [params?: Tool.ParametersEncoded<T>]
  : [params: Tool.ParametersEncoded<T>]
