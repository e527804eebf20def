/**
 * Tests of a program that runs tool calls, with swapped layers.
 *
 * `docs/testing.md` shows it in full.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Schema, Stream } from "effect"
import {
  Approvals,
  type ConfigurationError,
  Dedupe,
  Permissions,
  Pools,
  Rules,
  ToolCall,
  ToolExecutor,
  ToolHandlers,
  type ToolOutcome
} from "effect-tool-executor"
import { Scenario, ScenarioRunner, ScriptedTools, VirtualTime } from "effect-tool-executor/testing"
import { Tool, Toolkit } from "effect/ai"

// The application: tools, their handlers, and a program that knows neither

const Search = Tool.make("search", {
  parameters: Schema.Struct({ query: Schema.String }),
  success: Schema.Array(Schema.String)
}).annotate(Tool.Readonly, true)

const Publish = Tool.make("publish", { parameters: Schema.Struct({ title: Schema.String }), success: Schema.String })

const toolkit = Toolkit.make(Search, Publish)

const Handlers = toolkit.toLayer({
  search: ({ query }) => Effect.succeed([`${query}.md`]),
  publish: ({ title }) => Effect.succeed(`published ${title}`)
})

const answer = Effect.fn("answer")(function*(calls: ReadonlyArray<ToolCall.ToolCall>) {
  const process = yield* (yield* ToolExecutor.ToolExecutor).process()
  return yield* process.executeWave(calls)
}, Effect.scoped)

// What a test swaps: permissions, dedupe, pools and tools

const gates = Layer.mergeAll(Rules.layerNoop, Dedupe.layerNoop, Pools.layer())

const real = ToolHandlers.layer(toolkit).pipe(Layer.provide(Handlers))

const scripted = (tools: Scenario.Scenario["tools"]) => {
  const { handlers, toolkit } = ScriptedTools.make(tools)
  return ToolHandlers.layer(toolkit).pipe(Layer.provide(handlers))
}

const executor = <E>(
  tools: Layer.Layer<ToolHandlers.ToolHandlers, E>,
  permissions: Layer.Layer<Permissions.Permissions, ConfigurationError.ConfigurationError> = Permissions.layerAllowAll
) => ToolExecutor.layer.pipe(Layer.provide([gates, permissions]), Layer.provide(tools))

const calls = [ToolCall.make("1", "search", { query: "fish" }), ToolCall.make("2", "publish", { title: "Fish" })]

const tags = (outcomes: ReadonlyArray<ToolOutcome.ToolOutcome>) => outcomes.map((it) => it._tag)

describe("answer", () => {
  it.effect("runs the real tools", () =>
    Effect.gen(function*() {
      const { toolMessages } = yield* answer(calls)
      assert.deepStrictEqual(toolMessages.map((it) => it.text), ["[\"fish.md\"]", "published Fish"])
    }).pipe(Effect.provide(executor(real))))

  it.effect("goes on when a tool fails", () =>
    Effect.gen(function*() {
      const { outcomes, toolMessages } = yield* answer(calls)
      assert.deepStrictEqual(tags(outcomes), ["Failed", "Succeeded"])
      assert.include(toolMessages[0]?.text, "the index is gone")
    }).pipe(Effect.provide(executor(scripted({
      search: { class: "ReadOnly", fails: "the index is gone" },
      publish: { returns: "published" }
    })))))

  it.effect("runs nothing that it may not", () =>
    Effect.gen(function*() {
      const { outcomes } = yield* answer(calls)
      assert.deepStrictEqual(tags(outcomes), ["Denied", "Denied"])
    }).pipe(Effect.provide(executor(real, Permissions.layerDenyAll))))

  it.effect("publishes what the person made of it", () =>
    Effect.gen(function*() {
      const approvals = yield* Approvals.Approvals
      const asked: Array<Approvals.ApprovalRequest> = []
      // the approver
      yield* Effect.forkChild(
        Stream.runForEach(approvals.changes, (change) => {
          if (change._tag === "Ended") return Effect.void
          asked.push(change.request)
          return approvals.answer(change.request.id, { _tag: "ApproveOnce", params: { title: "Birds" } })
        }),
        { startImmediately: true }
      )
      const { toolMessages } = yield* answer(calls)
      assert.strictEqual(toolMessages[1]?.text, "published Birds")
      assert.deepStrictEqual(asked.map(({ args, tool }) => ({ args, tool })), [
        { args: { title: "Fish" }, tool: "publish" }
      ])
    }).pipe(Effect.provide(
      executor(real, Permissions.layer({})).pipe(Layer.provideMerge(Approvals.layer()))
    )))

  it.effect("gives a tool that hangs its 30 seconds, in no time", () =>
    VirtualTime.run(
      Effect.gen(function*() {
        const { outcomes } = yield* answer(calls)
        assert.deepStrictEqual(tags(outcomes), ["TimedOut", "Succeeded"])
        assert.strictEqual(yield* VirtualTime.now, 32_000)
      }).pipe(Effect.provide(executor(scripted({
        search: { class: "ReadOnly", never: true, timeout: "30 seconds" },
        publish: { takes: "2 seconds" }
      }))))
    ))

  it.effect("tells what happens, in order", () =>
    Effect.gen(function*() {
      const process = yield* (yield* ToolExecutor.ToolExecutor).process()
      const events = yield* Stream.runCollect(process.stream(calls))
      assert.deepStrictEqual(events.map((it) => it._tag), [
        "ToolCallQueued",
        "ToolCallQueued",
        "ToolCallStart",
        "ToolCallComplete",
        "ToolCallStart",
        "ToolCallComplete",
        "ToolsEnd"
      ])
    }).pipe(Effect.scoped, Effect.provide(executor(real))))

  it.effect("does what the scenario says", () =>
    Effect.gen(function*() {
      const scenario = yield* Scenario.decode({
        name: "two writes and a person",
        tools: { search: { class: "ReadOnly", takes: "1 second" }, publish: { takes: "1 second" } },
        policy: { allow: ["search"], ask: ["publish"] },
        answers: [{ tool: "publish", after: "5 seconds", answer: { _tag: "Deny", reason: "not on a Friday" } }],
        script: [
          {
            wave: [{ id: "1", name: "search" }, { id: "2", name: "publish" }],
            expect: {
              outcomes: [
                { tag: "Succeeded", start: 0, end: 1000 },
                { tag: "Denied", by: "user", end: 6000, textIncludes: "not on a Friday" }
              ]
            }
          }
        ]
      })
      const { differences } = yield* ScenarioRunner.run(scenario)
      assert.deepStrictEqual(differences, [])
    }))
})
