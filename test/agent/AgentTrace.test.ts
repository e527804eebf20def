/** What an operator sees of an agent: its span and its metrics. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Metric from "effect/Metric"
import * as Tracer from "effect/Tracer"
import type { Options } from "../../src/agent/AgentExecutor.ts"
import * as AgentTrace from "../../src/agent/AgentTrace.ts"
import { Transcripts } from "../../src/agent/Transcripts.ts"
import type * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { run } from "../support/Agents.ts"

const transcripts = Layer.succeed(Transcripts, {
  open: () => Effect.succeed({ messages: [], append: () => Effect.void, below: [], appendBelow: () => Effect.void }),
  list: Effect.succeed([])
})

/** The span `invoke_agent` of one operation, and the metrics beside it. */
const observed = (script: ScriptedModel.Script, options: Options) => {
  const spans: Array<Tracer.NativeSpan> = []
  const tracer = Tracer.make({
    span: (given) => {
      const span = new Tracer.NativeSpan(given)
      spans.push(span)
      return span
    }
  })
  const registry: Metric.MetricRegistry = new Map()
  return Effect.gen(function*() {
    yield* run(
      { read: () => Effect.succeed("read") },
      script,
      ({ agents }) =>
        agents.run(options).pipe(
          Effect.provideService(Tracer.Tracer, tracer),
          Effect.provideService(Metric.MetricRegistry, registry)
        ),
      { policy: { default: "allow" } },
      transcripts
    )
    const span = spans.find(({ name }) => name === "invoke_agent")!
    const figures = yield* Effect.provideService(Metric.snapshot, Metric.MetricRegistry, registry)
    return {
      attributes: Object.fromEntries(span.attributes),
      exit: span.status._tag === "Ended" ? span.status.exit : undefined,
      figures: Object.fromEntries(
        figures.filter(({ id }) => id.startsWith("gen_ai.")).map((it) => {
          const { "gen_ai.token.type": type, "error.type": error } = it.attributes ?? {}
          return [
            [it.id, type ?? error ?? ""].filter((part) => part !== "").join(" "),
            (it.state as { sum?: number }).sum
          ]
        })
      )
    }
  })
}

describe("the span of an agent", () => {
  it.effect("names model, conversation and tokens as the conventions do", () =>
    Effect.gen(function*() {
      const { attributes, exit, figures } = yield* observed([
        { calls: [{ id: "1", name: "read" }], usage: { input: 100, output: 10, cacheRead: 40, cacheWrite: 20 } },
        { text: "Done.", usage: { input: 200, output: 20, cacheRead: 100 } }
      ], { prompt: "Go", session: "s" })
      assert.deepInclude(attributes, {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.conversation.id": "s",
        "gen_ai.usage.input_tokens": 300,
        "gen_ai.usage.output_tokens": 30,
        "gen_ai.usage.cache_read.input_tokens": 140,
        "gen_ai.usage.cache_creation.input_tokens": 20
      })
      assert.notProperty(attributes, "error.type")
      assert.strictEqual(exit?._tag, "Success")
      assert.deepInclude(figures, {
        "gen_ai.client.token.usage input": 300,
        "gen_ai.client.token.usage output": 30,
        "gen_ai.invoke_agent.inference_calls": 2,
        "gen_ai.invoke_agent.tool_calls": 1
      })
      assert.property(figures, "gen_ai.invoke_agent.duration")
    }))

  it.effect("is an error with the reason's name, and no message or stack of anybody's, where the agent failed", () =>
    Effect.gen(function*() {
      const failed = yield* observed([{ fails: "the key is hunter2" }], { prompt: "Go", retries: 0 })
      assert.strictEqual(failed.attributes["error.type"], "ModelFailed")
      assert.include(JSON.stringify(failed.exit), "\"error\":{\"name\":\"ModelFailed\",\"message\":\"ModelFailed\"}")
      assert.notInclude(JSON.stringify(failed.exit), "hunter2")
      assert.property(failed.figures, "gen_ai.invoke_agent.duration ModelFailed")
      const limited = yield* observed(() => ({ calls: [{ name: "read" }] }), { prompt: "Go", limits: { turns: 1 } })
      assert.strictEqual(limited.attributes["error.type"], "LimitReached")
    }))

  it("has the conventions' names of providers", () => {
    const names = {
      "amazon-bedrock": "aws.bedrock",
      "anthropic.messages": "anthropic",
      "azure.responses": "azure.ai.openai",
      "cohere.chat": "cohere",
      "deepseek.chat": "deepseek",
      "google.generative-ai": "gcp.gemini",
      "google.vertex.chat": "gcp.vertex_ai",
      "groq.chat": "groq",
      "mistral.chat": "mistral_ai",
      "openai.responses": "openai",
      "openai.chat": "openai",
      "vertex.anthropic.messages": "gcp.vertex_ai",
      "xai.chat": "x_ai",
      "my-own": "my-own",
      "constructor": "constructor"
    }
    for (const [given, name] of Object.entries(names)) assert.strictEqual(AgentTrace.providerName(given), name)
  })
})
