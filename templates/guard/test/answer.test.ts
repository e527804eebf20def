/** Runs the loop with a scripted model: no key, no network. */
import { MockLanguageModelV4 } from "ai/test"
import assert from "node:assert/strict"
import { test } from "node:test"
import { answer } from "../src/answer.ts"

type Calls = ReadonlyArray<readonly [id: string, tool: string, input: object]>

/** A model that makes these calls, one list per step, and then says that it is done. */
const scripted = (...steps: ReadonlyArray<Calls>) => {
  let step = 0
  return new MockLanguageModelV4({
    doGenerate: async () => {
      const calls = steps[step++] ?? []
      return {
        content: calls.length === 0
          ? [{ type: "text", text: "Done." }]
          : calls.map(([toolCallId, toolName, input]) => ({
            type: "tool-call",
            toolCallId,
            toolName,
            input: JSON.stringify(input)
          })),
        finishReason: { unified: calls.length === 0 ? "stop" : "tool-calls", raw: undefined },
        usage: {
          inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
          outputTokens: { total: 1, text: 1, reasoning: 0 }
        },
        warnings: []
      }
    }
  })
}

const find = ["1", "find_order", { number: "17" }] as const
const refund = ["2", "refund", { number: "17", cents: 4_900 }] as const

test("an order is paid back after it was found and a person approved", async () => {
  const asked: Array<unknown> = []
  const { steps, text } = await answer(scripted([find], [refund]), "Pay back order 17", ({ args, tool }) => {
    asked.push([tool, args])
    return true
  })
  assert.equal(text, "Done.")
  assert.deepEqual(asked, [["refund", { number: "17", cents: 4_900 }]])
  assert.equal(steps[1]?.toolResults[0]?.output, "Paid 4900 cents back for order 17")
})

test("nothing is paid if the person denies", async () => {
  const { steps } = await answer(scripted([find], [refund]), "Pay back order 17", () => false)
  assert.equal(steps[1]?.toolResults.length, 0)
  assert.equal(steps[1]?.content.some((part) => part.type === "tool-error"), true)
})

test("nothing is paid before the order was found, and nobody is asked", async () => {
  const { steps } = await answer(scripted([refund]), "Pay back order 17", () => assert.fail("asked"))
  assert.equal(steps[0]?.toolResults.length, 0)
})
