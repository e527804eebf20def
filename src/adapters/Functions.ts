/**
 * Makes tools of plain functions with a JSON Schema.
 *
 * A function returns a value, a promise or an effect. What it throws is the tool's failure: the model reads its message
 * without a stack, up to 2,000 characters. To report a bug instead, die in an effect; the model then reads only of an
 * internal error.
 *
 * A promise can only be asked to stop, by its `signal`. If it runs past its end it is an orphan
 * (`ToolExecutor.orphans`) and keeps its resource keys until it settles; its writes through `commit` are blocked.
 *
 * **Example** (Running a function)
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { LocalExecutor, ToolCall, ToolExecutor } from "effect-tool-executor"
 * import * as Functions from "effect-tool-executor/functions"
 *
 * const { layer, toolkit } = Functions.make({
 *   weather: {
 *     description: "Tells the weather of a city",
 *     parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
 *     readOnly: true,
 *     timeout: "10 seconds",
 *     execute: async ({ city }: { city: string }, { signal }) => {
 *       signal.throwIfAborted()
 *       if (city === "Atlantis") throw new Error("There is no such city")
 *       return { city, sky: "clear" }
 *     }
 *   }
 * })
 *
 * const program = Effect.gen(function*() {
 *   const executor = yield* ToolExecutor.ToolExecutor
 *   const process = yield* executor.process()
 *   const wave = yield* process.executeWave([
 *     ToolCall.make("1", "weather", { city: "Bern" }),
 *     ToolCall.make("2", "weather", { city: "Atlantis" })
 *   ])
 *   return wave.toolMessages.map((it) => it.text)
 * }).pipe(Effect.scoped, Effect.provide(LocalExecutor.layer(toolkit).pipe(Layer.provide(layer))))
 *
 * const [bern, atlantis] = await Effect.runPromise(program)
 * bern // => "{\"city\":\"Bern\",\"sky\":\"clear\"}"
 * atlantis // => "\"weather\" failed: There is no such city"
 * ```
 */
import type * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as JsonSchema from "effect/JsonSchema"
import type * as Layer from "effect/Layer"
import * as Predicate from "effect/Predicate"
import * as ToolContext from "../core/contract/ToolContext.ts"
import { ConfigurationError, type Problem } from "../core/vocabulary/ConfigurationError.ts"
import * as PlainProblems from "./PlainProblems.ts"
import * as PlainTool from "./PlainTool.ts"

/** What a function receives besides its arguments. */
export interface Call {
  readonly callId: string | undefined
  /** See `ToolContext.principal`, and likewise the next four. */
  readonly principal: string | undefined
  readonly agentPath: ReadonlyArray<string>
  readonly batch: string | undefined
  readonly process: string | undefined
  readonly idempotencyKey: string | undefined
  /** Aborted when the call times out or is cancelled. */
  readonly signal: AbortSignal
  /** Epoch milliseconds at which the call is stopped; `Infinity` outside an executor. */
  readonly deadline: number
  /** Metadata of the process. */
  readonly meta: Readonly<Record<string, unknown>>
  /** Reports progress; see `ToolContext.progress`. */
  readonly progress: (report: Parameters<ToolContext.Service["progress"]>[0]) => void
  /** Reports what the function is doing. */
  readonly status: (status: string) => void
  /** Shows part of the output early. */
  readonly partial: (value: unknown) => void
  /**
   * Runs a write that must not be interrupted; see `ToolContext.commit`. After the outcome it does not run, and the
   * promise rejects.
   */
  readonly commit: <A>(write: () => A | PromiseLike<A>) => Promise<A>
}

export interface Definition extends PlainTool.Declared {
  /** Tells the model what the tool does and when to use it. */
  readonly description?: string | undefined
  /** JSON Schema that arguments are validated against. Default: no arguments. */
  readonly parameters?: JsonSchema.JsonSchema | undefined
  /** Whether a call needs approval. It also does if the function throws. Default false. */
  readonly needsApproval?:
    | boolean
    | ((args: never) => boolean | PromiseLike<boolean> | Effect.Effect<boolean>)
    | undefined
  /** Runs a call with arguments that match `parameters`. */
  execute(args: unknown, call: Call): unknown
}

/**
 * Makes the toolkit and handlers of functions.
 *
 * The layer fails with one `ConfigurationError` that lists every problem: names that providers reject, unknown keys,
 * wrong values. It requires the services of the functions' effects.
 */
export const make = <const Definitions extends { readonly [name: string]: Definition }>(definitions: Definitions): {
  readonly toolkit: Toolkit.Toolkit<ToolsOf<Definitions>>
  readonly layer: Layer.Layer<Tool.HandlersFor<ToolsOf<Definitions>>, ConfigurationError, ServicesOf<Definitions>>
} => {
  const checked = Object.entries(definitions ?? {}).map(([name, definition]) => ({
    name,
    definition,
    problems: problemsOf(name, definition)
  }))
  const problems = checked.flatMap((it) => it.problems)
  const right = checked.filter((it) => it.problems.length === 0)
  const toolkit = Toolkit.make(...right.map(({ definition, name }) => toolOf(name, definition)))
  const handlers = Object.fromEntries(right.map(({ definition, name }) => [name, handlerOf(definition)]))
  return {
    toolkit,
    layer: toolkit.toLayer(
      Effect.suspend((): Effect.Effect<typeof handlers, ConfigurationError> =>
        problems.length > 0 ? new ConfigurationError({ subject: "Functions", problems }) : Effect.succeed(handlers)
      )
    )
  } as never
}

/** The functions as tools, with the types of their arguments and results. */
export type ToolsOf<Definitions extends { readonly [name: string]: Definition }> = {
  readonly [N in keyof Definitions & string]: PlainTool.PlainTool<
    N,
    Parameters<Definitions[N]["execute"]> extends [] ? unknown : Parameters<Definitions[N]["execute"]>[0],
    ResultOf<Awaited<ReturnType<Definitions[N]["execute"]>>>
  >
}

type ResultOf<Returned> = Returned extends Effect.Effect<infer A, infer _E, infer _R> ? A : Returned

/** The services that the functions' effects require. */
export type ServicesOf<Definitions extends { readonly [name: string]: Definition }> = {
  readonly [N in keyof Definitions]: Awaited<ReturnType<Definitions[N]["execute"]>> extends
    Effect.Effect<infer _A, infer _E, infer R> ? R : never
}[keyof Definitions]

type HandlerContext = Toolkit.HandlerContext<PlainTool.PlainTool<string>>

const noArguments: JsonSchema.JsonSchema = { type: "object", properties: {}, additionalProperties: false }

const problemsOf = (name: string, definition: Definition): ReadonlyArray<Problem> => [
  ...PlainProblems.ofName(name),
  ...PlainProblems.ofDeclared(`tools.${name}`, definition, {
    description: "string",
    parameters: "any",
    needsApproval: "any",
    execute: "function"
  }),
  ...Predicate.isObject(definition) ? inside(`tools.${name}`, definition) : []
]

/** Problems in the fields that only functions have. */
const inside = (at: string, { execute, needsApproval, parameters }: Definition): ReadonlyArray<Problem> => [
  ...execute === undefined ? [{ path: `${at}.execute`, problem: "it is missing", expected: "a function" }] : [],
  ...parameters === undefined ? [] : PlainProblems.ofSchema(`${at}.parameters`, parameters),
  ...needsApproval === undefined || typeof needsApproval === "boolean" || typeof needsApproval === "function"
    ? []
    : [{ path: `${at}.needsApproval`, problem: "it is neither", expected: "true, false or a function" }]
]

const toolOf = (name: string, definition: Definition) => {
  const { description, needsApproval, parameters = noArguments } = definition
  return PlainTool.make(name, definition, {
    description,
    parameters,
    needsApproval: typeof needsApproval === "function"
      ? (args) => PlainTool.approval(() => needsApproval(args as never))
      : needsApproval
  })
}

const handlerOf =
  (definition: Definition) => (args: unknown, handler: HandlerContext): Effect.Effect<unknown, string> =>
    Effect.contextWith((services: Context.Context<never>) =>
      Effect.flatMap(
        ToolContext.ToolContext,
        (context) => PlainTool.attempt((signal) => definition.execute(args, callOf(context, handler, services, signal)))
      )
    )

const callOf = (
  context: ToolContext.Service,
  handler: HandlerContext,
  services: Context.Context<never>,
  signal: AbortSignal
): Call => {
  const report = (effect: Effect.Effect<void>) => void Effect.runForkWith(services)(effect)
  return {
    callId: context.callId ?? handler.toolCallId,
    principal: context.principal,
    agentPath: context.agentPath,
    batch: context.batch,
    process: context.process,
    get idempotencyKey() {
      return context.idempotencyKey
    },
    signal,
    // it moves while approval is pending
    get deadline() {
      return context.deadline
    },
    meta: context.meta,
    progress: (it) => report(context.progress(it)),
    status: (it) => report(context.status(it)),
    partial: (it) => report(handler.preliminary(it)),
    commit: (write) => {
      const written = Effect.promise(() => Promise.resolve().then(write))
      return Effect.runPromiseExitWith(services)(context.commit(written)).then((exit) => {
        if (Exit.isSuccess(exit)) return exit.value
        throw Cause.hasInterruptsOnly(exit.cause)
          ? new Error("The call has ended: nothing was written")
          : Cause.squash(exit.cause)
      })
    }
  }
}
