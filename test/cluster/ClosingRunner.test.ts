import { assert, describe, it } from "@effect/vitest"
import { Context, Deferred, Effect, Exit, Fiber, Layer, Scope } from "effect"
import { Checkpoints, Journal } from "effect-tool-executor"
import { TestClock } from "effect/testing"
import { tmpdir } from "node:os"
import * as TranscriptStore from "../../src/agent/TranscriptStore.ts"
import * as Cluster from "../../src/cluster/Cluster.ts"
import * as MemorySessions from "../../src/core/store/MemorySessions.ts"
import { SessionRegistry } from "../../src/core/store/SessionRegistry.ts"
import * as Server from "../../src/server/api/Server.ts"
import * as OperationStore from "../../src/server/operations/OperationStore.ts"
import * as Undoing from "../../src/server/records/Undoing.ts"
import { SessionDirectory } from "../../src/server/sessions/SessionDirectory.ts"
import * as WaveStore from "../../src/server/waves/WaveStore.ts"
import { world } from "../support/directoryWorld.ts"

const one = { user: "ada", session: "one" }
const two = { user: "ada", session: "two" }

/** Starts a runner over sessions in memory; `activating` happens before each activation. */
const start = Effect.fnUntraced(function*(activating: (principal: string) => Effect.Effect<void> = () => Effect.void) {
  const { held, layer } = yield* world(tmpdir())
  const sessions = MemorySessions.world()
  const registry = MemorySessions.make(sessions)
  const scope = yield* Scope.make()
  const stores = Layer.mergeAll(
    Checkpoints.layerMemory(),
    Journal.layerMemory(),
    OperationStore.layerMemory(),
    TranscriptStore.layerMemory(),
    WaveStore.layerMemory(),
    Layer.succeed(SessionRegistry, {
      ...registry,
      activate: (principal) => Effect.andThen(activating(principal), registry.activate(principal))
    })
  )
  const built = yield* Cluster.layerSingle({ within: "20 seconds" }).pipe(
    Layer.provide(Server.layerExecutors()),
    Layer.provide([layer, Undoing.layer({ root: tmpdir() })]),
    Layer.provide(stores),
    Layer.buildWithScope(scope)
  )
  return {
    directory: Context.get(built, SessionDirectory),
    held,
    /** Sessions that are held now. */
    holding: () => [...sessions.rows].filter(([, row]) => row.held !== undefined).map(([principal]) => principal),
    close: Scope.close(scope, Exit.void)
  }
})

describe("a runner whose layer is closed", () => {
  it.effect("gives running calls their time, and then releases their session", () =>
    Effect.gen(function*() {
      const { close, directory, held, holding } = yield* start()
      const call = { id: "c", type: "function", function: { name: "hold", arguments: JSON.stringify({ key: "k" }) } }
      const message = { role: "assistant", tool_calls: [call] }
      yield* Effect.forkChild(directory.submit(one, { wave: "w", message }))
      yield* TestClock.adjust("1 second")
      yield* held.runs("k")
      const result = yield* Effect.forkChild(directory.result(one, "w"))
      const closing = yield* Effect.forkDetach(close)
      yield* TestClock.adjust("10 seconds")
      assert.isUndefined(closing.pollUnsafe())
      assert.deepStrictEqual(holding(), ["ada/one"])
      yield* held.release("k")
      yield* TestClock.adjust("1 second")
      assert.isDefined(closing.pollUnsafe())
      assert.deepStrictEqual(holding(), [])
      assert.include(JSON.stringify((yield* Fiber.join(result)).messages), "held k")
    }), { tags: ["CL4"] })

  it.effect("closes while a message for another session arrives", () =>
    Effect.gen(function*() {
      const activating = yield* Deferred.make<void>()
      const slow = Effect.uninterruptible(Deferred.await(activating))
      const { close, directory, holding } = yield* start((it) => it === "ada/one" ? slow : Effect.void)
      yield* Effect.forkChild(directory.tools(one))
      yield* TestClock.adjust("1 second")
      const closing = yield* Effect.forkDetach(close)
      yield* TestClock.adjust("1 second")
      yield* Effect.forkChild(directory.tools(two))
      yield* TestClock.adjust("1 second")
      assert.isUndefined(closing.pollUnsafe())
      yield* Deferred.succeed(activating, undefined)
      yield* TestClock.adjust("1 minute")
      assert.isDefined(closing.pollUnsafe())
      assert.deepStrictEqual(holding(), [])
    }), { tags: ["CL4"] })
})
