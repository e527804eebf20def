/** Approvals together with shared outcomes, running calls and commands that look like something else. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Approvals from "../../src/core/gates/Approvals.ts"
import { type Policy, ToolContext } from "../../src/index.ts"
import * as VirtualTime from "../../src/testing/VirtualTime.ts"
import * as RunCommand from "../../src/tools/command/RunCommand.ts"
import { call, open, tags, type ToolSpec } from "../support/Harness.ts"

const once = { _tag: "ApproveOnce" } as const

/** Runs waves one after another; each request is answered by these people in turn. Gives the outcomes and who was asked. */
const talk = (
  spec: Partial<ToolSpec> & Pick<ToolSpec, "handler">,
  policy: Policy.Policy,
  people: ReadonlyArray<string>,
  waves: ReadonlyArray<ReadonlyArray<ReturnType<typeof call>>>,
  options: Parameters<typeof open>[1] = {},
  answer: Approvals.Answer = once
) =>
  VirtualTime.run(
    Effect.scoped(Effect.gen(function*() {
      const approvals = yield* Approvals.make({ timeout: "1 minute" })
      const asked: Array<string> = []
      const answering = yield* Effect.forkScoped(Effect.forever(Effect.gen(function*() {
        yield* Effect.sleep("1 second")
        for (const request of yield* approvals.list) {
          if (!asked.includes(request.id)) asked.push(request.id)
          for (const person of people) yield* Effect.ignore(approvals.answer(request.id, answer, request, person))
        }
      })))
      const { executor } = yield* open({ pay: { class: "SerialMut", ...spec } }, { policy, approvals, ...options })
      const outcomes: Array<ReadonlyArray<string>> = []
      const process = yield* executor.process({ batch: "b" })
      for (const wave of waves) outcomes.push(tags(yield* process.executeWave(wave)))
      yield* Fiber.interrupt(answering)
      return { outcomes, asked: asked.length }
    })),
    { limit: "1 day" }
  )

const pay = (id: string, amount = 5) => call(id, "pay", { amount })

describe("calls that are asked about each time", () => {
  for (const dedupe of [{ inFlight: "join" }, { onDuplicate: "replay" }] as const) {
    it.effect(`are asked about where they would share an outcome (${Object.values(dedupe)[0]})`, () =>
      Effect.gen(function*() {
        const slow = { handler: () => Effect.delay(Effect.succeed("paid"), "10 seconds") }
        const waves = "inFlight" in dedupe ? [[pay("1"), pay("2")]] : [[pay("1")], [pay("2")]]
        const found = yield* talk(slow, { askAlways: ["pay"] }, ["ada"], waves, { dedupe, mode: "parallel" }, {
          _tag: "ApproveForScope",
          scope: "tool"
        })
        assert.deepStrictEqual(found.outcomes.flat(), ["Succeeded", "Succeeded"])
        assert.strictEqual(found.asked, 2)
      }))
  }
})

describe("a running call", () => {
  const writing = {
    handler: () =>
      Effect.gen(function*() {
        const context = yield* ToolContext.ToolContext
        yield* context.confirmWrite(Effect.succeed([{ path: "secret/a", before: undefined, after: "x" }]))
        yield* context.commit(Effect.void)
        return "written"
      })
  }
  const policy: Policy.Policy = {
    allow: ["pay"],
    ask: [{ tool: "pay", target: "secret/*", approvers: { count: 2 } }]
  }

  it.effect("writes only what two people approve where a rule wants two", () =>
    Effect.gen(function*() {
      const one = yield* talk(writing, policy, ["ada", "Ada"], [[pay("1")]])
      assert.deepStrictEqual(one.outcomes, [["WriteDenied"]])
      const two = yield* talk(writing, policy, ["ada", "bo"], [[pay("1")]])
      assert.deepStrictEqual(two.outcomes, [["Succeeded"]])
    }))
})

describe("a command", () => {
  it("is never taken for a host, nor for a command without its sandbox", () => {
    for (const line of ["host:evil.example", "line: x", "argv: x", "without sandbox: npm test", "with network: ls"]) {
      const words = line.split(" ")
      for (const params of [{ command: line }, { argv: words }]) {
        const [target] = RunCommand.targets(params)
        assert.notStrictEqual(target!.text, line)
      }
    }
  })
})
