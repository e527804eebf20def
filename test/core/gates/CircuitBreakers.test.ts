/**
 * Circuits of tools: what opens them, who is let in to try, what counts, and what
 * becomes of calls while the store of circuits is in trouble.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as CircuitBreaker from "effect/persistence/CircuitBreaker"
import * as Schedule from "effect/Schedule"
import * as CircuitBreakers from "../../../src/core/gates/CircuitBreakers.ts"
import {
  Gate,
  LocalExecutor,
  ToolAnnotations,
  ToolExecutors,
  ToolHandlers,
  type ToolLimits,
  type ToolOutcome
} from "../../../src/index.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { call, type Handler, type Options, run, tag, tags, toolkit, type ToolSpec } from "../../support/Harness.ts"

const circuit = (settings: ToolLimits.Circuit, rest: Options = {}): Options => ({
  dedupe: false,
  ...rest,
  tools: { ...rest.tools, t: { ...rest.tools?.t, circuitBreaker: settings } }
})

/** Fails where its parameters say so. */
const flaky: Handler = ({ fails }) => fails === true ? Effect.fail("it is down") : Effect.succeed("fine")
const down = (id: string, tool = "t") => call(id, tool, { id, fails: true })
const up = (id: string, tool = "t") => call(id, tool, { id })

const two: ToolLimits.Circuit = { failures: 2, openFor: "30 seconds" }

describe("the circuit of a tool", () => {
  it.effect(
    "opens after failures in a row, and says when to try again",
    () =>
      run({ t: flaky, other: flaky }, circuit(two), ({ process }) =>
        Effect.gen(function*() {
          // a success in between begins the count anew
          for (const it of [down("1"), up("2"), down("3"), down("4")]) yield* process.execute(it)
          yield* Effect.sleep("10 seconds")
          const refused = yield* process.execute(up("5"))
          assert.deepStrictEqual(refused._tag === "Denied" ? refused.reason : undefined, {
            _tag: "CircuitOpen",
            retryAfterMillis: 20_000
          })
          assert.strictEqual(tag(yield* process.execute(up("6", "other"))), "Succeeded")
        })),
    { tags: ["G12"] }
  )

  it.effect("lets one call try when its time is over, and closes if that succeeds", () =>
    run(
      { t: (params) => Effect.andThen(Effect.sleep("1 second"), flaky(params)) },
      circuit(two),
      ({ process }) =>
        Effect.gen(function*() {
          yield* process.executeWave([down("1"), down("2")])
          yield* Effect.sleep("30 seconds")
          const wave = yield* process.executeWave([up("3"), up("4"), up("5")])
          assert.deepStrictEqual(tags(wave), ["Succeeded", "CircuitOpen", "CircuitOpen"])
          assert.include(wave.toolMessages[1]!.text, "one call is trying whether it works again")
          assert.deepStrictEqual(tags(yield* process.executeWave([up("6"), up("7")])), ["Succeeded", "Succeeded"])
        })
    ), { tags: ["G12"] })

  it.effect("opens again if that fails, for as long as the schedule says", () =>
    run(
      { t: flaky },
      circuit({ failures: 1, openFor: Schedule.exponential("10 seconds") }),
      ({ process }) =>
        Effect.gen(function*() {
          const waits: Array<unknown> = []
          for (const id of ["1", "2", "3"]) {
            assert.strictEqual(tag(yield* process.execute(down(id))), "Failed")
            const { reason } = yield* process.execute(up(`${id} again`)) as Effect.Effect<never>
            waits.push(reason)
            yield* Effect.sleep((reason as { retryAfterMillis: number }).retryAfterMillis)
          }
          assert.deepStrictEqual(
            waits,
            [10_000, 20_000, 40_000].map((retryAfterMillis) => ({ _tag: "CircuitOpen", retryAfterMillis }))
          )
        })
    ))

  it.effect("opens at a share of failures among the last calls", () =>
    run({ t: flaky }, circuit({ rate: { threshold: 0.5, calls: 4 } }), ({ process }) =>
      Effect.gen(function*() {
        const wave: Array<string> = []
        for (const it of [down("1"), up("2"), up("3"), down("4"), up("5")]) wave.push(tag(yield* process.execute(it)))
        assert.deepStrictEqual(wave, ["Failed", "Succeeded", "Succeeded", "Failed", "CircuitOpen"])
      })))

  it.effect("counts a handler that dies and one that takes too long, and no output that is not what was promised", () =>
    run(
      {
        t: ({ how }) =>
          how === "dies" ? Effect.die("broken") : how === "hangs" ? Effect.never : Effect.succeed({ n: 1n })
      },
      circuit(two, { tools: { t: { timeout: "1 second" } } }),
      ({ process }) =>
        Effect.gen(function*() {
          const outcomes: Array<string> = []
          for (const how of ["dies", "odd", "dies", "hangs", "any"]) {
            outcomes.push(tag(yield* process.execute(call(how, "t", { how }))))
          }
          assert.deepStrictEqual(outcomes, ["Failed", "Failed", "Failed", "TimedOut", "CircuitOpen"])
        })
    ))

  it.effect("counts no call that was cancelled or refused, nor one that got another's outcome", () =>
    run(
      { t: ({ fails, n }) => n === undefined ? flaky({ fails }) : Effect.never },
      circuit({ failures: 2 }, {
        dedupe: { outcomes: ["Succeeded", "Failed"], onDuplicate: "replay", readWindow: "5 minutes" },
        policy: { default: "allow" },
        rules: [{ _tag: "MaxCalls", tool: "t", max: 3 }]
      }),
      ({ process }) =>
        Effect.gen(function*() {
          const failed = call("1", "t", { fails: true })
          assert.strictEqual(tag(yield* process.execute(failed)), "Failed")
          for (const id of ["2", "3"]) assert.strictEqual(tag(yield* process.execute({ ...failed, id })), "Failed")
          const fiber = yield* Effect.forkChild(process.execute(call("4", "t", { n: 1 })), { startImmediately: true })
          yield* Effect.sleep("1 second")
          yield* process.cancelCall("4")
          assert.strictEqual(tag(yield* Fiber.join(fiber)), "Cancelled")
          // one failure only: the circuit is not open
          assert.strictEqual(tag(yield* process.execute(call("5", "t", { ok: true }))), "Succeeded")
          assert.strictEqual(tag(yield* process.execute(call("6", "t", { ok: 2 }))), "RuleViolation")
        })
    ), { tags: ["G12"] })

  it.effect("is judged as the tool says", () =>
    run(
      {
        t: {
          handler: ({ fails }) => Effect.fail(fails === true ? "it is down" : "no such file"),
          annotate: (tool) =>
            tool.annotate(ToolAnnotations.CircuitBreaker, {
              failures: 2,
              isFailure: (outcome) => outcome._tag === "Failed" && outcome.error === "it is down"
            })
        }
      },
      { dedupe: false },
      ({ process }) =>
        Effect.gen(function*() {
          const outcomes: Array<string> = []
          // an answer of a tool that works begins the count anew
          for (const it of [down("1"), up("2"), down("3"), down("4"), up("5")]) {
            outcomes.push(tag(yield* process.execute(it)))
          }
          assert.deepStrictEqual(outcomes, ["Failed", "Failed", "Failed", "Failed", "CircuitOpen"])
        })
    ))

  it.effect("keeps nothing of a call that may try and does not start", () =>
    run(
      { t: flaky, blocker: flaky },
      circuit({ failures: 1, openFor: "10 seconds" }, {
        swap: Gate.layer({
          name: "last look",
          recheck: ({ call }) => call.id === "2" ? Effect.fail("not now") : Effect.void
        })
      }),
      ({ process }) =>
        Effect.gen(function*() {
          yield* process.execute(down("1"))
          yield* Effect.sleep("10 seconds")
          assert.strictEqual(tag(yield* process.execute(up("2"))), "GuardRejected")
          assert.strictEqual(tag(yield* process.execute(up("3"))), "Succeeded")
        })
    ))

  it.effect("knows a call again that it has let in to try", () => {
    const twice = Effect.map(CircuitBreakers.make(), (gate) => ({
      ...gate,
      recheck: (it: Gate.GateCall) => Effect.andThen(gate.recheck!(it), gate.recheck!(it))
    }))
    return run(
      { t: flaky },
      circuit({ failures: 1, openFor: "10 seconds" }, { swap: Layer.orDie(Gate.layer(twice)) }),
      ({ process }) =>
        Effect.gen(function*() {
          yield* process.execute(down("1"))
          yield* Effect.sleep("10 seconds")
          assert.strictEqual(tag(yield* process.execute(up("2"))), "Succeeded")
        })
    )
  })

  it.effect("counts a call that is tried again once, by its last try", () => {
    const tries = new Map<unknown, number>()
    const retried: ToolSpec = {
      handler: ({ failures, n }) => {
        const before = tries.get(n) ?? 0
        tries.set(n, before + 1)
        return before < Number(failures) ? Effect.fail("busy") : Effect.succeed("fine")
      },
      annotate: (tool) => tool.annotate(ToolAnnotations.Retry, Schedule.recurs(2))
    }
    return run({ t: retried }, circuit({ failures: 2 }), ({ process }) =>
      Effect.gen(function*() {
        const outcomes: Array<string> = []
        for (const failures of [9, 2, 9, 9, 0]) {
          outcomes.push(tag(yield* process.execute(call(`${outcomes.length}`, "t", { failures, n: outcomes.length }))))
        }
        assert.deepStrictEqual(outcomes, ["Failed", "Succeeded", "Failed", "Failed", "CircuitOpen"])
      }))
  })

  it.effect("counts nothing that ends without having started", () => {
    const unstarted = Effect.map(CircuitBreakers.make(), (gate) => ({
      ...gate,
      settle: (it: Gate.GateCall, { startedAt: _, ...outcome }: ToolOutcome.ToolOutcome) =>
        gate.settle!(it, outcome as ToolOutcome.ToolOutcome)
    }))
    return run(
      { t: flaky },
      circuit({ failures: 1 }, { swap: Layer.orDie(Gate.layer(unstarted)) }),
      ({ process }) =>
        Effect.gen(function*() {
          for (const id of ["1", "2"]) assert.strictEqual(tag(yield* process.execute(down(id))), "Failed")
        })
    )
  })

  it.effect("counts a call before the next one begins, however slow its store is", () => {
    const slow = Layer.effect(
      CircuitBreaker.CircuitBreakerStore,
      Effect.map(CircuitBreaker.CircuitBreakerStore, (it) => ({
        ...it,
        record: (options: Parameters<typeof it.record>[0]) => Effect.delay(it.record(options), "1 second")
      }))
    ).pipe(Layer.provide(CircuitBreaker.layerStoreMemory()))
    return run(
      { t: flaky },
      circuit({ failures: 1 }, { swap: Layer.orDie(CircuitBreakers.layer().pipe(Layer.provide(slow))) }),
      ({ process }) =>
        Effect.gen(function*() {
          assert.strictEqual(tag(yield* process.execute(down("1"))), "Failed")
          assert.strictEqual(tag(yield* process.execute(up("2"))), "CircuitOpen")
        })
    )
  })

  it.effect("says nothing of a tool that the end of the turn has stopped", () =>
    run(
      { t: () => Effect.sleep("10 seconds") },
      circuit({ failures: 1 }, { turn: { timeout: "5 seconds", minimumSlice: 0 } }),
      ({ batch, process }) =>
        Effect.gen(function*() {
          const stopped = yield* process.execute(up("1"))
          assert.deepInclude(stopped, { _tag: "TimedOut", which: "turn" })
          const fiber = yield* Effect.forkChild((yield* batch.process()).execute(up("2")), { startImmediately: true })
          assert.strictEqual(tag(yield* Fiber.join(fiber)), "TimedOut")
        })
    ))

  it.effect("refuses before anything is reserved and anybody is asked", () =>
    run(
      { t: flaky },
      circuit({ failures: 1 }, { rules: [{ _tag: "MaxCalls", tool: "t", max: 2 }] }),
      ({ process }) =>
        Effect.gen(function*() {
          yield* process.execute(down("1"))
          for (const id of ["2", "3"]) assert.strictEqual(tag(yield* process.execute(up(id))), "CircuitOpen")
          yield* Effect.sleep("30 seconds")
          assert.strictEqual(tag(yield* process.execute(up("4"))), "Succeeded")
          assert.strictEqual(tag(yield* process.execute(up("5"))), "RuleViolation")
        })
    ), { tags: ["G12"] })

  it.effect("is the same for the sessions of one backend", () => {
    const { handlers, kit } = toolkit({ t: flaky })
    const sessions = ToolExecutors.layer().pipe(
      Layer.provide(LocalExecutor.layerGates({ policy: { default: "allow" } })),
      Layer.provide(ToolHandlers.layer(kit, { tools: { t: { circuitBreaker: { failures: 1 } } } })),
      Layer.provide(handlers)
    )
    return VirtualTime.run(Effect.scoped(
      Effect.gen(function*() {
        const { get } = yield* ToolExecutors.ToolExecutors
        const execute = Effect.fnUntraced(function*(session: string, it: ReturnType<typeof call>) {
          return tag(yield* (yield* (yield* get(session)).process()).execute(it))
        })
        assert.strictEqual(yield* execute("ada", down("1")), "Failed")
        assert.strictEqual(yield* execute("bob", up("2")), "CircuitOpen")
      }).pipe(Effect.provide(sessions))
    ))
  })

  it.effect("is not there where the host takes it out", () =>
    run(
      { t: flaky },
      circuit({ failures: 1 }, { swap: CircuitBreakers.layerNoop }),
      ({ process }) =>
        Effect.gen(function*() {
          for (const id of ["1", "2"]) assert.strictEqual(tag(yield* process.execute(down(id))), "Failed")
        })
    ))
})

describe("a store of circuits in trouble", () => {
  const fails = Effect.fail(
    new CircuitBreaker.CircuitBreakerError({
      reason: new CircuitBreaker.CircuitBreakerStoreError({ message: "the database is away" })
    })
  )
  const troubles: Readonly<Record<string, Effect.Effect<never, CircuitBreaker.CircuitBreakerError>>> = {
    fails,
    dies: Effect.die("broken"),
    hangs: Effect.never,
    "hangs and is deaf": Effect.uninterruptible(Effect.never)
  }
  for (const [how, trouble] of Object.entries(troubles)) {
    const away: Layer.Layer<never> = CircuitBreakers.layer().pipe(
      Layer.provide(Layer.succeed(CircuitBreaker.CircuitBreakerStore, {
        admit: () => trouble,
        record: () => trouble,
        state: () => trouble
      })),
      Layer.orDie
    )
    it.effect(`that ${how} lets calls run, unless the tool says that they are refused`, () =>
      run({ t: flaky, careful: flaky }, {
        dedupe: false,
        tools: { t: { circuitBreaker: {} }, careful: { circuitBreaker: { onStoreError: "refuse" } } },
        swap: away
      }, ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave([down("1"), up("2"), up("3", "careful")])
          assert.deepStrictEqual(tags(wave), ["Failed", "Succeeded", "StoreUnavailable"])
          // it is waited for when the call's turn comes and when it starts, and never again
          const waited = yield* Effect.clockWith((clock) => clock.currentTimeMillis)
          assert.isAtMost(waited, how.startsWith("hangs") ? 4_000 : 0)
        })))
  }
})

describe("a circuit that cannot be", () => {
  it.effect("is told with every problem and its place", () => {
    const spec: ToolSpec = { handler: flaky }
    return Effect.map(
      Effect.exit(run({ t: spec }, {
        tools: {
          t: {
            circuitBreaker: {
              failures: 0,
              openFor: "soon" as never,
              onStoreError: "maybe" as never
            }
          }
        }
      }, () => Effect.void)),
      (exit) => {
        const error = exit._tag === "Failure" ? Cause.pretty(exit.cause) : ""
        assert.include(error, "tools.t.circuitBreaker.failures: it is 0; expected a whole number of 1 or more")
        assert.include(error, "tools.t.circuitBreaker.openFor: it is \"soon\"; expected a duration above zero")
        assert.include(error, "tools.t.circuitBreaker.onStoreError: it is \"maybe\"; expected one of allow, refuse")
      }
    )
  })
})
