/** What a config file says beside the policy: a reviewer, which looks at calls before people do, and a shadow policy. */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { AtLeastOne, Span } from "../../assembly/ConfigFields.ts"
import * as Policy from "../../core/gates/Policy.ts"
import * as ShadowPolicy from "../../core/gates/ShadowPolicy.ts"
import type { ConfigurationError } from "../../core/vocabulary/ConfigurationError.ts"
import * as Reviewer from "../../review/Reviewer.ts"
import type { CliFailure } from "../CliFailure.ts"

const optional = Schema.optionalKey

/** Fields of a config file. */
export const fields = {
  reviewer: optional(Schema.Struct({
    model: Schema.NonEmptyString.annotate({ description: "PROVIDER:NAME, such as anthropic:claude-haiku-4-5" }),
    baseUrl: optional(Schema.NonEmptyString).annotate({ description: "URL of the provider's API" }),
    timeout: optional(Span).annotate({ description: "How long a review may take; default 20 seconds" }),
    concurrency: optional(AtLeastOne).annotate({ description: "Concurrent reviews; default 8" }),
    breaker: optional(Schema.Union([
      Schema.Literal(false),
      Schema.Struct({ inARow: optional(AtLeastOne), denials: optional(AtLeastOne), window: optional(Span) })
    ])).annotate({ description: "When repeated denials in one conversation send everything to people" }),
    instructions: optional(Schema.NonEmptyString).annotate({
      description: "What the reviewer is told in addition to the built-in instructions"
    })
  })).annotate({
    description: "A model that looks at calls which need approval; review in the policy says which ones it may decide"
  }),
  shadow: optional(Schema.Struct({
    name: Schema.NonEmptyString,
    policy: Policy.Policy
  })).annotate({ description: "A policy that decides nothing: events and journal say what it would decide" })
}

const Fields = Schema.Struct(fields)

/** Makes the layer of both; fails with exit code 2 where the model of the reviewer cannot be had. */
export const layerOf = Effect.fnUntraced(function*(
  { reviewer, shadow }: typeof Fields.Type
): Effect.fn.Return<Layer.Layer<never, ConfigurationError>, CliFailure> {
  const review: Layer.Layer<never, ConfigurationError> = reviewer === undefined
    ? Layer.empty
    : yield* reviewerOf(reviewer)
  return Layer.merge(review, shadow === undefined ? Layer.empty : ShadowPolicy.layer(shadow))
})

const reviewerOf = Effect.fnUntraced(function*(
  { baseUrl, model: name, ...options }: NonNullable<typeof Fields.Type["reviewer"]>
): Effect.fn.Return<Layer.Layer<Reviewer.Reviewer, ConfigurationError>, CliFailure> {
  // loaded only where it is used: other commands do without models
  const AgentModel = yield* Effect.promise(() => import("../agent/AgentModel.ts"))
  const model = yield* AgentModel.make({ name, baseUrl })
  // durations were checked when the file was decoded
  const layer = Reviewer.layer({ ...options as Reviewer.ModelOptions, model: name }).pipe(Layer.provide(model.layer))
  return Layer.effect(
    Reviewer.Reviewer,
    Effect.map(Reviewer.Reviewer, (it) => ({
      ...it,
      // a server may repeat the key in what it says, and failures are logged
      review: (request) =>
        Effect.catchCause(
          it.review(request),
          (cause) =>
            Cause.hasInterrupts(cause) ? Effect.failCause(cause) : Effect.fail(model.withoutKey(Cause.pretty(cause)))
        )
    }))
  ).pipe(Layer.provide(layer))
})
