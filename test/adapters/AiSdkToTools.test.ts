/** Our executor behind the tools of the AI SDK's loops. */
import { assert, describe, expectTypeOf, it } from "@effect/vitest"
import { generateText, isStepCount, streamText, ToolLoopAgent, type ToolSet } from "ai"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as AiSdk from "../../src/adapters/AiSdk.ts"
import { LocalExecutor, ToolExecutor, ToolOutcome, type ToolProcess } from "../../src/index.ts"
import * as VirtualTime from "../../src/testing/VirtualTime.ts"
import type { Call } from "../support/scriptedModel.ts"
import { sdkModel } from "../support/sdkModel.ts"

const N = Schema.Struct({ n: Schema.Finite })
const make = <Name extends string>(name: Name) => Tool.make(name, { parameters: N, success: Schema.String })
const Read = make("read").annotate(Tool.Readonly, true)
const Write = make("write")
const Refused = make("refused")
const Failing = Tool.make("failing", {
  parameters: N,
  success: Schema.String,
  failure: Schema.Struct({ code: Schema.Finite })
}).annotate(Tool.Readonly, true)
const Dying = make("dying").annotate(Tool.Readonly, true)
const Hanging = make("hanging").annotate(Tool.Readonly, true)
const Large = make("large").annotate(Tool.Readonly, true)
const Nothing = Tool.make("nothing", { parameters: N }).annotate(Tool.Readonly, true)
const Worded = Tool.make("worded", {
  parameters: N,
  success: Schema.Struct({ n: Schema.FiniteFromString }),
  toModelOutput: ({ n }) => [Prompt.textPart({ text: `the number ${n}` })]
}).annotate(Tool.Readonly, true)
const Asking = make("asking").setNeedsApproval(true)
const Picture = Tool.make("picture", {
  parameters: N,
  success: Schema.Struct({ png: Schema.String }),
  toModelOutput: ({ png }) => [
    Prompt.textPart({ text: "a cat" }),
    Prompt.filePart({ mediaType: "image/png", data: png }),
    Prompt.filePart({ mediaType: "audio/wav", data: png })
  ]
}).annotate(Tool.Readonly, true)
const kit = Toolkit.make(Read, Write, Refused, Failing, Dying, Hanging, Large, Nothing, Worded, Asking, Picture)

const log: Array<string> = []
const traced = (name: string) => ({ n }: { readonly n: number }) =>
  Effect.acquireUseRelease(
    Effect.sync(() => log.push(`+${name}${n}`)),
    () => Effect.sleep("1 second"),
    () => Effect.sync(() => log.push(`-${name}${n}`))
  ).pipe(Effect.as(`${name} ${n}`))

const executor = LocalExecutor.layer(kit, {
  policy: { default: "allow", ask: ["asking"] },
  rules: [{ _tag: "RequiresPrecedingTools", tool: "refused", tools: ["nothing"] }],
  executionTimeout: "5 seconds",
  dedupe: false
}).pipe(Layer.provide(kit.toLayer({
  read: traced("r"),
  write: traced("w"),
  refused: () => Effect.succeed("never"),
  failing: () => Effect.fail({ code: 3 }),
  dying: () => Effect.die("secret"),
  hanging: () => Effect.never,
  large: ({ n }) => Effect.succeed(`${n}`.repeat(50_000)),
  nothing: () => Effect.void,
  worded: ({ n }) => Effect.succeed({ n }),
  picture: () => Effect.succeed({ png: "AQID" }),
  asking: () => Effect.succeed("never")
})))

const begin = Effect.gen(function*() {
  log.length = 0
  const service = yield* ToolExecutor.ToolExecutor
  return yield* service.process()
})

const run = <A, E>(program: (process: ToolProcess.ToolProcess) => Effect.Effect<A, E, ToolExecutor.ToolExecutor>) =>
  VirtualTime.run(Effect.scoped(Effect.provide(Effect.flatMap(begin, program), executor)), { limit: "1 hour" })

/** What a host aborts a request with. */
const request = () => new AbortController()

const generate = (tools: ToolSet, { model }: ReturnType<typeof sdkModel>, abortSignal?: AbortSignal) =>
  Effect.promise(() =>
    generateText({
      model,
      tools,
      prompt: "go",
      stopWhen: isStepCount(5),
      ...abortSignal === undefined ? {} : { abortSignal }
    })
  )

const mixed: ReadonlyArray<Call> = [
  ["1", "read", { n: 1 }],
  ["2", "refused", { n: 2 }],
  ["3", "failing", { n: 3 }],
  ["4", "dying", { n: 4 }],
  ["5", "hanging", { n: 5 }],
  ["6", "read", { n: "six" }],
  ["7", "unknown", {}],
  ["8", "read", "{not json"],
  ["9", "asking", { n: 9 }],
  ["10", "read", { n: 10 }]
]

const check = (scripted: ReturnType<typeof sdkModel>) => {
  const read = scripted.read()
  assert.lengthOf(Array.from(read), 10)
  const of = (id: string) => read.get(id) as { readonly type: string; readonly value: string }
  assert.deepStrictEqual([of("1"), of("10")], [{ type: "text", value: "r 1" }, { type: "text", value: "r 10" }])
  const errors = Array.from(read).filter(([, it]) => it.type === "error-text").map(([id]) => id)
  assert.deepStrictEqual(errors, ["2", "3", "4", "5", "6", "7", "8", "9"])
  assert.match(of("2").value, /^"refused"/)
  assert.include(of("3").value, `"failing" failed: {"code":3}`)
  assert.include(of("4").value, "internal error")
  assert.notInclude(of("4").value, "secret")
  assert.match(of("5").value, /^"hanging" took longer than its limit of 5 s/)
  assert.include(of("6").value, "Correct the arguments")
  assert.include(of("7").value, "unknown")
  assert.include(of("9").value, "needs approval")
}

describe("tools for the AI SDK", () => {
  it.effect("answer every call through generateText, whatever becomes of it, and the model goes on", () =>
    run(Effect.fnUntraced(function*(process) {
      const scripted = sdkModel([mixed, [["11", "read", { n: 11 }]]])
      const tools = yield* AiSdk.toTools(process)
      const result = yield* generate(tools, scripted)
      assert.strictEqual(result.text, "done")
      assert.lengthOf(result.steps, 3)
      assert.deepStrictEqual(scripted.read().get("11"), { type: "text", value: "r 11" })
      scripted.model.doGenerateCalls.pop()
      check(scripted)
    })))

  it.effect("answer every call through streamText as well", () =>
    run(Effect.fnUntraced(function*(process) {
      const scripted = sdkModel([mixed])
      const tools = yield* AiSdk.toTools(process)
      yield* Effect.promise(async () => {
        const { stream } = streamText({ model: scripted.model, tools, prompt: "go", stopWhen: isStepCount(5) })
        for await (const part of stream) assert.notStrictEqual(part.type, "error")
      })
      check(scripted)
    })))

  it.effect("serve an agent", () =>
    run(Effect.fnUntraced(function*(process) {
      const scripted = sdkModel([[["1", "read", { n: 1 }]]])
      const agent = new ToolLoopAgent({ model: scripted.model, tools: yield* AiSdk.toTools(process) })
      const result = yield* Effect.promise(() => agent.generate({ prompt: "go" }))
      assert.strictEqual(result.text, "done")
      assert.deepStrictEqual(scripted.read().get("1"), { type: "text", value: "r 1" })
    })))

  it.effect("throw the tagged reason for the host", () =>
    run(Effect.fnUntraced(function*(process) {
      const result = yield* generate(yield* AiSdk.toTools(process), sdkModel([mixed]))
      const errors = result.steps[0]!.content.flatMap((it) => it.type === "tool-error" ? [it] : [])
      const reasons = errors.map((it) =>
        it.error instanceof ToolOutcome.ToolExecutionError ? [it.toolCallId, it.error.reason._tag] : it.toolCallId
      )
      assert.sameDeepMembers(reasons, [
        ["2", "RuleViolation"],
        ["3", "Failed"],
        ["4", "Failed"],
        ["5", "TimedOut"],
        ["6", "InvalidParameters"],
        "7",
        "8",
        ["9", "PermissionDenied"]
      ])
    })))

  it.effect("show the model images, and name what its messages have no place for", () =>
    run(Effect.fnUntraced(function*(process) {
      const scripted = sdkModel([[["1", "picture", { n: 1 }]]])
      const result = yield* generate(yield* AiSdk.toTools(process), scripted)
      assert.deepStrictEqual(JSON.parse(JSON.stringify(scripted.read().get("1"))), {
        type: "content",
        value: [
          { type: "text", text: "a cat" },
          { type: "file", mediaType: "image/png", data: { type: "data", data: "AQID" } },
          { type: "text", text: "[audio/wav omitted]" }
        ]
      })
      const given = result.steps[0]!.toolResults.map((it) => it.output as unknown)
      assert.deepStrictEqual(given, [{ png: "AQID" }])
    })))

  it.effect("show the model what the executor shows", () =>
    run(Effect.fnUntraced(function*(process) {
      const scripted = sdkModel([])
      const tools = yield* AiSdk.toTools(process)
      yield* generate(tools, scripted)
      const shown = scripted.model.doGenerateCalls[0]!.tools!
      assert.deepStrictEqual(shown.map((it) => it.name), Object.keys(kit.tools))
      const first = shown[0]
      assert.isTrue(first?.type === "function")
      if (first?.type === "function") assert.deepInclude(first.inputSchema, { type: "object", required: ["n"] })
      assert.deepStrictEqual((yield* process.tools).map((it) => it.name), Object.keys(kit.tools))
    })))

  it.effect("let reads of a step run side by side, and a write alone", () =>
    run(Effect.fnUntraced(function*(process) {
      const names = ["read", "read", "write", "write", "read"]
      const scripted = sdkModel([names.map((name, n) => [`${n}`, name, { n }])])
      yield* generate(yield* AiSdk.toTools(process), scripted)
      assert.deepStrictEqual(log, "+r0 +r1 -r0 -r1 +w2 -w2 +w3 -w3 +r4 -r4".split(" "))
    })))

  it.effect("do not let a request wait for a run of another one, nor mix up what they read", () =>
    run(Effect.fnUntraced(function*(process) {
      const tools = yield* AiSdk.toTools(process)
      const calls = (n: number): ReadonlyArray<Call> => [["1", "large", { n }], ["2", "hanging", { n }]]
      const [one, other] = [sdkModel([calls(1)]), sdkModel([[["1", "large", { n: 2 }]], [["2", "read", { n: 2 }]]])]
      const [, time] = yield* Effect.all([
        generate(tools, one),
        Effect.andThen(generate(tools, other), VirtualTime.now)
      ], { concurrency: 2 })
      assert.strictEqual(time, 1_000)
      const text = (scripted: typeof one) => (scripted.read().get("1") as { readonly value: string }).value
      assert.match(text(one), /^1+\n\[/)
      assert.match(text(other), /^2+\n\[/)
    })))

  it.effect("give the host a large output whole, and the model a part and how to read on", () =>
    run(Effect.fnUntraced(function*(process) {
      const scripted = sdkModel([[["1", "large", { n: 1 }]]])
      const result = yield* generate(yield* AiSdk.toTools(process), scripted)
      assert.deepInclude(result.steps[0]!.toolResults[0], { dynamic: true, output: "1".repeat(50_000) })
      const { value } = scripted.read().get("1") as { readonly value: string }
      assert.include(value, "kept as artifact")
      assert.isBelow(value.length, 10_001)
    })))

  it.effect("cut a large output of an earlier conversation, too", () =>
    run(Effect.fnUntraced(function*(process) {
      const { large } = yield* AiSdk.toTools(process)
      const old = { toolCallId: "old", input: {} }
      const text = (output: unknown) => large!.toModelOutput!({ ...old, output }) as { readonly value: string }
      assert.deepStrictEqual(text("short"), { type: "text", value: "short" } as never)
      assert.deepStrictEqual(text({ n: 7n }), { type: "text", value: `{"n":"7"}` } as never)
      assert.deepStrictEqual(text(undefined), { type: "text", value: "Done." } as never)
      assert.lengthOf(text("x".repeat(50_000)).value, 10_000)
      assert.include(text("x".repeat(50_000)).value, "[cut: 50000 characters in all]")
    })))

  it.effect("remember a text only until the SDK has asked for it", () =>
    run(Effect.fnUntraced(function*(process) {
      const tools = yield* AiSdk.toTools(process)
      yield* generate(tools, sdkModel([[["1", "large", { n: 1 }]]]))
      const again = tools["large"]!.toModelOutput!({ toolCallId: "1", input: {}, output: "1".repeat(50_000) })
      assert.include(JSON.stringify(again), "[cut: 50000 characters in all]")
    })))

  it.effect("give the host the encoded output, and the model the tool's own text", () =>
    run(Effect.fnUntraced(function*(process) {
      const scripted = sdkModel([[["1", "worded", { n: 1 }], ["2", "nothing", { n: 1 }]]])
      const result = yield* generate(yield* AiSdk.toTools(process), scripted)
      assert.deepStrictEqual(result.steps[0]!.toolResults.map((it) => it.output), [{ n: "1" }, undefined])
      assert.deepStrictEqual(Array.from(scripted.read().values()), [
        { type: "text", value: "the number 1" },
        { type: "text", value: "Done." }
      ])
    })))

  it.effect("end the calls of a request that is aborted, and those only", () =>
    run(Effect.fnUntraced(function*(process) {
      const tools = yield* AiSdk.toTools(process)
      const controller = request()
      const aborted = generate(
        tools,
        sdkModel([[["1", "write", { n: 1 }], ["2", "write", { n: 2 }]]]),
        controller.signal
      )
      const other = sdkModel([[["1", "read", { n: 3 }]]])
      const [exit] = yield* Effect.all([
        Effect.exit(aborted),
        generate(tools, other),
        Effect.andThen(Effect.sleep("500 millis"), Effect.sync(() => controller.abort()))
      ], { concurrency: 3 })
      assert.strictEqual(exit._tag, "Failure")
      assert.deepStrictEqual(log.toSorted(), ["+r3", "+w1", "-r3", "-w1"])
      assert.deepStrictEqual(other.read().get("1"), { type: "text", value: "r 3" })
    })))

  it.effect("run nothing for a request that was aborted before, and say so", () =>
    run(Effect.fnUntraced(function*(process) {
      const { write } = yield* AiSdk.toTools(process)
      const call = (abortSignal: AbortSignal) =>
        Effect.promise(() =>
          Promise.resolve(write!.execute!({ n: 1 }, { toolCallId: "1", messages: [], abortSignal, context: {} })).then(
            () => "ran",
            (error: unknown) => error as Error
          )
        )
      const before = yield* call(AbortSignal.abort("gone"))
      assert.deepInclude(before, { name: "AbortError", cause: "gone" })
      assert.include(String(before), "\"write\" was cancelled")
      assert.deepStrictEqual(log, [])
      const controller = request()
      const [during] = yield* Effect.all([
        call(controller.signal),
        Effect.andThen(Effect.sleep("500 millis"), Effect.sync(() => controller.abort("bored")))
      ], { concurrency: 2 })
      assert.deepInclude(during, { name: "AbortError", cause: "bored" })
      assert.deepStrictEqual(log, ["+w1", "-w1"])
    })))

  it.effect("answer with what became of calls of a process that is over", () =>
    run(Effect.fnUntraced(function*(process) {
      const scripted = sdkModel([[["1", "read", { n: 1 }]]])
      const tools = yield* AiSdk.toTools(process)
      yield* process.cancel("the user left")
      yield* generate(tools, scripted)
      assert.include(JSON.stringify(scripted.read().get("1")), "the user left")
    })))

  it.effect("of a toolkit are typed, those of it only", () =>
    run(Effect.fnUntraced(function*(process) {
      const part = Toolkit.make(Read, Worded)
      const tools = yield* AiSdk.toTools(process, part)
      assert.deepStrictEqual(Object.keys(tools), ["read", "worded"])
      const { model } = sdkModel([[["1", "worded", { n: 1 }]]])
      const result = yield* Effect.promise(() => generateText({ model, tools, prompt: "go" }))
      const [first] = result.toolResults
      assert.deepInclude(first, { toolName: "worded", input: { n: 1 }, output: { n: "1" }, dynamic: false })
      if (first?.dynamic !== true && first?.toolName === "worded") {
        expectTypeOf(first.input).toEqualTypeOf<{ readonly n: number }>()
        expectTypeOf(first.output).toEqualTypeOf<{ readonly n: string }>()
      }
    })))

  it.effect("of a toolkit are tools that the executor has", () =>
    run(Effect.fnUntraced(function*(process) {
      const error = yield* Effect.flip(AiSdk.toTools(process, Toolkit.make(Read, make("other"))))
      assert.deepStrictEqual(error.problems.map((it) => it.path), ["tools.other"])
    })))

  it.effect("of a toolkit are all of its tools, and what the policy denies is refused when it is called", () =>
    run(Effect.fnUntraced(function*() {
      const service = yield* ToolExecutor.ToolExecutor
      yield* Effect.scoped(Effect.gen(function*() {
        const readOnly = yield* service.readOnly()
        const process = yield* readOnly.process()
        assert.notInclude(Object.keys(yield* AiSdk.toTools(process)), "write")
        const tools = yield* AiSdk.toTools(process, kit)
        assert.deepStrictEqual(Object.keys(tools), Object.keys(kit.tools))
        const call = { toolCallId: "1", messages: [] } as never
        const refused = yield* Effect.promise(async () => {
          try {
            return await tools.write.execute({ n: 1 } as never, call)
          } catch (error) {
            return error
          }
        })
        assert.include(String(refused), "changes nothing")
      }))
    })))
})
