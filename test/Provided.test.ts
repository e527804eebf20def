/** What a host provides around a layer is used, whatever it is and whichever layer. */
import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as LocalExecutor from "../src/assembly/LocalExecutor.ts"
import * as TurnBudget from "../src/core/gates/TurnBudget.ts"
import * as StateStore from "../src/core/store/StateStore.ts"
import {
  Approvals,
  ArtifactStore,
  Checkpoints,
  type ConfigurationError,
  Dedupe,
  ExecutorSettings,
  Guards,
  Journal,
  Permissions,
  type Policy,
  Pools,
  Rules,
  ToolAnnotations,
  ToolCall,
  ToolExecutor,
  ToolExecutors,
  ToolHandlers
} from "../src/index.ts"
import * as VirtualTime from "../src/testing/VirtualTime.ts"
import { tags } from "./support/Harness.ts"

const Read = Tool.make("read", { success: Schema.String })
  .annotate(Tool.Readonly, true)
  .annotate(Tool.OpenWorld, false)
const Write = Tool.make("write", { parameters: Schema.Struct({ n: Schema.Finite }), success: Schema.String })
  .annotate(ToolAnnotations.ChangesFiles, true)
const kit = Toolkit.make(Read, Write)

const handlers = kit.toLayer({
  read: () => Effect.succeed("x".repeat(20_000)),
  write: () => Effect.delay(Effect.succeed("written"), "2 seconds")
})
const registry = ToolHandlers.layer(kit).pipe(Layer.provide(handlers))

/** Everything that a host may provide, each telling by its name when it is used. */
const around = (used: Set<string>, executor: { readonly isBuilt: boolean }) => {
  const watch = <I, S extends object, E, R>(key: Context.Key<I, S>, layer: Layer.Layer<I, E, R>) => {
    const watched = (service: S): S =>
      new Proxy(service, {
        get: (target, name, self) => {
          const value: unknown = Reflect.get(target, name, self)
          // what is looked at while the executor is built, or by the test, is not used yet
          if (executor.isBuilt && name !== "list" && name !== "answer") used.add(key.key.split("/").at(-1)!)
          // pools of a session are made of these
          return name === "session" ? () => watched((value as () => S)()) : value
        }
      })
    return Layer.effect(key, Effect.map(Layer.build(layer), (it) => watched(Context.get(it, key))))
  }
  return Layer.mergeAll(
    watch(Rules.Rules, Rules.layer([{ _tag: "MaxCalls", tool: "write", max: 1 }])),
    watch(Permissions.Permissions, Permissions.layer({})),
    watch(Dedupe.Dedupe, Dedupe.layer()),
    watch(Pools.Pools, Pools.layer()),
    watch(TurnBudget.TurnBudget, TurnBudget.layer()),
    watch(StateStore.StateStore, StateStore.layerMemory()),
    watch(Journal.Journal, Journal.layerMemory()),
    watch(ArtifactStore.ArtifactStore, ArtifactStore.layerMemory()),
    watch(Checkpoints.Checkpoints, Checkpoints.layerMemory()),
    watch(Approvals.Approvals, Approvals.layer({ timeout: "1 minute" })),
    Guards.layer([{ name: "g", check: () => Effect.sync(() => void used.add("Guards")) }]),
    ExecutorSettings.layer({ executionTimeout: "1 second" })
  ).pipe(Layer.provideMerge(registry))
}

const everything = [
  "Approvals",
  "ArtifactStore",
  "Checkpoints",
  "Dedupe",
  "Guards",
  "Journal",
  "Permissions",
  "Pools",
  "Rules",
  "StateStore",
  "TurnBudget"
]

type Made<R> = Layer.Layer<ToolExecutor.ToolExecutor, ConfigurationError.ConfigurationError, R>

const layers: ReadonlyArray<
  readonly [name: string, unused: ReadonlyArray<string>, layer: Made<ToolExecutor.Gates>]
> = [
  ["LocalExecutor.layer", [], LocalExecutor.layer(kit).pipe(Layer.provide(handlers))],
  // nothing that could be asked about, undone or on record runs
  [
    "LocalExecutor.layerReadOnly",
    ["Approvals", "Checkpoints"],
    LocalExecutor.layerReadOnly(kit).pipe(Layer.provide(handlers))
  ],
  ["LocalExecutor.layerGates", [], Layer.fresh(ToolExecutor.layer).pipe(Layer.provide(LocalExecutor.layerGates()))],
  ["ToolExecutor.layer", [], Layer.fresh(ToolExecutor.layer)],
  [
    "ToolExecutors.layer",
    [],
    Layer.unwrap(Effect.map(ToolExecutors.ToolExecutors, (it) => it.layer("ada"))).pipe(
      Layer.provide(ToolExecutors.layer())
    )
  ]
]

const answered = Effect.gen(function*() {
  const approvals = yield* Approvals.Approvals
  const executor = yield* ToolExecutor.ToolExecutor
  const process = yield* executor.process()
  const calls = [ToolCall.make("1", "read", {}), ToolCall.make("2", "write", { n: 1 })]
  const running = yield* Effect.forkScoped(process.executeWave(calls))
  yield* Effect.sleep("1 second")
  for (const { id } of yield* approvals.list) yield* approvals.answer(id, { _tag: "ApproveOnce" })
  return tags(yield* Fiber.join(running))
})

describe("a service around a layer", () => {
  for (const [name, unused, layer] of layers) {
    it.effect(`is used by ${name}`, () => {
      const used = new Set<string>()
      const state = { isBuilt: false }
      const program = Effect.andThen(Effect.sync(() => state.isBuilt = true), answered)
      return Effect.gen(function*() {
        const seen = yield* Effect.provide(program, Layer.provideMerge(layer, around(used, state)))
        // what is provided gives a call one second, and the write takes two
        assert.deepStrictEqual(seen, ["Succeeded", unused.length > 0 ? "PolicyDenied" : "TimedOut"])
        assert.deepStrictEqual(everything.filter((it) => !used.has(it)), unused)
      }).pipe(Effect.scoped, (it) => VirtualTime.run(it, { limit: "1 day" }))
    }, { tags: ["Y4"] })
  }
})

describe("a gate's layer around an executor", () => {
  const policy: Policy.Policy = { mode: "denyAll" }
  const rules = [{ _tag: "MaxCalls", tool: "*", max: 0 }] as const
  const outcomes = Effect.gen(function*() {
    const executor = yield* ToolExecutor.ToolExecutor
    const calls = [ToolCall.make("1", "read", {}), ToolCall.make("2", "read", {})]
    return tags(yield* (yield* executor.process()).executeWave(calls))
  }).pipe(Effect.scoped)
  const no: Guards.Guard = { name: "no", check: () => Effect.fail("no") }
  const refused = Dedupe.Dedupe.of({
    claim: () => ({ _tag: "GuardRejected", guard: "it", reason: "no" }),
    leads: () => false,
    duplicate: () => ({ _tag: "Refused" }),
    settlement: () => ({ key: "release", windowMillis: 0, value: undefined })
  })
  const cases: ReadonlyArray<
    readonly [option: LocalExecutor.Options, layer: Layer.Layer<never>, before: string, after: string]
  > = ([
    [{ policy }, Permissions.layerAllowAll, "PolicyDenied", "Succeeded"],
    [{ policy: { default: "allow" } }, Permissions.layerDenyAll, "Succeeded", "PolicyDenied"],
    [{ rules }, Rules.layerNoop, "RuleViolation", "Succeeded"],
    [{ dedupe: false }, Layer.succeed(Dedupe.Dedupe, refused), "Succeeded", "GuardRejected"],
    [{ turn: { timeout: "1 millis", maxCalls: 1 } }, TurnBudget.layerNoop, "CallBudgetExhausted", "Succeeded"],
    [{ guards: [no] }, Guards.layer([]), "GuardRejected", "Succeeded"]
  ] as const).map(([option, ...rest]) => [{ dedupe: false, ...option }, ...rest] as unknown as (typeof cases)[number])

  it.effect("replaces that gate, whatever the options say of it", () =>
    Effect.gen(function*() {
      for (const [option, swapped, before, after] of cases) {
        const layers = [
          LocalExecutor.layer(kit, option).pipe(Layer.provide(handlers)),
          Layer.fresh(ToolExecutor.layer).pipe(Layer.provide(LocalExecutor.layerGates(option)), Layer.provide(registry))
        ]
        for (const layer of layers) {
          const run = (layer: (typeof layers)[number]) =>
            VirtualTime.run(Effect.provide(outcomes, layer, { local: true }))
          assert.strictEqual((yield* run(layer)).at(-1), before)
          assert.strictEqual((yield* run(Layer.provide(layer, swapped))).at(-1), after)
        }
      }
    }), { tags: ["Y3"] })

  it.effect("does not loosen an executor that only reads", () =>
    Effect.gen(function*() {
      const layer = LocalExecutor.layerReadOnly(kit).pipe(
        Layer.provide(handlers),
        Layer.provide(Permissions.layerAllowAll)
      )
      const names = Effect.flatMap(ToolExecutor.ToolExecutor, (it) => it.tools)
      assert.deepStrictEqual((yield* Effect.provide(names, layer)).map((it) => it.name), ["read"])
    }))

  it.effect("is an error where the executor has a layer of its own", () =>
    Effect.gen(function*() {
      const gates = () =>
        Layer.mergeAll(Rules.layer([]), Permissions.layer({}), Dedupe.layer(), Pools.layer()).pipe(
          Layer.provide(registry)
        )
      const around = Object.entries({
        Rules: Rules.layerNoop,
        Permissions: Permissions.layerAllowAll,
        Dedupe: Dedupe.layerNoop,
        Pools: Pools.layerNoop
      })
      for (const [name, layer] of around) {
        const twice = Layer.fresh(ToolExecutor.layer).pipe(
          Layer.provide(gates()),
          Layer.provide(registry),
          Layer.provide(layer as Layer.Layer<never>)
        )
        const error = yield* Effect.flip(Effect.scoped(Layer.build(twice)))
        assert.deepStrictEqual([error.subject, error.problems.map((it) => it.path)], [name, [name]])
      }
    }), { tags: ["Y3"] })
})

describe("two executors in one program", () => {
  const toolsOf = Effect.flatMap(
    ToolExecutor.ToolExecutor,
    (it) => Effect.map(it.tools, (tools) => tools.map(({ name }) => name))
  )
  const one = Toolkit.make(Read)

  it.effect("are two, each with its own tools and whatever is around it", () => {
    const seen: Array<ReadonlyArray<string>> = []
    const told = () => Layer.effectDiscard(Effect.map(toolsOf, (names) => void seen.push(names)))
    const made = [
      LocalExecutor.layer(kit),
      LocalExecutor.layer(one),
      LocalExecutor.layerReadOnly(kit).pipe(Layer.provide(Permissions.layerDenyAll)),
      LocalExecutor.layerReadOnly(kit)
    ].map((layer) => Layer.provide(told(), Layer.provide(layer, handlers)))
    return Effect.gen(function*() {
      yield* Layer.build(Layer.mergeAll(made[0]!, ...made.slice(1)))
      assert.deepStrictEqual(seen, [["read", "write"], ["read"], [], ["read"]])
    }).pipe(Effect.scoped)
  })

  it.effect("are one where they are one layer", () => {
    const local = LocalExecutor.layer(kit).pipe(Layer.provide(handlers))
    const seen = new Set<unknown>()
    const told = () => Layer.effectDiscard(Effect.map(ToolExecutor.ToolExecutor, (it) => void seen.add(it)))
    return Effect.gen(function*() {
      yield* Layer.build(Layer.merge(Layer.provide(told(), local), Layer.provide(told(), local)))
      assert.strictEqual(seen.size, 1)
    }).pipe(Effect.scoped)
  })
})
