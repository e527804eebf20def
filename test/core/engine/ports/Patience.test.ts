/** How long a call waits for what others have to tell, to the millisecond. */
import { assert, describe, it } from "@effect/vitest"
import type * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as StateStore from "../../../../src/core/store/StateStore.ts"
import { ArtifactStore, ToolAnnotations, ToolContext } from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import {
  call,
  calls,
  type Env,
  type Handler,
  type Options,
  run,
  tag,
  tags,
  type ToolSpec,
  value
} from "../../../support/Harness.ts"

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

/** A store that reserves `millis` later, whoever waits; and whether what it reserved last is taken. */
const slow = (millis: number) => {
  const memory = StateStore.makeMemory()
  let claims: ReadonlyArray<StateStore.Claim> = []
  const reserve: Store["reserve"] = (requests, now) => {
    claims = requests.flatMap((it) => it.claims)
    return Effect.delay(Effect.suspend(() => memory.reserve(requests, now)), millis)
  }
  const taken = (now: number) => {
    assert.isNotEmpty(claims)
    return Effect.runSync(memory.check(claims, now)) !== undefined
  }
  return { store: { ...memory, reserve }, taken }
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
  it.effect(
    "to reserve: then the call is refused",
    () =>
      run(writer, silent("reserve"), ({ process }) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("w"))), ["StoreUnavailable"])
          assert.strictEqual(yield* VirtualTime.now, 5_000)
        })),
    { tags: ["A6"] }
  )

  it.effect("to note a write: then the write goes on", () =>
    run(writer, silent("mutated"), ({ process }) =>
      Effect.map(process.executeWave(calls("w")), (wave) => {
        assert.deepStrictEqual(tags(wave), ["Succeeded"])
        assert.strictEqual(wave.outcomes[0]!.startedAt, 5_000)
      })))

  it.effect("to settle: then the outcome stands, and its permit is there for others", () =>
    run({ t: sleeper }, { ...silent("settle"), pools: { read: 1 } }, ({ batch, process }) =>
      Effect.gen(function*() {
        const first = yield* Effect.forkChild(process.executeWave(calls("t")), { startImmediately: true })
        const next = yield* Effect.forkChild((yield* batch.process()).executeWave([call("2", "t", { b: 1 })]))
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
          assert.deepStrictEqual(tags(yield* process.executeWave(calls(["w", { deaf: true }]))), ["TimedOut"])
          assert.lengthOf((yield* executor.orphans).running, 1)
          const next = yield* process.executeWave(calls("w"))
          assert.strictEqual(next.outcomes[0]!.startedAt, 1_000)
          assert.deepStrictEqual((yield* executor.orphans).running, [])
        })
    ))

  it.effect("but holds nobody who cancels a call that it was asked about", () =>
    run({ t: sleeper }, silent("reserve"), ({ process }) =>
      Effect.gen(function*() {
        yield* Effect.forkChild(Effect.delay(process.cancelCall("1"), 10))
        const wave = yield* process.executeWave(calls("t"))
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
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("w"))), ["Cancelled"])
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
          const wave = yield* Effect.forkChild(process.executeWave(calls(["t", {}])), { startImmediately: true })
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

describe("what a store reserves in the very instant in which nobody wants it any more", () => {
  const ends = {
    "its call is cancelled": ({ process }: Env) => process.cancelCall("1"),
    "its process is cancelled": ({ process }: Env) => process.cancel("enough"),
    "its batch is closed": ({ batch, executor }: Env) => executor.completeBatch(batch.id),
    "its caller is interrupted": (_: Env, wave: Fiber.Fiber<unknown>) => Fiber.interrupt(wave)
  }
  for (const [why, end] of Object.entries(ends)) {
    for (const order of ["before", "after"] as const) {
      it.effect(`is given back: ${why} just ${order} the answer`, () => {
        const { store, taken } = slow(10)
        return run({ t: () => Effect.never }, { store }, (env) =>
          Effect.gen(function*() {
            const wait = yield* Effect.forkChild(Effect.sleep(10), { startImmediately: order === "before" })
            const wave = yield* Effect.forkChild(env.process.executeWave(calls(["t", {}])), { startImmediately: true })
            yield* Fiber.join(wait)
            yield* end(env, wave)
            yield* Fiber.await(wave)
            yield* Effect.sleep(100)
            assert.isFalse(taken(yield* VirtualTime.now))
          }))
      })
    }
  }
})

describe("what a call touches", () => {
  it.effect("is looked up for the calls of a run side by side", () =>
    run(
      { w: lookUp(() => Effect.as(Effect.sleep(3_000), [])) },
      {},
      ({ process }) =>
        Effect.map(
          process.executeWave(calls("w", "w", "w")),
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
            (yield* batch.process()).executeWave(calls(["hold", { sleep: 3_600_000 }])),
            { startImmediately: true }
          )
          yield* Effect.forkChild(Effect.delay(Effect.andThen(process.cancelCall("1"), process.cancelCall("2")), 10))
          const wave = yield* process.executeWave(calls(["w", {}], ["w", { slow: true }]))
          assert.deepStrictEqual(tags(wave), ["Cancelled", "Cancelled"])
          assert.strictEqual(yield* VirtualTime.now, 10)
          yield* Fiber.interrupt(hold)
        })
    )
  })
})

describe("an interrupted caller", () => {
  const tools = {
    w: lookUp(() => Effect.as(Effect.sleep(5_000), ["one"]))
  }

  it.effect("does not wait for what its calls touch to be found", () =>
    run(tools, {}, ({ process }) =>
      Effect.gen(function*() {
        const wave = yield* Effect.forkChild(process.executeWave(calls("w", "w")), { startImmediately: true })
        yield* Effect.sleep(10)
        yield* Fiber.interrupt(wave)
        assert.strictEqual(yield* VirtualTime.now, 10)
      })))
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
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("t"))), ["PolicyDenied"])
          assert.strictEqual(yield* VirtualTime.now, 10_000)
        })
    ))

  const looking = (millis: number, limits: { readonly [tool: string]: number } = {}) => ({
    tools: {
      quick: sleeper,
      t: {
        handler: sleeper,
        annotate: (tool: Tool.Any) =>
          tool.annotate(ToolAnnotations.Targets, () => Effect.as(Effect.sleep(millis), [{ text: "a" }]))
      }
    } satisfies Record<string, ToolSpec | Handler>,
    options: {
      tools: Object.fromEntries(Object.entries(limits).map(([name, timeout]) => [name, { timeout }])),
      policy: { allow: ["t(a)", "quick"], default: "deny" }
    } satisfies Options
  })

  it.effect("is asked for all calls of a wave at once, which waits for the slowest", () => {
    const { options, tools } = looking(4_000)
    return run(tools, options, ({ process }) =>
      Effect.gen(function*() {
        const { outcomes } = yield* process.executeWave(calls("quick", "t", "t", "t", "t", "t"))
        assert.deepStrictEqual(outcomes.map(tag), Array(6).fill("Succeeded"))
        // at Arrival once for all, at Start once for those that it is asked of
        assert.deepStrictEqual(outcomes.map(({ startedAt }) => startedAt), [4_000, ...Array(5).fill(8_000)])
      }))
  })

  it.effect("is not waited for longer than the call may run", () => {
    const { options, tools } = looking(4_000, { t: 1_000 })
    return run(tools, options, ({ process }) =>
      Effect.gen(function*() {
        assert.deepStrictEqual(tags(yield* process.executeWave(calls("t", "t"))), ["PolicyDenied", "PolicyDenied"])
        assert.strictEqual(yield* VirtualTime.now, 1_000)
        const wave = yield* process.executeWave(calls(["t", { n: 9 }]), { timeout: 100 })
        assert.deepStrictEqual(tags(wave), ["PolicyDenied"])
        assert.strictEqual(yield* VirtualTime.now, 1_100)
      }))
  })

  it.effect("is waited for no longer by a call that is cancelled, nor by an interrupted caller", () => {
    const { options, tools } = looking(4_000)
    return run(tools, options, ({ process }) =>
      Effect.gen(function*() {
        const first = yield* Effect.forkChild(process.executeWave(calls("quick", "t")), { startImmediately: true })
        yield* Effect.sleep(10)
        yield* process.cancelCall("2")
        assert.deepStrictEqual(tags(yield* Fiber.join(first)), ["Succeeded", "Cancelled"])
        assert.strictEqual(yield* VirtualTime.now, 1_010)
        const second = yield* Effect.forkChild(process.executeWave(calls("t", "t")), { startImmediately: true })
        yield* Effect.sleep(10)
        yield* Fiber.interrupt(second)
        assert.strictEqual(yield* VirtualTime.now, 1_020)
      }))
  })

  it.effect("is not compared with anything where it is too long", () =>
    run(
      {
        t: {
          handler: sleeper,
          annotate: (tool) =>
            tool.annotate(ToolAnnotations.Targets, (params) => {
              const { chars } = params as { readonly chars: number }
              return [{ text: "x".repeat(chars) }, { text: "y" }]
            })
        }
      },
      { policy: { allow: ["t(*)"] } },
      ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave(calls(["t", { chars: 99_999 }], ["t", { chars: 100_000 }]))
          assert.deepStrictEqual(tags(wave), ["Succeeded", "InvalidParameters"])
          assert.include(wave.toolMessages[1]!.text, "have 100001 characters")
        })
    ))
})

describe("an artifact store", () => {
  const put = {
    "that dies": () => Effect.die("no"),
    "that throws": (): never => {
      throw new Error("no")
    },
    "that fails": () => Effect.fail(new ArtifactStore.ArtifactError({ id: "", reason: "StoreFailed" })),
    "that never answers": () => Effect.never
  }
  for (const [what, broken] of Object.entries(put)) {
    const artifacts = { put: broken, read: () => Effect.never }

    it.effect(`${what} has a large output cut instead, after five seconds at most`, () =>
      run({ t: () => Effect.succeed("x".repeat(50_000)) }, { artifacts }, ({ process }) =>
        Effect.gen(function*() {
          const [outcome] = (yield* process.executeWave(calls("t"))).outcomes
          assert.strictEqual(outcome?._tag === "Succeeded" && outcome.output._tag, "Truncated")
          assert.strictEqual(yield* VirtualTime.now, what === "that never answers" ? 5_000 : 0)
        })))

    if (what === "that never answers") continue
    it.effect(`${what} leaves a handler without an artifact, not without its outcome`, () =>
      run(
        { t: () => Effect.flatMap(ToolContext.ToolContext, (it) => Effect.map(it.artifact("x"), (ref) => ref._tag)) },
        { artifacts },
        ({ process }) =>
          Effect.map(process.executeWave(calls("t")), (wave) =>
            assert.deepStrictEqual(wave.outcomes.map(value), ["None"]))
      ))
  }
})
