/**
 * Holds what is true of every format: whatever comes in, and whatever is to go out.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as ToolOutcome from "../src/core/vocabulary/ToolOutcome.ts"
import * as WireFormat from "../src/wire/WireFormat.ts"
import * as Wire from "./support/wire.ts"

const { asking, formats } = Wire
const wave = Schema.Array(Wire.Wanted)
const someCalls = Schema.NonEmptyArray(Wire.Wanted)
const isJson = Schema.is(Schema.Json)
const plain = (value: unknown): unknown => JSON.parse(JSON.stringify(value))

const outcomesOf = (wanted: ReadonlyArray<Wire.Wanted>, { calls }: WireFormat.Wave) =>
  calls.map((call, index) =>
    wanted[index]?.ok ? Wire.succeeded(call.id, call.params) : Wire.failed(call.id, call.params)
  )

/** Kept apart, so that one format's types meet. */
const answers = <F extends WireFormat.Format>(format: F, outcomes: ReadonlyArray<ToolOutcome.ToolOutcome>) =>
  Wire.answersIn[format](WireFormat.write(format, outcomes))

describe("every wire format", () => {
  for (const format of formats) {
    describe(format, () => {
      it.prop("is detected, and gives the calls that were asked for", [someCalls], ([wanted]) => {
        for (const message of asking[format](wanted)) {
          const read = Wire.read(message)
          assert.strictEqual(read.format, format)
          assert.deepStrictEqual(
            plain(read.calls.map(({ name, params }) => ({ name, params }))),
            plain(wanted.map(({ name, params }) => ({ name, params })))
          )
        }
      }, { arbitrary: { runs: 60 } })

      it.prop("is never read as another one without a word", [someCalls], ([wanted]) => {
        for (const message of asking[format](wanted)) {
          for (const other of formats.filter((it) => it !== format)) {
            const result = WireFormat.read(message, other)
            assert.isTrue(Result.isFailure(result), `${JSON.stringify(message)} as ${other}`)
          }
        }
      }, { arbitrary: { runs: 30 } })

      it.prop(
        "gives n answers for n calls, with the same ids in the same order, and marks errors",
        [wave],
        ([wanted]) => {
          for (const message of asking[format](wanted)) {
            const found = answers(format, outcomesOf(wanted, Wire.read(message, format)))
            assert.deepStrictEqual(found.map(([id]) => id), wanted.map((it) => it.id))
            for (const [index, [, isError]] of found.entries()) {
              if (isError !== "unknown") assert.strictEqual(isError, !wanted[index]?.ok)
            }
          }
        },
        { arbitrary: { runs: 60 } }
      )

      it.prop("keeps calls of equal ids apart", [Wire.Wanted, Wire.Wanted], ([first, second]) => {
        for (const message of asking[format]([first, { ...second, id: first.id }])) {
          assert.deepStrictEqual(Wire.calls(message).map((call) => call.name), [first.name, second.name])
        }
      }, { arbitrary: { runs: 30 } })

      it.prop("writes JSON for any outcome", [Schema.toType(ToolOutcome.ToolOutcome)], ([outcome]) => {
        assert.isTrue(isJson(plain(WireFormat.write(format, [outcome]))))
      }, { arbitrary: { runs: 100 } })

      it("keeps the text of arguments that are not JSON", () => {
        const broken = { id: "one", name: "a", params: {}, ok: true }
        for (const message of asking[format]([broken])) {
          const [call] = Wire.calls(withArguments(message, `{"path":`), format)
          assert.deepInclude(call, { id: "one", name: "a", params: null })
          assert.strictEqual(call?.malformed?.text, `{"path":`)
        }
      })

      it("tells the model what became of a call that did not run, in a text that is well-formed", () => {
        const refused = [
          Wire.denied("1", { _tag: "PolicyDenied", rule: "deny \ud83d" }),
          Wire.skipped("1"),
          Wire.failed("1", "no", "", "defect")
        ]
        for (const outcome of refused) {
          const text = JSON.stringify(WireFormat.write(format, [outcome]))
          assert.notInclude(text, "\\ud83d")
          if (format === "native") continue
          const told = ToolOutcome.text(outcome).replace("\ud83d", "\ufffd")
          assert.include(text, JSON.stringify(told === "" ? "The tool failed." : told))
        }
      })

      it("answers no calls with no answers", () => {
        assert.deepStrictEqual(answers(format, []), [])
      })
    })
  }

  it.prop("gives a wave or an error for any JSON", [Schema.Json], ([json]) => {
    for (const format of [...formats, "auto"] as const) {
      assert.isTrue(isWaveOrError(WireFormat.read(json, format)))
      assert.isTrue(isWaveOrError(WireFormat.readText(JSON.stringify(json), format)))
    }
  }, { arbitrary: { runs: 300 } })

  it.prop(
    "gives a wave or an error for a message with any JSON in any place of it",
    [Schema.Json, Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 60 }))],
    ([json, place]) => {
      const two = [{ id: "1", name: "a", params: {}, ok: true }, { id: "1", name: "b", params: { c: 1 }, ok: true }]
      for (const message of [...formats.flatMap((format) => asking[format](two)), ...Object.values(conversations)]) {
        for (const format of [...formats, "auto"] as const) {
          const result = WireFormat.read(replaced(message, place, json), format)
          assert.isTrue(isWaveOrError(result))
          // n in: an entry is a call, a mistake, or none of ours; one more if what is put in is a call
          if (Result.isSuccess(result)) assert.isAtMost(result.success.calls.length, 3)
        }
      }
    },
    { arbitrary: { runs: 50 } }
  )

  it.prop("finds no call in a conversation that has an answer for each", [wave, wave], ([earlier, later]) => {
    for (const format of ["openai-responses", "ai-sdk", "effect-ai", "gemini", "langchain"] as const) {
      const asked = (wanted: ReadonlyArray<Wire.Wanted>) => {
        const message = asConversation[format](asking[format](wanted))
        const written: unknown = WireFormat.write(format, outcomesOf(wanted, Wire.read(message, format)))
        return { message, written: Array.isArray(written) ? written : [written] }
      }
      const [one, two] = [asked(earlier), asked(later)]
      const all = (...turns: ReadonlyArray<ReadonlyArray<unknown>>) =>
        Wire.calls(format === "effect-ai" ? { content: turns.flat() } : turns.flat(), format)
      assert.deepStrictEqual(all(one.message, one.written, two.message, two.written), [])
      // an id may come again
      const open = all(one.message, one.written, two.message)
      assert.deepStrictEqual(open, all(two.message))
      assert.deepStrictEqual(
        plain(open.map(({ name, params }) => ({ name, params }))),
        plain(later.map(({ name, params }) => ({ name, params })))
      )
    }
  }, { arbitrary: { runs: 100 } })
})

const isWaveOrError = (result: Result.Result<WireFormat.Wave, WireFormat.WireFormatError>): boolean =>
  Result.isSuccess(result)
    ? result.success.calls.every((call) => typeof call.id === "string" && typeof call.name === "string")
    : result.failure._tag === "WireFormatError" && result.failure.message.length < 1000

/** The messages or items that a model's turn adds to a conversation, of the ways to ask. */
const asConversation = {
  "openai-responses": (ways) => ways.find(Array.isArray) as ReadonlyArray<unknown>,
  "ai-sdk": (ways) => [ways[0]],
  "effect-ai": (ways) => [ways[3]],
  gemini: (ways) => [ways[1]],
  langchain: (ways) => [ways[0]]
} satisfies { readonly [F in WireFormat.Format]?: (ways: ReadonlyArray<unknown>) => ReadonlyArray<unknown> }

const conversations = {
  denied: {
    content: [
      {
        role: "assistant",
        content: [
          { type: "tool-call", id: "1", name: "a", params: {} },
          { type: "tool-approval-request", approvalId: "x", toolCallId: "1" }
        ]
      },
      { role: "tool", content: [{ type: "tool-approval-response", approvalId: "x", approved: false }] }
    ]
  },
  custom: [
    { type: "custom_tool_call", call_id: "1", name: "patch", input: "" },
    { type: "custom_tool_call_output", call_id: "1", output: "" }
  ]
}

/** The message with the value at the nth place, counted depth first, replaced. */
const replaced = (message: unknown, place: number, json: unknown): unknown => {
  let left = place
  const go = (value: unknown): unknown => {
    if (left-- === 0) return json
    if (Array.isArray(value)) return value.map(go)
    return typeof value === "object" && value !== null
      ? Object.fromEntries(Object.entries(value).map(([key, it]) => [key, go(it)]))
      : value
  }
  return go(message)
}

/** The message with a text for the arguments of each call. */
const withArguments = (message: unknown, text: string): unknown =>
  JSON.parse(
    JSON.stringify(message),
    (key, value: unknown) =>
      ["args", "arguments", "input", "params"].includes(key) && (JSON.stringify(value) === "{}" || value === "{}")
        ? text
        : value
  )
