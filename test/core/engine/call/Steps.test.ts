/** Calls that a loop hands over one by one. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as AiSdk from "../../../../src/adapters/AiSdk.ts"
import { ConfigurationError, type ToolProcess } from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import * as Harness from "../../../support/Harness.ts"

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
    run({ dedupe: { onDuplicate: "replay", readWindow: "5 minutes" } }, ({ process }) =>
      Effect.gen(function*() {
        const wave = yield* process.executeWave([Harness.call("1", "large", {})])
        const answer = yield* (yield* process.step).execute(Harness.call("2", "large", {}))
        assert.include(answer.text, "kept as artifact")
        assert.strictEqual(answer.text, wave.toolMessages[0]?.text)
        assert.strictEqual(answer.value, answer.text)
      })))

  for (const mode of ["classes", "parallel", "sequential"] as const) {
    it.effect(`is cut where a wave is, whatever it holds (${mode})`, () => {
      const rules = [{ _tag: "RequiresPrecedingTools", tool: "broken", tools: ["first"] }] as const
      const kit = { ...tools, first: traced, both: { handler: traced, class: "ConcurrentMut" } } as const
      const names = ["read", "first", "both", "write", "unknown"]
      const waves = names.flatMap((a) =>
        names.flatMap((b) => names.flatMap((c) => [[a, b, c, "read"], [a, b, c, "both"]]))
      )
      return Harness.run(
        kit,
        { mode, rules, dedupe: false },
        ({ batch }) =>
          Effect.forEach(waves, (names) =>
            Effect.gen(function*() {
              log.length = 0
              yield* (yield* batch.process()).executeWave(names.map((name, n) => Harness.call(`${n}`, name, { n })))
              const wave = log.join(" ")
              log.length = 0
              yield* together(yield* (yield* batch.process()).step, ...names)
              assert.strictEqual(log.join(" "), wave, names.join())
            }), { discard: true })
      )
    })
  }

  const stop = { onExecutionError: "stop", tools: { hang: { timeout: 500 } } } as const
  const stopping = { ...tools, hang: () => Effect.never } as const
  const tagsOf = (answers: ReadonlyArray<ToolProcess.Answer>) => answers.map((it) => it.outcome._tag)

  it.effect("ends in stop mode at its first refused or timed out call, for what comes later, too", () =>
    Harness.run(stopping, stop, ({ process }) =>
      Effect.gen(function*() {
        const step = yield* process.step
        const [times, ...rest] = yield* together(step, "hang", "write", "write", "nothing")
        assert.deepStrictEqual(tagsOf([times!, ...rest]), ["TimedOut", "Skipped", "Skipped", "Skipped"])
        assert.strictEqual(yield* VirtualTime.now, 500)
        assert.deepStrictEqual(tagsOf([yield* step.execute(Harness.call("9", "read", { n: 9 }))]), ["Skipped"])
        const next = yield* together(yield* process.step, "read", "nothing", "read")
        assert.deepStrictEqual(tagsOf(next), ["Succeeded", "Denied", "Skipped"])
      })))

  it.effect("lets in stop mode what came before the place run on", () =>
    Harness.run(stopping, stop, ({ process }) =>
      Effect.gen(function*() {
        const answers = yield* together(yield* process.step, "read", "hang", "read", "write")
        assert.deepStrictEqual(tagsOf(answers), ["Succeeded", "TimedOut", "Succeeded", "Skipped"])
        assert.strictEqual(yield* VirtualTime.now, 1_000)
      })))

  it.effect("lets a call be cancelled that waits for its turn", () =>
    run({}, ({ process }) =>
      Effect.gen(function*() {
        const all = together(yield* process.step, "write", "write", "write")
        const [answers] = yield* Effect.all([all, Effect.delay(process.cancelCall("1"), 10)], { concurrency: 2 })
        assert.deepStrictEqual(tagsOf(answers), ["Succeeded", "Cancelled", "Succeeded"])
        assert.deepStrictEqual(log, "+0 -0 +2 -2".split(" "))
      })))

  it.effect("cannot be where people are asked up front", () =>
    Harness.run(tools, { approval: "upfront" }, ({ process }) =>
      Effect.gen(function*() {
        const guarded = Effect.asVoid(process.guard({ tools: {} }))
        for (const begun of [Effect.asVoid(process.step), guarded, Effect.asVoid(AiSdk.toTools(process))]) {
          const error = yield* Effect.flip(begun)
          assert.instanceOf(error, ConfigurationError.ConfigurationError)
          assert.include(error.message, "executeWave")
        }
      })))
})
