/** What is said to an agent while it works, and how it is stopped. */
import { assert, describe, it } from "@effect/vitest"
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Response from "effect/ai/Response"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { AgentEvent } from "../../src/agent/index.ts"
import type { Approvals } from "../../src/index.ts"
import type * as ModelTurn from "../../src/testing/ModelTurn.ts"
import { problemsOf, reading, run, tagsOf, words } from "../support/Agents.ts"
import type { Handler } from "../support/Harness.ts"

const call = (id: string, name: string, params: unknown = {}) => ({ id, name, params })

/** Tools that say that they ran, one of which takes ten seconds and one of which hears nothing. */
const tools = () => {
  const ran: Array<string> = []
  const noted = (name: string, rest: Effect.Effect<unknown>): Handler => () =>
    Effect.andThen(Effect.sync(() => void ran.push(name)), rest)
  return {
    ran,
    tools: {
      quick: noted("quick", Effect.succeed("quick")),
      slow: noted("slow", Effect.as(Effect.sleep("10 seconds"), "slow")),
      deaf: noted("deaf", Effect.uninterruptible(Effect.as(Effect.sleep("1 hour"), "deaf")))
    }
  }
}

const done: ModelTurn.Turn = { text: "Done." }

describe("a message to an agent", () => {
  it.effect(
    "while a call runs is shown as queued, and heard before the model's next turn",
    () =>
      run(tools().tools, [{ calls: [call("1", "slow")] }, done], ({ agents, model }) =>
        Effect.gen(function*() {
          const agent = yield* agents.start({ prompt: "Go" })
          const seen = yield* reading(agent)
          yield* Effect.sleep("1 second")
          assert.isTrue(yield* agent.say("And hurry"))
          yield* Effect.sleep("1 second")
          assert.strictEqual(tagsOf(seen).at(-1), "MessageQueued")
          const end = yield* agent.result
          yield* Effect.sleep("1 millis")
          assert.deepStrictEqual(words(end.history), [
            "user: Go",
            "calls slow 1",
            "result 1: slow",
            "user: And hurry",
            "assistant: Done."
          ])
          assert.include(words((yield* model.requests)[1]!.prompt), "user: And hurry")
          const about = seen.filter((it) => it._tag === "MessageQueued" || it._tag === "MessageTaken")
          assert.deepStrictEqual(about.map((it) => [it._tag, it.text]), [
            ["MessageQueued", "And hurry"],
            ["MessageTaken", "And hurry"]
          ])
          assert.strictEqual(about[0]!.id, about[1]!.id)
        })),
    { tags: ["AG9"] }
  )

  it.effect("several times comes in the order in which it was said", () =>
    run(tools().tools, [{ calls: [call("1", "slow")] }, done], ({ agents }) =>
      Effect.gen(function*() {
        const agent = yield* agents.start({ prompt: "Go" })
        yield* Effect.sleep("1 second")
        for (const text of ["one", "two", "three"]) yield* agent.say(text)
        const said = words((yield* agent.result).history).filter((it) => it.startsWith("user"))
        assert.deepStrictEqual(said, ["user: Go", "user: one", "user: two", "user: three"])
      })))

  it.effect("while the model says its last word is heard all the same", () =>
    run(
      {},
      [{ text: "Done.", takes: "5 seconds" }, { text: "That, too." }],
      ({ agents, model }) =>
        Effect.gen(function*() {
          const agent = yield* agents.start({ prompt: "Go" })
          yield* Effect.sleep("1 second")
          yield* agent.say("One more thing")
          const end = yield* agent.result
          assert.strictEqual(end.text, "That, too.")
          assert.strictEqual((yield* model.requests).length, 2)
          assert.isFalse(yield* agent.say("Hello?"))
          assert.strictEqual(end.reason._tag, "Finished")
        })
    ))

  it.effect("when it can go on no more is in the history for whoever goes on", () =>
    run(tools().tools, [{ calls: [call("1", "slow")] }], ({ agents }) =>
      Effect.gen(function*() {
        const agent = yield* agents.start({ prompt: "Go", limits: { turns: 1 } })
        yield* Effect.sleep("1 second")
        yield* agent.say("Too late")
        const end = yield* agent.result
        assert.strictEqual(end.reason._tag, "LimitReached")
        assert.strictEqual(words(end.history).at(-1), "user: Too late")
        assert.deepStrictEqual(problemsOf(end.history), [])
      })))

  it.effect("with `settle` answers what people are asked with no, and is heard immediately", () =>
    run(
      tools().tools,
      [{ calls: [call("1", "quick"), call("2", "slow")] }, done],
      ({ agents }) =>
        Effect.gen(function*() {
          const agent = yield* agents.start({ prompt: "Go", mode: "Interactive" })
          yield* Effect.sleep("1 second")
          assert.strictEqual((yield* agent.pending).length, 2)
          yield* agent.say("Something else", { settle: true })
          assert.deepStrictEqual(yield* agent.pending, [])
          const end = yield* agent.result
          assert.strictEqual(end.at, 1_000)
          const said = words(end.history)
          assert.match(said[3]!, /^error 1: .*a new message was sent instead/s)
          assert.match(said[4]!, /^error 2: .*a new message was sent instead/s)
          assert.deepStrictEqual(said.slice(5), ["user: Something else", "assistant: Done."])
        }),
      { policy: { default: "ask" } }
    ), { tags: ["AG9"] })

  it.effect("with `settle` asks nobody before it is heard, and asks again after it", () =>
    run(
      tools().tools,
      [
        { calls: [call("1", "quick")], takes: "1 second" },
        { calls: [call("2", "quick")] },
        done
      ],
      ({ agents }) =>
        Effect.gen(function*() {
          const agent = yield* agents.start({ prompt: "Go", mode: "Interactive" })
          yield* Effect.sleep("500 millis")
          yield* agent.say("Something else", { settle: true })
          yield* Effect.sleep("1 second")
          const [question] = yield* agent.pending
          assert.strictEqual(question?.callId, "2")
          yield* Effect.orDie(agent.answer(question!.id, { _tag: "ApproveOnce" }))
          const said = words((yield* agent.result).history)
          assert.match(said[2]!, /^error 1: .*a new message was sent instead/s)
          assert.deepStrictEqual(said.slice(3), [
            "user: Something else",
            "calls quick 2",
            "result 2: quick",
            "assistant: Done."
          ])
        }),
      { policy: { default: "ask" } }
    ), { tags: ["AG9"] })

  it.effect("without `settle` waits until they have answered", () => {
    const { ran, tools: specs } = tools()
    return run(specs, [{ calls: [call("1", "quick")] }, done], ({ agents }) =>
      Effect.gen(function*() {
        const agent = yield* agents.start({ prompt: "Go", mode: "Interactive" })
        yield* Effect.sleep("1 second")
        yield* agent.say("Something else")
        yield* Effect.sleep("1 second")
        const [question] = yield* agent.pending
        yield* Effect.orDie(agent.answer(question!.id, { _tag: "ApproveOnce" }))
        const end = yield* agent.result
        assert.deepStrictEqual(ran, ["quick"])
        assert.deepStrictEqual(words(end.history).slice(2), [
          "result 1: quick",
          "user: Something else",
          "assistant: Done."
        ])
      }), { policy: { default: "ask" } })
  })
})

describe("an agent that is cancelled", () => {
  const ended = (end: AgentEvent.OperationEnd) => {
    assert.deepStrictEqual(problemsOf(end.history), [])
    return [end.reason._tag === "Cancelled" ? end.reason.reason : end.reason._tag, end.at]
  }

  it.effect("before its model has said anything has a history of the question alone", () =>
    run({}, [{ text: "Done.", takes: "1 second" }], ({ agents, model }) =>
      Effect.gen(function*() {
        const agent = yield* agents.start({ prompt: "Go" })
        yield* agent.cancel("never mind")
        assert.deepStrictEqual(ended(yield* agent.result), ["never mind", 0])
        assert.deepStrictEqual(words(yield* agent.history), ["user: Go"])
        yield* Effect.sleep("1 hour")
        assert.strictEqual((yield* model.requests).length, 1)
      })))

  it.effect("while the model speaks keeps what it has said, and none of its calls runs", () => {
    const { ran, tools: specs } = tools()
    return run(
      specs,
      [{ text: "I will now look", calls: [call("1", "quick")], between: "1 second" }],
      ({ agents }) =>
        Effect.gen(function*() {
          const agent = yield* agents.start({ prompt: "Go" })
          const seen = yield* reading(agent)
          yield* Effect.sleep("3500 millis")
          yield* agent.cancel("enough")
          const end = yield* agent.result
          yield* Effect.sleep("1 hour")
          assert.deepStrictEqual(ended(end), ["enough", 3_500])
          assert.deepStrictEqual(words(end.history), ["user: Go", "assistant: I will now"])
          const final = seen.find((it) => it._tag === "AssistantMessageFinal")
          assert.strictEqual(final?._tag === "AssistantMessageFinal" && final.finish, "cut")
          assert.deepStrictEqual(ran, [])
          assert.strictEqual(seen.at(-1)?._tag, "OperationEnd")
        })
    )
  })

  it.effect("during a wave ends what runs and starts nothing else", () => {
    const { ran, tools: specs } = tools()
    return run(
      { ...specs, slow: { handler: specs.slow, class: "SerialMut" as const } },
      [{ calls: [call("1", "slow", { n: 1 }), call("2", "slow", { n: 2 }), call("3", "quick")] }],
      ({ agents }) =>
        Effect.gen(function*() {
          const agent = yield* agents.start({ prompt: "Go" })
          const seen = yield* reading(agent)
          yield* Effect.sleep("2 seconds")
          yield* agent.cancel("enough")
          const end = yield* agent.result
          assert.deepStrictEqual(ended(end), ["enough", 2_000])
          assert.deepStrictEqual(ran, ["slow"])
          yield* Effect.sleep("1 hour")
          assert.deepStrictEqual(ran, ["slow"])
          const outcomes = seen.flatMap((it) => it._tag === "ToolResultReceived" ? [it.outcome._tag] : [])
          assert.deepStrictEqual(outcomes, ["Cancelled", "Cancelled", "Cancelled"])
        })
    )
  })

  it.effect("waits for no handler that hears nothing", () => {
    const { tools: specs } = tools()
    return run(specs, [{ calls: [call("1", "deaf")] }], ({ agents }) =>
      Effect.gen(function*() {
        const agent = yield* agents.start({ prompt: "Go" })
        yield* Effect.sleep("1 second")
        yield* agent.cancel("enough")
        const end = yield* agent.result
        assert.strictEqual(ended(end)[0], "enough")
        assert.isAtMost(end.at, 6_000)
      }))
  })

  it.effect("while people are asked withdraws the questions", () =>
    run(tools().tools, [{ calls: [call("1", "quick"), call("2", "slow")] }], ({ agents }) =>
      Effect.gen(function*() {
        const agent = yield* agents.start({ prompt: "Go", mode: "Interactive" })
        yield* Effect.sleep("1 second")
        const [question] = yield* agent.pending
        yield* agent.cancel("enough")
        assert.deepStrictEqual(ended(yield* agent.result), ["enough", 1_000])
        assert.deepStrictEqual(yield* agent.pending, [])
        const late = yield* Effect.flip(agent.answer(question!.id, { _tag: "ApproveOnce" }))
        assert.strictEqual((late as Approvals.ApprovalError).reason, "NotPending")
      }), { policy: { default: "ask" } }))

  it.effect("while it waits for another try asks the model no more", () =>
    run({}, () => ({ fails: "busy" }), ({ agents, model }) =>
      Effect.gen(function*() {
        const agent = yield* agents.start({ prompt: "Go", retries: 5 })
        const seen = yield* reading(agent)
        yield* Effect.sleep("1500 millis")
        yield* agent.cancel("enough")
        const end = yield* agent.result
        assert.deepStrictEqual(ended(end), ["enough", 1_500])
        const asked = (yield* model.requests).length
        yield* Effect.sleep("1 hour")
        assert.strictEqual((yield* model.requests).length, asked)
        assert.strictEqual(seen.filter((it) => it._tag === "ModelRetry").length, asked)
      })))

  it.effect("when it is over has ended as it has", () =>
    run({}, [done], ({ agents }) =>
      Effect.gen(function*() {
        const agent = yield* agents.start({ prompt: "Go" })
        const seen = yield* reading(agent)
        const end = yield* agent.result
        yield* agent.cancel("too late")
        yield* Effect.sleep("1 second")
        assert.strictEqual(end.reason._tag, "Finished")
        assert.deepStrictEqual((yield* agent.result).reason, end.reason)
        assert.strictEqual(seen.filter((it) => it._tag === "OperationEnd").length, 1)
      })))

  it.effect("twice ends for the first reason", () =>
    run(tools().tools, [{ calls: [call("1", "deaf")] }], ({ agents }) =>
      Effect.gen(function*() {
        const agent = yield* agents.start({ prompt: "Go" })
        yield* Effect.sleep("1 second")
        yield* agent.cancel("first")
        yield* agent.cancel("second")
        assert.strictEqual(ended(yield* agent.result)[0], "first")
      })))

  it.effect("hears nothing from a model that speaks on, and runs no call of it", () => {
    const { ran, tools: specs } = tools()
    const parts = [
      { type: "text-start", id: "t" },
      { type: "text-delta", id: "t", delta: "On" },
      { type: "text-delta", id: "t", delta: " and on" },
      { type: "text-end", id: "t" },
      { type: "tool-call", id: "1", name: "quick", params: {} },
      { type: "finish", reason: "tool-calls", usage: { inputTokens: {}, outputTokens: {} } }
    ] as ReadonlyArray<Response.StreamPartEncoded>
    let spoken = 0
    const deaf = Layer.effect(
      LanguageModel.LanguageModel,
      LanguageModel.make({
        generateText: () => Effect.die("not asked"),
        streamText: () =>
          Stream.fromIterable(parts, { chunkSize: 1 }).pipe(
            Stream.mapEffect((part) =>
              Effect.uninterruptible(Effect.andThen(Effect.sleep("1 second"), Effect.sync(() => (spoken++, part))))
            )
          )
      })
    )
    return run(specs, [], ({ agents }) =>
      Effect.gen(function*() {
        const agent = yield* agents.start({ prompt: "Go", model: deaf })
        const seen = yield* reading(agent)
        yield* Effect.sleep("2500 millis")
        yield* agent.cancel("enough")
        const end = yield* agent.result
        assert.deepStrictEqual(ended(end), ["enough", 2_500])
        assert.deepStrictEqual(words(end.history), ["user: Go", "assistant: On"])
        yield* Effect.sleep("1 millis")
        const told = seen.length
        yield* Effect.sleep("1 hour")
        assert.strictEqual(seen.length, told)
        assert.deepStrictEqual(ran, [])
        assert.isAtLeast(spoken, 3)
      }))
  }, { tags: ["AG1"] })

  it.effect("by the end of the scope starts nothing more, and its events end", () => {
    const { ran, tools: specs } = tools()
    return run(specs, ({ turn }) => ({ calls: [call("", "slow", { turn })] }), ({ agents }) =>
      Effect.gen(function*() {
        const scope = yield* Scope.make()
        const agent = yield* Scope.provide(agents.start({ prompt: "Go" }), scope)
        yield* reading(agent)
        yield* Effect.sleep("15 seconds")
        yield* Scope.close(scope, Exit.void)
        assert.strictEqual(ran.length, 2)
        yield* Effect.sleep("1 hour")
        assert.strictEqual(ran.length, 2)
        assert.isFalse(yield* agent.say("Hello?"))
      }))
  })
})
