/** What a model wrote itself comes back to it in part only, and what a tool gave as plain data. */
import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as ToolCall from "../src/core/vocabulary/ToolCall.ts"
import { ToolAnnotations, ToolOutcome } from "../src/index.ts"
import { call, type Env, type Options, run, tag, tags, type ToolSpec, value } from "./support/Harness.ts"

const huge = "x".repeat(1_000_000)
const none = () => Effect.void

const wave = (env: Env, ...calls: ReadonlyArray<ToolCall.ToolCall>) => env.process.executeWave(calls)

describe("a text to the model stays within a few thousand characters", () => {
  const closed = Tool.dynamic("t", {
    parameters: { type: "object", additionalProperties: false, properties: {} },
    success: Schema.Unknown
  })
  const struct = Tool.make("t", {
    parameters: Schema.Struct({ all: Schema.Array(Schema.Finite) }),
    success: Schema.Unknown
  })
  const deaf: ToolSpec = {
    class: "ConcurrentMut",
    handler: () => Effect.uninterruptible(Effect.sleep("1 hour")),
    annotate: (tool) => tool.annotate(ToolAnnotations.Resources, () => ["the one"])
  }
  const notRetryable: ToolSpec = {
    handler: () => Effect.fail("no"),
    annotate: (tool) => tool.annotate(ToolAnnotations.IsRetryable, () => false)
  }
  const cases: ReadonlyArray<
    readonly [string, expected: string, Options, Record<string, ToolSpec>, ReadonlyArray<ToolCall.ToolCall>]
  > = [
    ["the id of the call that has its tool blocked", "ToolBlocked", {}, { t: notRetryable }, [
      call(huge, "t"),
      call("2", "t", { b: 1 })
    ]],
    ["the id of the orphan that has its resource", "ToolBlocked", { tools: { t: { timeout: 100 } } }, { t: deaf }, [
      call(huge, "t", {}),
      call("2", "t", { b: 1 })
    ]],
    ["the id of the orphan that it equals", "DuplicateCall", { tools: { t: { timeout: 100 } } }, { t: deaf }, [
      call(huge, "t", {}),
      call("2", "t", {})
    ]],
    ["the id of the call that stopped the wave", "Skipped", { onExecutionError: "stop" }, { t: { handler: none } }, [
      call(huge, "nope"),
      call("2", "t")
    ]],
    ["a text that is no JSON", "InvalidParameters", {}, { t: { handler: none } }, [
      ToolCall.fromText("1", "t", `{"a": "${huge}`)
    ]],
    ["an argument with a hundred thousand mistakes", "InvalidParameters", {}, { t: { handler: none, tool: struct } }, [
      call("1", "t", { all: Array.from({ length: 100_000 }, () => "no") })
    ]],
    ["a list of ten thousand arguments that are not known", "InvalidParameters", {}, {
      t: { handler: none, tool: closed }
    }, [call("1", "t", Object.fromEntries(Array.from({ length: 10_000 }, (_, n) => [`argument_${n}`, n])))]]
  ]
  for (const [what, expected, options, tools, wanted] of cases) {
    it.effect(`however long ${what}`, () =>
      run(tools, { mode: "sequential", artifacts: false, ...options }, (env) =>
        Effect.gen(function*() {
          const { outcomes, toolMessages } = yield* wave(env, ...wanted)
          assert.strictEqual(tag(outcomes.at(-1)!), expected)
          assert.isBelow(toolMessages.at(-1)!.text.length, 3_000)
        })))
  }

  it.effect("however long the reason why calls are cancelled, before or after their start", () =>
    run({ t: () => Effect.never, q: none }, { mode: "sequential" }, (env) =>
      Effect.gen(function*() {
        yield* Effect.forkChild(Effect.delay(env.process.cancel(huge), 10))
        const { outcomes, toolMessages } = yield* wave(env, call("1", "t"), call("2", "q"))
        assert.deepStrictEqual(outcomes.map(tag), ["Cancelled", "Cancelled"])
        for (const { text } of toolMessages) assert.isBelow(text.length, 3_000)
      })))
})

describe("an outcome is plain data, equal to itself after JSON", () => {
  class Custom extends Schema.TaggedError<Custom>()("Custom", { code: Schema.Finite }) {}
  const circular: Record<string, unknown> = {}
  circular.self = circular
  const failures: Record<string, unknown> = {
    "an Error": new Error("disk full"),
    "an Error with a cause": new Error("disk full", { cause: new Error("worn out") }),
    "an object with an Error in it": { at: 1, error: new Error("disk full") },
    "a tagged error": new Custom({ code: 7 }),
    "a bigint": 1n,
    "an object that contains itself": circular,
    "a function": () => 1,
    "a symbol": Symbol("s"),
    "nothing": undefined
  }
  for (const [what, failure] of Object.entries(failures)) {
    it.effect(`where a tool fails with ${what}`, () =>
      run({ t: () => Effect.fail(failure) }, {}, (env) =>
        Effect.gen(function*() {
          const [outcome] = (yield* wave(env, call("1", "t"))).outcomes
          assert.strictEqual(tag(outcome!), "Failed")
          const json: unknown = JSON.parse(JSON.stringify(outcome))
          const read = yield* Effect.orDie(Schema.decodeUnknownEffect(ToolOutcome.ToolOutcome)(json))
          assert.deepStrictEqual<unknown>(read, outcome)
          assert.deepStrictEqual(json, outcome)
        })))
  }

  it.effect("where a tool gives nothing, once and again", () =>
    run({ t: none }, { dedupe: { onDuplicate: "replay", readWindow: "5 minutes" } }, (env) =>
      Effect.gen(function*() {
        yield* wave(env, call("1", "t", {}))
        const [again] = (yield* wave(env, call("2", "t", {}))).outcomes
        assert.deepInclude(again, { _tag: "Succeeded", replayOf: "1" })
        const json: unknown = JSON.parse(JSON.stringify(again))
        const read = yield* Effect.orDie(Schema.decodeUnknownEffect(ToolOutcome.ToolOutcome)(json))
        assert.strictEqual(ToolOutcome.text(read), ToolOutcome.text(again!))
      })))
})

describe("the message of an Error", () => {
  const failures = {
    "alone": new TypeError("disk full"),
    "inside an object": { at: 1, error: new TypeError("disk full") }
  }
  for (const [where, failure] of Object.entries(failures)) {
    it.effect(`is told, ${where}`, () =>
      run(
        { t: () => Effect.fail<unknown>(failure) },
        {},
        (env) =>
          Effect.map(
            wave(env, call("1", "t")),
            ({ toolMessages }) => assert.include(toolMessages[0]!.text, "disk full")
          )
      ))
  }
})

describe("arguments that keep a secret", () => {
  it.effect("are told apart, and not refused because they cannot be shown", () => {
    const tool = Tool.make("t", {
      parameters: Schema.Struct({ token: Schema.RedactedFromValue(Schema.String) }),
      success: Schema.Unknown
    }).annotate(Tool.Readonly, true)
    return run({ t: { handler: () => Effect.succeed(1), tool } }, {}, (env) =>
      Effect.gen(function*() {
        const result = yield* wave(
          env,
          call("1", "t", { token: "a" }),
          call("2", "t", { token: "b" }),
          call("3", "t", { token: "a" })
        )
        assert.deepStrictEqual(tags(result), ["Succeeded", "Succeeded", "DuplicateCall"])
        assert.deepStrictEqual(value(result.outcomes[0]), 1)
      }))
  })
})
