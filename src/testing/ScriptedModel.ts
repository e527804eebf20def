/**
 * A language model that answers from a script and records its requests.
 *
 * A script is a list of turns or a function of the request. The model streams like a provider, with deltas, or answers
 * as a whole for `generateText`. An unexpected request fails with an error that shows it, and is recorded.
 *
 * It does not validate histories as providers do; a turn can check its request with `expect`.
 */
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import { ModelName, ProviderName } from "effect/ai/Model"
import type * as Response from "effect/ai/Response"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { ConfigurationError, validateStrict } from "../core/vocabulary/ConfigurationError.ts"
import * as ModelRequest from "./ModelRequest.ts"
import * as ModelTurn from "./ModelTurn.ts"

/** The requests of a scripted model. */
export class ScriptedModel extends Context.Service<ScriptedModel, {
  /** Every request, in order. */
  readonly requests: Effect.Effect<ReadonlyArray<ModelRequest.ModelRequest>>
  /** Requests the script did not expect, and why. */
  readonly unexpected: Effect.Effect<ReadonlyArray<Unexpected>>
  /** Unused turns of a script. */
  readonly left: Effect.Effect<number>
}>()("effect-tool-executor/testing/ScriptedModel") {}

/** A request that has no answer in the script or does not match its turn. */
export interface Unexpected {
  readonly request: ModelRequest.ModelRequest
  /** What is wrong, and what was sent. */
  readonly message: string
}

/** An answer that depends on the request. */
export type Answer = (
  asked: ModelRequest.ModelRequest
) => ModelTurn.Turn | Effect.Effect<ModelTurn.Turn, AiError.AiError>

/** What a model answers: a list of turns, each data or a function of its request, or one function for all. */
export type Script = ReadonlyArray<ModelTurn.Turn | Answer> | Answer

/** Names of a model. */
export interface Options {
  /** Default `"scripted"`. */
  readonly provider?: string | undefined
  /** Default `"scripted"`. Prefix of generated ids. */
  readonly model?: string | undefined
}

export interface Scripted extends Context.Service.Shape<typeof ScriptedModel> {
  readonly model: Context.Service.Shape<typeof LanguageModel.LanguageModel>
  readonly layer: Layer.Layer<LanguageModel.LanguageModel | ProviderName | ModelName | ScriptedModel>
}

/** Creates a model. Unknown keys of turns are errors. */
export const make = Effect.fnUntraced(function*(
  script: Script,
  { model: name = "scripted", provider = "scripted" }: Options = {}
): Effect.fn.Return<Scripted, ConfigurationError> {
  const problems = typeof script === "function" ?
    [] :
    script.flatMap((turn, index) =>
      typeof turn === "function" ? [] : validateStrict(ModelTurn.Turn, turn, `script[${index}]`)
    )
  if (problems.length > 0) return yield* new ConfigurationError({ subject: "ScriptedModel", problems })

  const requests: Array<ModelRequest.ModelRequest> = []
  const unexpected: Array<Unexpected> = []
  let ids = 0
  const makeId = () => `${name}-${++ids}`

  const refuse = (request: ModelRequest.ModelRequest, lines: ReadonlyArray<string>) => {
    const sent = ModelRequest.describe(request).split("\n")
    const message = [`Request ${request.turn + 1} to the model "${name}": ${lines.join("; ")}. It was sent:`, ...sent]
      .join("\n  ")
    unexpected.push({ request, message })
    return errorOf(request.method, new AiError.InvalidRequestError({ description: message }))
  }

  const take = Effect.fnUntraced(function*(
    method: ModelRequest.ModelRequest["method"],
    options: LanguageModel.ProviderOptions
  ) {
    const request = ModelRequest.make(requests.length, method, options)
    requests.push(request)
    const entry = typeof script === "function" ? script : script[request.turn]
    if (entry === undefined) {
      return yield* refuse(request, [`the script has ${script.length} ${script.length === 1 ? "turn" : "turns"}`])
    }
    const turn = typeof entry === "function" ? yield* answered(entry(request)) : entry
    const wrong = typeof entry === "function" ? validateStrict(ModelTurn.Turn, turn, "turn") : []
    if (wrong.length > 0) {
      return yield* refuse(request, wrong.map((it) => `${it.path}: ${it.problem}; expected ${it.expected}`))
    }
    const differences = turn.expect === undefined ? [] : ModelRequest.differences(request, turn.expect)
    return differences.length === 0 ? playOf(turn, method, makeId) : yield* refuse(request, differences)
  })

  const model = yield* LanguageModel.make({
    generateText: (options) => Effect.flatMap(take("generateText", options), atOnce),
    streamText: (options) => Stream.unwrap(Effect.map(take("streamText", options), streamed))
  })
  const service = ScriptedModel.of({
    requests: Effect.sync(() => [...requests]),
    unexpected: Effect.sync(() => [...unexpected]),
    left: Effect.sync(() => typeof script === "function" ? 0 : Math.max(0, script.length - requests.length))
  })
  return {
    ...service,
    model,
    layer: Layer.succeedContext(
      Context.empty().pipe(
        Context.add(LanguageModel.LanguageModel, model),
        Context.add(ProviderName, provider),
        Context.add(ModelName, name),
        Context.add(ScriptedModel, service)
      )
    )
  }
})

/**
 * Provides a model that answers from a script, and `ScriptedModel` with its requests.
 *
 * **Example** (Two turns)
 *
 * ```ts import.meta.vitest
 * import * as Effect from "effect/Effect"
 * import * as LanguageModel from "effect/ai/LanguageModel"
 * import { ScriptedModel } from "effect-tool-executor/testing"
 *
 * const program = Effect.gen(function*() {
 *   const first = yield* LanguageModel.generateText({ prompt: "What is 6 times 7?" })
 *   const second = yield* Effect.flip(LanguageModel.generateText({ prompt: "And 7 times 8?" }))
 *   return [first.text, second.message.split("\n")[0]]
 * }).pipe(Effect.provide(ScriptedModel.layer([{ text: "42", expect: { user: "6 times 7" } }])))
 *
 * const [text, problem] = await Effect.runPromise(program)
 * text // => "42"
 * problem?.includes("the script has 1 turn") // => true
 * ```
 */
export const layer = (
  script: Script,
  options?: Options
): Layer.Layer<
  LanguageModel.LanguageModel | ProviderName | ModelName | ScriptedModel,
  ConfigurationError
> => Layer.unwrap(Effect.map(make(script, options), (it) => it.layer))

/** A turn to play: parts, times and end. */
interface Play {
  readonly parts: ReadonlyArray<Response.StreamPartEncoded>
  readonly takes: number
  readonly between: number
  readonly end: Effect.Effect<void, AiError.AiError>
}

const playOf = (turn: ModelTurn.Turn, method: ModelRequest.ModelRequest["method"], makeId: () => string): Play => {
  const { between = 0, cutAfter, takes = 0 } = turn
  const end = endOf(turn, method)
  return {
    parts: ModelTurn.partsOf(turn, makeId).slice(0, cutAfter ?? (end === undefined ? Infinity : 0)),
    takes: millisOf(takes),
    between: millisOf(between),
    end: end ?? Effect.void
  }
}

/** The failure a turn ends with, if any. */
const endOf = ({ dies, fails, never }: ModelTurn.Turn, method: string) => {
  if (dies !== undefined) return Effect.die(new Error(dies))
  if (never === true) return Effect.never
  return typeof fails === "string" ? errorOf(method, new AiError.InternalProviderError({ description: fails })) : fails
}

const atOnce = ({ between, end, parts, takes }: Play) =>
  wait(takes + between * Math.max(0, parts.length - 1)).pipe(
    Effect.andThen(end),
    Effect.map(() => ModelTurn.whole(parts))
  )

/** One part at a time, as over a network. */
const streamed = ({ between, end, parts, takes }: Play) =>
  Stream.fromIterable(parts, { chunkSize: 1 }).pipe(
    Stream.mapEffect((part, index) => Effect.as(wait(index === 0 ? takes : between), part)),
    Stream.concat(Stream.fromEffectDrain(parts.length === 0 ? Effect.andThen(wait(takes), end) : end))
  )

const wait = (millis: number): Effect.Effect<void> => millis > 0 ? Effect.sleep(millis) : Effect.void

const millisOf = (span: Duration.Input): number => Duration.toMillis(Duration.fromInputUnsafe(span))

const answered = (answer: ReturnType<Answer>): Effect.Effect<ModelTurn.Turn, AiError.AiError> =>
  Effect.isEffect(answer) ? answer : Effect.succeed(answer)

const errorOf = (method: string, reason: AiError.AiErrorReason): AiError.AiError =>
  AiError.make({ module: "ScriptedModel", method, reason })
