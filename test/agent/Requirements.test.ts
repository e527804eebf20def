/** What rules demand at the start and before the end of an operation. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { AgentEvent, AgentExecutor } from "../../src/agent/index.ts"
import type { ToolRule } from "../../src/index.ts"
import type * as ModelTurn from "../../src/testing/ModelTurn.ts"
import type * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { events, problemsOf, reading, run, words } from "../support/Agents.ts"
import type { Handler, ToolSpec } from "../support/Harness.ts"

const call = (id: string, name: string, params: unknown = {}) => ({ id, name, params })
const done: ModelTurn.Turn = { text: "Done." }

/** Runs a script under rules, and gives what happened. */
const ended = (
  rules: ReadonlyArray<ToolRule.ToolRule>,
  script: ScriptedModel.Script,
  options: Omit<AgentExecutor.Options, "prompt"> = {},
  fails: ReadonlyArray<string> = []
) => {
  const ran: Array<string> = []
  const noted = (name: string): Handler => (params) =>
    Effect.suspend(() => {
      ran.push(`${name} ${JSON.stringify(params)}`)
      return fails.includes(name) ? Effect.fail("no") : Effect.succeed(name)
    })
  const tool = (name: string): ToolSpec => ({ handler: noted(name), class: "SerialMut" })
  const tools = {
    begin: tool("begin"),
    other: tool("other"),
    work: tool("work"),
    report: tool("report"),
    stop: tool("stop")
  }
  return run(tools, script, (env) =>
    Effect.gen(function*() {
      const { end, events: all } = yield* events(env, { prompt: "Go", ...options })
      assert.deepStrictEqual(problemsOf(end.history), [])
      return { ...end, ran, reminded: reminded(all), requests: yield* env.model.requests, said: words(end.history) }
    }), { rules })
}

const reminded = (all: ReadonlyArray<AgentEvent.AgentEvent>) =>
  all.flatMap((it) => it._tag === "Reminded" ? [[it.about, ...it.tools]] : [])

const start: ToolRule.ToolRule = { _tag: "StartConstraint", tool: "begin" }
const exit: ToolRule.ToolRule = { _tag: "RequiredBeforeExit", tool: "report" }
const loopEnd: ToolRule.ToolRule = { _tag: "ExitLoop", tool: "stop" }

describe("a tool that is demanded before the end", () => {
  it.effect("is what the model is reminded of when it thinks that it is done", () =>
    Effect.gen(function*() {
      const { ran, reason, reminded, said } = yield* ended([exit], [done, { calls: [call("1", "report")] }, done])
      assert.deepStrictEqual([reason._tag, ran], ["Finished", ["report {}"]])
      assert.deepStrictEqual(reminded, [["exit", "report"]])
      assert.match(said[2]!, /^user: You are not done\. .*"report"/)
    }))

  it.effect(
    "is called by the host, with its arguments, when the model was reminded twice",
    () =>
      Effect.gen(function*() {
        const { ran, reason, reminded, requests, said } = yield* ended([exit], () => done, {
          exit: { report: { to: "them" } }
        })
        assert.deepStrictEqual([reason._tag, ran], ["Finished", ["report {\"to\":\"them\"}"]])
        assert.deepStrictEqual(reminded, [["exit", "report"], ["exit", "report"]])
        assert.strictEqual(requests.length, 4)
        assert.match(said.at(-2)!, /^user: The host called "report": report/)
      }),
    { tags: ["AG10"] }
  )

  it.effect("that the host calls in vain is the end, and is named", () =>
    Effect.gen(function*() {
      const { ran, reason, requests } = yield* ended([exit], () => done, {}, ["report"])
      assert.deepStrictEqual(reason, { _tag: "RequirementUnmet", when: "exit", tools: ["report"] })
      assert.deepStrictEqual([ran.length, requests.length], [1, 3])
    }))

  it.effect("is demanded also where a tool ends the loop", () =>
    Effect.gen(function*() {
      const script = [{ calls: [call("1", "stop")] }, { calls: [call("2", "report")] }, done]
      const { ran, reason } = yield* ended([exit, loopEnd], script)
      assert.deepStrictEqual(ran, ["stop {}", "report {}"])
      assert.strictEqual(reason._tag, "Exited")
    }))

  it.effect("is not demanded of an operation that is cancelled or at a bound", () =>
    Effect.gen(function*() {
      const { ran, reason } = yield* ended([exit], ({ turn }) => ({ calls: [call("", "work", { turn })] }), {
        limits: { turns: 2 }
      })
      assert.deepStrictEqual([reason._tag, ran.length], ["LimitReached", 2])
    }))
})

describe("a tool that is demanded at the start", () => {
  it.effect("is what the model is told of when it calls another one", () =>
    Effect.gen(function*() {
      const script = [
        { calls: [call("1", "work")] },
        { calls: [call("2", "begin")] },
        { calls: [call("3", "work")] },
        done
      ]
      const { ran, reason, said } = yield* ended([start], script, { toolChoice: "auto" })
      assert.deepStrictEqual([reason._tag, ran], ["Finished", ["begin {}", "work {}"]])
      assert.match(said[2]!, /^error 1: .*"begin"/)
    }))

  it.effect("is forced by the rules, or left to the model", () =>
    Effect.gen(function*() {
      const script = [{ calls: [call("1", "begin")] }, done]
      const forced = yield* ended([start], script)
      assert.deepStrictEqual(forced.requests.map((it) => JSON.stringify(it.toolChoice)), [
        JSON.stringify({ mode: "required", oneOf: ["begin"] }),
        "\"auto\""
      ])
      const free = yield* ended([start], script, { toolChoice: "auto" })
      assert.deepStrictEqual(free.requests.map((it) => it.toolChoice), ["auto", "auto"])
    }))

  it.effect("is called by the host when the model continues with others", () =>
    Effect.gen(function*() {
      const script: ScriptedModel.Script = ({ turn }) => turn < 4 ? { calls: [call("", "work", { turn })] } : done
      const { ran, reason, said } = yield* ended([start], script, { start: { begin: { by: "host" } } })
      assert.strictEqual(reason._tag, "Finished")
      assert.deepStrictEqual(ran.slice(0, 2), ["begin {\"by\":\"host\"}", "work {\"turn\":3}"])
      assert.isTrue(said.some((it) => it.startsWith("user: The host called \"begin\":")))
    }), { tags: ["AG10"] })

  it.effect("is called by the host when the model says that it is done without it", () =>
    Effect.gen(function*() {
      const { ran, reason, reminded } = yield* ended([start], () => done)
      assert.deepStrictEqual([reason._tag, ran], ["Finished", ["begin {}"]])
      assert.deepStrictEqual(reminded, [["start", "begin"], ["start", "begin"]])
    }))

  it.effect("that the host calls in vain is the end, and is named", () =>
    Effect.gen(function*() {
      const { reason } = yield* ended([start], () => done, {}, ["begin"])
      assert.deepStrictEqual(reason, { _tag: "RequirementUnmet", when: "start", tools: ["begin"] })
    }))
})

describe("a tool that ends the loop", () => {
  it.effect("is the end, and its result is in the history", () =>
    Effect.gen(function*() {
      const { reason, requests, said } = yield* ended([loopEnd], [{ calls: [call("1", "work"), call("2", "stop")] }])
      assert.deepStrictEqual([reason._tag, requests.length], ["Exited", 1])
      assert.strictEqual(said.at(-1), "result 2: stop")
    }))

  it.effect("that fails is none", () =>
    Effect.gen(function*() {
      const { reason, requests } = yield* ended([loopEnd], [{ calls: [call("1", "stop")] }, done], {}, ["stop"])
      assert.deepStrictEqual([reason._tag, requests.length], ["Finished", 2])
    }))
})

describe("an agent that is cancelled while the host calls what is demanded", () => {
  it.effect("was cancelled, and met no requirement", () =>
    run(
      { report: { handler: () => Effect.sleep("1 minute"), class: "SerialMut" } },
      () => done,
      ({ agents }) =>
        Effect.gen(function*() {
          const agent = yield* agents.start({ prompt: "Go" })
          const seen = yield* reading(agent)
          yield* Effect.sleep("10 seconds")
          assert.strictEqual(seen.filter((it) => it._tag === "ExecutingTool").length, 1)
          yield* agent.cancel("enough")
          const end = yield* agent.result
          assert.deepStrictEqual([end.reason, end.at], [{ _tag: "Cancelled", reason: "enough" }, 10_000])
          assert.deepStrictEqual(problemsOf(end.history), [])
        }),
      { rules: [exit] }
    ))
})

describe("heartbeats", () => {
  const heart = (id: string, name: string, beats: boolean) => call(id, name, { id, request_heartbeat: beats })

  it.effect("a turn without one is the last, unless somebody has said something", () =>
    run(
      { work: () => Effect.as(Effect.sleep("1 second"), "done") },
      [{ calls: [heart("1", "work", true)] }, { calls: [heart("2", "work", false)] }, done],
      ({ agents, model }) =>
        Effect.gen(function*() {
          const first = yield* agents.run({ prompt: "Go" })
          assert.deepStrictEqual([first.reason._tag, first.turns], ["Finished", 2])
          const agent = yield* agents.start({ prompt: "Go" })
          assert.strictEqual((yield* model.requests).length, 3)
          yield* agent.result
        }),
      { heartbeats: true }
    ))

  it.effect("with `perHeartbeat` each begins a process with its own order of rules", () =>
    Effect.gen(function*() {
      const play = (perHeartbeat: boolean) =>
        run(
          { begin: () => Effect.succeed("begun"), work: () => Effect.succeed("done") },
          [
            { calls: [heart("1", "begin", true)] },
            { calls: [heart("2", "work", true)] },
            { calls: [heart("3", "begin", true)] },
            { calls: [heart("4", "work", false)] }
          ],
          (env) =>
            Effect.gen(function*() {
              const { end, events: all } = yield* events(env, { prompt: "Go", perHeartbeat, toolChoice: "auto" })
              const processes = all.flatMap((it) => it._tag === "ToolCallQueued" ? [it.process] : [])
              return { end, processes: new Set(processes).size, said: words(end.history) }
            }),
          { heartbeats: true, rules: [start], dedupe: false }
        )
      const one = yield* play(false)
      assert.deepStrictEqual([one.processes, one.end.reason._tag], [1, "Finished"])
      assert.isTrue(one.said.includes("result 2: done"))
      const each = yield* play(true)
      assert.isTrue(each.said.some((it) => /^error 2: .*"begin"/.test(it)))
      assert.isAbove(each.processes, 1)
    }))
})
