/** Questions of sub-agents at every depth: none is lost, and none hangs. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { type AgentEvent, AgentExecutor, SubAgent } from "../../src/agent/index.ts"
import * as Approvals from "../../src/core/gates/Approvals.ts"
import { Journal } from "../../src/index.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as VirtualTime from "../../src/testing/VirtualTime.ts"
import { agentTool, problemsOf, reading, words } from "../support/Agents.ts"
import * as Harness from "../support/Harness.ts"

const depths = [1, 2, 3, 4, 5, 6, 7, 8]

const policy = { default: "allow", ask: ["write"] } as const

/** Goes down to a depth, where it writes; comes up again when it has an answer. */
const down = (depth: number): ScriptedModel.Script => ({ prompt }) => {
  const said = words(prompt)
  const last = said.at(-1)!
  if (last.startsWith("result") || last.startsWith("error")) return { text: last.replace(/^\w+ \S+ /, "") }
  const level = Number(/^user: level (\d)/.exec(said[0]!)?.[1] ?? 0)
  return level < depth
    ? { calls: [{ id: "d", name: "deeper", params: { level: level + 1 } }] }
    : { calls: [{ id: "w", name: "write", params: {} }] }
}

interface World {
  readonly agents: AgentExecutor.AgentExecutor["Service"]
  readonly ran: Array<string>
  readonly stop: Effect.Effect<void>
  readonly model: ScriptedModel.Scripted
}

/** A host with agents that go down, until its scope is closed. */
const host = Effect.fnUntraced(function*(
  depth: number,
  journal?: Journal.Journal["Service"],
  script: ScriptedModel.Script = down(depth),
  people: Layer.Layer<never> = Layer.empty
) {
  const ran: Array<string> = []
  const deeper = agentTool(SubAgent.make("deeper", {
    description: "Goes on below",
    parameters: Schema.Struct({ level: Schema.Finite }),
    prompt: ({ level }) => `level ${level}`
  }))
  const write: Harness.ToolSpec = {
    handler: () => Effect.sync(() => (ran.push("write"), "written")),
    class: "SerialMut"
  }
  const scope = yield* Scope.make()
  const model = yield* Effect.orDie(ScriptedModel.make(script))
  const executor = Harness.layer({ deeper, write }, { policy, ...journal === undefined ? {} : { journal } })
  const layer = AgentExecutor.layer.pipe(Layer.provide([Layer.fresh(executor), model.layer]), Layer.provide(people))
  const context = yield* Scope.provide(Effect.orDie(Layer.build(layer)), scope)
  const agents = Context.get(context, AgentExecutor.AgentExecutor)
  return { agents, ran, stop: Scope.close(scope, Exit.void), model }
})

/** Plays at each depth. */
const each = (
  name: string,
  play: (world: World, depth: number) => Effect.Effect<void, unknown, Scope.Scope>
) =>
  it.effect(name, () =>
    Effect.forEach(depths, (depth) =>
      VirtualTime.run(
        Effect.scoped(Effect.flatMap(host(depth), (world) => play(world, depth))),
        { limit: "1 day" }
      ), { discard: true }))

/** Begins an operation and waits until somebody is asked. */
const asked = Effect.fnUntraced(function*({ agents }: World, depth: number) {
  const agent = yield* agents.start({ prompt: "Go", mode: "Interactive" })
  const seen = yield* reading(agent)
  yield* Effect.sleep("1 second")
  const questions = yield* agent.pending
  assert.deepStrictEqual(questions.map((it) => [it.agentPath.length, it.tool]), [[depth, "write"]])
  const requests = seen.filter((it) => it._tag === "RequestToolApprovals")
  assert.deepStrictEqual(requests.map((it) => [it.agentPath.length, it.requests]), [[depth, questions]])
  return { agent, seen, id: questions[0]!.id }
})

const over = (end: AgentEvent.OperationEnd) => {
  assert.deepStrictEqual(problemsOf(end.history), [])
  return [end.reason._tag, end.at]
}

describe("a question of a sub-agent at any depth", () => {
  each("that is answered lets the call run, and every agent above goes on", (world, depth) =>
    Effect.gen(function*() {
      const { agent, id } = yield* asked(world, depth)
      yield* agent.answer(id, { _tag: "ApproveOnce" })
      const end = yield* agent.result
      assert.deepStrictEqual(over(end), ["Finished", 1_000])
      assert.deepStrictEqual([end.text, world.ran], ["written", ["write"]])
      assert.deepStrictEqual(yield* agent.pending, [])
    }))

  each("that is answered with no comes up as the word of the agent below", (world, depth) =>
    Effect.gen(function*() {
      const { agent, id } = yield* asked(world, depth)
      yield* agent.answer(id, { _tag: "Deny", reason: "not today" })
      const end = yield* agent.result
      assert.deepStrictEqual(over(end), ["Finished", 1_000])
      assert.include(end.text, "not today")
      assert.deepStrictEqual(world.ran, [])
    }))

  each("that nobody answers is a no after a while", (world, depth) =>
    Effect.gen(function*() {
      const { agent } = yield* asked(world, depth)
      assert.deepStrictEqual(over(yield* agent.result), ["Finished", 300_000])
      assert.deepStrictEqual(world.ran, [])
    }))

  each("is withdrawn when the root is cancelled", (world, depth) =>
    Effect.gen(function*() {
      const { agent, id, seen } = yield* asked(world, depth)
      yield* agent.cancel("enough")
      assert.deepStrictEqual(over(yield* agent.result), ["Cancelled", 1_000])
      yield* Effect.sleep("1 hour")
      assert.deepStrictEqual(yield* agent.pending, [])
      const late = yield* Effect.flip(agent.answer(id, { _tag: "ApproveOnce" }))
      assert.strictEqual(late.reason, "NotPending")
      assert.deepStrictEqual(world.ran, [])
      assert.strictEqual(seen.at(-1)?._tag, "OperationEnd")
    }))

  each("is answered with no when somebody says something else", (world, depth) =>
    Effect.gen(function*() {
      const { agent } = yield* asked(world, depth)
      yield* agent.say("Leave it", { settle: true })
      const end = yield* agent.result
      assert.deepStrictEqual(over(end), ["Finished", 1_000])
      assert.include(words(end.history), "user: Leave it")
      assert.deepStrictEqual(world.ran, [])
    }))

  each("is answered with no when nobody reads any more", (world) =>
    Effect.gen(function*() {
      const agent = yield* world.agents.start({ prompt: "Go", mode: "Interactive" })
      const reader = yield* Effect.forkChild(Stream.runDrain(agent.events))
      yield* Effect.sleep("1 second")
      assert.strictEqual((yield* agent.pending).length, 1)
      yield* Fiber.interrupt(reader)
      assert.deepStrictEqual(over(yield* agent.result), ["Finished", 1_000])
      assert.deepStrictEqual(world.ran, [])
    }))

  each("ends with a stream that is not read to its end", (world) =>
    Effect.gen(function*() {
      const events = world.agents.runOperation({ prompt: "Go", mode: "Interactive" })
      yield* Stream.runDrain(Stream.takeUntil(events, (it) => it._tag === "RequestToolApprovals"))
      assert.strictEqual(yield* VirtualTime.now, 0)
      yield* Effect.sleep("1 hour")
      assert.deepStrictEqual(world.ran, [])
    }))

  each("is answered with no at once where nobody is to be asked", (world) =>
    Effect.gen(function*() {
      const seen = yield* Stream.runCollect(world.agents.runOperation({ prompt: "Go" }))
      assert.notInclude(seen.map((it) => it._tag), "RequestToolApprovals")
      assert.notInclude(seen.map((it) => it._tag), "ToolApprovalRequested")
      const end = seen.at(-1) as AgentEvent.OperationEnd
      assert.deepStrictEqual(over(end), ["Finished", 0])
      assert.deepStrictEqual(world.ran, [])
    }))

  each("is over when its host stops", (world, depth) =>
    Effect.gen(function*() {
      const { agent } = yield* asked(world, depth)
      yield* world.stop
      const end = yield* agent.result
      // without a journal nothing can be continued
      assert.strictEqual(end.reason._tag, "Cancelled")
      assert.isAtMost(end.at, 6_000)
      assert.deepStrictEqual(problemsOf(end.history), [])
      assert.deepStrictEqual(yield* agent.pending, [])
      assert.deepStrictEqual(world.ran, [])
    }))

  it.effect(
    "is asked again under its id by the next operation, when its host has stopped",
    () =>
      Effect.forEach(depths, (depth) =>
        VirtualTime.run(
          Effect.scoped(Effect.gen(function*() {
            const built = yield* Effect.orDie(Effect.scoped(Layer.build(Layer.fresh(Journal.layerMemory()))))
            const journal = Context.get(built, Journal.Journal)
            const first = yield* host(depth, journal)
            const { agent, id } = yield* asked(first, depth)
            yield* first.stop
            const { history, reason } = yield* agent.result
            assert.deepStrictEqual(reason, { _tag: "Suspended", calls: ["d"] })

            const second = yield* host(depth, journal)
            const next = yield* second.agents.start({ prompt: history, mode: "Interactive" })
            yield* Effect.sleep("1 second")
            const [question] = yield* next.pending
            assert.deepStrictEqual([question?.agentPath.length, question?.tool, question?.id], [depth, "write", id])
            // every agent continues where it was: no model is asked until there is an answer
            assert.lengthOf(yield* second.model.requests, 0)
            yield* Effect.orDie(next.answer(question!.id, { _tag: "ApproveOnce" }))
            const end = yield* next.result
            assert.deepStrictEqual([over(end)[0], end.text], ["Finished", "written"])
            assert.lengthOf(yield* second.model.requests, depth + 1)
            assert.deepStrictEqual([first.ran, second.ran], [[], ["write"]])
            // what a history carries of sub-agents is gone with their calls
            assert.include(JSON.stringify(history.content), "level 1")
            assert.notInclude(JSON.stringify(end.history.content), "level 1")
            yield* second.stop
          })),
          { limit: "1 day" }
        ), { discard: true }),
    { tags: ["AG12"] }
  )

  it.effect("is none below the eighth: there is no such agent", () =>
    VirtualTime.run(Effect.scoped(Effect.gen(function*() {
      const { agents, ran } = yield* host(9)
      const agent = yield* agents.start({ prompt: "Go", mode: "Interactive" })
      const end = yield* agent.result
      assert.deepStrictEqual(over(end), ["Finished", 0])
      assert.match(end.text, /8|deep/)
      assert.deepStrictEqual(ran, [])
    }))))
})

describe("a host that stops", () => {
  it.effect(
    "while a sub-agent asks suspends every agent above, and asks no model any more",
    () =>
      Effect.forEach(depths, (depth) =>
        VirtualTime.run(
          Effect.scoped(Effect.gen(function*() {
            const { approvals, suspend } = yield* Effect.orDie(Approvals.makeRecorded({ begin: () => undefined }))
            const people = Layer.succeed(Approvals.Approvals, approvals) as Layer.Layer<never>
            const journal = Context.get(yield* Effect.orDie(Layer.build(Journal.layerMemory())), Journal.Journal)
            const world = yield* host(depth, journal, undefined, people)
            const { agent, seen } = yield* asked(world, depth)
            yield* suspend("the host stops")
            const end = yield* agent.result
            assert.deepStrictEqual(end.reason, { _tag: "Suspended", calls: ["d"] })
            assert.strictEqual(end.at, 1_000)
            assert.strictEqual(words(end.history).at(-1), "calls deeper d")
            yield* Effect.sleep("1 hour")
            // the root, and one for each agent below it
            assert.strictEqual((yield* world.model.requests).length, depth + 1)
            assert.deepStrictEqual(world.ran, [])
            assert.deepStrictEqual(yield* agent.pending, [])
            assert.strictEqual(seen.at(-1)?._tag, "OperationEnd")
          })),
          { limit: "1 day" }
        ), { discard: true }),
    { tags: ["AG12"] }
  )

  it.effect(
    "ends its operations, and their models are asked no more",
    () =>
      VirtualTime.run(Effect.scoped(Effect.gen(function*() {
        const endless: ScriptedModel.Script = ({ turn }) => ({
          calls: [{ id: "", name: "write", params: { turn } }],
          takes: "1 second"
        })
        const { agents, model, stop } = yield* host(1, undefined, endless)
        const agent = yield* agents.start({ prompt: "Go" })
        yield* Effect.sleep("2500 millis")
        yield* stop
        const end = yield* agent.result
        assert.strictEqual(end.reason._tag, "Cancelled")
        assert.deepStrictEqual(problemsOf(end.history), [])
        assert.isAtMost((yield* model.requests).length, 3)
      }))),
    { tags: ["AG12"] }
  )
})
