/** Agents as tools of agents. */
import { assert, describe, it } from "@effect/vitest"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { AgentExecutor, DispatchAgent, SubAgent } from "../../src/agent/index.ts"
import { LocalExecutor } from "../../src/index.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as VirtualTime from "../../src/testing/VirtualTime.ts"
import { endOf } from "../support/Agents.ts"
import { declare } from "../support/Harness.ts"

const Read = declare("read")
const Write = declare("write", { class: "SerialMut" })

const research = SubAgent.make("research", {
  description: "Finds out",
  parameters: Schema.Struct({ topic: Schema.String }),
  prompt: ({ topic }) => `Find out about ${topic}`
})
const dispatch = DispatchAgent.make()

const kit = Toolkit.make(Read, Write, research.tool, dispatch.tool)
const plain = Toolkit.make(Read, Write)

const ran: Array<string> = []
const Handlers = Layer.mergeAll(
  plain.toLayer({
    read: () => Effect.sync(() => (ran.push("read"), "text")),
    write: () => Effect.sync(() => (ran.push("write"), "written"))
  } as never) as Layer.Layer<never>,
  research.layer,
  dispatch.layer
)

const run = (
  script: ScriptedModel.Script,
  options: AgentExecutor.Options,
  policy: LocalExecutor.Options["policy"] = { default: "allow" }
) =>
  VirtualTime.run(Effect.scoped(Effect.gen(function*() {
    ran.length = 0
    const model = yield* Effect.orDie(ScriptedModel.make(script))
    const executor = LocalExecutor.layer(kit, { policy }).pipe(
      Layer.provide(Handlers as never)
    ) as unknown as Layer.Layer<never>
    const layer = AgentExecutor.layer.pipe(Layer.provide([executor, model.layer])) as unknown as Layer.Layer<
      AgentExecutor.AgentExecutor
    >
    const agents = Context.get(yield* Layer.build(layer), AgentExecutor.AgentExecutor)
    const events = yield* Stream.runCollect(agents.runOperation(options))
    return { events, end: endOf(events), requests: yield* model.requests }
  })))

describe("a sub-agent", () => {
  it.effect("works for a call, and what it says last is the result", () =>
    Effect.gen(function*() {
      const { end, events, requests } = yield* run([
        { calls: [{ id: "1", name: "research", params: { topic: "fish" } }] },
        { calls: [{ id: "2", name: "read", params: {} }], usage: { input: 5, output: 1 } },
        { text: "Fish swim." },
        { text: "They swim." }
      ], { prompt: "Fish?" })
      assert.strictEqual(end.text, "They swim.")
      assert.deepStrictEqual([end.turns, end.calls, end.usage.inputTokens], [2, 2, 5])
      assert.strictEqual(requests.length, 4)
      const below = events.filter((it) => it.agentPath.length > 0)
      assert.deepStrictEqual(new Set(below.map((it) => it.agentPath.join("/"))), new Set(["research"]))
      // each event once, its own end of the operation and of its wave not at all
      assert.strictEqual(below.filter((it) => it._tag === "ToolCallComplete").length, 1)
      assert.strictEqual(below.filter((it) => it._tag === "ToolResultReceived").length, 1)
      assert.strictEqual(events.filter((it) => it._tag === "OperationEnd").length, 1)
      assert.strictEqual(below.filter((it) => it._tag === "ToolsEnd").length, 0)
    }))

  it.effect("that only reads changes nothing, whatever its model says", () =>
    Effect.gen(function*() {
      const { end } = yield* run([
        { calls: [{ id: "1", name: "dispatch_agent", params: { prompt: "Look" } }] },
        { calls: [{ id: "2", name: "write", params: {} }, { id: "3", name: "read", params: {} }] },
        { text: "Looked." },
        { text: "Done." }
      ], { prompt: "Look" })
      assert.strictEqual(end.text, "Done.")
      assert.deepStrictEqual(ran, ["read"])
    }))
})
