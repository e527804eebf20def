import { assert, describe, it } from "@effect/vitest"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as ArtifactStore from "../../../src/core/output/ArtifactStore.ts"
import * as OutputPolicy from "../../../src/core/output/OutputPolicy.ts"
import { LocalExecutor, ToolCall, ToolExecutor, type ToolOutcome, type ToolProcess } from "../../../src/index.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { calls, type Options, run, tags } from "../../support/Harness.ts"

const outputOf = (wave: ToolOutcome.WaveResult): ToolOutcome.Output => {
  const outcome = wave.outcomes[0]!
  assert.strictEqual(outcome._tag, "Succeeded")
  return (outcome as ToolOutcome.Of<"Succeeded">).output
}

const returning = (value: unknown) => ({ t: () => Effect.succeed(value) })

const broken: ReadonlyArray<readonly [string, NonNullable<Options["artifacts"]>, number]> = [
  ["no store", false, 0],
  ["a store that fails", {
    put: () => Effect.fail(new ArtifactStore.ArtifactError({ reason: "StoreFailed", id: "" })),
    read: () => Effect.never
  }, 0],
  ["a store that dies", { put: () => Effect.die("boom"), read: () => Effect.never }, 0],
  ["a store that throws", {
    put: () => {
      throw new Error("boom")
    },
    read: () => Effect.never
  }, 0],
  ["a store that hangs", { put: () => Effect.never, read: () => Effect.never }, 5_000],
  [
    "a store that hangs and is deaf",
    { put: () => Effect.uninterruptible(Effect.never), read: () => Effect.never },
    5_000
  ]
]

describe("OutputPolicy", () => {
  it.effect("leaves an output of exactly the limit untouched", () =>
    run(
      returning("x".repeat(100)),
      { output: { maxChars: 100 } },
      ({ process }) =>
        Effect.map(process.executeWave(calls("t")), (wave) =>
          assert.deepStrictEqual(outputOf(wave), {
            _tag: "Inline",
            value: "x".repeat(100),
            modelText: "x".repeat(100)
          }))
    ), { tags: ["U1"] })

  it.effect("stores the whole of an output one over the limit", () => {
    const artifacts = ArtifactStore.makeMemory()
    return run(
      returning("y".repeat(601)),
      { output: { maxChars: 600 }, artifacts },
      ({ batch, process }) =>
        Effect.gen(function*() {
          const output = outputOf(yield* process.executeWave(calls("t")))
          assert.strictEqual(output._tag, "Artifact")
          if (output._tag !== "Artifact") return
          assert.isAtMost(output.modelText.length, 600)
          assert.include(output.modelText, output.ref.id)
          assert.strictEqual(output.ref.chars, 601)
          const owner = { principal: "default", batch: batch.id }
          const whole = yield* artifacts.read(owner, output.ref.id, { offset: 0, length: 10_000 })
          assert.strictEqual(whole.text, "y".repeat(601))
          const foreign = yield* Effect.flip(
            artifacts.read({ ...owner, batch: "other" }, output.ref.id, { offset: 0, length: 1 })
          )
          assert.strictEqual(foreign.reason, "NotFound")
          const stranger = yield* Effect.flip(
            artifacts.read({ ...owner, principal: "other" }, output.ref.id, { offset: 0, length: 1 })
          )
          assert.strictEqual(stranger.reason, "NotFound")
        })
    )
  }, { tags: ["U1"] })

  for (const [what, artifacts, at] of broken) {
    it.effect(`cuts within the limit with ${what}, and the host keeps the value`, () =>
      run(
        returning("z".repeat(5_000)),
        { output: { maxChars: 700 }, artifacts },
        ({ process }) =>
          Effect.gen(function*() {
            const output = outputOf(yield* process.executeWave(calls("t")))
            assert.deepInclude(output, { _tag: "Truncated", originalChars: 5_000, value: "z".repeat(5_000) })
            assert.isAtMost(output.modelText.length, 700)
            assert.match(output.modelText, /\[cut: 5000 characters in all\]$/)
            assert.strictEqual(yield* VirtualTime.now, at)
          })
      ), { tags: ["U1"] })
  }

  it.effect("cuts nothing where the limit is unbounded", () =>
    run(
      returning("z".repeat(50_000)),
      { output: { maxChars: "unbounded" } },
      ({ process }) =>
        Effect.map(
          process.executeWave(calls("t")),
          (wave) => assert.strictEqual(outputOf(wave).modelText.length, 50_000)
        )
    ))

  it.effect("gives every output a little once the batch has used up its own", () =>
    run(
      { t: () => Effect.succeed("x".repeat(900)) },
      { output: { maxChars: 1_000, batchChars: 1_500 }, artifacts: false },
      ({ batch, process }) =>
        Effect.gen(function*() {
          yield* process.executeWave(calls("t"))
          const second = yield* (yield* batch.process()).executeWave(calls(["t", { other: 1 }]))
          assert.isAtMost(outputOf(second).modelText.length, 600)
          const third = yield* process.executeWave(calls(["t", { other: 2 }]))
          assert.isAtMost(outputOf(third).modelText.length, 500)
        })
    ), { tags: ["U2"] })

  const cyclic: Record<string, unknown> = { name: "loop" }
  cyclic["self"] = cyclic
  let deep: unknown = 1
  for (let n = 0; n < 100_000; n++) deep = [deep]
  for (
    const [what, value] of [
      ["a BigInt", { n: 1n }],
      ["itself", cyclic],
      ["very deep nesting", deep],
      ["a toJSON that throws", {
        toJSON: () => {
          throw new Error("no")
        }
      }]
    ] as const
  ) {
    it.effect(`takes no output that contains ${what}: Failed(result)`, () =>
      run(returning(value), {}, ({ process }) =>
        Effect.map(process.executeWave(calls("t", "t")), (wave) => {
          assert.deepInclude(wave.outcomes[0], { _tag: "Failed", origin: "result" })
          assert.deepStrictEqual(tags(wave), ["Failed", "Failed"])
        })))
  }

  it.effect("takes no output that does not fit the tool's schema: Failed(result)", () => {
    const tool = Tool.make("t", { success: Schema.Struct({ a: Schema.Finite }) }).annotate(Tool.Readonly, true)
    return run(
      { t: { handler: () => Effect.succeed({ a: "x" }), tool } },
      {},
      ({ process }) =>
        Effect.map(
          process.executeWave(calls(["t", {}])),
          (wave) => assert.deepInclude(wave.outcomes[0], { _tag: "Failed", origin: "result" })
        )
    )
  })

  it.effect("answers an output of nothing with a word", () =>
    run(
      returning(undefined),
      {},
      ({ process }) =>
        Effect.map(process.executeWave(calls("t")), (wave) => assert.isNotEmpty(outputOf(wave).modelText))
    ))

  it.effect("shows the shape of large objects inside the limit", () =>
    run(
      returning({
        list: Array.from({ length: 5_000 }, (_, n) => n),
        text: "t".repeat(9_000),
        deep: { a: { b: { c: { d: { e: 1 } } } } }
      }),
      {},
      ({ process }) =>
        Effect.map(process.executeWave(calls("t")), (wave) => {
          const output = outputOf(wave)
          assert.strictEqual(output._tag, "Artifact")
          assert.include(output.modelText, "4800 more")
          assert.isAtMost(output.modelText.length, 10_000)
        })
    ))

  describe("files", () => {
    const Pictures = Tool.make("t", {
      parameters: Schema.Struct({ sizes: Schema.Array(Schema.Finite), text: Schema.optionalKey(Schema.String) }),
      success: Schema.Struct({ pictures: Schema.Array(Schema.String), text: Schema.String }),
      toModelOutput: ({ pictures, text }) => [
        Prompt.textPart({ text }),
        ...pictures.map((data) => Prompt.filePart({ mediaType: "image/png", data }))
      ]
    }).annotate(Tool.Readonly, true)
    const tools = {
      t: {
        tool: Pictures,
        handler: ({ sizes, text = "seen" }: { readonly sizes?: unknown; readonly text?: unknown }) =>
          Effect.succeed({ pictures: (sizes as Array<number>).map((size) => "A".repeat(size)), text: text as string })
      }
    }
    const picture = (size: number) => ({ type: "file", mediaType: "image/png", data: "A".repeat(size) })
    const text = (text: string) => ({ type: "text", text })
    const execute = (process: ToolProcess.ToolProcess, ...sizes: ReadonlyArray<number>) =>
      Effect.map(process.executeWave(calls(["t", { sizes }])), outputOf)

    it.effect("stand in the content of an output, and are named in its text", () =>
      run(tools, {}, ({ process }) =>
        Effect.map(execute(process, 100, 20_000), (output) => {
          assert.strictEqual(output._tag, "Inline")
          assert.strictEqual(output.modelText, "seen\n[image/png omitted]\n[image/png omitted]")
          assert.deepStrictEqual<unknown>(output.content, [text("seen"), picture(100), picture(20_000)])
        })))

    it.effect("are not there where text is all", () =>
      run(
        tools,
        {},
        ({ process }) =>
          Effect.map(execute(process), (output) =>
            assert.deepStrictEqual(output, {
              _tag: "Inline",
              value: { pictures: [], text: "seen" },
              modelText: "seen"
            }))
      ))

    it.effect("over the limit are kept with the whole output, and named", () => {
      const kept: Array<string> = []
      const artifacts: Options["artifacts"] = {
        put: (_, payload) => Effect.sync(() => ({ id: `art_${kept.push(payload)}`, chars: payload.length })),
        read: () => Effect.never
      }
      return run(tools, { output: { maxFileChars: 1_000 }, artifacts }, ({ process }) =>
        Effect.gen(function*() {
          const output = yield* execute(process, 800, 400, 200)
          assert.strictEqual(output._tag, "Artifact")
          assert.include(output.modelText, "[image/png of 400 characters as base64 left out: too much to show]")
          const [told, ...files] = output.content ?? []
          assert.deepStrictEqual<unknown>(files, [picture(800), picture(200)])
          assert.include(told?.type === "text" ? told.text : "", "kept as artifact")
          assert.deepStrictEqual(kept.map((it) => JSON.parse(it) as unknown), [
            [text("seen"), picture(800), picture(400), picture(200)]
          ])
        }))
    })

    it.effect("over the limit are named where there is no store", () =>
      run(
        tools,
        { output: { maxFileChars: 1_000 }, artifacts: false },
        ({ process }) =>
          Effect.map(execute(process, 2_000), (output) => {
            assert.strictEqual(output._tag, "Truncated")
            assert.include(output.modelText, "[image/png of 2000 characters as base64 left out: too much to show]")
            assert.notProperty(output, "content")
          })
      ))

    it.effect("stay where the text beside them is cut", () =>
      run(
        tools,
        { output: { maxChars: 600 }, artifacts: false },
        ({ process }) =>
          Effect.map(process.executeWave(calls(["t", { sizes: [8], text: "x".repeat(5_000) }])), (wave) => {
            const output = outputOf(wave)
            assert.strictEqual(output._tag, "Truncated")
            const [told, file] = output.content ?? []
            assert.deepStrictEqual<unknown>(file, picture(8))
            assert.isAtMost(told?.type === "text" ? told.text.length : 0, 600)
            assert.match(told?.type === "text" ? told.text : "", /^x+\n\[cut: /)
          })
      ))

    it.effect("use up what the batch has for them", () =>
      run(
        tools,
        { output: { batchFileChars: 1_000 }, artifacts: false },
        ({ batch, process }) =>
          Effect.gen(function*() {
            assert.lengthOf((yield* execute(process, 600)).content ?? [], 2)
            assert.notProperty(yield* execute(yield* batch.process(), 601), "content")
            assert.lengthOf((yield* execute(process, 400)).content ?? [], 2)
          })
      ))

    it.effect("fit whoever gets them again", () =>
      run(
        tools,
        { output: { batchFileChars: 1_000 }, artifacts: false, dedupe: { onDuplicate: "replay" } },
        ({ process }) =>
          Effect.gen(function*() {
            assert.lengthOf((yield* execute(process, 600)).content ?? [], 2)
            const again = yield* execute(process, 600)
            assert.deepInclude(again, { _tag: "Truncated" })
            assert.notProperty(again, "content")
          })
      ))
  })

  it.effect("shows the beginning of the words that a tool has for its output", () => {
    const Words = Tool.make("words", {
      success: Schema.Struct({ lines: Schema.Array(Schema.String) }),
      toModelOutput: ({ lines }) => [Prompt.textPart({ text: lines.join("\n") })]
    })
    const kit = Toolkit.make(Words)
    const lines = Array.from({ length: 4_000 }, (_, n) => `line ${n}`)
    return Effect.gen(function*() {
      const process = yield* (yield* ToolExecutor.ToolExecutor).process()
      const wave = yield* process.executeWave([ToolCall.make("1", "words", {})])
      const { modelText } = outputOf(wave)
      assert.isTrue(modelText.startsWith("line 0\nline 1\n"), modelText.slice(0, 100))
      const toolkit = yield* process.guard(kit)
      const [result] = yield* (yield* toolkit).handle("words", {}).pipe(Stream.unwrap, Stream.runCollect)
      const [part] = result?.modelOutput ?? []
      assert.isTrue(part?.type === "text" && part.text.startsWith("line 0\nline 1\n"))
    }).pipe(
      Effect.scoped,
      Effect.provide(
        LocalExecutor.layer(kit, { policy: { allow: ["*"] }, dedupe: false }).pipe(
          Layer.provide(kit.toLayer({ words: () => Effect.succeed({ lines }) }))
        )
      )
    )
  })

  it.prop("never cuts inside a surrogate pair and never goes over the limit", [
    Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 60 }))
  ], ([limit]) => {
    for (const prefix of ["", "a"]) {
      const cut = OutputPolicy.cut(prefix + "😀".repeat(40), limit, " [cut]")
      assert.isAtMost(cut.length, limit)
      assert.notMatch(cut, /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/)
    }
  }, { tags: ["U4"], arbitrary: { runs: 100 } })

  it.effect("keeps texts of failures within the limit", () =>
    run(
      { t: () => Effect.fail("f".repeat(50_000)) },
      { output: { maxChars: 600 } },
      ({ process }) =>
        Effect.map(process.executeWave(calls("t")), (wave) => assert.isAtMost(wave.toolMessages[0]!.text.length, 600))
    ))
})
