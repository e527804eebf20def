/**
 * Gates of the host: at which moments of a call they are asked, what they may
 * say, what they are told, and how their layers add up.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Approvals from "../../../src/core/gates/Approvals.ts"
import * as Guards from "../../../src/core/gates/Guards.ts"
import {
  ConfigurationError,
  Gate,
  LocalExecutor,
  ToolCall,
  ToolContext,
  ToolExecutor,
  ToolExecutors,
  ToolHandlers,
  type ToolOutcome
} from "../../../src/index.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { call, calls, declare, type Options, run, tag, tags, toolkit } from "../../support/Harness.ts"

const moments = ["arrive", "guard", "admit", "recheck"] as const

/** A gate that writes down everything that it is asked and told. */
const scribe = (log: Array<string>, name = "scribe", of: ReadonlyArray<Gate.Moment> = moments): Gate.Gate => {
  const note = (moment: string) => (it: Gate.GateCall) => Effect.sync(() => void log.push(`${moment} ${it.call.id}`))
  return {
    name,
    ...Object.fromEntries(of.map((moment) => [moment, note(moment)])),
    settle: (it, outcome) => Effect.sync(() => void log.push(`settle ${it.call.id} ${tag(outcome)}`))
  }
}

const handler = (log: Array<string>) => (params: { readonly [key: string]: unknown }) =>
  Effect.sync(() => void log.push(`run ${params["n"]}`))

/** Somebody who answers every question at once. */
const answering = (answer: Approvals.Answer, log: Array<string> = []) =>
  Effect.gen(function*() {
    const approvals = yield* Approvals.make()
    yield* Effect.forkScoped(
      Stream.runForEach(approvals.changes, (change) => {
        if (change._tag === "Ended") return Effect.void
        log.push(`question ${change.request.callId}`)
        return approvals.answer(change.request.id, answer)
      }),
      { startImmediately: true }
    )
    return approvals
  })

const with_ = (...gates: ReadonlyArray<Gate.Gate>): NonNullable<Options["swap"]> =>
  gates.map((it) => Gate.layer(it)).reduce((all, it) => Layer.merge(all, it), Layer.empty as Layer.Layer<never>)

const reasonOf = (outcome: ToolOutcome.ToolOutcome | undefined) =>
  outcome?._tag === "Denied" ? outcome.reason : undefined

describe("the gates of a host", () => {
  it.effect("are asked at their moments, each in its place of the order", () =>
    Effect.scoped(Effect.gen(function*() {
      const log: Array<string> = []
      const approvals = yield* answering({ _tag: "ApproveOnce" }, log)
      yield* run({ t: handler(log), asks: handler(log), denied: handler(log) }, {
        approvals,
        policy: { default: "allow", ask: ["asks"], deny: ["denied"] },
        rules: [{ _tag: "MaxCalls", tool: "t", max: 1 }],
        swap: with_(scribe(log))
      }, ({ process }) =>
        Effect.gen(function*() {
          // denied by the policy, let through, refused by a rule, a duplicate, asked about
          const wave = yield* process.executeWave(calls("denied", "t", "t", ["t", { n: 2 }], "asks", "none"))
          assert.deepStrictEqual(tags(wave), [
            "PolicyDenied",
            "Succeeded",
            "RuleViolation",
            "DuplicateCall",
            "Succeeded",
            "ToolNotFound"
          ])
          const of = (id: string) => log.filter((it) => it.split(" ")[1] === id)
          assert.deepStrictEqual(of("1"), [])
          assert.deepStrictEqual(of("2"), [
            "arrive 2",
            "guard 2",
            "admit 2",
            "recheck 2",
            "run 2",
            "settle 2 Succeeded"
          ])
          // what rules and dedupe refuse is asked about before, and not after
          assert.deepStrictEqual(of("3"), ["arrive 3", "guard 3", "settle 3 RuleViolation"])
          assert.deepStrictEqual(of("4"), ["arrive 4", "guard 4", "settle 4 DuplicateCall"])
          assert.deepStrictEqual(of("5"), [
            "arrive 5",
            "guard 5",
            "admit 5",
            "question 5",
            "recheck 5",
            "run 5",
            "settle 5 Succeeded"
          ])
          assert.deepStrictEqual(of("6"), [])
        }))
    })), { tags: ["G1"] })

  it.effect("are asked about the tools that they concern, and about all where they cannot tell", () => {
    const log: Array<string> = []
    const of = (name: string, concerns: NonNullable<Gate.Gate["concerns"]>): Gate.Gate => ({
      name,
      concerns,
      guard: ({ call: { id } }) => Effect.sync(() => void log.push(`${name} ${id}`)),
      settle: ({ call: { id } }) => Effect.sync(() => void log.push(`${name} settles ${id}`))
    })
    const gates = with_(
      of("some", ({ name }) => name === "t"),
      of("none", () => false),
      of("broken", () => {
        throw new Error("oh no")
      })
    )
    return run(
      { t: () => Effect.void, u: () => Effect.void },
      { swap: gates },
      ({ process }) =>
        Effect.map(process.executeWave(calls("t", "u")), () =>
          assert.sameMembers(log, [
            "some 1",
            "some settles 1",
            "broken 1",
            "broken settles 1",
            "broken 2",
            "broken settles 2"
          ]))
    )
  })

  it.effect("are asked on arrival before anything of the wave runs, and by the run after that", () => {
    const log: Array<string> = []
    return run(
      { a: { class: "SerialMut", handler: handler(log) }, b: { class: "SerialMut", handler: handler(log) } },
      { swap: with_(scribe(log)) },
      ({ process }) =>
        Effect.map(process.executeWave(calls("a", "b")), () =>
          assert.deepStrictEqual(
            log,
            [
              "arrive 1",
              "arrive 2",
              "guard 1",
              "admit 1",
              "recheck 1",
              "run 1",
              "settle 1 Succeeded",
              "guard 2",
              "admit 2",
              "recheck 2",
              "run 2",
              "settle 2 Succeeded"
            ]
          ))
    )
  })

  it.effect("find what was reserved at admission, and nothing before", () => {
    const free: Array<string> = []
    return run({ t: () => Effect.void }, {
      rules: [{ _tag: "MaxCalls", tool: "t", max: 1 }],
      swap: Layer.unwrap(Effect.sync(() => {
        const look = (moment: string) => () =>
          Effect.flatMap(Effect.suspend(() => allowed), (it) => Effect.sync(() => void free.push(`${moment} ${it}`)))
        return with_({ name: "looks", arrive: look("arrive"), guard: look("guard"), admit: look("admit") })
      }))
    }, ({ process }) => {
      allowed = process.allowedNext
      return Effect.map(process.executeWave(calls("t")), (wave) => {
        assert.deepStrictEqual(tags(wave), ["Succeeded"])
        assert.deepStrictEqual(free, ["arrive t", "guard t", "admit "])
      })
    })
  })
  let allowed: Effect.Effect<ReadonlyArray<string>> = Effect.succeed([])

  it.effect("are asked once more at the start, holding the permits", () => {
    const log: Array<string> = []
    return run({ t: handler(log) }, {
      pools: { read: 1 },
      swap: with_({
        name: "slow",
        recheck: (it) => Effect.delay(Effect.sync(() => void log.push(`recheck ${it.call.id}`)), 100)
      })
    }, ({ process }) =>
      Effect.gen(function*() {
        yield* process.executeWave(calls("t", "t"))
        assert.deepStrictEqual(log, ["recheck 1", "run 1", "recheck 2", "run 2"])
        assert.strictEqual(yield* VirtualTime.now, 200)
      }))
  })

  it.effect("are asked side by side for the calls of a run", () =>
    run({ t: () => Effect.void }, {
      swap: with_({
        name: "slow",
        arrive: () => Effect.sleep(10),
        guard: () => Effect.sleep(10),
        recheck: () => Effect.sleep(10)
      })
    }, ({ process }) =>
      Effect.gen(function*() {
        yield* process.executeWave(calls("t", "t", "t"))
        assert.strictEqual(yield* VirtualTime.now, 30)
      })))

  it.effect("see the arguments that a person has edited, and settle the call as it ran", () =>
    Effect.scoped(Effect.gen(function*() {
      const seen: Array<readonly [string, unknown]> = []
      const made = new Set<unknown>()
      const note = (moment: string) => (it: Gate.GateCall) =>
        Effect.sync(() => {
          made.add(it.call)
          seen.push([moment, it.args])
        })
      const approvals = yield* answering({ _tag: "ApproveOnce", params: { n: 2 } })
      yield* run({ t: () => Effect.void }, {
        approvals,
        policy: { default: "allow", ask: ["t"] },
        swap: with_({
          name: "sees",
          ...Object.fromEntries(moments.map((moment) => [moment, note(moment)])),
          settle: note("settle")
        })
      }, ({ process }) => process.executeWave([call("1", "t", { n: 1 })]))
      assert.deepStrictEqual(seen, [
        ["arrive", { n: 1 }],
        ["guard", { n: 1 }],
        ["admit", { n: 1 }],
        ["arrive", { n: 2 }],
        ["guard", { n: 2 }],
        ["admit", { n: 2 }],
        ["recheck", { n: 2 }],
        ["settle", { n: 2 }]
      ])
      assert.strictEqual(made.size, 1, "it is the same call all along")
    })))

  it.effect("that refuse edited arguments refuse the call", () =>
    Effect.scoped(Effect.gen(function*() {
      const approvals = yield* answering({ _tag: "ApproveOnce", params: { n: 2 } })
      yield* run({ t: () => Effect.void }, {
        approvals,
        policy: { default: "allow", ask: ["t"] },
        swap: with_({
          name: "one",
          arrive: ({ args }) => (args as { readonly n: number }).n === 1 ? Effect.void : Effect.fail("only one")
        })
      }, ({ process }) =>
        Effect.map(process.executeWave([call("1", "t", { n: 1 })]), (wave) => {
          assert.deepStrictEqual(reasonOf(wave.outcomes[0]), {
            _tag: "GuardRejected",
            guard: "one",
            reason: "only one"
          })
        }))
    })))

  it.effect("spare people the question where they refuse on admission, also when a wave is asked about first", () =>
    Effect.scoped(Effect.gen(function*() {
      for (const approval of ["perCall", "upfront"] as const) {
        const log: Array<string> = []
        const approvals = yield* answering({ _tag: "ApproveOnce" }, log)
        yield* run({ t: () => Effect.void, u: () => Effect.void }, {
          approvals,
          approval,
          policy: { default: "ask" },
          swap: with_({ name: "no", admit: ({ tool }) => tool.name === "t" ? Effect.fail("no") : Effect.void })
        }, ({ process }) =>
          Effect.map(process.executeWave(calls("t", "u")), (wave) => {
            assert.deepStrictEqual(tags(wave), ["GuardRejected", "Succeeded"])
            assert.deepStrictEqual(log, ["question 2"])
          }))
      }
    })))
})

describe("a gate that says no", () => {
  for (const moment of moments) {
    const bad: ReadonlyArray<readonly [string, Gate.Ask, string, number]> = [
      ["fails", () => Effect.fail("not today"), "not today", 0],
      ["dies", () => Effect.die("boom"), "it failed", 0],
      ["fails with no text", () => Effect.fail(new Error("boom") as never), "it failed", 0],
      [
        "throws",
        () => {
          throw new Error("boom")
        },
        "it failed",
        0
      ],
      ["interrupts itself", () => Effect.interrupt, "it failed", 0],
      ["hangs", () => Effect.never, "it took too long", 2_000],
      ["hangs and is deaf", () => Effect.uninterruptible(Effect.sleep("1 hour")), "it took too long", 2_000]
    ]
    for (const [what, ask, reason, at] of bad) {
      it.effect(`at ${moment} has its name in the refusal when it ${what}`, () => {
        const log: Array<string> = []
        return run({ t: handler(log) }, {
          guardTimeout: "2 seconds",
          rules: [{ _tag: "MaxCalls", tool: "t", max: 1 }],
          swap: with_(
            { name: "first", [moment]: () => Effect.void },
            { name: "second", [moment]: (it: Gate.GateCall) => it.call.id === "1" ? ask(it) : Effect.void },
            { name: "third", [moment]: (it: Gate.GateCall) => Effect.sync(() => void log.push(`third ${it.call.id}`)) }
          )
        }, ({ process }) =>
          Effect.gen(function*() {
            const wave = yield* process.executeWave([call("1", "t", { n: 1 })])
            assert.deepStrictEqual(reasonOf(wave.outcomes[0]), { _tag: "GuardRejected", guard: "second", reason })
            assert.strictEqual(yield* VirtualTime.now, at)
            // nothing stays reserved, and those behind it were not asked
            assert.deepStrictEqual(tags(yield* process.executeWave([call("2", "t", { n: 1 })])), ["Succeeded"])
            assert.deepStrictEqual(log, ["third 2", "run 1"])
          }))
      }, { tags: ["G3"] })
    }
  }

  for (const moment of moments) {
    it.effect(`at ${moment} is waited for no longer than its turn lasts`, () =>
      run({ t: () => Effect.void }, {
        turn: { timeout: "1 second", minimumSlice: 0 },
        swap: with_({ name: "slow", [moment]: () => Effect.sleep("3 seconds") })
      }, ({ process }) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("t", "t"))), [
            "DeadlineExceeded",
            "DeadlineExceeded"
          ])
          assert.strictEqual(yield* Effect.clockWith((clock) => clock.currentTimeMillis), 1_000)
        })), { tags: ["G5"] })
  }

  it.effect("may say it with a refusal of its own", () =>
    run({ t: () => Effect.void }, {
      swap: with_({ name: "rate", guard: () => Effect.fail({ _tag: "CircuitOpen", retryAfterMillis: 3_000 } as const) })
    }, ({ process }) =>
      Effect.map(process.executeWave(calls("t")), (wave) => {
        assert.deepStrictEqual(reasonOf(wave.outcomes[0]), { _tag: "CircuitOpen", retryAfterMillis: 3_000 })
      })))

  it.effect("ends the wave at its place in stop mode", () =>
    run({ t: { class: "SerialMut", handler: () => Effect.void } }, {
      onExecutionError: "stop",
      swap: with_({ name: "second", recheck: ({ call }) => call.id === "2" ? Effect.fail("no") : Effect.void })
    }, ({ process }) =>
      Effect.map(process.executeWave(calls("t", "t", "t")), (wave) => {
        assert.deepStrictEqual(tags(wave), ["Succeeded", "GuardRejected", "Skipped"])
      })))
})

describe("a gate receives the outcome of a call", () => {
  const settled = (
    handler: (params: { readonly [key: string]: unknown }) => Effect.Effect<unknown, unknown>,
    options: Options,
    gates: ReadonlyArray<Gate.Gate> = [],
    meanwhile: (
      env: { readonly process: { readonly cancelCall: (id: string, reason?: string) => Effect.Effect<void> } }
    ) => Effect.Effect<void> = () => Effect.void
  ) => {
    const log: Array<string> = []
    const of = { name: "last", settle: scribe(log).settle, arrive: () => Effect.void, recheck: () => Effect.void }
    return run({ t: handler }, { ...options, swap: with_(of, ...gates) }, ({ process }) =>
      Effect.gen(function*() {
        yield* Effect.forkChild(meanwhile({ process }))
        yield* process.executeWave(calls("t"))
        return log
      }))
  }
  const never = () => Effect.never
  const once = (what: string, log: Effect.Effect<ReadonlyArray<string>, unknown>, end: string) =>
    it.effect(
      `once, when it ${what}`,
      () => Effect.map(Effect.orDie(log), (log) => assert.deepStrictEqual(log, [`settle 1 ${end}`])),
      { tags: ["G4"] }
    )

  once("succeeded", settled(() => Effect.void, {}), "Succeeded")
  once("failed", settled(() => Effect.fail("no"), {}), "Failed")
  once("died", settled(() => Effect.die("no"), {}), "Failed")
  once("timed out", settled(never, { tools: { t: { timeout: 10 } } }), "TimedOut")
  once(
    "timed out and its fiber lives on",
    settled(() => Effect.uninterruptible(Effect.sleep("1 minute")), { tools: { t: { timeout: 10 } } }),
    "TimedOut"
  )
  once(
    "was cancelled while it ran",
    settled(never, {}, [], ({ process }) => Effect.delay(process.cancelCall("1"), 5)),
    "Cancelled"
  )
  for (const moment of moments) {
    once(
      `was refused at ${moment} by another`,
      settled(() => Effect.void, {}, [{ name: "other", [moment]: () => Effect.fail("no") }]),
      "GuardRejected"
    )
    once(
      `was cancelled while another was asked at ${moment}`,
      settled(
        () => Effect.void,
        {},
        [{ name: "other", [moment]: () => Effect.never }],
        ({ process }) => Effect.delay(process.cancelCall("1"), 5)
      ),
      "Cancelled"
    )
  }
  once("was refused by a person", settled(() => Effect.void, { policy: { default: "ask" } }), "PermissionDenied")

  it.effect("also where the caller is interrupted at any moment", () =>
    Effect.gen(function*() {
      for (const moment of [...moments, "run"] as const) {
        const log: Array<string> = []
        yield* run({ t: () => moment === "run" ? Effect.never : Effect.void }, {
          swap: with_({
            name: "slow",
            ...(moment === "run" ? { guard: () => Effect.void } : { [moment]: () => Effect.never }),
            settle: scribe(log).settle
          })
        }, ({ process }) =>
          Effect.gen(function*() {
            const fiber = yield* Effect.forkChild(process.executeWave(calls("t")), { startImmediately: true })
            yield* Effect.sleep(5)
            yield* Fiber.interrupt(fiber)
            assert.deepStrictEqual(log, ["settle 1 Cancelled"], moment)
          }))
      }
    }))

  it.effect("only if it was asked about it", () => {
    const log: Array<string> = []
    return run({ t: () => Effect.void }, {
      swap: with_(
        { name: "first", guard: () => Effect.fail("no") },
        { name: "second", guard: () => Effect.void, settle: scribe(log).settle }
      )
    }, ({ process }) => Effect.map(process.executeWave(calls("t")), () => assert.deepStrictEqual(log, [])))
  })

  it.effect("before anybody else, so that the next call finds what was given back", () => {
    let free = 1
    const events: Array<string> = []
    return run({ t: { class: "SerialMut", handler: () => Effect.void } }, {
      swap: with_({
        name: "one at a time",
        guard: () => Effect.suspend(() => free-- > 0 ? Effect.void : Effect.fail("busy")),
        settle: () =>
          Effect.delay(
            Effect.sync(() => {
              events.push("settled")
              free++
            }),
            50
          )
      })
    }, ({ process }) =>
      Effect.gen(function*() {
        yield* Effect.forkChild(
          Stream.runForEach(process.events, (it) =>
            Effect.sync(() => {
              if (it._tag === "ToolCallComplete") events.push(`told ${it.callId}`)
            })),
          { startImmediately: true }
        )
        assert.deepStrictEqual(tags(yield* process.executeWave(calls("t", "t"))), ["Succeeded", "Succeeded"])
        yield* Effect.yieldNow
        assert.deepStrictEqual(events, ["settled", "told 1", "settled", "told 2"])
      }))
  }, { tags: ["G4"] })

  it.effect("and loses nobody's outcome where it dies or hangs: that is in the log", () => {
    const logged: Array<string> = []
    const logger = Logger.make(({ message }) => void logged.push(String(Array.isArray(message) ? message[0] : message)))
    return run({ t: () => Effect.void }, {
      guardTimeout: 100,
      swap: with_(
        { name: "dies", guard: () => Effect.void, settle: () => Effect.die("boom") },
        { name: "hangs", guard: () => Effect.void, settle: () => Effect.never },
        { name: "has nothing to give back", guard: () => Effect.void }
      )
    }, ({ process }) =>
      Effect.gen(function*() {
        const wave = Effect.provide(process.executeWave(calls("t")), Logger.layer([logger]))
        assert.deepStrictEqual(tags(yield* wave), ["Succeeded"])
        assert.strictEqual(yield* VirtualTime.now, 100)
        assert.deepStrictEqual(logged, [
          "The gate dies could not settle call 1",
          "The gate hangs could not settle call 1"
        ])
      }))
  })
})

describe("whoever calls, the gates are asked", () => {
  const asked = (
    program: (env: Parameters<Parameters<typeof run>[2]>[0]) => Effect.Effect<unknown, unknown, never>
  ) => {
    const log: Array<string> = []
    return Effect.map(
      run({ t: () => Effect.succeed(1) }, { swap: with_(scribe(log)) }, (env) => Effect.orDie(program(env))),
      () => log.map((it) => it.split(" ")[0])
    )
  }
  const once = [...moments, "settle"]
  const t = declare("t")
  const kit = Toolkit.make(t)

  it.effect("by process.call", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* asked(({ process }) => process.call(t, {} as never)), once)
    }))

  it.effect("by a step", () =>
    Effect.gen(function*() {
      const steps = asked(({ process }) =>
        Effect.scoped(Effect.flatMap(process.step, (step) => step.execute(call("1", "t", {}))))
      )
      assert.deepStrictEqual(yield* steps, once)
    }))

  it.effect("by a guarded toolkit", () =>
    Effect.gen(function*() {
      const guarded = asked(({ process }) =>
        Effect.gen(function*() {
          const { handle } = yield* yield* process.guard(kit)
          yield* Stream.runDrain(yield* handle("t", {} as never))
        }) as Effect.Effect<void, unknown>
      )
      assert.deepStrictEqual(yield* guarded, once)
    }))

  it.effect("by a sub-agent", () => {
    const log: Array<string> = []
    return run(
      {
        outer: {
          handler: () =>
            Effect.scoped(Effect.gen(function*() {
              const executor = yield* ToolExecutor.fork({ name: "child" })
              const process = yield* executor.process()
              yield* process.executeWave([call("below", "t", {})])
            })) as Effect.Effect<void, unknown>
        },
        t: () => Effect.succeed(1)
      },
      { swap: with_(scribe(log)) },
      ({ process }) =>
        Effect.map(
          process.executeWave(calls("outer")),
          () =>
            assert.deepStrictEqual(log.filter((it) => it.includes("below")), [
              "arrive below",
              "guard below",
              "admit below",
              "recheck below",
              "settle below Succeeded"
            ])
        )
    )
  })
})

describe("the layers of gates", () => {
  class Quota extends Context.Service<Quota, { readonly left: (tenant: string) => Effect.Effect<number> }>()("Quota") {}
  class Secrets extends Context.Service<Secrets, { readonly has: (text: string) => boolean }>()("Secrets") {}

  const order: Array<string> = []
  const named = (name: string): Gate.Gate => ({ name, guard: () => Effect.sync(() => void order.push(name)) })
  const orderOf = (swap: Layer.Layer<never, ConfigurationError.ConfigurationError>) => {
    order.length = 0
    return Effect.map(
      run({ t: () => Effect.void }, { swap: Layer.orDie(swap) }, ({ process }) => process.executeWave(calls("t"))),
      () => order.join(" ")
    )
  }

  it.effect("add up, beside and around each other", () =>
    Effect.gen(function*() {
      const [a, b, c] = [Gate.layer(named("a")), Gate.layer(named("b")), Gate.layer(named("c"))]
      assert.strictEqual(yield* orderOf(Layer.mergeAll(a, b, c)), "a b c")
      assert.strictEqual(yield* orderOf(c.pipe(Layer.provideMerge(b), Layer.provideMerge(a))), "a b c")
    }))

  it.effect("stand before and after others by name", () =>
    Effect.gen(function*() {
      const guards = Guards.layer([{ name: "g", check: named("g").guard! }])
      const [a, b] = [Gate.layer(named("a")), Gate.layer(named("b"))]
      assert.strictEqual(
        yield* orderOf(Layer.mergeAll(
          a,
          guards,
          Gate.layer(named("z"), { before: "a" }),
          Gate.layer(named("y"), { after: "a" }),
          Gate.layer(named("x"), { after: "y" }),
          Gate.layer(named("w"), { before: "Guards" }),
          b
        )),
        "z a y x w g b"
      )
      assert.strictEqual(yield* orderOf(Layer.mergeAll(a, Gate.layer(named("w"), { before: "Guards" }))), "w a")
    }))

  it.effect("fail together where places are not there", () =>
    Effect.gen(function*() {
      const { handlers, kit } = toolkit({ t: () => Effect.void })
      const error = yield* Effect.flip(Effect.scoped(Layer.build(
        LocalExecutor.layer(kit).pipe(
          Layer.provide(Layer.mergeAll(
            Gate.layer(named("a"), { after: "nobody" }),
            Gate.layer(named("b"), { before: "c" }),
            Gate.layer(named("c"), { after: "b" }),
            Gate.layer(named("d"), { before: "Dedupe" })
          )),
          Layer.provide(handlers)
        )
      )))
      assert.instanceOf(error, ConfigurationError.ConfigurationError)
      assert.deepStrictEqual(error.problems.map(({ path, problem }) => `${path}: ${problem}`), [
        "a: its place is after \"nobody\", and no gate of the host has that name",
        "b: its place is before \"c\", which has its own place by this one",
        "c: its place is after \"b\", which has its own place by this one",
        "d: its place is before \"Dedupe\", and no gate of the host has that name"
      ])
      assert.include(error.message, "arrive, guard, admit or recheck")
    }))

  const quota: Layer.Layer<never, never, Quota | Secrets> = Gate.layer(Effect.gen(function*() {
    const { left } = yield* Quota
    return {
      name: "quota",
      guard: (call: Gate.GateCall) =>
        Effect.flatMap(left(call.principal), (it) => it > 0 ? Effect.void : Effect.fail("The quota is used up.")),
      // a service may be asked for at the call, too: it is the layer's
      admit: (call: Gate.GateCall) =>
        Effect.flatMap(Secrets, (it) => it.has(JSON.stringify(call.args)) ? Effect.fail("a secret") : Effect.void)
    }
  }))

  const services = (left: number) =>
    Layer.mergeAll(
      Layer.mock(Quota, { left: () => Effect.succeed(left) }),
      Layer.succeed(Secrets, { has: (text) => text.includes("sk-") })
    )

  it.effect("take the services of where they are built, not those around the call", () =>
    run(
      { t: () => Effect.void },
      { swap: quota.pipe(Layer.provide(services(1))) },
      ({ process }) =>
        Effect.gen(function*() {
          const waves = process.executeWave(calls("t", ["t", { key: "sk-123" }]))
          const others = Layer.mergeAll(services(0), Layer.succeed(Secrets, { has: () => false }))
          assert.deepStrictEqual(tags(yield* Effect.provide(waves, others)), ["Succeeded", "GuardRejected"])
        })
    ))

  it.effect("are swapped by name, further out", () =>
    Effect.gen(function*() {
      const { handlers, kit } = toolkit({ t: () => Effect.succeed(1) })
      const application = (swap: Layer.Layer<never>) =>
        LocalExecutor.layer(kit).pipe(
          Layer.provide(quota.pipe(Layer.provide(services(0)))),
          Layer.provide(swap),
          Layer.provide(handlers)
        )
      const program = Effect.gen(function*() {
        const process = yield* (yield* ToolExecutor.ToolExecutor).process()
        return tags(yield* process.executeWave(calls("t")))
      })
      assert.deepStrictEqual(yield* Effect.provide(Effect.scoped(program), application(Layer.empty)), ["GuardRejected"])
      const swapped = application(Gate.layer({ name: "quota" }))
      assert.deepStrictEqual(yield* Effect.provide(Effect.scoped(program), swapped), ["Succeeded"])
    }), { tags: ["G2", "Y3"] })

  it.effect("reach the executors of all sessions", () =>
    Effect.gen(function*() {
      const { handlers, kit } = toolkit({ t: () => Effect.succeed(1) })
      const tools = ToolHandlers.layer(kit).pipe(Layer.provide(handlers))
      const layer = ToolExecutors.layer().pipe(
        Layer.provide(LocalExecutor.layerGates()),
        Layer.provide(
          Gate.layer({ name: "not ada", guard: (it) => it.principal === "ada" ? Effect.fail("no") : Effect.void })
        ),
        Layer.provide(tools)
      )
      yield* Effect.scoped(Effect.gen(function*() {
        const executors = yield* ToolExecutors.ToolExecutors
        for (const [session, expected] of [["ada", "GuardRejected"], ["bob", "Succeeded"]] as const) {
          const process = yield* (yield* executors.get(session)).process()
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("t"))), [expected])
        }
      })).pipe(Effect.provide(layer))
    }))

  it.effect("of guards around an executor replace those of its options, and a layer without any has none", () =>
    Effect.gen(function*() {
      const { handlers, kit } = toolkit({ t: () => Effect.succeed(1) })
      const around = Guards.layer([{ name: "around", check: () => Effect.fail("no") }])
      const tagsWith = (options: LocalExecutor.Options, further: Layer.Layer<never> = Layer.empty) =>
        Effect.gen(function*() {
          const process = yield* (yield* ToolExecutor.ToolExecutor).process()
          const wave = yield* process.executeWave(calls("t"))
          return wave.outcomes.map((it) => reasonOf(it)?._tag === "GuardRejected" ? reasonOf(it) : it._tag)
        }).pipe(
          Effect.scoped,
          Effect.provide(
            LocalExecutor.layer(kit, options).pipe(
              Layer.provide(around),
              Layer.provide(further),
              Layer.provide(handlers)
            )
          )
        )
      assert.containSubset(yield* tagsWith({}), [{ guard: "around" }])
      assert.containSubset(yield* tagsWith({ guards: [{ name: "option", check: () => Effect.fail("no") }] }), [
        { guard: "around" }
      ])
      assert.containSubset(yield* tagsWith({ guards: [] }), [{ guard: "around" }])
      assert.deepStrictEqual(yield* tagsWith({}, Guards.layerNoop), ["Succeeded"])
    }))

  it.effect("know the principal, batch and agent of a call, and are not within it", () =>
    run(
      { t: () => Effect.void },
      {
        principal: "ada",
        swap: with_({
          name: "who",
          guard: (call) =>
            Effect.map(ToolContext.ToolContext, (context) => {
              assert.deepStrictEqual([call.principal, call.agentPath], ["ada", []])
              assert.isUndefined(context.executor)
            })
        })
      },
      ({ process }) =>
        Effect.map(
          process.executeWave([ToolCall.make("1", "t", {})]),
          (wave) => assert.deepStrictEqual(tags(wave), ["Succeeded"])
        )
    ))
})

describe("Guards.for", () => {
  const Pay = Tool.make("pay", {
    parameters: Schema.Struct({ to: Schema.String, at: Schema.DateFromString }),
    success: Schema.String
  }).annotate(Tool.Readonly, true)
  const Look = Tool.make("look", { parameters: Schema.Struct({ path: Schema.String }), success: Schema.String })
    .annotate(Tool.Readonly, true)
  const kit = Toolkit.make(Pay, Look)
  const handlers = kit.toLayer({
    pay: ({ to }) => Effect.succeed(to),
    look: ({ path }) => Effect.succeed(path)
  })

  class Debts extends Context.Service<Debts, { readonly of: (to: string) => Effect.Effect<number> }>()("Debts") {}

  const guard: Guards.Guard<Debts> = Guards.for(kit, {
    pay: ({ at, to }, { principal }) =>
      Effect.flatMap(Debts, (debts) =>
        Effect.flatMap(debts.of(to), (debt) =>
          debt > 0 && at.getFullYear() > 2000
            ? Effect.fail(`${principal} is owed ${debt} by ${to}.`)
            : Effect.void))
  })

  const debts = Layer.succeed(Debts, { of: (to) => Effect.succeed(to === "bob" ? 5 : 0) })
  const layer: Layer.Layer<never, never, Debts> = Guards.layer([guard])

  const results = (executor: Layer.Layer<ToolExecutor.ToolExecutor, unknown>) =>
    Effect.gen(function*() {
      const process = yield* (yield* ToolExecutor.ToolExecutor).process()
      const at = "2026-01-01T00:00:00.000Z"
      return yield* process.executeWave(
        calls(["pay", { to: "bob", at }], ["pay", { to: "eve", at }], ["look", { path: "/" }])
      )
    }).pipe(Effect.scoped, Effect.provide(executor), Effect.orDie)

  it.effect("gives each check the decoded parameters of its tool, and lets other tools pass", () =>
    Effect.gen(function*() {
      const wave = yield* results(
        LocalExecutor.layer(kit, { policy: { default: "allow" } }).pipe(
          Layer.provide(layer),
          Layer.provide(debts),
          Layer.provide(handlers)
        )
      )
      assert.deepStrictEqual(tags(wave), ["GuardRejected", "Succeeded", "Succeeded"])
      assert.include(wave.toolMessages[0]?.text, "refused by the host: default is owed 5 by bob.")
    }))

  it.effect("says no where another tool has taken the name", () =>
    Effect.gen(function*() {
      const other = toolkit({ pay: () => Effect.void, look: () => Effect.void })
      const wave = yield* results(
        LocalExecutor.layer(other.kit, { policy: { default: "allow" } }).pipe(
          Layer.provide(layer),
          Layer.provide(debts),
          Layer.provide(other.handlers)
        )
      )
      assert.deepStrictEqual(tags(wave), ["GuardRejected", "GuardRejected", "Succeeded"])
    }))

  it("knows the names and parameters of the tools", () => {
    // @ts-expect-error there is no such tool
    assert.throws(() => Guards.for(kit, { nope: () => Effect.void }))
    // @ts-expect-error it has no such parameter
    Guards.for(kit, { look: ({ to }) => Effect.fail(to) })
  })
})
