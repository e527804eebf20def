/** Policy and rules that are replaced while an executor runs. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import {
  LocalExecutor,
  Permissions,
  type Policy,
  Rules,
  ToolAnnotations,
  ToolExecutor,
  ToolHandlers,
  type ToolRule
} from "../../../src/index.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { calls, tags, toolkit, type ToolSpec } from "../../support/Harness.ts"

const tools: { readonly [name: string]: ToolSpec } = {
  read: { handler: () => Effect.succeed(1) },
  write: { class: "SerialMut", handler: () => Effect.sleep("1 minute") },
  move: {
    class: "SerialMut",
    handler: () => Effect.sleep("1 minute"),
    annotate: (tool) => tool.annotate(ToolAnnotations.Targets, () => [{ text: "secret" }])
  }
}

const run = <A, E>(
  program: Effect.Effect<A, E, Scope.Scope | ToolExecutor.ToolExecutor | Permissions.PermissionsRef | Rules.RulesRef>,
  options: { readonly policy?: Policy.Policy; readonly rules?: ReadonlyArray<ToolRule.ToolRule> } = {}
) => {
  const { handlers, kit } = toolkit(tools)
  const layer = Layer.fresh(ToolExecutor.layer).pipe(
    Layer.provide(LocalExecutor.layerGates({ dedupe: false })),
    Layer.provideMerge(
      Layer.merge(Permissions.layerRef(options.policy ?? { default: "allow" }), Rules.layerRef(options.rules ?? []))
    ),
    Layer.provide(ToolHandlers.layer(kit)),
    Layer.provide(handlers)
  )
  return VirtualTime.run(Effect.scoped(Effect.provide(program, layer)), { limit: "1 day" })
}

/** What becomes of a wave, one second into which something happens. */
const during = <E, R>(names: ReadonlyArray<string>, change: Effect.Effect<void, E, R>) =>
  Effect.gen(function*() {
    const executor = yield* ToolExecutor.ToolExecutor
    const process = yield* executor.process()
    const wave = yield* Effect.forkScoped(process.executeWave(calls(...names)))
    yield* Effect.sleep("1 second")
    yield* change
    return tags(yield* Fiber.join(wave))
  })

/** How often one is told that the tools have changed, while something happens. */
const toldOf = (
  ...happens: ReadonlyArray<Effect.Effect<unknown, unknown, Permissions.PermissionsRef | Rules.RulesRef>>
) =>
  Effect.gen(function*() {
    const executor = yield* ToolExecutor.ToolExecutor
    const { toolChanges } = yield* executor.fork({ policy: { default: "allow" } })
    const told: Array<string> = []
    for (const [who, changes] of [["agent", executor.toolChanges], ["sub-agent", toolChanges]] as const) {
      yield* Effect.forkScoped(
        Stream.runForEach(changes, () => Effect.sync(() => void told.push(who))),
        { startImmediately: true }
      )
    }
    for (const it of happens) {
      yield* Effect.ignore(it)
      yield* Effect.sleep(1)
    }
    return told
  })

describe("a policy that is replaced", () => {
  const set = (policy: Policy.Policy) => Effect.flatMap(Permissions.PermissionsRef, (it) => it.set(policy))

  it.effect("holds for calls that wait, and stops none that runs", () =>
    run(Effect.gen(function*() {
      assert.deepStrictEqual(
        yield* during(["write", "write", "read"], set({ default: "allow", deny: ["write"] })),
        ["Succeeded", "PolicyDenied", "Succeeded"]
      )
      const { tools } = yield* ToolExecutor.ToolExecutor
      assert.notInclude((yield* tools).map((it) => it.name), "write")
      yield* set({ default: "allow" })
      assert.include((yield* tools).map((it) => it.name), "write")
      assert.deepStrictEqual(yield* during(["write"], Effect.void), ["Succeeded"])
    })), { tags: ["Y5"] })

  it.effect("judges what waiting calls are about, though the one before did not ask for it", () =>
    run(Effect.gen(function*() {
      const change = set({ default: "allow", deny: ["move(secret)"] })
      assert.deepStrictEqual(yield* during(["write", "move"], change), ["Succeeded", "PolicyDenied"])
    })))

  it.effect("holds for what people would be asked about", () =>
    run(Effect.gen(function*() {
      assert.deepStrictEqual(yield* during(["write"], set({ default: "ask" })), ["Succeeded"])
      assert.deepStrictEqual(yield* during(["write"], Effect.void), ["PermissionDenied"])
    })))

  it.effect("is told to whoever listens to what the agent sees", () =>
    run(Effect.gen(function*() {
      assert.deepStrictEqual(yield* toldOf(set({ deny: ["write"] })), ["agent", "sub-agent"])
      assert.deepStrictEqual(yield* toldOf(set({ deny: ["none of them"] })), [])
    })))

  it.effect("stays as it was where the new one is wrong", () =>
    run(Effect.gen(function*() {
      const ref = yield* Permissions.PermissionsRef
      for (const [wrong, says] of [[{ deny: ["wriet"] }, "wriet"], [{ mode: "locked" }, "mode"]] as const) {
        const error = yield* Effect.flip(ref.set(wrong as Policy.Policy))
        assert.strictEqual(error._tag, "ConfigurationError")
        assert.include(error.message, says)
      }
      assert.deepStrictEqual(yield* ref.get, { default: "allow" })
      assert.deepStrictEqual(yield* during(["write"], Effect.void), ["Succeeded"])
    })), { tags: ["Y5"] })
})

describe("rules that are replaced", () => {
  const set = (...rules: ReadonlyArray<ToolRule.ToolRule>) => Effect.flatMap(Rules.RulesRef, (it) => it.set(rules))

  it.effect("are told to whoever listens to what the agent sees", () =>
    run(Effect.gen(function*() {
      const limits = { _tag: "MaxCalls", tool: "write", max: 1 } as const
      assert.deepStrictEqual(yield* toldOf(set(limits), set()), ["agent", "sub-agent", "agent", "sub-agent"])
    })))

  it.effect("hold for calls that wait, with what succeeded before", () =>
    run(Effect.gen(function*() {
      const needs = set({ _tag: "RequiresPrecedingTools", tool: "write", tools: ["read"] })
      assert.deepStrictEqual(yield* during(["write", "write"], needs), ["Succeeded", "RuleViolation"])
      assert.deepStrictEqual(yield* during(["read", "write"], Effect.void), ["Succeeded", "Succeeded"])
    })), { tags: ["Y5"] })

  it.effect("count from then on", () =>
    run(Effect.gen(function*() {
      assert.deepStrictEqual(yield* during(["read", "read"], set({ _tag: "MaxCalls", tool: "read", max: 1 })), [
        "Succeeded",
        "Succeeded"
      ])
      assert.deepStrictEqual(yield* during(["read", "read"], set()), ["Succeeded", "RuleViolation"])
      assert.deepStrictEqual(yield* during(["read", "read"], Effect.void), ["Succeeded", "Succeeded"])
    })))

  it.effect("stay as they were where the new ones are wrong, or would be called by themselves", () =>
    run(
      Effect.gen(function*() {
        const ref = yield* Rules.RulesRef
        const unknown = yield* Effect.flip(ref.set([{ _tag: "MaxCalls", tool: "raed", max: 1 }]))
        assert.include(unknown.message, "raed")
        const periodic = yield* Effect.flip(
          ref.set([{ _tag: "Periodic", tool: "read", schedule: "1 minute" }])
        )
        assert.include(periodic.message, "the same Periodic rules")
        assert.deepStrictEqual(yield* ref.get, [{ _tag: "MaxCalls", tool: "read", max: 1 }])
        assert.deepStrictEqual(yield* during(["read", "read"], Effect.void), ["Succeeded", "RuleViolation"])
      }),
      { rules: [{ _tag: "MaxCalls", tool: "read", max: 1 }] }
    ))
})
