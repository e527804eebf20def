/**
 * A span and metrics per operation: duration, model requests, calls and tokens.
 *
 * Names follow OpenTelemetry's conventions for generative AI, v0.1.0. These are still in development, so names may
 * change.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Metric from "effect/Metric"
import * as Tracer from "effect/Tracer"
import { Spans } from "../core/engine/report/Spans.ts"
import { spanExit } from "../internal/spanError.ts"
import type { EndReason, OperationEnd, Usage } from "./AgentEvent.ts"
import type { ModelId } from "./Conversation.ts"
import type { Operation } from "./Operation.ts"

/**
 * Traces and measures an operation if its caller has a span, a tracer or a metric registry. Its waves are child spans.
 */
export const traced = (operation: Operation) => (effect: Effect.Effect<OperationEnd>): Effect.Effect<OperationEnd> =>
  Effect.contextWith((context: Context.Context<never>) => {
    const spans = Spans.isWanted(context) && !Spans.isRefused(context) ? new Spans(context) : undefined
    if (spans === undefined && !Spans.isMeasured(context)) return effect
    const clock = Context.get(context, Clock.Clock)
    const since = clock.currentTimeNanosUnsafe()
    const span = spans?.begin(nameOf(operation), spans.outer, since)
    if (span !== undefined) describe(span, operation)
    const under = span === undefined ? effect : Effect.provideService(effect, Tracer.ParentSpan, span)
    return Effect.onExit(under, (exit) =>
      Effect.sync(() => {
        const now = clock.currentTimeNanosUnsafe()
        const error = Exit.isSuccess(exit) ? errorOf(exit.value.reason) : "Cancelled"
        measure(context, operation, Number(now - since) / 1e9, error)
        if (span === undefined) return
        conclude(span, operation, error)
        spans!.end(span, spanExit(error), now)
      }))
  })

/** Counts the tokens of one model request. */
export const spent = ({ model, provider }: ModelId, { inputTokens, outputTokens }: Usage): Effect.Effect<void> =>
  Effect.contextWith((context: Context.Context<never>) => {
    if (!Spans.isMeasured(context)) return Effect.void
    const labels = {
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": providerName(provider),
      "gen_ai.request.model": model
    }
    for (const [type, count] of [["input", inputTokens], ["output", outputTokens]] as const) {
      tokens({ ...labels, "gen_ai.token.type": type }).updateUnsafe(count, context)
    }
    return Effect.void
  })

/** Returns the conventional name of a provider, or its own name. */
export const providerName = (provider: string): string => {
  const [first = provider, second] = provider.split(".")
  if (first === "google" || first === "vertex") {
    return first === "vertex" || second === "vertex" ? "gcp.vertex_ai" : "gcp.gemini"
  }
  return Object.hasOwn(known, first) ? known[first]! : first
}

/** By the first part of the name that a provider package gives. */
const known: Readonly<Record<string, string>> = {
  "amazon-bedrock": "aws.bedrock",
  azure: "azure.ai.openai",
  "azure-openai": "azure.ai.openai",
  bedrock: "aws.bedrock",
  mistral: "mistral_ai",
  moonshotai: "moonshot_ai",
  xai: "x_ai"
}

const nameOf = ({ given: { agentPath } }: Operation): string => ["invoke_agent", ...agentPath.slice(-1)].join(" ")

const describe = (span: Tracer.Span, { given: { agentPath, tree: { model }, session } }: Operation): void => {
  span.attribute("gen_ai.operation.name", "invoke_agent")
  span.attribute("gen_ai.provider.name", providerName(model.provider))
  span.attribute("gen_ai.request.model", model.model)
  if (agentPath.length > 0) span.attribute("gen_ai.agent.name", agentPath.at(-1))
  if (session !== undefined) span.attribute("gen_ai.conversation.id", session)
}

const conclude = (span: Tracer.Span, { given: { tree: { spending } } }: Operation, error: string | undefined): void => {
  const { cachedInputTokens, cacheWriteInputTokens, inputTokens, outputTokens } = spending.usage
  span.attribute("gen_ai.usage.input_tokens", inputTokens)
  span.attribute("gen_ai.usage.output_tokens", outputTokens)
  span.attribute("gen_ai.usage.cache_read.input_tokens", cachedInputTokens)
  span.attribute("gen_ai.usage.cache_creation.input_tokens", cacheWriteInputTokens)
  if (error !== undefined) span.attribute("error.type", error)
}

/** Why the operation failed; `undefined` if it did not. */
const errorOf = ({ _tag }: EndReason): string | undefined =>
  _tag === "Finished" || _tag === "Exited" || _tag === "Suspended" ? undefined : _tag

const measure = (
  context: Context.Context<never>,
  { given: { agentPath, tree: { spending, model } } }: Operation,
  seconds: number,
  error: string | undefined
): void => {
  const agent: Labels = agentPath.length === 0 ? {} : { "gen_ai.agent.name": agentPath.at(-1)! }
  const failed: Labels = error === undefined ? {} : { "error.type": error }
  duration({ ...agent, ...failed, "gen_ai.request.model": model.model }).updateUnsafe(seconds, context)
  requests(agent).updateUnsafe(spending.turns, context)
  calls(agent).updateUnsafe(spending.calls.taken, context)
}

type Labels = Readonly<Record<string, string>>

const histogram =
  (name: string, unit: string, description: string, boundaries: ReadonlyArray<number>) => (labels: Labels) =>
    // exporters read the unit from this label
    Metric.histogram(name, { description, attributes: { ...labels, unit }, boundaries })

const counts = [1, 2, 4, 8, 16, 32, 64, 128]

const duration = histogram(
  "gen_ai.invoke_agent.duration",
  "s",
  "The duration of an agent's operation",
  [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6]
)

const requests = histogram(
  "gen_ai.invoke_agent.inference_calls",
  "{inference_call}",
  "Requests to a model in one operation",
  counts
)

const calls = histogram("gen_ai.invoke_agent.tool_calls", "{tool_call}", "Tool calls started in one operation", counts)

const tokens = histogram(
  "gen_ai.client.token.usage",
  "{token}",
  "Tokens of one request to a model",
  [1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864]
)
