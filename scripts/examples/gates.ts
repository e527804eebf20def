/**
 * Tests that replace gates: the service behind one, one by name, and the executor's own.
 *
 * `docs/gates.md` shows it in full.
 */
import { assert, it } from "@effect/vitest"
import { Context, Effect, Layer, Schema } from "effect"
import { Dedupe, Gate, LocalExecutor, ToolCall, ToolExecutor } from "effect-tool-executor"
import { Tool, Toolkit } from "effect/ai"

// The application: a tool, a quota with its gate, an executor

const Search = Tool.make("search", { parameters: Schema.Struct({ query: Schema.String }), success: Schema.String })
  .annotate(Tool.Readonly, true)

const toolkit = Toolkit.make(Search)

class Quota extends Context.Service<Quota, {
  readonly take: (tenant: string) => Effect.Effect<boolean>
}>()("app/Quota") {}

const QuotaGate = Gate.layer({
  name: "quota",
  admit: ({ principal }) =>
    Effect.gen(function*() {
      const quota = yield* Quota
      if (!(yield* quota.take(principal))) return yield* Effect.fail("No calls are left today.")
    })
})

const executor = LocalExecutor.layer(toolkit).pipe(
  Layer.provide(toolkit.toLayer({ search: ({ query }) => Effect.succeed(`${query}.md`) }))
)

const application = executor.pipe(Layer.provide(QuotaGate))

const search = Effect.fn("search")(function*(queries: ReadonlyArray<string>) {
  const process = yield* (yield* ToolExecutor.ToolExecutor).process()
  const wave = yield* process.executeWave(queries.map((query, index) => ToolCall.make(`${index}`, "search", { query })))
  return wave.toolMessages.map((it) => it.text)
}, Effect.scoped)

// Replace the service behind the gate

const nothingLeft = Layer.mock(Quota, { take: () => Effect.succeed(false) })

it.layer(application.pipe(Layer.provide(nothingLeft)))("without a quota", (it) => {
  it.effect("nothing is found", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* search(["fish"]), ["\"search\" was refused by quota: No calls are left today."])
    }))
})

// Replace the gate itself: the outer gate of the same name wins

const open = application.pipe(Layer.provide(Gate.layer({ name: "quota" })))

it.layer(open.pipe(Layer.provide(nothingLeft)))("with the gate open", (it) => {
  it.effect("everything is found", () =>
    Effect.gen(function*() {
      assert.deepStrictEqual(yield* search(["fish", "birds"]), ["fish.md", "birds.md"])
    }))
})

// Replace one of the executor's own gates

const onlyOne = Layer.effect(
  Dedupe.Dedupe,
  Effect.gen(function*() {
    let count = 0
    return Dedupe.Dedupe.of({
      ...yield* Dedupe.make(),
      claim: () => count++ === 0 ? undefined : { _tag: "GuardRejected", guard: "the test", reason: "One is enough." }
    })
  })
)

it.layer(executor.pipe(Layer.provide(onlyOne)))("with another dedupe", (it) => {
  it.effect("one call runs, whatever it asks for", () =>
    Effect.gen(function*() {
      const [first, second] = yield* search(["fish", "birds"])
      assert.strictEqual(first, "fish.md")
      assert.include(second, "One is enough.")
    }))
})
