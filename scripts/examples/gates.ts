/**
 * Tests of a program with gates of its own, each swapped by one layer.
 *
 * `docs/gates.md` shows it in full.
 */
import { assert, it } from "@effect/vitest"
import { Context, Effect, Layer, Schema } from "effect"
import {
  Dedupe,
  Gate,
  LocalExecutor,
  Permissions,
  ToolCall,
  ToolExecutor,
  type ToolOutcome
} from "effect-tool-executor"
import { Tool, Toolkit } from "effect/ai"

// The application: a tool, a quota with its gate, an executor

const Search = Tool.make("search", { parameters: Schema.Struct({ query: Schema.String }), success: Schema.String })
  .annotate(Tool.Readonly, true)

const toolkit = Toolkit.make(Search)

class Quota extends Context.Service<Quota, {
  readonly take: (tenant: string) => Effect.Effect<boolean>
  readonly giveBack: (tenant: string) => Effect.Effect<void>
}>()("app/Quota") {}

const QuotaGate = Gate.layer(Effect.gen(function*() {
  const quota = yield* Quota
  const taken = new WeakSet<ToolCall.ToolCall>()
  return {
    name: "quota",
    admit: ({ call, principal }: Gate.GateCall) =>
      taken.has(call) ? Effect.void : Effect.flatMap(quota.take(principal), (isTaken) => {
        if (!isTaken) return Effect.fail("No calls are left today.")
        taken.add(call)
        return Effect.void
      }),
    settle: ({ call, principal }: Gate.GateCall, outcome: ToolOutcome.ToolOutcome) =>
      taken.delete(call) && outcome.startedAt === undefined ? quota.giveBack(principal) : Effect.void
  }
}))

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

// Replace the executor's own gates

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

const noFish = Layer.mock(Permissions.Permissions, {
  decide: ({ args }) =>
    JSON.stringify(args).includes("fish") ? { _tag: "Deny", rule: "fish are off limits" } : { _tag: "Allow" },
  sees: () => true
})

it.layer(executor.pipe(Layer.provide(noFish)))("with other permissions", (it) => {
  it.effect("fish are not found", () =>
    Effect.gen(function*() {
      const [first, second] = yield* search(["fish", "birds"])
      assert.include(first, "fish are off limits")
      assert.strictEqual(second, "birds.md")
    }))
})
