import { assert, describe, it } from "@effect/vitest"
import * as WireFormat from "../../src/wire/WireFormat.ts"
import { calls, failed, refusal, succeeded } from "../support/wire.ts"

const format = "bedrock"

const use = (toolUseId: string, name: string, input: unknown = {}) => ({ toolUse: { toolUseId, name, input } })

const assistant = (...content: ReadonlyArray<unknown>) => ({ role: "assistant", content })

describe("Bedrock Converse", () => {
  it("reads the calls of a response", () => {
    const message = assistant({ text: "Let me see." }, use("t1", "read", { path: "a" }), { newKindOfBlock: {} })
    assert.deepStrictEqual(calls({ output: { message }, stopReason: "tool_use" }), [
      { id: "t1", name: "read", params: { path: "a" } }
    ])
  })

  it("says where a block is wrong", () => {
    const at = (input: unknown) => refusal(input, format).path
    assert.strictEqual(
      at({ output: { message: assistant(use("1", 7 as never)) } }),
      "output.message.content[0].toolUse.name"
    )
    assert.strictEqual(at(assistant({ toolUse: { name: "a", input: {} } })), "content[0].toolUse.toolUseId")
    assert.strictEqual(at(assistant({ toolUse: { toolUseId: "1", name: "a" } })), "content[0].toolUse.input")
    assert.strictEqual(at([use("1", "a"), { toolUse: "a" }]), "[1].toolUse")
    assert.strictEqual(at([assistant(use("1", "a"))]), "[0]")
    assert.strictEqual(at([{ id: "1", name: "a", params: {} }]), "[0]")
    assert.strictEqual(at({ role: "user", content: [use("1", "a")] }), "role")
  })

  it("never writes a block without text, which is refused", () => {
    assert.deepStrictEqual(WireFormat.write(format, [succeeded("1", "", " "), failed("2", "no")]), {
      role: "user",
      content: [
        { toolResult: { toolUseId: "1", status: "success", content: [{ text: "(no text)" }] } },
        { toolResult: { toolUseId: "2", status: "error", content: [{ text: "disk full" }] } }
      ]
    })
  })
})
