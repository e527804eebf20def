/** What a server keeps of waves: so many in memory, the rest in a store that may fail. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Logger from "effect/Logger"
import * as Option from "effect/Option"
import * as References from "effect/References"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { SessionLost } from "../../../src/core/store/SessionRegistry.ts"
import { Waves } from "../../../src/server/waves/Waves.ts"
import { WaveStoreError } from "../../../src/server/waves/WaveStore.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { ada, begin, type Life, message, type Tools } from "../../support/Served.ts"

/** A tool with an output, and how often it ran. */
const world = () => {
  const runs: Array<number> = []
  const tools: Tools = {
    write: {
      class: "SerialMut",
      handler: () =>
        Effect.sync(() => {
          runs.push(1)
          return "x".repeat(1_000)
        })
    }
  }
  return { runs, tools }
}

const file = Effect.map(
  Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "kept-"))),
    (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
  ),
  (folder) => join(folder, "server.db")
)

const test = <A, E>(
  name: string,
  program: (filename: string) => Effect.Effect<A, E, Scope.Scope>,
  options?: { tags: Array<string> }
) => it.effect(name, () => VirtualTime.run(Effect.scoped(Effect.flatMap(file, program)), { limit: "1 day" }), options)

const wavesOf = ({ context }: Life) => Context.get(context, Waves)

const hand = (waves: Waves["Service"], wave: string) =>
  Effect.flatMap(waves.submit(ada, { message: message("write"), wave }), (it) => it.ended)

const listed = (waves: Waves["Service"]) =>
  Effect.flatMap(waves.list, Effect.forEach((it) => Effect.map(it.info, ({ wave }) => wave)))

const names = ["a", "b", "c", "d"]

describe("waves that have ended", () => {
  const bounds = [
    ["number", { maxListed: 2 }, ["c", "d"]],
    ["size", { listedChars: 10_000 }, ["c", "d"]]
  ] as const
  for (const [what, waves, rest] of bounds) {
    test(`are in memory up to a ${what}, and found again with all that is on record`, (filename) =>
      Effect.gen(function*() {
        const { runs, tools } = world()
        const served = wavesOf(yield* begin(filename, tools, { waves }))
        const before = yield* Effect.forEach(names, (name) => hand(served, name))
        yield* Effect.sleep("1 second")
        assert.deepStrictEqual(yield* listed(served), [...rest])
        assert.deepStrictEqual(yield* Effect.forEach(names, (name) => hand(served, name)), before)
        const found = Option.getOrThrow(yield* served.get(ada, "a"))
        assert.deepStrictEqual(yield* found.wave, before[0])
        assert.strictEqual((yield* Stream.runCollect(found.events(undefined))).at(-1)?.event, "tools_end")
        assert.isAtMost((yield* served.list).length, rest.length)
        assert.lengthOf(runs, names.length)
        // what runs is bounded by other limits, and stays
        assert.deepStrictEqual(yield* served.counts, { sessions: 1, waves: 0 })
      }))
  }
})

test("the results of a wave are there for whoever has read its last event", (filename) =>
  Effect.gen(function*() {
    const stored = yield* Deferred.make<void>()
    const served = wavesOf(
      yield* begin(filename, world().tools, {
        around: (store) => ({
          ...store,
          end: (owner, end) => Effect.andThen(Deferred.await(stored), store.end(owner, end))
        })
      })
    )
    const wave = yield* served.submit(ada, { message: message("write"), wave: "w" })
    const last = yield* Stream.runHead(Stream.filter(wave.events(undefined), ({ event }) => event === "tools_end"))
    assert.isTrue(Option.isSome(last))
    const reading = yield* Effect.forkChild(wave.wave, { startImmediately: true })
    yield* Deferred.succeed(stored, undefined)
    const read = yield* Fiber.join(reading)
    assert.strictEqual(read.status, "ended")
    assert.lengthOf(read.messages as ReadonlyArray<unknown>, 1)
  }))

describe("a store that fails while a wave ends", () => {
  test("keeps nobody from its results, is in the log, and the next start goes on", (filename) =>
    Effect.gen(function*() {
      const { runs, tools } = world()
      const lines: Array<string> = []
      const logger = Logger.make<unknown, void>(({ fiber, message }) =>
        void lines.push(JSON.stringify([message, fiber.getRef(References.CurrentLogAnnotations)]))
      )
      const life = yield* begin(filename, tools, {
        lease: "1 minute",
        around: (store) => ({
          ...store,
          end: () => Effect.fail(new WaveStoreError({ operation: "end", cause: "the disk is full" }))
        })
      })
      const wave = yield* Effect.flatMap(
        wavesOf(life).submit(ada, { message: message("write"), wave: "w", turn: "t" }),
        (it) => it.ended
      ).pipe(Effect.provide(Logger.layer([logger])))
      assert.strictEqual(wave.status, "ended")
      assert.strictEqual(wave.end?._tag, "ToolsEnd")
      assert.lengthOf(wave.messages as ReadonlyArray<unknown>, 1)
      const warning = lines.find((it) => it.includes("The end of a wave could not be stored"))
      assert.include(warning, "\"tool_executor.principal\":\"ada/one\"", lines.join("\n"))
      assert.include(warning, "\"tool_executor.wave\":\"w\"")
      yield* life.close
      const next = wavesOf(yield* begin(filename, tools))
      const again = Option.getOrThrow(yield* next.get(ada, "w"))
      assert.deepStrictEqual((yield* again.ended).messages, wave.messages)
      assert.lengthOf(runs, 1)
    }))

  test(
    "because another process has the session shows nobody results that are not stored",
    (filename) =>
      Effect.gen(function*() {
        const lines: Array<string> = []
        const logger = Logger.make<unknown, void>(({ message }) => void lines.push(JSON.stringify(message)))
        const cause = new SessionLost({ principal: "ada/one" })
        const life = yield* begin(filename, world().tools, {
          lease: "1 minute",
          around: (store) => ({ ...store, end: () => Effect.fail(new WaveStoreError({ operation: "end", cause })) })
        })
        const wave = yield* Effect.flatMap(
          wavesOf(life).submit(ada, { message: message("write"), wave: "w", turn: "t" }),
          (it) => it.ended
        ).pipe(Effect.provide(Logger.layer([logger])))
        assert.strictEqual(wave.status, "suspended")
        assert.isUndefined(wave.messages)
        assert.isFalse(lines.some((it) => it.includes("could not be stored")), lines.join("\n"))
      }),
    { tags: ["SE8"] }
  )
})
