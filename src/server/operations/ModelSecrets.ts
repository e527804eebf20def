/**
 * Removes secrets from the errors of a model at the source, so that neither events nor journals, logs, spans or callers
 * of a sub-agent get them. Some providers repeat a wrong key.
 */
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Response from "effect/ai/Response"
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Redact from "../../internal/secrets/index.ts"

/** The model in a context, whose errors are free of these secrets and of anything that looks like a key. */
export const removed = (
  model: Context.Context<LanguageModel.LanguageModel>,
  secrets: ReadonlyArray<Redacted.Redacted<string>>
): Context.Context<LanguageModel.LanguageModel> => {
  const known = secrets.map(Redacted.value).filter((it) => it !== "")
  const scrub = (text: string) => Redact.usual.scrub(text, known)
  /** A defect may have a secret, too, such as a key that is no valid header. */
  const inCause = (cause: Cause.Cause<unknown>): Cause.Cause<unknown> =>
    Cause.fromReasons(cause.reasons.map((it) => {
      if (Cause.isFailReason(it)) return Cause.makeFailReason(scrubbed(it.error, scrub))
      return Cause.isDieReason(it) ? Cause.makeDieReason(scrubbed(it.defect, scrub)) : it
    }))
  const service = Context.get(model, LanguageModel.LanguageModel)
  // the service is generic in its options, which nothing here reads
  const untyped = service as unknown as Untyped
  const wrapped: Untyped = {
    ...untyped,
    generateText: (options) =>
      Effect.catchCause(Effect.suspend(() => untyped.generateText(options)), (it) => Effect.failCause(inCause(it))),
    generateObject: (options) =>
      Effect.catchCause(Effect.suspend(() => untyped.generateObject(options)), (it) => Effect.failCause(inCause(it))),
    streamText: (options) =>
      Stream.suspend(() => untyped.streamText(options)).pipe(
        Stream.map((part) => part.type === "error" ? { ...part, error: scrubbed(part.error, scrub) } : part),
        Stream.catchCause((it) => Stream.failCause(inCause(it)))
      )
  }
  return Context.add(model, LanguageModel.LanguageModel, wrapped as unknown as typeof service)
}

interface Untyped {
  readonly generateText: (options: unknown) => Effect.Effect<unknown, unknown>
  readonly generateObject: (options: unknown) => Effect.Effect<unknown, unknown>
  readonly streamText: (options: unknown) => Stream.Stream<Response.AnyPart, unknown>
}

const encode = Schema.encodeOption(AiError.AiError)
const decode = Schema.decodeUnknownOption(AiError.AiError)

const scrubbed = (error: unknown, scrub: (text: string) => string): unknown => {
  if (AiError.isAiError(error)) {
    return Option.getOrElse(
      Option.flatMap(encode(error), (json) => decode(Redact.mapTexts(json, scrub))),
      () =>
        AiError.make({
          module: error.module,
          method: error.method,
          reason: new AiError.UnknownError({ description: scrub(error.message) })
        })
    )
  }
  if (!(error instanceof Error)) return Redact.mapTexts(error, scrub)
  const { message, name } = error
  return Object.assign(new Error(scrub(message)), { name: scrub(name) })
}
