/**
 * A gate's whole behaviour is behind its layer: each is swapped for one that
 * decides in another way, by one `Layer.provide`.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as Approvals from "../../../src/core/gates/Approvals.ts"
import { Dedupe, Permissions, Pools, Rules, type ToolRefusal, type ToolRule } from "../../../src/index.ts"
import { call, calls, type Options, run, tags, value } from "../../support/Harness.ts"

const at = (value: number) => () => Effect.succeed(value)

const says = (reason: string): ToolRefusal.ToolRefusal => ({ _tag: "GuardRejected", guard: "mine", reason })

/** A service made from the one around it. */
const over = <I, S>(
  gate: Parameters<typeof Layer.effect<I, S, never, never>>[0] & Effect.Effect<S, never, I>,
  change: (around: S) => S
): Layer.Layer<I, never, I> => Layer.effect(gate, Effect.map(gate, change))

describe("a custom Dedupe", () => {
  const second: NonNullable<Options["swap"]> = Layer.effect(
    Dedupe.Dedupe,
    Effect.sync(() => {
      let count = 0
      return Dedupe.Dedupe.of({
        claim: () => ++count % 2 === 0 ? says("every second one") : undefined,
        leads: () => false,
        duplicate: () => ({ _tag: "Refused" }),
        settlement: () => ({ key: "release", windowMillis: 0, value: undefined })
      })
    })
  )

  it.effect(
    "refuses every second call, and lets equal ones run",
    () =>
      run({ t: at(1) }, { swap: second }, ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave([
            call("1", "t", {}),
            call("2", "t", {}),
            call("3", "t", {}),
            call("4", "t", {})
          ])
          assert.deepStrictEqual(tags(wave), ["Succeeded", "GuardRejected", "Succeeded", "GuardRejected"])
          assert.include(wave.toolMessages[1]?.text, "every second one")
        })),
    { tags: ["G2"] }
  )

  const around = Effect.runSync(Dedupe.make({ onDuplicate: "replay", readWindow: "5 minutes" }))

  it.effect("replays what it has made of an outcome", () =>
    run({ t: at(1) }, {
      swap: Layer.succeed(Dedupe.Dedupe, {
        ...around,
        settlement: ({ call, targets }, outcome) => ({
          key: "keep",
          windowMillis: 1_000,
          value: { outcome, batch: call.id, targets }
        }),
        duplicate: (_, taken) => {
          const { batch, outcome } = taken.value!
          return batch === "1" ? { _tag: "Replays", outcome } : { _tag: "Anew" }
        }
      })
    }, ({ process }) =>
      Effect.gen(function*() {
        yield* process.executeWave([call("1", "t", {}), call("2", "t", { other: true })])
        const again = yield* process.executeWave([call("3", "t", {}), call("4", "t", { other: true })])
        assert.deepStrictEqual(again.outcomes.map((it) => it._tag === "Succeeded" && it.replayOf), ["1", undefined])
      })))

  it.effect("that lets a call run anew time and again refuses it in the end", () =>
    run({ t: at(1) }, {
      swap: Layer.succeed(Dedupe.Dedupe, {
        ...around,
        claim: (call, options) => around.claim(call, { ...options, anew: false }),
        duplicate: () => ({ _tag: "Anew" })
      })
    }, ({ process }) =>
      Effect.gen(function*() {
        yield* process.executeWave([call("1", "t", {})])
        assert.deepStrictEqual(tags(yield* process.executeWave([call("2", "t", {})])), ["DuplicateCall"])
      })))

  it.effect("is asked afresh about a call that had to run anew, and then joined one that was cancelled", () => {
    const joining = Effect.runSync(Dedupe.make({ inFlight: "join" }))
    const anew: Array<boolean> = []
    return run({ t: () => Effect.sleep(1_000) }, {
      swap: Layer.succeed(Dedupe.Dedupe, {
        ...joining,
        claim: (it, options) => {
          if (it.call.id === "2") anew.push(options.anew)
          return joining.claim(it, options)
        },
        duplicate: (it, taken, options) => anew.length === 1 ? { _tag: "Anew" } : joining.duplicate(it, taken, options)
      })
    }, ({ process }) =>
      Effect.gen(function*() {
        yield* Effect.forkChild(Effect.delay(process.cancelCall("1"), 10))
        assert.deepStrictEqual(tags(yield* process.executeWave(calls(["t", {}], ["t", {}]))), [
          "Cancelled",
          "Succeeded"
        ])
        assert.deepStrictEqual(anew, [false, true, false])
      }))
  })

  it.effect("lets a call join one that it says others may join", () => {
    let ran = 0
    return run({ t: () => Effect.delay(Effect.sync(() => ++ran), 100) }, {
      swap: Layer.succeed(Dedupe.Dedupe, {
        ...around,
        claim: (call, options) => {
          const key = around.claim(call, options)
          // whatever its arguments
          return key?._tag === "Key" ? { ...key, key: "any", running: "all" } : key
        },
        leads: () => true,
        duplicate: (_, { running }, { joinable }) => running && joinable ? { _tag: "Joins" } : { _tag: "Anew" }
      })
    }, ({ process }) =>
      Effect.gen(function*() {
        const wave = yield* process.executeWave(calls("t", "t", "t"))
        assert.deepStrictEqual(wave.outcomes.map(value), [1, 1, 1])
        assert.strictEqual(ran, 1)
      }))
  })

  const throws = () => {
    throw new Error("broken")
  }
  it.effect("that throws has not let the call run", () =>
    run(
      { t: at(1) },
      { swap: Layer.succeed(Dedupe.Dedupe, { ...around, claim: throws }) },
      ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave(calls("t"))
          assert.deepStrictEqual(tags(wave), ["GuardRejected"])
          assert.notInclude(wave.toolMessages[0]?.text, "broken")
        })
    ), { tags: ["G3"] })

  it.effect("that throws about an outcome keeps no key, and the slot is spent all the same", () =>
    run({ t: at(1) }, {
      rules: [{ _tag: "MaxCalls", tool: "t", max: 2 }],
      swap: Layer.succeed(Dedupe.Dedupe, { ...around, settlement: throws })
    }, ({ process }) =>
      Effect.gen(function*() {
        const t = (id: string) => process.executeWave([call(id, "t", {})])
        assert.deepStrictEqual(tags(yield* t("1")), ["Succeeded"])
        assert.deepStrictEqual(tags(yield* t("2")), ["Succeeded"])
        assert.deepStrictEqual(tags(yield* t("3")), ["RuleViolation"])
      })))

  it.effect("that throws about a duplicate refuses it", () =>
    run(
      { t: at(1) },
      { swap: Layer.succeed(Dedupe.Dedupe, { ...around, duplicate: throws }) },
      ({ process }) =>
        Effect.gen(function*() {
          yield* process.executeWave([call("1", "t", {})])
          assert.deepStrictEqual(tags(yield* process.executeWave([call("2", "t", {})])), ["DuplicateCall"])
        })
    ))
})

describe("custom Rules", () => {
  const rule: ToolRule.ToolRule = { _tag: "MaxCalls", tool: "*", max: 2 }

  // two calls of whatever tool
  const together: NonNullable<Options["swap"]> = over(Rules.Rules, (rules) => ({
    ...rules,
    claims: (_, { batch }) => [{ _tag: "Calls", batch, tool: "all of them", max: 2 }],
    explain: (tool) => ({ _tag: "RuleViolation", rule, sentence: `"${tool}" is one too many.` })
  }))

  it.effect(
    "count all tools together, and say what they would refuse",
    () =>
      run({ a: at(1), b: at(2) }, { swap: together }, ({ process }) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(yield* process.allowedNext, ["a", "b"])
          const wave = yield* process.executeWave(calls("a", "b", "a"))
          assert.deepStrictEqual(tags(wave), ["Succeeded", "Succeeded", "RuleViolation"])
          assert.include(wave.toolMessages[2]?.text, "\"a\" is one too many.")
          assert.deepStrictEqual(yield* process.allowedNext, [])
          assert.strictEqual(yield* process.toolChoice, "none")
        })),
    { tags: ["G2"] }
  )

  it.effect("judge tools that no rule of the set is about, and their arguments", () =>
    run({ a: at(1), b: at(2) }, {
      swap: over(Rules.Rules, (rules) => ({
        ...rules,
        check: (history, tool, call) =>
          tool === "b" && !history.succeeded.has("a")
            ? says("a comes first")
            : (call?.args as { readonly n?: number } | undefined)?.n === 3
            ? says("not the third")
            : undefined
      }))
    }, ({ process }) =>
      Effect.gen(function*() {
        assert.deepStrictEqual(yield* process.allowedNext, ["a"])
        assert.deepStrictEqual(tags(yield* process.executeWave(calls("b"))), ["GuardRejected"])
        assert.deepStrictEqual(tags(yield* process.executeWave(calls("a"))), ["Succeeded"])
        assert.deepStrictEqual(yield* process.allowedNext, ["a", "b"])
        const wave = yield* process.executeWave(calls(["a", { n: 9 }], "b", "b"))
        assert.deepStrictEqual(tags(wave), ["Succeeded", "Succeeded", "GuardRejected"])
      })))

  it.effect("are what people are asked up front by", () =>
    Effect.scoped(Effect.gen(function*() {
      const asked: Array<string> = []
      const approvals = yield* Approvals.make()
      yield* Effect.forkScoped(
        Stream.runForEach(approvals.changes, (change) => {
          if (change._tag === "Ended") return Effect.void
          asked.push(change.request.callId)
          return approvals.answer(change.request.id, { _tag: "ApproveOnce" })
        }),
        { startImmediately: true }
      )
      yield* run({ a: at(1), b: at(2) }, {
        approvals,
        approval: "upfront",
        policy: { default: "ask" },
        swap: over(Rules.Rules, (rules) => ({
          ...rules,
          check: (_, tool) => tool === "b" ? says("never") : undefined
        }))
      }, ({ process }) => process.executeWave(calls("a", "b")))
      assert.deepStrictEqual(asked, ["1"])
    })))

  it.effect("that make claims which the set does not explain refuse in their own name", () =>
    run({ a: at(1) }, {
      swap: over(Rules.Rules, (rules) => ({
        ...rules,
        claims: (tool, { batch }) => [{ _tag: "Calls", batch, tool, max: 0 }]
      }))
    }, ({ process }) =>
      Effect.gen(function*() {
        const [outcome] = (yield* process.executeWave(calls("a"))).outcomes
        assert.deepInclude(outcome, {
          _tag: "Denied",
          reason: { _tag: "GuardRejected", guard: "Rules", reason: "a limit of the host was reached" }
        })
      })))

  for (const member of ["check", "claims"] as const) {
    it.effect(`whose ${member} throws have not let the call run`, () =>
      run({ a: at(1) }, {
        swap: over(Rules.Rules, (rules) => ({
          ...rules,
          [member]: () => {
            throw new Error("broken")
          }
        }))
      }, ({ process }) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("a"))), ["GuardRejected"])
        })), { tags: ["G3"] })
  }
})

describe("custom Permissions", () => {
  it.effect("decide by what they like", () =>
    run({ a: at(1), b: at(2) }, {
      swap: Layer.succeed(Permissions.Permissions, {
        decide: ({ args }) =>
          (args as { readonly n: number }).n > 1 ? { _tag: "Deny", rule: "only ones" } : { _tag: "Allow" },
        sees: () => true
      })
    }, ({ process }) =>
      Effect.gen(function*() {
        assert.deepStrictEqual(tags(yield* process.executeWave(calls("a", "b"))), ["Succeeded", "PolicyDenied"])
      })), { tags: ["G2"] })

  it.effect("are mocked by what a test needs of them", () =>
    run({ a: at(1), b: { class: "SerialMut", handler: at(2) } }, {
      swap: Layer.mock(Permissions.Permissions, {
        decide: () => ({ _tag: "Allow" }),
        sees: ({ name }) => name === "a"
      })
    }, ({ executor, process }) =>
      Effect.gen(function*() {
        assert.deepStrictEqual((yield* executor.tools).map((it) => it.name), ["a"])
        assert.deepStrictEqual(tags(yield* process.executeWave(calls("a", "b"))), ["Succeeded", "Succeeded"])
        const child = yield* executor.fork({ policy: { deny: ["b"] } })
        const below = yield* child.process()
        assert.deepStrictEqual(tags(yield* below.executeWave(calls(["a", { m: 1 }], ["b", { m: 1 }]))), [
          "Succeeded",
          "PolicyDenied"
        ])
      })))
})

describe("custom Pools", () => {
  it.effect("give permits as they like", () => {
    let count = 0
    return run({ a: at(1), b: at(2) }, {
      swap: over(Pools.Pools, (pools) => ({
        ...pools,
        // one call a second, whatever its tool
        enter: (ticket) => Effect.delay(Effect.suspend(() => pools.enter(ticket)), count++ * 1_000)
      }))
    }, ({ process }) =>
      Effect.gen(function*() {
        const { outcomes } = yield* process.executeWave(calls("a", "b", "a"))
        assert.deepStrictEqual(outcomes.map((it) => it.startedAt), [0, 1_000, 2_000])
      }))
  })
})
