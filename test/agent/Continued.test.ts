/** Operations that go on with what one before them has left in the middle: the request is the same. */
import { assert, describe, it } from "@effect/vitest"
import type * as Prompt from "effect/ai/Prompt"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { Options } from "../../src/agent/AgentExecutor.ts"
import { AgentExecutor, SubAgent } from "../../src/agent/index.ts"
import * as Transcripts from "../../src/agent/Transcripts.ts"
import { Journal, type ToolRule } from "../../src/index.ts"
import type * as ModelTurn from "../../src/testing/ModelTurn.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as VirtualTime from "../../src/testing/VirtualTime.ts"
import { agentTool, words } from "../support/Agents.ts"
import * as Harness from "../support/Harness.ts"

const call = (id: string, name: string, params: unknown = {}) => ({ id, name, params })
const done: ModelTurn.Turn = { text: "Done." }

/** What outlives a host. */
interface Left {
  readonly kept: ReadonlyArray<Prompt.Message>
  readonly entries: ReadonlyArray<Journal.JournalEntry>
  /** What is stored of sub-agents. */
  readonly below?: ReadonlyArray<Transcripts.Below>
}

/** A host over what another one has left. */
const host = Effect.fnUntraced(function*(
  left: Left,
  script: ScriptedModel.Script,
  rules: ReadonlyArray<ToolRule.ToolRule>,
  ran: Array<string>
) {
  const kept = [...left.kept]
  const below = [...left.below ?? []]
  const transcripts = Transcripts.Transcripts.of({
    list: Effect.succeed([]),
    open: () =>
      Effect.sync(() => ({
        messages: [...kept],
        append: (messages) => Effect.sync(() => void kept.push(...messages)),
        below: [...below],
        appendBelow: (part) => Effect.sync(() => void below.push(part))
      }))
  })
  const journal = Context.get(
    yield* Effect.orDie(Layer.build(Layer.fresh(Journal.layerMemory({ entries: left.entries })))),
    Journal.Journal
  )
  const tool = (name: string, kind: Harness.ToolSpec["class"]): Harness.ToolSpec => ({
    class: kind!,
    handler: ({ hangs }) =>
      Effect.suspend(() => {
        ran.push(name)
        return hangs === true && ran.filter((it) => it === name).length === 1 ? Effect.never : Effect.succeed(name)
      })
  })
  const tools = {
    verify: tool("verify", "ReadOnly"),
    look: tool("look", "ReadOnly"),
    refund: tool("refund", "SerialMut"),
    write: tool("write", "SerialMut"),
    research: agentTool(SubAgent.make("research", {
      description: "Looks around",
      parameters: Schema.Struct({}),
      prompt: () => "Look around"
    }))
  }
  const model = yield* Effect.orDie(ScriptedModel.make(script))
  const context = yield* Effect.orDie(Layer.build(AgentExecutor.layer.pipe(
    Layer.provide([Harness.layer(tools, { rules, journal }), model.layer]),
    Layer.provide(Layer.succeed(Transcripts.Transcripts, transcripts))
  )))
  return {
    agents: Context.get(context, AgentExecutor.AgentExecutor),
    left: Effect.map(
      Effect.orDie(Stream.runCollect(journal.read({}))),
      (all): Left => ({ kept: [...kept], below: [...below], entries: all.map(({ entry }) => entry) })
    )
  }
})

const nothing: Left = { kept: [], entries: [] }

/** An operation that dies where its calls hang. */
const dies = Effect.fnUntraced(function*(
  script: ScriptedModel.Script,
  rules: ReadonlyArray<ToolRule.ToolRule>,
  ran: Array<string>,
  options: Partial<Options<never, never>> = {}
) {
  const { agents, left } = yield* host(nothing, script, rules, ran)
  yield* Effect.forkScoped(agents.run({ prompt: "Go", session: "s", ...options }))
  yield* Effect.sleep("1 second")
  return yield* left
})

const test = <A, E>(name: string, program: () => Effect.Effect<A, E, Scope.Scope>, options?: { tags: Array<string> }) =>
  it.effect(name, () => VirtualTime.run(Effect.scoped(Effect.suspend(program)), { limit: "1 day" }), options)

const results = (history: Prompt.Prompt) => words(history).filter((it) => /^(result|error)/.test(it))

describe("a continued operation", () => {
  const inOrder: ReadonlyArray<ToolRule.ToolRule> = [
    { _tag: "RequiresPrecedingTools", tool: "refund", tools: ["verify"] }
  ]
  for (const prompt of [[], "Go on"] as const) {
    test(`knows what succeeded in earlier turns of it, ${prompt === "Go on" ? "with" : "without"} more to say`, () => {
      const ran: Array<string> = []
      return Effect.gen(function*() {
        const turns = [{ calls: [call("1", "verify")] }, {
          calls: [call("2", "look", { hangs: true }), call("3", "refund")]
        }]
        const left = yield* dies(turns, inOrder, ran)
        const second = yield* host(left, [{ calls: [call("4", "refund", { n: 2 })] }, done], inOrder, ran)
        const { history, reason } = yield* Effect.orDie(second.agents.run({ prompt, session: "s" }))
        assert.strictEqual(reason._tag, "Finished")
        assert.deepStrictEqual(results(history), [
          "result 1: verify",
          "result 2: look",
          "result 3: refund",
          "result 4: refund"
        ])
      })
    }, { tags: ["AG3"] })
  }

  const once: ReadonlyArray<ToolRule.ToolRule> = [{ _tag: "MaxCalls", tool: "write", max: 1 }]
  const deaths: Record<string, ScriptedModel.Script> = {
    "in the wave that was resumed": [{ calls: [call("1", "write", { hangs: true })] }],
    "in a wave before that": [{ calls: [call("1", "write")] }, { calls: [call("2", "look", { hangs: true })] }]
  }
  for (const [when, script] of Object.entries(deaths)) {
    for (const batch of [undefined, "b"]) {
      test(`has used up what was used up ${when}, in ${batch ?? "a batch of its own"}`, () => {
        const ran: Array<string> = []
        return Effect.gen(function*() {
          const options = batch === undefined ? {} : { batch }
          const left = yield* dies(script, once, ran, options)
          const second = yield* host(left, [{ calls: [call("3", "write", { n: 2 })] }, done], once, ran)
          const { history } = yield* Effect.orDie(second.agents.run({ prompt: "Go on", session: "s", ...options }))
          assert.match(results(history).at(-1)!, /^error 3: .*has reached its limit of 1 call/)
          assert.deepStrictEqual(ran.filter((it) => it === "write"), ["write"])
        })
      }, { tags: ["AG3"] })
    }
  }

  test("that was let go in the same host has used up what that one has", () => {
    const ran: Array<string> = []
    const script = [
      { calls: [call("1", "write"), call("2", "look", { hangs: true })] },
      { calls: [call("3", "write", { n: 2 })] },
      done
    ]
    return Effect.gen(function*() {
      const { agents } = yield* host(nothing, script, once, ran)
      const first = yield* Effect.forkScoped(agents.run({ prompt: "Go", session: "s" }))
      yield* Effect.sleep("1 second")
      yield* Fiber.interrupt(first)
      const { history } = yield* Effect.orDie(agents.run({ prompt: [], session: "s" }))
      assert.match(results(history).at(-1)!, /^error 3: .*has reached its limit of 1 call/)
    })
  }, { tags: ["AG3"] })

  test("is another request where everything was answered and there is more to say", () => {
    const ran: Array<string> = []
    return Effect.gen(function*() {
      const first = yield* host(nothing, [{ calls: [call("1", "write")] }, done], once, ran)
      yield* Effect.orDie(first.agents.run({ prompt: "Go", session: "s" }))
      const second = yield* host(yield* first.left, [{ calls: [call("2", "write")] }, done], once, ran)
      const { history } = yield* Effect.orDie(second.agents.run({ prompt: "Once more", session: "s" }))
      assert.deepStrictEqual(results(history), ["result 1: write", "result 2: write"])
    })
  }, { tags: ["AG3"] })

  test("is the same request where its model has not heard the answers, and there is no more to say", () => {
    const ran: Array<string> = []
    return Effect.gen(function*() {
      const first = yield* host(nothing, [{ calls: [call("1", "write")] }, done], once, ran)
      yield* Effect.orDie(first.agents.run({ prompt: "Go", session: "s" }))
      const { entries, kept } = yield* first.left
      const second = yield* host(
        { entries, kept: kept.slice(0, -1) },
        [{ calls: [call("2", "write")] }, done],
        once,
        ran
      )
      const { history } = yield* Effect.orDie(second.agents.run({ prompt: [], session: "s" }))
      assert.match(results(history).at(-1)!, /^error 2: .*has reached its limit of 1 call/)
    })
  }, { tags: ["AG3"] })

  test("has the turns and tokens left that were left of that, and says only what it used itself", () => {
    const ran: Array<string> = []
    const usage = { input: 10, output: 10 }
    const script = [{ calls: [call("1", "verify")], usage }, { calls: [call("2", "look", { hangs: true })], usage }]
    return Effect.gen(function*() {
      const left = yield* dies(script, [], ran)
      for (const limits of [{ turns: 3 }, { tokens: 50 }]) {
        const more = [{ calls: [call("3", "verify", { n: 3 })], usage }, {
          calls: [call("4", "verify", { n: 4 })],
          usage
        }]
        const { agents } = yield* host(left, more, [], ["look"])
        const end = yield* Effect.orDie(agents.run({ prompt: "Go on", session: "s", limits }))
        assert.deepInclude(end.reason, { _tag: "LimitReached", limit: limits.turns === undefined ? "tokens" : "turns" })
        assert.deepStrictEqual([end.turn, end.turns, end.usage.inputTokens], [3, 1, 10])
      }
    })
  }, { tags: ["AG3"] })

  for (const id of ["x", "y"]) {
    test(`counts on after a message without an answer, ${id === "x" ? "under its name" : "not under another one"}`, () => {
      const ran: Array<string> = []
      const looks = (n: number) => ({ calls: [call(`${n}`, "verify", { n })] })
      return Effect.gen(function*() {
        const first = yield* host(nothing, [looks(1), looks(2), { ...done, takes: "1 hour" }], [], ran)
        const agent = yield* Effect.orDie(first.agents.start({ prompt: "Go", session: "s", id: "x" }))
        yield* agent.say("And this")
        yield* Effect.sleep("1 second")
        const { agents } = yield* host(yield* first.left, [looks(3), done], [], ran)
        const limits = { turns: 3 }
        const end = yield* Effect.orDie(agents.run({ prompt: "And that", session: "s", id, limits }))
        assert.deepStrictEqual([end.turn, end.turns], id === "x" ? [3, 1] : [2, 2])
        assert.strictEqual(end.reason._tag, id === "x" ? "LimitReached" : "Finished")
      })
    })
  }

  const usage = { input: 10, output: 10 }
  const hangs = { calls: [call("2", "look", { hangs: true })], usage }
  const asks = { calls: [call("1", "research")], usage }
  const looks = { calls: [call("1", "verify")], usage }
  const trees: Record<string, ReadonlyArray<ModelTurn.Turn>> = {
    "has ended": [asks, looks, { ...done, usage }, hangs],
    "was in the middle": [asks, looks, hangs]
  }
  for (const [how, script] of Object.entries(trees)) {
    test(`has left of its limits what its sub-agent left that ${how}`, () => {
      const ran: Array<string> = []
      return Effect.gen(function*() {
        const left = yield* dies(script, [], ran)
        // what comes next is of the agent whose call hung
        const more = (n: number) => ({ calls: [call(`m${n}`, "verify", { n })], usage })
        const calls = yield* host(left, [more(1), more(2), more(3)], [], ["look"])
        const full = yield* Effect.orDie(calls.agents.run({ prompt: [], session: "s", limits: { calls: 4 } }))
        assert.deepStrictEqual([full.reason, full.calls], [{ _tag: "LimitReached", limit: "calls", max: 4 }, 4])
        const tokens = yield* host(left, [more(1), done, done], [], ["look"])
        const max = 20 * (script.length + 1)
        const spent = yield* Effect.orDie(tokens.agents.run({ prompt: [], session: "s", limits: { tokens: max } }))
        assert.deepInclude(spent.reason, { _tag: "LimitReached", limit: "tokens" })
        assert.strictEqual(spent.usage.inputTokens, 10)
      })
    }, { tags: ["AG12"] })
  }

  const wrote = [asks, { calls: [call("w", "write")] }]
  const writers: Record<string, ReadonlyArray<ModelTurn.Turn>> = {
    "a sub-agent has": [...wrote, done, hangs],
    "a sub-agent in the middle has": [...wrote, hangs]
  }
  for (const [who, script] of Object.entries(writers)) {
    for (const resumed of ["of the root", "of the sub-agent"]) {
      test(`has used up in its batch what ${who}, for a call ${resumed}`, () => {
        const ran: Array<string> = []
        return Effect.gen(function*() {
          const left = yield* dies(script, once, ran)
          const again = { calls: [call("m", "write", { n: 2 })] }
          const below = { calls: [call("r", "research", { n: 2 })] }
          const isOpen = script.length === 3
          const more = resumed === "of the root"
            ? [...isOpen ? [done] : [], again, done]
            : isOpen
            ? [again, done, done]
            : [below, again, done, done]
          const second = yield* host(left, more, once, ran)
          const { reason } = yield* Effect.orDie(second.agents.run({ prompt: [], session: "s" }))
          assert.strictEqual(reason._tag, "Finished")
          assert.deepStrictEqual(ran.filter((it) => it === "write"), ["write"])
        })
      }, { tags: ["AG12"] })
    }
  }

  test("begins a sub-agent whose call was on record, and nothing else of it", () => {
    const ran: Array<string> = []
    return Effect.gen(function*() {
      const left = yield* dies([asks, hangs], [], ran)
      const second = yield* host({ ...left, below: [] }, [{ text: "Found." }, done], [], ran)
      const { history } = yield* Effect.orDie(second.agents.run({ prompt: [], session: "s" }))
      assert.deepStrictEqual(results(history), ["result 1: Found."])
    })
  }, { tags: ["AG12"] })

  test("does not know what a sub-agent did whose conversation was not stored", () => {
    const ran: Array<string> = []
    return Effect.gen(function*() {
      const left = yield* dies([asks, hangs], [], ran)
      const second = yield* host({ ...left, kept: [], below: [] }, [done], [], ran)
      const { history } = yield* Effect.orDie(second.agents.run({ prompt: left.kept }))
      assert.match(results(history).join(), /^error 1: .* was started, but its process stopped/)
    })
  }, { tags: ["AG12"] })

  test("ends without asking its model again, where that has said all", () => {
    const ran: Array<string> = []
    return Effect.gen(function*() {
      const first = yield* host(nothing, [{ calls: [call("1", "write")] }, done], [], ran)
      yield* Effect.orDie(first.agents.run({ prompt: "Go", session: "s" }))
      const second = yield* host(yield* first.left, [], [], ran)
      const end = yield* Effect.orDie(second.agents.run({ prompt: [], session: "s" }))
      assert.deepStrictEqual([end.reason._tag, end.text, end.turns], ["Finished", "Done.", 0])
    })
  }, { tags: ["AG3"] })

  test("answers what was open and starts nothing where it begins cancelled", () => {
    const ran: Array<string> = []
    return Effect.gen(function*() {
      const left = yield* dies([{ calls: [call("1", "look", { hangs: true }), call("2", "write")] }], [], ran)
      assert.deepStrictEqual(ran, ["look"])
      const { agents } = yield* host(left, [], [], ran)
      const { history, reason, turns } = yield* Effect.orDie(
        agents.run({ prompt: "Go on", session: "s", cancelled: "wrong order" })
      )
      assert.deepStrictEqual(reason, { _tag: "Cancelled", reason: "wrong order" })
      assert.deepStrictEqual([ran, turns], [["look"], 0])
      assert.deepStrictEqual(results(history).map((it) => it.slice(0, 7)), ["error 1", "error 2"])
      assert.strictEqual(words(history).at(-1), "user: Go on")
    })
  })

  test("ends with what was resumed where that ends the loop and there is no more to say", () => {
    const ran: Array<string> = []
    const rules: ReadonlyArray<ToolRule.ToolRule> = [{ _tag: "ExitLoop", tool: "look" }]
    return Effect.gen(function*() {
      const left = yield* dies([{ calls: [call("1", "look", { hangs: true })] }], rules, ran)
      const { agents } = yield* host(left, [done], rules, ran)
      const end = yield* Effect.orDie(agents.run({ prompt: [], session: "s" }))
      assert.strictEqual(end.reason._tag, "Exited")
    })
  }, { tags: ["AG3"] })
})
