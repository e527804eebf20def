/** Messages of a conversation as clients see them. */
import { assert, describe, it } from "@effect/vitest"
import { Prompt } from "effect/ai"
import * as Conversation from "../../../src/agent/Conversation.ts"
import * as History from "../../../src/server/operations/History.ts"

const call = (params: unknown) =>
  Prompt.assistantMessage({
    content: [
      Prompt.textPart({ text: "I look" }),
      Prompt.toolCallPart({ id: "1", name: "look", params, providerExecuted: false })
    ]
  })

const answer = (result: string) =>
  Prompt.toolMessage({
    content: [Prompt.toolResultPart({ id: "1", name: "look", isFailure: false, result, providerExecuted: false })]
  })

const toWire = (isShared: boolean, ...messages: ReadonlyArray<Prompt.Message>) =>
  History.toWire(messages, { isShared, redactorOf: () => undefined })

describe("a history for clients", () => {
  it("has who said what, with calls, answers and the operation of a prompt", () => {
    const messages = toWire(false, Conversation.input("go", "x"), call({ key: "a" }), answer("seen"))
    assert.deepEqual(messages, [
      { role: "user", text: "go", operation: "x" },
      { role: "assistant", text: "I look", calls: [{ id: "1", name: "look", params: { key: "a" } }] },
      { role: "tool", text: "", results: [{ id: "1", name: "look", isError: false, text: "seen" }] }
    ])
  })

  it("has answers directly after their calls", () => {
    const messages = toWire(false, call({}), Conversation.input("meanwhile", "y"), answer("seen"))
    assert.deepEqual(messages.map(({ role }) => role), ["assistant", "tool", "user"])
  })

  it("has no secrets in arguments, and for others than the owner none in texts that repeat them", () => {
    const all = [call({ password: "hunter2-hunter2" }), answer("it is hunter2-hunter2")]
    assert.notInclude(JSON.stringify(toWire(false, all[0]!)), "hunter2")
    assert.include(JSON.stringify(toWire(false, ...all)), "it is hunter2-hunter2")
    assert.notInclude(JSON.stringify(toWire(true, ...all)), "hunter2")
  })
})
