/**
 * A language model whose answers were recorded from a provider once, and are replayed in tests.
 *
 * `record` wraps the layer of a provider's model and writes every exchange to a file, `replay` answers from the file,
 * and `auto` replays if the file exists and records otherwise.
 *
 * A request is matched by its content, so requests of concurrent sub-agents may come in any order. The file never holds
 * headers, keys or secrets that redaction recognises.
 */
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import { ModelName, ProviderName } from "effect/ai/Model"
import type * as Response from "effect/ai/Response"
import * as Config from "effect/Config"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import * as NodeFs from "node:fs/promises"
import * as NodePath from "node:path"
import { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import * as Recording from "./Recording.ts"

/** What a recorded model was asked. */
export class RecordedModel extends Context.Service<RecordedModel, {
  /** Recorded exchanges that were not replayed yet. */
  readonly left: Effect.Effect<number>
  /** Requests that are not in the recording, each with the first difference. */
  readonly unexpected: Effect.Effect<ReadonlyArray<string>>
}>()("effect-tool-executor/testing/RecordedModel") {}

export interface Options {
  /**
   * Texts that must not be in the file, such as an account number. Keys of providers, passwords and tokens are
   * recognised without it.
   */
  readonly secrets?: ReadonlyArray<string> | undefined
  /**
   * Parts of prompts that differ from run to run, such as ids and dates. They are replaced before a request is written
   * or compared. Default: none.
   */
  readonly volatile?: ReadonlyArray<RegExp> | undefined
}

/** What a recorded model provides: the model with its names, and `RecordedModel`. */
export type Provided = LanguageModel.LanguageModel | ProviderName | ModelName | RecordedModel

/**
 * Records a provider's model: asks it, and writes each exchange to the file once it is complete.
 *
 * The file is replaced as a whole, so it never holds half an exchange. Answers that break off and errors that may be
 * retried are not recorded; other errors are.
 */
export const record = (file: string, options: Options = {}) =>
<E, R>(
  model: Layer.Layer<LanguageModel.LanguageModel, E, R>
): Layer.Layer<Provided, E, R> =>
  Layer.effectContext(Effect.gen(function*() {
    const context = yield* Layer.build(model)
    return yield* recording(file, hiddenOf(options), context)
  }))

/**
 * Replays a file. A request that the file does not have fails with an error that shows the first difference to the
 * closest recorded request. Each exchange is replayed once; equal requests get their answers in order.
 */
export const replay = (file: string, options: Options = {}): Layer.Layer<Provided, ConfigurationError> =>
  Layer.effectContext(replaying(file, hiddenOf(options)))

/**
 * Replays the file if it exists; otherwise records it. With the environment variable `CI` set, a missing file is an
 * error. The model's layer is only built to record, so replaying needs no key.
 */
export const auto = (file: string, options: Options = {}) =>
<E, R>(
  model: Layer.Layer<LanguageModel.LanguageModel, E, R>
): Layer.Layer<Provided, E | ConfigurationError, R> =>
  Layer.unwrap(Effect.gen(function*() {
    const exists = yield* Effect.promise(() => NodeFs.access(file).then(() => true, () => false))
    // replaying says how to record a missing file
    const layer: Layer.Layer<Provided, E | ConfigurationError, R> = exists || (yield* isCi)
      ? replay(file, options)
      : record(file, options)(model)
    return layer
  }))

// Utilities

const hiddenOf = ({ secrets = [], volatile = [] }: Options): Recording.Hidden => ({ secrets, volatile })

const isCi = Effect.map(
  Effect.orElseSucceed(Config.option(Config.String("CI")), Option.none<string>),
  Option.exists((value) => !["", "0", "false"].includes(value.toLowerCase()))
)

type Names = Pick<Recording.Recording, "provider" | "model">

const provided = (
  { model: name, provider }: Names,
  model: LanguageModel.LanguageModel,
  service: Context.Service.Shape<typeof RecordedModel>
): Context.Context<Provided> =>
  Context.empty().pipe(
    Context.add(LanguageModel.LanguageModel, model),
    Context.add(ProviderName, provider),
    Context.add(ModelName, name),
    Context.add(RecordedModel, service)
  )

const recording = Effect.fnUntraced(function*(
  file: string,
  hidden: Recording.Hidden,
  context: Context.Context<LanguageModel.LanguageModel>
) {
  const inner = Context.get(context, LanguageModel.LanguageModel)
  const names: Names = {
    provider: Option.getOrElse(Context.getOption(context, ProviderName), () => "unknown"),
    model: Option.getOrElse(Context.getOption(context, ModelName), () => "unknown")
  }
  const exchanges: Array<Recording.Exchange> = []
  const turns = yield* Semaphore.make(1)
  const add = (exchange: Recording.Exchange) =>
    Effect.suspend(() => {
      exchanges.push(exchange)
      return writeWhole(file, Recording.write({ ...names, exchanges }, hidden))
    }).pipe(turns.withPermits(1), Effect.uninterruptible)
  const addError = (request: Recording.Request) => (error: AiError.AiError) =>
    isOfTheMoment(error) ? Effect.void : add({ ...request, fails: reasonOf(error) })

  const model = yield* LanguageModel.make({
    generateText: Effect.fnUntraced(function*(options) {
      const request = Recording.requestOf("generateText", options, hidden)
      const content = yield* Effect.tapError(contentOf(inner, options), addError(request))
      yield* add({ ...request, response: Recording.answerOf(content) })
      return Recording.encoded(content) as Array<Response.PartEncoded>
    }),
    streamText: (options) =>
      Stream.suspend(() => {
        const request = Recording.requestOf("streamText", options, hidden)
        const parts: Array<unknown> = []
        const stream = inner.streamText(innerOptions(options)) as unknown as Stream.Stream<unknown, AiError.AiError>
        return stream.pipe(
          Stream.mapArray((some) => {
            parts.push(...some)
            return Recording.encoded(some) as never
          }),
          Stream.onError((cause) => {
            const error = cause.reasons.find((it) => it._tag === "Fail")?.error
            return error === undefined ? Effect.void : Effect.ignore(addError(request)(error))
          }),
          Stream.concat(Stream.fromEffectDrain(Effect.suspend(() =>
            isWhole(parts) ? add({ ...request, response: Recording.answerOf(parts) }) : Effect.void
          )))
        ) as Stream.Stream<Response.StreamPartEncoded, AiError.AiError>
      })
  })
  return provided(names, model, { left: Effect.succeed(0), unexpected: Effect.succeed([]) })
})

const replaying = Effect.fnUntraced(function*(file: string, hidden: Recording.Hidden) {
  const wrong = (problem: string) =>
    new ConfigurationError({
      subject: "RecordedModel",
      problems: [{ path: file, problem, expected: `a recording. ${howToRecord}` }]
    })
  const text = yield* Effect.tryPromise({
    try: () => NodeFs.readFile(file, "utf8"),
    catch: (cause) => wrong(`it cannot be read: ${cause instanceof Error ? cause.message : String(cause)}`)
  })
  const read = Recording.read(text)
  if (Result.isFailure(read)) return yield* wrong(read.failure.message)
  const { exchanges, ...names } = read.success
  const left = exchanges.map((exchange, index) => ({ exchange, number: index + 1 }))
  const unexpected: Array<string> = []
  let requests = 0

  const take = (method: Recording.Request["method"], options: LanguageModel.ProviderOptions) =>
    Effect.suspend((): Effect.Effect<ReadonlyArray<Response.AllPartsEncoded>, AiError.AiError> => {
      const request = Recording.redacted(Recording.requestOf(method, options, hidden))
      requests++
      const at = left.findIndex((it) => Recording.difference(it.exchange, request) === undefined)
      if (at === -1) {
        const message = [
          `Request ${requests} to the recorded model is not in ${file}.`,
          ...reasonFor(request, exchanges, left),
          `If the change is intended, delete the file. ${howToRecord}`
        ].join("\n")
        unexpected.push(message)
        return Effect.fail(errorOf(method, new AiError.InvalidRequestError({ description: message })))
      }
      const [{ exchange: { fails, response = [] } }] = left.splice(at, 1) as [typeof left[number]]
      return fails === undefined
        ? Effect.sync(() => Recording.partsOf(response))
        : Effect.fail(errorOf(method, toReason(fails)))
    })

  const model = yield* LanguageModel.make({
    generateText: (options) => Effect.map(take("generateText", options), (it) => it as Array<Response.PartEncoded>),
    streamText: (options) =>
      Stream.unwrap(Effect.map(
        take("streamText", options),
        // one part at a time, as over a network
        (it) => Stream.fromIterable(it as ReadonlyArray<Response.StreamPartEncoded>, { chunkSize: 1 })
      ))
  })
  return provided(names, model, {
    left: Effect.sync(() => left.length),
    unexpected: Effect.sync(() => [...unexpected])
  })
})

const howToRecord = "To record, run the test with RecordedModel.auto or RecordedModel.record and the provider's key."

/** Why no exchange is left for a request, in lines. */
const reasonFor = (
  request: Recording.Request,
  all: ReadonlyArray<Recording.Exchange>,
  left: ReadonlyArray<{ readonly exchange: Recording.Exchange; readonly number: number }>
): ReadonlyArray<string> => {
  const equal = all.filter((it) => Recording.difference(it, request) === undefined).length
  if (equal > 0) return [`It was recorded ${equal === 1 ? "once" : `${equal} times`}, and is made once more.`]
  const found = left.flatMap(({ exchange, number }) => {
    const difference = Recording.difference(exchange, request)
    return difference === undefined ? [] : [{ number, difference, common: commonOf(exchange, request) }]
  })
  const [closest] = found.sort((one, other) => other.common - one.common)
  return closest === undefined
    ? [`All ${all.length} recorded exchanges have been replayed.`]
    : [`The closest one is exchange ${closest.number}.`, ...Recording.describe(closest.difference)]
}

/** How many messages two requests have in common from the start. */
const commonOf = (one: Recording.Request, other: Recording.Request): number => {
  const prompt = (it: Recording.Request, length: number): Recording.Request => ({
    ...it,
    prompt: it.prompt.slice(0, length)
  })
  const same = { tools: [], toolChoice: null, object: null, method: "streamText" } as const
  let common = 0
  while (
    common < one.prompt.length && common < other.prompt.length &&
    Recording.difference({ ...prompt(one, common + 1), ...same }, { ...prompt(other, common + 1), ...same }) ===
      undefined
  ) common++
  return common
}

/** Asks the provider's model the same; its calls are resolved around the recording. */
const innerOptions = ({ prompt, toolChoice, tools }: LanguageModel.ProviderOptions) =>
  ({
    prompt,
    ...tools.length === 0 ? {} : {
      toolkit: {
        tools: Object.fromEntries(tools.map((it) => [it.name, it])),
        handle: () => Effect.die(new Error("calls are resolved around the recording"))
      },
      toolChoice
    },
    disableToolCallResolution: true,
    toolCallValidation: "deferred"
  }) as never

const contentOf = (inner: LanguageModel.LanguageModel, options: LanguageModel.ProviderOptions) => {
  const { responseFormat } = options
  const request = innerOptions(options)
  const answer = responseFormat.type === "text"
    ? inner.generateText(request)
    : inner.generateObject({ ...request as object, ...responseFormat, type: undefined } as never)
  return Effect.map(
    answer as unknown as Effect.Effect<{ readonly content: ReadonlyArray<unknown> }, AiError.AiError>,
    ({ content }) => content
  )
}

/** Whether an answer came to its end. */
const isWhole = (parts: ReadonlyArray<unknown>): boolean => {
  const types = (parts as ReadonlyArray<Response.AnyPart>).map((it) => it.type)
  return types.includes("finish") && !types.includes("error")
}

const errorOf = (method: string, reason: AiError.AiErrorReason): AiError.AiError =>
  AiError.make({ module: "RecordedModel", method, reason })

const Reason = Schema.toCodecJson(AiError.AiErrorReason)
const toReason = Schema.decodeUnknownSync(Reason)
const encodeReason = Schema.encodeSync(Reason)

/** Whether another request may succeed: the error says nothing about the model's answer. */
const isOfTheMoment = ({ isRetryable, reason }: AiError.AiError): boolean =>
  isRetryable || reason._tag === "AuthenticationError"

/** The reason of an error without anything about HTTP. */
const reasonOf = ({ reason }: AiError.AiError): Schema.Json => {
  const { http: _, metadata: __, ...rest } = encodeReason(reason) as Schema.JsonObject
  return rest
}

/** Replaces a file in one step. */
const writeWhole = Effect.fnUntraced(function*(file: string, text: string) {
  const name = `${file}.${(yield* Random.nextIntBetween(0, 2 ** 48)).toString(36)}.tmp`
  yield* Effect.tryPromise({
    try: async () => {
      await NodeFs.mkdir(NodePath.dirname(file), { recursive: true })
      try {
        await NodeFs.writeFile(name, text, { flag: "wx", flush: true })
        await NodeFs.rename(name, file)
      } catch (error) {
        await NodeFs.rm(name, { force: true })
        throw error
      }
    },
    catch: (cause) =>
      errorOf("record", new AiError.UnknownError({ description: `${file} could not be written: ${String(cause)}` }))
  })
})
