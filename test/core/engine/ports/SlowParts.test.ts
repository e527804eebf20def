/** Stores, decoders and look-ups that take their time, or never answer. */
import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as StateStore from "../../../../src/core/store/StateStore.ts"
import { ToolAnnotations, ToolContext } from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import { call, calls, run, tags, type ToolSpec } from "../../../support/Harness.ts"

const sleeper = ({ sleep }: { readonly [key: string]: unknown }) => Effect.sleep(Number(sleep ?? 1_000))

type Store = StateStore.StateStore["Service"]

/** A store in memory, some of whose answers are others. */
const store = (change: (memory: Store) => Partial<Store>): Store => {
  const memory = StateStore.makeMemory()
  return { ...memory, ...change(memory) }
}

const later = <A, E>(answer: () => Effect.Effect<A, E>, millis: number): Effect.Effect<A, E> =>
  Effect.delay(Effect.suspend(answer), millis)

const slowDecode = (millis: number) =>
  Tool.make("slow", {
    parameters: Schema.Struct({
      at: Schema.String.pipe(Schema.decodeTo(Schema.String, {
        decode: SchemaGetter.transformEffect((text: string) => Effect.as(Effect.sleep(millis), text)),
        encode: SchemaGetter.transform((text: string) => text)
      }))
    }),
    success: Schema.Unknown
  }).annotate(Tool.Readonly, true)

const lookUp = (
  resources: (params: { readonly slow?: boolean }) => Effect.Effect<ReadonlyArray<string>>
): ToolSpec => ({
  class: "ConcurrentMut",
  handler: sleeper,
  annotate: (tool) => tool.annotate(ToolAnnotations.Resources, (params) => resources(params as { slow?: boolean }))
})

describe("a store that never answers", () => {
  for (const operation of ["reserve", "settle", "mutated"] as const) {
    const options = { store: store(() => ({ [operation]: () => Effect.never })), pools: { serial: 1 } }
    const tools = { t: { class: "SerialMut", handler: sleeper } } as const

    it.effect(`(${operation}) ends the wave all the same`, () =>
      run(tools, options, ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave(calls(["t", { sleep: 1 }], ["t", { sleep: 2 }]))
          assert.lengthOf(wave.outcomes, 2)
          assert.isAtMost(yield* VirtualTime.now, 30_000)
        })))

    // a mutating start is told before the handler runs: there is nothing to hold up yet
    if (operation === "mutated") continue
    it.effect(`(${operation}) holds neither who cancels nor who interrupts`, () =>
      run(tools, options, ({ batch, process }) =>
        Effect.gen(function*() {
          const cancelled = yield* Effect.forkChild(process.executeWave(calls("t")), { startImmediately: true })
          yield* Effect.sleep(10)
          yield* process.cancel("enough")
          assert.lengthOf((yield* Fiber.join(cancelled)).outcomes, 1)
          const other = yield* batch.process()
          const interrupted = yield* Effect.forkChild(other.executeWave(calls("t")), { startImmediately: true })
          yield* Effect.sleep(10)
          yield* Fiber.interrupt(interrupted)
          assert.isAtMost(yield* VirtualTime.now, 30_000)
        })))
  }

  it.effect("refuses the call that it was asked for", () =>
    run(
      { t: sleeper },
      { store: store(() => ({ reserve: () => Effect.never })) },
      ({ process }) =>
        Effect.map(process.executeWave(calls("t")), (wave) => {
          assert.deepStrictEqual(tags(wave), ["StoreUnavailable"])
          assert.include(wave.toolMessages[0]?.text, "the store that keeps")
        })
    ))
})

describe("a store that answers late", () => {
  it.effect("has what it reserved for nobody given back", () => {
    let claims: ReadonlyArray<StateStore.Claim> = []
    const deaf = (memory: Store): Partial<Store> => ({
      reserve: (requests, now) => {
        claims = requests.flatMap((it) => it.claims)
        return Effect.uninterruptible(later(() => memory.reserve(requests, now), 20_000))
      }
    })
    const slow = store(deaf)
    return run({ t: sleeper }, { store: slow }, ({ process }) =>
      Effect.gen(function*() {
        assert.deepStrictEqual(tags(yield* process.executeWave(calls(["t", {}]))), ["StoreUnavailable"])
        yield* Effect.sleep("1 minute")
        assert.isNotEmpty(claims)
        assert.isUndefined(yield* slow.check(claims, 60_000))
      }))
  })

  it.effect("still tells a read behind a write from a duplicate", () =>
    run(
      { r: () => Effect.succeed(1), w: { class: "SerialMut", handler: () => Effect.void } },
      { store: store((memory) => ({ mutated: (principal) => later(() => memory.mutated(principal), 100) })) },
      ({ process }) =>
        Effect.map(
          process.executeWave(calls(["r", {}], "w", ["r", {}])),
          (wave) => assert.deepStrictEqual(tags(wave), ["Succeeded", "Succeeded", "Succeeded"])
        )
    ))

  it.effect("lets no turn have more calls than it may", () =>
    run(
      { r: sleeper },
      {
        turn: { maxCalls: 1 },
        store: store((memory) => ({ reserve: (...asked) => later(() => memory.reserve(...asked), 10) }))
      },
      ({ process }) =>
        Effect.gen(function*() {
          const waves = yield* Effect.all([
            process.executeWave(calls(["r", { a: 1 }])),
            process.executeWave(calls(["r", { a: 2 }]))
          ], { concurrency: "unbounded" })
          assert.deepStrictEqual(waves.flatMap(tags).toSorted(), ["CallBudgetExhausted", "Succeeded"])
        })
    ))
})

describe("a decoder", () => {
  it.effect("that is slow loses no cancellation of the calls behind it", () => {
    let ran = 0
    return run(
      { slow: { handler: () => Effect.void, tool: slowDecode(100) }, t: () => Effect.sync(() => ran++) },
      {},
      ({ process }) =>
        Effect.gen(function*() {
          yield* Effect.forkChild(Effect.delay(process.cancelCall("2"), 10))
          const wave = yield* process.executeWave(calls(["slow", { at: "x" }], "t"))
          assert.deepStrictEqual(tags(wave), ["Succeeded", "Cancelled"])
          assert.strictEqual(ran, 0)
        })
    )
  })

  it.effect("that hangs is waited for ten seconds, and never longer than the turn", () =>
    run({ slow: { handler: sleeper, tool: slowDecode(1e9) } }, {}, ({ batch, process }) =>
      Effect.gen(function*() {
        const wave = yield* process.executeWave(calls(["slow", { at: "" }]))
        assert.deepStrictEqual(tags(wave), ["InvalidParameters"])
        assert.include(wave.toolMessages[0]?.text, "in time")
        assert.strictEqual(yield* VirtualTime.now, 10_000)
        const short = yield* batch.process({ turn: { timeout: 500 } })
        assert.deepStrictEqual(tags(yield* short.executeWave(calls(["slow", { at: "" }]))), ["InvalidParameters"])
        assert.strictEqual(yield* VirtualTime.now, 10_500)
      })))
})

describe("a look-up of what a call touches", () => {
  it.effect("that hangs is waited for ten seconds, then calls of the tool wait for each other", () =>
    run({ w: lookUp(() => Effect.never) }, {}, ({ process }) =>
      Effect.gen(function*() {
        const wave = yield* process.executeWave(calls("w", "w"))
        assert.deepStrictEqual(wave.outcomes.map((it) => it.startedAt), [10_000, 11_000])
      })))

  it.effect("that hangs ends with the turn", () =>
    run({ w: lookUp(() => Effect.never) }, { turn: { timeout: 500 } }, ({ process }) =>
      Effect.gen(function*() {
        assert.deepStrictEqual(tags(yield* process.executeWave(calls("w"))), ["DeadlineExceeded"])
        assert.strictEqual(yield* VirtualTime.now, 500)
      })))

  it.effect("holds no sibling up", () =>
    run(
      { ok: { class: "ConcurrentMut", handler: sleeper }, w: lookUp(() => Effect.delay(Effect.succeed([]), 5_000)) },
      {},
      ({ process }) =>
        Effect.map(process.executeWave(calls("w", "ok", "w")), (wave) => {
          assert.deepStrictEqual(wave.outcomes.map((it) => it.startedAt), [5_000, 0, 5_000])
        })
    ))

  it.effect("that is under way when its call is cancelled queues it for no permit", () =>
    run(
      {
        hold: { class: "ConcurrentMut", handler: sleeper },
        w: lookUp(({ slow }) => Effect.as(Effect.sleep(slow === true ? 100 : 1), []))
      },
      { pools: { concurrent: 1 }, executionTimeout: "2 hours" },
      ({ batch, process }) =>
        Effect.gen(function*() {
          const other = yield* batch.process()
          yield* Effect.forkChild(other.executeWave(calls(["hold", { sleep: 3_600_000 }])))
          yield* Effect.sleep(1)
          yield* Effect.forkChild(Effect.delay(process.cancel("enough"), 10))
          const wave = yield* process.executeWave(calls(["w", {}], ["w", { slow: true }]))
          assert.deepStrictEqual(tags(wave), ["Cancelled", "Cancelled"])
          assert.isAtMost(yield* VirtualTime.now, 200)
        })
    ))
})

describe("an artifact store that dies", () => {
  it.effect("leaves a handler without an artifact, not without its outcome", () =>
    run(
      { t: () => Effect.flatMap(ToolContext.ToolContext, (it) => Effect.map(it.artifact("x"), (ref) => ref._tag)) },
      { artifacts: { put: () => Effect.die("no"), read: () => Effect.never } },
      ({ process }) =>
        Effect.map(process.execute(call("1", "t")), (outcome) => {
          assert.strictEqual(outcome._tag === "Succeeded" && outcome.output.modelText, "None")
        })
    ))
})
