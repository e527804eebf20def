/** Reading on in outputs that were too large to show. */
import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import { LocalExecutor, ToolCall, ToolExecutor, type ToolOutcome, type ToolProcess } from "../../../src/index.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import * as ArtifactTools from "../../../src/tools/folders/ArtifactTools.ts"

const Large = Tool.make("large", { success: Schema.String }).annotate(Tool.Readonly, true)
const kit = Toolkit.make(Large)
const text = `${"a line of the file\n".repeat(100_000)}The Needle\n${"more\n".repeat(10_000)}`
const executor = LocalExecutor.layer([kit, ArtifactTools.toolkit]).pipe(
  Layer.provide([kit.toLayer({ large: () => Effect.succeed(text) }), ArtifactTools.layer])
)

const run = <A, E>(program: Effect.Effect<A, E, Scope.Scope | ToolExecutor.ToolExecutor>) =>
  VirtualTime.run(Effect.scoped(Effect.provide(program, executor)), { limit: "1 day" })

const begin = Effect.flatMap(ToolExecutor.ToolExecutor, (it) => it.process())

let serial = 0
const ask = (process: ToolProcess.ToolProcess, name: string, params: unknown) =>
  process.execute(ToolCall.make(String(++serial), name, params))

const outputOf = (outcome: ToolOutcome.ToolOutcome): ToolOutcome.Output => {
  assert(outcome._tag === "Succeeded", JSON.stringify(outcome))
  return outcome.output
}

const idOf = (outcome: ToolOutcome.ToolOutcome): string => {
  const output = outputOf(outcome)
  assert(output._tag === "Artifact")
  return output.ref.id
}

describe("read_artifact", () => {
  it.effect("reads on where a large output was cut, part by part, as the model is told", () =>
    run(Effect.gen(function*() {
      const process = yield* begin
      const large = yield* ask(process, "large", {})
      assert.include(outputOf(large).modelText, "Read on with read_artifact.")
      const id = idOf(large)
      let read = ""
      for (let n = 0; n < 3; n++) {
        const output = outputOf(yield* ask(process, "read_artifact", { id, offset: read.length, length: 8_000 }))
        assert(output._tag === "Inline")
        const end = read.length + 8_000
        const head = `[characters ${read.length} to ${end} of ${text.length}; continue with offset ${end}]\n`
        read += output.modelText.slice(head.length)
        // once: the text is the output
        assert.deepStrictEqual(output, {
          _tag: "Inline",
          value: head + text.slice(end - 8_000, end),
          modelText: head + text.slice(end - 8_000, end)
        })
      }
      assert.strictEqual(read, text.slice(0, 24_000))
      const last = outputOf(yield* ask(process, "read_artifact", { id, offset: text.length - 5 }))
      assert.include(last.modelText, `of ${text.length}, the end]\nmore\n`)
      // the same again is no duplicate
      const again = { id, offset: 0 }
      assert.strictEqual((yield* ask(process, "read_artifact", again))._tag, "Succeeded")
      assert.strictEqual((yield* ask(process, "read_artifact", again))._tag, "Succeeded")
    })))

  it.effect("knows no id of another request, none that is made up, and none that is too old", () =>
    run(Effect.gen(function*() {
      const process = yield* begin
      const id = idOf(yield* ask(process, "large", {}))
      const other = yield* begin
      for (const [who, wrong, error] of [[other, id, "NotFound"], [process, "art_1", "NotFound"]] as const) {
        const outcome = yield* ask(who, "read_artifact", { id: wrong })
        assert.propertyVal((outcome as { readonly error: object }).error, "error", error)
      }
      yield* Effect.sleep("2 hours")
      const late = yield* ask(process, "read_artifact", { id })
      assert.propertyVal((late as { readonly error: object }).error, "error", "Expired")
      assert.strictEqual((yield* ask(process, "read_artifact", { id, length: 9_000 }))._tag, "Denied")
    })))
})

describe("a part that is still too large to show", () => {
  it.effect("is cut, and becomes no artifact of its own", () =>
    VirtualTime.run(
      Effect.scoped(Effect.gen(function*() {
        const process = yield* begin
        const id = idOf(yield* ask(process, "large", {}))
        const output = outputOf(yield* ask(process, "read_artifact", { id, length: 8_000 }))
        assert.strictEqual(output._tag, "Truncated")
        assert.isAtMost(output.modelText.length, 1_000)
      })).pipe(Effect.provide(
        LocalExecutor.layer([kit, ArtifactTools.toolkit], { output: { maxChars: 1_000 } }).pipe(
          Layer.provide([kit.toLayer({ large: () => Effect.succeed(text) }), ArtifactTools.layer])
        )
      )),
      { limit: "1 hour" }
    ))
})

describe("search_artifact", () => {
  it.effect("finds a text wherever it stands, with what is around it and where to read on", () =>
    run(Effect.gen(function*() {
      const process = yield* begin
      const id = idOf(yield* ask(process, "large", {}))
      const found = outputOf(yield* ask(process, "search_artifact", { id, query: "the needle" }))
      assert(found._tag === "Inline")
      const { isCut, matches } = found.value as {
        readonly isCut: boolean
        readonly matches: ReadonlyArray<{ readonly offset: number; readonly text: string }>
      }
      assert.isFalse(isCut)
      assert.deepStrictEqual(matches.map((it) => it.offset), [text.indexOf("The Needle")])
      assert.include(matches[0]!.text, "a line of the file\nThe Needle\nmore")
      const many = outputOf(yield* ask(process, "search_artifact", { id, query: "line" }))
      assert(many._tag !== "Artifact")
      assert.lengthOf((many.value as { readonly matches: ReadonlyArray<unknown> }).matches, 20)
      const none = outputOf(yield* ask(process, "search_artifact", { id, query: "l.ne" }))
      assert(none._tag === "Inline")
      assert.deepStrictEqual(none.value, { matches: [], isCut: false })
    })))
})
