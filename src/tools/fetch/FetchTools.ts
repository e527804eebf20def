/**
 * A tool that reaches the web: `fetch_url`.
 *
 * It changes nothing, and it can carry a secret out in a URL: it declares `Tool.OpenWorld`, so that a policy asks
 * unless it allows the host, as in `fetch_url(api.example.com)`. Hosts that are not public cannot be reached unless
 * `allowPrivate` names them, whatever the policy allows.
 *
 * **Example** (Giving a model two hosts)
 *
 * ```ts
 * import { Layer } from "effect"
 * import { LocalExecutor } from "effect-tool-executor"
 * import { FetchTools } from "effect-tool-executor/tools"
 *
 * const { layer, toolkit } = FetchTools.make({ allowPrivate: ["localhost"] })
 *
 * export const executor = LocalExecutor.layer(toolkit, {
 *   policy: { allow: ["fetch_url(api.example.com)", "fetch_url(localhost:3000)"] }
 * }).pipe(Layer.provide(layer))
 * ```
 */
import type * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import { ConfigurationError, type Problem } from "../../core/vocabulary/ConfigurationError.ts"
import * as FetchUrl from "./FetchUrl.ts"
import * as HttpExchange from "./HttpExchange.ts"
import * as PublicAddress from "./PublicAddress.ts"

/** What may be reached, and how much of it is given. */
export interface Options {
  /**
   * Private hosts that may be reached: an address or a range such as `10.0.0.0/8` under any name, or a name such as
   * `localhost` with any address. Default: none.
   */
  readonly allowPrivate?: ReadonlyArray<string> | undefined
  /** How many bytes of a body are given at most, decompressed; a call may ask for fewer. Default: 1,000,000. */
  readonly maxBytes?: number | undefined
  /**
   * How long looking up a name and connecting may take together. What limits the whole call is the executor's limit of
   * the tool, 60 seconds unless the host sets another. Default: 10 seconds.
   */
  readonly connectTimeout?: Duration.Input | undefined
  /** Gives the addresses of a name, all of which are checked. Default: the operating system does. */
  readonly lookup?: ((hostname: string) => Effect.Effect<ReadonlyArray<string>, unknown>) | undefined
  /** Certificates of the authorities to trust instead of Node's own, as PEM. */
  readonly authorities?: string | undefined
}

/** The tools. */
export const toolkit = Toolkit.make(FetchUrl.tool)

/** Handlers of the tools. */
export type Handlers = Tool.HandlersFor<typeof toolkit.tools>

/**
 * Layer with the handlers of the tools.
 *
 * Fails with `ConfigurationError` if an entry of `allowPrivate` is not a host, address or range, `maxBytes` is not a
 * whole number of 1 or more, or `connectTimeout` is not a finite duration above zero.
 */
export const layer = (options: Options = {}): Layer.Layer<Handlers, ConfigurationError> =>
  toolkit.toLayer(Effect.map(check(options), (checked) => toolkit.of({ fetch_url: FetchUrl.make(checked) })))

/** Makes the toolkit and its handlers. */
export const make = (options: Options = {}): {
  readonly toolkit: typeof toolkit
  readonly layer: Layer.Layer<Handlers, ConfigurationError>
} => ({ toolkit, layer: layer(options) })

const check = (options: Options): Effect.Effect<FetchUrl.Options, ConfigurationError> => {
  const { allowPrivate = [], authorities, lookup = HttpExchange.systemLookup, maxBytes = 1_000_000 } = options
  const reach = PublicAddress.reach(allowPrivate)
  const connectTimeout = Option.getOrUndefined(
    Option.filter(
      Duration.fromInput(options.connectTimeout ?? "10 seconds"),
      (it) => Duration.isFinite(it) && Duration.toMillis(it) > 0
    )
  )
  const problems: ReadonlyArray<Problem> = [
    ...Result.isFailure(reach) ? reach.failure : [],
    ...Number.isSafeInteger(maxBytes) && maxBytes > 0
      ? []
      : [{ path: "maxBytes", problem: `it is ${maxBytes}`, expected: "a whole number of bytes, 1 or more" }],
    ...connectTimeout === undefined
      ? [{
        path: "connectTimeout",
        problem: "is not a duration above zero with an end",
        expected: "a duration such as \"10 seconds\""
      }]
      : []
  ]
  return Result.isFailure(reach) || connectTimeout === undefined || problems.length > 0
    ? new ConfigurationError({ subject: "FetchTools", problems })
    : Effect.succeed({ authorities, connectTimeout, lookup, maxBytes, reach: reach.success })
}
