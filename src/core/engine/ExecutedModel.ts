/**
 * A language model whose tool calls the executor runs. Code that uses `LanguageModel` or `Chat` does not change.
 *
 * The calls of a response are one wave, and results come in the order of the calls. A tool name that does not exist is
 * answered like any other mistake of the model. The results in a prompt are the past of its request: rules of order see
 * them, whatever their scope. A result that a model itself claims is dropped. Requests without a toolkit, or with tool call resolution disabled, go
 * to the model unchanged.
 */
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import * as Response from "effect/ai/Response"
import type * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { EarlierResult, ToolProcess } from "../contract/ToolProcess.ts"
import { ToolExecutor } from "./ToolExecutor.ts"

/**
 * The process that runs the calls of requests. Default: a new process in a new batch for each request. Limits of a batch
 * count several requests together if they have one process.
 */
export const Process = Context.Reference<ToolProcess | undefined>("effect-tool-executor/ExecutedModel/Process", {
  defaultValue: () => undefined
})

/**
 * The conversation that requests belong to, for rules with the scope `"session"`. Default: all that the executor's
 * principal does is one conversation. `Process` has its own.
 */
export const Session = Context.Reference<string | undefined>("effect-tool-executor/ExecutedModel/Session", {
  defaultValue: () => undefined
})

/**
 * Returns the tools of a toolkit without their handlers, for requests. The executor has the handlers and runs the
 * calls, so code that sends requests does not need them.
 *
 * **Example** (Asking without handlers)
 *
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { LanguageModel, Tool, Toolkit } from "effect/ai"
 * import { ExecutedModel } from "effect-tool-executor"
 *
 * const Search = Tool.make("search", { parameters: Schema.Struct({ query: Schema.String }), success: Schema.String })
 * const toolkit = ExecutedModel.toolkit(Toolkit.make(Search))
 *
 * // it needs a language model and nothing else
 * export const answer = (prompt: string) => LanguageModel.generateText({ prompt, toolkit })
 * ```
 */
export const toolkit = <Tools extends Record<string, Tool.Any>>(
  { tools }: { readonly tools: Tools }
): Toolkit.WithHandler<Tools> => ({
  tools,
  handle: (name) =>
    Effect.die(
      new TypeError(`"${String(name)}" has no handler here: provide ExecutedModel.layer, whose executor runs it`)
    )
})

/** Layer that runs the tool calls of the language model in the context with the executor. */
export const layer: Layer.Layer<
  LanguageModel.LanguageModel,
  never,
  LanguageModel.LanguageModel | ToolExecutor
> = Layer.effect(
  LanguageModel.LanguageModel,
  Effect.gen(function*() {
    const model = yield* LanguageModel.LanguageModel
    const executor = yield* ToolExecutor
    const process: Effect.Effect<ToolProcess, never, Scope.Scope> = Effect.filterOrElse(
      Process,
      (given) => given !== undefined,
      () => Effect.flatMap(Session, (session) => Effect.orDie(executor.process({ session })))
    )
    const begin = (options: Options) =>
      Effect.gen(function*() {
        const running = yield* process
        const tools = yield* toolsOf(options.toolkit!)
        yield* running.earlier(resultsIn(Prompt.make(options.prompt)))
        // the model's own code executes calls that the prompt approves, before it sends the request
        const approved: Array<Response.AnyPart> = []
        const toolkit = Effect.map(
          yield* Effect.orDie(running.guard({ tools }, compared)),
          (it) => noting(it, approved)
        )
        return {
          approved,
          answer: (content: ReadonlyArray<Response.AnyPart>) => running.answer({ tools }, content, compared),
          options: { ...options, toolkit, disableToolCallResolution: true, toolCallValidation: "deferred" }
        }
      })
    const generateText = (options: Options) =>
      isOwn(options) ? model.generateText(options as never) : Effect.scoped(Effect.gen(function*() {
        const { answer, approved, options: own } = yield* begin(options)
        const response = (yield* model.generateText(own as never)) as unknown as {
          readonly content: ReadonlyArray<Response.AnyPart>
        }
        let trusted = approved.filter(isSuccess).length
        // the results of approved calls come first
        const content = response.content.filter((part) => !isSuccess(part) || trusted-- > 0)
        const results = yield* answer(content)
        return new LanguageModel.GenerateTextResponse([...content, ...results] as never)
      }))
    const streamText = (options: Options) =>
      isOwn(options) ? model.streamText(options as never) : Stream.unwrap(Effect.map(begin(options), (begun) => {
        const content: Array<Response.AnyPart> = []
        const parts = model.streamText(begun.options as never) as unknown as Stream.Stream<Response.AnyPart>
        // a stream omits their results, and a chat without the results would execute the calls again
        const withApproved = (after: ReadonlyArray<Response.AnyPart>) => [...begun.approved.splice(0), ...after]
        const last = Stream.unwrap(Effect.map(
          Effect.suspend(() => begun.answer(content)),
          (results) => Stream.fromIterable(withApproved([...results, ...content.filter((it) => it.type === "finish")]))
        ))
        // the end of the response comes after its results
        return Stream.concat(
          Stream.flatMap(Stream.filter(parts, (part) => !isSuccess(part)), (part) => {
            content.push(part)
            return Stream.fromIterable(withApproved(part.type === "finish" ? [] : [part]))
          }),
          last
        )
      }))
    return LanguageModel.LanguageModel.of({
      ...model,
      generateText: generateText as unknown as typeof model.generateText,
      streamText: streamText as unknown as typeof model.streamText
    })
  })
)

/** A loop that worked without an executor works with one: what it repeats in a later message runs. */
const compared = { dedupeScope: "wave" } as const

type Tools = Record<string, Tool.Any>

interface Options {
  readonly prompt: Prompt.RawInput
  readonly toolkit?: Toolkit.WithHandler<Tools> | Effect.Effect<Toolkit.WithHandler<Tools>> | undefined
  readonly disableToolCallResolution?: boolean | undefined
}

/**
 * The results in a prompt that count: what the host has written, as messages of the role `tool`, and what a provider
 * has run itself. A model writes neither.
 */
const resultsIn = ({ content }: Prompt.Prompt): ReadonlyArray<EarlierResult> =>
  content.flatMap((message) =>
    message.role !== "tool" && message.role !== "assistant" ?
      [] :
      message.content.flatMap((part) =>
        part.type === "tool-result" && part.providerExecuted === (message.role === "assistant")
          ? [{ ...part, output: part.result }]
          : []
      )
  )

/** A success of a call that the executor runs. In what a model returns, only the executor may have put it there. */
const isSuccess = (part: Response.AnyPart): boolean =>
  part.type === "tool-result" && part.providerExecuted !== true && part.isFailure !== true

/** Returns the tools of a toolkit; its handlers are not needed here. */
const toolsOf = (toolkit: NonNullable<Options["toolkit"]>): Effect.Effect<Tools> =>
  "tools" in toolkit
    ? Effect.succeed(toolkit.tools as Tools)
    : Effect.map(toolkit, (it) => it.tools)

/** Collects the results of calls as parts of a response. */
const noting = <Tools extends Record<string, Tool.Any>>(
  { handle, tools }: Toolkit.WithHandler<Tools>,
  results: Array<Response.AnyPart>
): Toolkit.WithHandler<Tools> => ({
  tools,
  handle: ((name: string, params: never, id: string) =>
    Effect.map(
      handle(name, params, id),
      Stream.tap((result) =>
        Effect.sync(() => {
          if (!result.preliminary) results.push(partOf(id, name, result))
        })
      )
    )) as typeof handle
})

const partOf = (id: string, name: string, result: Tool.HandlerResult<Tool.Any>): Response.AnyPart =>
  Response.makePart("tool-result", {
    id,
    name,
    providerExecuted: false,
    preliminary: false,
    result: result.encodedResult,
    encodedResult: result.encodedResult,
    isFailure: result.isFailure,
    ...result.modelOutput === undefined ? {} : { modelOutput: result.modelOutput }
  })

/** Whether the caller has no tools, or runs them itself. */
const isOwn = ({ disableToolCallResolution, toolkit }: Options): boolean =>
  toolkit === undefined || disableToolCallResolution === true
