/** The promises as properties that anyone can run on their own composition. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { LocalExecutor, Permissions, StateStore, ToolExecutor } from "effect-tool-executor"
import { Tool, Toolkit } from "effect/ai"
import * as Laws from "../support/laws/Laws.ts"
import { seeds, timeout } from "../support/seeds.ts"
import { processes } from "./planted/plant.ts"

const Search = Tool.make("search", { parameters: Schema.Struct({ query: Schema.String }), success: Schema.String })
  .annotate(Tool.Readonly, true)
const Send = Tool.make("send", { parameters: Schema.Struct({ to: Schema.Literals(["ada", "bob"]) }) })
const toolkit = Toolkit.make(Search, Send)
const handlers = toolkit.toLayer({
  search: ({ query }) => Effect.delay(Effect.succeed(query), query.length),
  send: ({ to }) => Effect.sleep(to === "ada" ? 5 : 20)
})
const own = LocalExecutor.layer(toolkit, { policy: { default: "allow" } }).pipe(Layer.provide(handlers))

describe("the laws", () => {
  it.effect("hold for the executor as it is", () =>
    Effect.gen(function*() {
      const judged = new Set<string>()
      for (const seed of seeds(100)) {
        const report = yield* Laws.laws(ToolExecutor.layer, { seed, runs: 1 })
        assert.deepStrictEqual(report.violations, [], Laws.describe(report))
        for (const law of report.judged) judged.add(law)
      }
      const { judged: first, unjudged } = yield* Laws.laws(ToolExecutor.layer, { runs: 1 })
      assert.deepStrictEqual(Array.from(judged).toSorted(), [...first, ...unjudged].toSorted())
    }), timeout)

  it.effect("hold for an executor with tools of its own, whose calls are made from their parameters", () =>
    Effect.gen(function*() {
      const report = yield* Laws.laws(own, {
        runs: 30,
        params: { search: ({ int }) => ({ query: "?".repeat(int(9)) }) }
      })
      assert.deepStrictEqual(report.violations, [], Laws.describe(report))
      assert.include(report.judged, "a call that may change things runs beside no call of another run")
      assert.include(report.unjudged, "a tool never starts more often than MaxCalls allows")
    }))

  it.effect("find out about those, too", () =>
    Effect.gen(function*() {
      const parallel = LocalExecutor.layer(toolkit, { policy: { default: "allow" }, mode: "parallel" })
        .pipe(Layer.provide(handlers))
      const { violations } = yield* Laws.laws(parallel)
      // in this mode writers run beside others, and beside each other
      const alone = [
        "a call that may change things runs beside no call of another run",
        "no pool, cap or resource has more calls running than it has room for"
      ]
      assert.isNotEmpty(violations)
      for (const { law } of violations) assert.include(alone, law)
      const { violations: none } = yield* Laws.laws(parallel, { runs: 10, without: alone })
      assert.deepStrictEqual(none, [])
    }))

  it.effect("fail as a layer fails that cannot be built", () =>
    Effect.gen(function*() {
      const wrong = LocalExecutor.layer(toolkit, { executionTimeout: 0 }).pipe(Layer.provide(handlers))
      assert.strictEqual((yield* Effect.flip(Laws.laws(wrong)))._tag, "ConfigurationError")
    }))

  it.effect("leave out what an executor brings itself", () =>
    Effect.gen(function*() {
      const allowing = ToolExecutor.layer.pipe(Layer.provide(Permissions.layerAllowAll))
      const { unjudged, violations } = yield* Laws.laws(allowing, { runs: 40 })
      assert.deepStrictEqual(violations, [])
      assert.include(unjudged, "what a policy denies never starts")
      const store = ToolExecutor.layer.pipe(Layer.provide(StateStore.layerMemory()))
      assert.deepStrictEqual((yield* Laws.laws(store, { runs: 10 })).violations, [])
    }))

  it.effect("tell the shortest run that breaks one, and where it comes from", () =>
    Effect.gen(function*() {
      const losing = processes((process) => ({
        executeWave: (calls: Parameters<typeof process.executeWave>[0]) =>
          Effect.map(process.executeWave(calls), (it) => ({ ...it, outcomes: it.outcomes.slice(0, 2) }))
      }))
      const report = yield* Laws.laws(losing, { seed: 40 })
      const [first] = report.violations
      assert.strictEqual(first!.law, "every call has one outcome, with its id, in input order")
      const waves = first!.run.steps.flatMap((it) => it._tag === "wave" ? [it.calls.length] : [])
      assert.deepStrictEqual(waves, [3])
      assert.include(Laws.describe(report), `in a run of seed ${first!.seed}, made shorter`)
      const again = yield* Laws.laws(losing, { seed: first!.seed, runs: 1 })
      assert.deepStrictEqual(again.violations, report.violations)
    }))
})
