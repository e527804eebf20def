import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { Approvals, LocalExecutor, ToolCall, ToolExecutor, ToolHandlers } from "../../src/index.ts"
import * as VirtualTime from "../../src/testing/VirtualTime.ts"

const registryOf = (
  described: { readonly [name: string]: { readonly description: string; readonly field?: string } }
) => {
  const kit = Toolkit.make(
    ...Object.entries(described).map(([name, { description, field = "to" }]) =>
      Tool.dynamic(name, { description, parameters: { type: "object", properties: { [field]: { type: "string" } } } })
    )
  )
  const handlers = Object.fromEntries(Object.keys(described).map((name) => [name, () => Effect.void]))
  return Effect.provide(ToolHandlers.makeRegistry([kit]), kit.toLayer(handlers as never))
}

/** Allows two tools until further notice, then replaces the tools; gives those that are still allowed. */
const allowedAfter = (...replacements: ReadonlyArray<Parameters<typeof registryOf>[0]>) =>
  VirtualTime.run(Effect.scoped(Effect.gen(function*() {
    const handlers = ToolHandlers.fromRegistry(
      yield* registryOf({ send: { description: "Sends a note" }, pay: { description: "Pays" } })
    )
    const context = yield* Layer.build(
      ToolExecutor.layer.pipe(
        Layer.provide(LocalExecutor.layerGates({ policy: { ask: ["*"] }, dedupe: false })),
        Layer.provide(Layer.succeed(ToolHandlers.ToolHandlers, handlers)),
        Layer.provideMerge(Approvals.layer())
      )
    )
    const approvals = Context.get(context, Approvals.Approvals)
    yield* approvals.changes.pipe(
      Stream.runForEach((change) =>
        change._tag === "Asked"
          ? Effect.ignore(approvals.answer(change.request.id, { _tag: "ApproveForScope" }))
          : Effect.void
      ),
      Effect.forkScoped({ startImmediately: true })
    )
    const executor = Context.get(context, ToolExecutor.ToolExecutor)
    const process = yield* (yield* executor.batch()).process
    const wave = yield* process.executeBatch([ToolCall.make("1", "send", {}), ToolCall.make("2", "pay", {})])
    assert.deepStrictEqual(wave.outcomes.map((it) => it._tag), ["Succeeded", "Succeeded"])
    for (const replacement of replacements) {
      yield* handlers.replace(yield* registryOf(replacement))
      yield* Effect.sleep(1)
    }
    return (yield* executor.grants).map((it) => it.tool).toSorted()
  })))

const pay = { description: "Pays" }

describe("a tool that becomes another", () => {
  it.effect("keeps what people allowed while it describes itself the same", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* allowedAfter({ send: { description: "Sends a note" }, pay }), ["pay", "send"])
    }))

  it.effect("loses it with other words, and others keep theirs", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* allowedAfter({ send: { description: "Sends everything" }, pay }), ["pay"])
    }))

  it.effect("loses it with other arguments", () =>
    Effect.gen(function*() {
      const send = { description: "Sends a note", field: "everybody" }
      assert.deepStrictEqual(yield* allowedAfter({ send, pay }), ["pay"])
    }))

  it.effect("loses it also where it was away in between", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* allowedAfter({ pay }, { send: { description: "Sends everything" }, pay }), ["pay"])
      assert.deepStrictEqual(
        yield* allowedAfter({ pay }, { send: { description: "Sends a note" }, pay }),
        ["pay", "send"]
      )
    }))
})
