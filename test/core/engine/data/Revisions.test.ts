import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import * as ToolHandlers from "../../../../src/core/vocabulary/ToolHandlers.ts"
import { Approvals, LocalExecutor, ToolCall, ToolExecutor } from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"

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

/** Two tools that somebody allows until further notice whenever they are asked. */
const open = Effect.fnUntraced(function*(onAsked: (tool: string) => Effect.Effect<void> = () => Effect.void) {
  const asked: Array<string> = []
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
      change._tag === "Requested"
        ? Effect.ignore(Effect.suspend(() => {
          asked.push(change.request.tool)
          return Effect.andThen(
            onAsked(change.request.tool),
            approvals.answer(change.request.id, { _tag: "ApproveForScope" })
          )
        }))
        : Effect.void
    ),
    Effect.forkScoped({ startImmediately: true })
  )
  const executor = Context.get(context, ToolExecutor.ToolExecutor)
  const process = yield* executor.process()
  const wave = yield* process.executeWave([ToolCall.make("1", "send", {}), ToolCall.make("2", "pay", {})])
  assert.deepStrictEqual(wave.outcomes.map((it) => it._tag), ["Succeeded", "Succeeded"])
  return { executor, handlers, process, asked }
})

/** Replaces the tools; gives those that are still allowed. */
const allowedAfter = (...replacements: ReadonlyArray<Parameters<typeof registryOf>[0]>) =>
  VirtualTime.run(Effect.scoped(Effect.gen(function*() {
    const { executor, handlers } = yield* open()
    for (const replacement of replacements) yield* handlers.replace(yield* registryOf(replacement))
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

  it.effect("has lost it before the next call, however soon that comes", () =>
    VirtualTime.run(Effect.scoped(Effect.gen(function*() {
      const { asked, handlers, process } = yield* open()
      for (let turn = 0; turn < 8; turn++) {
        yield* handlers.replace(yield* registryOf({ send: { description: `Sends ${turn}` }, pay }))
        yield* process.executeWave([ToolCall.make(`s${turn}`, "send", {}), ToolCall.make(`p${turn}`, "pay", {})])
      }
      assert.deepStrictEqual(asked, ["send", "pay", ...Array.from({ length: 8 }, () => "send")])
    }))))

  it.effect("is not run by an answer to what it was while somebody thought", () =>
    VirtualTime.run(Effect.scoped(Effect.gen(function*() {
      let becomes: Effect.Effect<void> = Effect.void
      const { executor, handlers, process } = yield* open(() => becomes)
      yield* executor.revoke({ tool: "send" })
      const other = yield* registryOf({ send: { description: "Sends everything" }, pay })
      becomes = handlers.replace(other)
      const outcome = yield* process.execute(ToolCall.make("3", "send", {}))
      assert.deepInclude(outcome, {
        _tag: "Denied",
        reason: {
          _tag: "PermissionDenied",
          by: "user",
          reason: "the tool has changed since it was approved",
          permission: "send",
          scope: "tool"
        }
      })
      assert.deepStrictEqual((yield* executor.grants).map((it) => it.tool), ["pay"])
    }))))
})
