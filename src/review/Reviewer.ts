/**
 * Gate 12, before people: a second model that looks at the calls which need approval.
 *
 * It decides only where the policy lets it (`review`), about one call at a time. Whatever it cannot decide, or not in
 * time, goes to the approvers. It never sees outputs of tools.
 */
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Model from "effect/ai/Model"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { type Limits, Reviewer, type Verdict } from "../core/gates/Reviewer.ts"
import type { ReviewRequest } from "../core/gates/ReviewRequest.ts"
import { type ConfigurationError, readOptions } from "../core/vocabulary/ConfigurationError.ts"
import { type BreakerLimits, ReviewBreaker } from "./ReviewBreaker.ts"
import * as ReviewPrompt from "./ReviewPrompt.ts"

export { Reviewer, Verdict } from "../core/gates/Reviewer.ts"
export type { Breaker, Limits, ReviewRequest } from "../core/gates/Reviewer.ts"

export interface Options {
  /** How long a review may take before a person is asked. Default 20 seconds. */
  readonly timeout?: Duration.Input | undefined
  /** How many calls of one executor are reviewed at once; the others wait. Default 8. */
  readonly concurrency?: number | undefined
  /**
   * When denials in one conversation send everything in it to people: after `inARow` reviews in a row that denied
   * (default 3), or `denials` (default 20) within `window` (default 1 hour). A person's approval ends that, and so does
   * a `window` without denials. `false`: never.
   */
  readonly breaker?:
    | {
      readonly inARow?: number | undefined
      readonly denials?: number | undefined
      readonly window?: Duration.Input | undefined
    }
    | false
    | undefined
  /** The model that reviews, for the record. Default: the name that its layer provides. */
  readonly model?: string | undefined
}

/** Options of a reviewer that is a language model. */
export interface ModelOptions extends Options {
  /** What the host wants reviewed, in its own words, in addition to the built-in instructions. */
  readonly instructions?: string | undefined
}

/** Creates a reviewer around a function. */
export const make = Effect.fnUntraced(function*<R>(
  review: (request: ReviewRequest) => Effect.Effect<Verdict, unknown, R>,
  options: Options = {}
): Effect.fn.Return<Reviewer["Service"], ConfigurationError, R> {
  const { breaker, ...limits } = yield* limitsOf(options)
  const context = yield* Effect.context<R>()
  return {
    model: options.model ?? "a function",
    review: (request) => Effect.provideContext(Effect.suspend(() => review(request)), context),
    limits,
    breaker: () => new ReviewBreaker(breaker)
  }
})

/**
 * Layer that reviews with the language model in the context, which may be another model than the agent's.
 *
 * **Example** (Reviewing commands with a smaller model)
 *
 * ```ts
 * import { Layer } from "effect"
 * import type { LanguageModel } from "effect/ai"
 * import { Permissions, Reviewer } from "effect-tool-executor"
 *
 * export const gates = (small: Layer.Layer<LanguageModel.LanguageModel>) =>
 *   Layer.merge(
 *     Permissions.layer({ ask: ["run_command"], review: { allow: ["run_command"], deny: ["run_command"] } }),
 *     Reviewer.layer({ timeout: "10 seconds" }).pipe(Layer.provide(small))
 *   )
 * ```
 */
export const layer = (
  options: ModelOptions = {}
): Layer.Layer<Reviewer, ConfigurationError, LanguageModel.LanguageModel> =>
  Layer.effect(
    Reviewer,
    Effect.gen(function*() {
      const model = yield* LanguageModel.LanguageModel
      const name = options.model ?? Option.getOrUndefined(yield* Effect.serviceOption(Model.ModelName))
      return yield* make((request) => ask(model, request, options.instructions), {
        ...options,
        model: name ?? "a language model"
      })
    })
  )

/** Layer that reviews with a function. */
export const layerFunction = <R = never>(
  review: (request: ReviewRequest) => Effect.Effect<Verdict, unknown, R>,
  options?: Options
): Layer.Layer<Reviewer, ConfigurationError, R> => Layer.effect(Reviewer, make(review, options))

export const defaults = {
  timeout: "20 seconds",
  concurrency: 8,
  breaker: { inARow: 3, denials: 20, window: "1 hour" }
} as const

const limitsOf = (
  { breaker = {}, concurrency, timeout }: Options
): Effect.Effect<Limits & { readonly breaker: BreakerLimits | undefined }, ConfigurationError> =>
  readOptions("Reviewer", (read) => ({
    timeoutMillis: read.millis("timeout", timeout ?? defaults.timeout),
    concurrency: read.count("concurrency", concurrency ?? defaults.concurrency, 1),
    breaker: breaker === false ? undefined : {
      inARow: read.count("breaker.inARow", breaker.inARow ?? defaults.breaker.inARow, 1),
      denials: read.count("breaker.denials", breaker.denials ?? defaults.breaker.denials, 1),
      windowMillis: read.millis("breaker.window", breaker.window ?? defaults.breaker.window)
    }
  }))

/** The reason comes first: a model that has to give reasons judges better. */
const Written = Schema.Struct({
  reason: Schema.String.annotate({ description: "One or two short sentences for the person who may have to decide" }),
  verdict: Schema.Literals(["allow", "person", "deny"])
})

const ask = (
  model: LanguageModel.LanguageModel,
  request: ReviewRequest,
  instructions: string | undefined
): Effect.Effect<Verdict, unknown> => {
  const prompt = ReviewPrompt.of(request, instructions)
  return prompt === undefined
    ? Effect.succeed({ _tag: "Person", reason: "the call is too long to be reviewed" })
    : Effect.flatMap(
      model.generateObject({ prompt, schema: Written, objectName: "verdict" }),
      ({ text, value: { reason, verdict } }) =>
        repeatsKey(text)
          ? Effect.fail("the answer has two values for one key")
          : Effect.succeed({ _tag: tags[verdict], reason })
    )
}

/** Whether a JSON text gives a key twice: its reader sees only the last value. */
const repeatsKey = (json: string): boolean => {
  const keys = Array.from(json.matchAll(/("(?:[^"\\]|\\.)*")(\s*:)?/g))
    .flatMap(([, key, colon]) => colon === undefined ? [] : [JSON.parse(key!) as unknown])
  return new Set(keys).size < keys.length
}

const tags = { allow: "Allow", person: "Person", deny: "Deny" } as const
