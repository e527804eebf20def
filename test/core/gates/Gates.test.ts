import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Permissions from "../../../src/core/gates/Permissions.ts"
import { ConfigurationError, type Guards, Rules, ToolHandlers, type ToolRule } from "../../../src/index.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { call, calls, run, tags, toolkit } from "../../support/Harness.ts"

const sleeper = ({ sleep }: { readonly [key: string]: unknown }) => Effect.sleep(Number(sleep ?? 1_000))

const max = (tool: string, max: number): ToolRule.ToolRule => ({ _tag: "MaxCalls", tool, max })

const buildRules = (rules: ReadonlyArray<ToolRule.ToolRule>) => {
  const { handlers, kit } = toolkit({ a: sleeper, b: sleeper })
  return Effect.flip(Effect.scoped(Layer.build(
    Rules.layer(rules).pipe(Layer.provide(ToolHandlers.layer(kit)), Layer.provide(handlers))
  )))
}

describe("MaxCalls", () => {
  it.effect("is never passed by waves side by side over one batch", () =>
    run({ t: sleeper }, { rules: [max("t", 3)] }, ({ batch }) =>
      Effect.gen(function*() {
        const waves = yield* Effect.forEach([1, 2, 3], (n) =>
          Effect.flatMap(batch.process(), (process) =>
            process.executeWave([call(`${n}a`, "t", { n, a: 1 }), call(`${n}b`, "t", { n, b: 1 })])), {
          concurrency: "unbounded"
        })
        const all = waves.flatMap(tags)
        assert.strictEqual(
          all.filter((it) =>
            it === "Succeeded"
          ).length,
          3
        )
        assert.strictEqual(
          all.filter((it) =>
            it === "RuleViolation"
          ).length,
          3
        )
      })))

  it.effect("is the batch's own", () =>
    run({ t: sleeper }, { rules: [max("t", 1)] }, ({ executor, process }) =>
      Effect.gen(function*() {
        assert.deepStrictEqual(tags(yield* process.executeWave(calls("t", "t"))), ["Succeeded", "RuleViolation"])
        const other = yield* executor.process()
        assert.deepStrictEqual(tags(yield* other.executeWave([call("x", "t", { x: 1 })])), ["Succeeded"])
      })))

  it.effect("is had again for a call that never started", () =>
    run(
      { t: sleeper, u: sleeper },
      { rules: [max("t", 1)], pools: { read: 1 } },
      ({ process }) =>
        Effect.gen(function*() {
          yield* Effect.forkChild(Effect.delay(process.cancelCall("2"), 10))
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("u", "t"))), ["Succeeded", "Cancelled"])
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("t"))), ["Succeeded"])
        })
    ))

  it.effect("is spent by a call that failed, died, timed out or was cancelled", () =>
    run(
      { f: () => Effect.fail("no"), d: () => Effect.die("no"), n: () => Effect.never, c: () => Effect.never },
      { rules: [max("*", 1)], tools: { n: { timeout: 10 } } },
      ({ process }) =>
        Effect.gen(function*() {
          yield* Effect.forkChild(Effect.delay(process.cancelCall("4"), 10))
          yield* process.executeWave(calls("f", "d", "n", "c"))
          const again = yield* process.executeWave(calls("f", "d", "n", "c"))
          assert.deepStrictEqual(new Set(tags(again)), new Set(["RuleViolation"]))
        })
    ))

  it.effect("is decided by the strictest of two rules", () =>
    run(
      { t: sleeper },
      { rules: [max("t", 5), max("*", 2), max("t", 3)] },
      ({ process }) =>
        Effect.map(process.executeWave(calls("t", "t", "t")), (wave) => {
          assert.deepStrictEqual(tags(wave), ["Succeeded", "Succeeded", "RuleViolation"])
          assert.deepInclude(wave.outcomes[2], { attempt: 0 })
          const refused = wave.outcomes[2]!
          assert.deepStrictEqual(
            refused._tag === "Denied" && refused.reason._tag === "RuleViolation" && refused.reason.rule,
            max("*", 2)
          )
        })
    ))

  it.effect("for * counts each tool by itself", () =>
    run(
      { a: sleeper, b: sleeper },
      { rules: [max("*", 1)] },
      ({ process }) =>
        Effect.map(
          process.executeWave(calls("a", "b", "a", "b")),
          (wave) => assert.deepStrictEqual(tags(wave), ["Succeeded", "Succeeded", "RuleViolation", "RuleViolation"])
        )
    ))

  it.effect("of 0 lets nothing run", () =>
    run(
      { t: sleeper },
      { rules: [max("t", 0)] },
      ({ process }) =>
        Effect.map(process.executeWave(calls("t")), (wave) => assert.deepStrictEqual(tags(wave), ["RuleViolation"]))
    ))

  it.effect("is counted anew after completeBatch", () =>
    run({ t: sleeper }, { rules: [max("t", 1)] }, ({ executor }) =>
      Effect.gen(function*() {
        const first = yield* executor.process({ batch: "b" })
        yield* first.executeWave(calls("t"))
        yield* executor.completeBatch("b")
        const next = yield* executor.process({ batch: "b" })
        assert.deepStrictEqual(tags(yield* next.executeWave([call("x", "t", { x: 1 })])), ["Succeeded"])
      })))

  it.effect("is not spent by a duplicate", () =>
    run(
      { t: () => Effect.void },
      { rules: [max("t", 2)] },
      ({ process }) =>
        Effect.map(
          process.executeWave([call("1", "t"), call("2", "t"), call("3", "t", { a: 1 }), call("4", "t", { a: 2 })]),
          (wave) => assert.deepStrictEqual(tags(wave), ["Succeeded", "DuplicateCall", "Succeeded", "RuleViolation"])
        )
    ))
})

describe("ContinueLoop and heartbeats", () => {
  it.effect("let the agent go on", () =>
    run({ a: () => Effect.succeed(1), b: () => Effect.succeed(1) }, {
      heartbeats: true,
      rules: [{ _tag: "ContinueLoop", tool: "a" }]
    }, ({ executor, process }) =>
      Effect.gen(function*() {
        assert.isFalse(executor.requiresHeartbeat("a"))
        assert.isTrue(executor.requiresHeartbeat("b"))
        assert.isTrue((yield* process.executeWave(calls("a"))).needsContinuation)
        assert.isFalse((yield* process.executeWave(calls(["b", { n: 1 }]))).needsContinuation)
        assert.isTrue((yield* process.executeWave(calls(["b", { n: 2, request_heartbeat: true }]))).needsContinuation)
      })), { tags: ["ContinueLoop"] })

  it.effect("are not waited for without heartbeats: a model sees the results of every wave", () =>
    run({ a: () => Effect.succeed(1), done: () => Effect.succeed(1) }, {
      rules: [{ _tag: "ExitLoop", tool: "done" }]
    }, ({ batch, process }) =>
      Effect.gen(function*() {
        assert.isTrue((yield* process.executeWave(calls("a"))).needsContinuation)
        assert.isTrue((yield* process.executeWave(calls("nothing"))).needsContinuation)
        assert.isFalse((yield* process.executeWave([])).needsContinuation)
        assert.isFalse((yield* process.executeWave(calls("done", ["a", { n: 1 }]))).needsContinuation)
        assert.isFalse((yield* process.executeWave(calls(["a", { n: 2 }]))).needsContinuation)
        const other = yield* batch.process()
        yield* other.cancel("enough")
        assert.isFalse((yield* other.executeWave(calls(["a", { n: 3 }]))).needsContinuation)
      })))

  for (const flag of ["true", 1, null, {}, false]) {
    it.effect(`take the control argument out though it is ${JSON.stringify(flag)}`, () => {
      let seen: unknown
      return run(
        { t: (params) => Effect.sync(() => seen = params) },
        { heartbeats: true },
        ({ process }) =>
          Effect.map(process.executeWave(calls(["t", { a: 1, request_heartbeat: flag }])), (wave) => {
            assert.deepStrictEqual(seen, { a: 1 })
            assert.isFalse(wave.needsContinuation)
          })
      )
    })
  }

  it.effect("keep a control argument that is not at the top", () => {
    let seen: unknown
    return run(
      { t: (params) => Effect.sync(() => seen = params) },
      { heartbeats: true },
      ({ process }) =>
        Effect.map(process.executeWave(calls(["t", { a: { request_heartbeat: true } }])), (wave) => {
          assert.deepStrictEqual(seen, { a: { request_heartbeat: true } })
          assert.isFalse(wave.needsContinuation)
        })
    )
  })
})

describe("Rules", () => {
  it.effect("lists every problem at once", () =>
    Effect.map(
      buildRules([max("nope", 1), max("a", -1), { _tag: "ExitLoop", tool: "a" }, {
        _tag: "NeverDedupe",
        tool: "gone"
      }]),
      (error) => {
        assert.instanceOf(error, ConfigurationError.ConfigurationError)
        assert.deepStrictEqual(error.problems.map((it) => it.path), [
          "rules[0].tool",
          "rules[1].max",
          "rules[3].tool"
        ])
      }
    ))
})

describe("Guards", () => {
  const guard = (name: string, check: Guards.Guard["check"]): Guards.Guard => ({ name, check })
  const bad: ReadonlyArray<readonly [string, Guards.Guard["check"], number]> = [
    ["fails", () => Effect.fail("not today"), 0],
    ["dies", () => Effect.die("boom"), 0],
    ["throws", () => {
      throw new Error("boom")
    }, 0],
    ["interrupts itself", () => Effect.interrupt, 0],
    ["hangs", () => Effect.never, 2_000],
    ["hangs and is deaf", () => Effect.uninterruptible(Effect.sleep("1 hour")), 2_000],
    ["hangs and cleans up for long", () => Effect.ensuring(Effect.never, Effect.sleep("1 hour")), 2_000]
  ]
  for (const [what, check, at] of bad) {
    it.effect(`refuse the call when one ${what}`, () =>
      run(
        { t: () => Effect.void },
        {
          guards: [guard("first", () => Effect.void), guard("second", check), guard("third", () => Effect.void)],
          guardTimeout: 2_000
        },
        ({ process }) =>
          Effect.gen(function*() {
            const exit = yield* Effect.exit(process.executeWave(calls("t")))
            assert.isTrue(Exit.isSuccess(exit), "the wave has its outcomes")
            if (Exit.isSuccess(exit)) {
              const outcome = exit.value.outcomes[0]!
              assert.deepStrictEqual(tags(exit.value), ["GuardRejected"])
              assert.strictEqual(
                outcome._tag === "Denied" && outcome.reason._tag === "GuardRejected" && outcome.reason.guard,
                "second"
              )
            }
            assert.strictEqual(yield* VirtualTime.now, at)
          })
      ))
  }

  it.effect("are asked in order, and not for calls refused before", () => {
    const asked: Array<string> = []
    const note = (name: string) =>
      guard(name, (it) =>
        Effect.sync(() => {
          asked.push(`${name} ${it.call.id}`)
        }))
    return run(
      { t: () => Effect.void },
      { guards: [note("one"), note("two")] },
      ({ process }) =>
        Effect.map(process.executeWave(calls("nope", "t")), () => assert.deepStrictEqual(asked, ["one 2", "two 2"]))
    )
  }, { tags: ["G1"] })

  it.effect("of the calls of a run are asked side by side", () =>
    run(
      { t: () => Effect.void },
      { guards: [guard("slow", () => Effect.sleep(100))] },
      ({ process }) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("t", "t", "t"))), Array(3).fill("Succeeded"))
          assert.strictEqual(yield* VirtualTime.now, 100)
        })
    ))

  it.effect("leave nothing reserved when they refuse", () => {
    let open = false
    return run(
      { t: () => Effect.void },
      { guards: [guard("door", () => open ? Effect.void : Effect.fail("closed"))], rules: [max("t", 1)] },
      ({ process }) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("t"))), ["GuardRejected"])
          open = true
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("t"))), ["Succeeded"])
        })
    )
  })
})

describe("Permissions", () => {
  const needsApproval = (tool: Tool.Any): Tool.Any =>
    Object.assign(Object.create(Object.getPrototypeOf(tool)), tool, { needsApproval: true })
  const tools = {
    read: () => Effect.void,
    open: { handler: () => Effect.void, annotate: (tool: Tool.Any) => tool.annotate(Tool.OpenWorld, true) },
    write: { class: "SerialMut" as const, handler: () => Effect.void },
    asks: { handler: () => Effect.void, annotate: needsApproval }
  }
  const each = calls("read", "open", "write", "asks")

  it.effect(
    "run only closed-world reads unless told otherwise",
    () =>
      run(tools, { policy: {} }, ({ executor, process }) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(tags(yield* process.executeWave(each)), [
            "Succeeded",
            "PermissionDenied",
            "PermissionDenied",
            "PermissionDenied"
          ])
          assert.lengthOf(yield* executor.tools, 4)
        })),
    { tags: ["P2"] }
  )

  it.effect("do not even ask about others where the default is readOnly", () =>
    run(tools, { policy: { default: "readOnly" } }, ({ executor, process }) =>
      Effect.gen(function*() {
        assert.deepStrictEqual(tags(yield* process.executeWave(each)), [
          "Succeeded",
          "PolicyDenied",
          "PolicyDenied",
          "PermissionDenied"
        ])
        assert.deepStrictEqual((yield* executor.tools).map((it) => it.name), ["read", "asks"])
      })))

  it.effect("are refused as a whole where they are wrong", () =>
    Effect.gen(function*() {
      for (
        const [policy, where] of [
          [{ deny: ["rea"] }, "deny[0]: there is no tool"],
          [{ denny: ["read"] }, "denny: this key is unknown"],
          [{ mode: "readonly" }, "mode: it is"],
          [{ default: "alow" }, "default: it is"],
          [{ deny: "read" }, "deny: it is"],
          [{ allow: ["read("] }, "allow[0]"]
        ] as const
      ) {
        const error = yield* Effect.flip(
          run(tools, { policy: policy as never }, () => Effect.void).pipe(
            Effect.catchDefect((defect) => Effect.fail(defect as Error))
          )
        )
        assert.include(String(error.message), where)
      }
    }))

  it.effect("deny before they allow", () =>
    run(
      tools,
      { policy: { allow: ["read", "write"], deny: ["read"] } },
      ({ process }) =>
        Effect.map(
          process.executeWave(calls("read", "write")),
          (wave) => assert.deepStrictEqual(tags(wave), ["PolicyDenied", "Succeeded"])
        )
    ))

  it.effect("ask where the tool says so of this very call, and where it cannot tell", () => {
    const asked: Array<unknown> = []
    const says = (needsApproval: NonNullable<Tool.Any["needsApproval"]>) => ({
      handler: () => Effect.void,
      annotate: (tool: Tool.Any) => Object.assign(Object.create(Object.getPrototypeOf(tool)), tool, { needsApproval })
    })
    return run(
      {
        large: says((params, context) => {
          asked.push(params, context)
          return (params as { readonly n: number }).n > 1
        }),
        effect: says((params) => Effect.succeed((params as { readonly n: number }).n > 3)),
        throws: says(() => {
          throw new Error("broken")
        }),
        dies: says(() => Effect.die("broken")),
        hangs: says(() => Effect.never)
      },
      { policy: { default: "allow" }, mode: "parallel" },
      ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave(
            [["large", { n: 1 }], ["large", { n: 2 }], ["effect", { n: 3 }], ["effect", { n: 4 }]].map((
              [name, params],
              n
            ) => call(String(n), name as string, params))
          )
          assert.deepStrictEqual(tags(wave), ["Succeeded", "PermissionDenied", "Succeeded", "PermissionDenied"])
          assert.deepStrictEqual(asked.slice(0, 2), [{ n: 1 }, { toolCallId: "0", messages: [] }])
          const broken = yield* process.executeWave(calls("throws", "dies", "hangs"))
          assert.deepStrictEqual(tags(broken), Array(3).fill("PermissionDenied"))
        })
    )
  })

  it.effect("say that nobody is there where a person would be asked", () =>
    run(
      tools,
      { policy: { default: "allow" } },
      ({ process }) =>
        Effect.map(process.executeWave(calls("asks")), (wave) => {
          const outcome = wave.outcomes[0]!
          assert.strictEqual(
            outcome._tag === "Denied" && outcome.reason._tag === "PermissionDenied" && outcome.reason.by,
            "noApprover"
          )
        })
    ))

  it.effect("give no replay to who would have to ask", () =>
    run(
      tools,
      { policy: { default: "allow" }, dedupe: { onDuplicate: "replay" } },
      ({ process }) =>
        Effect.gen(function*() {
          yield* process.executeWave(calls(["asks", {}]))
          assert.deepStrictEqual(tags(yield* process.executeWave(calls(["asks", {}]))), ["PermissionDenied"])
        })
    ))

  it("of one's own see the call", () => {
    assert.deepStrictEqual(
      Effect.runSync(Permissions.make({ default: "deny" })).sees({ name: "x" } as ToolHandlers.RegisteredTool),
      false
    )
  })
})
