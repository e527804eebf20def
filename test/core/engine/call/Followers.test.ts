/** Calls that joined an equal one, when that one does not come to its own end. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { ToolAnnotations } from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import { call, calls, type Env, type Handler, run, tags } from "../../../support/Harness.ts"

const sleeper: Handler = ({ sleep }) => Effect.sleep(Number(sleep ?? 1_000))
const join = { dedupe: { inFlight: "join", scope: "principal" } } as const

describe("the calls that joined one that was cancelled while it ran", () => {
  it.effect("run once, and share that", () => {
    let runs = 0
    return run(
      { t: () => Effect.andThen(Effect.sync(() => ++runs), Effect.sleep(1_000)) },
      join,
      ({ process }) =>
        Effect.gen(function*() {
          yield* Effect.forkChild(Effect.delay(process.cancelCall("1"), 10))
          const wave = yield* process.executeWave(calls(["t", {}], ["t", {}], ["t", {}]))
          assert.deepStrictEqual(tags(wave), ["Cancelled", "Succeeded", "Succeeded"])
          assert.deepInclude(wave.outcomes[1], { startedAt: 10, attempt: 1 })
          assert.deepInclude(wave.outcomes[2], { replayOf: "2" })
          assert.strictEqual(runs, 2)
        })
    )
  })

  const ends: Record<string, (env: Env, leader: Fiber.Fiber<unknown, unknown>) => Effect.Effect<unknown>> = {
    "its process was cancelled": ({ process }) => process.cancel("enough"),
    "its batch was closed": ({ batch, executor }) => executor.completeBatch(batch.id),
    "its caller was interrupted": (_, leader) => Fiber.interrupt(leader)
  }
  for (const [why, end] of Object.entries(ends)) {
    it.effect(`run in a batch of their own when ${why}`, () =>
      run({ t: sleeper }, join, (env) =>
        Effect.gen(function*() {
          const other = yield* env.executor.process()
          const leader = yield* Effect.forkChild(env.process.executeWave(calls(["t", {}])), { startImmediately: true })
          const follower = yield* Effect.forkChild(other.executeWave(calls(["t", {}])), { startImmediately: true })
          yield* Effect.sleep(10)
          yield* end(env, leader)
          assert.deepStrictEqual(tags(yield* Fiber.join(follower)), ["Succeeded"])
          assert.strictEqual(yield* VirtualTime.now, 1_010)
        })))
  }

  it.effect("count in their turn as calls of their own", () =>
    run({ t: sleeper }, { ...join, turn: { maxCalls: 1 } }, ({ batch, process }) =>
      Effect.gen(function*() {
        const other = yield* batch.process()
        const leader = yield* Effect.forkChild(process.executeWave(calls(["t", {}])), { startImmediately: true })
        yield* Effect.forkChild(Effect.delay(Fiber.interrupt(leader), 10))
        assert.deepStrictEqual(tags(yield* other.executeWave(calls(["t", {}]))), ["Succeeded"])
        assert.deepStrictEqual(tags(yield* other.executeWave(calls(["t", { b: 1 }]))), ["CallBudgetExhausted"])
      })))
})

describe("the calls that joined one that failed and is not worth a retry", () => {
  it.effect("have their tool blocked in a process of their own", () =>
    run(
      {
        t: {
          handler: () => Effect.delay(Effect.fail("no"), 100),
          annotate: (tool) => tool.annotate(ToolAnnotations.IsRetryable, () => false)
        }
      },
      join,
      ({ batch, process }) =>
        Effect.gen(function*() {
          const [joined, alone] = [yield* batch.process(), yield* batch.process()]
          yield* Effect.forkChild(process.executeWave(calls(["t", {}])), { startImmediately: true })
          assert.deepStrictEqual(tags(yield* joined.executeWave(calls(["t", {}]))), ["Failed"])
          assert.deepStrictEqual(tags(yield* joined.executeWave(calls(["t", { b: 1 }]))), ["ToolBlocked"])
          // who did not join is told nothing
          assert.deepStrictEqual(tags(yield* alone.executeWave([call("3", "t", { b: 2 })])), ["Failed"])
        })
    ))
})
