import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as WireFormat from "../../src/wire/WireFormat.ts"
import { calls, failed, read, refusal, succeeded } from "../support/wire.ts"

const functionCall = (call_id: string, name: string, args: unknown) => ({
  type: "function_call",
  id: `fc_${call_id}`,
  call_id,
  name,
  arguments: args,
  status: "completed"
})

const customCall = (call_id: string, name: string, input: unknown) => ({
  type: "custom_tool_call",
  id: `ctc_${call_id}`,
  call_id,
  name,
  input
})

const format = "openai-responses"

describe("the Responses API", () => {
  it("reads a response and its items alike, and passes over what is not ours", () => {
    const output = [
      { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "…" },
      functionCall("1", "read", `{"path":"a"}`),
      { type: "web_search_call", id: "ws_1", status: "completed" },
      { type: "mcp_call", id: "mcp_1", name: "far", arguments: "{}", server_label: "s" },
      { type: "message", id: "msg_1", role: "assistant", content: [{ type: "output_text", text: "hi" }] },
      functionCall("2", "write", "{}")
    ]
    const wave = [{ id: "1", name: "read", params: { path: "a" } }, { id: "2", name: "write", params: {} }]
    for (const input of [{ id: "resp_1", object: "response", output }, output]) {
      assert.deepStrictEqual(read(input), { format, calls: wave })
      assert.deepStrictEqual(read(input, format), { format, calls: wave })
    }
  })

  it("reads a response without calls as an empty wave", () => {
    assert.deepStrictEqual(read({ object: "response", output: [] }), { format, calls: [] })
    for (const item of [{ type: "message", role: "assistant", content: [] }, { type: "reasoning", summary: [] }]) {
      assert.deepStrictEqual(read([item]), { format, calls: [] })
    }
  })

  it("takes arguments that are parsed already, and keeps text that is not JSON", () => {
    const [parsed, broken] = calls([functionCall("1", "a", { b: 1 }), functionCall("2", "a", "")])
    assert.deepStrictEqual(parsed?.params, { b: 1 })
    assert.strictEqual(broken?.malformed?.text, "")
  })

  it("answers a custom tool, whose input is plain text, with an item of its own type", () => {
    const wave = calls([customCall("1", "patch", "*** Begin"), functionCall("1", "read", "{}")])
    assert.deepStrictEqual(wave, [
      { id: "custom_tool_call:1", name: "patch", params: { input: "*** Begin" } },
      { id: "1", name: "read", params: {} }
    ])
    assert.deepStrictEqual(WireFormat.write(format, wave.map((call) => succeeded(call.id, 1))), [
      { type: "custom_tool_call_output", call_id: "1", output: "done" },
      { type: "function_call_output", call_id: "1", output: "done" }
    ])
  })

  it.prop("gives each answer the type and the id of its call, whatever the id", [Schema.String], ([id]) => {
    for (
      const it of [
        id,
        `shell_call:${id}`,
        `custom_tool_call:${id}`,
        `function_call:${id}\n`,
        `function_call:custom_tool_call:${id}`
      ]
    ) {
      const wave = calls([functionCall(it, "a", "{}"), customCall(it, "b", "")])
      assert.deepStrictEqual(
        WireFormat.write(format, wave.map((call) => succeeded(call.id, 1))).map((
          item
        ) => [item.type, "call_id" in item && item.call_id]),
        [["function_call_output", it], ["custom_tool_call_output", it]]
      )
    }
  })

  it("leaves out calls that have an output, which is for the first of equal ids", () => {
    const output = { type: "function_call_output", call_id: "1", output: "done" }
    const custom = { type: "custom_tool_call_output", call_id: "1", output: "done" }
    const input = [functionCall("1", "a", "{}"), functionCall("1", "b", "{}"), customCall("1", "c", "")]
    assert.deepStrictEqual(calls([...input, output]).map((call) => call.name), ["b", "c"])
    assert.deepStrictEqual(calls([...input, custom]).map((call) => call.name), ["a", "b"])
    assert.deepStrictEqual(calls([output, ...input]).map((call) => call.name), ["a", "b", "c"])
    assert.deepStrictEqual(calls([...input, { ...output, call_id: null }]).length, 3)
  })

  it("says where an item is wrong", () => {
    assert.deepStrictEqual(refusal({ output: [functionCall("1", "a", "{}"), { type: "function_call", call_id: 7 }] }), {
      format,
      path: "output[1].call_id",
      problem: "is 7",
      expected: "a string"
    })
    const at = (input: unknown) => refusal(input, format).path
    assert.strictEqual(at([{ type: "function_call", call_id: "1" }]), "[0].name")
    assert.strictEqual(at([{ type: "function_call", call_id: "1", name: "a" }]), "[0].arguments")
    assert.strictEqual(at([customCall("1", "a", {})]), "[0].input")
    assert.strictEqual(at([{ text: "hi" }]), "[0].type")
    assert.strictEqual(at([null]), "[0]")
    assert.strictEqual(at({ output: "hi" }), "output")
    assert.strictEqual(at({ role: "assistant", content: "hi" }), "")
    assert.strictEqual(at("hi"), "")
  })

  it("refuses calls in another shape, also inside a message", () => {
    const block = { type: "tool_use", id: "1", name: "a", input: {} }
    assert.deepStrictEqual(refusal([block], format), {
      format,
      path: "[0]",
      problem: "is a tool call where this format has none",
      expected: "a response with output, or the array of its items"
    })
    assert.strictEqual(
      refusal([{ type: "message", role: "assistant", content: [{ type: "text", text: "" }, block] }]).path,
      "[0].content[1]"
    )
  })

  it("keeps the namespace of a function in its name, and refuses one that is none", () => {
    const call = (namespace: unknown) => ({ ...functionCall("1", "delete", "{}"), namespace })
    assert.deepStrictEqual(calls([call("files")]), [{ id: "1", name: "files.delete", params: {} }])
    assert.deepStrictEqual(calls([{ ...customCall("1", "run", "x"), namespace: "sh" }]).map((it) => it.name), [
      "sh.run"
    ])
    assert.deepStrictEqual(calls([call(null), call(undefined)]).map((it) => it.name), ["delete", "delete"])
    assert.strictEqual(refusal([call("")]).path, "[0].namespace")
    assert.strictEqual(refusal([call({ name: "files" })]).path, "[0].namespace")
  })

  const builtIn = [
    { type: "shell_call", call_id: "1", action: { commands: ["ls"] }, environment: null },
    { type: "local_shell_call", id: "ls_1", call_id: "2", action: { type: "exec", command: ["ls"], env: {} } },
    { type: "apply_patch_call", call_id: "3", operation: { type: "delete_file", path: "a" } }
  ]

  it("reads calls of built-in tools that a client runs, and answers them with items of their own types", () => {
    const wave = calls(builtIn)
    assert.deepStrictEqual(wave.map(({ name, params }) => [name, params]), [
      ["shell", { commands: ["ls"] }],
      ["local_shell", { type: "exec", command: ["ls"], env: {} }],
      ["apply_patch", { type: "delete_file", path: "a" }]
    ])
    const exit = (exit_code: 0 | 1) => ({ type: "exit", exit_code }) as const
    assert.deepStrictEqual(WireFormat.write(format, wave.map((it) => succeeded(it.id, 1))), [
      { type: "shell_call_output", call_id: "1", output: [{ stdout: "done", stderr: "", outcome: exit(0) }] },
      { type: "local_shell_call_output", id: "2", output: "done" },
      { type: "apply_patch_call_output", call_id: "3", status: "completed", output: "done" }
    ])
    assert.deepStrictEqual(WireFormat.write(format, wave.map((it) => failed(it.id, "no"))), [
      { type: "shell_call_output", call_id: "1", output: [{ stdout: "", stderr: "disk full", outcome: exit(1) }] },
      { type: "local_shell_call_output", id: "2", output: "disk full" },
      { type: "apply_patch_call_output", call_id: "3", status: "failed", output: "disk full" }
    ])
    assert.deepStrictEqual(calls([...builtIn, ...WireFormat.write(format, wave.map((it) => succeeded(it.id, 1)))]), [])
  })

  it("passes over what the provider ran itself", () => {
    const hosted = [
      { ...builtIn[0], environment: { type: "container_reference", container_id: "c" } },
      { type: "tool_search_call", call_id: null, execution: "server", arguments: {} },
      { type: "mcp_approval_request", id: "a", name: "far", arguments: "{}", server_label: "s" }
    ]
    assert.deepStrictEqual(calls(hosted, format), [])
  })

  it("refuses a call that needs an answer of its own kind, until it has it", () => {
    for (const type of ["computer_call", "tool_search_call", "telepathy_call"]) {
      const call = { type, call_id: "1", execution: "client" }
      const answer = { type: type === "tool_search_call" ? "tool_search_output" : `${type}_output`, call_id: "1" }
      assert.include(refusal([call]).problem, "a call that has to be answered in its own way")
      assert.deepStrictEqual(calls([call, answer], format), [])
    }
    assert.strictEqual(refusal([{ type: "telepathy_call", id: "1" }]).path, "[0].call_id")
    assert.strictEqual(refusal([{ type: "shell_call", call_id: "1" }]).path, "[0].action")
  })

  it("writes one item per call", () => {
    assert.deepStrictEqual(WireFormat.write(format, [succeeded("1", 1), failed("2", "no")]), [
      { type: "function_call_output", call_id: "1", output: "done" },
      { type: "function_call_output", call_id: "2", output: "disk full" }
    ])
  })
})
