/** A language model whose tool calls the executor runs. */
import { assert, describe, it } from "@effect/vitest"
import * as Chat from "effect/ai/Chat"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as ExecutedModel from "../../../src/core/engine/ExecutedModel.ts"
import { LocalExecutor, ToolExecutor } from "../../../src/index.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { type Call, scriptedModel } from "../../support/scriptedModel.ts"

const N = Schema.Struct({ n: Schema.Finite })
const Read = Tool.make("read", { parameters: N, success: Schema.String }).annotate(Tool.Readonly, true)
const Write = Tool.make("write", { parameters: N, success: Schema.String })
const Failing = Tool.make("failing", { parameters: N, failure: Schema.String }).annotate(Tool.Readonly, true)
const kit = Toolkit.make(Read, Write, Failing)
const order: Array<string> = []
const handlers = kit.toLayer({
  read: ({ n }) => Effect.delay(Effect.sync(() => `${order.push(`r${n}`)} read`), (10 - n) * 100),
  write: ({ n }) => Effect.sync(() => `${order.push(`w${n}`)} written`),
  failing: () => Effect.fail("no")
})
const executor = LocalExecutor.layer(kit, {
  policy: { default: "allow" },
  rules: [
    { _tag: "MaxCalls", tool: "write", max: 1 },
    { _tag: "MaxCalls", tool: "write", max: 5, scope: "session" }
  ]
})
  .pipe(Layer.provide(handlers))

type Services =
  | Scope.Scope
  | LanguageModel.LanguageModel
  | ToolExecutor.ToolExecutor
  | Tool.HandlersFor<typeof kit.tools>

const run = <A, E>(program: Effect.Effect<A, E, Services>, ...turns: ReadonlyArray<ReadonlyArray<Call>>) =>
  runWith(scriptedModel(turns), program)

const runWith = <A, E>(scripted: ReturnType<typeof scriptedModel>, program: Effect.Effect<A, E, Services>) => {
  order.length = 0
  const services = ExecutedModel.layer.pipe(
    Layer.provide(scripted.layer),
    Layer.provideMerge(Layer.merge(executor, handlers))
  )
  return VirtualTime.run(Effect.scoped(Effect.provide(program, services)), { limit: "1 hour" })
}

const wave: ReadonlyArray<Call> = [
  ["1", "read", { n: 1 }],
  ["2", "read", { n: 2 }],
  ["3", "raed", { n: 3 }],
  ["4", "failing", { n: 4 }],
  ["5", "write", { n: 5 }],
  ["6", "write", { n: 6 }],
  ["7", "read", { m: 7 }]
]

const check = (
  results: ReadonlyArray<{ readonly id: string; readonly isFailure: boolean; readonly encodedResult: unknown }>
) => {
  // in the order of the calls, though the second was there before the first
  assert.deepStrictEqual(results.map((it) => it.id), ["1", "2", "3", "4", "5", "6", "7"])
  assert.deepStrictEqual(results.map((it) => it.isFailure), [false, false, true, true, false, true, true])
  assert.include(JSON.stringify(results[2]!.encodedResult), "There is no tool")
  assert.strictEqual(results[3]!.encodedResult, "no")
  assert.include(JSON.stringify(results[5]!.encodedResult), "execution-denied")
  assert.deepStrictEqual(order, ["r2", "r1", "w5"])
}

describe("a model whose calls the executor runs", () => {
  it.effect("has a result for each call of generateText, in their order, unknown names too", () =>
    run(
      Effect.gen(function*() {
        const response = yield* LanguageModel.generateText({ prompt: "go", toolkit: kit })
        check(response.toolResults)
        assert.strictEqual(response.finishReason, "tool-calls")
      }),
      wave
    ))

  it.effect("has them in streamText before the end of the response", () =>
    run(
      Effect.gen(function*() {
        const parts = yield* Stream.runCollect(LanguageModel.streamText({ prompt: "go", toolkit: kit }))
        check(parts.flatMap((it) => it.type === "tool-result" ? [it] : []))
        assert.strictEqual(parts.at(-1)!.type, "finish")
      }),
      wave
    ))

  it.effect("lets Chat go on with them", () => {
    const scripted = scriptedModel([wave])
    return runWith(
      scripted,
      Effect.gen(function*() {
        const chat = yield* Chat.empty
        yield* chat.generateText({ prompt: "go", toolkit: kit })
        yield* chat.generateText({ prompt: "and?", toolkit: kit })
        assert.include(JSON.stringify(scripted.seen[1]), "There is no tool")
      })
    )
  })

  it.effect("runs nothing of a response that was cut off, and says so", () =>
    runWith(
      scriptedModel([[["1", "write", { n: 1 }]]], "length"),
      Effect.gen(function*() {
        const { toolResults } = yield* LanguageModel.generateText({ prompt: "go", toolkit: kit })
        assert.include(JSON.stringify(toolResults[0]?.encodedResult), "cut off (length)")
        assert.deepStrictEqual(order, [])
      })
    ))

  it.effect("runs nothing of a response without a proven end", () =>
    Effect.forEach(["unknown", "error"], (reason) =>
      runWith(
        scriptedModel([[["1", "write", { n: 1 }]]], reason),
        Effect.gen(function*() {
          order.length = 0
          const { toolResults } = yield* LanguageModel.generateText({ prompt: "go", toolkit: kit })
          assert.strictEqual(toolResults[0]?.isFailure, true)
          assert.deepStrictEqual(order, [])
        })
      )))

  it.effect("runs nothing of a stream that ends without a word", () =>
    runWith(
      scriptedModel([[["1", "write", { n: 1 }]]], "none"),
      Effect.gen(function*() {
        order.length = 0
        const parts = yield* Stream.runCollect(LanguageModel.streamText({ prompt: "go", toolkit: kit }))
        assert.deepStrictEqual(parts.map((it) => it.type), ["tool-call", "tool-result"])
        assert.deepStrictEqual(order, [])
      })
    ))

  it.effect("keeps requests apart, and together where they are given one process", () =>
    run(
      Effect.gen(function*() {
        const write = Effect.map(
          LanguageModel.generateText({ prompt: "go", toolkit: kit }),
          ({ toolResults }) => toolResults.map((it) => it.isFailure)
        )
        assert.deepStrictEqual([yield* write, yield* write], [[false], [false]])
        const process = yield* Effect.flatMap(ToolExecutor.ToolExecutor, (it) => it.process())
        const inOne = Effect.provideService(write, ExecutedModel.Process, process)
        assert.deepStrictEqual([yield* inOne, yield* inOne], [[false], [true]])
      }),
      ...[1, 2, 3, 4].map((n): ReadonlyArray<Call> => [[`${n}`, "write", { n }]])
    ))

  it.effect("counts the requests of a conversation together, if that is named", () =>
    run(
      Effect.gen(function*() {
        const write = (session: string) =>
          Effect.map(
            LanguageModel.generateText({ prompt: "go", toolkit: kit }),
            ({ toolResults }) => toolResults[0]?.isFailure
          ).pipe(Effect.provideService(ExecutedModel.Session, session))
        const all = yield* Effect.forEach(["s", "s", "s", "s", "s", "s", "t"], write)
        assert.deepStrictEqual(all, [false, false, false, false, false, true, false])
      }),
      ...[1, 2, 3, 4, 5, 6, 7].map((n): ReadonlyArray<Call> => [[`${n}`, "write", { n }]])
    ))

  it.effect("leaves requests alone that run no tools, or run them themselves", () =>
    run(
      Effect.gen(function*() {
        const response = yield* LanguageModel.generateText({
          prompt: "go",
          toolkit: kit,
          disableToolCallResolution: true
        })
        assert.lengthOf(response.toolCalls, 1)
        assert.lengthOf(response.toolResults, 0)
        assert.strictEqual((yield* LanguageModel.generateText({ prompt: "go" })).finishReason, "stop")
        assert.deepStrictEqual(order, [])
      }),
      [["1", "write", { n: 1 }]]
    ))
})
