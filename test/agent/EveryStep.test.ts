/**
 * An operation with sub-agents and questions whose caller is interrupted at each step it
 * takes: nothing of it is left.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { AgentExecutor, SubAgent, TranscriptStore } from "../../src/agent/index.ts"
import * as Approvals from "../../src/core/gates/Approvals.ts"
import { ToolExecutor } from "../../src/index.ts"
import * as ScriptedModel from "../../src/testing/ScriptedModel.ts"
import * as VirtualTime from "../../src/testing/VirtualTime.ts"
import { agentTool, words } from "../support/Agents.ts"
import * as Harness from "../support/Harness.ts"
import { everyStep } from "../support/seeds.ts"

const call = (name: string, params: unknown = {}) => ({ name, params })

const child = SubAgent.make("child", {
  description: "Works",
  parameters: Schema.Struct({ task: Schema.String }),
  prompt: ({ task }) => task
})

const works = () => Effect.as(Effect.sleep("10 millis"), "worked")

const tools = {
  read: works,
  asked: { handler: works, class: "SerialMut" },
  limited: { handler: works, class: "SerialMut" },
  child: agentTool(child)
} as const

const calls: { readonly [task: string]: ReadonlyArray<ReturnType<typeof call>> } = {
  go: [call("child", { task: "side" }), call("child", { task: "by side" }), call("asked"), call("read")],
  side: [call("read", { n: 1 }), call("asked", { n: 1 }), call("child", { task: "below" })],
  "by side": [call("asked", { n: 2 }), call("read", { n: 2 })],
  below: [call("read", { n: 3 })],
  later: [call("read", { n: 4 }), call("limited"), call("child", { task: "below" })]
}

const script: ScriptedModel.Script = ({ prompt }) => {
  const said = words(prompt)
  const last = said.at(-1)!
  if (last.startsWith("user: ")) return { text: "I look.", calls: calls[last.slice(6)]!, between: "1 millis" }
  return { text: said.filter((it) => it.startsWith("result")).length === 3 ? "All worked." : "Not all worked." }
}

type How = "read" | "steered" | "run"

interface Seen {
  isBegun: boolean
  /** Orphans, requests and questions that are there once it is over, and what becomes of those who come later. */
  left: ReadonlyArray<unknown>
}

/** The operation of a session; what is left once its caller is gone. */
const program = (how: How, perHeartbeat: boolean, seen: Seen) =>
  Effect.gen(function*() {
    const model = yield* Effect.orDie(ScriptedModel.make(script))
    const approvals = yield* Approvals.make()
    const host: Harness.Options = {
      approvals,
      policy: { default: "allow", ask: ["asked"] },
      pools: { read: 1 },
      rules: [{ _tag: "MaxCalls", tool: "limited", max: 1 }]
    }
    const layer = AgentExecutor.layer.pipe(
      Layer.provideMerge(Harness.layer(tools, host)),
      Layer.provide([model.layer, Layer.succeed(Approvals.Approvals, approvals), TranscriptStore.layerMemory()])
    )
    const context = yield* Effect.orDie(Layer.build(layer))
    const agents = Context.get(context, AgentExecutor.AgentExecutor)
    const executor = Context.get(context, ToolExecutor.ToolExecutor)
    const people = Stream.runForEach(approvals.changes, (change) =>
      change._tag === "Ended"
        ? Effect.void
        : Effect.andThen(
          Effect.sleep("5 millis"),
          Effect.ignore(approvals.answer(change.request.id, { _tag: "ApproveOnce" }))
        ))
    yield* Effect.forkScoped(people, { startImmediately: true })
    const options = { prompt: "go", mode: "Interactive", session: "s", perHeartbeat } as const
    let open: Effect.Effect<number> = Effect.succeed(0)
    const operation = how === "run"
      ? agents.run(options)
      : how === "read"
      ? Stream.runDrain(agents.runOperation(options))
      : Effect.scoped(Effect.flatMap(agents.start(options), (agent) => {
        open = Effect.map(agent.pending, (it) => it.length)
        return agent.result
      }))
    seen.isBegun = true
    yield* Effect.onInterrupt(operation, () =>
      Effect.gen(function*() {
        const now = [(yield* executor.orphans).running.length, (yield* approvals.list).length, yield* open]
        const next = agents.run({ ...options, prompt: [] })
        const { text } = yield* Effect.timeout(
          Effect.andThen(next, agents.run({ prompt: "later", mode: "Interactive" })),
          "1 minute"
        )
        seen.left = [...now, text, (yield* approvals.list).length]
      }).pipe(Effect.orDie))
  }).pipe(Effect.scoped)

describe("an operation whose caller is interrupted", () => {
  for (const how of ["read", "steered", "run"] as const) {
    it.effect(`at whatever step leaves nothing, ${how}`, () =>
      Effect.gen(function*() {
        let interrupted = 0
        for (let steps = everyStep.first;; steps += everyStep.next) {
          const seen: Seen = { isBegun: false, left: [] }
          const ran = yield* Effect.result(VirtualTime.run(program(how, interrupted % 2 === 0, seen), { steps }))
          if (Result.isSuccess(ran)) break
          assert.strictEqual(ran.failure._tag, "Stuck")
          if (!seen.isBegun) continue
          interrupted++
          assert.deepStrictEqual(seen.left, [0, 0, 0, "All worked.", 0], `after ${steps} steps`)
        }
        assert.isAbove(interrupted, 20 / everyStep.next)
      }))
  }
})
