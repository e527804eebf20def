/**
 * Random waves whose handlers note when they really run: what an event stream
 * says of a call is not taken on trust.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as StateStore from "../../../../src/core/store/StateStore.ts"
import { ToolAnnotations, ToolCall, ToolContext, type ToolOutcome } from "../../../../src/index.ts"
import { randomFrom } from "../../../../src/testing/SeededRandom.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import { type Options, run, tag, type ToolSpec } from "../../../support/Harness.ts"
import { seeds, timeout } from "../../../support/seeds.ts"

const classes = ["ReadOnly", "ConcurrentMut", "SerialMut"] as const
const caps = { ReadOnly: 3, ConcurrentMut: 2, SerialMut: 1 }

const play = (seed: number) => {
  const { chance, int, pick } = randomFrom(seed)
  const problems: Array<string> = []
  const running = new Map<string, number>()
  let interrupted = 0
  const settled = new Map<string, { settled: number; running: boolean; released: number }>()
  const memory = StateStore.makeMemory()
  const store: StateStore.StateStore["Service"] = {
    ...memory,
    reserve: (...args) => {
      const answer = Effect.runSync(memory.reserve(...args))
      for (const it of answer) {
        if (!("_tag" in it)) settled.set(it.id, { settled: 0, running: false, released: 0 })
      }
      return Effect.succeed(answer)
    },
    settle: (reservation, settlement, now) => {
      const entry = settled.get(reservation.id)!
      entry.settled++
      entry.running = settlement.key === "running"
      return memory.settle(reservation, settlement, now)
    },
    release: (reservation, now) => {
      settled.get(reservation.id)!.released++
      return memory.release(reservation, now)
    }
  }
  const enter = (name: string, limit: number) =>
    Effect.sync(() => {
      const count = (running.get(name) ?? 0) + 1
      running.set(name, count)
      if (count > limit) problems.push(`${count} of ${name} at once`)
    })
  const leave = (name: string) => Effect.sync(() => void running.set(name, running.get(name)! - 1))

  const toolOf = (kind: (typeof classes)[number]): ToolSpec => ({
    class: kind,
    handler: (params) => {
      const { act, key, millis, wave } = params as { act: string; key: string; millis: number; wave: number }
      const body = Effect.gen(function*() {
        if (wave < interrupted && act !== "probe") {
          problems.push(`a call of wave ${wave} started after its interruption`)
        }
        switch (act) {
          case "fail":
            return yield* Effect.delay(Effect.fail("no"), millis)
          case "die":
            return yield* Effect.delay(Effect.die("no"), millis)
          case "hang":
            return yield* Effect.never
          case "commit":
            return yield* Effect.flatMap(ToolContext.ToolContext, (it) => it.commit(Effect.sleep(millis)))
          default:
            return yield* Effect.sleep(millis)
        }
      })
      // in parallel mode all writers share one pool
      const pool = options.mode === "parallel" && kind === "SerialMut" ? "ConcurrentMut" : kind
      const counted = Effect.acquireUseRelease(
        Effect.all([enter(pool, caps[pool]), kind === "ReadOnly" ? Effect.void : enter(`key ${key}`, 1)]),
        () => body,
        () => Effect.all([leave(pool), kind === "ReadOnly" ? Effect.void : leave(`key ${key}`)])
      )
      return counted
    },
    annotate: (tool) => tool.annotate(ToolAnnotations.Resources, (params) => [(params as { key: string }).key])
  })
  const options: Options = {
    store,
    pools: { read: 3, concurrent: 2, serial: 1 },
    mode: pick(["classes", "parallel", "sequential"]),
    onExecutionError: pick(["continue", "continue", "stop"]),
    executionTimeout: 45,
    commitTimeout: 200,
    cleanupGrace: 50,
    dedupe: pick<Options["dedupe"]>([{}, false, { inFlight: "join" }, { inFlight: "join", onDuplicate: "replay" }]),
    rules: chance(0.4) ? [{ _tag: "MaxCalls", tool: "*", max: int(8) }] : [],
    guards: chance(0.3)
      ? [{ name: "slow", check: (it) => it.call.id === "1" ? Effect.delay(Effect.fail("no"), 5) : Effect.void }]
      : []
  }
  const tools = Object.fromEntries(classes.map((it) => [it, toolOf(it)]))
  const program = run(tools, options, ({ executor, process }) =>
    Effect.gen(function*() {
      const first = Array.from({ length: 1 + int(14) }, (_, n) =>
        ToolCall.make(String(n), pick(classes), {
          act: pick(["sleep", "sleep", "sleep", "fail", "die", "hang", "commit"]),
          key: pick(["a", "b"]),
          millis: pick([0, 0, 5, 10, 45, 60]),
          wave: 0
        }))
      const fiber = yield* Effect.forkChild(process.executeWave(first), { startImmediately: chance(0.5) })
      const outcome = yield* Effect.gen(function*() {
        if (chance(0.3)) yield* Effect.forkChild(Effect.delay(process.cancelCall(String(int(14))), int(30)))
        if (chance(0.1)) yield* Effect.forkChild(Effect.delay(process.cancel("enough"), int(30)))
        if (chance(0.5)) return yield* Fiber.join(fiber)
        yield* Effect.sleep(int(80))
        if (fiber.pollUnsafe() !== undefined) return yield* Fiber.join(fiber)
        interrupted = 1
        yield* Fiber.interrupt(fiber)
        return undefined
      })
      if (outcome !== undefined) check(first, outcome)
      yield* Effect.sleep("1 second")
      assert.deepStrictEqual((yield* executor.orphans).running, [])
      for (const [id, it] of settled) {
        if (it.settled !== 1) problems.push(`reservation ${id} settled ${it.settled} times`)
        if (it.released !== (it.running ? 1 : 0)) problems.push(`reservation ${id} released ${it.released} times`)
      }
      // every permit is back: as many calls as there are permits run at once
      if (options.rules!.length === 0) {
        for (const kind of classes) {
          const probe = yield* executor.process()
          const before = yield* VirtualTime.now
          const wave = yield* probe.executeWave(Array.from({ length: caps[kind] }, (_, n) =>
            ToolCall.make(`probe${n}`, kind, { act: "probe", key: `probe${n}`, millis: 20, wave: 1 })))
          if (
            !wave.outcomes.every((it) =>
              ["Succeeded", "GuardRejected"].includes(tag(it))
            )
          ) problems.push("a probe failed")
          const guards = options.guards!.length > 0 ? 5 : 0
          const rounds = options.mode === "sequential" ? caps[kind] : 1
          const took = (yield* VirtualTime.now) - before
          if (took > 20 * rounds + guards) {
            problems.push(`the probe of ${kind} took ${took}`)
          }
        }
      }
    }))
  const check = (calls: ReadonlyArray<ToolCall.ToolCall>, wave: ToolOutcome.WaveResult) => {
    assert.deepStrictEqual(wave.outcomes.map((it) => [it.callId, it.index]), calls.map((it, index) => [it.id, index]))
    assert.deepStrictEqual(wave.toolMessages.map((it) => it.callId), calls.map((it) => it.id))
  }
  return Effect.map(program, () => problems)
}

describe("random waves", () => {
  it.effect("hold every law", () =>
    Effect.gen(function*() {
      for (const seed of seeds(400)) {
        const problems = yield* Effect.orDie(play(seed))
        assert.deepStrictEqual(problems, [], `seed ${seed}`)
      }
    }), timeout)
})
