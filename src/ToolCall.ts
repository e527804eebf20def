/**
 * A call: one tool invocation that a model asked for.
 *
 * Its parameters are untrusted JSON. Nothing here decides whether a call may
 * run; how calls are read from a provider's message is in `WireFormat`.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/**
 * Arguments that a model sent as text which is not JSON.
 *
 * @category models
 * @since 0.1.0
 */
export const MalformedArguments = Schema.Struct({
  /** The text exactly as the model sent it. */
  text: Schema.String,
  /** Why it is not JSON. */
  message: Schema.String
})

/**
 * Arguments that a model sent as text which is not JSON.
 *
 * @category models
 * @since 0.1.0
 */
export type MalformedArguments = typeof MalformedArguments.Type

/**
 * Schema of a call.
 *
 * @category schemas
 * @since 0.1.0
 */
export const ToolCall = Schema.Struct({
  /** The provider's id of the call; ids need not be unique in a wave. */
  id: Schema.String,
  /** The tool's name as the model wrote it. */
  name: Schema.String,
  /** Untrusted JSON; `null` when `malformed` is there. */
  params: Schema.Unknown,
  /** Set when the arguments were not JSON; such a call is refused. An empty text alone is `{}`. */
  malformed: Schema.optionalKey(MalformedArguments)
})

/**
 * One tool invocation that a model asked for.
 *
 * @category models
 * @since 0.1.0
 */
export type ToolCall = typeof ToolCall.Type

/**
 * Creates a call from parameters that are JSON already.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (id: string, name: string, params: unknown = {}): ToolCall => ({ id, name, params })

/**
 * Creates a call from the text of its arguments.
 *
 * **Details**
 *
 * Text that is not JSON, the empty text included, becomes a call that keeps the
 * text; the executor refuses it with `InvalidParameters` and says what was
 * wrong with it. The empty text it takes for `{}`, which a tool may require more
 * than.
 *
 * @category constructors
 * @since 0.1.0
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
