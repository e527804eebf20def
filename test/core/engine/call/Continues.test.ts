/** Tools whose handlers continue a call where it was interrupted. */
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import { Journal, ToolAnnotations, ToolContext, type ToolExecutor } from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import { call, open, tags, type ToolSpec, value } from "../../../support/Harness.ts"

/** A tool that hangs in its first life, and says what it knows of itself in the next one. */
const hanging = (continues: boolean | undefined, suspends = false) => {
  const lives: Array<string> = []
  const spec: ToolSpec = {
    class: "ConcurrentMut",
    annotate: (tool) =>
      continues === undefined
        ? tool
        : tool.annotate(ToolAnnotations.Continues, () => Effect.succeed(continues)),
    handler: () =>
      Effect.flatMap(ToolContext.ToolContext, ({ idempotencyKey, isResumed, suspend }) => {
        lives.push(idempotencyKey!)
        if (lives.length > 1) return Effect.succeed(isResumed ? "continued" : "begun")
        return suspends ? suspend("the host stops") : Effect.never
      })
  }
  return { spec, lives }
}

const rules = [{ _tag: "MaxCalls", tool: "long", max: 1 }] as const

/** Runs a wave in one host, which stops, and resumes it in another one over its journal. */
const lives = Effect.fnUntraced(function*(spec: ToolSpec, how: "closed" | "interrupted" | "suspends" | "cancelled") {
  const built = yield* Effect.orDie(Layer.build(Layer.fresh(Journal.layerMemory())))
  const journal = Context.get(built, Journal.Journal)
  const host = Effect.map(open({ long: spec }, { journal, rules }), ({ executor }) => executor)
  const processOf = (executor: ToolExecutor.ToolExecutor["Service"]) => executor.process({ batch: "b", id: "p" })
  const scope = yield* Scope.make()
  const process = yield* Effect.flatMap(Scope.provide(host, scope), processOf)
  const running = yield* Effect.forkChild(process.executeWave([call("1", "long", {})]), { startImmediately: true })
  yield* Effect.sleep("1 second")
  if (how === "interrupted") yield* Fiber.interrupt(running)
  if (how === "cancelled") yield* process.cancel("enough")
  if (how === "suspends") assert.deepStrictEqual((yield* Fiber.join(running)).suspended, ["1"])
  yield* Scope.close(scope, Exit.void)
  const next = yield* Effect.flatMap(host, processOf)
  const wave = yield* Effect.orDie(next.resume([call("1", "long", {})]))
  const entries = (yield* Effect.orDie(Stream.runCollect(journal.read({})))).map(({ entry }) => entry)
  return { wave, suspended: entries.flatMap((it) => it._tag === "Suspended" ? [it.isStarted === true] : []) }
})

const test = (
  name: string,
  program: () => Effect.Effect<void, unknown, Scope.Scope>,
  options?: { tags: Array<string> }
) => it.effect(name, () => VirtualTime.run(Effect.scoped(Effect.suspend(program)), { limit: "1 day" }), options)

describe("a running call whose handler can continue", () => {
  for (const how of ["closed", "interrupted", "suspends"] as const) {
    test(`stays open when its host is ${how}, and continues with the same key and count`, () =>
      Effect.gen(function*() {
        const { lives: keys, spec } = hanging(true, how === "suspends")
        const { suspended, wave } = yield* lives(spec, how)
        assert.strictEqual(value(wave.outcomes[0]), "continued")
        assert.deepStrictEqual(suspended, [true])
        assert.deepStrictEqual([keys.length, new Set(keys).size], [2, 1])
      }), { tags: ["K14"] })
  }

  test("stays cancelled where its process cancelled it", () =>
    Effect.gen(function*() {
      const { lives: keys, spec } = hanging(true)
      const { suspended, wave } = yield* lives(spec, "cancelled")
      assert.deepStrictEqual([tags(wave), suspended, keys.length], [["Cancelled"], [], 1])
    }))

  test("is unknown where the handler says that it cannot", () =>
    Effect.gen(function*() {
      const { lives: keys, spec } = hanging(false)
      const { wave } = yield* lives(spec, "closed")
      assert.deepStrictEqual([tags(wave), keys.length], [["Unknown"], 1])
    }), { tags: ["K14"] })
})

describe("a running call whose handler cannot continue", () => {
  for (const how of ["closed", "suspends"] as const) {
    test(`is cancelled when its host is ${how}`, () =>
      Effect.gen(function*() {
        const { lives: keys, spec } = hanging(undefined, how === "suspends")
        const built = yield* Effect.orDie(Layer.build(Layer.fresh(Journal.layerMemory())))
        const { process } = yield* open({ long: spec }, { journal: Context.get(built, Journal.Journal) })
        const running = yield* Effect.forkChild(process.executeWave([call("1", "long", {})]), {
          startImmediately: true
        })
        yield* Effect.sleep("1 second")
        if (how === "closed") yield* process.cancel("enough")
        const wave = yield* Fiber.join(running)
        assert.deepStrictEqual([tags(wave), wave.suspended, keys.length], [["Cancelled"], undefined, 1])
      }), { tags: ["K14"] })
  }
})
