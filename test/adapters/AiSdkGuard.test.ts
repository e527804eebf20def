/** Tools of the AI SDK behind an executor, in programs without Effect. */
import { assert, describe, expectTypeOf, it } from "@effect/vitest"
import { generateText, isStepCount, type ModelMessage, stepCountIs, streamText, tool, type ToolSet } from "ai"
import * as Effect from "effect/Effect"
import { z } from "zod"
import * as AiSdk from "../../src/adapters/AiSdk.ts"
import { ConfigurationError, ToolOutcome } from "../../src/index.ts"
import type { Call } from "../support/scriptedModel.ts"
import { sdkModel } from "../support/sdkModel.ts"
import { until } from "../support/until.ts"

const path = z.object({ path: z.string() })

const open = () => {
  const ran: Array<string> = []
  const tools = {
    search: tool({
      description: "Finds documents",
      inputSchema: z.object({ query: z.string().trim(), limit: z.number().default(2) }),
      execute: async ({ limit, query }) => {
        ran.push(`search ${query} ${limit}`)
        return { found: [`${query}.md`], at: new Date(0) }
      }
    }),
    remove: tool({
      inputSchema: path,
      execute: async ({ path }, { messages }) => {
        ran.push(`remove ${path}, ${messages.length} messages`)
        return `removed ${path}`
      }
    }),
    watch: tool({
      inputSchema: path,
      async *execute({ path }) {
        yield `opening ${path}`
        yield `read ${path}`
      }
    }),
    hang: tool({
      inputSchema: path,
      execute: ({ path }, { abortSignal }): Promise<string> =>
        new Promise((_, reject) => {
          ran.push(`hang ${path}`)
          abortSignal?.addEventListener("abort", () => {
            ran.push("stopped")
            reject(new Error("stopped"))
          })
        })
    }),
    ask: tool({ description: "Answered by the user", inputSchema: path }) as ToolSet[string]
  }
  return { ran, tools }
}

const search = (id: string, query: string): Call => [id, "search", { query }]
const remove = (id: string, path: string): Call => [id, "remove", { path }]

const problemsOf = (opened: () => Promise<unknown>): Promise<string> =>
  opened().then(() => "nothing", (error: unknown) => {
    assert.instanceOf(error, ConfigurationError.ConfigurationError)
    return error.message
  })

describe("guarded tools of the AI SDK", () => {
  it("run through the gates, and results are what the tools returned", { tags: ["GU1"] }, async () => {
    const { ran, tools: own } = open()
    const events: Array<string> = []
    const { close, tools } = await AiSdk.guard(own, {
      policy: { allow: ["search"], deny: ["remove"] },
      rules: [{ _tag: "MaxCalls", tool: "search", max: 2 }],
      tools: { search: { readOnly: true } },
      onEvent: (event) => events.push(event._tag)
    })
    const { model, read } = sdkModel([[search("1", " a "), search("2", "b"), search("3", "c"), search("4", "a")]])
    const { steps } = await generateText({ model, prompt: "go", tools, stopWhen: isStepCount(3) })
    const results = steps[0]!.toolResults
    assert.deepStrictEqual(results.map((it) => it.output), [{ found: ["a.md"], at: new Date(0) }, {
      found: ["b.md"],
      at: new Date(0)
    }])
    assert.deepStrictEqual(ran, ["search a 2", "search b 2"])
    assert.deepStrictEqual(Object.keys(tools), Object.keys(own))
    assert.strictEqual(tools.ask, own.ask)
    assert.match(JSON.stringify(read().get("3")), /limit/)
    assert.include(events, "ToolCallComplete")
    await close()
  })

  it("keep a tool that the policy denies in its place, and refuse its calls", { tags: ["GU5"] }, async () => {
    const { ran, tools: own } = open()
    const { close, tools } = await AiSdk.guard(own, {
      policy: { default: "allow", deny: ["search"] },
      approvals: "loop"
    })
    const { model, read } = sdkModel([[search("1", "a"), remove("2", "b")]])
    await generateText({ model, prompt: "go", tools, stopWhen: isStepCount(2) })
    assert.deepStrictEqual(Object.keys(tools), Object.keys(own))
    assert.deepStrictEqual(ran, ["remove b, 1 messages"])
    assert.include(JSON.stringify(read().get("1")), "not allowed")
    await close()
  })

  it("keep the types of every input and output", { tags: ["GU1"] }, async () => {
    const { tools: own } = open()
    const { close, tools } = await AiSdk.guard(own, { policy: { default: "allow" } })
    expectTypeOf(tools).toEqualTypeOf<typeof own>()
    const toolkit = Effect.map(AiSdk.fromTools(own), (it) => it.toolkit.tools)
    expectTypeOf<Parameters<NonNullable<typeof own.search.execute>>[0]>().toEqualTypeOf<
      AiSdk.TakenTools<typeof own>["search"]["parametersSchema"]["Type"]
    >()
    expectTypeOf<AiSdk.TakenTools<typeof own>["search"]["successSchema"]["Type"]>().toEqualTypeOf<
      { found: Array<string>; at: Date }
    >()
    assert.include(Object.keys(await Effect.runPromise(toolkit)), "search")
    await close()
  })

  it("show what a generator yields", async () => {
    const { close, tools } = await AiSdk.guard(open().tools, { policy: { default: "allow" } })
    const { model } = sdkModel([[["1", "watch", { path: "x" }]]])
    const seen: Array<unknown> = []
    for await (const part of streamText({ model, prompt: "go", tools, stopWhen: isStepCount(2) }).fullStream) {
      if (part.type === "tool-result") seen.push([part.preliminary === true, part.output])
    }
    assert.deepStrictEqual(seen, [[true, "opening x"], [true, "read x"], [false, "read x"]])
    await close()
  })

  it("are refused when nobody approves them, before anything runs", { tags: ["GU4"] }, async () => {
    const text = await problemsOf(() => AiSdk.guard(open().tools))
    assert.include(text, "AiSdk.guard: 4 problems")
    assert.include(text, "tools.remove: its calls need approval, and there is no approver; expected readOnly: true")
  })

  it("name every mistake in their options", async () => {
    const text = await problemsOf(() =>
      AiSdk.guard(open().tools, {
        polic: {},
        policy: { default: "allow" },
        approvals: "me",
        limits: { call: 1 }
      } as never)
    )
    assert.include(text, "polic: this key is unknown; expected one of policy, rules")
    assert.include(text, `approvals: it cannot answer approval requests; expected a function, or "loop"`)
    assert.include(text, "limits: it has other keys")
    assert.include(
      await problemsOf(() => AiSdk.guard(open().tools, { policy: { allow: ["serach"] } })),
      "serach"
    )
    assert.include(
      await problemsOf(() =>
        AiSdk.guard(open().tools, { policy: {}, rules: [{ _tag: "MaxCalls", tool: "search", max: -1 }] })
      ),
      "max"
    )
    assert.include(
      await problemsOf(() =>
        AiSdk.guard(open().tools, { policy: { default: "allow" }, tools: { ask: { readOnly: true } } })
      ),
      "tools.ask: settings for a tool without execute"
    )
  })

  it("are approved by a function, with the arguments and the reason", async () => {
    const { ran, tools: own } = open()
    const asked: Array<unknown> = []
    const { close, tools } = await AiSdk.guard(own, {
      policy: { ask: ["remove"] },
      approvals: async ({ args, tool, why }) => {
        asked.push([tool, args, why !== ""])
        return (args as { path: string }).path === "a" ? true : { _tag: "Deny", reason: "keep it" }
      }
    })
    const { model, read } = sdkModel([[remove("1", "a"), remove("2", "b")]])
    await generateText({ model, prompt: "go", tools, stopWhen: isStepCount(2) })
    assert.deepStrictEqual(asked, [["remove", { path: "a" }, true], ["remove", { path: "b" }, true]])
    assert.deepStrictEqual(ran, ["remove a, 1 messages"])
    assert.include(JSON.stringify(read().get("2")), "keep it")
    await close()
  })

  it("use the approval flow of the SDK, and run only what its messages approve", { tags: ["GU2"] }, async () => {
    const { ran, tools: own } = open()
    const { close, tools } = await AiSdk.guard(own, {
      policy: { allow: ["search"], ask: ["remove"] },
      approvals: "loop"
    })
    const { model, read } = sdkModel([[search("0", "x"), remove("1", "a"), remove("2", "b")]])
    const messages: Array<ModelMessage> = [{ role: "user", content: "go" }]
    const first = await generateText({ model, messages, tools, stopWhen: isStepCount(5) })
    const requests = first.content.filter((it) => it.type === "tool-approval-request")
    assert.deepStrictEqual(requests.map((it) => it.toolCall.toolCallId), ["1", "2"])
    assert.deepStrictEqual(ran, ["search x 2"])
    messages.push(...first.response.messages, {
      role: "tool",
      content: requests.map(({ approvalId, toolCall }) => ({
        type: "tool-approval-response" as const,
        approvalId,
        approved: toolCall.toolCallId === "1",
        reason: "no"
      }))
    })
    const second = await generateText({ model, messages, tools, stopWhen: isStepCount(5) })
    assert.strictEqual(second.text, "done")
    assert.deepStrictEqual(ran, ["search x 2", "remove a, 4 messages"])
    assert.include(JSON.stringify(read().get("1")), "removed a")
    await close()
  })

  it("do not run what the SDK was told to run without an approval", { tags: ["GU2"] }, async () => {
    const { ran, tools: own } = open()
    const { close, tools } = await AiSdk.guard(own, { policy: { ask: ["remove"] }, approvals: "loop" })
    const { model, read } = sdkModel([[remove("1", "a")]])
    const toolApproval = { remove: "not-applicable" as const }
    await generateText({ model, prompt: "go", tools, toolApproval, stopWhen: isStepCount(2) })
    assert.deepStrictEqual(ran, [])
    assert.include(JSON.stringify(read().get("1")), "did not request approval")
    await close()
  })

  it("stop when the request is aborted, and when they are closed", { tags: ["GU3"] }, async () => {
    const { ran, tools: own } = open()
    const { close, request, tools } = await AiSdk.guard(own, { policy: { default: "allow" } })
    const controller = new AbortController()
    const options = { messages: [], context: {}, abortSignal: controller.signal }
    const first = Promise.resolve(tools.hang.execute({ path: "a" }, { ...options, toolCallId: "1" }))
    const other = await request()
    const second = Promise.resolve(
      other.tools.hang.execute({ path: "b" }, { messages: [], context: {}, toolCallId: "1" })
    )
    const stopped = first.then(() => "ran", (error: Error) => error.name)
    const closed = second.then(() => "ran", (error: unknown) => error)
    await until(() => ran.includes("hang a"))
    controller.abort()
    assert.strictEqual(await stopped, "AbortError")
    await close()
    const error = await closed
    assert.instanceOf(error, ToolOutcome.ToolExecutionError)
    assert.strictEqual(error.reason._tag, "Cancelled")
    const late = await Promise.resolve(
      tools.remove.execute({ path: "c" }, { ...options, abortSignal: new AbortController().signal, toolCallId: "9" })
    )
      .then(() => "ran", (error: Error) => error.message)
    assert.notStrictEqual(late, "ran")
    assert.deepStrictEqual(ran.filter((it) => it.startsWith("remove")), [])
  })

  it("repeat in a later message what they did before, as without an executor, and not in the same message", {
    tags: ["D2"]
  }, async () => {
    const { ran, tools: own } = open()
    for (const [dedupe, expected] of [[undefined, 2], [{ scope: "batch" }, 1]] as const) {
      ran.length = 0
      const { close, tools } = await AiSdk.guard(own, { policy: { default: "allow" }, dedupe })
      const { model } = sdkModel([[remove("1", "a"), remove("2", "a")], [remove("3", "a")], []])
      await generateText({ model, prompt: "go", tools, stopWhen: isStepCount(3) })
      assert.strictEqual(ran.length, expected)
      await close()
    }
  })

  it("count per request, and tell when a rule ends the loop", { tags: ["GU3"] }, async () => {
    const { ran, tools: own } = open()
    const guarded = await AiSdk.guard(own, {
      policy: { default: "allow" },
      limits: { calls: 1 },
      rules: [{ _tag: "ExitLoop", tool: "remove" }]
    })
    for (const { isOver, tools } of [guarded, await guarded.request()]) {
      const { model } = sdkModel([[search("1", "a"), search("2", "b")], [search("3", "c")], []])
      await generateText({ model, prompt: "go", tools, stopWhen: [stepCountIs(2), isOver] })
    }
    assert.deepStrictEqual(ran, ["search a 2", "search a 2"])
    const { isOver, tools } = await guarded.request()
    const { model } = sdkModel([[remove("1", "a")], [search("2", "b")]])
    const { steps } = await generateText({ model, prompt: "go", tools, stopWhen: [isStepCount(9), isOver] })
    assert.lengthOf(steps, 1)
    await guarded.close()
  })
})
