import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import * as Sweeper from "../../src/cluster/Sweeper.ts"
import * as MemorySessions from "../../src/core/store/MemorySessions.ts"
import { SessionRegistryError } from "../../src/core/store/SessionRegistry.ts"

describe("the sweeper", () => {
  it.effect(
    "wakes what somebody woke without being heard, what waited long enough, and what was left open",
    () =>
      Effect.gen(function*() {
        const registry = MemorySessions.make(MemorySessions.world())
        const poked: Array<string> = []
        const sweep = Sweeper.sweep({ registry, every: 2_000, poke: (it) => Effect.sync(() => void poked.push(it)) })
        yield* registry.release(yield* registry.activate("open"), { _tag: "Open" })
        yield* registry.release(yield* registry.activate("waits"), { _tag: "Waiting", until: 60_000 })
        yield* registry.release(yield* registry.activate("done"), { _tag: "Nothing" })
        yield* registry.activate("held")
        yield* sweep
        assert.deepStrictEqual(poked.splice(0), ["open"])
        yield* registry.heard(yield* registry.activate("open"))
        yield* registry.wake("held")
        yield* TestClock.adjust("3 seconds")
        yield* sweep
        assert.deepStrictEqual(poked.splice(0), ["held"])
        yield* TestClock.adjust("1 minute")
        yield* sweep
        assert.deepStrictEqual(poked.sort(), ["held", "waits"])
      }),
    { tags: ["CL7"] }
  )

  it.effect(
    "wakes thousands in one look, and goes on after a registry that did not answer",
    () =>
      Effect.gen(function*() {
        const registry = MemorySessions.make(MemorySessions.world())
        for (let at = 0; at < 1_000; at++) {
          yield* registry.release(yield* registry.activate(`ada/${at}`), { _tag: "Open" })
        }
        const poked = new Set<string>()
        const options = { every: 2_000, poke: (it: string) => Effect.sync(() => void poked.add(it)) }
        const away = new SessionRegistryError({ operation: "due", cause: "away" })
        yield* Sweeper.sweep({ ...options, registry: { ...registry, due: () => Effect.fail(away) } })
        yield* Sweeper.sweep({ ...options, registry })
        assert.strictEqual(poked.size, 1_000)
      }),
    { tags: ["CL7"] }
  )

  it.effect("wakes others soon while the runner of many does not answer", () =>
    Effect.gen(function*() {
      const registry = MemorySessions.make(MemorySessions.world())
      const names = Array.from({ length: 60 }, (_, at) => `ada/${at}`)
      for (const it of names) yield* registry.release(yield* registry.activate(it), { _tag: "Open" })
      const poked: Array<string> = []
      const poke = (it: string) => it === "ada/59" ? Effect.sync(() => void poked.push(it)) : Effect.sleep("30 seconds")
      yield* Effect.forkChild(Sweeper.sweep({ registry, every: 2_000, poke }))
      yield* TestClock.adjust("6 seconds")
      assert.deepStrictEqual(poked, ["ada/59"])
    }))
})
