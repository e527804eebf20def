/** Tools that the provider of a model executes: the choice of a turn has them, and rules that name them count them. */
import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import { AgentExecutor } from "../../src/agent/index.ts"
import * as Approvals from "../../src/core/gates/Approvals.ts"
import { Journal, LocalExecutor, ToolExecutor, type ToolRule } from "../../src/index.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as VirtualTime from "../../src/testing/VirtualTime.ts"
import { events, problemsOf, reading } from "../support/Agents.ts"

const search = Tool.providerDefined({
  id: "test.search",
  customName: "search",
  providerName: "search",
  parameters: Schema.Unknown,
  success: Schema.Unknown
})(undefined as never)

const own = ["verify", "refund", "stop"].map((name) =>
  Tool.make(name, { parameters: Schema.Struct({ n: Schema.optionalKey(Schema.Finite) }), success: Schema.String })
)

const call = (name: string) => ({ id: `${name}-1`, name, params: {} })
const done = { text: "Done." }

/** What a provider says of a search of its own, and how that ended. */
const searched = (id: string, isFailure?: boolean) => {
  const about = { id, name: "search", providerExecuted: true }
  return [
    { type: "tool-call", ...about, params: { q: "x" } },
    ...isFailure === undefined ? [] : [{ type: "tool-result", ...about, isFailure, result: "found" }]
  ] as never
}

/** Runs a script and gives what ran, what the model could choose from, and how it ended. */
const ended = (
  rules: ReadonlyArray<ToolRule.ToolRule>,
  script: ScriptedModel.Script,
  { tools = [...own, search] }: { readonly tools?: ReadonlyArray<Tool.Any> } = {}
) =>
  VirtualTime.run(
    Effect.scoped(Effect.gen(function*() {
      const ran: Array<string> = []
      const kit = Toolkit.make(...own)
      const handler = (name: string) => () => Effect.sync(() => (ran.push(name), name))
      const handlers = kit.toLayer(Object.fromEntries(own.map(({ name }) => [name, handler(name)])) as never)
      const model = yield* Effect.orDie(ScriptedModel.make(script))
      const context = yield* Effect.orDie(Layer.build(
        AgentExecutor.layer.pipe(
          Layer.provide(LocalExecutor.layer(Toolkit.make(...own, search), { rules, policy: { default: "allow" } })),
          Layer.provide([handlers, model.layer])
        )
      ))
      const agents = Context.get(context, AgentExecutor.AgentExecutor)
      const { end } = yield* events({ agents, model }, {
        prompt: "Go",
        toolkit: Toolkit.make(...tools) as never
      })
      assert.deepStrictEqual(problemsOf(end.history), [])
      const requests = yield* model.requests
      return {
        reason: end.reason._tag,
        ran,
        choices: requests.map(({ toolChoice, tools }) => [toolChoice, tools] as const)
      }
    })),
    { limit: "1 hour" }
  )

const needs = (tool: string, before: string): ToolRule.ToolRule => ({
  _tag: "RequiresPrecedingTools",
  tool,
  tools: [before]
})

describe("tools that a provider executes", () => {
  it.effect("may be called where there are no others", () =>
    Effect.gen(function*() {
      const { choices, reason } = yield* ended([], [done], { tools: [search] })
      assert.deepStrictEqual([reason, choices], ["Finished", [["auto", ["search"]]]])
    }))

  it.effect("stay when a rule leaves another tool out", () =>
    Effect.gen(function*() {
      const { choices } = yield* ended([needs("refund", "verify")], [{ calls: [call("verify")] }, done])
      assert.deepStrictEqual(choices, [
        [{ oneOf: ["verify", "stop", "search"] }, ["verify", "stop", "search"]],
        ["auto", ["verify", "refund", "stop", "search"]]
      ])
    }), { tags: ["R6"] })

  it.effect("stay where a rule leaves none of the others", () =>
    Effect.gen(function*() {
      const rules = own.map(({ name }) => needs(name, "search"))
      const { choices } = yield* ended(rules, [done])
      assert.deepStrictEqual(choices, [[{ oneOf: ["search"] }, ["search"]]])
    }))

  it.effect("are left out while another tool is forced, and by a rule that names them", () =>
    Effect.gen(function*() {
      const forced = yield* ended([{ _tag: "StartConstraint", tool: "verify" }], [{ calls: [call("verify")] }, done])
      assert.deepStrictEqual(forced.choices, [
        [{ mode: "required", oneOf: ["verify"] }, ["verify"]],
        ["auto", ["verify", "refund", "stop", "search"]]
      ])
      const named = yield* ended([needs("search", "verify")], [{ calls: [call("verify")] }, done])
      assert.deepStrictEqual(named.choices.map(([choice]) => choice), [{ oneOf: ["verify", "refund", "stop"] }, "auto"])
    }), { tags: ["R6"] })

  it.effect("are forced where a rule demands them, and have succeeded once they have", () =>
    Effect.gen(function*() {
      const { choices, ran, reason } = yield* ended([{ _tag: "StartConstraint", tool: "search" }], [
        { parts: searched("s1", false), calls: [call("refund")] },
        done
      ])
      assert.deepStrictEqual(choices.map(([choice]) => choice), [{ mode: "required", oneOf: ["search"] }, "auto"])
      // in the order of the answer, the search came before it
      assert.deepStrictEqual([reason, ran], ["Finished", ["refund"]])
    }))

  it.effect("count for rules that name them, and only if they succeeded", () =>
    Effect.gen(function*() {
      const rules = [needs("refund", "search")]
      for (const isFailure of [false, true, undefined]) {
        const { ran } = yield* ended(rules, [
          { text: "I look.", parts: searched("s1", isFailure), finish: "pause" },
          { calls: [call("refund")] },
          done
        ])
        assert.deepStrictEqual(ran, isFailure === false ? ["refund"] : [])
      }
    }), { tags: ["R6"] })

  it.effect("are counted by limits that name them, and left out when these are used up", () =>
    Effect.gen(function*() {
      const look = { text: "I look.", parts: searched("s1", false), finish: "pause" } as const
      const { choices } = yield* ended([{ _tag: "MaxCalls", tool: "search", max: 2 }], [look, look, look, done])
      assert.deepStrictEqual(choices.map(([choice]) => choice), [
        "auto",
        "auto",
        { oneOf: ["verify", "refund", "stop"] },
        { oneOf: ["verify", "refund", "stop"] }
      ])
    }), { tags: ["R6"] })

  it.effect("choose for a group that names them", () =>
    Effect.gen(function*() {
      const rules: ReadonlyArray<ToolRule.ToolRule> = [{ _tag: "ExclusiveGroup", tools: ["search", "refund"] }]
      const { choices, ran } = yield* ended(rules, [
        { text: "I look.", parts: searched("s1", false), finish: "pause" },
        { calls: [call("refund")] },
        done
      ])
      assert.deepStrictEqual(ran, [])
      assert.deepStrictEqual(choices[1]![0], { oneOf: ["verify", "stop", "search"] })
    }))

  it.effect("count for no rule that is about all tools, and change nothing for rules of neighbours", () =>
    Effect.gen(function*() {
      const rules: ReadonlyArray<ToolRule.ToolRule> = [
        { _tag: "MaxCalls", tool: "*", max: 1 },
        { _tag: "ChildTools", tool: "verify", children: ["refund"] }
      ]
      const look = { text: "I look.", parts: searched("s1", false), finish: "pause" } as const
      const { choices, ran } = yield* ended(rules, [
        { calls: [call("verify")] },
        look,
        { calls: [call("refund")] },
        done
      ])
      assert.deepStrictEqual(ran, ["verify", "refund"])
      assert.deepStrictEqual(choices[2]![0], { mode: "required", oneOf: ["refund"] })
    }))

  it.effect("still count where another host goes on with the operation", () =>
    VirtualTime.run(
      Effect.scoped(Effect.gen(function*() {
        const journal = Context.get(yield* Effect.orDie(Layer.build(Journal.layerMemory())), Journal.Journal)
        const ran: Array<string> = []
        const host = Effect.fnUntraced(function*(script: ScriptedModel.Script) {
          const people = yield* Effect.orDie(Approvals.makeRecorded({ begin: () => undefined }))
          const kit = Toolkit.make(...own)
          const handlers = kit.toLayer(
            Object.fromEntries(own.map(({ name }) => [name, () => Effect.sync(() => (ran.push(name), name))])) as never
          )
          const model = yield* Effect.orDie(ScriptedModel.make(script))
          const executor = LocalExecutor.layer(Toolkit.make(...own, search), {
            rules: [needs("refund", "search")],
            policy: { default: "allow", ask: ["refund"] }
          })
          const context = yield* Effect.orDie(Layer.build(
            AgentExecutor.layer.pipe(
              Layer.provide(Layer.fresh(executor)),
              Layer.provide([handlers, model.layer]),
              Layer.provide([
                Layer.succeed(Approvals.Approvals, people.approvals),
                Layer.succeed(Journal.Journal, journal)
              ])
            )
          ))
          return {
            agents: Context.get(context, AgentExecutor.AgentExecutor),
            suspend: people.suspend("the host stops")
          }
        })
        const options = { mode: "Interactive", toolkit: Toolkit.make(...own, search) as never } as const
        const { history, reason } = yield* Effect.scoped(Effect.gen(function*() {
          const first = yield* host([{ parts: searched("s1", false), calls: [call("refund")] }])
          const agent = yield* first.agents.start({ prompt: "Go", ...options })
          yield* reading(agent)
          yield* Effect.sleep("1 second")
          yield* first.suspend
          return yield* agent.result
        }))
        assert.strictEqual(reason._tag, "Suspended")

        const second = yield* host([{ calls: [{ ...call("refund"), id: "refund-2", params: { n: 2 } }] }, done])
        const next = yield* second.agents.start({ prompt: history, ...options })
        yield* reading(next)
        for (const id of ["refund-1", "refund-2"]) {
          yield* Effect.sleep("1 second")
          const [question] = yield* next.pending
          assert.strictEqual(question?.callId, id)
          yield* Effect.orDie(next.answer(question!.id, { _tag: "ApproveOnce" }))
        }
        assert.strictEqual((yield* next.result).reason._tag, "Finished")
        assert.deepStrictEqual(ran, ["refund", "refund"])
      })),
      { limit: "1 hour" }
    ))

  it.effect("are counted in answers that a process is given", () =>
    Effect.scoped(Effect.gen(function*() {
      const kit = Toolkit.make(...own)
      const handlers = kit.toLayer(
        Object.fromEntries(own.map(({ name }) => [name, () => Effect.succeed(name)])) as never
      ) as unknown as Layer.Layer<never>
      const executor = LocalExecutor.layer(Toolkit.make(...own, search), {
        rules: [needs("refund", "search")],
        policy: { default: "allow" }
      }).pipe(Layer.provide(handlers)) as unknown as Layer.Layer<ToolExecutor.ToolExecutor>
      yield* Effect.gen(function*() {
        const process = yield* Effect.flatMap(ToolExecutor.ToolExecutor, (it) => it.process({ provided: ["search"] }))
        assert.deepStrictEqual(yield* process.allowedNext, ["verify", "stop", "search"])
        yield* process.answer({ tools: {} }, [...searched("s1", false) as ReadonlyArray<never>, null as never])
        assert.deepStrictEqual(yield* process.toolChoice, "auto")
      }).pipe(Effect.provide(executor))
    })))
})
