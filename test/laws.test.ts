import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Stream } from "effect"
import { type ToolCall, type ToolEvent, ToolExecutor, type ToolOutcome } from "effect-tool-executor"
import { VirtualTime } from "effect-tool-executor/testing"
import * as RandomCase from "./support/randomCase.ts"
import { seeds, timeout } from "./support/seeds.ts"

interface Run {
  readonly calls: ReadonlyArray<ToolCall.ToolCall>
  readonly exit: Exit.Exit<ToolOutcome.WaveResult>
}

/** Two processes of one batch, a few waves side by side, cancelled and interrupted at random times. */
const play = (seed: number) => {
  const it = RandomCase.make(seed)
  const { chance, int, pick } = it.random
  const program = Effect.gen(function*() {
    const executor = yield* ToolExecutor.ToolExecutor
    const batch = yield* executor.batch("batch")
    const processes = [yield* batch.process(), yield* batch.process()]
    const events: Array<ToolEvent.ToolEvent> = []
    for (const process of processes) {
      const observe = Stream.runForEach(process.events, (event) => Effect.sync(() => events.push(event)))
      yield* Effect.forkScoped(observe, { startImmediately: true })
    }
    const later = <A>(effect: Effect.Effect<A>) =>
      Effect.forkChild(Effect.andThen(Effect.sleep(int(60)), effect), { startImmediately: true })
    const running: Array<{ readonly calls: Run["calls"]; readonly fiber: Fiber.Fiber<ToolOutcome.WaveResult> }> = []
    for (let left = 1 + int(3); left > 0; left--) {
      const process = pick(processes)
      const calls = it.wave()
      const fiber = yield* Effect.forkChild(process.executeWave(calls), { startImmediately: true })
      running.push({ calls, fiber })
      if (chance(0.2)) yield* later(process.cancelCall(pick(["same", `c${int(20)}`])))
      if (chance(0.15)) yield* later(process.cancel("stop"))
      if (chance(0.25)) yield* later(Fiber.interrupt(fiber))
      if (chance(0.5)) yield* Fiber.await(fiber)
      if (chance(0.3)) yield* Effect.sleep(int(30))
    }
    const runs: Array<Run> = []
    for (const { calls, fiber } of running) runs.push({ calls, exit: yield* Fiber.await(fiber) })
    yield* Effect.sleep("1 second")
    return { runs, events, orphans: yield* executor.orphans }
  })
  return Effect.map(
    VirtualTime.run(program.pipe(Effect.scoped, Effect.provide(it.layer))),
    (played) => ({ ...played, ...it })
  )
}

type Played = Effect.Success<ReturnType<typeof play>>

const completions = ({ events }: Played) =>
  events.flatMap((event) => event._tag === "ToolCallComplete" ? [event.outcome] : [])

/** The outcome is that of another call's execution. */
const isShared = (outcome: ToolOutcome.ToolOutcome): boolean => "replayOf" in outcome && outcome.replayOf !== undefined

/**
 * Most calls that ran at once, of the tools in the group. By their times, not by
 * the order of events: two processes are observed by two streams.
 */
const peak = (played: Played, group: (tool: string) => boolean): number => {
  const changes = completions(played).flatMap((outcome) => {
    const { duration, startedAt, tool } = outcome
    if (startedAt === undefined || duration === undefined || isShared(outcome) || !group(tool)) return []
    return duration === 0 ? [] : [{ at: startedAt, change: 1 }, { at: startedAt + duration, change: -1 }]
  })
  let now = 0
  let most = 0
  for (const { change } of changes.toSorted((a, b) => a.at - b.at || a.change - b.change)) {
    now += change
    most = Math.max(most, now)
  }
  return most
}

/** What was played by a law before this one. */
const played = new Map<number, Played>()

const law = (name: string, holds: (played: Played) => void, options?: { tags: Array<string> }) =>
  it.effect(name, () =>
    Effect.gen(function*() {
      for (const seed of seeds(80)) {
        const run = played.get(seed) ?? (yield* play(seed))
        played.set(seed, run)
        yield* Effect.sync(() => {
          try {
            holds(run)
          } catch (cause) {
            throw new Error(`seed ${seed}`, { cause })
          }
        })
      }
    }), { timeout, ...options })

describe("whatever happens to the waves of two processes", () => {
  law("every call has one outcome, with its id, in input order", ({ runs }) => {
    for (const { calls, exit } of runs) {
      if (Exit.isSuccess(exit)) {
        assert.deepStrictEqual(exit.value.outcomes.map((it) => it.callId), calls.map((it) => it.id))
        assert.deepStrictEqual(exit.value.outcomes.map((it) => it.index), calls.map((_, index) => index))
        assert.deepStrictEqual(exit.value.toolMessages.map((it) => it.callId), calls.map((it) => it.id))
      } else {
        assert.isTrue(exit.cause.reasons.every((reason) => reason._tag === "Interrupt"))
      }
    }
  }, { tags: ["A1"] })

  law("observers see each call queued once and completed once, and each wave end once", (played) => {
    const count = (tag: ToolEvent.Tag) => played.events.filter((event) => event._tag === tag).length
    const calls = played.runs.reduce((sum, run) => sum + run.calls.length, 0)
    assert.strictEqual(count("ToolCallQueued"), calls)
    assert.strictEqual(count("ToolCallComplete"), calls)
    assert.strictEqual(count("ToolsEnd"), played.runs.length)
  }, { tags: ["E1"] })

  law("every reservation is settled once, and released when its fiber has ended", ({ orphans, recorder }) => {
    assert.deepStrictEqual(recorder.mistakes, [])
    const states = Array.from(recorder.states.values())
    assert.notInclude(states, "open")
    if (orphans.running.length === 0) assert.notInclude(states, "running")
  }, { tags: ["G6"] })

  law(
    "no pool and no cap runs more calls than it has permits, and SerialMut calls run alone except in parallel mode",
    (played) => {
      const isA = (wanted: string) => (name: string) => played.tools[name]?.class === wanted
      assert.isAtMost(peak(played, isA("ReadOnly")), played.pools.read)
      // in parallel mode all writers share one pool
      const isParallel = played.mode === "parallel"
      const isWriter = (name: string) => isA("ConcurrentMut")(name) || (isParallel && isA("SerialMut")(name))
      assert.isAtMost(peak(played, isWriter), played.pools.concurrent)
      if (!isParallel) assert.isAtMost(peak(played, isA("SerialMut")), 1)
      for (const [name, { maxConcurrent }] of Object.entries(played.tools)) {
        if (maxConcurrent !== undefined) assert.isAtMost(peak(played, (tool) => tool === name), maxConcurrent)
      }
    },
    { tags: ["C3"] }
  )

  law("a tool never starts more often than MaxCalls allows", (played) => {
    for (const rule of played.rules) {
      if (rule._tag !== "MaxCalls") continue
      for (const name of Object.keys(played.tools)) {
        if (rule.tool !== "*" && rule.tool !== name) continue
        assert.isAtMost(
          completions(played).filter((it) => it.tool === name && it.attempt > 0 && !isShared(it)).length,
          rule.max
        )
      }
    }
  }, { tags: ["MaxCalls"] })

  law("only a call that ran has a start, a duration and commits", (played) => {
    for (const outcome of completions(played)) {
      assert.strictEqual(outcome.startedAt !== undefined, outcome.attempt > 0)
      assert.strictEqual(outcome.duration !== undefined, outcome.attempt > 0)
      if (outcome.attempt === 0) assert.strictEqual(outcome.commits, 0)
    }
  }, { tags: ["O4"] })
})
