/** Runs the agent with a scripted model, in virtual time: no key, no network. */
import { Effect, Layer } from "effect"
import { Approvals } from "effect-tool-executor"
import { AgentExecutor } from "effect-tool-executor/agent"
import { ScriptedModel, VirtualTime } from "effect-tool-executor/testing"
import assert from "node:assert/strict"
import { test } from "node:test"
import { Agents, options } from "../src/agent.ts"

type Script = Parameters<typeof ScriptedModel.layer>[0]

/** Runs the agent; the approver gives this answer. */
const run = (script: Script, answer: Approvals.Answer) =>
  Effect.gen(function*() {
    const agents = yield* AgentExecutor.AgentExecutor
    const end = yield* agents.run(options("Pay back order 17"))
    const { unexpected } = yield* ScriptedModel.ScriptedModel
    assert.deepEqual(yield* unexpected, [])
    return end.text
  }).pipe(
    Effect.provide(Agents.pipe(
      Layer.provideMerge(ScriptedModel.layer(script)),
      Layer.provide(Approvals.layerApprover(() => Effect.succeed(answer)))
    )),
    VirtualTime.run,
    Effect.runPromise
  )

const find = { calls: [{ id: "1", name: "find_order", params: { number: "17" } }] }
const refund = { calls: [{ id: "2", name: "refund", params: { number: "17", cents: 4_900 } }] }

test("an order is paid back after it was found and a person approved", async () => {
  const paid = { text: "Done.", expect: { results: [{ id: "2", isFailure: false, includes: "Paid 4900 cents" }] } }
  assert.equal(await run([find, refund, paid], { _tag: "ApproveOnce" }), "Done.")
})

test("the model reads why a person denied", async () => {
  const denied = { text: "Sorry.", expect: { results: [{ id: "2", isFailure: true, includes: "too much" }] } }
  assert.equal(await run([find, refund, denied], { _tag: "Deny", reason: "too much" }), "Sorry.")
})

test("nothing is paid before the order was found", async () => {
  const refused = { text: "Sorry.", expect: { results: [{ id: "2", isFailure: true, includes: "find_order" }] } }
  assert.equal(await run([refund, refused], { _tag: "ApproveOnce" }), "Sorry.")
})
