/**
 * An agent as a tool of another agent. It runs in a fork of the executor that runs the call, and its last text is the
 * result.
 *
 * A sub-agent is limited by its caller's policy and budget, uses the same approvers, reports among its caller's events,
 * and ends with the call.
 *
 * **Example** (A researcher)
 *
 * ```ts
 * import { Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 * import { SubAgent } from "effect-tool-executor/agent"
 *
 * const Search = Tool.make("search", { parameters: Schema.Struct({ query: Schema.String }), success: Schema.String })
 *   .annotate(Tool.Readonly, true)
 *
 * export const research = SubAgent.make("research", {
 *   description: "Finds out about a topic and reports",
 *   parameters: Schema.Struct({ topic: Schema.String }),
 *   prompt: ({ topic }) => `Find out about ${topic}.`,
 *   toolkit: Toolkit.make(Search),
 *   limits: { turns: 10 }
 * })
 *
 * // the toolkit of the agent that may call it, and its handlers
 * export const toolkit = Toolkit.merge(Toolkit.make(Search), research.toolkit)
 * export const handlers = research.layer
 * ```
 */
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { ToolContext } from "../core/contract/ToolContext.ts"
import * as ToolExecutor from "../core/engine/ToolExecutor.ts"
import type { Policy } from "../core/gates/Policy.ts"
import { ConfigurationError } from "../core/vocabulary/ConfigurationError.ts"
import * as ToolAnnotations from "../core/vocabulary/ToolAnnotations.ts"
import { OptionReader } from "../internal/OptionReader.ts"
import { describe, type EndReason } from "./AgentEvent.ts"
import type { AgentLimits } from "./AgentLimits.ts"
import type { Compaction } from "./CompactionOptions.ts"
import * as Begin from "./OperationStart.ts"
import { Current, type Model } from "./OperationTree.ts"
import * as Spending from "./Spending.ts"
import type { End } from "./Transcripts.ts"
import { Branch } from "./TranscriptTree.ts"

export interface Options<Parameters extends Schema.Top> {
  /** The tool description, for the calling model. */
  readonly description: string
  readonly parameters: Parameters
  /** The prompt for a call. */
  readonly prompt: (params: Parameters["Type"]) => Prompt.RawInput
  /** The system prompt. */
  readonly system?: string | undefined
  /** Its tools, limited to those the caller's policy shows. Default: the caller's. */
  readonly toolkit?: { readonly tools: Record<string, Tool.Any> } | undefined
  /** Restricts what it may do further than its caller's policy. */
  readonly policy?: Policy | undefined
  /**
   * Answers its calls immediately with a name; the result arrives later as a message. See `BackgroundAgents` for tools
   * to wait for it, to send it messages and to stop it. Default false.
   */
  readonly background?: boolean | undefined
  /** Allows only ReadOnly tools that stay inside; the sub-agent then counts as one. Default false. */
  readonly readOnly?: boolean | undefined
  /** Denies its approval requests immediately. Default: as for its caller. */
  readonly mode?: "Automatic" | undefined
  /** Default: the caller's model. */
  readonly model?: Layer.Layer<LanguageModel.LanguageModel, unknown> | undefined
  /** Compacts its conversation. Default: as its caller's, if it uses the same model. */
  readonly compaction?: Compaction | undefined
  /** Usage also counts toward the caller's limits. Default time: 10 minutes. */
  readonly limits?: AgentLimits | undefined
}

/** Schema of a sub-agent's failure: the tag of its `EndReason`, an explanation, and its last text. */
export const Failure = Schema.Struct({ ended: Schema.String, message: Schema.String, text: Schema.String })

/** Why a sub-agent has no result. */
export type Failure = typeof Failure.Type

export type AgentTool<Name extends string, Parameters extends Schema.Top> = Tool.Tool<Name, {
  readonly parameters: Parameters
  readonly success: typeof Schema.String
  readonly failure: typeof Failure
  readonly failureMode: "error"
}>

/** A sub-agent: its tool, a toolkit with that tool, and its handler. */
export interface SubAgent<Name extends string, Parameters extends Schema.Top> {
  readonly tool: AgentTool<Name, Parameters>
  readonly toolkit: Toolkit.Toolkit<{ readonly [N in Name]: AgentTool<Name, Parameters> }>
  readonly layer: Layer.Layer<Tool.HandlersFor<{ readonly [N in Name]: AgentTool<Name, Parameters> }>>
}

/** Makes a tool of an agent; `agentPath` shows the tool's name. Throws `ConfigurationError` if a limit is invalid. */
export const make = <const Name extends string, Parameters extends Schema.Top>(
  name: Name,
  options: Options<Parameters>
): SubAgent<Name, Parameters> => {
  const { background = false, description, limits, parameters, readOnly = false } = options
  const time = limits?.time ?? "10 minutes"
  const reader = new OptionReader()
  const { timeMillis } = Spending.read(reader, { ...limits, time })
  const { problems } = reader
  if (problems.length > 0) throw new ConfigurationError({ subject: `SubAgent.make(${JSON.stringify(name)})`, problems })
  // the agent's time limit must report before the call's does
  const timeout = Duration.millis(timeMillis + 10_000)
  const told = background ? `${description} ${inBackground}` : description
  const base = Tool.make(name, { description: told, parameters, success: Schema.String, failure: Failure })
    .annotate(ToolAnnotations.Recursive, true)
    .annotate(ToolAnnotations.Timeout, timeout)
    .annotate(ToolAnnotations.Background, background)
    .annotate(ToolAnnotations.FailureText, (failure) => failureText(failure as Failure))
    .annotate(
      ToolAnnotations.Continues,
      (_, { callId: call, process }) =>
        Effect.map(Current, (tree) => tree?.branch.continues({ process, call }) === true)
    )
  const tool =
    (readOnly ? base.annotate(Tool.Readonly, true).annotate(Tool.OpenWorld, false) : base) as unknown as AgentTool<
      Name,
      Parameters
    >
  const toolkit = Toolkit.make(tool) as unknown as SubAgent<Name, Parameters>["toolkit"]
  const handler = (params: Parameters["Type"]) => run(name, { ...options, limits: { ...limits, time } }, params)
  return {
    tool,
    toolkit,
    layer: toolkit.toLayer({ [name]: handler } as never) as unknown as SubAgent<Name, Parameters>["layer"]
  }
}

const run = <Parameters extends Schema.Top>(
  name: string,
  { compaction, limits, mode, model: own, policy, prompt, readOnly, system, toolkit }: Options<Parameters>,
  params: Parameters["Type"]
): Effect.Effect<string, Failure> =>
  Effect.gen(function*() {
    const { agentPath, callId, isResumed, process, suspend, waits } = yield* ToolContext
    const tree = yield* Current
    const place = { process: process ?? "", call: callId ?? "" }
    const branch = tree?.branch.begin(place, isResumed) ?? Branch.root([], undefined)
    // its call was interrupted between its end and the call's
    if (branch.end !== undefined) return branch.end
    const executor = yield* readOnly === true ? ToolExecutor.readOnly({ name }) : ToolExecutor.fork({ name, policy })
    const model = tree?.model ?? (yield* around)
    if (own === undefined && model === undefined) return yield* Effect.fail(noModel)
    const { calls, reason, text } = yield* Begin.runBelow(
      { executor, model },
      {
        prompt: branch.messages.length > 0 ? [] : prompt(params),
        system,
        toolkit,
        limits,
        compaction,
        model: own as Layer.Layer<LanguageModel.LanguageModel> | undefined
      },
      { agentPath: [...agentPath, name], branch, place, tree, waits, isAutomatic: mode === "Automatic" }
    )
    const isOpen = reason._tag === "Suspended" || reason._tag === "NotResumed"
    if (isOpen && tree !== undefined) return yield* suspend(describe(reason))
    const end: End = { ended: reason._tag, message: describe(reason), text, calls }
    // without storage nothing is left to run
    yield* Effect.ignore(branch.ends(end))
    return end
  }).pipe(
    Effect.scoped,
    Effect.mapError((error): Failure => isFailure(error) ? error : failed("NotBegun", String(error), "")),
    Effect.flatMap(resultOf)
  )

const inBackground =
  "It runs in the background: the call returns a name immediately, and the result arrives later as a message."

const isFailure = Schema.is(Failure)

/** The model in the handler's context, outside an operation. */
const around: Effect.Effect<Model | undefined> = Effect.contextWith((context: Context.Context<never>) => {
  const found = context as Context.Context<LanguageModel.LanguageModel>
  return Effect.sync(() =>
    Context.getOption(found, LanguageModel.LanguageModel)._tag === "None" ? undefined : Begin.modelIn(found)
  )
})

const failed = (ended: Failure["ended"], message: string, text: string): Failure => ({ ended, message, text })

const noModel = failed(
  "NotBegun",
  "No model is available: neither the sub-agent nor its caller nor the context has one.",
  ""
)

const resultOf = ({ ended, message, text }: End): Effect.Effect<string, Failure> =>
  isDone.has(ended) ? Effect.succeed(text) : Effect.fail(failed(ended, message, text))

const isDone: ReadonlySet<string> = new Set<EndReason["_tag"]>(["Finished", "Exited"])

const failureText = ({ message, text }: Failure): string =>
  text === "" ? `The agent did not finish. ${message}` : `The agent did not finish. ${message} It said last: ${text}`
