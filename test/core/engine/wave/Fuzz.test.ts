/**
 * Random waves side by side, over stores and look-ups that take their time,
 * with calls that call others, joined calls, cancellations and interruptions:
 * every call has its outcome, everything reserved is settled once, and every
 * permit comes back.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as StateStore from "../../../../src/core/store/StateStore.ts"
import { ToolAnnotations, ToolCall, ToolContext, type ToolOutcome } from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import { type Options, run, tag, tags, type ToolSpec } from "../../../support/Harness.ts"
import { randomFrom } from "../../../support/randomCase.ts"
import { seeds, timeout } from "../../../support/seeds.ts"

const classes = ["ReadOnly", "ConcurrentMut", "SerialMut"] as const
const permits = { ReadOnly: 2, ConcurrentMut: 2, SerialMut: 1 }

/** What the handlers of all tools are told to do. */
interface Params {
  readonly act: "sleep" | "fail" | "hang" | "deaf" | "commit" | "nest"
  readonly millis: number
  readonly keys: ReadonlyArray<string>
  /** So long it takes to find the keys. */
  readonly slow?: number
  readonly inner: ReadonlyArray<ToolCall.ToolCall>
}

/** A store that often answers later, and what became of each reservation. */
const watchedStore = (delay: () => number) => {
  const memory = StateStore.makeMemory()
  const reservations = new Map<string, { settled: number; running: boolean; released: number }>()
  const answer = <A, E>(now: () => Effect.Effect<A, E>): Effect.Effect<A, E> => {
    const millis = delay()
    return millis === 0 ? now() : Effect.delay(Effect.suspend(now), millis)
  }
  const store: StateStore.StateStore["Service"] = {
    ...memory,
    reserve: (...asked) =>
      answer(() => {
        const reserved = Effect.runSync(memory.reserve(...asked))
        for (const it of reserved) {
          if (!("_tag" in it)) reservations.set(it.id, { settled: 0, running: false, released: 0 })
        }
        return Effect.succeed(reserved)
      }),
    settle: (reservation, settlement, now) =>
      answer(() => {
        const entry = reservations.get(reservation.id)!
        entry.settled++
        entry.running = settlement.key === "running"
        return memory.settle(reservation, settlement, now)
      }),
    release: (reservation, now) => {
      reservations.get(reservation.id)!.released++
      return memory.release(reservation, now)
    }
  }
  const mistakes = () =>
    Array.from(reservations).flatMap(([id, it]) => [
      ...it.settled === 1 ? [] : [`reservation ${id} was settled ${it.settled} times`],
      ...it.released === (it.running ? 1 : 0) ? [] : [`reservation ${id} was released ${it.released} times`]
    ])
  return { store, mistakes }
}

const play = (seed: number) => {
  const { chance, int, pick } = randomFrom(seed)
  const problems: Array<string> = []
  const isSlow = chance(0.5)
  const { mistakes, store } = watchedStore(() => isSlow && chance(0.7) ? 1 + int(5) : 0)

  const nest = (inner: ReadonlyArray<ToolCall.ToolCall>) =>
    Effect.scoped(Effect.gen(function*() {
      const { executor } = yield* ToolContext.ToolContext
      const process = yield* executor!.process()
      const wave = yield* process.executeWave(inner)
      answered(inner, wave)
      return tags(wave)
    }))
  const answered = (calls: ReadonlyArray<ToolCall.ToolCall>, { outcomes }: ToolOutcome.WaveResult) => {
    const ids = outcomes.map((it) => it.callId)
    if (ids.join() !== calls.map((it) => it.id).join()) problems.push(`${calls.length} calls have outcomes ${ids}`)
  }
  const spec = (kind: typeof classes[number]): ToolSpec => ({
    class: kind,
    handler: (params) => {
      const { act, inner, millis } = params as unknown as Params
      switch (act) {
        case "nest":
          return Effect.delay(nest(inner), millis)
        case "fail":
          return Effect.delay(Effect.fail("no"), millis)
        case "hang":
          return Effect.never
        case "deaf":
          return Effect.uninterruptible(Effect.sleep(millis * 3))
        case "commit":
          return Effect.flatMap(ToolContext.ToolContext, (it) => it.commit(Effect.sleep(millis)))
        case "sleep":
          return Effect.sleep(millis)
      }
    },
    annotate: (tool) =>
      tool.annotate(ToolAnnotations.Resources, (params) => {
        const { keys, slow } = params as Params
        return slow === undefined ? keys : Effect.delay(Effect.succeed(keys), slow)
      })
  })
  const oneWriter = chance(0.3)
  const options: Options = {
    store,
    pools: { read: permits.ReadOnly, concurrent: permits.ConcurrentMut, serial: permits.SerialMut },
    mode: pick(["classes", "parallel", "sequential"]),
    onExecutionError: pick(["continue", "stop"]),
    executionTimeout: 60,
    commitTimeout: 100,
    cleanupGrace: 30,
    ...(chance(0.2) ? { turn: { timeout: 50, minimumSlice: 10 } } : {}),
    dedupe: pick<Options["dedupe"]>([{}, false, { inFlight: "join" }, { inFlight: "join", onDuplicate: "replay" }]),
    ...(oneWriter ? { tools: { ConcurrentMut: { maxConcurrent: 1 } } } : {})
  }

  let lastId = 0
  const makeCall = (depth: number): ToolCall.ToolCall => {
    const params: Params = {
      act: depth > 0 && chance(0.4) ? "nest" : pick(["sleep", "sleep", "fail", "hang", "deaf", "commit"]),
      millis: pick([0, 1, 5, 10, 40]),
      keys: pick([[], ["a"], ["b"], ["a", "b"]]),
      ...(chance(0.2) ? { slow: 1 + int(5) } : {}),
      inner: depth > 0 ? Array.from({ length: 1 + int(3) }, () => makeCall(depth - 1)) : []
    }
    return ToolCall.make(`c${++lastId}`, chance(0.05) ? "nope" : pick(classes), params)
  }
  const repeated = Array.from({ length: 5 }, () => makeCall(2))
  const makeWave = () =>
    Array.from({ length: 1 + int(8) }, () => chance(0.4) ? { ...pick(repeated), id: `c${++lastId}` } : makeCall(2))

  const program = run(
    Object.fromEntries(classes.map((it) => [it, spec(it)])),
    options,
    ({ batch, executor, process }) =>
      Effect.gen(function*() {
        const waves: Array<{ calls: ReadonlyArray<ToolCall.ToolCall>; fiber: Fiber.Fiber<ToolOutcome.WaveResult> }> = []
        for (const it of [process, yield* batch.process(), yield* executor.process()]) {
          const calls = makeWave()
          waves.push({
            calls,
            fiber: yield* Effect.forkChild(it.executeWave(calls), { startImmediately: chance(0.5) })
          })
          if (chance(0.3)) yield* Effect.sleep(int(10))
          if (chance(0.2)) yield* Effect.forkChild(Effect.delay(it.cancel("enough"), int(60)))
          if (chance(0.4)) yield* Effect.forkChild(Effect.delay(it.cancelCall(pick(calls).id), int(60)))
        }
        for (const { calls, fiber } of waves) {
          if (!chance(0.3)) {
            answered(calls, yield* Fiber.join(fiber))
            continue
          }
          yield* Effect.sleep(int(40))
          const before = yield* VirtualTime.now
          yield* Fiber.interrupt(fiber)
          const took = (yield* VirtualTime.now) - before
          if (took > 200) problems.push(`an interruption took ${took}`)
        }
        yield* Effect.sleep("5 seconds")
        if ((yield* executor.orphans).running.length > 0) problems.push("a handler never ended")
        problems.push(...mistakes())
        for (const kind of classes) {
          // as many calls as there are permits run at once
          const width = kind === "ConcurrentMut" && oneWriter ? 1 : permits[kind]
          const probe = yield* executor.process({ turn: {} })
          const before = yield* VirtualTime.now
          const wave = yield* probe.executeWave(
            Array.from({ length: width }, (_, n) =>
              ToolCall.make(`probe${n}`, kind, { act: "sleep", millis: 40, keys: [`probe${n}`], inner: [] }))
          )
          const took = (yield* VirtualTime.now) - before
          if (
            wave.outcomes.some((it) =>
              tag(it) !== "Succeeded"
            )
          ) problems.push(`the probe of ${kind}: ${tags(wave)}`)
          const rounds = options.mode === "sequential" ? width : 1
          // each call asks the store twice at most, five milliseconds each
          if (took > 40 * rounds + 15 * width) problems.push(`the probe of ${kind} took ${took}`)
        }
      })
  )
  return Effect.as(program, problems)
}

describe("random waves side by side", () => {
  it.effect("end within bounds and leave nothing behind", () =>
    Effect.gen(function*() {
      const failed: Array<unknown> = []
      for (const seed of seeds(320)) {
        const exit = yield* Effect.exit(play(seed))
        if (Exit.isFailure(exit)) failed.push({ seed, cause: String(exit.cause) })
        else if (exit.value.length > 0) failed.push({ seed, problems: exit.value })
      }
      assert.deepStrictEqual(failed, [])
    }), timeout)
})
