/** What goes back to a model, and what is kept of it as JSON. */
import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { ToolAnnotations, ToolOutcome } from "../src/index.ts"
import { call, calls, type Options, run, type ToolSpec } from "./support/Harness.ts"

const huge = "x".repeat(1_000_000)
const none = () => Effect.void

const longest = (wave: ToolOutcome.WaveResult) => Math.max(...wave.toolMessages.map((it) => it.text.length))

describe("a text to the model", () => {
  const record = Tool.make("t", {
    parameters: Schema.Struct({ a: Schema.Record(Schema.String, Schema.Finite) }),
    success: Schema.Unknown
  })
  const closed = Tool.dynamic("t", {
    parameters: { type: "object", additionalProperties: false, properties: {} },
    success: Schema.Unknown
  })
  const cases: ReadonlyArray<
    readonly [string, Options, ToolSpec, ReadonlyArray<readonly [id: string, name: string, params: unknown]>]
  > = [
    ["a name that is no tool", {}, { handler: none }, [["1", huge, {}]]],
    ["a skipped one", { onExecutionError: "stop" }, { handler: none }, [[huge, huge, {}], ["2", "t", {}]]],
    ["the key of an argument", {}, { handler: none, tool: record }, [["1", "t", { a: { [huge]: "no" } }]]],
    ["the name of an argument", {}, { handler: none, tool: closed }, [["1", "t", { [huge]: 1 }]]],
    ["the id of a call", {}, { handler: none }, [[huge, "t", {}], ["2", "t", {}]]],
    ["a guard's reason", { guards: [{ name: "g", check: () => Effect.fail(huge) }] }, { handler: none }, [[
      "1",
      "t",
      {}
    ]]]
  ]
  for (const [what, options, tool, wave] of cases) {
    it.effect(`stays short, however long ${what} is`, () =>
      run(
        { t: tool },
        options,
        ({ process }) =>
          Effect.map(
            process.executeWave(wave.map((it) => call(...it))),
            (result) => assert.isBelow(longest(result), 3_000)
          )
      ), { tags: ["O2"] })
  }

  it.effect("stays short, however long the name of a cancelled tool is", () =>
    run({ t: none }, {}, ({ process }) =>
      Effect.gen(function*() {
        yield* process.cancel(huge)
        assert.isBelow(longest(yield* process.executeWave(calls(huge))), 3_000)
      })))

  it.effect("tells what an Error says", () =>
    run(
      { t: () => Effect.fail<unknown>(new TypeError("disk full")) },
      {},
      ({ process }) =>
        Effect.map(process.executeWave(calls("t")), (wave) => {
          assert.include(wave.toolMessages[0]?.text, "disk full")
          assert.deepInclude(wave.outcomes[0], { error: { name: "TypeError", message: "disk full" } })
        })
    ))
})

describe("arguments that are not valid", () => {
  const text = (params: unknown, tool: Tool.Any) =>
    run(
      { t: { handler: none, tool: tool as never } },
      {},
      ({ process }) => Effect.map(process.executeWave([call("1", "t", params)]), (wave) => wave.toolMessages[0]?.text)
    )

  it.effect("are told in plain words, with the names that would be right", () =>
    Effect.gen(function*() {
      const parameters = Schema.Struct({
        path: Schema.String,
        deep: Schema.Struct({ a: Schema.optionalKey(Schema.Int) })
      })
      const closed = Tool.make("t", { parameters, success: Schema.Unknown }).annotate(ToolAnnotations.Closed, true)
      assert.strictEqual(
        yield* text({ pth: "a", deep: { b: 1 } }, closed),
        "The arguments of \"t\" are not valid; it was not run. At \"pth\": This name is unknown; known names: path, deep. " +
          "At \"path\": It is missing. At \"deep.b\": This name is unknown; known names: a. Correct the arguments and call it again."
      )
      const nothing = Tool.make("t", { success: Schema.Unknown }).annotate(ToolAnnotations.Closed, true)
      assert.include(yield* text({ a: 1 }, nothing), "At \"a\": This name is unknown.")
    }))

  it.effect("are told in sentences, also where the tool has a JSON Schema", () => {
    const parameters = { type: "object", properties: { path: { type: "string" } }, required: ["path"] }
    return Effect.map(
      text({}, Tool.dynamic("t", { parameters, success: Schema.Unknown })),
      (it) => assert.include(it, "it was not run. The required property \"path\" is missing. Correct")
    )
  })

  it.effect("are told in the words of a schema that has its own", () => {
    const path = Schema.String.pipe(Schema.annotateKey({ messageMissingKey: "Say which file" }))
    return Effect.map(
      text({}, Tool.make("t", { parameters: Schema.Struct({ path }), success: Schema.Unknown })),
      (it) => assert.include(it, "At \"path\": Say which file.")
    )
  })
})

describe("an outcome", () => {
  const handlers = {
    nothing: none,
    value: () => Effect.succeed({ a: [1] }),
    failure: () => Effect.fail("no"),
    error: () => Effect.fail<unknown>(new Error("no")),
    defect: () => Effect.die("no"),
    never: () => Effect.never
  }
  it.effect("survives JSON", () =>
    run(handlers, { executionTimeout: 10 }, ({ process }) =>
      Effect.gen(function*() {
        const { outcomes } = yield* process.executeWave(calls(...Object.keys(handlers), "unknown"))
        for (const outcome of outcomes) {
          const json: unknown = JSON.parse(JSON.stringify(outcome))
          const read = yield* Effect.orDie(Schema.decodeUnknownEffect(ToolOutcome.ToolOutcome)(json))
          assert.deepStrictEqual(ToolOutcome.text(read), ToolOutcome.text(outcome))
        }
      })), { tags: ["O1"] })

  it.effect("of a name that is no tool goes on where the model asked for it", () =>
    run({ t: none }, { heartbeats: true }, ({ process }) =>
      Effect.map(
        process.executeWave([call("1", "nope", { request_heartbeat: true })]),
        (wave) => assert.isTrue(wave.needsContinuation)
      )))
})
