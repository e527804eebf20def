/** A gate's layer that is alone: where another one surrounds it, that one would have no effect, and a test none of its own. */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { ConfigurationError } from "../vocabulary/ConfigurationError.ts"

/** Fails if a layer of the gate surrounds the one that is built. */
export const alone = <I, S>(key: Context.Key<I, S>, name: string): Effect.Effect<void, ConfigurationError> =>
  Effect.flatMap(
    Effect.serviceOption(key),
    Option.match({
      onNone: () => Effect.void,
      onSome: () =>
        new ConfigurationError({
          subject: name,
          problems: [{
            path: name,
            problem: `a ${name} layer surrounds an executor that has its own, so it would have no effect`,
            expected: `one ${name} layer: leave out the inner one, or provide the other in its place`
          }]
        })
    })
  )
