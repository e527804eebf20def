/** The rule gates at work: what scenarios of plain data cannot say. */
import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as RuleSet from "../../../src/core/rules/RuleSet.ts"
import * as StateStore from "../../../src/core/store/StateStore.ts"
import { LocalExecutor, Rules, ToolAnnotations, ToolExecutor, ToolHandlers, ToolRule } from "../../../src/index.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { call, calls, declare, open, run, tags, toolkit, type ToolSpec } from "../../support/Harness.ts"

const sleeper = ({ sleep }: { readonly [key: string]: unknown }) => Effect.sleep(Number(sleep ?? 0))

const rule = <T extends ToolRule.Tag>(_tag: T, fields: Omit<ToolRule.Of<T>, "_tag">): ToolRule.ToolRule =>
  ({ _tag, ...fields }) as unknown as ToolRule.ToolRule

describe("the last success", () => {
  const options = { mode: "parallel", rules: [rule("ChildTools", { tool: "a", children: ["b"] })] } as const
  const tools = { a: sleeper, b: sleeper, x: sleeper, y: sleeper }

  it.effect(
    "is the last in input order, not the last to end",
    () =>
      run(tools, options, ({ batch }) =>
        Effect.gen(function*() {
          const first = yield* batch.process()
          yield* first.executeWave([call("1", "a", { sleep: 50 }), call("2", "x", { sleep: 10 })])
          assert.deepStrictEqual(yield* first.allowedNext, ["a", "b", "x", "y"])
          const second = yield* batch.process()
          yield* second.executeWave([call("3", "x", { sleep: 51 }), call("4", "a", { sleep: 11 })])
          assert.deepStrictEqual(yield* second.allowedNext, ["b"])
        })),
    { tags: ["S1"] }
  )

  it.effect("of a call is the last before it, whatever ends first behind it", () =>
    run(
      tools,
      { ...options, pools: { read: 2 } },
      ({ process }) =>
        Effect.gen(function*() {
          // "y" waits for a permit until "a" behind it has succeeded
          const wave = yield* process.executeWave([
            call("1", "x", { sleep: 50 }),
            call("2", "x", { sleep: 10 }),
            call("3", "a", { sleep: 5 }),
            call("4", "y", { sleep: 5 })
          ])
          assert.deepStrictEqual(tags(wave), ["Succeeded", "Succeeded", "Succeeded", "RuleViolation"])
          const capped = yield* process.executeWave([call("5", "b", {})])
          assert.deepStrictEqual(tags(capped), ["Succeeded"])
        })
    ))

  it.effect("before a call that waits is not one behind it", () =>
    run(
      { ...tools, y: { handler: sleeper, annotate: (tool) => tool.annotate(ToolAnnotations.MaxConcurrent, 1) } },
      options,
      ({ process }) =>
        Effect.map(
          process.executeWave([
            call("1", "y", { sleep: 50 }),
            call("2", "y", { sleep: 10 }),
            call("3", "a", { sleep: 5 })
          ]),
          (wave) => assert.deepStrictEqual(tags(wave), ["Succeeded", "Succeeded", "Succeeded"])
        )
    ))

  it.effect("is one of an earlier wave where a later one has none", () =>
    run(
      { ...tools, f: () => Effect.fail("no") },
      { ...options, dedupe: false },
      ({ process }) =>
        Effect.gen(function*() {
          yield* process.executeWave(calls("x", "a"))
          yield* process.executeWave(calls("x", "f"))
          yield* process.executeWave([])
          assert.deepStrictEqual(yield* process.allowedNext, ["b"])
          yield* process.executeWave(calls("b"))
          assert.lengthOf(yield* process.allowedNext, 5)
        })
    ))
})

describe("order", () => {
  it.effect("is checked again when the permits are there, and nothing stays reserved", () =>
    run(
      { edit: sleeper, publish: sleeper, slow: sleeper },
      {
        pools: { read: 1 },
        rules: [
          rule("RequiresFollowingTools", { tool: "edit", tools: ["publish"] }),
          rule("MaxCalls", { tool: "edit", max: 1 })
        ]
      },
      ({ batch, process }) =>
        Effect.gen(function*() {
          const slow = yield* Effect.forkChild(process.executeWave([call("1", "slow", { sleep: 50 })]))
          yield* Effect.sleep(1)
          const publish = yield* Effect.forkChild(process.executeWave([call("2", "publish", {})]))
          yield* Effect.sleep(1)
          assert.deepStrictEqual(tags(yield* process.executeWave([call("3", "edit", {})])), ["RuleViolation"])
          yield* Fiber.join(slow)
          yield* Fiber.join(publish)
          const other = yield* batch.process()
          assert.deepStrictEqual(tags(yield* other.executeWave([call("4", "edit", { n: 1 })])), ["Succeeded"])
        })
    ), { tags: ["G11"] })

  it.effect("counts a success of the host's own call, of a joined call and of a replayed one", () =>
    run(
      { a: sleeper, b: sleeper },
      {
        dedupe: { inFlight: "join", onDuplicate: "replay" },
        mode: "parallel",
        rules: [rule("RequiresPrecedingTools", { tool: "b", tools: ["a"] })]
      },
      ({ batch, process }) =>
        Effect.gen(function*() {
          yield* process.call(declare("a"), { host: true })
          assert.deepStrictEqual(tags(yield* process.executeWave([call("1", "b", { n: 1 })])), ["Succeeded"])

          // nobody in this process waits for the second tool's success: its key counts
          const joining = yield* batch.process()
          const leader = yield* Effect.forkChild(process.executeWave([call("2", "b", { n: 2, sleep: 10 })]))
          yield* Effect.sleep(1)
          yield* joining.executeWave([call("3", "a", { n: 3 })])
          const [joined] = (yield* joining.executeWave([call("4", "b", { n: 2, sleep: 10 })])).outcomes
          assert.strictEqual(joined?._tag === "Succeeded" && joined.replayOf, "2")
          yield* Fiber.join(leader)
          assert.include(yield* joining.allowedNext, "b")
        })
    ))

  it.effect("lets a replayed success satisfy a prerequisite of the same process", () =>
    run(
      { a: sleeper, b: sleeper, c: sleeper },
      {
        dedupe: { onDuplicate: "replay", readWindow: "5 minutes" },
        rules: [rule("ParentTools", { tool: "a", children: ["b"] })]
      },
      ({ batch, process }) =>
        Effect.gen(function*() {
          yield* process.executeWave([call("1", "a", {})])
          const other = yield* batch.process()
          const [replayed] = (yield* other.executeWave([call("2", "a", {})])).outcomes
          assert.strictEqual(replayed?._tag === "Succeeded" && replayed.replayOf, "1")
          assert.deepStrictEqual(yield* other.allowedNext, ["b"])
        })
    ))

  it.effect("is not replayed or joined past: a call that may not come now reports the rule", () =>
    run(
      { a: sleeper, b: sleeper },
      {
        dedupe: { onDuplicate: "replay", inFlight: "join" },
        rules: [rule("RequiresFollowingTools", { tool: "b", tools: ["a"] })]
      },
      ({ process }) =>
        Effect.map(
          process.executeWave([call("1", "b", {}), call("2", "a", {}), call("3", "b", {})]),
          (wave) => assert.deepStrictEqual(tags(wave), ["Succeeded", "Succeeded", "RuleViolation"])
        )
    ), { tags: ["D7"] })

  it.effect("waits for nothing that failed, timed out, was cancelled or died", () =>
    run(
      {
        a: ({ how }) =>
          how === "fail"
            ? Effect.fail("no")
            : how === "die"
            ? Effect.die("no")
            : how === "hang"
            ? Effect.never
            : Effect.void,
        b: sleeper
      },
      {
        tools: { a: { timeout: 10 } },
        rules: [rule("RequiresPrecedingTools", { tool: "b", tools: ["a"] })]
      },
      ({ process }) =>
        Effect.gen(function*() {
          for (const how of ["fail", "die", "hang"]) {
            const wave = yield* process.executeWave([call(how, "a", { how }), call(`b ${how}`, "b", { how })])
            assert.strictEqual(tags(wave)[1], "RuleViolation", how)
          }
          const wave = yield* process.executeWave([call("1", "a", {}), call("2", "b", {})])
          assert.deepStrictEqual(tags(wave), ["Succeeded", "Succeeded"])
        })
    ), { tags: ["S1"] })
})

describe("the end of the loop", () => {
  const tools = { work: sleeper, save: sleeper, done: sleeper }
  const rules = [
    rule("ExitLoop", { tool: "done" }),
    rule("RequiredBeforeExit", { tool: "save" }),
    rule("ContinueLoop", { tool: "work" })
  ]
  const ends = (wave: { readonly needsContinuation: boolean; readonly shouldExit: boolean }) =>
    wave.shouldExit ? "exit" : wave.needsContinuation ? "go on" : "stop"

  it.effect(
    "comes in the order: required before exit, exit, continue, heartbeat",
    () =>
      run(tools, { rules, heartbeats: true }, ({ batch, process }) =>
        Effect.gen(function*() {
          assert.strictEqual(ends(yield* process.executeWave(calls("done"))), "go on")
          assert.strictEqual(yield* process.phase, "exiting")
          assert.strictEqual(ends(yield* process.executeWave(calls("save"))), "exit")
          assert.strictEqual(yield* process.phase, "done")
          const asking = [call("h", "work", { request_heartbeat: true, h: 1 })]
          assert.strictEqual(ends(yield* process.executeWave(asking)), "exit")
          const other = yield* batch.process()
          assert.strictEqual(yield* other.phase, "working")
          assert.strictEqual(ends(yield* other.executeWave([call("s", "save", { s: 1 })])), "stop")
          assert.strictEqual(ends(yield* other.executeWave([call("w", "work", { w: 1 })])), "go on")
          const beat = [call("x", "save", { request_heartbeat: true, x: 1 })]
          assert.strictEqual(ends(yield* other.executeWave(beat)), "go on")
        })),
    { tags: ["ExitLoop"] }
  )

  it.effect("is held up by a required tool for so many waves, then let through", () =>
    run(tools, { rules, exitAttempts: 2 }, ({ process }) =>
      Effect.gen(function*() {
        yield* process.executeWave(calls("done"))
        assert.strictEqual(ends(yield* process.executeWave([])), "go on")
        assert.isFalse(yield* process.shouldExit)
        assert.strictEqual(ends(yield* process.executeWave([])), "exit")
        assert.isTrue(yield* process.shouldExit)
        assert.deepStrictEqual(yield* process.exitPending, ["save"])
      })))

  it.effect("is not held up in a process that was cancelled", () =>
    run(tools, { rules, heartbeats: true }, ({ process }) =>
      Effect.gen(function*() {
        yield* process.cancel("enough")
        assert.strictEqual(ends(yield* process.executeWave(calls("save"))), "stop")
      })))

  it.effect("does not come while nobody asked for it, however long a tool is required", () =>
    run(tools, { rules, heartbeats: true }, ({ process }) =>
      Effect.gen(function*() {
        for (let n = 0; n < 20; n++) {
          assert.strictEqual(ends(yield* process.executeWave([call(`${n}`, "work", { n })])), "go on")
        }
        yield* process.executeWave(calls("done"))
        assert.isFalse(yield* process.shouldExit)
      })))
})

describe("calls of the host", () => {
  it.effect("are tried again, so often as it is asked for, where that is worth it", () => {
    let tries = 0
    return run(
      {
        load: () => Effect.suspend(() => ++tries < 3 ? Effect.fail("busy") : Effect.succeed(tries)),
        bad: {
          handler: () => Effect.fail("no"),
          annotate: (it) => it.annotate(ToolAnnotations.IsRetryable, () => false)
        }
      },
      { rules: [rule("StartConstraint", { tool: "load" }), rule("StartConstraint", { tool: "bad" })] },
      ({ process }) =>
        Effect.gen(function*() {
          assert.strictEqual(yield* process.phase, "starting")
          const wave = yield* process.startConstraints({}, { attempts: 5 })
          assert.deepStrictEqual(tags(wave), ["Succeeded", "Failed"])
          assert.deepStrictEqual(wave.outcomes.map((it) => it.index), [0, 1])
          assert.deepStrictEqual(wave.toolMessages.map((it) => it.tool), ["load", "bad"])
          assert.strictEqual(tries, 3)
          assert.deepStrictEqual(yield* process.startPending, ["bad"])
        })
    )
  })

  it.effect("take of alternatives those with arguments, else the first", () =>
    run(
      { a: sleeper, b: sleeper, c: sleeper },
      { rules: ["a", "b", "c"].map((tool) => rule("StartConstraint", { tool, mode: "any" })) },
      ({ batch }) =>
        Effect.gen(function*() {
          const started = (args?: Record<string, Record<string, unknown>>) =>
            Effect.gen(function*() {
              const process = yield* batch.process()
              const wave = yield* process.startConstraints(args)
              assert.deepStrictEqual(yield* process.startPending, [])
              return wave.outcomes.map((it) => it.tool)
            })
          assert.deepStrictEqual(yield* started(), ["a"])
          assert.deepStrictEqual(yield* started({ b: {} }), ["b"])
        })
    ))
})

describe("the next tool", () => {
  it.effect("leaves out what another gate would refuse by name", () =>
    run(
      { used: sleeper, rests: sleeper, hidden: sleeper, other: sleeper, basic: sleeper, oauth: sleeper },
      {
        policy: { default: "allow", deny: ["hidden"] },
        rules: [
          rule("MaxCalls", { tool: "used", max: 1 }),
          rule("Cooldown", { tool: "rests", duration: "1 second" }),
          rule("ExclusiveGroup", { tools: ["basic", "oauth"] })
        ]
      },
      ({ process }) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(yield* process.toolChoice, "auto")
          yield* process.executeWave(calls("used", "rests", "oauth"))
          assert.deepStrictEqual(yield* process.allowedNext, ["other", "oauth"])
          assert.deepStrictEqual(yield* process.toolChoice, { oneOf: ["other", "oauth"] })
          yield* Effect.sleep("1 second")
          assert.deepStrictEqual(yield* process.allowedNext, ["rests", "other", "oauth"])
          yield* process.cancel("enough")
          assert.deepStrictEqual(yield* process.allowedNext, [])
          assert.deepStrictEqual(yield* process.toolChoice, "none")
        })
    ))

  it.effect("is forced where a rule leaves no choice", () =>
    run(
      { load: sleeper, search: sleeper, pick: sleeper, save: sleeper, done: sleeper },
      {
        rules: [
          rule("StartConstraint", { tool: "load" }),
          rule("ChildTools", { tool: "search", children: ["pick"] }),
          rule("RequiredBeforeExit", { tool: "save" }),
          rule("ExitLoop", { tool: "done" })
        ]
      },
      ({ process }) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(yield* process.toolChoice, { mode: "required", oneOf: ["load"] })
          yield* process.executeWave(calls("load"))
          assert.deepStrictEqual(yield* process.forcedNext, [])
          assert.deepStrictEqual(yield* process.toolChoice, "auto")
          yield* process.executeWave(calls("search"))
          assert.deepStrictEqual(yield* process.forcedNext, ["pick"])
          yield* process.executeWave(calls("pick"))
          yield* process.executeWave(calls("done"))
          assert.deepStrictEqual(yield* process.toolChoice, { mode: "required", oneOf: ["save"] })
        })
    ), { tags: ["R5"] })

  it.effect("takes a store that cannot be reached for a no", () => {
    const memory = StateStore.makeMemory()
    const store = {
      ...memory,
      check: () => Effect.fail(new StateStore.StateStoreError({ operation: "check", cause: 1 }))
    }
    return run(
      { limited: sleeper, free: sleeper },
      { store, rules: [rule("MaxCalls", { tool: "limited", max: 1 })] },
      ({ process }) => Effect.map(process.allowedNext, (names) => assert.deepStrictEqual(names, ["free"]))
    )
  })
})

describe("rules that a tool brings itself", () => {
  const limited: ToolSpec = {
    handler: sleeper,
    annotate: (tool) => tool.annotate(ToolAnnotations.Rules, [{ _tag: "MaxCalls", max: 1 }])
  }

  it.effect("hold beside the host's", () =>
    run({ a: limited, b: sleeper }, { rules: [rule("MaxCalls", { tool: "b", max: 0 })] }, ({ process }) =>
      Effect.map(
        process.executeWave(calls("a", "a", "b")),
        (wave) => assert.deepStrictEqual(tags(wave), ["Succeeded", "RuleViolation", "RuleViolation"])
      )))

  it.effect("are checked with the host's, each at its place", () => {
    const { handlers, kit } = toolkit({
      a: { ...limited, annotate: (it) => it.annotate(ToolAnnotations.Rules, [{ _tag: "MaxCalls", max: -1 }]) }
    })
    return Effect.map(
      Effect.flip(Effect.scoped(Layer.build(
        Rules.layer([rule("ExitLoop", { tool: "z" })]).pipe(
          Layer.provide(ToolHandlers.layer(kit)),
          Layer.provide(handlers)
        )
      ))),
      (error) => assert.deepStrictEqual(error.problems.map((it) => it.path), ["rules[0].tool", "tools.a.rules[0].max"])
    )
  })

  it.effect("come and go with the registry", () => {
    const { handlers, kit } = toolkit({ a: limited, b: sleeper })
    const plain = toolkit({ a: sleeper, c: sleeper })
    return Effect.gen(function*() {
      const registry = yield* ToolHandlers.ToolHandlers
      const rules = yield* Rules.Rules
      assert.strictEqual(rules.current().forTool("a").maxCalls[0]?.max, 1)
      const next = yield* ToolHandlers.makeRegistry([plain.kit]).pipe(Effect.provide(plain.handlers))
      yield* registry.replace(next)
      assert.deepStrictEqual(rules.current().forTool("a").maxCalls, [])
      assert.strictEqual(rules.current().forTool("c").cooldowns[0]?.millis, 1_000)
      assert.deepStrictEqual(rules.current().tools, ["a", "c"])
    }).pipe(Effect.provide(
      Rules.layer([rule("Cooldown", { tool: "*", duration: "1 second" })]).pipe(
        Layer.provideMerge(ToolHandlers.layer(kit)),
        Layer.provide(handlers)
      )
    ))
  })
})

describe("the schema that a model sees", () => {
  const Deploy = Tool.make("deploy", {
    parameters: Schema.Struct({
      env: Schema.Literals(["dev", "staging", "prod"]),
      token: Schema.String,
      note: Schema.optionalKey(Schema.String)
    }),
    success: Schema.Unknown
  }).annotate(Tool.Readonly, true)
  const kit = Toolkit.make(Deploy, Tool.make("plan").annotate(Tool.Readonly, true))
  const rules = ToolRule.for(kit)
  const layer = LocalExecutor.layer(kit, {
    rules: [
      rules.allowedOperations("deploy", "env", ["dev", "staging"]),
      rules.childTools("plan", ["deploy"], { prefilled: { deploy: { token: "secret" } } })
    ]
  }).pipe(Layer.provide(kit.toLayer({ deploy: (params) => Effect.succeed(params), plan: () => Effect.void })))

  it.effect(
    "holds the values that the rules allow, and none of the host's own arguments",
    () =>
      Effect.gen(function*() {
        const executor = yield* ToolExecutor.ToolExecutor
        const tool = (yield* executor.tools).find((it) => it.name === "deploy")!
        const { properties, required } = tool.jsonSchema as {
          readonly properties: Record<string, { readonly enum?: unknown }>
          readonly required: ReadonlyArray<string>
        }
        assert.deepStrictEqual(Object.keys(properties), ["env", "note"])
        assert.deepStrictEqual(properties.env?.enum, ["dev", "staging"])
        assert.deepStrictEqual(required, ["env"])
      }).pipe(Effect.provide(layer)),
    { tags: ["R5"] }
  )

  it.effect("is kept: the host's argument overrides what a model makes up", () =>
    Effect.gen(function*() {
      const executor = yield* ToolExecutor.ToolExecutor
      const process = yield* executor.process()
      const wave = yield* process.executeWave([
        call("1", "deploy", { env: "dev" }),
        call("2", "deploy", { env: "dev", token: "guess", note: "x" }),
        call("3", "deploy", { env: "prod", token: "secret" })
      ])
      assert.deepStrictEqual(tags(wave), ["Succeeded", "Succeeded", "RuleViolation"])
      assert.include(wave.toolMessages[1]?.text, "secret")
      assert.notInclude(wave.toolMessages[1]?.text, "guess")
    }).pipe(Effect.scoped, Effect.provide(layer)))
})

describe("Periodic", () => {
  const at = (starts: Array<number>, run: Effect.Effect<unknown, unknown> = Effect.void): ToolSpec => ({
    handler: () => Effect.andThen(Effect.flatMap(VirtualTime.now, (now) => Effect.sync(() => starts.push(now))), run)
  })
  const every = (schedule: string, more: object = {}) => rule("Periodic", { tool: "sync", schedule, ...more })
  const watch = (spec: ToolSpec, options: Parameters<typeof open>[1], millis: number) =>
    VirtualTime.run(
      Effect.scoped(Effect.andThen(open({ sync: spec }, options), Effect.sleep(millis))),
      { limit: "10 days" }
    )

  it.effect("fires its tool after each interval, though equal calls are duplicates elsewhere", () => {
    const starts: Array<number> = []
    return Effect.gen(function*() {
      const began = yield* VirtualTime.run(VirtualTime.now)
      yield* watch(at(starts), { rules: [every("1 minute")] }, 200_000)
      assert.deepStrictEqual(starts.map((it) => it - began), [60_000, 120_000, 180_000])
    })
  })

  it.effect("fires by cron expressions in UTC", () => {
    const starts: Array<number> = []
    return Effect.gen(function*() {
      yield* watch(at(starts), { rules: [every("30 6 * * *")] }, 2 * 86_400_000)
      assert.lengthOf(starts, 2)
      for (const start of starts) assert.strictEqual(new Date(start).toISOString().slice(11), "06:30:00.000Z")
    })
  })

  for (const dedupe of [undefined, false] as const) {
    const where = dedupe === false ? ", where equal calls may run again, too" : ""
    it.effect(`never overlaps itself, not even a handler that outlived its limit${where}`, () => {
      const starts: Array<number> = []
      const deaf = Effect.uninterruptible(Effect.sleep(150_000))
      return Effect.gen(function*() {
        const began = yield* VirtualTime.run(VirtualTime.now)
        yield* watch(at(starts, deaf), {
          dedupe,
          rules: [every("1 minute")],
          tools: { sync: { timeout: "10 seconds" } }
        }, 250_000)
        assert.deepStrictEqual(starts.map((it) => it - began), [60_000, 240_000])
      })
    }, { tags: ["Periodic"] })
  }

  it.effect("takes the host's arguments, and each firing is a batch of its own", () => {
    const seen: Array<unknown> = []
    const spec: ToolSpec = { handler: (params) => Effect.sync(() => seen.push(params)) }
    return Effect.map(
      watch(spec, {
        rules: [every("1 second", { params: { full: true } }), rule("MaxCalls", { tool: "sync", max: 1 })]
      }, 3_500),
      () => assert.deepStrictEqual(seen, [{ full: true }, { full: true }, { full: true }])
    )
  })

  it.effect("is refused where nobody can be asked, and goes on", () => {
    const starts: Array<number> = []
    return Effect.map(
      watch(at(starts), { rules: [every("1 second"), rule("RequiresConsent", { tool: "sync" })] }, 3_500),
      () => assert.deepStrictEqual(starts, [])
    )
  })

  it.effect("ends with the executor's scope", () => {
    const starts: Array<number> = []
    return Effect.gen(function*() {
      yield* VirtualTime.run(Effect.andThen(
        Effect.scoped(Effect.andThen(open({ sync: at(starts) }, { rules: [every("1 second")] }), Effect.sleep(2_500))),
        Effect.sleep(10_000)
      ))
      assert.lengthOf(starts, 2)
    })
  })
})

describe("a rule set", () => {
  it("is asked about any moment without an executor", () => {
    const set = RuleSet.make([
      { _tag: "Conditional", tool: "triage", path: "kind", cases: [{ equals: "bug", tool: "fix" }] }
    ], ["triage", "fix", "plan"])
    const history = RuleSet.history(set, [{ tool: "triage", output: { kind: "bug" } }])
    assert.deepStrictEqual(RuleSet.allowedNext(set, history), ["fix"])
  })
})
