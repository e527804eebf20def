/** Tools of the OpenAI Agents SDK behind an executor, in programs without Effect. */
import { assert, describe, expectTypeOf, it } from "@effect/vitest"
import { Agent, Runner, tool, webSearchTool } from "@openai/agents"
import { z } from "zod"
import * as OpenAiAgents from "../../src/adapters/OpenAiAgents.ts"
import { ConfigurationError } from "../../src/index.ts"
import { scriptedAgent } from "../support/scriptedAgent.ts"
import { until } from "../support/until.ts"

const parameters = z.object({ path: z.string() })

const open = () => {
  const ran: Array<string> = []
  const read = tool({
    name: "read",
    description: "Reads a file",
    parameters,
    execute: ({ path }) => {
      ran.push(`read ${path}`)
      if (path === "missing") throw new Error("There is no missing")
      return { path, size: 3 }
    }
  })
  const write = tool({
    name: "write",
    description: "Writes a file",
    parameters,
    execute: ({ path }) => (ran.push(`write ${path}`), "written")
  })
  const hang = tool({
    name: "hang",
    description: "Never ends",
    parameters,
    execute: (_, _context, details) =>
      new Promise<string>((_resolve, reject) => {
        ran.push("hang")
        details?.signal?.addEventListener("abort", () => {
          ran.push("stopped")
          reject(new Error("stopped"))
        })
      })
  })
  return { ran, tools: [read, write, hang, webSearchTool()] as const }
}

const runner = new Runner({ tracingDisabled: true })

describe("guarded tools of the OpenAI Agents SDK", () => {
  it("run through the gates, in order", { tags: ["GU1"] }, async () => {
    const { ran, tools: own } = open()
    const failures: Array<string> = []
    const { close, tools } = await OpenAiAgents.guard(own, {
      policy: { allow: ["read"] },
      tools: { read: { readOnly: true } },
      rules: [{ _tag: "MaxCalls", tool: "read", max: 2 }],
      onEvent: (event) => {
        if (event._tag === "ToolCallComplete") failures.push(event.outcome._tag)
      }
    })
    expectTypeOf(tools).toEqualTypeOf<typeof own>()
    assert.strictEqual(tools[3], own[3])
    const model = scriptedAgent([[
      ["1", "read", { path: "a" }],
      ["2", "read", { path: "missing" }],
      ["3", "read", { path: "b" }],
      ["4", "write", { path: "a" }],
      ["5", "read", "{ not json"],
      ["6", "read", { path: 6 }]
    ]])
    const result = await runner.run(new Agent({ name: "a", model, tools: [...tools] }), "go")
    assert.strictEqual(result.finalOutput, "done")
    assert.deepStrictEqual(ran, ["read a", "read missing"])
    const answers = model.answers()
    assert.include(answers.get("1"), "size")
    assert.include(answers.get("2"), "An error occurred")
    assert.include(answers.get("3"), "limit")
    assert.include(answers.get("4"), "approv")
    assert.include(answers.get("5"), "JSON")
    assert.include(answers.get("6"), "path")
    assert.deepStrictEqual(failures.toSorted(), ["Denied", "Denied", "Denied", "Failed", "Succeeded"])
    await close()
  })

  it(
    "keep a tool that the policy denies in its place: its calls are refused, and the run goes on",
    { tags: ["GU5"] },
    async () => {
      const { ran, tools: own } = open()
      const { close, tools } = await OpenAiAgents.guard(own, { policy: { default: "allow", deny: ["read"] } })
      assert.deepStrictEqual(tools.map((it) => it.name), own.map((it) => it.name))
      const model = scriptedAgent([[["1", "read", { path: "a" }], ["2", "write", { path: "a" }]]])
      const result = await runner.run(new Agent({ name: "a", model, tools: [...tools] }), "go")
      assert.strictEqual(result.finalOutput, "done")
      assert.include(model.answers().get("1"), "not allowed")
      assert.deepStrictEqual(ran, ["write a"])
      await close()
    }
  )

  it("are approved by a function", async () => {
    const { ran, tools: own } = open()
    const { close, tools } = await OpenAiAgents.guard(own, {
      policy: { ask: ["write"] },
      approvals: ({ args }) => (args as { path: string }).path === "ok"
    })
    const model = scriptedAgent([[["1", "write", { path: "ok" }], ["2", "write", { path: "not" }]]])
    await runner.run(new Agent({ name: "a", model, tools: [...tools] }), "go")
    assert.deepStrictEqual(ran, ["write ok"])
    await close()
  })

  it(
    "use the approval flow of the SDK: the run is interrupted, and continues after an answer",
    { tags: ["GU2"] },
    async () => {
      const { ran, tools: own } = open()
      const { close, tools } = await OpenAiAgents.guard(own, {
        policy: { allow: ["read"], ask: ["write"] },
        approvals: "loop"
      })
      const model = scriptedAgent([[["1", "write", { path: "a" }], ["2", "write", { path: "b" }], ["3", "read", {
        path: "c"
      }]]])
      const agent = new Agent({ name: "a", model, tools: [...tools] })
      const first = await runner.run(agent, "go")
      assert.lengthOf(first.interruptions, 2)
      assert.deepStrictEqual(ran, ["read c"])
      const { state } = first
      state.approve(first.interruptions[0]!)
      state.reject(first.interruptions[1]!)
      const second = await runner.run(agent, state)
      assert.strictEqual(second.finalOutput, "done")
      assert.deepStrictEqual(ran, ["read c", "write a"])
      await close()
    }
  )

  it("stop with the signal of the run", async () => {
    const { ran, tools: own } = open()
    const { close, tools } = await OpenAiAgents.guard(own, { policy: { default: "allow" } })
    const controller = new AbortController()
    const stopped = tools[2].invoke({} as never, `{"path":"a"}`, { signal: controller.signal })
      .then(() => "ran", (error: Error) => error.name)
    await until(() => ran.includes("hang"))
    controller.abort()
    assert.strictEqual(await stopped, "AbortError")
    assert.deepStrictEqual(ran, ["hang", "stopped"])
    await close()
  })

  it("name every mistake", async () => {
    const error = await OpenAiAgents.guard(open().tools).catch((error: unknown) => error)
    assert.instanceOf(error, ConfigurationError.ConfigurationError)
    assert.include(error.message, "OpenAiAgents.guard: 3 problems")
    assert.include(error.message, `or a function, or "loop" as approvals`)
  })
})
