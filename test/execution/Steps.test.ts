/** Calls that a loop hands over one by one. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { ToolProcess } from "../../src/index.ts"
import * as Harness from "../support/Harness.ts"

const log: Array<string> = []

const traced: Harness.Handler = ({ n }) =>
  Effect.acquireUseRelease(
    Effect.sync(() => log.push(`+${n}`)),
    () => Effect.sleep("1 second"),
    () => Effect.sync(() => log.push(`-${n}`))
  )

const tools = {
  read: traced,
  write: { handler: traced, class: "SerialMut" },
  large: () => Effect.succeed("x".repeat(50_000)),
  broken: () => Effect.fail("no")
} as const

const run = <A, E>(options: Harness.Options, program: (env: Harness.Env) => Effect.Effect<A, E>) => {
  log.length = 0
  return Harness.run(tools, options, program)
}

const together = (step: ToolProcess.Step, ...names: ReadonlyArray<string>) =>
  Effect.forEach(names, (name, n) => step.execute(Harness.call(`${n}`, name, { n })), { concurrency: "unbounded" })

describe("a step", () => {
  it.effect("lets reads go side by side and a write alone, in order of arrival", () =>
    run({}, ({ process }) =>
      Effect.gen(function*() {
        yield* together(yield* process.step, "read", "read", "write", "read")
        assert.deepStrictEqual(log, "+0 +1 -0 -1 +2 -2 +3 -3".split(" "))
      })))

  it.effect("lets all go at once in an executor that does", () =>
    run({ mode: "parallel", pools: { serial: 2 } }, ({ process }) =>
      Effect.gen(function*() {
        yield* together(yield* process.step, "read", "write", "read")
        assert.deepStrictEqual(log, "+0 +1 +2 -0 -1 -2".split(" "))
      })))

  it.effect("lets each go alone in an executor that does", () =>
    run({ mode: "sequential" }, ({ process }) =>
      Effect.gen(function*() {
        yield* together(yield* process.step, "read", "read")
        assert.deepStrictEqual(log, "+0 -0 +1 -1".split(" "))
      })))

  it.effect("lets a read that an ordering rule names go before those that come after it", () =>
    run(
      { rules: [{ _tag: "RequiresPrecedingTools", tool: "large", tools: ["read"] }] },
      ({ process }) =>
        Effect.gen(function*() {
          const answers = yield* together(yield* process.step, "read", "large")
          assert.deepStrictEqual(answers.map((it) => it.outcome._tag), ["Succeeded", "Succeeded"])
        })
    ))

  it.effect("does not wait for another step", () =>
    run({}, ({ process }) =>
      Effect.gen(function*() {
        const [one, other] = [yield* process.step, yield* process.step]
        yield* Effect.all([together(one, "write", "read"), other.execute(Harness.call("2", "read", { n: 2 }))], {
          concurrency: 2
        })
        assert.deepStrictEqual(log, "+0 +2 -0 -2 +1 -1".split(" "))
      })))

  it.effect("gives the place of a call that was given up to the next", () =>
    run({}, ({ process }) =>
      Effect.gen(function*() {
        const step = yield* process.step
        const call = (n: number, name: string) => step.execute(Harness.call(`${n}`, name, { n }))
        const [, given] = yield* Effect.all([
          call(1, "write"),
          Effect.timeoutOption(call(2, "write"), "500 millis"),
          call(3, "read")
        ], { concurrency: 3 })
        assert.strictEqual(given._tag, "None")
        assert.deepStrictEqual(log, "+1 -1 +3 -3".split(" "))
      })))

  it.effect("gives the output whole, and the text that the model is told", () =>
    run({}, ({ process }) =>
      Effect.gen(function*() {
        const [large, broken] = yield* together(yield* process.step, "large", "broken")
        assert.strictEqual(large?.value, "x".repeat(50_000))
        assert.include(large?.text, "kept as artifact")
        assert.deepInclude(broken, { value: undefined, text: "\"broken\" failed: no" })
      })))

  it.effect("gives the text of a replayed output that is kept elsewhere", () =>
    run({ dedupe: { onDuplicate: "replay" } }, ({ process }) =>
      Effect.gen(function*() {
        const wave = yield* process.executeBatch([Harness.call("1", "large", {})])
        const answer = yield* (yield* process.step).execute(Harness.call("2", "large", {}))
        assert.include(answer.text, "kept as artifact")
        assert.strictEqual(answer.text, wave.toolMessages[0]?.text)
        assert.strictEqual(answer.value, answer.text)
      })))
})
