/** What an operation is given, and what its readers see of it. */
import { assert, describe, it } from "@effect/vitest"
import * as Toolkit from "effect/ai/Toolkit"
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as AgentEvent from "../../src/agent/AgentEvent.ts"
import type { ConfigurationError } from "../../src/core/vocabulary/ConfigurationError.ts"
import { ToolContext } from "../../src/index.ts"
import type * as ModelTurn from "../../src/testing/ModelTurn.ts"
import { events, run, tagsOf, words } from "../support/Agents.ts"
import * as Harness from "../support/Harness.ts"

const call = (id: string, name: string, params: unknown = {}) => ({ id, name, params })
const done: ModelTurn.Turn = { text: "Done." }

describe("an operation", () => {
  it.effect("has the tools that it is given, and no others whatever its model calls", () => {
    const ran: Array<string> = []
    const noted = (name: string) => () => Effect.sync(() => (ran.push(name), name))
    const toolkit = Toolkit.make(Harness.declare("read")) as never
    const script = [{ calls: [call("1", "write"), call("2", "read")] }, done]
    return run({ read: noted("read"), write: noted("write") }, script, (env) =>
      Effect.gen(function*() {
        const { end } = yield* events(env, { prompt: "Go", toolkit })
        assert.deepStrictEqual(ran, ["read"])
        const [first] = yield* env.model.requests
        assert.deepStrictEqual(first!.tools, ["read"])
        // it is told of those that it has
        assert.match(words(end.history)[3]!, /^error 1: .*read/)
      }))
  })

  it.effect("has metadata of its own, for its handlers", () => {
    const seen: Array<unknown> = []
    const read = () => Effect.map(ToolContext.ToolContext, ({ meta }) => void seen.push(meta))
    return run(
      { read },
      ({ prompt }) => words(prompt).length > 1 ? done : { calls: [call("1", "read")] },
      ({ agents }) =>
        Effect.gen(function*() {
          const both = ["ann", "bob"].map((user) => agents.run({ prompt: "Go", meta: { user } }))
          yield* Effect.all(both, { concurrency: "unbounded" })
          assert.sameDeepMembers(seen, [{ user: "ann" }, { user: "bob" }])
        })
    )
  })

  it.effect("counts with others of its batch", () =>
    run(
      { read: () => Effect.as(Effect.sleep("1 second"), "text") },
      ({ prompt, turn }) => words(prompt).length > 1 ? done : { calls: [call("1", "read", { turn })] },
      ({ agents }) =>
        Effect.gen(function*() {
          const all = (batches: ReadonlyArray<string | undefined>) =>
            Effect.map(
              Effect.all(batches.map((batch) => agents.run({ prompt: "Go", batch })), { concurrency: "unbounded" }),
              (ends) => ends.map(({ history }) => words(history)[2]!.split(" ")[0])
            )
          assert.deepStrictEqual(yield* all(["b", "b", "c"]), ["result", "error", "result"])
          assert.deepStrictEqual(yield* all([undefined, undefined]), ["result", "result"])
        }),
      { rules: [{ _tag: "MaxCalls", tool: "read", max: 1 }], dedupe: false }
    ))

  it.effect("names every option that is wrong, and asks nobody", () =>
    run({}, [], ({ agents, model }) =>
      Effect.gen(function*() {
        const wrong = { prompt: "Go", mode: "Loud", retries: -1, toolChoice: "none", limits: { turns: 0 }, session: "" }
        const error = (yield* Effect.flip(agents.run(wrong as never))) as ConfigurationError
        assert.includeMembers(error.problems.map((it) => it.path), ["mode", "retries", "toolChoice", "limits.turns"])
        const misspelt = { prompt: "Go", mod: "Automatic", limits: { turn: 3 } }
        const none = (yield* Effect.flip(agents.run(misspelt as never))) as ConfigurationError
        assert.deepStrictEqual(none.problems.map((it) => it.path), ["mod", "limits.turn"])
        assert.include(none.message, "did you mean \"turns\"?")
        const odd = { prompt: "Go", limits: null, meta: 5, start: "x", exit: 1, toolkit: null, model: 5, system: 5 }
        const second = (yield* Effect.flip(agents.run(odd as never))) as ConfigurationError
        assert.deepStrictEqual(second.problems.map((it) => it.path).toSorted(), Object.keys(odd).slice(1).toSorted())
        const toolkit = Toolkit.make(Harness.declare("nope")) as never
        const unknown = (yield* Effect.flip(agents.run({ prompt: "Go", toolkit }))) as ConfigurationError
        assert.include(unknown.message, "nope")
        assert.strictEqual((yield* model.requests).length, 0)
      })))

  it.effect("without tools is a conversation", () =>
    run({}, [{ text: "Hello." }], (env) =>
      Effect.gen(function*() {
        const { end, events: all } = yield* events(env, { prompt: "Hi", system: "Be kind." })
        assert.deepStrictEqual(words(end.history), ["user: Hi", "assistant: Hello."])
        assert.deepStrictEqual(words((yield* env.model.requests)[0]!.prompt), ["system: Be kind.", "user: Hi"])
        assert.deepStrictEqual(tagsOf(all).slice(-2), ["AssistantMessageFinal", "OperationEnd"])
      })))

  it.effect("runs beside others, and each has its own events", () =>
    run(
      { read: () => Effect.as(Effect.sleep("1 second"), "text") },
      ({ prompt }) => words(prompt).length > 1 ? { text: `to ${words(prompt)[0]}` } : { calls: [call("1", "read")] },
      (env) =>
        Effect.gen(function*() {
          const all = yield* Effect.forEach([1, 2, 3, 4, 5], (n) => events(env, { prompt: `${n}` }), {
            concurrency: "unbounded"
          })
          for (const [index, { end, events: its }] of all.entries()) {
            assert.strictEqual(end.text, `to user: ${index + 1}`)
            const operations = new Set(its.flatMap((it) => "operation" in it ? [it.operation] : []))
            const processes = new Set(its.flatMap((it) => "process" in it ? [it.process] : []))
            assert.deepStrictEqual([operations.size, processes.size], [1, 1])
          }
          assert.strictEqual(new Set(all.map(({ end }) => end.operation)).size, 5)
        })
    ))
})

describe("the events of an operation", () => {
  const tools = { read: () => Effect.as(Effect.sleep("1 second"), "text") }
  const script = [{ text: "I look.", calls: [call("1", "read"), call("2", "read", { n: 2 })] }, done]

  it.effect("are there from the beginning for a reader that comes late", () =>
    run(tools, script, ({ agents }) =>
      Effect.gen(function*() {
        const agent = yield* agents.start({ prompt: "Go" })
        yield* agent.result
        yield* Effect.sleep("1 hour")
        const all = yield* Stream.runCollect(agent.events)
        assert.strictEqual(all[0]?._tag, "AssistantMessagePart")
        assert.strictEqual(all.at(-1)?._tag, "OperationEnd")
        assert.strictEqual(all.filter((it) => it._tag === "ToolCallComplete").length, 2)
      })))

  it.effect("say which turn they belong to, and when it was", () =>
    run(tools, script, (env) =>
      Effect.gen(function*() {
        const { events: all } = yield* events(env, { prompt: "Go" })
        const own = all.filter(AgentEvent.isOwn)
        const turns = own.map((it) => it.turn)
        assert.deepStrictEqual(turns, turns.toSorted())
        assert.deepStrictEqual(new Set(turns), new Set([1, 2]))
        const times = all.map((it) => it.at)
        assert.deepStrictEqual(times, times.toSorted((a, b) => a - b))
        assert.deepStrictEqual(own.filter((it) => it._tag === "ToolResultReceived").map((it) => it.at), [1_000, 1_000])
      })))

  it.effect("each have a form for clients, as plain JSON", () =>
    run(tools, [...script.slice(0, 1), { fails: "busy" }, done], (env) =>
      Effect.gen(function*() {
        const { events: all } = yield* events(env, { prompt: "Go" })
        assert.include(tagsOf(all), "ModelRetry")
        const wire = Arr.filterMap(all, AgentEvent.toWire)
        assert.isAbove(wire.length, 10)
        const decoded = Schema.decodeUnknownSync(Schema.Array(AgentEvent.Wire))(JSON.parse(JSON.stringify(wire)))
        assert.deepStrictEqual(decoded, wire)
      })))

  it.effect("are no more than a reader can be behind, and none of those that matter is missing", () =>
    run({}, [{ text: Array.from({ length: 20_000 }, () => "a ") }], ({ agents }) =>
      Effect.gen(function*() {
        const agent = yield* agents.start({ prompt: "Go" })
        const { text } = yield* agent.result
        const all = yield* Stream.runCollect(agent.events)
        assert.isBelow(all.length, 10_010)
        assert.deepStrictEqual(all.slice(-2).map((it) => it._tag), ["AssistantMessageFinal", "OperationEnd"])
        assert.strictEqual(text.length, 40_000)
      })))

  it.effect("change nothing where nobody reads them", () =>
    run(tools, [...script, ...script], (env) =>
      Effect.gen(function*() {
        const { end } = yield* events(env, { prompt: "Go" })
        const unread = yield* env.agents.run({ prompt: "Go" })
        assert.deepStrictEqual(words(unread.history), words(end.history))
        assert.deepStrictEqual([unread.turns, unread.calls, unread.at], [end.turns, end.calls, end.at + 1_000])
      })))
})
