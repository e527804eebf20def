/**
 * Typed metadata of an operation, given by the host and read by handlers: the user, tenant or trace, for example.
 *
 * Each kind is stored as JSON under its own key, so several can be merged by spreading.
 *
 * **Example** (A tenant that handlers can ask for)
 *
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { ToolExecutor, ToolMeta } from "effect-tool-executor"
 *
 * const Tenant = ToolMeta.make("tenant", Schema.Struct({ id: Schema.String }))
 *
 * export const begin = Effect.gen(function*() {
 *   const executor = yield* ToolExecutor.ToolExecutor
 *   return yield* executor.process({ meta: Tenant.of({ id: "acme" }) })
 * })
 *
 * // in the handler of a tool
 * export const tenant = Effect.map(Tenant.require, (it) => it.id)
 * ```
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { ToolContext } from "./ToolContext.ts"

/** One kind of metadata. */
export interface ToolMeta<Name extends string, A> {
  readonly name: Name
  /**
   * Returns the `meta` of a process with this value; merge several by spreading. Throws if the value does not encode.
   */
  readonly of: (value: A) => { readonly [N in Name]: Schema.Json }
  /** The value for the current call; `None` if the host gave none. */
  readonly get: Effect.Effect<Option.Option<A>, MetaError>
  /** The value for the current call; fails if the host gave none. */
  readonly require: Effect.Effect<A, MetaError>
}

/** Metadata is missing or does not match its schema. */
export class MetaError extends Schema.TaggedError<MetaError>("effect-tool-executor/MetaError")("MetaError", {
  name: Schema.String,
  problem: Schema.String
}) {
  override get message(): string {
    return `The metadata "${this.name}" of this operation cannot be used: ${this.problem}.`
  }
}

/** Creates a kind of metadata. */
export const make = <const Name extends string, A, I>(name: Name, schema: Schema.Codec<A, I>): ToolMeta<Name, A> => {
  const json = Schema.toCodecJson(schema)
  const encode = Schema.encodeSync(json)
  const decode = Schema.decodeUnknownEffect(json)
  const get = Effect.flatMap(
    ToolContext,
    ({ meta }): Effect.Effect<Option.Option<A>, MetaError> =>
      Object.hasOwn(meta, name)
        ? Effect.mapBoth(decode(meta[name]), {
          onFailure: ({ message }) => new MetaError({ name, problem: message }),
          onSuccess: Option.some
        })
        : Effect.succeedNone
  )
  return {
    name,
    of: (value) => ({ [name]: encode(value) }) as { readonly [N in Name]: Schema.Json },
    get,
    require: Effect.flatMap(
      get,
      Option.match({
        onNone: () => new MetaError({ name, problem: "the host gave none" }),
        onSome: Effect.succeed
      })
    )
  }
}
