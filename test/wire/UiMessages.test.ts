import { assert, describe, it } from "@effect/vitest"
import { calls, read, refusal } from "../support/wire.ts"

const part = (state: string, more: object = {}) => ({
  type: "tool-read",
  toolCallId: "1",
  state,
  input: { path: "a" },
  ...more
})

const message = (...parts: ReadonlyArray<unknown>) => ({ id: "m1", role: "assistant", parts })

describe("messages of the AI SDK's UI", () => {
  it("are read by the state of their parts", () => {
    const call = [{ id: "1", name: "read", params: { path: "a" } }]
    const states: ReadonlyArray<readonly [object, ReadonlyArray<unknown>]> = [
      [part("input-available"), call],
      [part("approval-requested", { approval: { id: "x" } }), []],
      [part("approval-responded", { approval: { id: "x", approved: true } }), call],
      [part("approval-responded", { approval: { id: "x", approved: false } }), []],
      [part("output-available", { output: 1 }), []],
      [part("output-available", { output: 1, preliminary: true }), call],
      [part("output-error", { errorText: "no" }), []],
      [part("output-denied"), []],
      [part("input-available", { providerExecuted: true }), []],
      [{ ...part("input-available"), type: "dynamic-tool", toolName: "read" }, call]
    ]
    for (const [it, expected] of states) {
      assert.deepStrictEqual(read(message({ type: "step-start" }, it)), { format: "ai-sdk", calls: expected })
    }
  })

  it("are read as a conversation, too", () => {
    const user = { id: "u1", role: "user", parts: [{ type: "text", text: "Hi" }] }
    assert.deepStrictEqual(
      calls([user, message(part("output-available")), user, message(part("input-available", { toolCallId: "2" }))]),
      [{ id: "2", name: "read", params: { path: "a" } }]
    )
    assert.deepStrictEqual(calls([user]), [])
  })

  it("never lose a call that is not whole, or in a state or a shape that is not known", () => {
    assert.include(refusal(message(part("input-streaming"))), {
      path: "parts[0].state",
      problem: "says that the call is still being written"
    })
    assert.strictEqual(refusal(message(part("output-streaming"))).path, "parts[0].state")
    assert.strictEqual(refusal(message(part("input-available", { input: undefined }))).path, "parts[0].input")
    assert.strictEqual(
      refusal(message({ type: "dynamic-tool", toolCallId: "1", state: "input-available" })).path,
      "parts[0].toolName"
    )
    assert.include(refusal(message({ type: "tool-invocation", toolInvocation: { state: "call" } })), {
      problem: "is a tool call of an older AI SDK"
    })
    assert.strictEqual(refusal(message({ type: "function_call", call_id: "1" })).path, "parts[0]")
    assert.strictEqual(refusal({ ...message(part("input-available")), role: "user" }).path, "role")
    assert.include(refusal([message(), { ...message(part("input-available")), role: "user" }]), {
      path: "[1].parts[0]",
      problem: "is a call in a message that is not the assistant's"
    })
    assert.strictEqual(refusal([message(), { role: "assistant", content: "" }]).path, "[1].parts")
  })
})
