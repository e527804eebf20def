import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as TestClock from "effect/testing/TestClock"
import { ArtifactStore } from "../../src/index.ts"

/** A store whose payloads are told by their owner's principal and number. */
const open = (options: ArtifactStore.MemoryOptions) => {
  const store = ArtifactStore.makeMemory(options)
  const ids = new Map<string, string>()
  const owner = (principal: string) => ({ principal, batch: "b" })
  return {
    put: (principal: string, name: string, chars: number) =>
      Effect.map(
        Effect.result(store.put(owner(principal), name.padEnd(chars, "."))),
        (it) => Result.isFailure(it) ? it.failure.reason : void ids.set(name, it.success.id)
      ),
    /** Which of these a principal can read. */
    kept: (principal: string, ...names: ReadonlyArray<string>) =>
      Effect.filter(names, (name) =>
        Effect.map(
          Effect.result(store.read(owner(principal), ids.get(name)!, { offset: 0, length: name.length })),
          (it) => Result.isSuccess(it) && it.success.text === name
        ))
  }
}

describe("the artifacts of a principal", () => {
  it.effect("go by their age once they are too many characters, and nobody else's do", () =>
    Effect.gen(function*() {
      const { kept, put } = open({ maxChars: 100 })
      yield* put("q", "theirs", 90)
      for (const name of ["a", "b", "c", "d"]) yield* put("p", name, 30)
      assert.deepStrictEqual(yield* kept("p", "a", "b", "c", "d"), ["b", "c", "d"])
      yield* put("p", "e", 100)
      assert.deepStrictEqual(yield* kept("p", "b", "c", "d", "e"), ["e"])
      assert.strictEqual(yield* put("p", "f", 101), "TooLarge")
      assert.deepStrictEqual(yield* kept("p", "e"), ["e"])
      assert.deepStrictEqual(yield* kept("q", "theirs"), ["theirs"])
    }))

  it.effect("go by their age once they are too many", () =>
    Effect.gen(function*() {
      const { kept, put } = open({ maxCount: 2 })
      yield* put("q", "theirs", 10)
      for (const name of ["a", "b", "c"]) yield* put("p", name, 10)
      assert.deepStrictEqual(yield* kept("p", "a", "b", "c"), ["b", "c"])
      assert.deepStrictEqual(yield* kept("q", "theirs"), ["theirs"])
    }))

  it.effect("are refused where others have left no room, and take none from them", () =>
    Effect.gen(function*() {
      const { kept, put } = open({ maxChars: 100, maxTotalChars: 120, timeToLive: "1 minute" })
      yield* put("q", "theirs", 90)
      yield* put("p", "a", 20)
      yield* TestClock.adjust("30 seconds")
      // its own give way first
      yield* put("p", "b", 20)
      assert.deepStrictEqual(yield* kept("p", "a", "b"), ["b"])
      assert.strictEqual(yield* put("p", "c", 31), "Full")
      assert.strictEqual(yield* put("r", "d", 11), "Full")
      assert.deepStrictEqual(yield* kept("p", "b"), ["b"])
      assert.deepStrictEqual(yield* kept("q", "theirs"), ["theirs"])
      yield* TestClock.adjust("30 seconds")
      assert.isUndefined(yield* put("p", "e", 100))
    }))
})
