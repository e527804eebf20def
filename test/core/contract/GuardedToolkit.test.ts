/** Toolkits behind the executor, as `effect/ai` uses them. */
import { assert, describe, it } from "@effect/vitest"
import * as Chat from "effect/ai/Chat"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { type GuardedToolkit, LocalExecutor, ToolContext, ToolExecutor } from "../../../src/index.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { type Call, scriptedModel } from "../../support/scriptedModel.ts"

const N = Schema.Struct({ n: Schema.Finite })
const make = <Name extends string>(name: Name) => Tool.make(name, { parameters: N, success: Schema.String })
const Read = make("read").annotate(Tool.Readonly, true)
const Write = make("write")
const Denied = make("denied")
const Failing = Tool.make("failing", {
  parameters: N,
  success: Schema.String,
  failure: Schema.Struct({ code: Schema.Finite })
}).annotate(Tool.Readonly, true)
const Dying = make("dying").annotate(Tool.Readonly, true)
const Hanging = make("hanging").annotate(Tool.Readonly, true)
const Large = make("large").annotate(Tool.Readonly, true)
const Asking = make("asking").setNeedsApproval(() => Effect.die("broken"))
const Partial = make("partial").annotate(Tool.Readonly, true)
const Picture = Tool.make("picture", {
  parameters: N,
  success: Schema.Struct({ png: Schema.String }),
  toModelOutput: ({ png }) => [
    Prompt.textPart({ text: "a cat" }),
    Prompt.filePart({ mediaType: "image/png", data: png })
  ]
}).annotate(Tool.Readonly, true)
const kit = Toolkit.make(Read, Write, Denied, Failing, Dying, Hanging, Large, Partial, Asking, Picture)

const log: Array<string> = []
const traced = (name: string) => ({ n }: { readonly n: number }) =>
  Effect.acquireUseRelease(
    Effect.sync(() => log.push(`+${name}${n}`)),
    () => Effect.sleep("1 second"),
    () => Effect.sync(() => log.push(`-${name}${n}`))
  ).pipe(Effect.as(`${name} ${n}`))

const handlers = kit.toLayer({
  read: traced("r"),
  write: traced("w"),
  denied: () => Effect.succeed("never"),
  failing: () => Effect.fail({ code: 3 }),
  dying: () => Effect.die("secret"),
  hanging: () => Effect.never,
  asking: () => Effect.succeed("never"),
  large: () => Effect.succeed("x".repeat(50_000)),
  picture: ({ n }) => Effect.succeed({ png: "A".repeat(n) }),
  partial: ({ n }) =>
    Effect.flatMap(ToolContext.ToolContext, (it) => Effect.as(it.partial(`half of ${n}`), `whole of ${n}`))
})

const executor = LocalExecutor.layer(kit, {
  policy: { default: "allow", deny: ["denied"] },
  executionTimeout: "5 seconds",
  output: { maxFileChars: 1_000 },
  rules: [{ _tag: "MaxCalls", tool: "write", max: 3 }]
}).pipe(Layer.provide(handlers))

const guarded = Effect.gen(function*() {
  log.length = 0
  const process = yield* Effect.flatMap(ToolExecutor.ToolExecutor, (it) => it.process())
  return { process, toolkit: yield* process.guard(kit) }
})

const run = <A, E>(
  program: Effect.Effect<A, E, Scope.Scope | ToolExecutor.ToolExecutor | LanguageModel.LanguageModel>,
  calls: ReadonlyArray<Call>,
  scripted = scriptedModel([calls])
) => VirtualTime.run(Effect.scoped(Effect.provide(program, Layer.merge(executor, scripted.layer))), { limit: "1 hour" })

interface Told {
  readonly id: string
  readonly isFailure: boolean
  readonly encodedResult: unknown
}

const mixed: ReadonlyArray<Call> = [
  ["1", "read", { n: 1 }],
  ["2", "denied", { n: 2 }],
  ["3", "failing", { n: 3 }],
  ["4", "dying", { n: 4 }],
  ["5", "hanging", { n: 5 }],
  ["6", "read", { n: "six" }],
  ["7", "read", { n: 7 }]
]

const check = (results: ReadonlyArray<Told>) => {
  const of = (id: string) => results.find((it) => it.id === id)!
  assert.lengthOf(results, 7)
  assert.deepStrictEqual([of("1").encodedResult, of("7").encodedResult], ["r 1", "r 7"])
  assert.deepStrictEqual(of("3").encodedResult, { code: 3 })
  const types = ["2", "4", "5", "6"].map((id) => (of(id).encodedResult as { readonly type: string }).type)
  assert.deepStrictEqual(types, [
    "execution-denied",
    "execution-interrupted",
    "execution-interrupted",
    "execution-denied"
  ])
  assert.deepStrictEqual(results.filter((it) => it.isFailure).map((it) => it.id).toSorted(), ["2", "3", "4", "5", "6"])
  assert.notInclude(JSON.stringify(results), "secret")
  assert.include(JSON.stringify(of("6").encodedResult), "Correct the arguments")
}

describe("a guarded toolkit", () => {
  it.effect("through generateText has a result for every call, whatever becomes of it", () =>
    run(
      Effect.gen(function*() {
        const { toolkit } = yield* guarded
        const response = yield* LanguageModel.generateText({ prompt: "go", toolkit })
        check(response.toolResults)
      }),
      mixed
    ))

  it.effect("through streamText as well", () =>
    run(
      Effect.gen(function*() {
        const { toolkit } = yield* guarded
        const parts = yield* Stream.runCollect(LanguageModel.streamText({ prompt: "go", toolkit }))
        check(parts.flatMap((it): ReadonlyArray<Told> => it.type === "tool-result" ? [it] : []))
      }),
      mixed
    ))

  it.effect("through Chat tells the model, which goes on", () => {
    const scripted = scriptedModel([mixed, []])
    return run(
      Effect.gen(function*() {
        const { toolkit } = yield* guarded
        const chat = yield* Chat.empty
        yield* chat.generateText({ prompt: "go", toolkit })
        const second = yield* chat.generateText({ prompt: "and?", toolkit })
        assert.strictEqual(second.finishReason, "stop")
        assert.include(JSON.stringify(scripted.seen[1]), "execution-denied")
      }),
      [],
      scripted
    )
  })

  it.effect("lets reads of a request run side by side, and a write alone", () =>
    run(
      Effect.gen(function*() {
        const { toolkit } = yield* guarded
        yield* LanguageModel.generateText({ prompt: "go", toolkit })
        assert.deepStrictEqual(log, "+r1 +r2 -r1 -r2 +w3 -w3 +w4 -w4 +r5 -r5".split(" "))
      }),
      [["1", "read", { n: 1 }], ["2", "read", { n: 2 }], ["3", "write", { n: 3 }], ["4", "write", { n: 4 }], [
        "5",
        "read",
        { n: 5 }
      ]]
    ))

  it.effect("counts the calls of all requests of its process, and is watched like any", () => {
    const wave = (from: number): ReadonlyArray<Call> => [0, 1].map((n) => [`${from + n}`, "write", { n: from + n }])
    const scripted = scriptedModel([wave(1), wave(3)])
    return run(
      Effect.gen(function*() {
        const { process, toolkit } = yield* guarded
        const events = yield* Effect.forkScoped(
          Stream.runCollect(Stream.take(Stream.filter(process.events, (it) => it._tag === "ToolCallComplete"), 4)),
          { startImmediately: true }
        )
        yield* LanguageModel.generateText({ prompt: "go", toolkit })
        const second = yield* LanguageModel.generateText({ prompt: "go", toolkit })
        assert.deepStrictEqual(second.toolResults.map((it) => it.isFailure), [false, true])
        assert.lengthOf(yield* Fiber.join(events), 4)
      }),
      [],
      scripted
    )
  })

  it.effect("shows what a tool reports of its result before the end", () =>
    run(
      Effect.gen(function*() {
        const { toolkit } = yield* guarded
        const parts = yield* Stream.runCollect(LanguageModel.streamText({ prompt: "go", toolkit }))
        const results = parts.flatMap((it) => it.type === "tool-result" ? [[it.preliminary, it.encodedResult]] : [])
        assert.deepStrictEqual(results, [[true, "half of 1"], [false, "whole of 1"]])
      }),
      [["1", "partial", { n: 1 }]]
    ))

  it.effect("gives the caller a large output whole, and the model a part", () => {
    const scripted = scriptedModel([[["1", "large", { n: 1 }]], []])
    return run(
      Effect.gen(function*() {
        const { toolkit } = yield* guarded
        const chat = yield* Chat.empty
        const first = yield* chat.generateText({ prompt: "go", toolkit })
        const [result] = first.toolResults
        assert.lengthOf(result!.result as string, 50_000)
        yield* chat.generateText({ prompt: "and?", toolkit })
        const message = scripted.seen[1]!.content.find((it) => it.role === "tool")
        const part = (message!.content as ReadonlyArray<Prompt.ToolResultPart>)[0]!
        assert.include(JSON.stringify(part.modelOutput), "kept as artifact")
        assert.isBelow(JSON.stringify(part.modelOutput).length, 10_200)
      }),
      [],
      scripted
    )
  })

  it.effect("shows the model images within the limit, and gives the caller all", () => {
    const scripted = scriptedModel([[["1", "picture", { n: 1_000 }], ["2", "picture", { n: 1_004 }]], []])
    return run(
      Effect.gen(function*() {
        const { toolkit } = yield* guarded
        const chat = yield* Chat.empty
        const first = yield* chat.generateText({ prompt: "go", toolkit })
        assert.deepStrictEqual(first.toolResults.map((it) => (it.result as { readonly png: string }).png.length), [
          1_000,
          1_004
        ])
        yield* chat.generateText({ prompt: "and?", toolkit })
        const message = scripted.seen[1]!.content.find((it) => it.role === "tool")
        const [small, large] = message!.content as ReadonlyArray<Prompt.ToolResultPart>
        assert.deepStrictEqual(small?.modelOutput?.map((it) => it.type), ["text", "file"])
        assert.deepStrictEqual(large?.modelOutput?.map((it) => it.type), ["text"])
        assert.include(JSON.stringify(large?.modelOutput), "[image/png of 1004 characters as base64 left out")
      }),
      [],
      scripted
    )
  })

  it.effect("begins runs anew for each request, so that one does not wait for another's write", () =>
    run(
      Effect.gen(function*() {
        const { toolkit } = yield* guarded
        const [one, other] = [yield* toolkit, yield* toolkit]
        const started = VirtualTime.now
        const from = yield* started
        yield* Effect.all([
          Stream.runDrain(Stream.unwrap(one.handle("hanging", { n: 1 }))),
          Effect.flatMap(
            Stream.runDrain(Stream.unwrap(other.handle("read", { n: 1 }))),
            () => Effect.map(started, (now) => assert.strictEqual(now - from, 1_000))
          )
        ], { concurrency: 2 })
      }),
      []
    ))

  it.effect("has the executor ask, where effect/ai would let a broken question pass or fail the request", () =>
    run(
      Effect.gen(function*() {
        const { toolkit } = yield* guarded
        const response = yield* LanguageModel.generateText({ prompt: "go", toolkit })
        assert.deepStrictEqual(response.toolResults.map((it) => it.isFailure), [true, false])
        assert.include(JSON.stringify(response.toolResults[0]?.encodedResult), "needs approval")
      }),
      [["1", "asking", { n: 1 }], ["2", "read", { n: 2 }]]
    ))

  it.effect("is of tools that the executor has", () =>
    run(
      Effect.gen(function*() {
        const { process } = yield* guarded
        const error = yield* Effect.flip(process.guard(Toolkit.make(make("read"), make("unknown"))))
        assert.deepStrictEqual(error.problems.map((it) => it.path), ["tools.unknown"])
      }),
      []
    ))

  it("cannot be merged again without its guard", () => {
    const merged = (toolkit: GuardedToolkit.GuardedToolkit<typeof kit.tools>) =>
      // @ts-expect-error a guarded toolkit is none that can be merged
      Toolkit.merge(toolkit, Toolkit.make(make("more")))
    assert.isFunction(merged)
  })
})
