/** Plain functions as tools of the executor. */
import { assert, describe, expectTypeOf, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Functions from "../../src/adapters/Functions.ts"
import {
  LocalExecutor,
  ToolAnnotations,
  ToolCall,
  ToolContext,
  ToolExecutor,
  type ToolHandlers,
  ToolOutcome,
  type ToolProcess
} from "../../src/index.ts"
import * as VirtualTime from "../../src/testing/VirtualTime.ts"

type Definitions = { readonly [name: string]: Functions.Definition }

const open = Effect.gen(function*() {
  const executor = yield* ToolExecutor.ToolExecutor
  return { executor, process: yield* executor.process() }
})

interface Env {
  readonly executor: ToolExecutor.ToolExecutor["Service"]
  readonly process: ToolProcess.ToolProcess
}

/** Runs a program with an executor over functions, in virtual time; everything is allowed. */
const run = <A, E>(
  definitions: Definitions,
  program: (env: Env) => Effect.Effect<A, E>,
  options: LocalExecutor.Options = {}
) => {
  const { layer, toolkit } = Functions.make(definitions)
  const executor = LocalExecutor.layer(toolkit, { policy: { default: "allow" }, ...options }).pipe(Layer.provide(layer))
  return VirtualTime.run(Effect.scoped(Effect.provide(Effect.flatMap(open, program), executor)), { limit: "1 hour" })
}

/** The outcome of one call of one function. */
const outcomeOf = (definition: Functions.Definition, args: unknown = {}, options?: LocalExecutor.Options) =>
  run({ it: definition }, ({ process }) => process.execute(ToolCall.make("1", "it", args)), options)

const toolsOf = (definitions: Definitions) =>
  run(
    definitions,
    ({ executor }) =>
      Effect.map(executor.tools, (tools) =>
        new Map<string, ToolHandlers.RegisteredTool>(tools.map((tool) => [tool.name, tool])))
  )

const never = () => new Promise<never>(() => {})

describe("a function as a tool", () => {
  it.effect("may give a value, a promise, an effect, or a promise of an effect", () =>
    run({
      value: { execute: () => 1 },
      promise: { execute: async () => 2 },
      effect: { execute: () => Effect.succeed(3) },
      both: { execute: async () => Effect.succeed(4) }
    }, ({ process }) =>
      Effect.gen(function*() {
        const names = ["value", "promise", "effect", "both"]
        const wave = yield* process.executeWave(names.map((name) => ToolCall.make(name, name)))
        assert.deepStrictEqual(wave.toolMessages.map((it) => it.text), ["1", "2", "3", "4"])
      })))

  it.effect("runs only with arguments that fit its JSON Schema", () => {
    const seen: Array<unknown> = []
    const definition: Functions.Definition = {
      parameters: { type: "object", properties: { n: { type: "integer" } }, required: ["n"] },
      execute: (args) => seen.push(args)
    }
    return Effect.gen(function*() {
      const wrong = yield* outcomeOf(definition, { n: "one" })
      assert.strictEqual(wrong._tag === "Denied" && wrong.reason._tag, "InvalidParameters")
      assert.include(ToolOutcome.text(wrong), "must be integer")
      assert.strictEqual((yield* outcomeOf(definition, { n: 1 }))._tag, "Succeeded")
      assert.deepStrictEqual(seen, [{ n: 1 }])
    })
  })

  it.effect("without parameters takes none", () =>
    Effect.gen(function*() {
      const outcome = yield* outcomeOf({ execute: () => 1 }, { n: 1 })
      assert.strictEqual(outcome._tag, "Denied")
    }))

  const failures: ReadonlyArray<readonly [what: string, execute: () => unknown, message: string]> = [
    ["throws an error", () => {
      throw new TypeError("no such city")
    }, "no such city"],
    ["rejects with an error", () => Promise.reject(new Error("no such city")), "no such city"],
    ["throws a text", () => Promise.reject("no such city"), "no such city"],
    ["throws an object", () => Promise.reject({ code: 7 }), `{"code":7}`],
    ["throws an object with a message", () => Promise.reject({ code: 7, message: "seven" }), "seven"],
    ["throws an error without a message", () => Promise.reject(new RangeError()), "RangeError"],
    ["throws nothing", () => Promise.reject(), "it did not say why"],
    ["throws a big integer", () => Promise.reject(7n), "7"],
    ["fails as an effect", () => Effect.fail({ message: "no such city" }), "no such city"]
  ]
  for (const [what, execute, message] of failures) {
    it.effect(`that ${what} has failed, and the model reads why`, () =>
      Effect.gen(function*() {
        const outcome = yield* outcomeOf({ execute })
        assert.deepInclude(outcome, { _tag: "Failed", origin: "handler", error: message })
        assert.strictEqual(ToolOutcome.text(outcome), `"it" failed: ${message}`)
      }))
  }

  it.effect("shows no stack and not more than 2,000 characters of what it throws", () =>
    Effect.gen(function*() {
      const outcome = yield* outcomeOf({
        execute: () => {
          throw new Error("x".repeat(5_000))
        }
      })
      assert.isBelow(ToolOutcome.text(outcome).length, 2_050)
      assert.notInclude(JSON.stringify(outcome), "Functions.test")
    }))

  it.effect("whose effect dies has a defect, of which the model learns nothing", () =>
    Effect.gen(function*() {
      const outcome = yield* outcomeOf({ execute: () => Effect.die("secret") })
      assert.deepInclude(outcome, { _tag: "Failed", origin: "defect" })
      assert.notInclude(ToolOutcome.text(outcome), "secret")
    }))

  const circle: { self?: unknown } = {}
  circle.self = circle
  const outputs: ReadonlyArray<readonly [what: string, output: unknown, value: unknown, text: string]> = [
    ["nothing", undefined, undefined, "Done."],
    ["null", null, null, "null"],
    ["a function", () => 1, null, "null"],
    ["a big integer", { n: 7n }, { n: "7" }, `{"n":"7"}`],
    ["a circle", circle, { self: "[circular]" }, `{"self":"[circular]"}`],
    ["a date", new Date(0), "1970-01-01T00:00:00.000Z", "1970-01-01T00:00:00.000Z"],
    ["a map", new Map([["a", 1]]), [["a", 1]], `[["a",1]]`],
    ["a number that is none", Number.NaN, null, "null"],
    ["a lone surrogate", "\ud800", "\ufffd", "\ufffd"]
  ]
  for (const [what, output, value, text] of outputs) {
    it.effect(`may give ${what}`, () =>
      Effect.gen(function*() {
        const outcome = yield* outcomeOf({ execute: async () => output })
        assert.deepInclude(outcome, { _tag: "Succeeded" })
        if (outcome._tag !== "Succeeded") return
        assert.deepStrictEqual("value" in outcome.output ? outcome.output.value : "none", value)
        assert.strictEqual(ToolOutcome.text(outcome), text)
      }))
  }

  it.effect.prop(
    "gives any JSON as it is, but for halves of characters",
    [Schema.Json],
    ([json]) =>
      Effect.gen(function*() {
        const outcome = yield* outcomeOf({ execute: () => json }, {}, { output: { maxChars: "unbounded" } })
        const value = outcome._tag === "Succeeded" && outcome.output._tag === "Inline" ? outcome.output.value : outcome
        const halves = /\\ud[89a-f][0-9a-f]{2}/g
        // two names that become one are one
        const whole: unknown = JSON.parse(JSON.stringify(json).replaceAll(halves, "\ufffd"))
        assert.strictEqual(JSON.stringify(value), JSON.stringify(whole))
      })
  )

  it.effect("knows its call, and may say how far it is", () => {
    const seen: Array<unknown> = []
    return run({
      it: {
        timeout: "10 seconds",
        execute: (_, { callId, deadline, meta, partial, progress, status }) => {
          progress({ progress: 1, total: 2 })
          status("half way")
          partial({ n: 7n })
          seen.push(callId, deadline, meta)
        }
      }
    }, ({ process }) =>
      Effect.gen(function*() {
        const events = yield* Stream.runCollect(process.stream([ToolCall.make("c", "it")]))
        const own = events.filter((it) => /Progress|Status|Partial/.test(it._tag))
        assert.deepStrictEqual(own.map((it) => it._tag), ["ToolProgress", "ToolStatus", "ToolPartialResult"])
        assert.deepInclude(own[2], { value: { n: "7" } })
        assert.deepStrictEqual(seen, ["c", 10_000, {}])
      }))
  })

  it.effect("is told to stop when its time is over, and is an orphan as long as it does not", () => {
    const told: Array<string> = []
    let finish = () => {}
    return run({
      deaf: {
        timeout: "1 second",
        execute: (_, { signal }) => {
          signal.addEventListener("abort", () => told.push("deaf"))
          return new Promise<void>((resolve) => {
            finish = resolve
          })
        }
      },
      good: {
        timeout: "1 second",
        execute: (_, { signal }) =>
          new Promise((_, reject) => {
            signal.addEventListener("abort", () => {
              told.push("good")
              reject(signal.reason)
            })
          })
      }
    }, ({ executor, process }) =>
      Effect.gen(function*() {
        const good = yield* process.execute(ToolCall.make("1", "good"))
        assert.strictEqual(good._tag, "TimedOut")
        yield* Effect.sleep(1)
        assert.lengthOf((yield* executor.orphans).running, 0)
        const deaf = yield* process.execute(ToolCall.make("2", "deaf"))
        assert.strictEqual(deaf._tag, "TimedOut")
        assert.deepStrictEqual(told, ["good", "deaf"])
        assert.lengthOf((yield* executor.orphans).running, 1)
        finish()
        yield* Effect.sleep("1 second")
        assert.lengthOf((yield* executor.orphans).running, 0)
      }))
  })

  it.effect("that gave an effect is told to stop, too", () => {
    let signal: AbortSignal | undefined
    return Effect.gen(function*() {
      const outcome = yield* outcomeOf({
        timeout: "1 second",
        execute: (_, call) => {
          signal = call.signal
          return Effect.never
        }
      })
      assert.strictEqual(outcome._tag, "TimedOut")
      assert.isTrue(signal?.aborted)
    })
  })

  it.effect("is not told to stop when it has ended", () => {
    let signal: AbortSignal | undefined
    return Effect.gen(function*() {
      yield* outcomeOf({
        execute: async (_, call) => {
          signal = call.signal
        }
      })
      assert.isFalse(signal?.aborted)
    })
  })

  it.effect("has its commits counted, and those after its outcome kept out", () => {
    const written: Array<string> = []
    const late: Array<unknown> = []
    let goOn = () => {}
    return run({
      it: {
        timeout: "1 second",
        execute: async (_, { commit }) => {
          assert.strictEqual(await commit(() => written.push("one")), 1)
          await new Promise<void>((resolve) => {
            goOn = resolve
          })
          await commit(() => written.push("two")).catch((error: unknown) => late.push(String(error)))
        }
      },
      failing: {
        execute: (_, { commit }) =>
          commit(() => {
            throw new Error("disk full")
          })
      }
    }, ({ executor, process }) =>
      Effect.gen(function*() {
        const outcome = yield* process.execute(ToolCall.make("1", "it"))
        assert.deepInclude(outcome, { _tag: "TimedOut", commits: 1 })
        goOn()
        yield* Effect.sleep("1 second")
        assert.deepStrictEqual(written, ["one"])
        assert.deepStrictEqual(late, ["Error: The call has ended: nothing was written"])
        assert.strictEqual((yield* executor.orphans).lateWritesBlocked, 1)
        const failed = yield* process.execute(ToolCall.make("2", "failing"))
        assert.deepInclude(failed, { _tag: "Failed", error: "disk full", commits: 0 })
      }))
  })

  it.effect("is waited for when the caller goes, within the grace", () =>
    run({
      it: {
        execute: (_, { signal }) =>
          new Promise((_, reject) => {
            signal.addEventListener("abort", () => reject(signal.reason))
          })
      }
    }, ({ executor, process }) =>
      Effect.gen(function*() {
        const fiber = yield* Effect.forkChild(process.execute(ToolCall.make("1", "it")), { startImmediately: true })
        yield* Fiber.interrupt(fiber)
        assert.strictEqual(yield* VirtualTime.now, 0)
        assert.lengthOf((yield* executor.orphans).running, 0)
      })))
})

describe("what is said of a function", () => {
  it.effect("is never more than the host says: else it is a writer that runs alone", () =>
    Effect.gen(function*() {
      const tools = yield* toolsOf({
        unknown: { execute: never },
        read: { readOnly: true, execute: never },
        promoted: { promoted: true, maxConcurrent: 2, timeout: "2 seconds", execute: never },
        outside: { readOnly: true, openWorld: true, execute: never },
        more: { annotations: Context.make(ToolAnnotations.IdleTimeout, "3 seconds"), execute: never }
      })
      const classes = Array.from(tools.values(), (it) => [it.name, it.class, it.openWorld])
      assert.deepStrictEqual(classes, [
        ["unknown", "SerialMut", false],
        ["read", "ReadOnly", false],
        ["promoted", "ConcurrentMut", false],
        ["outside", "ReadOnly", true],
        ["more", "SerialMut", false]
      ])
      assert.deepInclude(tools.get("promoted"), { maxConcurrent: 2, timeoutMillis: 2_000 })
      assert.deepInclude(tools.get("more"), { idleMillis: 3_000 })
    }))

  it("are annotations of effect/ai, too", () => {
    const { toolkit } = Functions.make({
      it: { idempotent: true, destructive: false, execute: never }
    })
    assert.isTrue(Context.get(toolkit.tools.it.annotations, Tool.Idempotent))
    assert.isFalse(Context.get(toolkit.tools.it.annotations, Tool.Destructive))
    assert.isFalse(Context.get(toolkit.tools.it.annotations, Tool.Readonly))
  })

  it.effect("lets writers of different keys run at once, and policies look at targets", () => {
    const running: Array<string> = []
    const path = { type: "object", properties: { path: { type: "string" } }, required: ["path"] }
    const keys = (args: unknown) => [(args as { readonly path: string }).path]
    return run({
      write: {
        parameters: path,
        promoted: true,
        resources: keys,
        targets: (args) => keys(args).map((text) => ({ text: `note/${text}` })),
        execute: ({ path }: { readonly path: string }) =>
          Effect.gen(function*() {
            running.push(`+${path}`)
            yield* Effect.sleep("1 second")
            running.push(`-${path}`)
          })
      }
    }, ({ process }) =>
      Effect.gen(function*() {
        const wave = yield* process.executeWave(
          ["a", "b", "a", "secret"].map((path, n) => ToolCall.make(`${n}`, "write", { path }))
        )
        assert.deepStrictEqual(running, ["+a", "+b", "-a", "+a", "-b", "-a"])
        assert.deepStrictEqual(wave.outcomes.map((it) => it._tag), ["Succeeded", "Succeeded", "Succeeded", "Denied"])
      }), { dedupe: false, policy: { default: "allow", deny: ["write(note/secret)"] } })
  })

  it.effect("by default lets only reads run where nobody is there to ask", () =>
    run(
      { read: { readOnly: true, execute: () => 1 }, write: { execute: () => 1 } },
      ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave([ToolCall.make("1", "read"), ToolCall.make("2", "write")])
          assert.deepStrictEqual(wave.outcomes.map((it) => it._tag), ["Succeeded", "Denied"])
        }),
      { policy: {} }
    ))

  it.effect("has a person asked where it needs approval, and where it cannot say", () => {
    const amount = { type: "object", properties: { amount: { type: "number" } }, required: ["amount"] }
    const asks = (amount: number) => amount > 100
    const definitions: Definitions = {
      yes: { readOnly: true, needsApproval: true, execute: () => 1 },
      no: { readOnly: true, needsApproval: false, execute: () => 1 },
      sync: {
        readOnly: true,
        parameters: amount,
        needsApproval: (it: { readonly amount: number }) => asks(it.amount),
        execute: () => 1
      },
      async: {
        readOnly: true,
        parameters: amount,
        needsApproval: async (it: { readonly amount: number }) => asks(it.amount),
        execute: () => 1
      },
      effect: {
        readOnly: true,
        parameters: amount,
        needsApproval: (it: { readonly amount: number }) => Effect.succeed(asks(it.amount)),
        execute: () => 1
      },
      broken: { readOnly: true, needsApproval: () => Promise.reject(new Error("no")), execute: () => 1 }
    }
    const calls: ReadonlyArray<readonly [string, unknown]> = [
      ["yes", {}],
      ["no", {}],
      ["sync", { amount: 1 }],
      ["sync", { amount: 1_000 }],
      ["async", { amount: 1 }],
      ["async", { amount: 1_000 }],
      ["effect", { amount: 1 }],
      ["effect", { amount: 1_000 }],
      ["broken", {}]
    ]
    return run(definitions, ({ process }) =>
      Effect.gen(function*() {
        const wave = yield* process.executeWave(calls.map(([name, args], n) => ToolCall.make(`${n}`, name, args)))
        assert.deepStrictEqual(wave.outcomes.map((it) => it._tag === "Denied" ? it.reason._tag : it._tag), [
          "PermissionDenied",
          "Succeeded",
          "Succeeded",
          "PermissionDenied",
          "Succeeded",
          "PermissionDenied",
          "Succeeded",
          "PermissionDenied",
          "PermissionDenied"
        ])
      }))
  })
})

describe("a wrong function", () => {
  const problemsOf = (definitions: unknown) =>
    Effect.map(
      Effect.flip(Effect.scoped(Layer.build(Functions.make(definitions as Definitions).layer))),
      (error) => error.problems.map((it) => it.path)
    )
  const execute = () => 1

  it.effect("is told with every other when the layer is built", () =>
    Effect.gen(function*() {
      const paths = yield* problemsOf({
        "two words": { execute },
        [`${"x".repeat(65)}`]: { execute },
        ["__proto__"]: { execute },
        "": { execute },
        none: null,
        nothing: {},
        text: { execute: "ls" },
        typo: { execute, readonly: true },
        flag: { execute, readOnly: "yes" },
        described: { execute, description: 7 },
        list: { execute, parameters: [] },
        scalar: { execute, parameters: { type: "string" } },
        asks: { execute, needsApproval: "maybe" },
        keys: { execute, resources: "path" },
        annotated: { execute, annotations: {} },
        right: { execute }
      })
      assert.deepStrictEqual(paths, [
        "tools.two words",
        `tools.${"x".repeat(65)}`,
        "tools.__proto__",
        "tools.",
        "tools.none",
        "tools.nothing.execute",
        "tools.text.execute",
        "tools.typo.readonly",
        "tools.flag.readOnly",
        "tools.described.description",
        "tools.list.parameters",
        "tools.scalar.parameters",
        "tools.asks.needsApproval",
        "tools.keys.resources",
        "tools.annotated.annotations"
      ])
    }))

  it.effect("is told with what it is and what would be right", () =>
    Effect.gen(function*() {
      const { layer } = Functions.make({ flag: { execute, readOnly: "yes" as never }, "two words": { execute } })
      const error = yield* Effect.flip(Effect.scoped(Layer.build(layer)))
      assert.strictEqual(
        error.message,
        "Functions: 2 problems\n" +
          "  tools.flag.readOnly: it is \"yes\"; expected true or false\n" +
          "  tools.two words: providers reject this name; expected 1 to 64 of a-z A-Z 0-9 _ -"
      )
    }))

  it.effect("is found by the registry where only that can know", () =>
    Effect.gen(function*() {
      const { layer, toolkit } = Functions.make({
        cap: { execute, maxConcurrent: 0 },
        time: { execute, timeout: "soon" as never },
        schema: { execute, parameters: { type: "object", properties: 7 } }
      })
      const built = Layer.build(LocalExecutor.layer(toolkit).pipe(Layer.provide(layer)))
      const error = yield* Effect.flip(Effect.scoped(built))
      assert.deepStrictEqual(error.problems.map((it) => it.path), ["tools.cap", "tools.time", "tools.schema"])
    }))

  it.effect("does not crash where there are none at all", () =>
    Effect.gen(function*() {
      for (const none of [{}, null, undefined, 7]) {
        const { layer, toolkit } = Functions.make(none as Definitions)
        yield* Effect.scoped(Layer.build(layer))
        assert.deepStrictEqual(toolkit.tools, {})
      }
    }))
})

describe("a toolkit of functions", () => {
  const { layer, toolkit } = Functions.make({
    upper: {
      readOnly: true,
      parameters: { type: "object", properties: { text: { type: "string" } } },
      execute: ({ text }: { readonly text: string }, { callId, partial }) => {
        partial("…")
        return `${callId}: ${text.toUpperCase()}`
      }
    }
  })

  it.effect("runs without the executor as well", () =>
    Effect.gen(function*() {
      const tools = yield* toolkit
      const results = yield* Stream.runCollect(yield* tools.handle("upper", { text: "a" }, "c"))
      assert.deepStrictEqual(results.map((it) => [it.preliminary, it.encodedResult]), [[true, "…"], [false, "c: A"]])
    }).pipe(Effect.provide(layer)))

  it("knows its names, and requires what its effects need", () => {
    class Db extends Context.Service<Db, { readonly find: Effect.Effect<string> }>()("test/Db") {}
    const made = Functions.make({
      find: { execute: () => Effect.flatMap(Db, (db) => db.find) },
      plain: { execute: async () => 1 }
    })
    expectTypeOf<keyof typeof made.toolkit.tools>().toEqualTypeOf<"find" | "plain">()
    expectTypeOf<Layer.Services<typeof made.layer>>().toEqualTypeOf<Db>()
    expectTypeOf<Layer.Services<typeof layer>>().toEqualTypeOf<never>()
  })

  it.effect("gives effects the services of its layer", () => {
    class Db extends Context.Service<Db, { readonly find: Effect.Effect<string> }>()("test/Db") {}
    const made = Functions.make({ find: { readOnly: true, execute: () => Effect.flatMap(Db, (db) => db.find) } })
    return Effect.gen(function*() {
      const { process } = yield* open
      const outcome = yield* process.execute(ToolCall.make("1", "find"))
      assert.strictEqual(ToolOutcome.text(outcome), "found")
    }).pipe(
      Effect.scoped,
      Effect.provide(LocalExecutor.layer(made.toolkit).pipe(Layer.provide(made.layer))),
      Effect.provideService(Db, { find: Effect.succeed("found") })
    )
  })

  it.effect("may be one of several, and uses the context of an effect's own tools", () => {
    const asking = Functions.make({
      who: {
        readOnly: true,
        execute: () =>
          Effect.map(ToolContext.ToolContext, (it) => Option.fromUndefinedOr(it.executor).pipe(Option.isSome))
      }
    })
    return Effect.gen(function*() {
      const { process } = yield* open
      const wave = yield* process.executeWave([ToolCall.make("1", "who"), ToolCall.make("2", "upper", { text: "b" })])
      assert.deepStrictEqual(wave.toolMessages.map((it) => it.text), ["true", "2: B"])
    }).pipe(
      Effect.scoped,
      Effect.provide(
        LocalExecutor.layer([asking.toolkit, toolkit]).pipe(Layer.provide(Layer.merge(asking.layer, layer)))
      )
    )
  })
})
