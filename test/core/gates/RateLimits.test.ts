/**
 * Limits of calls within a time: what they let start, what takes nothing of them,
 * whose they are, and what becomes of calls while their store is in trouble.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as RateLimiter from "effect/persistence/RateLimiter"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import * as Approvals from "../../../src/core/gates/Approvals.ts"
import * as Gate from "../../../src/core/gates/Gate.ts"
import * as RateLimits from "../../../src/core/gates/RateLimits.ts"
import {
  LocalExecutor,
  ToolAnnotations,
  ToolContext,
  ToolExecutors,
  ToolHandlers,
  type ToolLimits
} from "../../../src/index.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { call, calls, type Handler, type Options, run, tag, tags, toolkit, value } from "../../support/Harness.ts"

const fine: Handler = () => Effect.succeed("fine")

/** The tool `t` has a limit. */
const limited = (rate: ToolLimits.ToolRate, rest: Options = {}): Options => ({
  ...rest,
  tools: { ...rest.tools, t: { ...rest.tools?.t, rateLimit: rate } }
})

const twoAMinute: ToolLimits.ToolRate = { limit: 2, window: "1 minute" }

/** A layer that may fail where it is built, for the place of one that may not. */
const given = <E>(layer: Layer.Layer<never, E>): Layer.Layer<never> => Layer.orDie(layer)

describe("the rate limit of a tool", () => {
  it.effect(
    "lets so many calls start, and another one whenever a token is there again",
    () =>
      run({ t: fine, other: fine }, limited(twoAMinute), ({ process }) =>
        Effect.gen(function*() {
          yield* Effect.sleep("7 seconds")
          const wave = yield* process.executeWave(calls("t", "t", "t", "other"))
          assert.deepStrictEqual(tags(wave), ["Succeeded", "Succeeded", "RateLimited", "Succeeded"])
          yield* Effect.sleep("10 seconds")
          const [refused] = (yield* process.executeWave(calls(["t", { later: 1 }]))).outcomes
          assert.deepStrictEqual(refused?._tag === "Denied" ? refused.reason : undefined, {
            _tag: "RateLimited",
            retryAfterMillis: 20_000
          })
          yield* Effect.sleep("20 seconds")
          const after = yield* process.executeWave(calls(["t", { later: 2 }], ["t", { later: 3 }]))
          assert.deepStrictEqual(tags(after), ["Succeeded", "RateLimited"])
        })),
    { tags: ["G13"] }
  )

  it.effect("of a fixed window has them all back at once", () =>
    run({ t: fine }, limited({ ...twoAMinute, algorithm: "fixed-window" }), ({ process }) =>
      Effect.gen(function*() {
        const of = (round: number) => calls(["t", { round, n: 1 }], ["t", { round, n: 2 }], ["t", { round, n: 3 }])
        assert.deepStrictEqual(tags(yield* process.executeWave(of(1))), ["Succeeded", "Succeeded", "RateLimited"])
        yield* Effect.sleep("59 seconds")
        const { outcomes, toolMessages } = yield* process.executeWave(of(2))
        assert.deepStrictEqual(outcomes.map(tag), ["RateLimited", "RateLimited", "RateLimited"])
        assert.include(toolMessages[0]!.text, "Try it again in 1 s")
        yield* Effect.sleep("1 second")
        assert.deepStrictEqual(tags(yield* process.executeWave(of(3))), ["Succeeded", "Succeeded", "RateLimited"])
      })))

  it.effect("is one token for a call, however often it is tried again", () => {
    let tries = 0
    return run(
      {
        t: {
          handler: () => Effect.suspend(() => ++tries % 3 === 0 ? Effect.succeed("fine") : Effect.fail("not yet")),
          annotate: (tool) => tool.annotate(Tool.Idempotent, true).annotate(ToolAnnotations.Retry, Schedule.recurs(5))
        }
      },
      limited(twoAMinute),
      ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave(calls("t", "t", "t"))
          assert.deepStrictEqual(tags(wave), ["Succeeded", "Succeeded", "RateLimited"])
          assert.strictEqual(tries, 6)
        })
    )
  }, { tags: ["G13"] })

  it.effect("is one token for a call, however often its gate is asked", () => {
    const twice = Effect.map(RateLimits.make(), (gate) => ({
      ...gate,
      recheck: (it: Gate.GateCall) => Effect.andThen(gate.recheck!(it), gate.recheck!(it))
    }))
    return run(
      { t: fine },
      limited(twoAMinute, { swap: given(Gate.layer(twice)) }),
      ({ process }) =>
        Effect.map(
          process.executeWave(calls("t", "t", "t")),
          (wave) => assert.deepStrictEqual(tags(wave), ["Succeeded", "Succeeded", "RateLimited"])
        )
    )
  })

  it.effect("is the tool's own, or the host's for it", () =>
    run(
      {
        t: { handler: fine, annotate: (tool) => tool.annotate(ToolAnnotations.RateLimit, { limit: 1, window: 1_000 }) },
        u: { handler: fine, annotate: (tool) => tool.annotate(ToolAnnotations.RateLimit, { limit: 1, window: 1_000 }) }
      },
      limited(twoAMinute),
      ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave(calls("t", "t", "u", "u"))
          assert.deepStrictEqual(tags(wave), ["Succeeded", "Succeeded", "Succeeded", "RateLimited"])
        })
    ))

  it.effect("is not there where the host takes it out", () =>
    run(
      { t: fine },
      limited({ limit: 1, window: "1 minute" }, { swap: RateLimits.layerNoop }),
      ({ process }) =>
        Effect.map(process.executeWave(calls("t", "t")), (wave) =>
          assert.deepStrictEqual(tags(wave), ["Succeeded", "Succeeded"]))
    ))
})

/** Somebody who answers each question as its call is to be answered. */
const answering = (answerOf: (callId: string) => Approvals.Answer, asked: Array<string> = []) =>
  Effect.gen(function*() {
    const approvals = yield* Approvals.make()
    yield* Effect.forkScoped(
      Stream.runForEach(approvals.changes, (change) => {
        if (change._tag === "Ended") return Effect.void
        asked.push(change.request.callId)
        return approvals.answer(change.request.id, answerOf(change.request.callId))
      }),
      { startImmediately: true }
    )
    return approvals
  })

describe("no token is taken", () => {
  const rows: Readonly<
    Record<string, {
      readonly options: Options
      readonly wave: ReadonlyArray<string>
      readonly equal?: "at once" | "one by one"
    }>
  > = {
    "by a call that a rule refuses": {
      options: { rules: [{ _tag: "RequiresPrecedingTools", tool: "t", tools: ["other"] }] },
      wave: ["RuleViolation", "RuleViolation"]
    },
    "by a call that an earlier gate refuses, whatever its moment": {
      options: {
        swap: Gate.layer({
          name: "last look",
          recheck: ({ call: { id } }: Gate.GateCall) => id === "2" || id === "1" ? Effect.fail("not now") : Effect.void
        })
      },
      wave: ["GuardRejected", "GuardRejected"]
    },
    "by a duplicate": { options: {}, wave: ["Succeeded", "DuplicateCall"], equal: "at once" },
    "by a call that gets the outcome of an equal one": {
      options: { dedupe: { onDuplicate: "replay", readWindow: "5 minutes" } },
      wave: ["Succeeded", "Succeeded"],
      equal: "one by one"
    },
    "by a call that joins an equal one": {
      options: { dedupe: { inFlight: "join" } },
      wave: ["Succeeded", "Succeeded"],
      equal: "at once"
    },
    "by a call that is cancelled before its turn": {
      options: { onExecutionError: "stop", rules: [{ _tag: "MaxCalls", tool: "t", max: 0 }] },
      wave: ["RuleViolation", "Skipped"]
    }
  }
  for (const [who, { equal, options, wave: expected }] of Object.entries(rows)) {
    it.effect(who, () => {
      const used: Array<number> = []
      const counting = Layer.effect(
        RateLimiter.RateLimiterStore,
        Effect.map(RateLimiter.RateLimiterStore, (it) => ({
          ...it,
          tokenBucket: (options: Parameters<typeof it.tokenBucket>[0]) =>
            Effect.tap(it.tokenBucket(options), () => Effect.sync(() => void used.push(options.tokens)))
        }))
      ).pipe(Layer.provide(Layer.fresh(RateLimiter.layerStoreMemory)))
      const gate = given(RateLimits.layer().pipe(Layer.provide(counting)))
      return run(
        { t: () => Effect.as(Effect.sleep("1 second"), "fine"), other: fine },
        limited({ limit: 10, window: "1 hour" }, {
          ...options,
          swap: Layer.merge(gate, options.swap ?? Layer.empty) as NonNullable<Options["swap"]>
        }),
        ({ process }) =>
          Effect.gen(function*() {
            const of = (n: number) => call(`${n}`, "t", equal === undefined ? { n } : {})
            const waves = equal === "one by one" ? [[of(1)], [of(2)]] : [[of(1), of(2)]]
            const outcomes = yield* Effect.forEach(waves, (it) => Effect.map(process.executeWave(it), tags))
            assert.deepStrictEqual(outcomes.flat(), expected)
            assert.strictEqual(used.reduce((sum, it) => sum + it, 0), equal === undefined ? 0 : 1)
          })
      )
    })
  }

  it.effect("by a call that a person refuses", () =>
    Effect.scoped(Effect.gen(function*() {
      const approvals = yield* answering((id) => id === "1" ? { _tag: "Deny" } : { _tag: "ApproveOnce" })
      yield* run(
        { t: fine },
        limited({ limit: 1, window: "1 hour" }, { approvals, policy: { default: "ask" } }),
        ({ process }) =>
          Effect.gen(function*() {
            const wave = yield* process.executeWave(calls("t", "t"))
            assert.deepStrictEqual(tags(wave), ["PermissionDenied", "Succeeded"])
          })
      )
    })), { tags: ["G13"] })

  it.effect("of the principal's limit where the tool's refuses", () =>
    run(
      { t: fine, other: fine },
      limited({ limit: 1, window: "1 hour" }, {
        swap: given(RateLimits.layer({ perPrincipal: { limit: 2, window: "1 hour" } }))
      }),
      ({ process }) =>
        Effect.gen(function*() {
          // both are let in before the first takes its token
          const first = yield* process.executeWave(calls("t", "t"))
          assert.deepStrictEqual(tags(first), ["Succeeded", "RateLimited"])
          assert.strictEqual(tag(yield* process.execute(call("3", "other", {}))), "Succeeded")
        })
    ))

  it.effect("of the tool's limit where the principal's refuses", () => {
    // both are let in before the first takes its token
    const slow = Gate.layer({ name: "slow", recheck: ({ call: { id } }) => Effect.sleep(Number(id) * 1_000) })
    return run(
      { t: fine, other: fine },
      limited({ limit: 1, window: "1 hour" }, {
        swap: Layer.merge(slow, given(RateLimits.layer({ perPrincipal: { limit: 1, window: "1 minute" } })))
      }),
      ({ process }) =>
        Effect.gen(function*() {
          const first = yield* process.executeWave(calls("other", "t"))
          assert.deepStrictEqual(tags(first), ["Succeeded", "RateLimited"])
          yield* Effect.sleep("1 minute")
          assert.strictEqual(tag(yield* process.execute(call("3", "t", {}))), "Succeeded")
        })
    )
  })
})

describe("a call that no token is left for", () => {
  it.effect(
    "is refused before a person is asked, and gives back what it has reserved",
    () =>
      Effect.scoped(Effect.gen(function*() {
        const asked: Array<string> = []
        const approvals = yield* answering(() => ({ _tag: "ApproveOnce" }), asked)
        yield* run(
          { t: fine },
          limited({ limit: 1, window: "1 minute" }, {
            approvals,
            policy: { default: "ask" },
            rules: [{ _tag: "MaxCalls", tool: "t", max: 2 }]
          }),
          ({ process }) =>
            Effect.gen(function*() {
              const one = (id: string) => Effect.map(process.execute(call(id, "t", { id })), tag)
              assert.strictEqual(yield* one("1"), "Succeeded")
              assert.strictEqual(yield* one("2"), "RateLimited")
              yield* Effect.sleep("1 minute")
              assert.strictEqual(yield* one("3"), "Succeeded")
              assert.strictEqual(yield* one("4"), "RuleViolation")
              assert.deepStrictEqual(asked, ["1", "3"])
            })
        )
      })),
    { tags: ["G13"] }
  )

  it.effect("when its turn comes is refused also after a person has allowed it", () =>
    Effect.scoped(Effect.gen(function*() {
      const approvals = yield* answering(() => ({ _tag: "ApproveOnce" }))
      yield* run(
        { t: fine },
        limited(twoAMinute, { approvals, policy: { default: "ask" } }),
        ({ process }) =>
          Effect.map(
            process.executeWave(calls("t", "t", "t")),
            (wave) => assert.sameMembers([...tags(wave)], ["Succeeded", "Succeeded", "RateLimited"])
          )
      )
    })))
})

describe("a limit is of", () => {
  const sessions = (rate: ToolLimits.ToolRate | undefined, around: Layer.Layer<never> = Layer.empty) => {
    const { handlers, kit } = toolkit({ t: fine })
    const settings = rate === undefined ? {} : { tools: { t: { rateLimit: rate } } }
    return ToolExecutors.layer().pipe(
      Layer.provide(LocalExecutor.layerGates({ policy: { default: "allow" } })),
      Layer.provide(ToolHandlers.layer(kit, settings)),
      Layer.provide(around),
      Layer.provide(handlers),
      Layer.orDie
    )
  }
  const rows: Readonly<Record<string, readonly [Layer.Layer<ToolExecutors.ToolExecutors>, ReadonlyArray<string>]>> = {
    "all that call a tool": [
      sessions({ limit: 2, window: "1 hour" }),
      ["Succeeded", "Succeeded", "RateLimited", "RateLimited"]
    ],
    "each principal that calls a tool, where it says so": [
      sessions({ limit: 1, window: "1 hour", per: "principal" }),
      ["Succeeded", "RateLimited", "Succeeded", "RateLimited"]
    ],
    "each principal, whatever it calls": [
      sessions(undefined, given(RateLimits.layer({ perPrincipal: { limit: 1, window: "1 hour" } }))),
      ["Succeeded", "RateLimited", "Succeeded", "RateLimited"]
    ]
  }
  for (const [whose, [layer, expected]] of Object.entries(rows)) {
    it.effect(whose, () =>
      VirtualTime.run(Effect.scoped(
        Effect.gen(function*() {
          const { get } = yield* ToolExecutors.ToolExecutors
          const outcomes: Array<string> = []
          for (const [session, id] of [["ada", "1"], ["ada", "2"], ["bob", "3"], ["bob", "4"]] as const) {
            const process = yield* (yield* get(session)).process()
            outcomes.push(tag(yield* process.execute(call(id, "t", { id }))))
          }
          assert.deepStrictEqual(outcomes, expected)
        }).pipe(Effect.provide(layer))
      )))
  }

  it.effect("a principal together with its sub-agents", () =>
    run(
      {
        parent: () =>
          Effect.scoped(Effect.gen(function*() {
            const { executor } = yield* ToolContext.ToolContext
            const process = yield* (yield* executor!.fork({ name: "child" })).process()
            return tags(yield* process.executeWave(calls("t", "t")))
          })),
        t: fine
      },
      { swap: given(RateLimits.layer({ perPrincipal: { limit: 2, window: "1 hour" } })) },
      ({ process }) =>
        Effect.gen(function*() {
          const parent = yield* process.execute(call("1", "parent", {}))
          assert.deepStrictEqual(value(parent), ["Succeeded", "RateLimited"])
        })
    ))
})

describe("a store of rate limits in trouble", () => {
  const fails = Effect.fail(
    new RateLimiter.RateLimiterError({
      reason: new RateLimiter.RateLimitStoreError({ message: "the database is away" })
    })
  )
  const troubles: Readonly<Record<string, Effect.Effect<never, RateLimiter.RateLimiterError>>> = {
    fails,
    dies: Effect.die("broken"),
    hangs: Effect.never,
    "hangs and is deaf": Effect.uninterruptible(Effect.never)
  }
  for (const [how, trouble] of Object.entries(troubles)) {
    const away = given(
      RateLimits.layer().pipe(
        Layer.provide(Layer.succeed(RateLimiter.RateLimiterStore, {
          fixedWindow: () => trouble,
          tokenBucket: () => trouble,
          adaptiveConsume: () => trouble,
          adaptiveFeedback: () => trouble
        }))
      )
    )
    it.effect(`that ${how} has calls refused, unless the tool says that they run`, () =>
      run({ t: fine, easy: fine }, {
        tools: {
          t: { rateLimit: twoAMinute },
          easy: { rateLimit: { ...twoAMinute, onStoreError: "allow" } }
        },
        swap: away
      }, ({ process }) =>
        Effect.gen(function*() {
          const fiber = yield* Effect.forkChild(process.executeWave(calls("t", "easy")), { startImmediately: true })
          assert.deepStrictEqual(tags(yield* Fiber.join(fiber)), ["StoreUnavailable", "Succeeded"])
        })))
  }
})

describe("a rate limit that cannot be", () => {
  it.effect("is told with every problem and its place", () =>
    Effect.gen(function*() {
      const wrong = { limit: 0.5, window: "soon", algorithm: "leaky", onStoreError: "maybe", per: "tenant" } as never
      const ofTool = yield* Effect.exit(run({ t: fine }, limited(wrong), () => Effect.void))
      const toldOfTool = ofTool._tag === "Failure" ? Cause.pretty(ofTool.cause) : ""
      for (const field of ["limit", "window", "algorithm", "onStoreError", "per"]) {
        assert.include(toldOfTool, `tools.t.rateLimit.${field}: it is `)
      }
      const error = yield* Effect.flip(Effect.scoped(RateLimits.make({ perPrincipal: wrong, storeTimeout: 0 })))
      for (const field of ["storeTimeout", "perPrincipal.limit", "perPrincipal.window"]) {
        assert.include(error.message, `${field}: it is `)
      }
    }))
})
