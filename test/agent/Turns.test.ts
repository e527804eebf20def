/** One turn of a model: what runs of it, what is kept, and what is tried again. */
import { assert, describe, it } from "@effect/vitest"
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { AgentExecutor } from "../../src/agent/index.ts"
import type * as ModelTurn from "../../src/testing/ModelTurn.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import { type Env, events, problemsOf, run, tagsOf, words } from "../support/Agents.ts"

const call = (id: string, name: string, params: unknown = {}) => ({ id, name, params })
const done: ModelTurn.Turn = { text: "Done." }
const finish = (reason: string) =>
  ({ type: "finish", reason, usage: { inputTokens: {}, outputTokens: {} } }) as never as ModelTurn.Turn["parts"] extends
    ReadonlyArray<infer A> | undefined ? A : never

const world = () => {
  const ran: Array<string> = []
  const noted = (name: string) => (params: unknown) =>
    Effect.sync(() => (ran.push(`${name} ${JSON.stringify(params)}`), name))
  return { ran, tools: { read: noted("read"), write: noted("write") } }
}

/** Runs a script over two tools and gives what happened. */
const ended = (script: ScriptedModel.Script, { retries, toolkit }: Omit<AgentExecutor.Options, "prompt"> = {}) => {
  const { ran, tools } = world()
  return run(tools, script, (env: Env) =>
    Effect.gen(function*() {
      const { end, events: all } = yield* events(env, { prompt: "Go", retries, toolkit })
      yield* Effect.sleep("1 hour")
      assert.deepStrictEqual(problemsOf(end.history), [])
      return { ...end, events: all, ran, requests: yield* env.model.requests, said: words(end.history) }
    }))
}

describe("a turn of a model", () => {
  const whole = { text: "I look.", calls: [call("1", "read")] }

  it.effect("that breaks off runs nothing, wherever it does, and keeps the text", () =>
    Effect.gen(function*() {
      for (let cutAfter = 0; cutAfter <= 9; cutAfter++) {
        const { ran, reason, said } = yield* ended([{ ...whole, cutAfter }])
        assert.deepStrictEqual([reason._tag, ran], ["ModelFailed", []])
        assert.notInclude(said.join(), "calls")
        assert.strictEqual(said[1], cutAfter < 2 ? undefined : cutAfter === 2 ? "assistant: I" : "assistant: I look.")
      }
    }), { tags: ["AG1"] })

  it.effect("that fails, dies or falls silent after its call runs nothing", () =>
    Effect.gen(function*() {
      for (const how of [{ fails: "broken" }, { dies: "broken" }] as const) {
        const { ran, reason, said } = yield* ended([{ ...whole, ...how, cutAfter: 9 }])
        assert.deepStrictEqual([reason._tag, ran], ["ModelFailed", []])
        assert.deepStrictEqual(said, ["user: Go", "assistant: I look."])
        assert.include(reason._tag === "ModelFailed" ? reason.message : "", "broken")
      }
    }))

  it.effect("without a proven end runs nothing, and may be tried again", () =>
    Effect.gen(function*() {
      for (const broken of [{ finish: "error" }, { finish: "unknown" }, { cutAfter: 8 }] as const) {
        const { ran, reason, requests, said } = yield* ended([{ ...whole, ...broken }])
        assert.deepStrictEqual([reason._tag, ran, requests.length], ["ModelFailed", [], 1])
        assert.isTrue(reason._tag === "ModelFailed" && reason.error?.isRetryable)
        assert.deepStrictEqual(said, ["user: Go", "assistant: I look."])
      }
    }), { tags: ["AG1"] })

  it.effect(
    "without a proven end is tried again where no text of it has come, and costs what it has cost",
    () =>
      Effect.gen(function*() {
        for (const broken of [{ finish: "error" }, { finish: "unknown" }] as const) {
          const silent = { reasoning: "Hm.", calls: whole.calls, usage: { input: 10, output: 5 }, ...broken }
          const { ran, reason, requests, text, usage } = yield* ended([silent, silent, done])
          assert.deepStrictEqual([reason._tag, text, ran, requests.length], ["Finished", "Done.", [], 3])
          assert.deepStrictEqual([usage.inputTokens, usage.outputTokens], [20, 10])
        }
      }),
    { tags: ["AG1"] }
  )

  it.effect("that is empty and has no end is tried again, and then has failed", () =>
    Effect.gen(function*() {
      const { reason, requests, said } = yield* ended([{ cutAfter: 0 }, { cutAfter: 0 }, { cutAfter: 0 }])
      assert.deepStrictEqual([reason._tag, requests.length, said], ["ModelFailed", 3, ["user: Go"]])
    }))

  it.effect("that has a part with an error runs nothing", () =>
    Effect.gen(function*() {
      const parts = [{ type: "error", error: "overloaded" }, finish("stop")] as never
      const { ran, reason } = yield* ended([{ ...whole, parts }])
      assert.deepStrictEqual([reason._tag, ran], ["ModelFailed", []])
    }))

  it.effect("that was cut off runs none of its calls, tells the model why, and goes on", () =>
    Effect.gen(function*() {
      for (const reason of ["length", "content-filter"] as const) {
        const { events: all, ran, reason: end, said, text } = yield* ended([{ ...whole, finish: reason }, done])
        assert.deepStrictEqual([end._tag, ran, text], ["Finished", [], "Done."])
        assert.match(said[3]!, /^error 1: .*cut off/s)
        const outcomes = all.flatMap((it) => it._tag === "ToolResultReceived" ? [it.outcome._tag] : [])
        assert.deepStrictEqual(outcomes, ["Cancelled"])
        assert.notInclude(tagsOf(all), "ExecutingTool")
      }
    }), { tags: ["AG1"] })

  it.effect("that was cut off and has no call is the end, and says so", () =>
    Effect.gen(function*() {
      const { reason, said } = yield* ended([{ text: "I was about to", finish: "length" }])
      assert.deepStrictEqual(reason, { _tag: "CutOff", finish: "length" })
      assert.deepStrictEqual(said, ["user: Go", "assistant: I was about to"])
    }))

  it.effect("runs its calls whatever else its finish says", () =>
    Effect.gen(function*() {
      for (const reason of ["stop", "tool-calls", "other"] as const) {
        const { ran, reason: end } = yield* ended([{ ...whole, finish: reason }, done])
        assert.deepStrictEqual([end._tag, ran], ["Finished", ["read {}"]])
      }
    }))

  it.effect("without calls is the end, also if it says that it has made some", () =>
    Effect.gen(function*() {
      const { reason, requests } = yield* ended([{ text: "Done.", finish: "tool-calls" }])
      assert.deepStrictEqual([reason._tag, requests.length], ["Finished", 1])
    }))

  it.effect("that pauses goes on, and nobody has to say anything", () =>
    Effect.gen(function*() {
      const { reason, said } = yield* ended([{ text: "Wait.", finish: "pause" }, done])
      assert.strictEqual(reason._tag, "Finished")
      assert.deepStrictEqual(said, ["user: Go", "assistant: Wait.", "assistant: Done."])
    }))

  it.effect("refuses a call whose arguments are no JSON, and of its siblings each has its own outcome", () =>
    Effect.gen(function*() {
      const calls = [call("1", "read", "{\"path\": \"a"), call("2", "write", { n: 1 }), call("3", "nope")]
      const { ran, said } = yield* ended([{ calls }, done])
      assert.deepStrictEqual(ran, ["write {\"n\":1}"])
      assert.match(said[4]!, /^error 1: /)
      assert.match(said[5]!, /^result 2: /)
      assert.match(said[6]!, /^error 3: .*nope/)
    }))

  it.effect("whose calls have the same id, or none, has one answer to each", () =>
    Effect.gen(function*() {
      const same = [call("x", "read", { n: 1 }), call("x", "read", { n: 2 }), call("", "read", { n: 3 })]
      const { ran, said } = yield* ended([{ calls: same }, { calls: [call("x", "read", { n: 4 })] }, done])
      assert.strictEqual(ran.length, 4)
      const ids = said.filter((it) => it.startsWith("calls")).map((it) => it.split(" ")[2])
      assert.strictEqual(new Set(ids).size, 4)
      assert.notInclude(ids, "")
      // Mistral takes no others
      for (const id of ids) if (id !== "x") assert.match(id!, /^[a-zA-Z0-9]{9}$/)
    }))

  it.effect("leaves alone what its provider has run itself", () =>
    Effect.gen(function*() {
      const search = Tool.providerDefined({
        id: "test.search",
        customName: "search",
        providerName: "search",
        parameters: Schema.Struct({ q: Schema.String }),
        success: Schema.String
      })(undefined)
      const about = { id: "s", name: "search", providerExecuted: true }
      const parts = [
        { type: "tool-call", ...about, params: { q: "x" } },
        { type: "tool-result", ...about, isFailure: false, result: "found" }
      ] as never
      const toolkit = Toolkit.make(search)
      const { events: all, reason, requests } = yield* ended([{ parts, text: "Found." }], { toolkit })
      assert.deepStrictEqual([reason._tag, requests.length], ["Finished", 1])
      assert.notInclude(tagsOf(all), "ToolCallQueued")
    }))
})

describe("a call that a provider was to execute", () => {
  const search = Tool.providerDefined({
    id: "test.search",
    customName: "search",
    providerName: "search",
    parameters: Schema.Unknown,
    success: Schema.Unknown
  })(undefined as never)
  const called = { type: "tool-call", id: "s", name: "search", providerExecuted: true, params: {} }
  const toolkit = Toolkit.make(search)

  it.effect("and has not does not end a turn: nothing of it is kept but the text", () =>
    Effect.gen(function*() {
      const { reason, requests, said } = yield* ended([{ text: "I look.", parts: [called] as never }], { toolkit })
      assert.deepStrictEqual([reason._tag, requests.length], ["ModelFailed", 1])
      assert.isTrue(reason._tag === "ModelFailed" && reason.error?.isRetryable)
      assert.include(reason._tag === "ModelFailed" ? reason.message : "", "no result for its own call of \"search\"")
      assert.deepStrictEqual(said, ["user: Go", "assistant: I look."])
    }), { tags: ["AG4"] })

  it.effect("and may still execute goes back to it, and the turn goes on", () =>
    Effect.gen(function*() {
      const result = { ...called, type: "tool-result", isFailure: false, result: "found" }
      const { reason, requests, text } = yield* ended([
        { parts: [called] as never, finish: "pause" },
        { parts: [result] as never, text: "Found." }
      ], { toolkit })
      assert.deepStrictEqual([reason._tag, text], ["Finished", "Found."])
      assert.deepStrictEqual(words(requests[1]!.prompt), ["user: Go", "calls search s"])
    }))
})

describe("a request that fails", () => {
  const limited = (after?: Duration.Input) =>
    AiError.make({
      module: "Test",
      method: "streamText",
      reason: new AiError.RateLimitError(after === undefined ? {} : { retryAfter: Duration.fromInputUnsafe(after) })
    })

  it.effect("is tried again after the time that the provider says", () =>
    Effect.gen(function*() {
      const { at, events: all, reason, requests, turns } = yield* ended([{ fails: limited("7 seconds") }, done])
      assert.deepStrictEqual([reason._tag, at, requests.length, turns], ["Finished", 7_000, 2, 1])
      const retries = all.flatMap((it) => it._tag === "ModelRetry" ? [it.afterMillis] : [])
      assert.deepStrictEqual(retries, [7_000])
    }))

  it.effect("is tried again twice, each time after a longer while, and then is the end", () =>
    Effect.gen(function*() {
      const { at, reason, requests } = yield* ended(() => ({ fails: limited() }))
      assert.deepStrictEqual([reason._tag, at, requests.length], ["ModelFailed", 3_000, 3])
      assert.strictEqual((yield* ended(() => ({ fails: limited() }), { retries: 0 })).requests.length, 1)
    }))

  it.effect("is not tried again where the provider wants a long rest, or where another try is no use", () =>
    Effect.gen(function*() {
      assert.strictEqual((yield* ended(() => ({ fails: limited("1 hour") }))).requests.length, 1)
      const wrong = AiError.make({
        module: "Test",
        method: "streamText",
        reason: new AiError.AuthenticationError({ kind: "InvalidKey" })
      })
      const { reason, requests } = yield* ended(() => ({ fails: wrong }))
      assert.strictEqual(requests.length, 1)
      assert.strictEqual(reason._tag === "ModelFailed" && reason.error, wrong)
    }))

  it.effect("is tried again where nothing but the name of the answer has come", () =>
    Effect.gen(function*() {
      const head = { type: "response-metadata", id: "r1", modelId: "m" } as const
      const { reason, requests } = yield* ended([{ parts: [head], cutAfter: 1, fails: limited() }, done])
      assert.deepStrictEqual([reason._tag, requests.length], ["Finished", 2])
    }))

  it.effect("is not tried again once some of its answer has come", () =>
    Effect.gen(function*() {
      const { reason, requests, said } = yield* ended([{ text: "I look.", cutAfter: 2, fails: limited() }, done])
      assert.deepStrictEqual([reason._tag, requests.length], ["ModelFailed", 1])
      assert.deepStrictEqual(said, ["user: Go", "assistant: I"])
    }))
})

describe("the model of an operation", () => {
  it.effect("is the one that it is given", () =>
    run({}, [{ text: "around" }], ({ agents, model }) =>
      Effect.gen(function*() {
        const other = yield* Effect.orDie(ScriptedModel.make([{ text: "own" }], { provider: "p", model: "m" }))
        assert.strictEqual((yield* agents.run({ prompt: "Go", model: other.layer })).text, "own")
        assert.strictEqual((yield* model.requests).length, 0)
        assert.strictEqual((yield* agents.run({ prompt: "Go" })).text, "around")
      })))

  it.effect("whose layer fails fails before anything has run", () =>
    run({}, [], ({ agents }) =>
      Effect.gen(function*() {
        const broken = Layer.effect(LanguageModel.LanguageModel, Effect.fail("no key" as const))
        assert.strictEqual(yield* Effect.flip(agents.run({ prompt: "Go", model: broken })), "no key")
        const stream = Stream.runCollect(agents.runOperation({ prompt: "Go", model: broken }))
        assert.strictEqual(yield* Effect.flip(stream), "no key")
      })))

  it.effect("that throws when it is asked is a failed model", () =>
    Effect.gen(function*() {
      const service = {
        streamText: () => {
          throw new Error("broken")
        }
      }
      const thrower = Layer.succeed(LanguageModel.LanguageModel, service as never)
      const end = yield* run({}, [], ({ agents }) => agents.run({ prompt: "Go", model: thrower }))
      assert.strictEqual(end.reason._tag, "ModelFailed")
      assert.deepStrictEqual(words(end.history), ["user: Go"])
    }))
})
