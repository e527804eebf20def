/** How long a call waits for what others have to tell, to the millisecond. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { StateStore, ToolAnnotations, ToolContext } from "../../src/index.ts"
import * as VirtualTime from "../../src/testing/VirtualTime.ts"
import { call, calls, type Handler, run, tags, type ToolSpec } from "../support/Harness.ts"

const sleeper: Handler = ({ sleep }) => Effect.sleep(Number(sleep ?? 1_000))

type Store = StateStore.StateStore["Service"]

/** A store in memory, some of whose answers are others. */
const store = (change: (memory: Store) => Partial<Store>): Store => {
  const memory = StateStore.makeMemory()
  return { ...memory, ...change(memory) }
}

const silent = (operation: "reserve" | "settle" | "mutated" | "release") => ({
  store: store(() => ({ [operation]: () => Effect.never }))
})

/** A store that keeps what it was asked until `millis` later, whoever waits; and the key of a call with no arguments. */
const slow = (millis: number) => {
  const slowStore = store((memory) => ({
    reserve: (...asked) =>
      Effect.delay(Effect.suspend(() => Effect.succeed(memory.reserve(...asked) as StateStore.Reservation)), millis)
  }))
  const key = { _tag: "Key", principal: "default", tool: "t", key: "{}", readOnly: true } as const
  return {
    store: slowStore,
    taken: (now: number) => slowStore.check([{ ...key, process: "p", ignoreOtherProcesses: false }], now) !== undefined
  }
}

const w = { class: "ConcurrentMut", handler: sleeper } as const
const writer: Record<string, ToolSpec> = { w }

const lookUp = (
  resources: (params: { readonly slow?: boolean }) => Effect.Effect<ReadonlyArray<string>>
): ToolSpec => ({
  ...w,
  annotate: (tool) => tool.annotate(ToolAnnotations.Resources, (params) => resources(params as { slow?: boolean }))
})

describe("a store has five seconds", () => {
  it.effect("to reserve: then the call is refused", () =>
    run(writer, silent("reserve"), ({ process }) =>
      Effect.gen(function*() {
        assert.deepStrictEqual(tags(yield* process.executeBatch(calls("w"))), ["GuardRejected"])
        assert.strictEqual(yield* VirtualTime.now, 5_000)
      })))

  it.effect("to note a write: then the write goes on", () =>
    run(writer, silent("mutated"), ({ process }) =>
      Effect.map(process.executeBatch(calls("w")), (wave) => {
        assert.deepStrictEqual(tags(wave), ["Succeeded"])
        assert.strictEqual(wave.outcomes[0]!.startedAt, 5_000)
      })))

  it.effect("to settle: then the outcome stands, and its permit is there for others", () =>
    run({ t: sleeper }, { ...silent("settle"), pools: { read: 1 } }, ({ batch, process }) =>
      Effect.gen(function*() {
        const first = yield* Effect.forkChild(process.executeBatch(calls("t")), { startImmediately: true })
        const next = yield* Effect.forkChild((yield* batch.process).executeBatch([call("2", "t", { b: 1 })]))
        assert.deepStrictEqual(tags(yield* Fiber.join(first)), ["Succeeded"])
        assert.strictEqual(yield* VirtualTime.now, 6_000)
        assert.strictEqual((yield* Fiber.join(next)).outcomes[0]!.startedAt, 6_000)
      })))

  it.effect("to release: what outlived its outcome is an orphan no longer, and its resource is free at once", () =>
    run(
      {
        w: {
          ...w,
          handler: ({ deaf }) => deaf === true ? Effect.uninterruptible(Effect.sleep(1_000)) : Effect.void,
          annotate: (tool) => tool.annotate(ToolAnnotations.Resources, () => ["the one"])
        }
      },
      { ...silent("release"), tools: { w: { timeout: 100 } } },
      ({ executor, process }) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(tags(yield* process.executeBatch(calls(["w", { deaf: true }]))), ["TimedOut"])
          assert.lengthOf((yield* executor.orphans).running, 1)
          const next = yield* process.executeBatch(calls("w"))
          assert.strictEqual(next.outcomes[0]!.startedAt, 1_000)
          assert.deepStrictEqual((yield* executor.orphans).running, [])
        })
    ))

  it.effect("but holds nobody who cancels a call that it was asked about", () =>
    run({ t: sleeper }, silent("reserve"), ({ process }) =>
      Effect.gen(function*() {
        yield* Effect.forkChild(Effect.delay(process.cancelCall("1"), 10))
        const wave = yield* process.executeBatch(calls("t"))
        assert.deepStrictEqual(tags(wave), ["Cancelled"])
        assert.strictEqual(yield* VirtualTime.now, 10)
      })))

  it.effect("but holds nobody who cancels a write that waits for its note", () => {
    let ran = 0
    return run(
      { w: { ...w, handler: () => Effect.sync(() => ran++) } },
      silent("mutated"),
      ({ process }) =>
        Effect.gen(function*() {
          yield* Effect.forkChild(Effect.delay(process.cancel("enough"), 10))
          assert.deepStrictEqual(tags(yield* process.executeBatch(calls("w"))), ["Cancelled"])
          assert.strictEqual(yield* VirtualTime.now, 10)
          yield* Effect.sleep("1 minute")
          assert.strictEqual(ran, 0)
        })
    )
  })

  for (const how of ["cancelled", "interrupted"] as const) {
    it.effect(`gives back what it reserves for a call that was ${how} meanwhile`, () => {
      const { store, taken } = slow(1_000)
      return run({ t: sleeper }, { store }, ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* Effect.forkChild(process.executeBatch(calls(["t", {}])), { startImmediately: true })
          yield* Effect.sleep(10)
          yield* how === "cancelled" ? process.cancelCall("1") : Fiber.interrupt(wave)
          yield* Fiber.await(wave)
          assert.strictEqual(yield* VirtualTime.now, 10)
          yield* Effect.sleep(2_000)
          assert.isFalse(taken(yield* VirtualTime.now))
        }))
    })
  }
})

describe("what a call touches", () => {
  it.effect("is looked up for the calls of a run side by side", () =>
    run(
      { w: lookUp(() => Effect.as(Effect.sleep(3_000), [])) },
      {},
      ({ process }) =>
        Effect.map(
          process.executeBatch(calls("w", "w", "w")),
          (wave) => assert.deepStrictEqual(wave.outcomes.map((it) => it.startedAt), [3_000, 3_000, 3_000])
        )
    ))

  it.effect("is never waited for by a call that ends meanwhile, nor by one whose sibling's is looked up", () => {
    const tools = {
      hold: { class: "ConcurrentMut", handler: sleeper },
      w: lookUp(({ slow }) => Effect.as(Effect.sleep(slow === true ? 100 : 1), []))
    } as const
    return run(
      tools,
      { pools: { concurrent: 1 }, executionTimeout: "2 hours" },
      ({ batch, process }) =>
        Effect.gen(function*() {
          const hold = yield* Effect.forkChild(
            (yield* batch.process).executeBatch(calls(["hold", { sleep: 3_600_000 }])),
            { startImmediately: true }
          )
          yield* Effect.forkChild(Effect.delay(Effect.andThen(process.cancelCall("1"), process.cancelCall("2")), 10))
          const wave = yield* process.executeBatch(calls(["w", {}], ["w", { slow: true }]))
          assert.deepStrictEqual(tags(wave), ["Cancelled", "Cancelled"])
          assert.strictEqual(yield* VirtualTime.now, 10)
          yield* Fiber.interrupt(hold)
        })
    )
  })
})

describe("what a policy asks of a call", () => {
  it.effect("is waited for ten seconds; then the call is judged without it", () =>
    run(
      {
        t: {
          handler: sleeper,
          annotate: (tool) => tool.annotate(ToolAnnotations.Targets, () => Effect.never)
        }
      },
      { policy: { allow: ["t(src/**)"], default: "deny" } },
      ({ process }) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(tags(yield* process.executeBatch(calls("t"))), ["PolicyDenied"])
          assert.strictEqual(yield* VirtualTime.now, 10_000)
        })
    ))
})

describe("an artifact store", () => {
  const put = {
    "that dies": () => Effect.die("no"),
    "that throws": (): never => {
      throw new Error("no")
    },
    "that never answers": () => Effect.never
  }
  for (const [what, broken] of Object.entries(put)) {
    const artifacts = { put: broken, read: () => Effect.never }

    it.effect(`${what} leaves a handler without an artifact, within the call's limit`, () =>
      run(
        { t: () => Effect.flatMap(ToolContext.ToolContext, (it) => Effect.map(it.artifact("x"), (ref) => ref._tag)) },
        { artifacts },
        ({ process }) =>
          Effect.gen(function*() {
            const [outcome] = (yield* process.executeBatch(calls("t"))).outcomes
            assert.strictEqual(outcome?._tag === "Succeeded" && outcome.output.modelText, "None")
            assert.isAtMost(yield* VirtualTime.now, 10_000)
          })
      ))

    it.effect(`${what} has a large output cut instead`, () =>
      run({ t: () => Effect.succeed("x".repeat(50_000)) }, { artifacts }, ({ process }) =>
        Effect.gen(function*() {
          const [outcome] = (yield* process.executeBatch(calls("t"))).outcomes
          assert.strictEqual(outcome?._tag === "Succeeded" && outcome.output._tag, "Truncated")
          assert.isAtMost(yield* VirtualTime.now, 10_000)
        })))
  }
})
