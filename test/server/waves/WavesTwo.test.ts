/** Two servers over one database: what one of them, alive, is running, and what the other makes of it. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { ToolContext } from "../../../src/index.ts"
import type { Wave } from "../../../src/server/api/ApiModels.ts"
import { Waves } from "../../../src/server/waves/Waves.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { ada, begin, type Life, message, type Tools } from "../../support/Served.ts"

/** Tools of one server, and what has begun at all of them. */
const world = () => {
  const begun: Array<string> = []
  const at = (server: string): Tools => {
    const handler = (rest: Effect.Effect<unknown>) => () =>
      Effect.flatMap(ToolContext.ToolContext, ({ callId }) => {
        begun.push(`${server} ${callId}`)
        return rest
      })
    return {
      write: { class: "SerialMut", handler: handler(Effect.succeed("written")) },
      slow: { class: "SerialMut", handler: handler(Effect.as(Effect.sleep("10 seconds"), "slow")) }
    }
  }
  return { begun, at }
}

const file = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "two-"))),
    (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
  ),
  (folder) => join(folder, "server.db")
)

const test = <A, E>(name: string, program: (filename: string) => Effect.Effect<A, E, Scope.Scope>) =>
  it.effect(name, () => VirtualTime.run(Effect.scoped(Effect.flatMap(file, program)), { limit: "1 day" }))

const wavesOf = ({ context }: Life) => Context.get(context, Waves)

const tagsOf = (wave: Wave): ReadonlyArray<string> =>
  wave.end !== undefined && "executionResults" in wave.end ? wave.end.executionResults.map((it) => it._tag) : []

const lease = "3 seconds"
const one = { message: message("slow", "write"), wave: "w", turn: "t" }

describe("a wave that one server runs", () => {
  test("is left alone by another that starts, and has the same results at both", (filename) =>
    Effect.gen(function*() {
      const { at, begun } = world()
      const first = wavesOf(yield* begin(filename, at("first"), { lease }))
      const here = yield* first.submit(ada, one)
      yield* Effect.sleep("1 second")
      const second = wavesOf(yield* begin(filename, at("second"), { lease }))
      const there = Option.getOrThrow(yield* second.get(ada, "w"))
      yield* Effect.sleep("5 seconds")
      assert.strictEqual((yield* there.info).status, "running")
      const wave = yield* here.ended
      assert.deepStrictEqual(tagsOf(wave), ["Succeeded", "Succeeded"])
      assert.deepStrictEqual((yield* there.ended).messages, wave.messages)
      assert.deepStrictEqual(begun, ["first c0", "first c1"])
    }))

  test("is the same wave where it is asked about or handed over at another", (filename) =>
    Effect.gen(function*() {
      const { at, begun } = world()
      const first = wavesOf(yield* begin(filename, at("first"), { lease }))
      const second = wavesOf(yield* begin(filename, at("second"), { lease }))
      const here = yield* first.submit(ada, one)
      yield* Effect.sleep("1 second")
      const there = Option.getOrThrow(yield* second.get(ada, "w"))
      const again = yield* second.submit(ada, one)
      const other = yield* Effect.flip(second.submit(ada, { ...one, message: message("write") }))
      assert.strictEqual(other._tag, "WaveConflict")
      const wave = yield* here.ended
      assert.deepStrictEqual((yield* there.ended).messages, wave.messages)
      assert.deepStrictEqual((yield* again.ended).messages, wave.messages)
      assert.deepStrictEqual(begun, ["first c0", "first c1"])
    }))

  test("is taken over once that one is dead", (filename) =>
    Effect.gen(function*() {
      const { at, begun } = world()
      const first = yield* begin(filename, at("first"), { lease })
      yield* wavesOf(first).submit(ada, one)
      yield* Effect.sleep("1 second")
      const second = wavesOf(yield* begin(filename, at("second"), { lease }))
      yield* Effect.sleep("3 seconds")
      yield* first.kill
      const wave = yield* Option.getOrThrow(yield* second.get(ada, "w")).ended
      // nobody knows what became of the one that was under way
      assert.deepStrictEqual(tagsOf(wave), ["Unknown", "Succeeded"])
      assert.deepStrictEqual(begun, ["first c0", "second c1"])
    }))
})
