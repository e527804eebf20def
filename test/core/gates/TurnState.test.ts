/** What a process remembers is plain data, and a process that is begun from it goes on as the first would have. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import { RuleHistory } from "../../../src/core/rules/RuleHistory.ts"
import * as RuleSet from "../../../src/core/rules/RuleSet.ts"
import { SharedPast } from "../../../src/core/rules/SharedPast.ts"
import { ToolAnnotations, type ToolRule, TurnState } from "../../../src/index.ts"
import { call, calls, type Handler, open, type Options, run, tags, type ToolSpec } from "../../support/Harness.ts"
import { randomFrom, type SeededRandom } from "../../support/randomCase.ts"
import { seeds } from "../../support/seeds.ts"

const names = ["a", "b", "c", "d"]

/** The kinds of rules that look at a history. */
const randomRule = ({ chance, int, pick }: SeededRandom): ToolRule.ToolRule => {
  const tool = chance(0.2) ? "*" : pick(names)
  const [one, other] = [pick(names), pick(names)]
  switch (int(8)) {
    case 0:
      return { _tag: "StartConstraint", tool: one, ...(chance(0.5) ? { mode: "any" as const } : {}) }
    case 1:
      return { _tag: "RequiresPrecedingTools", tool, tools: [one] }
    case 2:
      return { _tag: "RequiresFollowingTools", tool, tools: [one] }
    case 3:
      return { _tag: "ChildTools", tool, children: [one, other] }
    case 4:
      return { _tag: "ParentTools", tool: one, children: [other] }
    case 5:
      return {
        _tag: "Conditional",
        tool,
        path: "kind",
        cases: [{ equals: 0, tool: one }, { equals: { deep: [1] }, tool: other }],
        ...(chance(0.3) ? { default: pick(names) } : chance(0.3) ? { strict: true } : {})
      }
    case 6:
      return { _tag: "ExitLoop", tool: one }
    default:
      return {
        _tag: "RequiredBeforeExit",
        tool: one,
        scope: pick(["process", "batch"]),
        ...(chance(0.5) ? { when: [other] } : {})
      }
  }
}

const overJson = (state: TurnState.TurnState): TurnState.TurnState =>
  Schema.decodeUnknownSync(TurnState.TurnState)(JSON.parse(JSON.stringify(state)))

describe("a history that is rebuilt from its record", () => {
  /** Everything that a set says of a history. */
  const said = (set: RuleSet.RuleSet, history: RuleHistory) => {
    const wave = history.begin()
    const before = history.before(set, wave, 0)
    const all = {
      checks: names.map((tool) => RuleSet.check(set, before, { tool })),
      last: RuleSet.forcedNext(set, history),
      allowed: RuleSet.allowedNext(set, history),
      starts: RuleSet.startPending(set, history),
      exits: RuleSet.exitPending(set, history),
      awaited: names.map((tool) => RuleSet.isAwaited(set, history, tool)),
      shouldExit: history.shouldExit(set),
      exitWanted: history.exitWanted
    }
    history.end(wave)
    return all
  }

  /** One wave, whose calls end in any order. */
  const randomWave = ({ chance, int, pick }: SeededRandom) => ({
    asked: chance(0.5),
    successes: Array.from({ length: int(4) }, () => ({
      index: int(10),
      tool: pick(names),
      output: { kind: pick<unknown>([0, 1, { deep: [1] }]) }
    }))
  })
  type Wave = ReturnType<typeof randomWave>

  const runs = (set: RuleSet.RuleSet, history: RuleHistory, { asked, successes }: Wave): boolean => {
    const wave = history.begin()
    for (const { index, output, tool } of successes) history.record(set, wave, index, tool, output)
    history.end(wave)
    return history.conclude(set, { asked, heartbeats: true, attempts: 2 })
  }

  it("says the same of every call, then and after whatever comes next", { tags: ["S2"] }, () => {
    for (const seed of seeds(2_000)) {
      const random = randomFrom(seed)
      const set = RuleSet.make(Array.from({ length: 1 + random.int(5) }, () => randomRule(random)), names)
      // the batch has other processes, too
      const batch = new SharedPast()
      if (random.chance(0.3)) batch.succeeded.add(random.pick(names))
      const first = new RuleHistory(batch, new SharedPast())
      for (let wave = random.int(4); wave > 0; wave--) runs(set, first, randomWave(random))
      // waves that are under way have successes, too
      for (let open = random.int(3); open > 0; open--) {
        const wave = first.begin()
        for (const { index, output, tool } of randomWave(random).successes) first.record(set, wave, index, tool, output)
      }
      const { rules } = overJson({ rules: first.state, blocked: [], calls: 0 })
      const second = new RuleHistory(new SharedPast(), new SharedPast(), rules)
      assert.deepStrictEqual(second.state, first.state, `seed ${seed}`)
      for (let wave = 0; wave < 4; wave++) {
        assert.deepStrictEqual(said(set, second), said(set, first), `seed ${seed}, wave ${wave}`)
        const next = randomWave(random)
        assert.strictEqual(runs(set, second, next), runs(set, first, next), `seed ${seed}, end of wave ${wave}`)
      }
    }
  })
})

describe("a process that is begun from the state of another one", () => {
  const tools: Record<string, ToolSpec | Handler> = {
    connect: () => Effect.succeed({ kind: "rows" }),
    query: () => Effect.succeed("rows"),
    count: () => Effect.succeed(3),
    disconnect: () => Effect.void,
    broken: {
      handler: () => Effect.fail("no"),
      annotate: (tool) => tool.annotate(ToolAnnotations.IsRetryable, () => false)
    }
  }
  const options: Options = {
    rules: [
      { _tag: "StartConstraint", tool: "connect" },
      { _tag: "Conditional", tool: "connect", path: "kind", cases: [{ equals: "rows", tool: "broken" }] },
      { _tag: "RequiresPrecedingTools", tool: "count", tools: ["query"] },
      { _tag: "ExitLoop", tool: "disconnect" }
    ],
    turn: { maxCalls: 4 },
    dedupe: false
  }
  const recorded = run(tools, options, ({ process }) =>
    Effect.gen(function*() {
      assert.deepStrictEqual(tags(yield* process.executeWave(calls("connect", "broken"))), ["Succeeded", "Failed"])
      return yield* process.state
    }))
  /** Another program, which has nothing but the record. */
  const resumed = Effect.fnUntraced(function*(state: TurnState.TurnState) {
    const { executor } = yield* open(tools, options)
    return yield* executor.process({ state })
  })

  it.effect("has its order, its blocked tools and its calls", () =>
    Effect.gen(function*() {
      const state = overJson(yield* recorded)
      assert.deepStrictEqual(state.blocked.map((it) => it.tool), ["broken"])
      assert.strictEqual(state.calls, 2)
      const process = yield* resumed(state)
      assert.deepStrictEqual(yield* process.startPending, [])
      // the last success is what says what may come next
      assert.deepStrictEqual(tags(yield* process.executeWave(calls("query"))), ["RuleViolation"])
      assert.deepStrictEqual(tags(yield* process.executeWave(calls("broken"))), ["ToolBlocked"])
      assert.deepStrictEqual(yield* process.state, state)
    }).pipe(Effect.scoped), { tags: ["S2"] })

  it.effect("has the calls that its turn has left", () =>
    Effect.gen(function*() {
      const state = yield* recorded
      const process = yield* resumed({ ...state, rules: { ...state.rules, last: { tool: "connect", routes: [] } } })
      const wave = yield* process.executeWave(calls("query", "query", "query"))
      assert.deepStrictEqual(tags(wave), ["Succeeded", "Succeeded", "CallBudgetExhausted"])
      assert.strictEqual((yield* process.state).calls, 4)
    }).pipe(Effect.scoped))

  it.effect("tells its batch what succeeded in it before", () => {
    const rules = [
      { _tag: "ExitLoop", tool: "disconnect" },
      { _tag: "RequiredBeforeExit", tool: "count", scope: "batch" }
    ] as const
    return run(tools, { rules }, ({ batch, executor, process }) =>
      Effect.gen(function*() {
        yield* process.executeWave(calls("count"))
        const state = overJson(yield* (yield* batch.process()).state)
        assert.deepStrictEqual(state.rules.succeeded, [])
        const next = yield* executor.process({ state })
        assert.isTrue((yield* next.executeWave([call("2", "disconnect", {})])).shouldExit)
        const fresh = yield* executor.process()
        assert.isFalse((yield* fresh.executeWave([call("3", "disconnect", {})])).shouldExit)
      }))
  })

  it.effect("counts the calls that are under way, and remembers nothing else of them", () =>
    run({ slow: () => Effect.sleep("1 second") }, {}, ({ process }) =>
      Effect.gen(function*() {
        const wave = yield* Effect.forkChild(process.executeWave(calls("slow", "slow")), { startImmediately: true })
        assert.deepInclude(yield* process.state, { calls: 2, blocked: [] })
        assert.deepStrictEqual((yield* process.state).rules.succeeded, [])
        yield* Fiber.join(wave)
        assert.deepStrictEqual((yield* process.state).rules.succeeded, ["slow"])
      })))

  it.effect("fails where the state is none, with what is wrong", () =>
    run(tools, options, ({ batch, executor }) =>
      Effect.gen(function*() {
        const state = {
          rules: { succeeded: [1] },
          blocked: [],
          calls: -1,
          more: true
        } as unknown as TurnState.TurnState
        for (const process of [executor.process({ state }), batch.process({ state })]) {
          const error = yield* Effect.flip(process)
          assert.strictEqual(error.subject, "ToolExecutor.process")
          assert.includeMembers(error.problems.map((it) => it.path), [
            "state.rules.succeeded[0]",
            "state.rules.held",
            "state.calls",
            "state.more"
          ])
        }
      })))
})
