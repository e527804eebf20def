/** Tools of LangChain behind an executor, in programs without Effect. */
import { assert, describe, expectTypeOf, it } from "@effect/vitest"
import { HumanMessage, ToolMessage } from "@langchain/core/messages"
import { StructuredTool, tool } from "@langchain/core/tools"
import { createReactAgent, ToolNode } from "@langchain/langgraph/prebuilt"
import { z } from "zod"
import * as LangChain from "../../src/adapters/LangChain.ts"
import { ConfigurationError, ToolOutcome } from "../../src/index.ts"
import { ScriptedChat } from "../support/scriptedChat.ts"
import { until } from "../support/until.ts"

const path = z.object({ path: z.string().trim() })

const open = () => {
  const ran: Array<string> = []
  const read = tool(async ({ path }) => (ran.push(`read ${path}`), { path, size: 3 }), {
    name: "read",
    description: "Reads a file",
    schema: path
  })
  const write = tool(async ({ path }) => (ran.push(`write ${path}`), ["written", { path }]), {
    name: "write",
    description: "Writes a file",
    schema: path,
    responseFormat: "content_and_artifact"
  })
  const large = tool(() => "x".repeat(50_000), {
    name: "large",
    description: "Reads a large file",
    schema: { type: "object", properties: {} } as const
  })
  const hang = tool(
    (_, config: { readonly signal?: AbortSignal }) =>
      new Promise<string>((_resolve, reject) => {
        ran.push("hang")
        config.signal?.addEventListener("abort", () => {
          ran.push("stopped")
          reject(new Error("stopped"))
        })
      }),
    { name: "hang", description: "Never ends", schema: path }
  )
  return { ran, tools: [read, write, large, hang] as const }
}

const call = (id: string, name: string, args: Record<string, unknown>) => ({
  id,
  name,
  args,
  type: "tool_call" as const
})

describe("guarded tools of LangChain", () => {
  it("are the same tools for agents, and their calls pass the gates", { tags: ["GU1"] }, async () => {
    const { ran, tools: own } = open()
    const { close, tools } = await LangChain.guard(own, {
      policy: { allow: ["read"], ask: ["write"] },
      tools: { read: { readOnly: true } },
      rules: [{ _tag: "MaxCalls", tool: "read", max: 1 }],
      approvals: ({ args }) => (args as { path: string }).path === "ok"
    })
    expectTypeOf(tools).toEqualTypeOf<typeof own>()
    assert.isTrue(tools[0] instanceof StructuredTool)
    const model = new ScriptedChat([
      [["1", "read", { path: " a " }], ["2", "read", { path: "b" }], ["3", "read", { path: 3 }]],
      [["4", "write", { path: "ok" }], ["5", "write", { path: "not" }], ["6", "large", {}]]
    ])
    const agent = createReactAgent({ llm: model, tools: [...tools] })
    const { messages } = await agent.invoke({ messages: [new HumanMessage("go")] })
    assert.deepStrictEqual(ran, ["read a", "write ok"])
    const results = messages.filter(ToolMessage.isInstance)
    assert.deepStrictEqual(results.map((it) => [it.tool_call_id, it.status]), [
      ["1", "success"],
      ["2", "error"],
      ["3", "error"],
      ["4", "success"],
      ["5", "error"],
      ["6", "error"]
    ])
    assert.strictEqual(results[0]?.text, `{"path":"a","size":3}`)
    assert.include(results[1]?.text, "limit")
    assert.include(results[2]?.text, "Correct the arguments")
    assert.deepStrictEqual([results[3]?.text, results[3]?.artifact], ["written", { path: "ok" }])
    assert.strictEqual(messages.at(-1)?.text, "done")
    await close()
  })

  it("keep a tool that the policy denies in its place, and refuse its calls", { tags: ["GU5"] }, async () => {
    const { ran, tools: own } = open()
    const { close, tools } = await LangChain.guard(own, { policy: { default: "allow", deny: ["read"] } })
    assert.deepStrictEqual(tools.map((it) => it.name), own.map((it) => it.name))
    const refused = await tools[0].invoke({ path: "a" }).catch((error: unknown) => error)
    assert.instanceOf(refused, ToolOutcome.ToolExecutionError)
    await tools[1].invoke({ path: "a" })
    assert.deepStrictEqual(ran, ["write a"])
    await close()
  })

  it("run in order in a tool node, and long outputs are cut for the model", async () => {
    const { tools: own } = open()
    const { close, tools } = await LangChain.guard(own, { policy: { default: "allow" } })
    const node = new ToolNode([...tools])
    const model = new ScriptedChat([[["1", "large", {}]]])
    const { messages } = await node.invoke({ messages: [await model.invoke("go")] }) as {
      readonly messages: ReadonlyArray<ToolMessage>
    }
    assert.isAtMost(messages[0]!.text.length, 10_000)
    assert.include(messages[0]!.text, "50000 characters")
    await close()
  })

  it("give plain callers the result itself, and reject if a call does not succeed", async () => {
    const { tools: own } = open()
    const { close, tools: [read, write] } = await LangChain.guard(own, { policy: { allow: ["read"] } })
    expectTypeOf<Awaited<ReturnType<typeof read.invoke>>>().not.toBeNever()
    assert.deepStrictEqual(await read.invoke({ path: "a" }), { path: "a", size: 3 })
    const refused = await write.invoke({ path: "a" }).catch((error: unknown) => error)
    assert.instanceOf(refused, ToolOutcome.ToolExecutionError)
    assert.strictEqual(refused.reason._tag, "PermissionDenied")
    await close()
  })

  it("stop with the signal of the config, and when they are closed", async () => {
    const { ran, tools: own } = open()
    const { close, tools: [, , , hang] } = await LangChain.guard(own, { policy: { default: "allow" } })
    const controller = new AbortController()
    const stopped = hang.invoke({ path: "a" }, { signal: controller.signal }).catch((error: unknown) => error)
    const closed = hang.invoke(call("2", "hang", { path: "b" }))
    await until(() => ran.includes("hang"))
    controller.abort()
    assert.instanceOf(await stopped, Error)
    await close()
    const message = await closed
    assert.strictEqual(message.status, "error")
    assert.deepStrictEqual(ran, ["hang", "stopped"])
  })

  it("name every mistake in tools and options", async () => {
    const { tools: [read] } = open()
    const other = { name: "run", description: "", schema: {}, invoke: () => Promise.resolve(1) }
    const error = await LangChain.guard([read, read, other], {
      approvals: "loop",
      tools: { raed: {} }
    } as never).catch((error: unknown) => error)
    assert.instanceOf(error, ConfigurationError.ConfigurationError)
    assert.include(error.message, "tools.read: several tools have this name")
    assert.include(error.message, "tools.run: it is not a structured tool; expected what tool() of LangChain returns")
    assert.include(error.message, "tools.raed: settings for a tool that does not exist")
    const asks = await LangChain.guard([read], { approvals: "loop" }).catch((error: unknown) => error)
    assert.include(String(asks), "approvals: it cannot answer approval requests; expected a function")
  })
})
