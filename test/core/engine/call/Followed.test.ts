/**
 * Calls that are stopped, edited or left by the one they joined while something
 * slow is under way: nothing stays reserved, nobody waits for ever.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Approvals from "../../../../src/core/gates/Approvals.ts"
import { Dedupe, type StateStore, ToolAnnotations, ToolContext } from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import * as Harness from "../../../support/Harness.ts"
import { recordingStore } from "../../../support/randomCase.ts"

type Store = StateStore.StateStore["Service"]

const sleeper = () => Effect.sleep(1_000)

const later = <A, E>(answer: () => Effect.Effect<A, E>): Effect.Effect<A, E> =>
  Effect.delay(Effect.suspend(answer), 100)

/** A store that records what is reserved, some of whose answers are others. */
const recording = (change: (memory: Store) => Partial<Store> = () => ({})) => {
  const { states, store } = recordingStore()
  return {
    store: { ...store, ...change(store) },
    open: () => Array.from(states.values()).filter((state) => state !== "done")
  }
}

const limited = [{ _tag: "MaxCalls", tool: "*", max: 100 }] as const

const run = <A, E>(program: Effect.Effect<A, E, Scope.Scope>) =>
  VirtualTime.run(Effect.scoped(program), { limit: "1 day" })

const asked = (approvals: Approvals.Approvals["Service"]): Effect.Effect<Approvals.ApprovalRequest> =>
  Effect.flatMap(
    approvals.list,
    ([first]) => first === undefined ? Effect.andThen(Effect.sleep(1), asked(approvals)) : Effect.succeed(first)
  )

const fork = <A, E>(effect: Effect.Effect<A, E>) => Effect.forkChild(effect, { startImmediately: true })

describe("a run that is dispatched", () => {
  for (const how of ["cancelled", "interrupted"] as const) {
    it.effect(`gives back all it has reserved when it is ${how} while the store looks for permissions`, () =>
      run(Effect.gen(function*() {
        const { open, store } = recording((memory) => ({ grants: (...asked) => later(() => memory.grants(...asked)) }))
        const approvals = yield* Approvals.make()
        const options: Harness.Options = { store, rules: limited, approvals, policy: { default: "ask" } }
        const { process } = yield* Harness.open({ t: sleeper }, options)
        const wave = yield* fork(process.executeWave(Harness.calls("t", "t", "t")))
        yield* Effect.sleep(10)
        yield* how === "cancelled" ? process.cancel("enough") : Fiber.interrupt(wave)
        yield* Fiber.await(wave)
        assert.deepStrictEqual(open(), [])
      })))
  }

  it.effect("leads nobody where what decides about that throws", () =>
    run(Effect.gen(function*() {
      const { open, store } = recording()
      const dedupe = yield* Dedupe.make({ inFlight: "join" })
      const swap = Layer.succeed(Dedupe.Dedupe, {
        ...dedupe,
        leads: () => {
          throw new Error("broken")
        }
      })
      const { process } = yield* Harness.open({ t: sleeper }, { store, rules: limited, swap })
      assert.deepStrictEqual(Harness.tags(yield* process.executeWave(Harness.calls("t", "t"))), [
        "Succeeded",
        "Succeeded"
      ])
      assert.deepStrictEqual(open(), [])
    })))
})

describe("edited arguments", () => {
  it.effect("of a call that is cancelled give back what they were to replace, also where the store fails", () =>
    run(Effect.gen(function*() {
      const { open, store } = recording((memory) => ({
        reserve: (requests, now) =>
          requests[0]?.replaces === undefined ? memory.reserve(requests, now) : Effect.delay(Effect.die("down"), 100)
      }))
      const approvals = yield* Approvals.make()
      const options: Harness.Options = { store, rules: limited, approvals, policy: { default: "ask" } }
      const { process } = yield* Harness.open({ t: sleeper }, options)
      const wave = yield* fork(process.executeWave(Harness.calls("t")))
      yield* approvals.answer((yield* asked(approvals)).id, { _tag: "ApproveOnce", params: { edited: true } })
      yield* Effect.sleep(10)
      yield* process.cancel("enough")
      yield* Fiber.await(wave)
      yield* Effect.sleep("1 minute")
      assert.deepStrictEqual(open(), [])
    })))

  it.effect("that make a write equal to a later one of the same file hold up neither", () =>
    run(Effect.gen(function*() {
      const files = { a: "" }
      const edit: Harness.ToolSpec = {
        class: "ConcurrentMut",
        handler: ({ n }) =>
          Effect.flatMap(ToolContext.ToolContext, (it) =>
            it.commit(Effect.sync(() => {
              files.a += String(n)
            }))),
        annotate: (tool) =>
          tool.annotate(ToolAnnotations.Targets, () => [{ text: "a" }]).annotate(
            ToolAnnotations.Preview,
            (params) =>
              Effect.sync(() => [{ path: "a", before: files.a, after: `${(params as { readonly n: string }).n}` }])
          )
      }
      const approvals = yield* Approvals.make()
      const options: Harness.Options = { approvals, policy: { default: "ask" }, dedupe: { inFlight: "join" } }
      const { process } = yield* Harness.open({ edit }, options)
      const wave = yield* fork(process.executeWave(Harness.calls(["edit", { n: "x" }], ["edit", { n: "y" }])))
      yield* approvals.answer((yield* asked(approvals)).id, { _tag: "ApproveOnce", params: { n: "y" } })
      const second = yield* Effect.timeoutOption(asked(approvals), "1 minute")
      assert.strictEqual(second._tag, "Some")
      if (second._tag === "Some") yield* approvals.answer(second.value.id, { _tag: "ApproveOnce" })
      assert.deepStrictEqual(Harness.tags(yield* Fiber.join(wave)), ["Succeeded", "Succeeded"])
      assert.strictEqual(files.a, "y")
    })))
})

describe("calls that joined one which is cancelled", () => {
  for (const [name, handler] of [["at once", () => Effect.void], ["later", sleeper]] as const) {
    it.effect(`share the execution of the first of them that ends ${name}`, () =>
      run(Effect.gen(function*() {
        let runs = 0
        const { batch, process } = yield* Harness.open(
          { t: () => runs++ === 0 ? Effect.sleep(100) : handler() },
          { dedupe: { inFlight: "join" } }
        )
        const other = yield* batch.process()
        yield* fork(other.executeWave(Harness.calls(["t", {}])))
        const wave = yield* fork(process.executeWave(Harness.calls(["t", {}], ["t", {}], ["t", {}])))
        yield* Effect.sleep(10)
        yield* other.cancel("enough")
        assert.deepStrictEqual(Harness.tags(yield* Fiber.join(wave)), ["Succeeded", "Succeeded", "Succeeded"])
        assert.strictEqual(runs, 2)
      })))
  }
})

describe("a handler", () => {
  it.effect("that gives what is no effect fails, and its wave ends", () =>
    run(Effect.gen(function*() {
      const odd = new Proxy({}, {
        get() {
          throw new Error("nobody looks at this")
        }
      })
      const { process } = yield* Harness.open({ t: () => odd as Effect.Effect<void>, ok: () => Effect.void })
      assert.deepStrictEqual(Harness.tags(yield* process.executeWave(Harness.calls("t", "ok"))), [
        "Failed",
        "Succeeded"
      ])
    })))
})
