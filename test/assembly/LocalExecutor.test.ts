/** The one-line start: what is provided around it is used, and what its options say wins. */
import { assert, describe, expectTypeOf, it } from "@effect/vitest"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as LocalExecutor from "../../src/assembly/LocalExecutor.ts"
import * as ExecutedModel from "../../src/core/engine/ExecutedModel.ts"
import * as ToolExecutor from "../../src/core/engine/ToolExecutor.ts"
import * as ArtifactStore from "../../src/core/output/ArtifactStore.ts"
import * as StateStore from "../../src/core/store/StateStore.ts"
import {
  Approvals,
  Checkpoints,
  ConfigurationError,
  Dedupe,
  ExecutorSettings,
  Guards,
  Permissions,
  Pools,
  ToolAnnotations,
  ToolCall,
  ToolContext,
  ToolHandlers,
  TurnBudget
} from "../../src/index.ts"
import * as VirtualTime from "../../src/testing/VirtualTime.ts"
import { tags, toolkit } from "../support/Harness.ts"
import { scriptedModel } from "../support/scriptedModel.ts"

const Read = Tool.make("read", { success: Schema.String })
  .annotate(Tool.Readonly, true)
  .annotate(Tool.OpenWorld, false)
const Write = Tool.make("write", { parameters: Schema.Struct({ n: Schema.Finite }), success: Schema.String })
  .annotate(ToolAnnotations.ChangesFiles, true)
const kit = Toolkit.make(Read, Write)

const handlers = kit.toLayer({
  read: () => Effect.map(ToolContext.ToolContext, (it) => `${it.principal} `.repeat(1_000)),
  write: () => Effect.delay(Effect.succeed("written"), "2 seconds")
})

/** Runs a wave in an executor, with whatever is provided around its layer. */
const waveOf = <A, E>(
  options: LocalExecutor.Options,
  around: Layer.Layer<A, E>,
  ...names: ReadonlyArray<"read" | "write">
) => {
  const calls = names.map((name, n) => ToolCall.make(String(n + 1), name, name === "write" ? { n: 1 } : {}))
  const program = Effect.gen(function*() {
    const executor = yield* ToolExecutor.ToolExecutor
    const process = yield* executor.process()
    return { executor, wave: yield* process.executeWave(calls) }
  })
  const layer = LocalExecutor.layer(kit, options).pipe(Layer.provide(handlers), Layer.provide(around))
  return VirtualTime.run(Effect.scoped(Effect.provide(program, layer)), { limit: "1 hour" })
}

const tagsOf = <A, E>(
  options: LocalExecutor.Options,
  around: Layer.Layer<A, E>,
  ...names: ReadonlyArray<"read" | "write">
) => Effect.map(waveOf(options, around, ...names), ({ wave }) => tags(wave))

describe("an executor of one line", () => {
  it.effect("keeps its state in the store that is there", () =>
    Effect.gen(function*() {
      const store = StateStore.makeMemory()
      const around = Layer.succeed(StateStore.StateStore, store)
      const batch = Effect.gen(function*() {
        const executor = yield* ToolExecutor.ToolExecutor
        const process = yield* executor.process()
        return tags(yield* process.executeWave([ToolCall.make("1", "read", {})]))
      }).pipe(
        Effect.scoped,
        Effect.provide(
          LocalExecutor.layer(kit, { rules: [{ _tag: "Cooldown", tool: "read", duration: "1 minute" }] }).pipe(
            Layer.provide([handlers, around])
          )
        )
      )
      assert.deepStrictEqual(yield* batch, ["Succeeded"])
      // another executor over the same store knows that the tool rests
      assert.deepStrictEqual(yield* batch, ["RuleViolation"])
    }))

  it.effect("keeps large outputs in the store that is there", () =>
    Effect.gen(function*() {
      const kept: Array<string> = []
      const memory = ArtifactStore.makeMemory()
      const around = Layer.succeed(ArtifactStore.ArtifactStore, {
        ...memory,
        put: (owner, payload) => {
          kept.push(owner.principal)
          return memory.put(owner, payload)
        }
      })
      yield* waveOf({ output: { maxChars: 300 }, principal: "ada" }, around, "read")
      assert.deepStrictEqual(kept, ["ada"])
    }))

  it.effect("asks those who are there, and keeps what is there before a write", () =>
    Effect.gen(function*() {
      const checkpoints = Context.get(yield* Layer.build(Checkpoints.layerMemory()), Checkpoints.Checkpoints)
      const around = Layer.merge(
        Approvals.layer({ timeout: "1 second" }),
        Layer.succeed(Checkpoints.Checkpoints, checkpoints)
      )
      const { wave } = yield* waveOf({}, around, "write")
      assert.deepInclude(wave.outcomes[0], {
        reason: { _tag: "PermissionDenied", by: "timeout", permission: "write", scope: "tool" }
      })
      const allowed = yield* waveOf({ policy: { default: "allow" } }, around, "write")
      assert.deepStrictEqual(tags(allowed.wave), ["Succeeded"])
      assert.lengthOf(yield* checkpoints.list("default"), 1)
    }).pipe(Effect.scoped))

  it.effect("has the gates that are there, where its options say nothing", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* tagsOf({}, Layer.empty, "write"), ["PermissionDenied"])
      assert.deepStrictEqual(yield* tagsOf({}, Permissions.layerAllowAll, "write"), ["Succeeded"])
      assert.deepStrictEqual(yield* tagsOf({}, Permissions.layerDenyAll, "read"), ["PolicyDenied"])
      assert.deepStrictEqual(yield* tagsOf({ policy: {} }, Permissions.layerAllowAll, "write"), ["Succeeded"])
      assert.deepStrictEqual(yield* tagsOf({}, Layer.empty, "read", "read"), ["Succeeded", "DuplicateCall"])
      assert.deepStrictEqual(yield* tagsOf({}, Dedupe.layerNoop, "read", "read"), ["Succeeded", "Succeeded"])
      assert.deepStrictEqual(yield* tagsOf({ dedupe: {} }, Dedupe.layerNoop, "read", "read"), [
        "Succeeded",
        "Succeeded"
      ])
      const error = yield* Effect.flip(tagsOf({}, Pools.layer({ read: 0 }), "read"))
      assert.instanceOf(error, ConfigurationError.ConfigurationError)
    }))

  it.effect("is not made with an option that does not exist, and says which one is near", () =>
    Effect.gen(function*() {
      const given = [
        [{ rule: [] }, "rule", "did you mean \"rules\"?"],
        [{ Policy: {} }, "Policy", "did you mean \"policy\"?"],
        [{ executionTimeuot: "1 second" }, "executionTimeuot", "did you mean \"executionTimeout\"?"],
        [{ colour: "red" }, "colour", "there is no such option"]
      ] as const
      for (const [options, path, problem] of given) {
        const layers = [LocalExecutor.layer(kit, options as never), LocalExecutor.layerReadOnly(kit, options as never)]
        for (const layer of layers) {
          const error = yield* Effect.flip(Effect.scoped(Layer.build(Layer.provide(layer, handlers))))
          assert.instanceOf(error, ConfigurationError.ConfigurationError)
          assert.deepStrictEqual(error.problems.map((it) => it.path), [path])
          assert.include(error.message, problem)
        }
      }
    }))

  it.effect("is not made with a word that it does not know, whoever wrote it", () =>
    Effect.gen(function*() {
      const wrongs = [
        [{ mode: "paralel" }, "mode: it is \"paralel\"; expected one of classes, parallel, sequential"],
        [{ onExecutionError: "halt" }, "onExecutionError: it is \"halt\"; expected one of continue, stop"],
        [{ approval: "upfrnt" }, "approval: it is \"upfrnt\"; expected one of perCall, upfront"],
        [
          { dedupe: { scope: "all" } },
          "scope: it is \"all\"; expected one of wave, process, batch, session, principal"
        ],
        [{ dedupe: { outcomes: ["Denied"] } }, "outcomes[0]: it is \"Denied\"; expected one of Succeeded, Failed"],
        [{ dedupe: { onDuplicate: "run" } }, "onDuplicate: it is \"run\"; expected one of reject, replay"],
        [{ dedupe: { inFlight: "wait" } }, "inFlight: it is \"wait\"; expected one of reject, join"],
        [
          { dedupe: { window: "a while" } },
          "window: it is \"a while\"; expected a duration, such as \"30 seconds\", or 0 for none"
        ]
      ] as const
      for (const [options, says] of wrongs) {
        const error = yield* Effect.flip(tagsOf(options as object, Layer.empty, "read"))
        assert.instanceOf(error, ConfigurationError.ConfigurationError)
        assert.include(error.message, `1 problem\n  ${says}`)
      }
    }))

  it.effect("that only reads is narrowed by what is there", () =>
    Effect.gen(function*() {
      const tagsWith = (around: Layer.Layer<Permissions.Permissions>) =>
        Effect.gen(function*() {
          const executor = yield* ToolExecutor.ToolExecutor
          const process = yield* executor.process()
          const calls = [ToolCall.make("1", "read", {}), ToolCall.make("2", "write", { n: 1 })]
          return tags(yield* process.executeWave(calls))
        }).pipe(
          Effect.scoped,
          Effect.provide(LocalExecutor.layerReadOnly(kit).pipe(Layer.provide(handlers), Layer.provide(around)))
        )
      assert.deepStrictEqual(yield* tagsWith(Permissions.layerAllowAll), ["Succeeded", "PolicyDenied"])
      assert.deepStrictEqual(yield* tagsWith(Permissions.layerDenyAll), ["PolicyDenied", "PolicyDenied"])
    }))

  it.effect("has the settings that are there, field by field, and its own over them", () =>
    Effect.gen(function*() {
      const limits = ExecutorSettings.layer({ executionTimeout: "1 second", commitTimeout: "1 second" })
      const allow = { policy: { default: "allow" } } as const
      assert.deepStrictEqual(yield* tagsOf(allow, limits, "write"), ["TimedOut"])
      assert.deepStrictEqual(yield* tagsOf({ ...allow, commitTimeout: "3 seconds" }, limits, "write"), ["TimedOut"])
      assert.deepStrictEqual(yield* tagsOf({ ...allow, executionTimeout: "3 seconds" }, limits, "write"), ["Succeeded"])
      assert.deepStrictEqual(yield* tagsOf({ ...allow, executionTimeout: undefined }, limits, "write"), ["TimedOut"])

      const turn = TurnBudget.layer({ maxCalls: 1 })
      assert.deepStrictEqual(yield* tagsOf(allow, turn, "read", "write"), ["Succeeded", "CallBudgetExhausted"])
      assert.deepStrictEqual(yield* tagsOf({ ...allow, turn: { timeout: "1 hour" } }, turn, "read", "write"), [
        "Succeeded",
        "CallBudgetExhausted"
      ])
      assert.deepStrictEqual(yield* tagsOf({ ...allow, turn: { maxCalls: 2 } }, turn, "read", "write"), [
        "Succeeded",
        "CallBudgetExhausted"
      ])

      const guards = Guards.layer([{ name: "g", check: () => Effect.fail("no") }])
      assert.deepStrictEqual(yield* tagsOf({}, guards, "read"), ["GuardRejected"])
      assert.deepStrictEqual(yield* tagsOf({ guards: [] }, guards, "read"), ["GuardRejected"])

      const stop = ExecutorSettings.layer({ onExecutionError: "stop" })
      assert.deepStrictEqual(yield* tagsOf({}, stop, "write", "read"), ["PermissionDenied", "Skipped"])
      assert.deepStrictEqual(yield* tagsOf({ onExecutionError: "continue" }, stop, "write", "read"), [
        "PermissionDenied",
        "Succeeded"
      ])

      const principal = Layer.succeed(ToolExecutor.Principal, "ada")
      const text = (options: LocalExecutor.Options) =>
        Effect.map(waveOf(options, principal, "read"), ({ wave }) => wave.toolMessages[0]!.text.slice(0, 4))
      assert.strictEqual(yield* text({}), "ada ")
      assert.strictEqual(yield* text({ principal: "bob" }), "bob ")

      const output = ExecutorSettings.layer({ output: { maxChars: 300 } })
      const { wave } = yield* waveOf({}, output, "read")
      assert.isAtMost(wave.toolMessages[0]!.text.length, 300)

      const heartbeats = ExecutorSettings.layer({ heartbeats: true })
      assert.isTrue((yield* waveOf({}, heartbeats, "read")).executor.requiresHeartbeat("read"))
      assert.isFalse((yield* waveOf({ heartbeats: false }, heartbeats, "read")).executor.requiresHeartbeat("read"))
    }), { tags: ["Y4"] })
})

describe("a registry", () => {
  it("wants the handlers of its tools", () => {
    expectTypeOf(ToolHandlers.makeRegistry([kit])).toEqualTypeOf<
      Effect.Effect<ToolHandlers.Registry, ConfigurationError.ConfigurationError, Tool.HandlersFor<typeof kit.tools>>
    >()
  })

  it.effect("may be named tools of that come later", () => {
    const later = toolkit({ later: () => Effect.succeed(1) })
    const layerOf = (expects: (name: string) => boolean) =>
      ToolExecutor.layer.pipe(
        Layer.provideMerge(LocalExecutor.layerGates({ policy: { allow: ["later"] } })),
        Layer.provideMerge(ToolHandlers.layer(kit, { expects })),
        Layer.provide(handlers)
      )
    return Effect.gen(function*() {
      const unexpected = yield* Effect.flip(Effect.scoped(Layer.build(layerOf(() => false))))
      assert.include(unexpected.message, "later")
      yield* Effect.gen(function*() {
        const { replace } = yield* ToolHandlers.ToolHandlers
        yield* replace(yield* Effect.provide(ToolHandlers.makeRegistry([later.kit]), later.handlers))
        const process = yield* (yield* ToolExecutor.ToolExecutor).process()
        assert.deepStrictEqual(tags(yield* process.executeWave([ToolCall.make("1", "later", {})])), ["Succeeded"])
      }).pipe(Effect.scoped, Effect.provide(layerOf((name) => name === "later")))
    })
  })
})

describe("whoever asks an executed model", () => {
  const model = scriptedModel([[["1", "read", {}]], [["2", "read", {}]]])
  const services = ExecutedModel.layer.pipe(
    Layer.provide(model.layer),
    Layer.provide(LocalExecutor.layer(kit).pipe(Layer.provide(handlers)))
  )

  it.effect("needs no handlers", () => {
    const asked = LanguageModel.generateText({ prompt: "go", toolkit: ExecutedModel.toolkit(kit) })
    expectTypeOf<Effect.Services<typeof asked>>().toEqualTypeOf<LanguageModel.LanguageModel>()
    return Effect.gen(function*() {
      assert.deepStrictEqual((yield* asked).toolResults.map((it) => [it.name, it.isFailure]), [["read", false]])
      // nor does it where the types want them
      const plain = LanguageModel.generateText({ prompt: "go", toolkit: kit })
      const response = yield* Effect.provideContext(plain, Context.empty() as never)
      assert.deepStrictEqual(response.toolResults.map((it) => [it.name, it.isFailure]), [["read", false]])
    }).pipe(Effect.provide(services))
  })
})

describe("options about tools", () => {
  it("take the names of the toolkit alone, where these are known", () => {
    expectTypeOf<NonNullable<Parameters<typeof LocalExecutor.layer<typeof kit>>[1]>["tools"]>().toEqualTypeOf<
      {
        readonly read?: ToolHandlers.Settings | undefined
        readonly write?: ToolHandlers.Settings | undefined
      } | undefined
    >()
    // @ts-expect-error: no tool has this name
    assert.isDefined(LocalExecutor.layer(kit, { tools: { wirte: { timeout: "1 second" } } }))
    // @ts-expect-error: nor here
    assert.isDefined(LocalExecutor.layerReadOnly([kit], { tools: { wirte: { timeout: "1 second" } } }))
    // @ts-expect-error: nor here
    assert.isDefined(ToolHandlers.layer(kit, { tools: { wirte: { timeout: "1 second" } } }))
    const dynamic: LocalExecutor.Options = { tools: { any: { timeout: "1 second" } } }
    assert.isDefined(LocalExecutor.layer(kit, dynamic))
  })
})
