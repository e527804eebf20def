/** Tools of the AI SDK in our executor. */
import { assert, describe, expectTypeOf, it } from "@effect/vitest"
import { dynamicTool, generateText, isStepCount, jsonSchema, type Tool as SdkTool, tool, type ToolSet } from "ai"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { z } from "zod"
import * as AiSdk from "../../src/adapters/AiSdk.ts"
import { AgentExecutor } from "../../src/agent/index.ts"
import { LocalExecutor, ToolCall, ToolExecutor, ToolOutcome, type ToolProcess } from "../../src/index.ts"
import * as VirtualTime from "../../src/testing/VirtualTime.ts"
import { scriptedModel } from "../support/scriptedModel.ts"
import { sdkModel } from "../support/sdkModel.ts"
import { specModel } from "../support/specModel.ts"

type Settings = { readonly [name: string]: AiSdk.Settings | undefined }

interface Env {
  readonly executor: ToolExecutor.ToolExecutor["Service"]
  readonly process: ToolProcess.ToolProcess
}

const open = Effect.gen(function*() {
  const executor = yield* ToolExecutor.ToolExecutor
  return { executor, process: yield* executor.process() }
})

/** Runs a program with an executor over tools, in virtual time; everything is allowed. */
const run = <A, E>(
  tools: ToolSet,
  program: (env: Env) => Effect.Effect<A, E>,
  { options = {}, settings = {} }: { readonly options?: LocalExecutor.Options; readonly settings?: Settings } = {}
) => {
  const executor = Layer.unwrap(Effect.map(
    AiSdk.fromTools(tools, settings),
    ({ layer, toolkit }) =>
      LocalExecutor.layer(toolkit, { policy: { default: "allow" }, ...options }).pipe(Layer.provide(layer))
  ))
  return VirtualTime.run(Effect.scoped(Effect.provide(Effect.flatMap(open, program), executor)), { limit: "1 hour" })
}

/** The outcome of one call of one tool. */
const outcomeOf = (it: object, args: unknown = {}, settings: AiSdk.Settings = {}) =>
  run({ it: it as never }, ({ process }) => process.execute(ToolCall.make("c", "it", args)), {
    settings: { it: settings }
  })

const valueOf = (outcome: ToolOutcome.ToolOutcome): unknown =>
  outcome._tag === "Succeeded" && outcome.output._tag === "Inline" ? outcome.output.value : outcome

const inputSchema = z.object({})

describe("what a tool of the AI SDK has its provider told", () => {
  const said = {
    strict: true,
    providerOptions: { anthropic: { cacheControl: { type: "ephemeral" } } },
    inputExamples: [{ input: { city: "Bern" } }]
  }
  const weather = tool({ inputSchema: z.object({ city: z.string() }), execute: () => "sunny", ...said })
  const plain = tool({ inputSchema, execute: () => "ok" })

  const toldOf = ({ inputExamples, providerOptions, strict }: Record<string, unknown>) => ({
    inputExamples,
    providerOptions,
    strict
  })
  const nothing = { inputExamples: undefined, providerOptions: undefined, strict: undefined }

  it.effect("reaches a model in a request of effect/ai, and one that an agent makes", () =>
    Effect.gen(function*() {
      for (const version of ["v2", "v3", "v4"] as const) {
        const { calls, model } = specModel(version, {
          stream: [{ type: "finish", finishReason: "stop", usage: {} }],
          answer: { content: [], finishReason: "stop", usage: {} }
        })
        const { layer, toolkit } = yield* AiSdk.fromTools({ weather, plain })
        const layers = Layer.merge(layer, AiSdk.layerLanguageModel(model))
        yield* Effect.provide(LanguageModel.generateText({ prompt: "Hi", toolkit }), layers)
        const agents = AgentExecutor.layer.pipe(Layer.provide(LocalExecutor.layer(toolkit)), Layer.provide(layers))
        yield* Effect.scoped(
          Effect.provide(Effect.flatMap(AgentExecutor.AgentExecutor, (it) => it.run({ prompt: "Hi" })), agents)
        )
        assert.strictEqual(calls.length, 2)
        for (const { tools } of calls) {
          const all = tools as ReadonlyArray<Record<string, unknown>>
          assert.deepStrictEqual(toldOf(all.find(({ name }) => name === "weather")!), said)
          assert.deepStrictEqual(toldOf(all.find(({ name }) => name === "plain")!), nothing)
        }
      }
    }))

  it.effect("comes back with toTools, and gives way to what the host says", () =>
    Effect.gen(function*() {
      const other = { providerOptions: { anthropic: { deferLoading: true } } }
      const annotations = Context.make(AiSdk.ToolOptions, other).pipe(Context.add(Tool.Strict, false))
      yield* run({ weather, plain, own: weather }, ({ process }) =>
        Effect.gen(function*() {
          const tools = yield* AiSdk.toTools(process)
          assert.deepStrictEqual(toldOf(tools.weather as never), said)
          assert.deepStrictEqual(toldOf(tools.plain as never), nothing)
          assert.deepStrictEqual(toldOf(tools.own as never), { ...nothing, ...other, strict: false })
        }), { settings: { own: { annotations } } })
    }))
})

describe("a tool of the AI SDK", () => {
  it.effect("is given what its schema makes of the arguments: defaults and transformations", () =>
    Effect.gen(function*() {
      const seen: Array<unknown> = []
      const it = tool({
        inputSchema: z.object({
          city: z.string().trim(),
          limit: z.number().default(5),
          day: z.string().transform((text) => new Date(text)),
          sizes: z.string().transform((text) => new Map([[text, text.length]]))
        }),
        execute: (input) => {
          seen.push(input)
          return "ok"
        }
      })
      yield* outcomeOf(it, { city: " Bern ", sizes: "ab", day: "1970-01-01" })
      assert.deepStrictEqual(seen, [{ city: "Bern", limit: 5, day: new Date(0), sizes: new Map([["ab", 2]]) }])
    }))

  it.effect("does not run with arguments that its schema refuses, and the model reads what is wrong where", () =>
    Effect.gen(function*() {
      const it = tool({
        inputSchema: z.object({
          city: z.string(),
          days: z.array(z.object({ n: z.number().refine((n) => n % 2 === 0, "an even number, please") }))
        }),
        execute: (): string => assert.fail("it ran")
      })
      const outcome = yield* outcomeOf(it, { city: 7, days: [{ n: 2 }, { n: 3 }] })
      assert.isTrue(outcome._tag === "Denied" && outcome.reason._tag === "InvalidParameters")
      if (outcome._tag !== "Denied" || outcome.reason._tag !== "InvalidParameters") return
      assert.deepStrictEqual(outcome.reason.issues.map((it) => it.path), ["city", "days.1.n"])
      assert.include(ToolOutcome.text(outcome), "an even number, please")
    }))

  const schemas: ReadonlyArray<readonly [what: string, schema: SdkTool["inputSchema"]]> = [
    ["zod", z.object({ n: z.number() })],
    ["a JSON Schema", jsonSchema({ type: "object", properties: { n: { type: "number" } }, required: ["n"] })],
    [
      "a JSON Schema that comes late",
      jsonSchema(Promise.resolve({ type: "object", properties: { n: { type: "number" } }, required: ["n"] } as const))
    ],
    [
      "a JSON Schema with a check of its own",
      jsonSchema({ type: "object" }, {
        validate: (value) =>
          typeof (value as { readonly n?: unknown }).n === "number"
            ? { success: true, value }
            : { success: false, error: new Error("n is no number") }
      })
    ],
    ["a standard schema", {
      "~standard": {
        version: 1,
        vendor: "own",
        validate: (value: unknown) =>
          typeof (value as { readonly n?: unknown }).n === "number"
            ? { value }
            : { issues: [{ message: "n is no number", path: [{ key: "n" }] }] },
        jsonSchema: { input: () => ({ type: "object" }), output: () => ({ type: "object" }) }
      }
    } as never],
    [
      "one made when it is needed",
      () => jsonSchema({ type: "object", required: ["n"], properties: { n: { type: "number" } } })
    ]
  ]
  for (const [what, schema] of schemas) {
    it.effect(`takes its arguments by ${what}`, () =>
      Effect.gen(function*() {
        const it = dynamicTool({ inputSchema: schema, execute: (input) => Promise.resolve(input) })
        assert.deepStrictEqual(valueOf(yield* outcomeOf(it, { n: 1 })), { n: 1 })
        const wrong = yield* outcomeOf(it, { n: "1" })
        assert.strictEqual(wrong._tag === "Denied" ? wrong.reason._tag : wrong._tag, "InvalidParameters")
      }))
  }

  it.effect("shows the model the JSON Schema that the SDK would show", () =>
    run({
      it: tool({
        description: "Finds",
        inputSchema: z.object({ city: z.string().describe("where"), limit: z.number().default(5) }),
        execute: () => 1
      })
    }, ({ executor }) =>
      Effect.map(executor.tools, ([it]) => {
        assert.strictEqual(it?.description, "Finds")
        assert.deepInclude(it?.jsonSchema, {
          type: "object",
          properties: { city: { type: "string", description: "where" }, limit: { default: 5, type: "number" } },
          required: ["city"],
          additionalProperties: false
        })
      })))

  it.effect("tells equal calls by what they mean, and calls that JSON cannot tell apart by their arguments", () =>
    run({
      plain: tool({ inputSchema: z.object({ n: z.number().default(1) }), execute: () => 1 }),
      opaque: tool({ inputSchema: z.object({ r: z.string().transform((it) => new RegExp(it)) }), execute: () => 1 })
    }, ({ process }) =>
      Effect.gen(function*() {
        const calls = [["plain", {}], ["plain", { n: 1 }], ["opaque", { r: "a" }], ["opaque", { r: "b" }]] as const
        const wave = yield* process.executeWave(calls.map(([name, args], n) => ToolCall.make(`${n}`, name, args)))
        assert.deepStrictEqual(wave.outcomes.map((it) => it._tag), ["Succeeded", "Denied", "Succeeded", "Succeeded"])
      })))

  it.effect("knows its call and its context, and is told to stop", () => {
    const seen: Array<unknown> = []
    let signal: AbortSignal | undefined
    const it = tool({
      inputSchema,
      contextSchema: z.object({ user: z.string().toUpperCase() }),
      description: ({ context }) => `Works for ${context.user}`,
      execute: (_, { abortSignal, context, messages, toolCallId }) => {
        seen.push(toolCallId, messages, context)
        signal = abortSignal
        return new Promise<string>((_, reject) => {
          abortSignal?.addEventListener("abort", () => reject(abortSignal.reason as Error))
        })
      }
    })
    return run({ it }, ({ executor, process }) =>
      Effect.gen(function*() {
        assert.strictEqual((yield* executor.tools)[0]?.description, "Works for ANN")
        const outcome = yield* process.execute(ToolCall.make("c", "it"))
        assert.strictEqual(outcome._tag, "TimedOut")
        assert.isTrue(signal?.aborted)
        assert.deepStrictEqual(seen, ["c", [], { user: "ANN" }])
      }), { settings: { it: { context: { user: "ann" }, timeout: "1 second" } } })
  })

  it.effect("that throws has failed, and the model reads why", () =>
    Effect.gen(function*() {
      for (
        const execute of [() => Promise.reject<string>(new Error("no such city")), () => {
          throw new Error("no such city")
        }]
      ) {
        const outcome = yield* outcomeOf(tool({ inputSchema, execute }))
        assert.deepInclude(outcome, { _tag: "Failed", origin: "handler" })
        assert.strictEqual(ToolOutcome.text(outcome), "\"it\" failed: no such city")
      }
    }))

  it.effect("shows what it yields as it comes, and the last is its result", () =>
    run({
      it: tool({
        inputSchema,
        async *execute() {
          yield { state: "looking" }
          yield { state: "found", n: 7n }
        }
      })
    }, ({ process }) =>
      Effect.gen(function*() {
        const events = yield* Stream.runCollect(process.stream([ToolCall.make("c", "it")]))
        const parts = events.flatMap((it) => it._tag === "ToolPartialResult" ? [it.value] : [])
        assert.deepStrictEqual(parts, [{ state: "looking" }, { state: "found", n: "7" }])
        const end = events.find((it) => it._tag === "ToolCallComplete")
        assert.deepStrictEqual(end?._tag === "ToolCallComplete" && valueOf(end.outcome), { state: "found", n: "7" })
      })))

  it.effect("that throws while it yields has failed", () =>
    Effect.gen(function*() {
      const outcome = yield* outcomeOf(tool({
        inputSchema,
        async *execute() {
          yield 1
          throw new Error("half way")
        }
      }))
      assert.deepInclude(outcome, { _tag: "Failed", origin: "handler", error: "half way" })
    }))

  it.effect("that goes on yielding after its time is ended at the next", () => {
    const ended: Array<string> = []
    let next = () => {}
    return run({
      it: tool({
        inputSchema,
        async *execute() {
          try {
            while (true) {
              await new Promise<void>((resolve) => {
                next = resolve
              })
              yield 1
            }
          } finally {
            ended.push("closed")
          }
        }
      })
    }, ({ executor, process }) =>
      Effect.gen(function*() {
        assert.strictEqual((yield* process.execute(ToolCall.make("c", "it")))._tag, "TimedOut")
        assert.lengthOf((yield* executor.orphans).running, 1)
        next()
        yield* Effect.sleep("1 second")
        assert.deepStrictEqual(ended, ["closed"])
        assert.lengthOf((yield* executor.orphans).running, 0)
      }), { settings: { it: { timeout: "1 second" } } })
  })

  type Words = Awaited<ReturnType<NonNullable<SdkTool["toModelOutput"]>>>
  const words: ReadonlyArray<readonly [words: Words, text: string]> = [
    [{ type: "text", value: "seven" }, "seven"],
    [{ type: "json", value: { seven: 7 } }, `{"seven":7}`],
    [{ type: "error-text", value: "not seven" }, "not seven"],
    [{ type: "error-json", value: [7] }, "[7]"],
    [{ type: "execution-denied", reason: "no" }, "no"],
    [{ type: "execution-denied" }, "The call was denied."],
    [{
      type: "content",
      value: [
        { type: "text", text: "a" },
        { type: "file", mediaType: "image/png", data: { type: "data", data: "AA==" } },
        { type: "file-id", fileId: "f" }
      ]
    }, "a\n[image/png omitted]\n[file omitted]"]
  ]
  for (const [output, text] of words) {
    it.effect(`has the model read its ${output.type} "${text.split("\n")[0]}", and the host its output`, () =>
      Effect.gen(function*() {
        const seen: Array<unknown> = []
        const outcome = yield* outcomeOf(
          tool({
            inputSchema: z.object({ n: z.number().default(7) }),
            execute: ({ n }) => ({ n }),
            toModelOutput: (it) => {
              seen.push(it)
              return Promise.resolve(output)
            }
          })
        )
        assert.strictEqual(ToolOutcome.text(outcome), text)
        assert.deepStrictEqual(valueOf(outcome), { n: 7 })
        assert.deepStrictEqual(seen, [{ toolCallId: "c", input: { n: 7 }, output: { n: 7 } }])
      }))
  }

  it.effect("shows the model the files of its words", () =>
    Effect.gen(function*() {
      const png = { type: "file", mediaType: "image/png", data: "AQID" }
      const values: ReadonlyArray<unknown> = [
        { type: "file", mediaType: "image/png", data: { type: "data", data: "AQID" } },
        { type: "file", mediaType: "image/png", data: { type: "data", data: new Uint8Array([1, 2, 3]) } },
        { type: "file", mediaType: "image/png", data: { type: "data", data: new Uint8Array([1, 2, 3]).buffer } },
        { type: "file-data", mediaType: "image/png", data: "AQID", filename: "a.png" },
        { type: "file", mediaType: "image/png", data: { type: "url", url: new URL("https://a.b/c") } },
        { type: "file", mediaType: "image/png", data: { type: "reference", reference: { openai: "f" } } },
        "odd"
      ]
      const outcome = yield* outcomeOf(
        tool({
          inputSchema,
          execute: () => 1,
          toModelOutput: () => ({ type: "content", value: values }) as never
        })
      )
      const content = outcome._tag === "Succeeded" ? outcome.output.content : undefined
      assert.deepStrictEqual<unknown>(content, [
        png,
        png,
        png,
        { ...png, fileName: "a.png" },
        { type: "text", text: "[image/png at https://a.b/c]" },
        { type: "text", text: "[image/png omitted]" },
        { type: "text", text: "" }
      ])
    }))

  it.effect("whose words cannot be had has run, and its outcome says so", () =>
    Effect.gen(function*() {
      for (
        const toModelOutput of [() => Promise.reject(new Error("no words")), () => undefined, () => ({ type: "poem" })]
      ) {
        const outcome = yield* outcomeOf(tool({ inputSchema, execute: () => 1, toModelOutput: toModelOutput as never }))
        assert.deepInclude(outcome, { _tag: "Failed", origin: "result" })
        assert.include(ToolOutcome.text(outcome), "Any changes it made remain")
      }
    }))

  it.effect("has a person asked where it needs approval, and where it cannot say", () => {
    const asking = (needsApproval: SdkTool["needsApproval"]) =>
      tool({ inputSchema: z.object({ n: z.number().default(1) }), execute: () => 1, needsApproval: needsApproval! })
    return run({
      no: asking(false),
      yes: asking(true),
      small: asking(({ n }: { readonly n: number }) => n > 1),
      large: asking(async ({ n }: { readonly n: number }) => n > 0),
      broken: asking(() => {
        throw new Error("broken")
      })
    }, ({ process }) =>
      Effect.gen(function*() {
        const names = ["no", "yes", "small", "large", "broken"]
        const wave = yield* process.executeWave(names.map((name) => ToolCall.make(name, name)))
        const tags = wave.outcomes.map((it) => it._tag === "Denied" ? it.reason._tag : it._tag)
        assert.deepStrictEqual(tags, [
          "Succeeded",
          "PermissionDenied",
          "Succeeded",
          "PermissionDenied",
          "PermissionDenied"
        ])
      }))
  })
})

describe("tools of the AI SDK", () => {
  const execute = () => 1
  const plain = tool({ inputSchema, execute })

  it.effect("are writers that run alone unless the host says otherwise", () =>
    run(
      { unknown: plain, read: plain, promoted: plain },
      ({ executor }) =>
        Effect.map(executor.tools, (tools) =>
          assert.deepStrictEqual(tools.map((it) => [it.name, it.class, it.timeoutMillis]), [
            ["unknown", "SerialMut", undefined],
            ["read", "ReadOnly", 2_000],
            ["promoted", "ConcurrentMut", undefined]
          ])),
      { settings: { read: { readOnly: true, timeout: "2 seconds" }, promoted: { promoted: true } } }
    ))

  it.effect("without execute are somebody else's to run, and left out", () =>
    run(
      { plain, client: tool({ inputSchema, outputSchema: z.string() }) },
      ({ executor }) =>
        Effect.map(executor.tools, (tools) => assert.deepStrictEqual(tools.map((it) => it.name), ["plain"]))
    ))

  it.effect("that are wrong are told with every other", () =>
    Effect.gen(function*() {
      const tools = {
        "two words": plain,
        scalar: dynamicTool({ inputSchema: z.string(), execute: () => Promise.resolve(1) }),
        broken: dynamicTool({
          inputSchema: () => {
            throw new Error("no schema")
          },
          execute: () => Promise.resolve(1)
        }),
        unwritable: tool({ inputSchema: z.object({ it: z.custom<string>(), day: z.date() }), execute }),
        context: tool({ inputSchema, contextSchema: z.object({ user: z.string() }), execute }),
        described: tool({
          inputSchema,
          description: () => {
            throw new Error("no words")
          },
          execute
        }),
        client: tool({ inputSchema, outputSchema: z.string() }),
        typo: plain,
        right: plain
      }
      const error = yield* Effect.flip(AiSdk.fromTools(tools, {
        client: { readOnly: true },
        typo: { readonly: true },
        right: { readOnly: true, annotations: { mapUnsafe: 7 } },
        absent: {}
      } as never))
      assert.strictEqual(error.subject, "AiSdk.fromTools")
      assert.deepStrictEqual(error.problems.map((it) => it.path), [
        "tools.two words",
        "tools.scalar.inputSchema",
        "tools.broken.inputSchema",
        "tools.unwritable.inputSchema",
        "tools.context.contextSchema",
        "tools.described.description",
        "settings.client",
        "settings.typo.readonly",
        "settings.right.annotations",
        "settings.absent"
      ])
      assert.include(error.message, "no schema")
    }))

  it("are read at once where their schemas are", () => {
    const { toolkit } = Effect.runSync(AiSdk.fromTools({ plain, other: plain }))
    expectTypeOf<keyof typeof toolkit.tools>().toEqualTypeOf<"plain" | "other">()
    assert.deepStrictEqual(Object.keys(toolkit.tools), ["plain", "other"])
  })

  it.effect("go through the executor back into a loop of the AI SDK", () =>
    run({
      search: tool({
        inputSchema: z.object({ query: z.string().trim() }),
        execute: ({ query }) => [`${query}.md`],
        toModelOutput: ({ output }) => ({ type: "text", value: `found ${output.length}` })
      }),
      broken: tool({ inputSchema, execute: () => Promise.reject<string>(new Error("offline")) })
    }, ({ process }) =>
      Effect.gen(function*() {
        const scripted = sdkModel([[["1", "search", { query: " a " }], ["2", "broken", {}]]])
        const tools = yield* AiSdk.toTools(process)
        const result = yield* Effect.promise(() =>
          generateText({ model: scripted.model, tools, prompt: "go", stopWhen: isStepCount(3) })
        )
        assert.deepStrictEqual(result.steps[0]!.toolResults.map((it) => it.output), [["a.md"]])
        assert.deepStrictEqual(scripted.read().get("1"), { type: "text", value: "found 1" })
        assert.include(JSON.stringify(scripted.read().get("2")), "offline")
      })))

  it.effect("go through a guarded toolkit into a loop of effect/ai", () =>
    Effect.gen(function*() {
      const { layer, toolkit } = yield* AiSdk.fromTools({
        search: tool({ inputSchema: z.object({ query: z.string().trim() }), execute: ({ query }) => [`${query}.md`] })
      }, { search: { readOnly: true } })
      return yield* Effect.gen(function*() {
        const { process } = yield* open
        const guarded = yield* process.guard(toolkit)
        const response = yield* LanguageModel.generateText({ prompt: "go", toolkit: guarded })
        assert.deepStrictEqual(response.toolResults.map((it) => it.encodedResult), [["a.md"]])
      }).pipe(
        Effect.scoped,
        Effect.provide(Layer.merge(
          LocalExecutor.layer(toolkit).pipe(Layer.provide(layer)),
          scriptedModel([[["1", "search", { query: " a " }]]]).layer
        ))
      )
    }))
})
