/**
 * Parts of others that throw, are slow, or die of what nobody can print, and calls
 * that are stopped meanwhile: every call has its outcome, and nothing stays taken.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as Approvals from "../../../../src/core/gates/Approvals.ts"
import * as StateStore from "../../../../src/core/store/StateStore.ts"
import { Gate, Permissions, Rules, ToolAnnotations, ToolContext } from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import * as Harness from "../../../support/Harness.ts"
import { recordingStore } from "../../../support/randomCase.ts"

type Store = StateStore.StateStore["Service"]

const sleeper = ({ sleep }: { readonly [key: string]: unknown }) => Effect.sleep(Number(sleep ?? 1_000))

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

const limited = [{ _tag: "MaxCalls", tool: "*", max: 10_000 }] as const

const run = <A, E>(program: Effect.Effect<A, E, Scope.Scope>) =>
  VirtualTime.run(Effect.scoped(program), { limit: "1 day" })

/** Waits until so many questions are open, and gives them. */
const asked = (
  approvals: Approvals.Approvals["Service"],
  count = 1
): Effect.Effect<ReadonlyArray<Approvals.ApprovalRequest>> =>
  Effect.flatMap(
    approvals.list,
    (all) => all.length < count ? Effect.andThen(Effect.sleep(1), asked(approvals, count)) : Effect.succeed(all)
  )

const fork = <A, E>(effect: Effect.Effect<A, E>) => Effect.forkChild(effect, { startImmediately: true })

/** What cannot even be looked at. */
const hostile = () =>
  new Proxy({}, {
    get() {
      throw new Error("nobody looks at this")
    }
  })

const allowing = { decide: () => ({ _tag: "Allow" } as const), sees: () => true }

describe("a part that throws", () => {
  for (const approval of ["perCall", "upfront"] as const) {
    it.effect(`has not told whether targets matter, and the wave has its outcomes (${approval})`, () =>
      run(Effect.gen(function*() {
        const permissions = Layer.succeed(Permissions.Permissions, {
          ...allowing,
          needsTargets: () => {
            throw new Error("broken")
          }
        })
        const approvals = yield* Approvals.make()
        const { process } = yield* Harness.open({ t: sleeper }, { approval, approvals, permissions })
        assert.deepStrictEqual(Harness.tags(yield* process.executeWave(Harness.calls("t", "nope"))), [
          "Succeeded",
          "ToolNotFound"
        ])
      })))
  }

  it.effect("is no end of a wave that people are asked about first", () =>
    run(Effect.gen(function*() {
      const { open, store } = recording()
      const approvals = yield* Approvals.make()
      const swap = Layer.effect(
        Rules.Rules,
        Effect.map(Effect.serviceOption(Rules.Rules), (rules) => {
          assert.strictEqual(rules._tag, "Some")
          const service = rules._tag === "Some" ? rules.value : assert.fail()
          return {
            current: () => service.current(),
            claims: (...asked: Parameters<typeof service.claims>) => service.claims(...asked),
            explain: (...asked: Parameters<typeof service.explain>) => service.explain(...asked),
            check: () => {
              throw new Error("broken")
            }
          }
        })
      )
      const options: Harness.Options = { approval: "upfront", approvals, policy: { default: "ask" }, rules: limited }
      const { process } = yield* Harness.open({ t: sleeper }, { ...options, store, swap })
      const wave = yield* process.executeWave(Harness.calls("t", "t"))
      assert.deepStrictEqual(Harness.tags(wave), ["GuardRejected", "GuardRejected"])
      assert.deepStrictEqual(open(), [])
    })))

  it.effect("does not hold up a wave with a cause that cannot be logged", () =>
    run(Effect.gen(function*() {
      const { open, store } = recording((memory) => ({
        settle: (...settled) => Effect.andThen(memory.settle(...settled), Effect.die(hostile()))
      }))
      const swap = Gate.layer({ name: "bad", guard: () => Effect.void, settle: () => Effect.die(hostile()) })
      const { process } = yield* Harness.open({ t: sleeper }, { rules: limited, store, swap })
      const wave = yield* process.executeWave(Harness.calls("t", "t"))
      assert.deepStrictEqual(Harness.tags(wave), ["Succeeded", "Succeeded"])
      assert.deepStrictEqual(open(), [])
    })))
})

describe("a tool", () => {
  it.effect("may die of what has no text", () =>
    run(Effect.gen(function*() {
      const { process } = yield* Harness.open({ t: () => Effect.die(hostile()), ok: () => Effect.void })
      assert.deepStrictEqual(Harness.tags(yield* process.executeWave(Harness.calls("t", "ok"))), [
        "Failed",
        "Succeeded"
      ])
    })))

  it.effect("may tell what is no text of its failure", () =>
    run(Effect.gen(function*() {
      const wordless: Harness.ToolSpec = {
        handler: () => Effect.fail("no"),
        annotate: (tool) => tool.annotate(ToolAnnotations.FailureText, () => hostile() as string)
      }
      const { process } = yield* Harness.open({ wordless })
      const wave = yield* process.executeWave(Harness.calls("wordless"))
      assert.deepStrictEqual(Harness.tags(wave), ["Failed"])
      assert.include(wave.toolMessages[0]?.text, "no text")
    })))

  it.effect("is refused where the source of its permits dies of what has no text", () =>
    run(Effect.gen(function*() {
      const pools = { read: { lease: Effect.andThen(Effect.sleep(1), Effect.die(hostile())) } }
      const { process } = yield* Harness.open({ t: sleeper }, { pools })
      assert.deepStrictEqual(Harness.tags(yield* process.executeWave(Harness.calls("t"))), ["ToolBlocked"])
    })))
})

describe("a store that is slow", () => {
  it.effect("has what a rehearsal took given back when the caller is interrupted", () =>
    run(Effect.gen(function*() {
      const { open, store } = recording((memory) => ({ grants: (...asked) => later(() => memory.grants(...asked)) }))
      const approvals = yield* Approvals.make()
      const options: Harness.Options = { approval: "upfront", approvals, policy: { default: "ask" }, rules: limited }
      const { process } = yield* Harness.open({ t: sleeper }, { ...options, store })
      const wave = yield* fork(process.executeWave(Harness.calls("t", "t", "t")))
      yield* Effect.sleep(150)
      yield* Fiber.interrupt(wave)
      assert.deepStrictEqual(open(), [])
    })))

  it.effect("is told how calls ended that end with the executor", () =>
    run(Effect.gen(function*() {
      const { open, store } = recording((memory) => ({ settle: (...asked) => later(() => memory.settle(...asked)) }))
      const scope = yield* Scope.make()
      const { process } = yield* Scope.provide(Harness.open({ t: sleeper }, { store, rules: limited }), scope)
      const wave = yield* fork(process.executeWave(Harness.calls("t", "t")))
      yield* Effect.sleep(10)
      yield* Scope.close(scope, Exit.void)
      assert.deepStrictEqual(Harness.tags(yield* Fiber.join(wave)), ["Cancelled", "Cancelled"])
      // the batch is let go behind its last wave
      yield* Effect.sleep("1 second")
      assert.deepStrictEqual(open(), [])
    })))

  it.effect("holds up the end of the executor no longer than it may take for an answer", () =>
    run(Effect.gen(function*() {
      const store = { ...StateStore.makeMemory(), settle: () => Effect.never }
      const scope = yield* Scope.make()
      const { process } = yield* Scope.provide(Harness.open({ t: sleeper }, { store, rules: limited }), scope)
      yield* fork(process.executeWave(Harness.calls("t")))
      yield* Effect.sleep(10)
      yield* Scope.close(scope, Exit.void)
      assert.isAtMost(yield* VirtualTime.now, 6_000)
    })))

  it.effect("takes back no answer that it has still to note", () =>
    run(Effect.gen(function*() {
      const store = recording((memory) => ({ grant: (...asked) => later(() => memory.grant(...asked)) })).store
      const approvals = yield* Approvals.make()
      const { process } = yield* Harness.open({ t: sleeper }, { store, approvals, policy: { default: "ask" } })
      const wave = yield* fork(process.executeWave(Harness.calls("t", "t")))
      const [question] = yield* asked(approvals, 2)
      yield* approvals.answer(question!.id, { _tag: "ApproveForScope" })
      assert.deepStrictEqual(Harness.tags(yield* Fiber.join(wave)), ["Succeeded", "Succeeded"])
    })))

  it.effect("does not bring back a permission that was revoked before it was noted", () =>
    run(Effect.gen(function*() {
      const memory = StateStore.makeMemory()
      const store = { ...memory, grant: (...asked: Parameters<Store["grant"]>) => later(() => memory.grant(...asked)) }
      const approvals = yield* Approvals.make()
      const { executor, process } = yield* Harness.open({ t: sleeper }, {
        store,
        approvals,
        policy: { default: "ask" }
      })
      const wave = yield* fork(process.executeWave(Harness.calls("t")))
      const [question] = yield* asked(approvals)
      yield* approvals.answer(question!.id, { _tag: "ApproveForScope" })
      yield* Effect.sleep(10)
      assert.strictEqual(yield* executor.revoke({ tool: "t" }), 1)
      yield* Fiber.join(wave)
      assert.deepStrictEqual(yield* memory.grants("default", 0), [])
    })))
})

describe("a person's answer", () => {
  it.effect("to the first of very many writes of one file lets all of them go", () =>
    run(Effect.gen(function*() {
      const approvals = yield* Approvals.make()
      const edit: Harness.ToolSpec = {
        class: "ConcurrentMut",
        handler: () => Effect.void,
        annotate: (tool) =>
          tool.annotate(ToolAnnotations.Targets, () => [{ text: "a" }])
            .annotate(ToolAnnotations.Preview, () => Effect.succeed([{ path: "a", before: "", after: "x" }]))
      }
      const { process } = yield* Harness.open({ edit }, { approvals, policy: { default: "ask" } })
      const wave = yield* fork(process.executeWave(Harness.calls(...Array.from({ length: 2_000 }, () => "edit"))))
      const [question] = yield* asked(approvals)
      yield* approvals.answer(question!.id, { _tag: "ApproveForScope" })
      assert.deepStrictEqual(new Set(Harness.tags(yield* Fiber.join(wave))), new Set(["Succeeded"]))
    })))

  it.effect("that a handler waits for no longer gives it its permits again", () => {
    let at = 0
    let most = 0
    const work = Effect.acquireUseRelease(
      Effect.sync(() => {
        most = Math.max(most, ++at)
      }),
      () => Effect.sleep(1_000),
      () => Effect.sync(() => at--)
    )
    const impatient = Effect.gen(function*() {
      const { confirmWrite } = yield* ToolContext.ToolContext
      yield* Effect.timeoutOption(confirmWrite(Effect.succeed([{ path: "a", before: "", after: "x" }])), 50)
      yield* work
    })
    return run(Effect.gen(function*() {
      const approvals = yield* Approvals.make()
      const { process } = yield* Harness.open({
        write: { class: "SerialMut", handler: () => impatient },
        other: { class: "SerialMut", handler: () => work }
      }, { approvals, policy: { default: "ask", allow: ["other"] } })
      const first = yield* fork(process.executeWave(Harness.calls("write")))
      const [question] = yield* asked(approvals)
      yield* approvals.answer(question!.id, { _tag: "ApproveOnce" })
      yield* asked(approvals)
      assert.deepStrictEqual(Harness.tags(yield* process.executeWave(Harness.calls("other"))), ["Succeeded"])
      assert.deepStrictEqual(Harness.tags(yield* Fiber.join(first)), ["Succeeded"])
      assert.strictEqual(most, 1)
    }))
  })
})
