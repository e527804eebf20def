/**
 * Random rules in random scopes, beside a model of them in plain code: waves of several processes, requests and
 * conversations, in two executors over one store, which end and begin again in between.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import * as RuleSet from "../../../src/core/rules/RuleSet.ts"
import * as StateStore from "../../../src/core/store/StateStore.ts"
import { ToolCall, ToolExecutor, type ToolProcess, type ToolRule } from "../../../src/index.ts"
import * as Sqlite from "../../../src/sql/Sqlite.ts"
import * as SqlStateStore from "../../../src/sql/SqlStateStore.ts"
import { layer, type ToolSpec } from "../../support/Harness.ts"
import * as Postgres from "../../support/Postgres.ts"
import { randomFrom, type SeededRandom } from "../../support/randomCase.ts"
import { seeds, timeout } from "../../support/seeds.ts"

const names = ["a", "b", "c", "d"]
const known = new Map(names.map((name) => [name, {}]))

type Limit = "process" | "batch" | "session" | "principal"

const randomRule = ({ chance, int, pick }: SeededRandom): ToolRule.ToolRule => {
  const tool = chance(0.2) ? "*" : pick(names)
  const other = pick(names)
  const scoped = chance(0.2) ? {} : { scope: pick(["process", "batch", "session", "session"] as const) }
  switch (int(9)) {
    case 0:
      return { _tag: "StartConstraint", tool: other, ...chance(0.5) ? { mode: "any" as const } : {}, ...scoped }
    case 1:
      return { _tag: "RequiresPrecedingTools", tool, tools: [other], ...scoped }
    case 2:
      return { _tag: "RequiresFollowingTools", tool, tools: [other], ...scoped }
    case 3:
      return { _tag: "ChildTools", tool: other, children: [pick(names), pick(names)], ...scoped }
    case 4:
      return { _tag: "ParentTools", tool: pick(names), children: [other], ...scoped }
    case 5:
      return {
        _tag: "Conditional",
        tool: other,
        path: "kind",
        cases: [{ equals: 0, tool: pick(names) }, { equals: 1, tool: pick(names) }],
        ...scoped
      }
    case 6:
      return { _tag: "MaxCalls", tool, max: 1 + int(5), ...scoped }
    case 7:
      return { _tag: "ExclusiveGroup", tools: [other, pick(names)], ...scoped }
    default:
      return chance(0.5)
        ? { _tag: "Cooldown", tool: other, duration: `${1 + int(60)} millis`, ...scoped }
        : { _tag: "RequiredBeforeExit", tool: other, ...chance(0.5) ? { when: [pick(names)] } : {}, ...scoped }
  }
}

/** A rule set without problems. */
const randomRules = (random: SeededRandom): ReadonlyArray<ToolRule.ToolRule> => {
  for (;;) {
    const rules = Array.from({ length: 1 + random.int(5) }, () => randomRule(random))
    if (RuleSet.problems(rules, known).length === 0) return rules
  }
}

/** Where a call is made. */
interface Where {
  readonly process: string
  readonly batch: string
  readonly session: string
}

/** What became of a call, as the model remembers it. */
interface Past extends Where {
  readonly tool: string
  readonly started: boolean
  readonly succeeded: boolean
  readonly kind: number
  readonly end: number
}

const defaultOf = (rule: ToolRule.ToolRule): Limit =>
  rule._tag === "MaxCalls" || rule._tag === "ExclusiveGroup"
    ? "batch"
    : rule._tag === "Cooldown"
    ? "principal"
    : "process"

/** The rules in plain code. */
class Model {
  readonly rules: ReadonlyArray<ToolRule.ToolRule>
  readonly past: Array<Past> = []

  constructor(rules: ReadonlyArray<ToolRule.ToolRule>) {
    this.rules = rules
  }

  /** The past that counts for a rule. */
  private in(rule: ToolRule.ToolRule, where: Where): ReadonlyArray<Past> {
    const scope = "scope" in rule && rule.scope !== undefined ? rule.scope as Limit : defaultOf(rule)
    return scope === "principal" ? this.past : this.past.filter((it) => it[scope] === where[scope])
  }

  private succeeded(rule: ToolRule.ToolRule, where: Where, tool: string): boolean {
    return this.in(rule, where).some((it) => it.succeeded && it.tool === tool)
  }

  private last(rule: ToolRule.ToolRule, where: Where): Past | undefined {
    return this.in(rule, where).findLast((it) => it.succeeded)
  }

  /** Every rule that forbids a call now, of the first gate that does. */
  forbids(where: Where, tool: string, now: number): ReadonlyArray<ToolRule.ToolRule> {
    const gateOf = ({ _tag }: ToolRule.ToolRule) =>
      _tag === "Cooldown" ? 11 : _tag === "MaxCalls" || _tag === "ExclusiveGroup" ? 10 : 9
    const broken = this.rules.filter((rule) => this.isBroken(rule, where, tool, now))
    const gate = Math.min(...broken.map(gateOf))
    return broken.filter((rule) => gateOf(rule) === gate)
  }

  private isBroken(rule: ToolRule.ToolRule, where: Where, tool: string, now: number): boolean {
    const isSubject = "tool" in rule && (rule.tool === "*" || rule.tool === tool)
    const has = (it: string) => this.succeeded(rule, where, it)
    const last = this.last(rule, where)
    const follows = "tool" in rule && last !== undefined && (rule.tool === "*" || rule.tool === last.tool)
    switch (rule._tag) {
      case "StartConstraint": {
        const starts = this.rules.flatMap((it) => it._tag === "StartConstraint" ? [it] : [])
        if (starts.some((it) => it.tool === tool)) return false
        return rule.mode === "any"
          ? !starts.some((it) => it.mode === "any" && this.succeeded(it, where, it.tool))
          : !has(rule.tool)
      }
      case "RequiresPrecedingTools":
        return isSubject && !(rule.tool === "*" && rule.tools.includes(tool)) && !rule.tools.every(has)
      case "RequiresFollowingTools":
        return isSubject && rule.tools.some(has)
      case "ChildTools":
        return follows && !rule.children.includes(tool)
      case "ParentTools": {
        const parents = this.rules.flatMap((it) => it._tag === "ParentTools" && it.children.includes(tool) ? [it] : [])
        const isMisplaced = rule.children.includes(tool) &&
          !parents.some((it) => this.last(it, where)?.tool === it.tool)
        return isMisplaced || (follows && !rule.children.includes(tool))
      }
      case "Conditional": {
        const next = follows ? rule.cases.find((it) => it.equals === last!.kind)?.tool : undefined
        return next !== undefined && next !== tool
      }
      case "MaxCalls":
        return isSubject && this.in(rule, where).filter((it) => it.started && it.tool === tool).length >= rule.max
      case "ExclusiveGroup":
        return rule.tools.includes(tool) &&
          this.in(rule, where).some((it) => it.started && it.tool !== tool && rule.tools.includes(it.tool))
      case "Cooldown": {
        const ended = this.in(rule, where).findLast((it) => it.started && it.tool === tool)?.end
        return isSubject && ended !== undefined && now - ended < Number.parseInt(rule.duration)
      }
      default:
        return false
    }
  }

  startPending(where: Where): ReadonlyArray<string> {
    const starts = this.rules.flatMap((it) => it._tag === "StartConstraint" ? [it] : [])
    const isEnough = starts.some((it) => it.mode === "any" && this.succeeded(it, where, it.tool))
    const open = starts.filter((it) => it.mode === "any" ? !isEnough : !this.succeeded(it, where, it.tool))
    return Array.from(new Set(open.map((it) => it.tool))).toSorted()
  }

  exitPending(where: Where): ReadonlyArray<string> {
    const open = this.rules.flatMap((rule) => {
      if (rule._tag !== "RequiredBeforeExit" || this.succeeded(rule, where, rule.tool)) return []
      return rule.when?.every((it) => this.succeeded(rule, where, it)) === false ? [] : [rule.tool]
    })
    return Array.from(new Set(open)).toSorted()
  }
}

/** An executor over the store, as another OS process would have it. */
const begin = Effect.fnUntraced(function*(store: StateStore.StateStore["Service"], rules: Model["rules"]) {
  const scope = yield* Scope.make()
  const tools = Object.fromEntries(names.map((name): [string, ToolSpec] => [name, {
    class: "SerialMut",
    handler: ({ fails, kind }) => fails === true ? Effect.fail("no") : Effect.succeed({ kind })
  }]))
  const built = layer(tools, { rules, store, dedupe: false, mode: "sequential" })
  const context = yield* Layer.buildWithScope(Layer.fresh(built), scope)
  const executor = yield* Effect.provideContext(ToolExecutor.ToolExecutor, context)
  const processes = new Map<string, { readonly process: ToolProcess.ToolProcess; readonly where: Where }>()
  return { scope, executor, processes }
})

const agrees = Effect.fnUntraced(function*(seed: number, store: StateStore.StateStore["Service"]) {
  const random = randomFrom(seed)
  const { chance, int, pick } = random
  const model = new Model(randomRules(random))
  const executors = [yield* begin(store, model.rules), yield* begin(store, model.rules)]
  for (let wave = 0; wave < 14; wave++) {
    const at = int(executors.length)
    if (chance(0.15)) {
      yield* Scope.close(executors[at]!.scope, Exit.void)
      executors[at] = yield* begin(store, model.rules)
    }
    const { executor, processes, scope } = executors[at]!
    // each request belongs to one conversation; the last two conversations have no name of their own kind
    const session = pick(["s", "t"])
    const batch = `${seed} ${session} ${int(2)}`
    const key = `${batch} ${int(2)}`
    if (!processes.has(key)) {
      const entered = yield* Scope.provide(executor.batch(batch, { keep: true }), scope)
      const process = yield* entered.process({ session: `${seed} ${session}` })
      processes.set(key, { process, where: { process: process.id, batch, session } })
    }
    const { process, where } = processes.get(key)!
    yield* TestClock.adjust(1 + int(30))
    const now = yield* Effect.clockWith((clock) => clock.currentTimeMillis)
    const told = `seed ${seed}, wave ${wave}`
    const allowed = names.filter((tool) => model.forbids(where, tool, now).length === 0)
    assert.deepStrictEqual(yield* process.allowedNext, allowed, told)
    assert.deepStrictEqual((yield* process.startPending).toSorted(), model.startPending(where), told)
    assert.deepStrictEqual((yield* process.exitPending).toSorted(), model.exitPending(where), told)
    const calls = Array.from(
      { length: 1 + int(4) },
      (_, index) =>
        ToolCall.make(`${wave}.${index}`, chance(0.7) && allowed.length > 0 ? pick(allowed) : pick(names), {
          fails: chance(0.2),
          kind: int(3)
        })
    )
    const { outcomes } = yield* process.executeWave(calls)
    for (const [index, outcome] of outcomes.entries()) {
      const broken = model.forbids(where, outcome.tool, now)
      const { kind } = calls[index]!.params as { readonly kind: number }
      if (outcome._tag === "Denied") {
        const rule = outcome.reason._tag === "RuleViolation" ? outcome.reason.rule : outcome.reason
        assert.deepInclude(broken, rule, `${told}, call ${outcome.callId}`)
      } else assert.deepStrictEqual(broken, [], `${told}, call ${outcome.callId}`)
      const started = outcome.startedAt !== undefined
      model.past.push({
        ...where,
        tool: outcome.tool,
        started,
        succeeded: outcome._tag === "Succeeded",
        kind,
        end: now
      })
    }
  }
  for (const { scope } of executors) yield* Scope.close(scope, Exit.void)
})

describe("rules in random scopes", () => {
  it.effect(
    "are enforced as a model in plain code has them, over restarts and in two executors at once",
    () =>
      Effect.gen(function*() {
        for (const seed of seeds(600)) yield* agrees(seed, StateStore.makeMemory())
      }),
    { tags: ["R10"], timeout }
  )

  const overSqlite = SqlStateStore.layer().pipe(Layer.provide(Sqlite.layer({ filename: ":memory:" })))

  it.effect("and in the same way over SQLite", () =>
    Effect.gen(function*() {
      const store = yield* StateStore.StateStore
      for (const seed of seeds(40)) yield* agrees(seed, store)
    }).pipe(Effect.provide(overSqlite)), timeout)

  it.effect(
    "and over PostgreSQL",
    () =>
      Effect.gen(function*() {
        const store = yield* StateStore.StateStore
        for (const seed of seeds(20)) yield* agrees(seed, store)
      }).pipe(
        Effect.provide(SqlStateStore.layer().pipe(Layer.provide(Postgres.client), Layer.provide(Postgres.layer)))
      ),
    { tags: ["R11"], timeout }
  )
})
