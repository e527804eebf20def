/**
 * Layers whose options come from the configuration, such as environment variables.
 *
 * **Example** (Reading the sizes of pools from the environment)
 *
 * ```ts
 * import { Config } from "effect"
 * import { LayerConfig, Pools } from "effect-tool-executor"
 *
 * export const pools = LayerConfig.from(Pools.layer, {
 *   read: Config.withDefault(Config.Int("POOL_READ"), 20)
 * })
 * ```
 */
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"

/** Builds a layer from options read from the configuration. Fails with `ConfigError` if one is missing or malformed. */
export const from = <O, A, E, R>(
  layer: (options: O) => Layer.Layer<A, E, R>,
  options: Config.Wrap<NonNullable<O>>
): Layer.Layer<A, E | Config.ConfigError, R> => Layer.unwrap(Effect.map(Config.unwrap(options), layer))
