/**
 * Handlers of a toolkit, read from the context where `Toolkit.toLayer` puts them. Calling them directly costs a tenth
 * of `Toolkit.handle`, which makes a queue, a stream and a fiber for each call.
 *
 * This is the one place that depends on that shape (`effect/ai`, unstable); where an entry looks otherwise, the call
 * goes through `handle`.
 */
import type * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Sink from "effect/Sink"
import * as Stream from "effect/Stream"

/** What a handler gets in addition to its parameters. */
export interface HandlerContext {
  readonly toolCallId: string
  readonly preliminary: (value: unknown) => Effect.Effect<void>
}

/** One handler with the services it was built with. */
export interface Entry {
  readonly context: Context.Context<never>
  readonly handler: (params: unknown, context: HandlerContext) => Effect.Effect<unknown, unknown>
}

const isEntry = (u: unknown): u is Entry =>
  typeof u === "object" && u !== null && "handler" in u && typeof u.handler === "function" && "context" in u

/** Reads one tool's handler out of the context of its layer; `undefined` if it is not as expected. */
export const fromContext = (context: Context.Context<never>, tool: Tool.Any): Entry | undefined => {
  const entry: unknown = context.mapUnsafe.get(tool.id)
  return isEntry(entry) ? entry : undefined
}

/** The same handler by way of `Toolkit.handle`: slower, but by public means only. */
export const throughHandle = (
  toolkit: Toolkit.WithHandler<Record<string, Tool.Any>>,
  tool: Tool.Any,
  context: Context.Context<never>
): Entry => {
  const encode = Schema.encodeUnknownEffect(tool.parametersSchema as Schema.Codec<unknown, unknown>)
  return {
    context,
    handler: (params, handlerContext) =>
      encode(params).pipe(
        Effect.flatMap((encoded) => toolkit.handle(tool.name, encoded as never, handlerContext.toolCallId)),
        Stream.unwrap,
        Stream.tap((part) => part.preliminary ? handlerContext.preliminary(part.result) : Effect.void),
        Stream.run(Sink.last()),
        Effect.flatMap((last) =>
          Option.isNone(last)
            ? Effect.die(new Error(`Toolkit.handle gave no result for ${tool.name}`))
            : last.value.isFailure
            ? Effect.fail(last.value.result)
            : Effect.succeed(last.value.result)
        )
      ) as Effect.Effect<unknown, unknown>
  }
}
