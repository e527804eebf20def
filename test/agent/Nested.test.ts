/** What handlers do that have calls run which no model of an agent made, and agents below them. */
import { assert, describe, it } from "@effect/vitest"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { AgentEvent } from "../../src/agent/index.ts"
import { AgentExecutor, SubAgent } from "../../src/agent/index.ts"
import * as Approvals from "../../src/core/gates/Approvals.ts"
import type { ToolProcess } from "../../src/index.ts"
import { ToolCall, ToolExecutor } from "../../src/index.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as VirtualTime from "../../src/testing/VirtualTime.ts"
import { agentTool, endOf, events, reading, run, words } from "../support/Agents.ts"
import * as Harness from "../support/Harness.ts"

const call = (id: string, name: string, params: unknown = {}) => ({ id, name, params })
const Task = Schema.Struct({ task: Schema.String })

const child = (options: Partial<SubAgent.Options<typeof Task>> = {}) =>
  SubAgent.make("child", { description: "Works", parameters: Task, prompt: ({ task }) => task, ...options })

const works = () => Effect.as(Effect.sleep("1 second"), "worked")

/** A handler that has a call run in a process of its own. */
const having = (process: Effect.Effect<ToolProcess.ToolProcess, unknown, Scope.Scope>): Harness.ToolSpec => ({
  class: "ConcurrentMut",
  handler: () =>
    Effect.gen(function*() {
      const { outcomes } = yield* (yield* process).executeWave([ToolCall.make("inner", "asked", {})])
      return outcomes.map((it) => it._tag).join()
    }).pipe(Effect.scoped, Effect.orDie)
})

const forks = having(Effect.flatMap(ToolExecutor.fork({ name: "fork" }), (it) => it.process()))
const asked: Harness.ToolSpec = { handler: works, class: "SerialMut" }
const ask = { policy: { default: "allow", ask: ["asked"] } } as const

/** The model of the root and of those below: each makes the calls of its task, and then it is done. */
const doing = (tasks: { readonly [task: string]: ReadonlyArray<ReturnType<typeof call>> }): ScriptedModel.Answer =>
(
  { prompt }
) => {
  const said = words(prompt)
  return said.length > 1 ? { text: said.at(-1)!.replace(/^\w+ \S+ /, "") } : { calls: tasks[said[0]!.slice(6)]! }
}

const told = (all: ReadonlyArray<AgentEvent.AgentEvent>, tag: AgentEvent.AgentEvent["_tag"]) =>
  all.flatMap((it) => it._tag === tag && "callId" in it ? [[...it.agentPath, it.callId].join("/")] : [])

describe("calls that a handler has run in a fork", () => {
  const play = (limits: AgentExecutor.Options["limits"] = {}, wait: "1 second" | "10 minutes" = "1 second") =>
    run(
      { forks, asked, child: agentTool(child({ limits: { time: "1 minute" } })) },
      doing({ Go: [call("1", "child", { task: "fork" }), call("2", "forks")], fork: [call("3", "forks")] }),
      ({ agents }) =>
        Effect.gen(function*() {
          const agent = yield* agents.start({ prompt: "Go", mode: "Interactive", limits })
          const seen = yield* reading(agent, (event) =>
            event._tag !== "RequestToolApprovals" ?
              Effect.void :
              Effect.forEach(event.requests, ({ id }) =>
                Effect.sleep(wait).pipe(
                  Effect.andThen(Effect.orDie(agent.answer(id, { _tag: "ApproveOnce" })))
                ), { discard: true }))
          yield* agent.result
          yield* Effect.yieldNow
          return seen
        }),
      ask,
      Layer.orDie(Approvals.layer({ timeout: "unlimited" })) as Layer.Layer<never>
    )

  it.effect("are reported once, at any depth, and are not calls of the agent's model", () =>
    Effect.gen(function*() {
      const seen = yield* play()
      assert.sameMembers(told(seen, "ToolCallComplete"), ["1", "2", "child/3", "child/fork/inner", "fork/inner"])
      assert.sameMembers(told(seen, "ToolCallQueued"), ["1", "2", "child/3", "child/fork/inner", "fork/inner"])
      assert.sameMembers(told(seen, "ExecutingTool"), ["1", "2", "child/3"])
      assert.sameMembers(told(seen, "ToolResultReceived"), ["1", "2", "child/3"])
      assert.strictEqual(endOf(seen).text, "Succeeded")
    }), { tags: ["AG14"] })

  it.effect("are asked about in the event that a host waits for", () =>
    Effect.gen(function*() {
      const requests = (yield* play()).flatMap((it) => it._tag === "RequestToolApprovals" ? it.requests : [])
      assert.sameDeepMembers(requests.map((it) => it.agentPath), [["fork"], ["child", "fork"]])
    }))

  it.effect("take none of the agents' time while people are asked about them", () =>
    Effect.gen(function*() {
      assert.strictEqual(endOf(yield* play({ time: "1 minute" }, "10 minutes")).reason._tag, "Finished")
    }))
})

describe("a sub-agent", () => {
  it.effect("that a host calls without an agent has no less time while people are asked", () =>
    VirtualTime.run(
      Effect.gen(function*() {
        const model = yield* Effect.orDie(ScriptedModel.make(doing({ ask: [call("1", "asked")] })))
        const approvals = yield* Effect.orDie(Approvals.make())
        const tool = agentTool(child({ model: model.layer, limits: { time: "1 minute" } }))
        const { process } = yield* Harness.open({ asked, child: tool }, { ...ask, approvals })
        const answering = Effect.gen(function*() {
          yield* Effect.sleep("4 minutes")
          for (const { id } of yield* approvals.list) yield* Effect.orDie(approvals.answer(id, { _tag: "ApproveOnce" }))
        })
        yield* Effect.forkScoped(answering)
        const { toolMessages } = yield* process.executeWave([ToolCall.make("1", "child", { task: "ask" })])
        assert.deepStrictEqual(toolMessages.map((it) => it.text), ["worked"])
      }).pipe(Effect.scoped),
      { limit: "1 day" }
    ))

  it.effect("has no tools that its caller was not given, unless it is given them", () =>
    Effect.gen(function*() {
      for (const given of [undefined, ["write"]]) {
        const seen: Array<string> = []
        const noted = (name: string) => () => Effect.sync(() => (seen.push(name), name))
        const kitOf = (...names: ReadonlyArray<string>) =>
          Toolkit.make(...names.map((it) => Harness.declare(it))) as never
        const sub = child(given === undefined ? {} : { toolkit: kitOf(...given) })
        const toolkit = Toolkit.make(Harness.declare("read"), sub.tool) as never
        yield* run(
          { read: noted("read"), write: noted("write"), child: agentTool(sub) },
          doing({ Go: [call("1", "child", { task: "both" })], both: [call("2", "read"), call("3", "write")] }),
          (env) => events(env, { prompt: "Go", toolkit })
        )
        assert.deepStrictEqual(seen, given ?? ["read"])
      }
    }))
})

describe("an agent that a handler of another one runs", () => {
  it.effect("may do no more than the call that it works for, and its events come once in each stream", () => {
    const ran: Array<string> = []
    const held: { agents?: AgentExecutor.AgentExecutor["Service"] } = {}
    const runs = () =>
      Effect.orDie(Effect.map(held.agents!.run({ prompt: "write" }), (it) => words(it.history).at(-2)!))
    return VirtualTime.run(Effect.scoped(Effect.gen(function*() {
      const model = yield* Effect.orDie(ScriptedModel.make(doing({
        Go: [call("1", "child", { task: "run" })],
        run: [call("2", "runs")],
        write: [call("3", "write")]
      })))
      const write: Harness.ToolSpec = { class: "SerialMut", handler: () => Effect.sync(() => void ran.push("write")) }
      const sub = agentTool(child({ policy: { default: "allow", deny: ["write"] } }))
      const layer = AgentExecutor.layer.pipe(Layer.provide([Harness.layer({ runs, write, child: sub }), model.layer]))
      const agents = Context.get(yield* Effect.orDie(Layer.build(layer)), AgentExecutor.AgentExecutor)
      held.agents = agents
      const { end, events: all } = yield* events({ agents, model }, { prompt: "Go" })
      assert.deepStrictEqual([end.reason._tag, ran], ["Finished", []])
      assert.sameMembers(told(all, "ToolCallComplete"), ["1", "child/2", "child/3"])
      assert.sameMembers(told(all, "ToolResultReceived"), ["1", "child/2"])
      const callers = new Map(
        all.flatMap((it) => it._tag === "SubAgentStarted" ? [[it.process, it.caller.callId] as const] : [])
      )
      const calls = all.flatMap((it) => it._tag === "ToolCallQueued" ? [[it.callId, callers.get(it.process)]] : [])
      assert.sameDeepMembers(calls, [["1", undefined], ["2", "1"], ["3", "1"]])
    })))
  })
})
