import { assert, describe, expectTypeOf, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as TurnBudget from "../../../src/core/gates/TurnBudget.ts"
import * as StateStore from "../../../src/core/store/StateStore.ts"
import {
  ConfigurationError,
  Dedupe,
  Permissions,
  ToolCall,
  ToolContext,
  type ToolEvent,
  ToolOutcome
} from "../../../src/index.ts"
import { call, calls, type Options, run, tag, tags, value } from "../../support/Harness.ts"

class NotThere extends Schema.TaggedError<NotThere>("test/NotThere")("NotThere", { path: Schema.String }) {}

const Size = Tool.make("size", {
  parameters: Schema.Struct({ path: Schema.String, since: Schema.DateFromString }),
  success: Schema.Struct({ bytes: Schema.Finite, at: Schema.DateFromString }),
  failure: NotThere
}).annotate(Tool.Readonly, true)

const size = {
  tool: Size,
  handler: ({ path, since }: { readonly [key: string]: unknown }) =>
    path === "gone"
      ? Effect.fail(new NotThere({ path }))
      : path === "dies"
      ? Effect.die("boom")
      : path === "slow"
      ? Effect.never
      : Effect.succeed({ bytes: String(path).length, at: since })
}

describe("ToolProcess.call", () => {
  it.effect("is typed in and out", () =>
    run({ size }, {}, ({ process }) =>
      Effect.gen(function*() {
        const effect = process.call(Size, { path: "abc", since: new Date(5) })
        const result = yield* effect
        expectTypeOf(result).toEqualTypeOf<{ readonly bytes: number; readonly at: Date }>()
        expectTypeOf<Effect.Error<typeof effect>>().toEqualTypeOf<
          NotThere | ToolOutcome.ToolExecutionError | Schema.SchemaError
        >()
        assert.deepStrictEqual(result, { bytes: 3, at: new Date(5) })
      })), { tags: ["O6"] })

  it.effect("fails with the tool's own failure", () =>
    run(
      { size },
      {},
      ({ process }) =>
        Effect.map(Effect.flip(process.call(Size, { path: "gone", since: new Date(0) })), (error) => {
          assert.instanceOf(error, NotThere)
          assert.propertyVal(error, "path", "gone")
        })
    ))

  it.effect("fails with ToolExecutionError when the tool did not come to its own end", () =>
    run(
      { size },
      { tools: { size: { timeout: "1 second" } }, rules: [{ _tag: "MaxCalls", tool: "size", max: 2 }] },
      ({ process }) =>
        Effect.gen(function*() {
          for (const [path, reason] of [["dies", "Failed"], ["slow", "TimedOut"], ["more", "RuleViolation"]] as const) {
            const error = yield* Effect.flip(process.call(Size, { path, since: new Date(0) }))
            assert.instanceOf(error, ToolOutcome.ToolExecutionError)
            if (error instanceof ToolOutcome.ToolExecutionError) assert.strictEqual(error.reason._tag, reason)
          }
        })
    ))

  it.effect("gives whole outputs, however large", () => {
    const Big = Tool.make("big", { success: Schema.String }).annotate(Tool.Readonly, true)
    return run(
      { big: { tool: Big, handler: () => Effect.succeed("x".repeat(100_000)) } },
      {},
      ({ process }) => Effect.map(process.call(Big, {}), (it) => assert.strictEqual(it.length, 100_000))
    )
  })

  it.effect("does not use up what the model may read", () => {
    const Big = Tool.make("big", { success: Schema.String }).annotate(Tool.Readonly, true)
    return run(
      {
        big: { tool: Big, handler: () => Effect.succeed("x".repeat(5_000)) },
        t: () => Effect.succeed("y".repeat(900))
      },
      { output: { batchChars: 2_000 }, artifacts: false },
      ({ process }) =>
        Effect.gen(function*() {
          yield* process.call(Big, {})
          const wave = yield* process.executeWave(calls("t"))
          assert.strictEqual(wave.toolMessages[0]!.text.length, 900)
        })
    )
  })

  it.effect("passes the same gates", () =>
    run(
      { size },
      { policy: { deny: ["size"] } },
      ({ process }) =>
        Effect.map(Effect.flip(process.call(Size, { path: "a", since: new Date(0) })), (error) => {
          if (error instanceof ToolOutcome.ToolExecutionError) assert.strictEqual(error.reason._tag, "PolicyDenied")
          else assert.fail("expected ToolExecutionError")
        })
    ), { tags: ["O6"] })
})

describe("typed calls", () => {
  const Count = Tool.make("count", { success: Schema.Finite }).annotate(Tool.Readonly, true)
  const typed = ToolCall.for(Toolkit.make(Size, Count))
  const tools = { size, count: { tool: Count, handler: () => Effect.succeed(7) } }

  it.effect("have outcomes whose outputs are of the types of their tools, each in its place", () =>
    run(tools, {}, ({ process }) =>
      Effect.gen(function*() {
        const { outcomes: [sized, counted, other] } = yield* process.executeWave([
          typed("1", "size", { path: "abc", since: new Date(5).toISOString() }),
          typed("2", "count"),
          call("3", "nothing")
        ])
        assert(sized._tag === "Succeeded" && sized.output._tag !== "Artifact")
        expectTypeOf(sized.output.value).toEqualTypeOf<{ readonly bytes: number; readonly at: string }>()
        assert.deepStrictEqual(sized.output.value, { bytes: 3, at: new Date(5).toISOString() })
        assert(counted._tag === "Succeeded" && counted.output._tag !== "Artifact")
        expectTypeOf(counted.output.value).toEqualTypeOf<number>()
        assert.strictEqual(counted.output.value, 7)
        expectTypeOf(other).toEqualTypeOf<ToolOutcome.ToolOutcome>()
        assert.strictEqual(tag(other), "ToolNotFound")
      })))

  it.effect("are typed one by one and in lists of any length, and what failed of them is not", () =>
    run(tools, {}, ({ process }) =>
      Effect.gen(function*() {
        const one = yield* process.execute(typed("1", "count", {}))
        expectTypeOf(one).toEqualTypeOf<
          ToolOutcome.SucceededWith<number> | Exclude<ToolOutcome.ToolOutcome, ToolOutcome.Succeeded>
        >()
        if (one._tag === "Failed") expectTypeOf(one.error).toEqualTypeOf<unknown>()
        const list = [typed("2", "count"), typed("3", "count")]
        const wave = yield* process.executeWave(list)
        expectTypeOf(wave.outcomes).toExtend<ReadonlyArray<ToolOutcome.For<ToolCall.Typed<typeof Count>>>>()
        expectTypeOf(wave).toExtend<ToolOutcome.WaveResult>()
        assert.deepStrictEqual(tags(wave), ["Succeeded", "DuplicateCall"])
        assert.strictEqual(one._tag, "Succeeded")
      })))

  it("are calls like any other, of tools that there are with parameters that they take", () => {
    assert.deepStrictEqual(typed("1", "count"), { id: "1", name: "count", params: {} })
    // @ts-expect-error there is no such tool
    assert.strictEqual(typed("1", "cuont").name, "cuont")
    // @ts-expect-error the parameters are encoded ones
    assert.strictEqual(typed("1", "size", { path: "a", since: new Date(0) }).name, "size")
    // @ts-expect-error it takes parameters
    assert.strictEqual(typed("1", "size").name, "size")
  })

  it("of no type have outcomes of any", () => {
    expectTypeOf<ToolOutcome.For<ToolCall.ToolCall>>().toEqualTypeOf<ToolOutcome.ToolOutcome>()
    expectTypeOf<ToolOutcome.WaveResult["outcomes"]>().toEqualTypeOf<ReadonlyArray<ToolOutcome.ToolOutcome>>()
  })
})

describe("ToolProcess", () => {
  it.effect("gives its metadata to handlers", () =>
    run(
      { t: () => Effect.map(ToolContext.ToolContext, (it) => it.meta["user"]) },
      {},
      ({ batch }) =>
        Effect.gen(function*() {
          const process = yield* batch.process({ meta: { user: "ada" } })
          assert.deepStrictEqual((yield* process.executeWave(calls("t"))).outcomes.map(value), ["ada"])
        })
    ), { tags: ["H2"] })

  it.effect("refuses a custom event type that is taken", () =>
    run(
      { t: () => Effect.flatMap(ToolContext.ToolContext, (it) => it.emit("call_start", {})) },
      {},
      ({ process }) =>
        Effect.map(process.executeWave(calls("t")), (wave) => assert.deepStrictEqual(tags(wave), ["Failed"]))
    ))

  for (const what of ["fails", "dies"] as const) {
    const broken = (operation: string) =>
      what === "fails"
        ? Effect.fail(new StateStore.StateStoreError({ operation, cause: "down" }))
        : Effect.die("down")

    it.effect(`answers every call though the store ${what} when asked to reserve`, () =>
      run(
        { t: () => Effect.void },
        { store: { ...StateStore.makeMemory(), reserve: () => broken("reserve") } },
        ({ process }) =>
          Effect.map(
            process.executeWave(calls("t")),
            (wave) => assert.deepStrictEqual(tags(wave), ["StoreUnavailable"])
          )
      ))

    it.effect(`answers every call though the store ${what} when asked to settle`, () =>
      run(
        { t: () => Effect.void },
        { store: { ...StateStore.makeMemory(), settle: () => broken("settle") } },
        ({ process }) =>
          Effect.map(process.executeWave(calls("t")), (wave) => assert.deepStrictEqual(tags(wave), ["Succeeded"]))
      ))
  }

  it.effect("answers every call of a store that takes its time", () => {
    const memory = StateStore.makeMemory()
    const later = <A, E>(answer: Effect.Effect<A, E>) => Effect.andThen(Effect.sleep(5), answer)
    return run(
      { t: () => Effect.sleep(10), w: { class: "SerialMut", handler: () => Effect.sleep(10) } },
      {
        store: {
          ...memory,
          reserve: (...args) => later(memory.reserve(...args)),
          settle: (...args) => later(memory.settle(...args)),
          mutated: (...args) => later(memory.mutated(...args))
        },
        dedupe: { inFlight: "join" },
        rules: [{ _tag: "MaxCalls", tool: "t", max: 3 }]
      },
      ({ process }) =>
        Effect.gen(function*() {
          const wave = yield* process.executeWave([
            call("1", "t", { a: 1 }),
            call("2", "t", { a: 1 }),
            call("3", "w"),
            call("4", "t", { a: 1 }),
            call("5", "t", { a: 2 }),
            call("6", "t", { a: 3 })
          ])
          assert.deepStrictEqual(wave.outcomes.map(tag), [
            "Succeeded",
            "Succeeded",
            "Succeeded",
            "Succeeded",
            "Succeeded",
            "RuleViolation"
          ])
        })
    )
  })
})

describe("options that are wrong", () => {
  const problems = <A, R>(effect: Effect.Effect<A, unknown, R>) =>
    Effect.map(Effect.flip(effect), (error) => {
      assert.instanceOf(error, ConfigurationError.ConfigurationError)
      const { problems, subject } = error as ConfigurationError.ConfigurationError
      return [subject, ...problems.map((it) => `${it.path}: ${it.problem}`)]
    })
  const rules: Options["rules"] = [{ _tag: "StartConstraint", tool: "size" }, { _tag: "RequiredBeforeExit", tool: "t" }]

  for (const [timeout, told] of [["soon", `it is "soon"`], [NaN, "it is NaN"], [-5, "it is -5"]] as const) {
    it.effect(`are reported where they are given, and nothing runs: timeout ${timeout}`, () => {
      let ran = 0
      const t = () => Effect.sync(() => void ran++)
      return run(
        { size: { ...size, handler: t }, t },
        { rules },
        ({ batch, executor, process }) =>
          Effect.gen(function*() {
            const options = { timeout: timeout as "1 second" }
            const of = (method: string) => [`ToolProcess.${method}`, `timeout: ${told}`]
            assert.deepStrictEqual(yield* problems(process.executeWave(calls("t"), options)), of("executeWave"))
            assert.deepStrictEqual(yield* problems(process.execute(call("1", "t"), options)), of("execute"))
            assert.deepStrictEqual(
              yield* problems(Stream.runCollect(process.stream(calls("t"), options))),
              of("stream")
            )
            assert.deepStrictEqual(
              yield* problems(process.call(Size, { path: "a", since: new Date(0) }, options)),
              of("call")
            )
            assert.deepStrictEqual(yield* problems(process.startConstraints({}, options)), of("startConstraints"))
            assert.deepStrictEqual(yield* problems(process.exitRequirements({}, options)), of("exitRequirements"))
            const turn = { turn: { timeout: options.timeout, maxCalls: 0 } }
            const ofTurn = ["ToolExecutor.process", `turn.timeout: ${told}`, "turn.maxCalls: it is 0"]
            assert.deepStrictEqual(yield* problems(batch.process(turn)), ofTurn)
            assert.deepStrictEqual(yield* problems(executor.process(turn)), ofTurn)
            assert.strictEqual(ran, 0)
          })
      )
    }, { tags: ["Y2"] })
  }

  it.effect("are all told at once", () =>
    run({ size, t: () => Effect.void }, { rules }, ({ process }) =>
      Effect.gen(function*() {
        assert.deepStrictEqual(
          yield* problems(process.startConstraints({}, { attempts: NaN, timeout: -1 })),
          ["ToolProcess.startConstraints", "timeout: it is -1", "attempts: it is NaN"]
        )
      })))

  it.effect("cannot be where there are none", () =>
    run({ t: () => Effect.void }, {}, ({ batch, executor, process }) =>
      Effect.sync(() => {
        const wave = [call("1", "t")]
        const plain = process.executeWave(wave)
        expectTypeOf<Effect.Error<typeof plain>>().toEqualTypeOf<never>()
        const limited = process.executeWave(wave, { timeout: "1 second" })
        expectTypeOf<Effect.Error<typeof limited>>().toEqualTypeOf<ConfigurationError.ConfigurationError>()
        const one = process.execute(wave[0]!)
        expectTypeOf<Effect.Error<typeof one>>().toEqualTypeOf<never>()
        expectTypeOf(process.stream(wave)).toEqualTypeOf<Stream.Stream<ToolEvent.ToolEvent>>()
        const own = executor.process({ batch: "b", meta: { user: "ada" } })
        expectTypeOf<Effect.Error<typeof own>>().toEqualTypeOf<never>()
        const another = batch.process()
        expectTypeOf<Effect.Error<typeof another>>().toEqualTypeOf<never>()
        const timed = batch.process({ turn: { timeout: "1 minute" } })
        expectTypeOf<Effect.Error<typeof timed>>().toEqualTypeOf<ConfigurationError.ConfigurationError>()
      })))
})

describe("ToolProcess.stream", () => {
  const error = new Error("boom")
  const boom = () => {
    throw error
  }
  const gates: { readonly [gate: string]: NonNullable<Options["swap"]> } = {
    Permissions: Layer.succeed(Permissions.Permissions, { decide: boom, sees: () => true }),
    Dedupe: Layer.succeed(Dedupe.Dedupe, { claim: boom, leads: boom, duplicate: boom, settlement: boom })
  }
  const turns: NonNullable<Options["turns"]> = Layer.succeed(TurnBudget.TurnBudget, {
    begin: (limits, now, parent) => Object.assign(TurnBudget.plain.begin(limits, now, parent), { check: boom })
  })
  const options: ReadonlyArray<readonly [gate: string, options: Options]> = [
    ...Object.entries(gates).map(([gate, swap]) => [gate, { swap }] as const),
    ["TurnBudget", { turns }]
  ]
  for (const [gate, given] of options) {
    it.effect(
      `ends as its wave does where a ${gate} throws`,
      () =>
        run({ t: () => Effect.void }, given, ({ process }) =>
          Effect.gen(function*() {
            const whole = yield* Effect.exit(process.executeWave([call("1", "t")]))
            const last = yield* Effect.exit(Stream.runLast(process.stream([call("1", "t")])))
            if (Exit.isSuccess(whole)) {
              assert(Exit.isSuccess(last) && Option.isSome(last.value) && last.value.value._tag === "ToolsEnd")
              assert.deepStrictEqual(last.value.value.executionResults, whole.value.outcomes)
            } else {
              assert.isTrue(Exit.hasDies(whole))
              assert.deepStrictEqual<Exit.Exit<unknown>>(last, whole)
            }
          })),
      { tags: ["E4"] }
    )
  }
})
