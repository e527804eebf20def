/**
 * Tests of a program that runs tool calls, with swapped layers.
 *
 * `docs/testing.md` shows it in full.
 */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { Approvals, LocalExecutor, Permissions, ToolCall, ToolExecutor } from "effect-tool-executor"
import { ScriptedTools, VirtualTime } from "effect-tool-executor/testing"
import { Tool, Toolkit } from "effect/ai"

// The application: tools, their handlers, its executor, and a program that asks for `ToolExecutor`

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

const Executor = LocalExecutor.layer(toolkit, { policy: { allow: ["search"], ask: ["publish"] } }).pipe(
  Layer.provide(Handlers)
)

const answer = Effect.fn("answer")(function*(calls: ReadonlyArray<ToolCall.ToolCall>) {
  const process = yield* (yield* ToolExecutor.ToolExecutor).process()
  const { outcomes, toolMessages } = yield* process.executeWave(calls)
  return { tags: outcomes.map((it) => it._tag), texts: toolMessages.map((it) => it.text) }
}, Effect.scoped)

const calls = [ToolCall.make("1", "search", { query: "fish" }), ToolCall.make("2", "publish", { title: "Fish" })]

// A test provides a gate around the application's executor

describe("answer", () => {
  it.effect("runs the real tools without approvals", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual((yield* answer(calls)).texts, ["[\"fish.md\"]", "published Fish"])
    }).pipe(Effect.provide(Executor.pipe(Layer.provide(Permissions.layerAllowAll)))))

  it.effect("runs nothing if everything is denied", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual((yield* answer(calls)).tags, ["Denied", "Denied"])
    }).pipe(Effect.provide(Executor.pipe(Layer.provide(Permissions.layerDenyAll)))))

  it.effect("publishes what the approver edited", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* answer(calls)).texts[1], "published Birds")
    }).pipe(Effect.provide(Executor.pipe(Layer.provide(Approvals.layerApprover(({ args, tool }) => {
      assert.deepStrictEqual({ args, tool }, { args: { title: "Fish" }, tool: "publish" })
      return Effect.succeed({ _tag: "ApproveOnce", params: { title: "Birds" } })
    }))))))

  it.effect("gives a tool that hangs its 30 seconds, in no time", () => {
    const { handlers, toolkit } = ScriptedTools.make({
      search: { class: "ReadOnly", never: true, timeout: "30 seconds" },
      publish: { takes: "2 seconds" }
    })
    return VirtualTime.run(
      Effect.gen(function*() {
        assert.deepStrictEqual((yield* answer(calls)).tags, ["TimedOut", "Succeeded"])
        assert.strictEqual(yield* VirtualTime.now, 32_000)
      }).pipe(
        Effect.provide(LocalExecutor.layer(toolkit, { policy: { default: "allow" } }).pipe(Layer.provide(handlers)))
      )
    )
  })
})
