/** What a sub-agent has of its caller, what it has of its own, and how it ends. */
import { assert, describe, it } from "@effect/vitest"
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { type AgentExecutor, DispatchAgent, SubAgent } from "../../src/agent/index.ts"
import { ToolContext } from "../../src/index.ts"
import type * as ModelRequest from "../../src/testing/ModelRequest.ts"
import type * as ModelTurn from "../../src/testing/ModelTurn.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { agentTool, events, problemsOf, run, words } from "../support/Agents.ts"
import * as Harness from "../support/Harness.ts"

const call = (id: string, name: string, params: unknown = {}) => ({ id, name, params })
const done: ModelTurn.Turn = { text: "Done." }

const Task = Schema.Struct({ task: Schema.String })

const child = (name: string, options: Partial<SubAgent.Options<typeof Task>> = {}) =>
  agentTool(SubAgent.make(name, { description: "Works", parameters: Task, prompt: ({ task }) => task, ...options }))

/** A model that does for each task what is listed, turn by turn, and then says what it was told last. */
const doing =
  (tasks: { readonly [task: string]: ReadonlyArray<ModelTurn.Turn> }): ScriptedModel.Answer => ({ prompt }) => {
    const said = words(prompt)
    const task = said[0]!.replace(/^user: /, "")
    const turn = said.filter((it) => it.startsWith("result") || it.startsWith("error")).length
    return tasks[task]?.[turn === 0 ? 0 : 1] ?? { text: `${task}: ${said.at(-1)!.replace(/^\w+ \S+ /, "")}` }
  }

/** Tools that say where they ran and with which metadata. */
const world = () => {
  const ran: Array<string> = []
  const noted = (name: string, takes = 0): Harness.Handler => () =>
    Effect.flatMap(ToolContext.ToolContext, ({ agentPath, meta }) => {
      ran.push([...agentPath ?? [], name, ...meta.user === undefined ? [] : [`for ${String(meta.user)}`]].join("/"))
      return Effect.as(Effect.sleep(takes), name)
    })
  const write: Harness.ToolSpec = { handler: noted("write"), class: "SerialMut" }
  const web: Harness.ToolSpec = {
    handler: noted("web"),
    annotate: (tool) => tool.annotate(Tool.OpenWorld, true)
  }
  return { ran, tools: { read: noted("read"), slow: noted("slow", 1_000), write, web } }
}

const played = (
  agents: { readonly [name: string]: Harness.ToolSpec },
  script: ScriptedModel.Script,
  options: Omit<AgentExecutor.Options, "prompt"> = {},
  host: Harness.Options = {}
) => {
  const { ran, tools } = world()
  return run({ ...tools, ...agents }, script, (env) =>
    Effect.gen(function*() {
      const { end, events: all } = yield* events(env, { prompt: "Go", ...options })
      const { at } = end
      yield* Effect.sleep("1 hour")
      assert.deepStrictEqual(problemsOf(end.history), [])
      return { ...end, at, events: all, ran, said: words(end.history), requests: yield* env.model.requests }
    }), host)
}

describe("sub-agents", () => {
  it.effect("work side by side, and their results come in the order of their calls", () =>
    Effect.gen(function*() {
      const { at, ran, said } = yield* played(
        { a: child("a"), b: child("b") },
        doing({
          Go: [{
            calls: [call("1", "a", { task: "one" }), call("2", "b", { task: "two" }), call("3", "a", { task: "three" })]
          }],
          one: [{ calls: [call("1", "slow")], takes: "2 seconds" }],
          two: [{ calls: [call("1", "slow")] }],
          three: [{ calls: [call("1", "slow")], takes: "1 second" }]
        })
      )
      assert.strictEqual(at, 3_000)
      assert.deepStrictEqual(ran, ["b/slow", "a/slow", "a/slow"])
      assert.deepStrictEqual(said.slice(4, 7), ["result 1: one: slow", "result 2: two: slow", "result 3: three: slow"])
    }))

  it.effect("have the metadata of the operation, at every depth", () =>
    Effect.gen(function*() {
      const { ran } = yield* played(
        { a: child("a"), b: child("b") },
        doing({
          Go: [{ calls: [call("1", "a", { task: "one" }), call("2", "read")] }],
          one: [{ calls: [call("1", "b", { task: "two" }), call("2", "read")] }],
          two: [{ calls: [call("1", "read")] }]
        }),
        { meta: { user: "ann" } }
      )
      assert.deepStrictEqual(ran.toSorted(), ["a/b/read/for ann", "a/read/for ann", "read/for ann"])
    }))

  it.effect("ask their own model, and so do those below them; the others that of their caller", () =>
    Effect.gen(function*() {
      const asked: Array<string> = []
      const named = (name: string) =>
        Effect.map(
          Effect.orDie(ScriptedModel.make((request: ModelRequest.ModelRequest) => {
            asked.push(`${name} ${words(request.prompt)[0]}`)
            return doing({
              Go: [{ calls: [call("1", "a", { task: "one" })] }],
              one: [{ calls: [call("1", "b", { task: "two" })] }],
              two: [{ calls: [call("1", "c", { task: "three" })] }]
            })(request) as ModelTurn.Turn
          }, { model: name })),
          (it) => it.layer
        )
      const [around, own] = [yield* named("around"), yield* named("own")]
      yield* played({ a: child("a"), b: child("b", { model: own }), c: child("c") }, [], { model: around })
      const models = (task: string) => new Set(asked.filter((it) => it.endsWith(task)).map((it) => it.split(" ")[0]))
      assert.deepStrictEqual([models("Go"), models("one")], [new Set(["around"]), new Set(["around"])])
      assert.deepStrictEqual([models("two"), models("three")], [new Set(["own"]), new Set(["own"])])
    }))

  it.effect("have the tools that they are given, as far as their caller has them", () =>
    Effect.gen(function*() {
      const toolkit = Toolkit.make(Harness.declare("read")) as never
      const { ran, requests } = yield* played(
        { a: child("a", { toolkit }) },
        doing({
          Go: [{ calls: [call("1", "a", { task: "one" })] }],
          one: [{ calls: [call("1", "write"), call("2", "read")] }]
        })
      )
      assert.deepStrictEqual(ran, ["a/read"])
      assert.deepStrictEqual(requests[1]!.tools, ["read"])
    }))

  it.effect(
    "may do nothing that an agent above them may not, whatever their own policy says",
    () =>
      Effect.gen(function*() {
        const { ran } = yield* played(
          {
            a: child("a", { policy: { default: "allow", deny: ["write"] } }),
            b: child("b", { policy: { default: "allow" } })
          },
          doing({
            Go: [{ calls: [call("1", "a", { task: "one" }), call("2", "write")] }],
            one: [{ calls: [call("1", "b", { task: "two" }), call("2", "write")] }],
            two: [{ calls: [call("1", "write"), call("2", "read")] }]
          })
        )
        assert.deepStrictEqual(ran.toSorted(), ["a/b/read", "write"])
      }),
    { tags: ["AG11"] }
  )

  it.effect("end with the time of their call, and start nothing after that", () =>
    Effect.gen(function*() {
      const { at, events: all, ran, requests, said } = yield* played(
        { a: child("a") },
        doing({
          Go: [{ calls: [call("1", "a", { task: "one" })] }],
          one: [{ calls: [call("1", "slow"), call("2", "b", {})], takes: "4500 millis" }, {
            calls: [call("3", "slow")]
          }]
        }),
        {},
        { tools: { a: { timeout: "5 seconds" } } }
      )
      assert.strictEqual(at, 5_000)
      assert.deepStrictEqual(ran, ["a/slow"])
      assert.match(said[2]!, /^error 1: .*5 s/)
      assert.strictEqual(requests.length, 3)
      const outcomes = all.flatMap((it) =>
        it._tag === "ToolResultReceived" ? [`${it.agentPath}${it.callId} ${it.outcome._tag}`] : []
      )
      assert.includeMembers(outcomes, ["a1 Cancelled", "1 TimedOut"])
    }), { tags: ["AG11"] })

  it.effect("end at bounds of their own, and their caller goes on", () =>
    Effect.gen(function*() {
      const { at, said, text } = yield* played(
        { a: child("a", { limits: { time: "3 seconds" } }), b: child("b", { limits: { turns: 1 } }) },
        doing({
          Go: [{ calls: [call("1", "a", { task: "one" }), call("2", "b", { task: "two" })] }, done],
          one: [{ never: true }],
          two: [{ text: "I look.", calls: [call("1", "read")] }]
        })
      )
      assert.deepStrictEqual([at, text], [3_000, "Done."])
      assert.match(said[3]!, /^error 1: "a" failed: The agent did not finish\. .*3 s/)
      assert.match(said[4]!, /^error 2: .*did not finish\. .*It said last: I look\./)
    }))

  it("are not made with limits that are none, and it is said which", () => {
    const odd = { description: "Odd", parameters: Schema.Struct({}), prompt: () => "Go", limits: { time: "soon" } }
    assert.throws(() => SubAgent.make("odd", odd as never), /SubAgent\.make\("odd"\)[^]*limits\.time: it is "soon"/)
  })

  it.effect("have ten minutes if nothing is said of it", () =>
    Effect.gen(function*() {
      const { at, said } = yield* played(
        { a: child("a") },
        doing({ Go: [{ calls: [call("1", "a", { task: "one" })] }, done], one: [{ never: true }] })
      )
      assert.strictEqual(at, 600_000)
      assert.match(said[2]!, /^error 1: "a" failed: The agent did not finish/)
    }))

  it.effect("fail with words that a model can go on from", () =>
    Effect.gen(function*() {
      const key = AiError.make({
        module: "Test",
        method: "streamText",
        reason: new AiError.AuthenticationError({ kind: "InvalidKey" })
      })
      const broken = Layer.effect(LanguageModel.LanguageModel, Effect.fail("no key"))
      const deadly = Layer.effect(LanguageModel.LanguageModel, Effect.die(new Error("a bug")))
      const { said, text } = yield* played(
        {
          a: child("a"),
          b: child("b", { model: broken }),
          c: child("c", { model: deadly }),
          d: child("d", {
            prompt: () => {
              throw new Error("no prompt")
            }
          })
        },
        doing({
          Go: [{ calls: ["a", "b", "c", "d"].map((name, index) => call(String(index), name, { task: "one" })) }, done],
          one: [{ fails: key }]
        })
      )
      assert.strictEqual(text, "Done.")
      for (const [index, name] of ["a", "b", "c", "d"].entries()) {
        assert.match(said[5 + index]!, new RegExp(`^error ${index}: .*"?${name}"?`))
      }
      assert.match(said[5]!, /did not finish/)
      assert.match(said[6]!, /did not finish.*no key/)
    }))

  it.effect("below the eighth are refused, and the eighth is told why", () =>
    Effect.gen(function*() {
      const tasks = Object.fromEntries(
        Array.from(
          { length: 9 },
          (_, n) => [n === 0 ? "Go" : `level ${n}`, [{ calls: [call("1", "a", { task: `level ${n + 1}` })] }]]
        )
      )
      const { events: all, requests, text } = yield* played({ a: child("a") }, doing(tasks))
      assert.strictEqual(Math.max(...all.map((it) => it.agentPath.length)), 8)
      assert.strictEqual(requests.length, 18)
      assert.match(text, /at most 8|deep|8 levels/)
    }))
})

describe("an agent that only looks", () => {
  const calls = ["write", "web", "asks", "worker", "dispatch_agent", "read", "nope"].map((name, index) =>
    call(String(index), name, name === "worker" ? { task: "two" } : name === "dispatch_agent" ? { prompt: "two" } : {})
  )
  const agents = () => ({
    dispatch_agent: agentTool(DispatchAgent.make()),
    worker: child("worker"),
    asks: { handler: () => Effect.die("it ran"), class: "SerialMut" as const }
  })

  it.effect(
    "changes nothing and requests nothing, nor do those below it, whatever their models say",
    () =>
      Effect.gen(function*() {
        const { events: all, ran } = yield* played(
          agents(),
          doing({
            Go: [{ calls: [call("1", "dispatch_agent", { prompt: "one" })] }],
            one: [{ calls }],
            two: [{ calls: calls.filter((it) => it.name !== "dispatch_agent") }]
          }),
          { mode: "Interactive" },
          { policy: { default: "allow", ask: ["asks"] } }
        )
        assert.deepStrictEqual(ran.toSorted(), ["dispatch_agent/dispatch_agent/read", "dispatch_agent/read"])
        assert.notInclude(all.map((it) => it._tag), "ToolApprovalRequested")
      }),
    { tags: ["AG11"] }
  )
})

describe("a sub-agent that a host calls without an agent", () => {
  const call1 = Harness.calls(["a", { task: "one" }])

  it.effect("asks its own model, or the one around; without any it says so", () =>
    Effect.gen(function*() {
      const own = yield* Effect.orDie(ScriptedModel.make([{ text: "own" }]))
      const wave = yield* Harness.run({ a: child("a", { model: own.layer }) }, {}, ({ process }) =>
        process.executeWave(call1))
      assert.strictEqual(Harness.value(wave.outcomes[0]), "own")
      const none = yield* Harness.run({ a: child("a") }, {}, ({ process }) =>
        process.executeWave(call1))
      assert.match(none.toolMessages[0]!.text, /No model is available/)
    }))
})
