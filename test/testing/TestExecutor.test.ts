/** An executor for tests of programs that run tool calls. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Schema } from "effect"
import { ToolAnnotations, ToolCall, ToolContext, ToolExecutor } from "effect-tool-executor"
import { AgentExecutor } from "effect-tool-executor/agent"
import { Scenario, ScriptedModel, ScriptedTools, VirtualTime } from "effect-tool-executor/testing"
import { Tool, Toolkit } from "effect/ai"
import * as TestExecutor from "../../src/testing/TestExecutor.ts"

const Read = Tool.make("read", { parameters: Schema.Struct({ n: Schema.Finite }) }).annotate(Tool.Readonly, true)
const Wait = Tool.make("wait").annotate(Tool.Readonly, true)
const Send = Tool.make("send", { parameters: Schema.Struct({ to: Schema.String }), failure: Schema.String })
const Agent = Tool.make("agent").annotate(Tool.Readonly, true).annotate(ToolAnnotations.Recursive, true)
const toolkit = Toolkit.make(Read, Wait, Send, Agent)
const handlers = toolkit.toLayer({
  read: () => Effect.sleep("1 second"),
  wait: () => Effect.never,
  send: ({ to }) => to === "ada" ? Effect.fail("no such person") : Effect.void,
  agent: () =>
    Effect.gen(function*() {
      const { executor } = yield* ToolContext.ToolContext
      const child = yield* Effect.orDie(executor!.fork({ name: "child" }))
      yield* (yield* child.process()).executeWave([ToolCall.make("inner", "read", { n: 9 })])
    }).pipe(Effect.scoped)
})

type Services = ToolExecutor.ToolExecutor | TestExecutor.TestExecutor

const run = <A, E>(program: Effect.Effect<A, E, Services>, options: TestExecutor.Options = {}) =>
  VirtualTime.run(program.pipe(Effect.provide(TestExecutor.layer(toolkit, options).pipe(Layer.provide(handlers)))))

const wave = (...calls: ReadonlyArray<ToolCall.ToolCall>) =>
  Effect.gen(function*() {
    const process = yield* (yield* ToolExecutor.ToolExecutor).process()
    return yield* process.executeWave(calls)
  }).pipe(Effect.scoped)

const calls = [
  ToolCall.make("1", "read", { n: 1 }),
  ToolCall.make("2", "wait"),
  ToolCall.make("3", "send", { to: "ada" }),
  ToolCall.make("4", "raed")
]

/** The text of what a matcher has against something. */
const against = (match: () => void): ReadonlyArray<string> => {
  try {
    match()
    return []
  } catch (error) {
    assert.instanceOf(error, TestExecutor.Mismatch)
    return error.message.split("\n")
  }
}

describe("an executor for tests", () => {
  it.effect("keeps what it told of all calls, those of sub-agents included", () =>
    run(
      Effect.gen(function*() {
        const { outcomes } = yield* wave(...calls, ToolCall.make("5", "agent"))
        TestExecutor.expectOutcomes(outcomes, [
          "Succeeded",
          { tag: "TimedOut", which: "tool", start: 0, end: 60_000 },
          "Failed",
          "ToolNotFound",
          "Succeeded"
        ])
        const kept = yield* TestExecutor.TestExecutor
        TestExecutor.ran(yield* kept.events, ["read 1", "wait", "send", "agent", "read inner"])
        TestExecutor.asked(yield* kept.events, ["send: ApproveOnce"])
        TestExecutor.expectEvents(yield* kept.events, [
          "ToolCallComplete read 1",
          "ToolCallComplete wait",
          "ToolCallComplete send",
          "ToolCallComplete raed",
          "ToolCallComplete read inner",
          "ToolCallComplete agent",
          "ToolsEnd"
        ])
        // of sub-agents' calls, too, in the order in which they were queued
        assert.deepStrictEqual((yield* kept.outcomes).map((it) => it.callId), ["1", "2", "3", "4", "5", "inner"])
      }),
      { answer: () => ({ _tag: "ApproveOnce" }), executionTimeout: "1 minute" }
    ))

  it.effect("has nobody to ask unless a test says so, and people who say nothing", () =>
    Effect.gen(function*() {
      const send = wave(ToolCall.make("1", "send", { to: "bob" }))
      const by = (by: string, end: number) =>
        Effect.map(send, ({ outcomes }) => {
          TestExecutor.expectOutcomes(outcomes, [{ reason: "PermissionDenied", by }])
          return end
        })
      yield* run(by("noApprover", 0))
      yield* run(by("timeout", 300_000), { answer: () => "nothing" })
      yield* run(by("user", 5_000), { answer: () => Effect.delay(Effect.succeed({ _tag: "Deny" }), "5 seconds") })
    }))

  it.effect("says what differs in outcomes", () =>
    run(
      Effect.gen(function*() {
        const { outcomes } = yield* wave(...calls.slice(0, 3))
        assert.deepStrictEqual(
          against(() => TestExecutor.expectOutcomes(outcomes, ["Failed", { tag: "TimedOut", which: "turn" }])),
          [
            "The outcomes are not as expected:",
            "  outcome 0 (call 1 of read): expected Failed, got Succeeded",
            "  outcome 1 (call 2 of wait), which: expected \"turn\", got \"tool\"",
            "  outcome 2 (call 3 of send): got PermissionDenied, and nothing is expected"
          ]
        )
        assert.deepStrictEqual(against(() => TestExecutor.expectOutcomes([], ["Succeeded"])), [
          "The outcomes are not as expected:",
          "  outcome 0: expected \"Succeeded\", got no outcome"
        ])
      }),
      { executionTimeout: "10 seconds" }
    ))

  it.effect("says what differs in events, in what ran and in what was asked", () =>
    run(
      Effect.gen(function*() {
        yield* wave(ToolCall.make("1", "read", { n: 1 }), ToolCall.make("2", "send", { to: "bob" }))
        const events = yield* (yield* TestExecutor.TestExecutor).events
        assert.deepStrictEqual(
          against(() =>
            TestExecutor.expectEvents(events, [
              "ToolCallStart send",
              "ToolCallStart read",
              "ToolCallComplete read",
              "ToolCallComplete send"
            ])
          ),
          [
            "The events are not as expected:",
            "  - ToolCallStart send (expected)",
            "    ToolCallStart read 1",
            "    ToolCallComplete read 1",
            "  + ToolCallStart send 2 (got)",
            "    ToolCallComplete send 2"
          ]
        )
        assert.deepStrictEqual(against(() => TestExecutor.ran(events, ["read"])), [
          "The calls that ran are not as expected:",
          "    read 1",
          "  + send 2 (got)"
        ])
        assert.deepStrictEqual(against(() => TestExecutor.asked(events, ["send: Deny"])), [
          "The questions are not as expected:",
          "  - send: Deny (expected)",
          "  + send: ApproveOnce (got)"
        ])
      }),
      { answer: () => ({ _tag: "ApproveOnce" }) }
    ))

  it.effect("has people who answer an agent over it as well", () => {
    const model = ScriptedModel.layer([{ calls: [{ name: "send", params: { to: "bob" } }] }, { text: "Sent." }])
    const agents = AgentExecutor.layer.pipe(
      Layer.provideMerge(TestExecutor.layer(toolkit, { answer: () => ({ _tag: "ApproveOnce" }) })),
      Layer.provide([handlers, model])
    )
    return VirtualTime.run(
      Effect.gen(function*() {
        yield* (yield* AgentExecutor.AgentExecutor).run({ prompt: "Write to Bob", mode: "Interactive" })
        const { events } = yield* TestExecutor.TestExecutor
        TestExecutor.asked(yield* events, ["send: ApproveOnce"])
        TestExecutor.ran(yield* events, ["send"])
      }).pipe(Effect.provide(agents))
    )
  })

  it.effect("keeps what is told while a wave runs, and of batches and forks", () =>
    run(
      Effect.gen(function*() {
        const executor = yield* ToolExecutor.ToolExecutor
        const { events } = yield* TestExecutor.TestExecutor
        const batch = yield* executor.batch()
        const first = yield* batch.process()
        const running = yield* Effect.forkChild(first.executeWave([calls[0]!]), { startImmediately: true })
        TestExecutor.ran(yield* events, ["read"])
        yield* Fiber.join(running)
        const fork = yield* executor.fork()
        yield* (yield* fork.process()).executeWave([ToolCall.make("f", "read", { n: 2 })])
        TestExecutor.ran(yield* events, ["read 1", "read f"])
      }).pipe(Effect.scoped)
    ))

  it.effect("takes tools that do what a script says", () =>
    Effect.gen(function*() {
      const { tools } = yield* Scenario.decode({
        name: "tools",
        tools: { read: { class: "ReadOnly", takes: "2 seconds", returns: 1 } },
        script: []
      })
      const scripted = ScriptedTools.make(tools)
      const { outcomes } = yield* VirtualTime.run(
        wave(ToolCall.make("1", "read")).pipe(
          Effect.provide(TestExecutor.layer(scripted.toolkit).pipe(Layer.provide(scripted.handlers)))
        )
      )
      TestExecutor.expectOutcomes(outcomes, [{ tag: "Succeeded", output: 1, end: 2_000 }])
    }))
})
