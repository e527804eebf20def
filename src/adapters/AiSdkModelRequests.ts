/**
 * Requests to one AI SDK model. `AiSdkModelCall` writes the options, `AiSdkModelResponse` reads answers, and
 * `AiSdkModelError` reads errors.
 */
import * as AiError from "effect/ai/AiError"
import type * as LanguageModel from "effect/ai/LanguageModel"
import type * as Response from "effect/ai/Response"
import * as Telemetry from "effect/ai/Telemetry"
import * as Arr from "effect/Array"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Pull from "effect/Pull"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Shape from "../wire/Shape.ts"
import * as ModelCall from "./AiSdkModelCall.ts"
import * as ModelError from "./AiSdkModelError.ts"
import * as Metadata from "./AiSdkModelMetadata.ts"
import type { ResultFiles } from "./AiSdkModelPrompt.ts"
import * as ModelResponse from "./AiSdkModelResponse.ts"
import * as Versions from "./AiSdkModelVersions.ts"

/** A callable model: its options are written for its version, and answers of any version are read. */
export interface Callable {
  readonly specificationVersion: Versions.Version
  readonly provider: string
  readonly modelId: string
  readonly doGenerate: (options: object) => PromiseLike<Generated>
  readonly doStream: (options: object) => PromiseLike<{ readonly stream: ReadableStream<ModelResponse.StreamPart> }>
}

export interface Generated extends Metadata.Finish {
  readonly content: ReadonlyArray<ModelResponse.Content>
  readonly response?: Metadata.ResponseMetadata
  readonly warnings?: ReadonlyArray<unknown>
}

/** Host options of all requests. */
export interface Settings {
  readonly said: ModelCall.ModelOptions
  readonly codecTransformer: LanguageModel.CodecTransformer
  readonly resultFiles: ResultFiles
}

export class Requests {
  private readonly model: Callable
  private readonly settings: Settings
  /** Recent warnings, each logged once. */
  private readonly told = new Set<string>()

  constructor(model: Callable, settings: Settings) {
    this.model = model
    this.settings = settings
  }

  generate(request: LanguageModel.ProviderOptions): Effect.Effect<Array<Response.PartEncoded>, AiError.AiError> {
    const method = "generateText"
    return Effect.gen({ self: this }, function*() {
      const call = yield* this.callOf(method, request)
      const generated = yield* attempt(method, (abortSignal) => this.model.doGenerate({ ...call, abortSignal }))
      const reader = new ModelResponse.ResponseReader(this.model, request.tools)
      const parts = yield* read(method, () => [
        ...generated.content.flatMap((part) => reader.content(part)),
        ...generated.response === undefined ? [] : [Metadata.response(generated.response)],
        Metadata.finish(this.model.provider, generated)
      ])
      yield* this.warn(generated.warnings)
      annotate(request, parts)
      const failure = this.failureOf(method, generated)
      if (failure !== undefined) return yield* failure
      return parts
    })
  }

  stream(request: LanguageModel.ProviderOptions): Stream.Stream<Response.StreamPartEncoded, AiError.AiError> {
    const method = "streamText"
    return Stream.unwrap(Effect.gen({ self: this }, function*() {
      const call = yield* this.callOf(method, request)
      const source = yield* this.open(method, call)
      const reader = new ModelResponse.ResponseReader(this.model, request.tools)
      let ended: Said | undefined
      const take = (part: ModelResponse.StreamPart): Said => {
        if (part.type === "error") return fail(method, part.error)
        if (part.type === "stream-start") return Effect.andThen(this.warn(part.warnings), pull)
        // report the end with its usage before the failure
        if (part.type === "finish") ended = this.failureOf(method, part) ?? next
        const parts = reader.stream(part)
        annotate(request, parts)
        return Arr.isReadonlyArrayNonEmpty(parts) ? Effect.succeed(parts) : pull
      }
      const next: Said = Effect.flatMap(
        attempt(method, () => source.read()),
        ({ done, value }) => {
          if (!done) return Effect.flatten(read(method, () => take(value)))
          return ended === undefined ? failFor(method, ModelError.brokenOff) : Cause.done()
        }
      )
      const pull: Said = Effect.suspend(() => ended ?? next)
      return Stream.fromPull(Effect.succeed(pull))
    }))
  }

  /** Opens a stream that is cancelled when the scope closes. */
  private open(
    method: string,
    call: object
  ): Effect.Effect<ReadableStreamDefaultReader<ModelResponse.StreamPart>, AiError.AiError, Scope.Scope> {
    return Effect.gen({ self: this }, function*() {
      const abortSignal = yield* Effect.abortSignal
      const opened = yield* attempt(method, () =>
        this.model.doStream({ ...call, abortSignal }).then((opened) => {
          // it arrived after the abort, from a model that ignores signals
          if (abortSignal.aborted) leave(opened.stream)
          return opened
        }))
      return yield* Effect.acquireRelease(
        read(method, () => opened.stream.getReader()),
        (source) => Effect.sync(() => leave(source))
      )
    })
  }

  /** The call options in the model's version, without a signal. */
  private callOf(method: string, request: LanguageModel.ProviderOptions): Effect.Effect<object, AiError.AiError> {
    const { modelId, provider, specificationVersion } = this.model
    const { codecTransformer, resultFiles } = this.settings
    return Effect.gen({ self: this }, function*() {
      const said = ModelCall.merge(this.settings.said, yield* ModelCall.ModelOptions)
      if (said.reasoning !== undefined && specificationVersion !== "v4") {
        yield* this.warn([{ type: "unsupported", feature: "reasoning", details: "use the options of the provider" }])
      }
      Telemetry.addGenAIAnnotations(request.span, {
        provider: { name: provider },
        operation: { name: "chat" },
        request: {
          model: modelId,
          temperature: said.temperature,
          topK: said.topK,
          topP: said.topP,
          maxTokens: said.maxOutputTokens,
          stopSequences: said.stopSequences,
          frequencyPenalty: said.frequencyPenalty,
          presencePenalty: said.presencePenalty,
          seed: said.seed
        }
      })
      const options = yield* Effect.try({
        try: () => ModelCall.write({ provider, modelId, resultFiles }, said, request, codecTransformer),
        catch: (error) => unsupportedSchema(method, error)
      })
      return Versions.write(specificationVersion, options)
    })
  }

  /** The failure an answer's end reports, if any. */
  private failureOf(method: string, finish: Metadata.Finish): Effect.Effect<never, AiError.AiError> | undefined {
    const { provider } = this.model
    const word = Metadata.wordOf(provider, finish.finishReason)
    const reason = ModelError.endReason(Metadata.finish(provider, finish).reason, word)
    return reason === undefined ? undefined : failFor(method, reason)
  }

  private warn(warnings: unknown): Effect.Effect<void> {
    const { modelId, provider } = this.model
    return Effect.forEach(Array.isArray(warnings) ? warnings.map(warningText) : [], (text) => {
      if (this.told.has(text)) return Effect.void
      // warnings with ids in them must not pile up
      if (this.told.size === mostTold) this.told.clear()
      this.told.add(text)
      return Effect.logWarning(`${provider} ${modelId}: ${text}`)
    }, { discard: true })
  }
}

const mostTold = 1_000

type Said = Pull.Pull<Arr.NonEmptyReadonlyArray<Response.StreamPartEncoded>, AiError.AiError>

const failFor = (method: string, reason: AiError.AiErrorReason) =>
  Effect.fail(AiError.make({ module: "AiSdk", method, reason }))

const fail = (method: string, error: unknown) =>
  Effect.flatMap(Clock.currentTimeMillis, (now) => failFor(method, ModelError.reasonOf(error, now)))

/** Runs a promise; a rejection becomes the failure. */
const attempt = <A>(
  method: string,
  evaluate: (signal: AbortSignal) => PromiseLike<A>
): Effect.Effect<A, AiError.AiError> =>
  Effect.catch(
    Effect.tryPromise({ try: evaluate, catch: (error): { readonly error: unknown } => ({ error }) }),
    ({ error }) => fail(method, error)
  )

/** Reads an answer; throws if it does not follow the specification. */
const read = <A>(method: string, evaluate: () => A): Effect.Effect<A, AiError.AiError> =>
  Effect.try({
    try: evaluate,
    catch: (error) =>
      AiError.make({
        module: "AiSdk",
        method,
        reason: new AiError.InvalidResponseError({ description: `what the model gave cannot be read (${error})` })
      })
  })

/** Not awaited, because a hanging stream would delay interruption. */
const leave = (stream: { readonly cancel: () => Promise<void> }): void => {
  stream.cancel().catch(() => undefined)
}

const unsupportedSchema = (method: string, error: unknown): AiError.AiError =>
  AiError.make({
    module: "AiSdk",
    method,
    reason: new AiError.UnsupportedSchemaError({ description: error instanceof Error ? error.message : String(error) })
  })

const annotate = (
  { span }: LanguageModel.ProviderOptions,
  parts: ReadonlyArray<Response.PartEncoded | Response.StreamPartEncoded>
): void => {
  for (const part of parts) {
    if (part.type === "response-metadata") {
      Telemetry.addGenAIAnnotations(span, { response: { id: part.id, model: part.modelId } })
    }
    if (part.type === "finish") {
      Telemetry.addGenAIAnnotations(span, {
        response: { finishReasons: [part.reason] },
        usage: { inputTokens: part.usage.inputTokens.total, outputTokens: part.usage.outputTokens.total }
      })
    }
  }
}

/** v2 names a setting or a tool, v3 and v4 a feature. */
const warningText = (warning: unknown): string => {
  const of = (key: string): string | undefined => {
    const value = Shape.own(warning, key)
    return typeof value === "string" ? value : undefined
  }
  const type = of("type") ?? "other"
  const what = of("feature") ?? of("setting") ??
    (type === "unsupported-tool" ? String(Shape.own(Shape.own(warning, "tool"), "name")) : undefined)
  const more = of("details") ?? of("message")
  if (what === undefined) return more ?? type
  return `${type.replaceAll("-", " ")}: ${what}${more === undefined ? "" : ` (${more})`}`
}
