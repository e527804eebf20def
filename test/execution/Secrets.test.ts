import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { ToolAnnotations, ToolCall, ToolContext, ToolEvent } from "../../src/index.ts"
import { run, type ToolSpec, value } from "../support/Harness.ts"

const secrets = Array.from({ length: 200 }, (_, index) => `Zq${index * 7919 + 104729}-${(index * 31337).toString(36)}x`)

/** Repeats its secret wherever a handler can. */
const leaky = (secret: string) =>
  Effect.gen(function*() {
    const context = yield* ToolContext.ToolContext
    yield* context.progress({ message: `using ${secret}` })
    yield* context.status(`status ${secret}`)
    yield* context.log("info", `log ${secret}`, { data: [secret] })
    yield* context.options({ options: secret })
    yield* context.partial({ pin: `made-${secret}` })
    yield* context.emit("own", { text: secret })
  })

const tools: Record<string, ToolSpec> = {
  gives: {
    annotate: (tool) => tool.annotate(ToolAnnotations.Redact, ["pin"]),
    handler: ({ pin }) => Effect.as(leaky(String(pin)), { pin: `made-${String(pin)}`, note: `It is ${String(pin)}` })
  },
  fails: {
    annotate: (tool) => tool.annotate(ToolAnnotations.Redact, (value) => ({ ...value as object, pin: "" })),
    handler: ({ pin }) => Effect.fail({ pin, why: `${String(pin)} is wrong` })
  },
  typed: {
    tool: Tool.make("typed", {
      parameters: Schema.Struct({ pin: Schema.RedactedFromValue(Schema.String) }),
      success: Schema.String
    }),
    handler: (params) => Effect.succeed(String(params["pin"]))
  },
  plain: { handler: ({ pin }) => Effect.succeed({ pin }) }
}

describe("the events of tools that declare secrets", () => {
  it.live("have none of 200 of them, whatever the handlers do", () =>
    run(tools, {}, ({ process }) =>
      Effect.gen(function*() {
        const names = ["gives", "fails", "typed"]
        const calls = secrets.map((pin, index) => ToolCall.make(String(index), names[index % 3]!, { pin, index }))
        const events = yield* Stream.runCollect(process.stream(calls))
        assert.isAbove(events.length, 5 * secrets.length)
        const text = JSON.stringify(events) + JSON.stringify(events.map(ToolEvent.toWire))
        assert.deepStrictEqual(secrets.filter((it) => text.includes(it)), [])
      })))

  it.live("have what is declared of no tool as it is", () =>
    run(tools, {}, ({ process }) =>
      Effect.gen(function*() {
        const events = yield* Stream.runCollect(
          process.stream([ToolCall.make("1", "plain", { pin: "1234", password: "abcd" })])
        )
        const [queued] = events
        assert.deepStrictEqual(queued?._tag === "ToolCallQueued" && queued.params, { pin: "1234", password: "abcd" })
        const end = events.at(-1)
        assert.deepStrictEqual(end?._tag === "ToolsEnd" && value(end.executionResults[0]), { pin: "1234" })
      })))

  it.live("are without them, and whoever executes gets the result as it is", () =>
    run(tools, {}, ({ process }) =>
      Effect.gen(function*() {
        const wave = yield* process.executeWave([ToolCall.make("1", "gives", { pin: "1234" })])
        assert.deepStrictEqual(value(wave.outcomes[0]), { pin: "made-1234", note: "It is 1234" })
        assert.include(wave.toolMessages[0]!.text, "1234")
      })))
})
