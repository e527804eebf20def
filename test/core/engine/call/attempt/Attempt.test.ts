import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import { ToolAnnotations, ToolContext, type ToolOutcome } from "../../../../../src/index.ts"
import * as VirtualTime from "../../../../../src/testing/VirtualTime.ts"
import { call, calls, type Env, run, tag, tags, value } from "../../../../support/Harness.ts"

const context = ToolContext.ToolContext
const timeout = (limit: string) => ({ t: { timeout: limit as "1 second" } })

const only = (wave: ToolOutcome.WaveResult): ToolOutcome.ToolOutcome => {
  assert.strictEqual(wave.outcomes.length, 1)
  return wave.outcomes[0]!
}

describe("Attempt", () => {
  describe("a handler that goes wrong", () => {
    const failing: ReadonlyArray<readonly [string, () => Effect.Effect<unknown, unknown>, "handler" | "defect"]> = [
      ["throws at once", () => {
        throw new Error("boom")
      }, "defect"],
      ["throws inside", () =>
        Effect.sync(() => {
          throw new Error("boom")
        }), "defect"],
      ["dies later", () => Effect.andThen(Effect.sleep(5), Effect.die("boom")), "defect"],
      ["interrupts itself", () => Effect.interrupt, "defect"],
      ["interrupts itself later", () => Effect.andThen(Effect.sleep(5), Effect.interrupt), "defect"],
      ["fails", () => Effect.fail("no"), "handler"],
      ["fails later", () => Effect.andThen(Effect.sleep(5), Effect.fail("no")), "handler"],
      [
        "gives a promise that is rejected",
        () => Effect.tryPromise({ try: () => Promise.reject(new Error("no")), catch: () => "no" }),
        "handler"
      ],
      ["dies of something that cannot be shown", () => Effect.die(Object.create(null)), "defect"],
      ["dies of something whose text throws", () =>
        Effect.die({
          toString: () => {
            throw new Error("no text")
          }
        }), "defect"]
    ]
    for (const [what, handler, origin] of failing) {
      it.effect(`that ${what} is Failed(${origin}), and its siblings never notice`, () =>
        run({ t: handler, ok: () => Effect.succeed(1) }, {}, ({ executor, process }) =>
          Effect.gen(function*() {
            const wave = yield* process.executeWave(calls("ok", "t", "ok"))
            assert.deepStrictEqual(tags(wave), ["Succeeded", "Failed", "Succeeded"])
            const failed = wave.outcomes[1]!
            assert.strictEqual(failed._tag === "Failed" && failed.origin, origin)
            assert.strictEqual((yield* executor.orphans).total, 0)
          })))
    }

    it.effect(
      "keeps what a defect says from the model",
      () =>
        run({ t: () => Effect.die(new Error("the password is hunter2")) }, {}, ({ process }) =>
          Effect.gen(function*() {
            const wave = yield* process.executeWave(calls("t"))
            assert.notInclude(wave.toolMessages[0]!.text, "hunter2")
          })),
      { tags: ["O3"] }
    )

    it.effect("is Failed when what says whether a retry makes sense throws", () =>
      run(
        {
          t: {
            handler: () => Effect.fail("no"),
            annotate: (tool) =>
              tool.annotate(ToolAnnotations.IsRetryable, () => {
                throw new Error("boom")
              })
          }
        },
        {},
        ({ process }) =>
          Effect.map(process.executeWave(calls("t")), (wave) => assert.deepStrictEqual(tags(wave), ["Failed"]))
      ))

    it.effect("is Failed when its later failure has no text", () =>
      run(
        {
          t: () => {
            const failure: Record<string, unknown> = Object.create(null)
            failure["self"] = failure
            return Effect.andThen(Effect.sleep(1), Effect.fail(failure))
          }
        },
        {},
        ({ process }) =>
          Effect.map(process.executeWave(calls("t")), (wave) => assert.deepStrictEqual(tags(wave), ["Failed"]))
      ))

    it.effect("is Failed(handler) when what it fails with is a schema's error of its own", () =>
      run(
        { t: () => Schema.decodeUnknownEffect(Schema.Finite)("x") },
        {},
        ({ process }) =>
          Effect.map(process.executeWave(calls("t")), (wave) => {
            const outcome = only(wave)
            assert.strictEqual(outcome._tag === "Failed" && outcome.origin, "handler")
          })
      ))
  })

  describe("a handler that does not end", () => {
    const endless: ReadonlyArray<readonly [string, Effect.Effect<unknown>]> = [
      ["hangs", Effect.never],
      ["ignores its signal", Effect.promise(() => new Promise(() => {}))],
      ["is uninterruptible", Effect.uninterruptible(Effect.sleep("10 minutes"))],
      ["blocks in its finalizer", Effect.ensuring(Effect.never, Effect.sleep("10 minutes"))],
      ["never ends its finalizer", Effect.ensuring(Effect.never, Effect.never)]
    ]
    for (const [what, handler] of endless) {
      it.effect(
        `times out at its limit though it ${what}`,
        () =>
          run({ t: () => handler }, { tools: timeout("1 second") }, ({ process }) =>
            Effect.gen(function*() {
              const outcome = only(yield* process.executeWave(calls("t")))
              assert.strictEqual(yield* VirtualTime.now, 1_000)
              assert.deepInclude(outcome, { _tag: "TimedOut", limitMillis: 1_000, which: "tool", duration: 1_000 })
            })),
        { tags: ["T4"] }
      )

      it.effect(
        `does not keep an interrupted caller beyond the grace though it ${what}`,
        () =>
          run({ t: () => handler }, { cleanupGrace: "3 seconds" }, ({ executor, process }) =>
            Effect.gen(function*() {
              const fiber = yield* Effect.forkChild(process.executeWave(calls("t")))
              yield* Effect.sleep(10)
              yield* Fiber.interrupt(fiber)
              assert.isAtMost(yield* VirtualTime.now, 3_010)
              assert.isAtMost((yield* executor.orphans).running.length, 1)
            })),
        { tags: ["X2"] }
      )
    }

    it.effect("gives its pool permit back at the outcome and its resource key when its fiber ends", () =>
      run(
        {
          t: {
            class: "ConcurrentMut",
            handler: ({ hang }) => hang === true ? Effect.uninterruptible(Effect.sleep("4 seconds")) : Effect.void,
            annotate: (tool) =>
              tool.annotate(ToolAnnotations.Resources, (params) => [String((params as { key: string }).key)])
          }
        },
        { pools: { concurrent: 1 }, tools: timeout("1 second") },
        ({ executor, process }) =>
          Effect.gen(function*() {
            assert.deepStrictEqual(tags(yield* process.executeWave([call("1", "t", { key: "a", hang: true })])), [
              "TimedOut"
            ])
            assert.deepStrictEqual((yield* executor.orphans).running.map((it) => it.callId), ["1"])
            assert.deepStrictEqual(tags(yield* process.executeWave([call("2", "t", { key: "b" })])), ["Succeeded"])
            assert.strictEqual(yield* VirtualTime.now, 1_000)
            assert.deepStrictEqual(tags(yield* process.executeWave([call("3", "t", { key: "a" })])), ["Succeeded"])
            assert.strictEqual(yield* VirtualTime.now, 4_000)
            assert.deepStrictEqual((yield* executor.orphans).running, [])
            assert.strictEqual((yield* executor.orphans).total, 1)
          })
      ), { tags: ["T4"] })

    it.effect("that is deaf does not keep others waiting for its resource key beyond the grace", () =>
      run(
        {
          t: {
            class: "ConcurrentMut",
            handler: ({ hang }) => hang === true ? Effect.uninterruptible(Effect.sleep("1 hour")) : Effect.void,
            annotate: (tool) => tool.annotate(ToolAnnotations.Resources, () => ["a"])
          }
        },
        { tools: timeout("1 second"), cleanupGrace: "3 seconds" },
        ({ process }) =>
          Effect.gen(function*() {
            const wave = yield* process.executeWave([
              call("1", "t", { hang: true }),
              call("2", "t"),
              call("3", "t", { n: 1 })
            ])
            assert.deepStrictEqual(tags(wave), ["TimedOut", "ToolBlocked", "ToolBlocked"])
            assert.strictEqual(yield* VirtualTime.now, 4_000)
            assert.deepStrictEqual(tags(yield* process.executeWave([call("4", "t", { n: 2 })])), ["ToolBlocked"])
            yield* Effect.sleep("1 hour")
            assert.deepStrictEqual(tags(yield* process.executeWave([call("5", "t", { n: 3 })])), ["Succeeded"])
          })
      ), { tags: ["T5"] })

    it.effect("fires its signal", () => {
      let aborted = false
      return run(
        {
          t: () =>
            Effect.flatMap(context, ({ signal }) => {
              signal.addEventListener("abort", () => {
                aborted = true
              })
              return Effect.uninterruptible(Effect.sleep("1 minute"))
            })
        },
        { tools: timeout("1 second") },
        ({ process }) => Effect.map(process.executeWave(calls("t")), () => assert.isTrue(aborted))
      )
    }, { tags: ["H4"] })
  })

  describe("the limit", () => {
    it.effect("is made by a handler that ends exactly at it", () =>
      run(
        { t: () => Effect.as(Effect.sleep(1_000), "made it") },
        { tools: timeout("1 second") },
        ({ process }) =>
          Effect.map(process.executeWave(calls("t")), (wave) => assert.strictEqual(value(only(wave)), "made it"))
      ), { tags: ["T1"] })

    it.effect("is made by a handler that ends exactly at it in two steps", () =>
      run(
        { t: () => Effect.as(Effect.andThen(Effect.sleep(400), Effect.sleep(600)), "made it") },
        { tools: timeout("1 second") },
        ({ process }) =>
          Effect.map(process.executeWave(calls("t")), (wave) => assert.strictEqual(value(only(wave)), "made it"))
      ))

    it.effect("is made by a handler whose parts end exactly at it", () =>
      run(
        {
          t: () =>
            Effect.as(
              Effect.andThen(
                Effect.sleep(400),
                Effect.all([Effect.sleep(600), Effect.sleep(600)], { concurrency: "unbounded" })
              ),
              "made it"
            )
        },
        { tools: timeout("1 second") },
        ({ process }) =>
          Effect.map(process.executeWave(calls("t")), (wave) => assert.strictEqual(value(only(wave)), "made it"))
      ))

    it.effect("is missed by a handler that takes a millisecond more", () =>
      run(
        { t: () => Effect.sleep(1_001) },
        { tools: timeout("1 second") },
        ({ process }) =>
          Effect.map(process.executeWave(calls("t")), (wave) => assert.deepStrictEqual(tags(wave), ["TimedOut"]))
      ), { tags: ["T1"] })

    it.effect("is the number that the handler reads", () => {
      let deadline = 0
      return run(
        {
          t: () =>
            Effect.flatMap(context, (it) => Effect.andThen(Effect.sync(() => deadline = it.deadline), Effect.never))
        },
        { tools: timeout("7 seconds") },
        ({ process }) =>
          Effect.gen(function*() {
            yield* Effect.sleep(500)
            const outcome = only(yield* process.executeWave(calls("t")))
            assert.strictEqual(deadline, 7_500)
            assert.strictEqual(yield* VirtualTime.now, deadline)
            assert.deepInclude(outcome, { limitMillis: 7_000 })
          })
      )
    }, { tags: ["T3"] })

    it.effect("of one execution is the shorter of the caller's and the tool's", () =>
      run({ t: () => Effect.never }, { tools: timeout("7 seconds") }, ({ process }) =>
        Effect.gen(function*() {
          assert.deepInclude(yield* process.execute(call("1", "t"), { timeout: "2 seconds" }), {
            limitMillis: 2_000,
            which: "tool"
          })
          assert.deepInclude(yield* process.execute(call("2", "t"), { timeout: "20 seconds" }), { limitMillis: 7_000 })
        })))
  })

  describe("the idle limit", () => {
    const idle = { t: { idleTimeout: "1 second" as const, timeout: "10 seconds" as const } }
    const reportEvery = (millis: number, times: number) =>
      Effect.gen(function*() {
        const { progress } = yield* context
        for (let i = 0; i < times; i++) {
          yield* Effect.sleep(millis)
          yield* progress({ progress: i })
        }
        return yield* Effect.never
      })

    it.effect("fires when nothing is reported", () =>
      run({ t: () => Effect.never }, { tools: idle }, ({ process }) =>
        Effect.gen(function*() {
          assert.deepInclude(only(yield* process.executeWave(calls("t"))), { which: "idle", limitMillis: 1_000 })
          assert.strictEqual(yield* VirtualTime.now, 1_000)
        })))

    for (const toolEvents of [true, false]) {
      it.effect(`starts anew with every report, events ${toolEvents ? "on" : "off"}`, () =>
        run({ t: () => reportEvery(700, 4) }, { tools: idle, toolEvents }, ({ process }) =>
          Effect.gen(function*() {
            assert.deepInclude(only(yield* process.executeWave(calls("t"))), { which: "idle" })
            assert.strictEqual(yield* VirtualTime.now, 3_800)
          })))
    }

    it.effect("is kept by a handler that reports exactly at it", () =>
      run({ t: () => reportEvery(1_000, 3) }, { tools: idle }, ({ process }) =>
        Effect.gen(function*() {
          assert.deepInclude(only(yield* process.executeWave(calls("t"))), { which: "idle", limitMillis: 1_000 })
          assert.strictEqual(yield* VirtualTime.now, 4_000)
        })))

    it.effect("does not hold the tool's limit off", () =>
      run({ t: () => reportEvery(700, 1_000) }, { tools: idle }, ({ process }) =>
        Effect.gen(function*() {
          assert.deepInclude(only(yield* process.executeWave(calls("t"))), { which: "tool", limitMillis: 10_000 })
          assert.strictEqual(yield* VirtualTime.now, 10_000)
        })))
  })

  describe("commits", () => {
    const commit = (write: Effect.Effect<unknown>) => Effect.flatMap(context, (it) => it.commit(write))

    it.effect("are counted", () =>
      run(
        { t: () => Effect.andThen(commit(Effect.void), commit(Effect.sleep(5))) },
        {},
        ({ process }) =>
          Effect.map(
            process.executeWave(calls("t")),
            (wave) => assert.deepInclude(only(wave), { _tag: "Succeeded", commits: 2 })
          )
      ))

    it.effect("that fail are not counted", () =>
      run(
        { t: () => Effect.ignore(Effect.flatMap(context, (it) => it.commit(Effect.fail("no")))) },
        {},
        ({ process }) =>
          Effect.map(
            process.executeWave(calls("t")),
            (wave) => assert.deepInclude(only(wave), { _tag: "Succeeded", commits: 0 })
          )
      ))

    it.effect("under way when the limit passes are waited for and counted", () => {
      let written = 0
      return run(
        {
          t: () =>
            Effect.andThen(Effect.sleep(900), commit(Effect.andThen(Effect.sleep(500), Effect.sync(() => written++))))
        },
        { tools: timeout("1 second") },
        ({ executor, process }) =>
          Effect.gen(function*() {
            const outcome = only(yield* process.executeWave(calls("t")))
            assert.deepInclude(outcome, { _tag: "TimedOut", commits: 1, limitMillis: 1_000 })
            assert.strictEqual(yield* VirtualTime.now, 1_400)
            assert.strictEqual(written, 1)
            assert.deepStrictEqual((yield* executor.orphans).running, [])
          })
      )
    }, { tags: ["T6"] })

    it.effect("leave no orphan behind when the handler ends with them", () =>
      run(
        { t: () => Effect.andThen(Effect.sleep(900), commit(Effect.sleep(500))) },
        { tools: timeout("1 second") },
        ({ executor, process }) =>
          Effect.gen(function*() {
            yield* process.executeWave(calls("t"))
            assert.strictEqual((yield* executor.orphans).total, 0)
          })
      ))

    it.effect("that never end are given up after their bound", () =>
      run(
        { t: () => commit(Effect.never) },
        { tools: timeout("1 second"), commitTimeout: "3 seconds" },
        ({ executor, process }) =>
          Effect.gen(function*() {
            assert.deepInclude(only(yield* process.executeWave(calls("t"))), {
              _tag: "TimedOut",
              commits: 0,
              openCommits: 1
            })
            assert.strictEqual(yield* VirtualTime.now, 4_000)
            assert.strictEqual((yield* executor.orphans).running.length, 1)
          })
      ), { tags: ["T6"] })

    it.effect("that never end do not hold an interrupted caller", () =>
      run({ t: () => commit(Effect.never) }, { commitTimeout: "3 seconds" }, ({ process }) =>
        Effect.gen(function*() {
          const fiber = yield* Effect.forkChild(process.executeWave(calls("t")))
          yield* Effect.sleep(10)
          yield* Fiber.interrupt(fiber)
          assert.isAtMost(yield* VirtualTime.now, 5_010)
        })))

    it.effect("that a background fiber has under way are waited for when the handler ends", () => {
      let written = 0
      return run(
        {
          t: () =>
            Effect.gen(function*() {
              yield* Effect.forkDetach(commit(Effect.andThen(Effect.sleep(500), Effect.sync(() => written++))), {
                startImmediately: true
              })
              return "done"
            })
        },
        {},
        ({ process }) =>
          Effect.map(process.executeWave(calls("t")), (wave) => {
            assert.deepInclude(only(wave), { _tag: "Succeeded", commits: 1 })
            assert.strictEqual(written, 1)
          })
      )
    })

    it.effect("and reports after the outcome are kept out and counted", () => {
      let written = 0
      return run(
        {
          t: () =>
            Effect.gen(function*() {
              const { artifact, commit, progress } = yield* context
              yield* Effect.forkDetach(Effect.gen(function*() {
                yield* Effect.sleep(2_000)
                yield* progress({ message: "late" })
                assert.strictEqual((yield* artifact("late"))._tag, "None")
                yield* commit(Effect.sync(() => written++))
              }))
              return yield* Effect.never
            })
        },
        { tools: timeout("1 second") },
        ({ executor, process }) =>
          Effect.gen(function*() {
            assert.deepInclude(only(yield* process.executeWave(calls("t"))), { _tag: "TimedOut", commits: 0 })
            yield* Effect.sleep(5_000)
            assert.strictEqual(written, 0)
            assert.strictEqual((yield* executor.orphans).lateWritesBlocked, 3)
          })
      )
    })

    it.effect("are refused once a stop waits for another one", () => {
      const written: Array<string> = []
      return run(
        {
          t: () =>
            Effect.gen(function*() {
              yield* Effect.forkDetach(
                Effect.andThen(Effect.sleep(1_200), commit(Effect.sync(() => written.push("second"))))
              )
              yield* commit(Effect.andThen(Effect.sleep(1_500), Effect.sync(() => written.push("first"))))
            })
        },
        { tools: timeout("1 second") },
        ({ process }) =>
          Effect.gen(function*() {
            assert.deepInclude(only(yield* process.executeWave(calls("t"))), { _tag: "TimedOut", commits: 1 })
            assert.deepStrictEqual(written, ["first"])
          })
      )
    })
  })

  describe("a handler that ends its own call", () => {
    const cancelSelf = (env: () => Env) => Effect.suspend(() => env().process.cancelCall("1", "by itself"))
    const withEnv = (
      handler: (env: () => Env) => Effect.Effect<unknown, unknown>,
      check: (outcome: ToolOutcome.ToolOutcome, env: Env) => Effect.Effect<void>
    ) => {
      let env: Env | undefined
      return run({ t: () => handler(() => env!) }, { commitTimeout: "3 seconds" }, (it) => {
        env = it
        return Effect.flatMap(it.process.execute(call("1", "t")), (outcome) => check(outcome, it))
      })
    }
    const cancelled = (outcome: ToolOutcome.ToolOutcome) =>
      Effect.sync(() => assert.deepInclude(outcome, { _tag: "Cancelled", started: true, reason: "by itself" }))

    it.effect("before it first waits is Cancelled", () =>
      withEnv((env) => Effect.andThen(cancelSelf(env), Effect.sleep(10)), cancelled))

    it.effect("without ever waiting is Cancelled", () => withEnv((env) => Effect.as(cancelSelf(env), 1), cancelled))

    it.effect("after it waited is Cancelled", () =>
      withEnv((env) => Effect.andThen(Effect.sleep(1), Effect.andThen(cancelSelf(env), Effect.sleep(10))), cancelled))

    it.effect("by way of its process is Cancelled", () =>
      withEnv(
        (env) => Effect.andThen(Effect.suspend(() => env().process.cancel("by itself")), Effect.never),
        cancelled
      ))

    it.effect("by way of its batch is Cancelled", () =>
      withEnv(
        (env) => Effect.andThen(Effect.suspend(() => env().executor.completeBatch(env().batch.id)), Effect.never),
        (outcome) => Effect.sync(() => assert.strictEqual(tag(outcome), "Cancelled"))
      ))

    it.effect("inside a commit waits for the commit", () =>
      withEnv(
        (env) => Effect.flatMap(context, (it) => it.commit(Effect.andThen(cancelSelf(env), Effect.sleep(100)))),
        (outcome) => Effect.sync(() => assert.deepInclude(outcome, { _tag: "Cancelled", commits: 1 }))
      ))

    it.effect("inside a commit that never ends is Cancelled after the bound", () =>
      withEnv(
        (env) => Effect.flatMap(context, (it) => it.commit(Effect.andThen(cancelSelf(env), Effect.never))),
        (outcome) =>
          Effect.gen(function*() {
            assert.deepInclude(outcome, { _tag: "Cancelled", openCommits: 1 })
            assert.strictEqual(yield* VirtualTime.now, 3_000)
          })
      ))

    it.effect("and cleans up quickly is no orphan", () =>
      withEnv(
        (env) => Effect.andThen(Effect.sleep(1), Effect.andThen(cancelSelf(env), Effect.sleep(10))),
        (_, { executor }) => Effect.map(executor.orphans, (it) => assert.strictEqual(it.total, 0))
      ))
  })

  describe("automatic retries", () => {
    const flaky = (failures: number) => {
      let runs = 0
      return Effect.suspend(() => ++runs <= failures ? Effect.fail(`failure ${runs}`) : Effect.succeed(runs))
    }
    const retrying = (handler: Effect.Effect<unknown, unknown>) => ({
      t: {
        handler: () => handler,
        class: "SerialMut" as const,
        annotate: (tool: Tool.Any) => tool.annotate(Tool.Idempotent, true)
      }
    })
    const tools = {
      t: { retry: Schedule.upTo(Schedule.spaced("1 second"), { times: 3 }), timeout: "1 minute" as const }
    }

    it.effect(
      "run an idempotent tool again and count",
      () =>
        run(retrying(flaky(2)), { tools }, ({ process }) =>
          Effect.gen(function*() {
            assert.deepInclude(only(yield* process.executeWave(calls("t"))), { _tag: "Succeeded", attempt: 3 })
            assert.strictEqual(yield* VirtualTime.now, 2_000)
          })),
      { tags: ["T9"] }
    )

    it.effect("use one slot", () =>
      run(
        retrying(flaky(2)),
        { tools, rules: [{ _tag: "MaxCalls", tool: "t", max: 2 }], turn: { maxCalls: 2 } },
        ({ process }) =>
          Effect.gen(function*() {
            yield* process.executeWave(calls("t"))
            assert.deepStrictEqual(tags(yield* process.executeWave([call("2", "t", { other: 1 })])), ["Succeeded"])
            assert.deepStrictEqual(tags(yield* process.executeWave([call("3", "t", { other: 2 })])), [
              "CallBudgetExhausted"
            ])
          })
      ), { tags: ["S3"] })

    it.effect("end with the last failure", () =>
      run(
        retrying(flaky(10)),
        { tools },
        ({ process }) =>
          Effect.map(
            process.executeWave(calls("t")),
            (wave) => assert.deepInclude(only(wave), { _tag: "Failed", error: "failure 4", attempt: 4 })
          )
      ))

    it.effect("stop at the call's one limit", () =>
      run(
        retrying(flaky(10)),
        { tools: { t: { ...tools.t, timeout: "1500 millis" } } },
        ({ process }) =>
          Effect.map(process.executeWave(calls("t")), (wave) =>
            assert.deepInclude(only(wave), { _tag: "TimedOut", attempt: 2, duration: 1_500 }))
      ), { tags: ["S3"] })

    it.effect("do not happen for what is not retryable", () => {
      const spec = retrying(flaky(10)).t
      return run(
        { t: { ...spec, annotate: (tool) => spec.annotate(tool).annotate(ToolAnnotations.IsRetryable, () => false) } },
        { tools },
        ({ process }) =>
          Effect.map(
            process.executeWave(calls("t")),
            (wave) => assert.deepInclude(only(wave), { _tag: "Failed", attempt: 1, retryable: false })
          )
      )
    }, { tags: ["T9"] })
  })
})
