import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"

/** The service in the context, or else one of a layer that is built for this use only. */
export const serviceOr = <I, S>(
  key: Context.Key<I, S>,
  otherwise: Layer.Layer<I>
): Effect.Effect<S, never, Scope.Scope> =>
  Effect.flatMap(
    Effect.serviceOption(key),
    Option.match({
      onSome: Effect.succeed,
      onNone: () => Effect.map(Layer.build(Layer.fresh(otherwise)), (context) => Context.get(context, key))
    })
  )
