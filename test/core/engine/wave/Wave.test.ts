import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as Pools from "../../../../src/core/gates/Pools.ts"
import * as StateStore from "../../../../src/core/store/StateStore.ts"
import * as ToolCall from "../../../../src/core/vocabulary/ToolCall.ts"
import { ToolAnnotations, ToolContext } from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import { call, calls, type Env, open, run, tag, tags, value } from "../../../support/Harness.ts"

const resources = (keys: (params: { readonly [key: string]: unknown }) => ReadonlyArray<string>) => (tool: Tool.Any) =>
  tool.annotate(ToolAnnotations.Resources, (params) => keys(params as { readonly [key: string]: unknown }))

const mut = (handler: (params: { readonly [key: string]: unknown }) => Effect.Effect<unknown, unknown>) => ({
  class: "ConcurrentMut" as const,
  handler
})

/** Each pool still has all its permits: as many calls as it has run at once. */
const fullWidth = (env: Env, tool: string, width: number) =>
  Effect.gen(function*() {
    const before = yield* VirtualTime.now
    const probe = yield* env.executor.process()
    const wave = yield* probe.executeWave(
      Array.from({ length: width }, (_, n) => call(`probe${n}`, tool, { probe: n, sleep: 100 }))
    )
    assert.deepStrictEqual(new Set(tags(wave)), new Set(["Succeeded"]))
    assert.strictEqual(yield* VirtualTime.now, before + 100)
  })

const sleeper = ({ sleep }: { readonly [key: string]: unknown }) => Effect.sleep(Number(sleep ?? 1_000))

describe("Wave", () => {
  describe("odd waves", () => {
    it.effect("answers no calls with no outcomes", () =>
      run(
        { t: () => Effect.void },
        {},
        ({ process }) =>
          Effect.map(
            process.executeWave([]),
            (wave) =>
              assert.deepStrictEqual(wave, {
                outcomes: [],
                needsContinuation: false,
                shouldExit: false,
                toolMessages: []
              })
          )
      ))

    it.effect(
      "answers each of several calls with one id",
      () =>
        run({ t: ({ n }) => Effect.succeed(n) }, {}, ({ process }) =>
          Effect.gen(function*() {
            const wave = yield* process.executeWave([
              call("x", "t", { n: 1 }),
              call("x", "t", { n: 2 }),
              call("x", "no")
            ])
            assert.deepStrictEqual(wave.outcomes.map((it) => [it.callId, it.index]), [["x", 0], ["x", 1], ["x", 2]])
            assert.deepStrictEqual(wave.outcomes.map(value), [1, 2, undefined])
          })),
      { tags: ["A1"] }
    )

    it.effect("takes megabytes of arguments", () =>
      run(
        { t: ({ text }) => Effect.succeed(String(text).length) },
        {},
        ({ process }) =>
          Effect.map(
            process.executeWave(calls(["t", { text: "x".repeat(5_000_000) }])),
            (wave) => assert.deepStrictEqual(wave.outcomes.map(value), [5_000_000])
          )
      ))

    for (const dedupe of [{}, false] as const) {
      it.effect(
        `refuses arguments nested too deeply alone, dedupe ${dedupe === false ? "off" : "on"}`,
        () =>
          run({ t: () => Effect.succeed(1) }, { dedupe }, ({ process }) =>
            Effect.gen(function*() {
              const nested = (levels: number) => {
                let value: unknown = 1
                for (let i = 0; i < levels; i++) value = { a: value }
                return value
              }
              const wave = yield* process.executeWave([
                ...calls(["t", nested(100_000)], ["t", nested(257)], ["t", { b: 1 }], ["t", nested(256)]),
                ToolCall.fromText("text", "t", "[".repeat(257) + "]".repeat(257))
              ])
              assert.deepStrictEqual(
                wave.outcomes.map(tag),
                ["InvalidParameters", "InvalidParameters", "Succeeded", "Succeeded", "InvalidParameters"]
              )
              for (const index of [0, 1, 4]) {
                assert.include(wave.toolMessages[index]!.text, "nested more than 256 levels deep")
                assert.isBelow(wave.toolMessages[index]!.text.length, 2_000)
              }
            })),
        { tags: ["A7"] }
      )
    }

    it.effect("passes keys such as __proto__ on to the handler", () =>
      run({ t: (params) => Effect.succeed(Object.keys(params).join()) }, {}, ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave([
            ToolCall.fromText("1", "t", `{"__proto__": {"x": 1}, "constructor": 1}`),
            ToolCall.fromText("2", "t", `{"__proto__": {"x": 1}, "constructor": 1, "request_heartbeat": true}`),
            ToolCall.fromText("3", "t", `{"__proto__": {"x": 2}, "constructor": 1}`)
          ])
          assert.deepStrictEqual(wave.outcomes.map((it) => value(it) ?? tag(it)), [
            "__proto__,constructor",
            "DuplicateCall",
            "__proto__,constructor"
          ])
        })))

    it.effect("knows no tool by the name of a member of every object", () =>
      run({ t: () => Effect.void }, { tools: { t: {} } }, ({ process }) =>
        Effect.map(
          process.executeWave(calls("constructor", "__proto__", "toString", "hasOwnProperty", "")),
          (wave) => assert.deepStrictEqual(new Set(tags(wave)), new Set(["ToolNotFound"]))
        )))

    it.effect("runs tools by such names like any other", () =>
      run(
        { constructor: () => Effect.succeed(1), toString: () => Effect.succeed(2) },
        {},
        ({ process }) =>
          Effect.map(
            process.executeWave(calls("constructor", "toString")),
            (wave) => assert.deepStrictEqual(wave.outcomes.map(value), [1, 2])
          )
      ))

    it.effect("names only tools the policy shows in what it offers instead", () =>
      run(
        { a: () => Effect.void, b: () => Effect.void },
        { policy: { default: "allow", deny: ["b"] } },
        ({ process }) =>
          Effect.map(process.executeWave(calls("nope", "b")), (wave) => {
            assert.deepInclude(wave.outcomes[0], { reason: { _tag: "ToolNotFound", available: ["a"] } })
            assert.strictEqual(tag(wave.outcomes[1]!), "PolicyDenied")
          })
      ), { tags: ["G9"] })

    it.effect(
      "refuses malformed arguments and never runs them as {}",
      () =>
        run({ t: () => Effect.succeed("ran") }, {}, ({ process }) =>
          Effect.map(
            process.executeWave([
              ToolCall.fromText("1", "t", "nothing"),
              ToolCall.fromText("2", "t", "{"),
              call("3", "t", null)
            ]),
            (wave) => assert.deepStrictEqual(new Set(tags(wave)), new Set(["InvalidParameters"]))
          )),
      { tags: ["A7"] }
    )

    it.effect("takes an empty text for {} where the tool requires nothing, and refuses it where it does", () => {
      const seen: Array<unknown> = []
      const handler = (params: unknown) => Effect.sync(() => void seen.push(params))
      const tool = (name: string, parameters: Schema.Top) => ({
        handler,
        tool: Tool.make(name, { parameters }).annotate(Tool.Readonly, true)
      })
      return run(
        {
          free: tool("free", Schema.Struct({ n: Schema.optionalKey(Schema.Finite) })),
          strict: tool("strict", Schema.Struct({ n: Schema.Finite })),
          raw: {
            handler,
            tool: Tool.dynamic("raw", { parameters: { type: "object", required: ["n"] } }).annotate(Tool.Readonly, true)
          }
        },
        {},
        ({ process }) =>
          Effect.map(
            process.executeWave(
              ["free", "strict", "raw"].flatMap((name) =>
                ["", " \n"].map((text, n) => ToolCall.fromText(`${name}${n}`, name, text))
              )
            ),
            (wave) => {
              const no = "InvalidParameters"
              assert.deepStrictEqual(tags(wave), ["Succeeded", "DuplicateCall", no, no, no, no])
              assert.deepStrictEqual(seen, [{}])
            }
          )
      )
    }, { tags: ["A7"] })
  })

  describe("order", () => {
    it.effect("shows a read behind a write what was written", () => {
      let state = 0
      return run(
        {
          read: () => Effect.delay(Effect.sync(() => state), 5),
          write: { class: "SerialMut", handler: () => Effect.delay(Effect.sync(() => ++state), 50) }
        },
        {},
        ({ process }) =>
          Effect.map(
            process.executeWave(calls(["read", {}], "write", ["read", {}])),
            (wave) => assert.deepStrictEqual(wave.outcomes.map(value), [0, 1, 1])
          )
      )
    }, { tags: ["C1"] })

    it.effect("runs SerialMut calls one by one in input order", () => {
      const log: Array<string> = []
      return run(
        {
          w: {
            class: "SerialMut",
            handler: ({ n }) =>
              Effect.gen(function*() {
                log.push(`+${n}`)
                yield* Effect.sleep(100 - Number(n) * 20)
                log.push(`-${n}`)
              })
          }
        },
        {},
        ({ process }) =>
          Effect.map(
            process.executeWave(calls("w", "w", "w")),
            () => assert.deepStrictEqual(log, ["+1", "-1", "+2", "-2", "+3", "-3"])
          )
      )
    })

    it.effect("ends a stopped wave at the first refusal in input order", () =>
      run({ t: sleeper }, { onExecutionError: "stop" }, ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave(calls(["t", { sleep: 10 }], "nope", ["t", { sleep: 20 }], "nope"))
          assert.deepStrictEqual(tags(wave), ["Succeeded", "ToolNotFound", "Skipped", "Skipped"])
        })))

    it.effect("does not stop a wave at a failure or cancellation", () =>
      run(
        { f: () => Effect.fail("no"), t: sleeper },
        { onExecutionError: "stop", mode: "sequential" },
        ({ process }) =>
          Effect.gen(function*() {
            yield* Effect.forkChild(Effect.delay(process.cancelCall("2"), 10))
            const wave = yield* process.executeWave(calls("f", ["t", { sleep: 100 }], ["t", { sleep: 20 }]))
            assert.deepStrictEqual(tags(wave), ["Failed", "Cancelled", "Succeeded"])
          })
      ))

    it.effect("lets running calls finish when a wave stops", () =>
      run(
        { t: sleeper, slow: () => Effect.never },
        { onExecutionError: "stop", pools: { read: 2 }, tools: { slow: { timeout: 50 } } },
        ({ process }) =>
          Effect.map(
            process.executeWave(calls("slow", ["t", { sleep: 200 }], ["t", { sleep: 30 }])),
            (wave) => assert.deepStrictEqual(tags(wave), ["TimedOut", "Succeeded", "Skipped"])
          )
      ))

    it.effect("skips a call behind the stop whose leader never started", () =>
      run(
        { t: sleeper, slow: () => Effect.never },
        {
          onExecutionError: "stop",
          pools: { read: 1 },
          dedupe: { inFlight: "join" },
          tools: { slow: { timeout: 50 } }
        },
        ({ process }) =>
          Effect.map(
            process.executeWave(calls("slow", ["t", { n: 1 }], ["t", { n: 1 }])),
            (wave) => assert.deepStrictEqual(tags(wave), ["TimedOut", "Skipped", "Skipped"])
          )
      ))
  })

  describe("non-retryable ends", () => {
    it.effect("block the tool for the rest of the process, not of the batch", () =>
      run(
        {
          t: {
            handler: () => Effect.fail("never again"),
            annotate: (tool) => tool.annotate(ToolAnnotations.IsRetryable, () => false)
          },
          s: () => Effect.never
        },
        { tools: { s: { timeout: 10, retryOnTimeout: false } } },
        ({ batch, process }) =>
          Effect.gen(function*() {
            assert.deepStrictEqual(tags(yield* process.executeWave(calls("t", "s"))), ["Failed", "TimedOut"])
            assert.deepStrictEqual(
              tags(yield* process.executeWave(calls("t", "s", "s"))),
              Array(3).fill("ToolBlocked")
            )
            assert.deepStrictEqual(tags(yield* (yield* batch.process()).executeWave(calls("t", "s"))), [
              "Failed",
              "TimedOut"
            ])
          })
      ), { tags: ["T8"] })

    it.effect("block calls of the same wave that have not started", () =>
      run(
        {
          t: {
            class: "SerialMut",
            handler: () => Effect.fail("never again"),
            annotate: (tool) => tool.annotate(ToolAnnotations.IsRetryable, () => false)
          }
        },
        { mode: "parallel" },
        ({ process }) =>
          Effect.map(process.executeWave(calls("t", "t")), (wave) =>
            assert.deepStrictEqual(tags(wave), ["Failed", "ToolBlocked"]))
      ))
  })

  describe("cancellation", () => {
    it.effect("of a waiting call leaves its siblings alone", () =>
      run({ t: sleeper }, { pools: { read: 1 } }, (env) =>
        Effect.gen(function*() {
          yield* Effect.forkChild(Effect.delay(env.process.cancelCall("2", "not needed"), 10))
          const wave = yield* env.process.executeWave(calls("t", "t", "t"))
          assert.deepStrictEqual(tags(wave), ["Succeeded", "Cancelled", "Succeeded"])
          assert.deepInclude(wave.outcomes[1], { started: false, reason: "not needed", attempt: 0 })
          assert.strictEqual(yield* VirtualTime.now, 2_000)
          yield* fullWidth(env, "t", 1)
        })))

    it.effect("of a running call leaves its siblings alone", () =>
      run({ t: sleeper }, {}, ({ process }) =>
        Effect.gen(function*() {
          yield* Effect.forkChild(Effect.delay(process.cancelCall("2"), 10))
          const wave = yield* process.executeWave(calls("t", "t", "t"))
          assert.deepStrictEqual(tags(wave), ["Succeeded", "Cancelled", "Succeeded"])
          assert.deepInclude(wave.outcomes[1], { started: true, duration: 10 })
        })))

    it.effect("of a call whose run has not come leaves its siblings alone", () =>
      run({ w: { class: "SerialMut", handler: sleeper } }, {}, ({ process }) =>
        Effect.gen(function*() {
          yield* Effect.forkChild(Effect.delay(process.cancelCall("2"), 10))
          const wave = yield* process.executeWave(calls("w", "w", "w"))
          assert.deepStrictEqual(tags(wave), ["Succeeded", "Cancelled", "Succeeded"])
          assert.deepInclude(wave.outcomes[1], { started: false })
        })))

    it.effect("of a finished call changes nothing", () =>
      run({ t: sleeper }, {}, ({ process }) =>
        Effect.gen(function*() {
          yield* Effect.forkChild(Effect.delay(process.cancelCall("1"), 100))
          const wave = yield* process.executeWave(calls(["t", { sleep: 10 }], ["t", { sleep: 200 }]))
          assert.deepStrictEqual(tags(wave), ["Succeeded", "Succeeded"])
          yield* process.cancelCall("1")
          yield* process.cancelCall("no such id")
          assert.deepStrictEqual(tags(yield* process.executeWave(calls(["t", { sleep: 11 }]))), ["Succeeded"])
        })))

    it.effect(
      "of an id takes all calls of that id",
      () =>
        run({ t: sleeper }, {}, ({ process }) =>
          Effect.gen(function*() {
            yield* Effect.forkChild(Effect.delay(process.cancelCall("x"), 10))
            const wave = yield* process.executeWave([
              call("x", "t", { n: 1 }),
              call("y", "t"),
              call("x", "t", { n: 2 })
            ])
            assert.deepStrictEqual(tags(wave), ["Cancelled", "Succeeded", "Cancelled"])
          })),
      { tags: ["X4"] }
    )

    it.effect("of an id starts none of its calls that wait", () => {
      let started = 0
      return run(
        { t: () => Effect.andThen(Effect.sync(() => started++), Effect.sleep(1_000)) },
        { pools: { read: 1 } },
        ({ process }) =>
          Effect.gen(function*() {
            yield* Effect.forkChild(Effect.delay(process.cancelCall("x"), 10))
            const wave = yield* process.executeWave([call("x", "t", { n: 1 }), call("x", "t", { n: 2 })])
            assert.deepStrictEqual(wave.outcomes.map((it) => it._tag === "Cancelled" && it.started), [true, false])
            assert.strictEqual(started, 1)
          })
      )
    })

    it.effect("of the process is sticky and still answers every call", () =>
      run(
        { t: sleeper, w: { class: "SerialMut", handler: sleeper } },
        {},
        ({ batch, process }) =>
          Effect.gen(function*() {
            yield* Effect.forkChild(Effect.delay(process.cancel("enough"), 10))
            const wave = yield* process.executeWave(calls("t", "w", "nope", "t"))
            assert.deepStrictEqual(tags(wave), ["Cancelled", "Cancelled", "ToolNotFound", "Cancelled"])
            assert.deepStrictEqual(tags(yield* process.executeWave(calls("t", "nope"))), ["Cancelled", "Cancelled"])
            assert.deepStrictEqual(tags(yield* (yield* batch.process()).executeWave(calls("t"))), ["Succeeded"])
          })
      ), { tags: ["X3"] })

    it.effect(
      "of the batch by its scope ends what runs",
      () =>
        run({ t: sleeper }, {}, ({ executor }) =>
          Effect.gen(function*() {
            const fiber = yield* Effect.scoped(Effect.gen(function*() {
              const process = yield* executor.process({ batch: "b" })
              const fiber = yield* Effect.forkDetach(process.executeWave(calls("t")), { startImmediately: true })
              yield* Effect.sleep(10)
              return fiber
            }))
            assert.deepStrictEqual(tags(yield* Fiber.join(fiber)), ["Cancelled"])
            assert.strictEqual(yield* VirtualTime.now, 10)
          })),
      { tags: ["X5"] }
    )

    it.effect("of the process ends a wave whose arguments are being decoded", () =>
      run({ t: { handler: sleeper, tool: hangingDecode } }, {}, ({ process }) =>
        Effect.gen(function*() {
          yield* Effect.forkChild(Effect.delay(process.cancel("enough"), 10))
          assert.deepStrictEqual(tags(yield* process.executeWave(calls(["t", { at: "x" }]))), ["Cancelled"])
        })))

    it.effect("of the process ends a wave whose resource keys are being found", () =>
      run(
        { t: { class: "ConcurrentMut", handler: sleeper, annotate: hangingResources } },
        {},
        ({ process }) =>
          Effect.gen(function*() {
            yield* Effect.forkChild(Effect.delay(process.cancel("enough"), 10))
            assert.deepStrictEqual(tags(yield* process.executeWave(calls("t"))), ["Cancelled"])
          })
      ))

    it.effect("of the process ends a wave whose guards are being asked", () =>
      run(
        { t: sleeper },
        { guards: [{ name: "slow", check: () => Effect.never }], guardTimeout: 5_000 },
        ({ process }) =>
          Effect.gen(function*() {
            yield* Effect.forkChild(Effect.delay(process.cancel("enough"), 10))
            assert.deepStrictEqual(tags(yield* process.executeWave(calls("t"))), ["Cancelled"])
            assert.isAtMost(yield* VirtualTime.now, 5_000)
          })
      ))
  })

  describe("interruption of the caller", () => {
    const rules = [{ _tag: "MaxCalls" as const, tool: "*", max: 5 }]
    const at = (
      name: string,
      tools: Parameters<typeof run>[0],
      options: Parameters<typeof run>[1],
      wave: ReadonlyArray<ToolCall.ToolCall>,
      spent = 0
    ) =>
      it.effect(name, () => {
        const counts = new Map<string, number>()
        const store = recording(counts)
        return run(tools, { ...options, store, rules }, (env) =>
          Effect.gen(function*() {
            const fiber = yield* Effect.forkChild(env.process.executeWave(wave))
            yield* Effect.sleep(10)
            assert.isUndefined(fiber.pollUnsafe())
            yield* Fiber.interrupt(fiber)
            yield* Effect.sleep("1 minute")
            assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(fiber)))
            assert.deepStrictEqual(Array.from(counts.values()).filter((it) => it !== 1), [], "each settled once")
            // what was not spent can be had again, under the same keys
            const left = yield* env.process.executeWave(
              Array.from({ length: 6 }, (_, n) => call(`again${n}`, "probe", { n, sleep: 1 }))
            )
            assert.strictEqual(tags(left).filter((it) => it === "Succeeded").length, 5 - spent)
          }))
      })
    const probe = sleeper
    at("before Arrival is over", { t: { handler: sleeper, tool: hangingDecode }, probe }, {}, calls(["t", { at: "x" }]))
    at(
      "while guards are asked",
      { t: sleeper, probe },
      { guards: [{ name: "slow", check: (it) => it.tool.name === "t" ? Effect.never : Effect.void }] },
      calls("t", "probe")
    )
    at(
      "while resource keys are found",
      { t: { class: "ConcurrentMut", handler: sleeper, annotate: hangingResources }, probe },
      {},
      calls("t")
    )
    at(
      "while calls wait for permits and run",
      { probe: () => Effect.sleep(100) },
      { pools: { read: 1 } },
      calls("probe", "probe"),
      1
    )
    at(
      "while a call commits",
      { t: () => Effect.flatMap(ToolContext.ToolContext, (it) => it.commit(Effect.sleep(1_000))), probe },
      {},
      calls("t")
    )
    at(
      "while an artifact is stored",
      { t: () => Effect.succeed("x".repeat(20_000)), probe },
      { artifacts: { put: () => Effect.never, read: () => Effect.never } },
      calls("t")
    )

    it.effect("starts no call that was waiting for a permit", () => {
      let started = 0
      return run(
        { t: () => Effect.andThen(Effect.sync(() => started++), Effect.sleep(1_000)) },
        { pools: { read: 1 } },
        ({ process }) =>
          Effect.gen(function*() {
            const fiber = yield* Effect.forkChild(process.executeWave(calls("t", "t", "t")))
            yield* Effect.sleep(10)
            yield* Fiber.interrupt(fiber)
            assert.strictEqual(started, 1)
          })
      )
    })

    it.effect("starts no call that was waiting for another one", () => {
      const started: Array<unknown> = []
      return run(
        {
          t: { class: "ConcurrentMut", handler: (params) => Effect.sync(() => started.push(params)) },
          hold: { class: "ConcurrentMut", handler: () => Effect.never }
        },
        { dedupe: { inFlight: "join" }, pools: { concurrent: 1 } },
        ({ batch, process }) =>
          Effect.gen(function*() {
            yield* Effect.forkChild((yield* batch.process()).executeWave(calls("hold")), { startImmediately: true })
            const fiber = yield* Effect.forkChild(process.executeWave(calls(["t", {}], ["t", {}])))
            yield* Effect.sleep(10)
            yield* Fiber.interrupt(fiber)
            yield* Effect.sleep(10)
            assert.deepStrictEqual(started, [])
          })
      )
    })

    it.effect("waits for the handlers' clean-up within the grace", () => {
      let cleaned = 0
      return run(
        { t: () => Effect.ensuring(Effect.never, Effect.andThen(Effect.sleep(1_000), Effect.sync(() => cleaned++))) },
        {},
        (env) =>
          Effect.gen(function*() {
            const fiber = yield* Effect.forkChild(env.process.executeWave(calls("t", "t")))
            yield* Effect.sleep(10)
            yield* Fiber.interrupt(fiber)
            assert.strictEqual(cleaned, 2)
            assert.strictEqual(yield* VirtualTime.now, 1_010)
          })
      )
    })

    it.effect("does not hang on a guard that is deaf", () =>
      run(
        { t: sleeper },
        { guards: [{ name: "deaf", check: () => Effect.uninterruptible(Effect.sleep("1 hour")) }] },
        ({ process }) =>
          Effect.gen(function*() {
            const fiber = yield* Effect.forkChild(process.executeWave(calls("t")))
            yield* Effect.sleep(10)
            yield* Fiber.interrupt(fiber)
            assert.isAtMost(yield* VirtualTime.now, 60_000)
          })
      ))
  })

  describe("re-entry", () => {
    const nested = (name: string, params: unknown = {}) =>
      Effect.gen(function*() {
        const { executor } = yield* ToolContext.ToolContext
        const process = yield* executor!.process()
        return tag(yield* process.execute(call("inner", name, params)))
      }).pipe(Effect.scoped)

    it.effect("works where the pool has room", () =>
      run(
        { outer: () => nested("inner"), inner: () => Effect.succeed(1) },
        { pools: { read: 2 } },
        ({ process }) =>
          Effect.map(
            process.executeWave(calls("outer")),
            (wave) => assert.deepStrictEqual(wave.outcomes.map(value), ["Succeeded"])
          )
      ))

    it.effect("works where another call of the pool will make room", () =>
      run(
        { outer: () => nested("inner"), inner: () => Effect.succeed(1), other: sleeper },
        { pools: { read: 2 } },
        ({ process }) =>
          Effect.map(process.executeWave(calls("other", "outer")), (wave) =>
            assert.deepStrictEqual(
              wave.outcomes.map(value),
              [undefined, "Succeeded"].map((it, i) => i === 0 ? wave.outcomes.map(value)[0] : it)
            ))
      ))

    it.effect("is refused immediately where the caller holds what it needs", () =>
      run(
        { outer: () => nested("inner"), inner: () => Effect.succeed(1) },
        { pools: { read: 1 } },
        ({ process }) =>
          Effect.gen(function*() {
            const wave = yield* process.executeWave(calls("outer"))
            assert.deepStrictEqual(wave.outcomes.map(value), ["ReentryRefused"])
            assert.strictEqual(yield* VirtualTime.now, 0)
          })
      ), { tags: ["C7"] })

    it.effect("is refused at once to two handlers that fill the pool", () =>
      run(
        { outer: ({ n }) => Effect.andThen(Effect.sleep(5), nested("inner", { n })), inner: () => Effect.succeed(1) },
        { pools: { read: 2 } },
        ({ process }) =>
          Effect.gen(function*() {
            const wave = yield* process.executeWave(calls("outer", "outer"))
            assert.include(wave.outcomes.map(value), "ReentryRefused")
            assert.strictEqual(yield* VirtualTime.now, 5)
          })
      ))

    it.effect("is refused to a call of a tool with a cap of one by itself", () =>
      run(
        { t: mut(({ depth }) => depth === 1 ? Effect.succeed("deep") : nested("t", { depth: 1 })) },
        { tools: { t: { maxConcurrent: 1 } } },
        ({ process }) =>
          Effect.map(process.executeWave(calls("t")), (wave) =>
            assert.deepStrictEqual(wave.outcomes.map(value), ["ReentryRefused"]))
      ))

    it.effect("is refused where two handlers wait for each other's resource", () => {
      const handler = ({ inner, key }: { readonly [key: string]: unknown }) =>
        inner === undefined ? Effect.succeed(key) : Effect.andThen(Effect.sleep(5), nested("t", { key: inner }))
      return run(
        { t: { ...mut(handler), annotate: resources(({ key }) => [String(key)]) } },
        {},
        ({ process }) =>
          Effect.gen(function*() {
            const wave = yield* process.executeWave(
              calls(["t", { key: "a", inner: "b" }], ["t", { key: "b", inner: "a" }])
            )
            assert.deepStrictEqual(tags(wave), ["Succeeded", "Succeeded"])
            assert.deepStrictEqual(wave.outcomes.map(value).sort(), ["ReentryRefused", "Succeeded"])
            assert.strictEqual(yield* VirtualTime.now, 5)
          })
      )
    })

    it.effect("is refused to a call that joins its own caller", () =>
      run(
        { t: () => nested("t", { n: 1 }) },
        { dedupe: { inFlight: "join" } },
        ({ process }) =>
          Effect.gen(function*() {
            const wave = yield* process.executeWave(calls("t"))
            assert.deepStrictEqual(wave.outcomes.map(value), ["ReentryRefused"])
            assert.strictEqual(yield* VirtualTime.now, 0)
          })
      ))

    it.effect("is refused to handlers that join each other", () =>
      run(
        { t: ({ other }) => Effect.andThen(Effect.sleep(5), nested("t", { other: other === "a" ? "b" : "a" })) },
        { dedupe: { inFlight: "join" } },
        ({ process }) =>
          Effect.gen(function*() {
            const wave = yield* process.executeWave(calls(["t", { other: "a" }], ["t", { other: "b" }]))
            assert.include(wave.outcomes.map(value), "ReentryRefused")
            assert.strictEqual(yield* VirtualTime.now, 5)
          })
      ))

    it.effect("is refused in a serial tool, and what it holds comes back", () =>
      run(
        {
          outer: { class: "SerialMut", handler: () => nested("inner") },
          inner: { class: "SerialMut", handler: sleeper }
        },
        {},
        (env) =>
          Effect.gen(function*() {
            const wave = yield* env.process.executeWave(calls("outer"))
            assert.deepStrictEqual(wave.outcomes.map(value), ["ReentryRefused"])
            yield* fullWidth(env, "inner", 1)
          })
      ))

    it.effect("of many handlers that nest at random never hangs", () =>
      run(
        {
          t: {
            ...mut(({ depth, n }) =>
              Number(depth) === 0
                ? Effect.sleep(Number(n) % 7)
                : Effect.andThen(
                  Effect.sleep(Number(n) % 5),
                  Effect.all([
                    nested("t", { depth: Number(depth) - 1, n: Number(n) * 3 }),
                    nested("t", { depth: Number(depth) - 1, n: Number(n) * 5 + 1 })
                  ], {
                    concurrency: "unbounded"
                  })
                )
            ),
            annotate: resources(({ n }) => Number(n) % 4 === 0 ? [] : [`k${Number(n) % 3}`])
          }
        },
        { pools: { concurrent: 3 }, executionTimeout: "1 hour" },
        ({ process }) =>
          Effect.gen(function*() {
            const wave = yield* process.executeWave(
              Array.from({ length: 12 }, (_, n) => call(String(n), "t", { depth: 3, n }))
            )
            assert.deepStrictEqual(new Set(tags(wave)), new Set(["Succeeded"]))
            assert.isBelow(yield* VirtualTime.now, 10_000)
          })
      ), { tags: ["C7"] })
  })

  describe("two sessions over one set of pools", () => {
    it.effect("share the caps but neither keys nor results", () =>
      VirtualTime.run(Effect.scoped(Effect.gen(function*() {
        let running = 0
        let most = 0
        const tools = {
          t: () =>
            Effect.gen(function*() {
              most = Math.max(most, ++running)
              yield* Effect.sleep(100)
              running--
              return running
            })
        }
        const pools = Layer.succeed(Pools.Pools, yield* Effect.orDie(Pools.make({ read: 2 })))
        const store = StateStore.makeMemory()
        const one = yield* open(tools, { pools, store, principal: "one", dedupe: { onDuplicate: "replay" } })
        const two = yield* open(tools, { pools, store, principal: "two", dedupe: { onDuplicate: "replay" } })
        const waves = yield* Effect.all([
          one.process.executeWave(calls("t", "t", "t")),
          two.process.executeWave(calls("t", "t", "t"))
        ], { concurrency: "unbounded" })
        assert.deepStrictEqual(waves.map(tags), [Array(3).fill("Succeeded"), Array(3).fill("Succeeded")])
        assert.isTrue(waves.flatMap((it) => it.outcomes).every((it) => it.startedAt !== undefined))
        assert.strictEqual(most, 2)
        assert.strictEqual(yield* VirtualTime.now, 300)
      }))))
  })

  describe("the turn", () => {
    it.effect("ends the wait for a permit", () =>
      run({ t: sleeper }, { pools: { read: 1 }, turn: { timeout: 500 } }, ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave(calls("t", "t"))
          assert.deepStrictEqual(tags(wave), ["Succeeded", "DeadlineExceeded"])
          assert.deepInclude(wave.outcomes[0], { duration: 1_000 })
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("t", "nope"))), [
            "DeadlineExceeded",
            "DeadlineExceeded"
          ])
        })))

    it.effect("ends the wait of a call that joined another one", () =>
      run(
        { t: sleeper },
        { pools: { read: 1 }, turn: { timeout: 500 }, dedupe: { inFlight: "join" } },
        ({ process }) =>
          Effect.map(process.executeWave(calls(["t", {}], ["t", {}])), (wave) =>
            assert.deepStrictEqual(tags(wave), ["Succeeded", "DeadlineExceeded"]))
      ))

    it.effect("ends the wait for a permit of a run that begins after the deadline was set", () =>
      VirtualTime.run(Effect.scoped(Effect.gen(function*() {
        const pools = Layer.succeed(Pools.Pools, yield* Effect.orDie(Pools.make({ concurrent: 1 })))
        const tools = {
          r: sleeper,
          w: {
            class: "ConcurrentMut" as const,
            handler: sleeper,
            annotate: (tool: Tool.Any) =>
              tool.annotate(
                ToolAnnotations.Resources,
                (params) => Effect.as(Effect.sleep((params as { slow?: boolean }).slow === true ? 500 : 0), [])
              )
          }
        }
        const other = yield* open(tools, { pools })
        const { process } = yield* open(tools, { pools, turn: { timeout: 300 } })
        yield* Effect.forkChild(other.process.executeWave(calls(["w", { sleep: 10_000 }])))
        yield* Effect.sleep(1)
        const wave = yield* process.executeWave(calls(["r", { sleep: 100 }], ["w", { slow: true }]))
        assert.deepStrictEqual(tags(wave), ["Succeeded", "DeadlineExceeded"])
        assert.isAtMost(yield* VirtualTime.now, 601)
      }))))

    it.effect("gives at least its slice, and names the turn", () =>
      run(
        { t: () => Effect.never },
        { turn: { timeout: 1_000, minimumSlice: 300 } },
        ({ process }) =>
          Effect.gen(function*() {
            yield* Effect.sleep(900)
            const wave = yield* process.executeWave(calls("t"))
            assert.deepInclude(wave.outcomes[0], { _tag: "TimedOut", which: "turn", limitMillis: 300 })
          })
      ))

    it.effect("gives no slice where there is to be none", () =>
      run(
        { t: () => Effect.never },
        { turn: { timeout: 1_000, minimumSlice: 0 } },
        ({ process }) =>
          Effect.gen(function*() {
            yield* Effect.sleep(900)
            const wave = yield* process.executeWave(calls("t"))
            assert.deepInclude(wave.outcomes[0], { _tag: "TimedOut", which: "turn", limitMillis: 100 })
          })
      ))

    it.effect("is named when it equals the tool's limit", () =>
      run(
        { t: () => Effect.never },
        { turn: { timeout: 1_000, minimumSlice: 1 }, tools: { t: { timeout: 1_000 } } },
        ({ process }) =>
          Effect.map(
            process.executeWave(calls("t")),
            (wave) => assert.deepInclude(wave.outcomes[0], { which: "turn", limitMillis: 1_000 })
          )
      ))

    it.effect("counts calls that start, not unknown, malformed or cancelled ones", () =>
      run({ t: sleeper }, { turn: { maxCalls: 2 }, pools: { read: 1 } }, ({ process }) =>
        Effect.gen(function*() {
          yield* Effect.forkChild(Effect.delay(process.cancelCall("waits"), 10))
          const wave = yield* process.executeWave([
            call("1", "nope"),
            ToolCall.fromText("2", "t", "{"),
            call("3", "t", { n: 1 }),
            call("waits", "t", { n: 2 })
          ])
          assert.deepStrictEqual(tags(wave), ["ToolNotFound", "InvalidParameters", "Succeeded", "Cancelled"])
          const next = yield* process.executeWave([call("5", "t", { n: 3 }), call("6", "t", { n: 4 })])
          assert.deepStrictEqual(tags(next), ["Succeeded", "CallBudgetExhausted"])
        })))

    it.effect("is the process's own", () =>
      run({ t: () => Effect.void }, { turn: { maxCalls: 1 } }, ({ batch, process }) =>
        Effect.gen(function*() {
          assert.deepStrictEqual(tags(yield* process.executeWave(calls("t", "t"))), [
            "Succeeded",
            "CallBudgetExhausted"
          ])
          const free = yield* batch.process({ turn: {} })
          assert.deepStrictEqual(tags(yield* free.executeWave(calls(["t", { a: 1 }], ["t", { a: 2 }]))), [
            "Succeeded",
            "Succeeded"
          ])
        })))
  })

  describe("caps", () => {
    it.effect("hold for thousands of calls that end at once", () =>
      run(
        { t: () => Effect.void },
        { pools: { read: 1 }, dedupe: false },
        ({ process }) =>
          Effect.map(
            process.executeWave(Array.from({ length: 5_000 }, (_, n) => call(String(n), "t"))),
            (wave) => assert.isTrue(wave.outcomes.every((it) => it._tag === "Succeeded"))
          )
      ))

    it.effect("let writers of two keys in opposite order through", () =>
      run(
        { t: { ...mut(sleeper), annotate: resources(({ keys }) => keys as ReadonlyArray<string>) } },
        {},
        ({ process }) =>
          Effect.gen(function*() {
            const wave = yield* process.executeWave(
              calls(["t", { keys: ["a", "b"] }], ["t", { keys: ["b", "a"] }], ["t", { keys: ["c", "c"] }])
            )
            assert.deepStrictEqual(new Set(tags(wave)), new Set(["Succeeded"]))
            assert.strictEqual(yield* VirtualTime.now, 2_000)
          })
      ))
  })

  it.effect("wakes a caller that waits on what a call did", () => {
    const done = Deferred.makeUnsafe<number>()
    return run({ t: () => Deferred.succeed(done, 1) }, {}, ({ process }) =>
      Effect.gen(function*() {
        yield* Effect.forkChild(process.executeWave(calls("t")))
        assert.strictEqual(yield* Deferred.await(done), 1)
      }))
  })
})

// Utilities

const hangingDecode = Tool.make("t", {
  parameters: Schema.Struct({
    at: Schema.String.pipe(Schema.decodeTo(Schema.String, {
      decode: SchemaGetter.transformEffect(() => Effect.never),
      encode: SchemaGetter.transform((it: string) => it)
    }))
  }),
  success: Schema.Unknown
}).annotate(Tool.Readonly, true)

const hangingResources = (tool: Tool.Any) => tool.annotate(ToolAnnotations.Resources, () => Effect.never)

/** A store in memory that counts how often each reservation is settled. */
const recording = (counts: Map<string, number>): StateStore.StateStore["Service"] => {
  const memory = StateStore.makeMemory()
  return {
    ...memory,
    reserve: (requests, now) => {
      const answer = Effect.runSync(memory.reserve(requests, now))
      for (const it of answer) if (!("_tag" in it)) counts.set(it.id, 0)
      return Effect.succeed(answer)
    },
    settle: (reservation, settlement, now) => {
      counts.set(reservation.id, (counts.get(reservation.id) ?? 0) + 1)
      return memory.settle(reservation, settlement, now)
    }
  }
}
