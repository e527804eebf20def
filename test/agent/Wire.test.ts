/** What of an operation leaves the process. */
import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { AgentEvent } from "../../src/agent/index.ts"
import { ToolAnnotations } from "../../src/index.ts"
import { endOf, events, reading, run } from "../support/Agents.ts"
import type { ToolSpec } from "../support/Harness.ts"

const wire = (all: ReadonlyArray<AgentEvent.AgentEvent>) =>
  Arr.filterMap(all, AgentEvent.toWire).map((it) => JSON.stringify(it))

const keysOf = (value: unknown): ReadonlyArray<string> =>
  typeof value !== "object" || value === null
    ? []
    : Object.entries(value).flatMap(([key, it]) => [...Array.isArray(value) ? [] : [key], ...keysOf(it)])

const keyIn = (params: unknown) => (params as { readonly key: string }).key

describe("what clients see of an operation", () => {
  it.effect("has no secret that a tool declares, also where people are asked about it", () => {
    const tool = Tool.make("send", { parameters: Schema.Struct({ key: Schema.String }), success: Schema.String })
      .annotate(ToolAnnotations.Redact, ["key"])
      .annotate(ToolAnnotations.Targets, (params) => [{ text: `to ${keyIn(params)}` }])
      .annotate(ToolAnnotations.Preview, (params) => Effect.succeed([{ path: "a", before: "", after: keyIn(params) }]))
    const send: ToolSpec = { tool, handler: ({ key }) => Effect.succeed(`sent with ${String(key)}`) }
    return run(
      { send },
      [{ calls: [{ id: "1", name: "send", params: { key: "hunter-2" } }] }, { text: "Sent." }],
      ({ agents }) =>
        Effect.gen(function*() {
          const agent = yield* agents.start({ prompt: "Go", mode: "Interactive" })
          const seen = yield* reading(agent)
          yield* Effect.sleep("1 second")
          const [question] = yield* agent.pending
          // whoever answers sees what they allow
          assert.deepStrictEqual(question?.args, { key: "hunter-2" })
          yield* Effect.orDie(agent.answer(question!.id, { _tag: "ApproveOnce" }))
          yield* agent.result
          yield* Effect.yieldNow
          assert.include(wire(seen).join("\n"), `"requests":[{"id":"${question!.id}"`)
          assert.deepStrictEqual(wire(seen).filter((it) => it.includes("hunter-2")), [])
        }),
      { policy: { default: "ask" } }
    )
  }, { tags: ["AG15"] })

  it.effect("has nothing of requests and answers but what the model says, all of it in camel case", () => {
    const headers = { authorization: "Bearer hunter-2", "set-cookie": "hunter-2" }
    const request = { method: "POST", url: "https://a.test/hunter-2", urlParams: [], hash: undefined, headers }
    const parts = [
      { type: "response-metadata", id: "r", modelId: "m", timestamp: undefined, request },
      {
        type: "finish",
        reason: "stop",
        usage: { inputTokens: { total: 1 }, outputTokens: { total: 1 } },
        response: { status: 200, headers }
      }
    ] as never
    return run({}, [{ text: "Hello.", parts }], (env) =>
      Effect.gen(function*() {
        const { end, events: all } = yield* events(env, { prompt: "Go" })
        assert.strictEqual(end.reason._tag, "Finished")
        assert.deepStrictEqual(wire(all).filter((it) => it.includes("hunter-2")), [])
        const keys = new Set(Arr.filterMap(all, AgentEvent.toWire).flatMap(keysOf))
        assert.deepStrictEqual(Array.from(keys).filter((it) => !/^(_tag|[a-z][A-Za-z]*)$/.test(it)), [])
      }))
  })

  it.effect("says why a model failed, and not where in the host's code", () =>
    Effect.gen(function*() {
      const turns = [{ dies: "a bug" }, { parts: [{ type: "error", error: new Error("a bug") }] }] as never
      for (const turn of turns as ReadonlyArray<never>) {
        const seen = yield* run({}, [turn], (env) => Effect.map(events(env, { prompt: "Go" }), (it) => it.events))
        assert.propertyVal(
          Arr.filterMap([endOf(seen)], AgentEvent.toWire)[0],
          "message",
          "The model request failed: a bug"
        )
        assert.deepStrictEqual(wire(seen).filter((it) => it.includes(".ts")), [])
      }
    }), { tags: ["AG15"] })

  it.effect("counts tokens, and none that a server takes back", () =>
    run(
      { read: () => Effect.succeed("text") },
      [
        {
          calls: [{ id: "1", name: "read" }],
          parts: [{
            type: "finish",
            reason: "stop",
            usage: { inputTokens: { total: -1_000, cacheRead: 5 }, outputTokens: { total: 60 } }
          }] as never
        },
        { text: "Done." }
      ],
      (env) =>
        Effect.gen(function*() {
          const { end } = yield* events(env, { prompt: "Go", limits: { tokens: 50 } })
          assert.deepStrictEqual(end.usage, {
            inputTokens: 5,
            outputTokens: 60,
            cachedInputTokens: 5,
            cacheWriteInputTokens: 0
          })
          assert.strictEqual(end.reason._tag, "LimitReached")
        })
    ))
})
