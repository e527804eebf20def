/**
 * Random rule sets against random work: the gates beside a model of the rules
 * in plain code, and what must hold whatever overlaps, fails or is stopped.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Stream from "effect/Stream"
import * as RuleSet from "../../../src/core/rules/RuleSet.ts"
import { ToolCall, type ToolOutcome, type ToolProcess, type ToolRule } from "../../../src/index.ts"
import * as VirtualTime from "../../../src/testing/VirtualTime.ts"
import { type Options, run, type ToolSpec } from "../../support/Harness.ts"
import { randomFrom, recordingStore, type SeededRandom } from "../../support/randomCase.ts"
import { seeds, timeout } from "../../support/seeds.ts"

const names = ["a", "b", "c", "d", "e"]
const known = new Map(names.map((name) => [name, {}]))

const randomRule = ({ chance, int, pick }: SeededRandom): ToolRule.ToolRule => {
  const tool = chance(0.2) ? "*" : pick(names)
  const other = pick(names)
  switch (int(10)) {
    case 0:
      return { _tag: "StartConstraint", tool: other, ...(chance(0.5) ? { mode: "any" as const } : {}) }
    case 1:
      return { _tag: "RequiresPrecedingTools", tool, tools: [other, ...(chance(0.3) ? [pick(names)] : [])] }
    case 2:
      return { _tag: "RequiresFollowingTools", tool, tools: [other] }
    case 3:
      return { _tag: "ChildTools", tool, children: [other, pick(names)] }
    case 4:
      return { _tag: "ParentTools", tool: pick(names), children: [other] }
    case 5:
      return {
        _tag: "Conditional",
        tool: pick(names),
        path: "kind",
        cases: [{ equals: 0, tool: pick(names) }, { equals: 1, tool: pick(names) }],
        ...(chance(0.3) ? { default: pick(names) } : chance(0.3) ? { strict: true } : {})
      }
    case 6:
      return { _tag: "AllowedOperations", tool, field: "op", allowed: chance(0.5) ? ["x"] : ["x", "y"] }
    case 7:
      return { _tag: "MaxCalls", tool, max: int(4) }
    case 8:
      return { _tag: "ExclusiveGroup", tools: [other, pick(names), pick(names)] }
    default:
      return { _tag: "Cooldown", tool, duration: `${1 + int(60)} millis` }
  }
}

/** A rule set without problems. */
const randomRules = (random: SeededRandom): ReadonlyArray<ToolRule.ToolRule> => {
  for (;;) {
    const rules = Array.from({ length: random.int(6) }, () => randomRule(random))
    if (RuleSet.problems(rules, known).length === 0) return rules
  }
}

/** What became of a call, as the model remembers it. */
interface Past {
  readonly process: string
  readonly batch: string
  readonly tool: string
  readonly started: boolean
  readonly succeeded: boolean
  readonly kind: unknown
  readonly end: number
}

interface Asked {
  readonly process: string
  readonly batch: string
  readonly tool: string
  readonly op: unknown
  readonly now: number
}

/** The rules in plain code: every rule that forbids the call, by gate. */
const forbids = (rules: ReadonlyArray<ToolRule.ToolRule>, past: ReadonlyArray<Past>, call: Asked) => {
  const successes = past.filter((it) => it.process === call.process && it.succeeded)
  const done = (tool: string) => successes.some((it) => it.tool === tool)
  const last = successes.at(-1)
  const isSubject = (tool: string, name: string) => tool === "*" || tool === name
  const inBatch = past.filter((it) => it.batch === call.batch && it.started)
  const starts = rules.flatMap((rule) => rule._tag === "StartConstraint" ? [rule] : [])
  const isStart = starts.some((rule) => rule.tool === call.tool)
  const parents = rules.flatMap((rule) =>
    rule._tag === "ParentTools" && rule.children.includes(call.tool) ? [rule.tool] : []
  )
  const breaks = (rule: ToolRule.ToolRule): boolean => {
    switch (rule._tag) {
      case "StartConstraint":
        if (isStart) return false
        return rule.mode === "any"
          ? !starts.some((it) => it.mode === "any" && done(it.tool))
          : !done(rule.tool)
      case "RequiresPrecedingTools":
        if (rule.tool === "*" ? rule.tools.includes(call.tool) : rule.tool !== call.tool) return false
        return !rule.tools.every(done)
      case "RequiresFollowingTools":
        return isSubject(rule.tool, call.tool) && rule.tools.some(done)
      case "ChildTools":
        return last !== undefined && isSubject(rule.tool, last.tool) && !rule.children.includes(call.tool)
      case "ParentTools": {
        const misplaced = rule.children.includes(call.tool) &&
          !parents.some((it) => last !== undefined && isSubject(it, last.tool))
        return misplaced ||
          (last !== undefined && isSubject(rule.tool, last.tool) && !rule.children.includes(call.tool))
      }
      case "Conditional": {
        if (last === undefined || !isSubject(rule.tool, last.tool)) return false
        const next = rule.cases.find((it) => it.equals === last.kind)?.tool ?? rule.default
        return next === undefined ? rule.strict === true : next !== call.tool
      }
      case "AllowedOperations":
        if (!isSubject(rule.tool, call.tool) || (rule.tool === "*" && call.op === undefined)) return false
        return !rule.allowed.includes(call.op as string)
      case "MaxCalls":
        return isSubject(rule.tool, call.tool) && inBatch.filter((it) => it.tool === call.tool).length >= rule.max
      case "ExclusiveGroup":
        return rule.tools.includes(call.tool) &&
          inBatch.some((it) => rule.tools.includes(it.tool) && it.tool !== call.tool)
      case "Cooldown": {
        const ended = past.findLast((it) => it.tool === call.tool && it.started)?.end
        return isSubject(rule.tool, call.tool) && ended !== undefined &&
          call.now - ended < Number.parseInt(rule.duration)
      }
      default:
        return false
    }
  }
  const gateOf = ({ _tag }: ToolRule.ToolRule) =>
    _tag === "Cooldown" ? 11 : _tag === "MaxCalls" || _tag === "ExclusiveGroup" ? 10 : 9
  const broken = rules.filter(breaks)
  const gate = Math.min(...broken.map(gateOf))
  return broken.filter((rule) => gateOf(rule) === gate)
}

const act = ({ millis, will, kind }: Record<string, unknown>): Effect.Effect<unknown, unknown> => {
  const then = will === "fail" ? Effect.fail("no") : will === "die" ? Effect.die("no") : Effect.succeed({ kind })
  return will === "hang" ? Effect.never : Effect.andThen(Effect.sleep(Number(millis)), then)
}

describe("random rule sets", () => {
  const agrees = (seed: number) => {
    const random = randomFrom(seed)
    const { chance, int, pick } = random
    const rules = randomRules(random)
    const options: Options = { rules, dedupe: false, executionTimeout: 40, mode: pick(["sequential", "classes"]) }
    const tools = Object.fromEntries(
      names.map((name): [string, ToolSpec] => [name, { class: "SerialMut", handler: act }])
    )
    return run(tools, options, ({ executor }) =>
      Effect.gen(function*() {
        const past: Array<Past> = []
        const batches = [yield* executor.batch(), yield* executor.batch()]
        const processes: Array<ToolProcess.ToolProcess> = []
        for (const batch of batches) processes.push(yield* batch.process(), yield* batch.process())
        for (let wave = 0; wave < 12; wave++) {
          const process = pick(processes)
          const calls = Array.from({ length: 1 + int(4) }, (_, n) =>
            ToolCall.make(`${wave}.${n}`, pick(names), {
              will: pick(["do", "do", "do", "do", "fail", "die", "hang"]),
              millis: int(30),
              kind: int(3),
              ...(chance(0.6) ? { op: pick(["x", "y", "z"]) } : {})
            }))
          const { outcomes } = yield* process.executeWave(calls)
          for (const [index, outcome] of outcomes.entries()) {
            const { kind, op } = calls[index]!.params as { readonly kind: unknown; readonly op?: unknown }
            const before = outcomes[index - 1]
            // calls go one by one: each is asked about when the one before it ends
            const now = outcome.startedAt ?? (before === undefined ? outcome.queuedAt : past.at(-1)!.end)
            const where = { process: process.id, batch: process.batch, tool: outcome.tool }
            const broken = forbids(rules, past, { ...where, op, now })
            const at = `seed ${seed}, call ${outcome.callId}`
            if (outcome._tag === "Denied" && outcome.reason._tag === "RuleViolation") {
              assert.deepInclude(broken, outcome.reason.rule, at)
              assert.isNotEmpty(outcome.reason.sentence)
            } else assert.deepStrictEqual(broken, [], at)
            const end = outcome.startedAt === undefined ? now : outcome.startedAt + outcome.duration!
            past.push({
              ...where,
              started: outcome.startedAt !== undefined,
              succeeded: outcome._tag === "Succeeded",
              kind,
              end
            })
          }
          if (chance(0.5)) yield* Effect.sleep(int(50))
          const { allowedNext } = RuleSet
          const history = RuleSet.history(
            RuleSet.make(rules, names),
            past.filter((it) => it.process === process.id && it.succeeded).map(({ kind, tool }) => ({
              tool,
              output: { kind }
            }))
          )
          const here = { process: process.id, batch: process.batch, op: undefined, now: yield* VirtualTime.now }
          const expected = names.filter((tool) =>
            forbids(rules.filter((rule) => rule._tag !== "AllowedOperations"), past, { ...here, tool }).length === 0
          )
          assert.deepStrictEqual(yield* process.allowedNext, expected, `seed ${seed}, what may come next`)
          for (const tool of expected) assert.include(allowedNext(RuleSet.make(rules, names), history), tool)
        }
      }))
  }

  it.effect("are enforced as a model in plain code has them, call by call", () =>
    Effect.gen(function*() {
      for (const seed of seeds(400)) yield* Effect.orDie(agrees(seed))
    }), timeout)

  interface Run {
    readonly process: string
    readonly batch: string
    readonly tool: string
    readonly at: number
    end: number
  }

  /** Everything at once: waves side by side, failures, deaf handlers, cancellation, interruption. */
  const holds = (seed: number) => {
    const random = randomFrom(seed)
    const { chance, int, pick } = random
    const rules = randomRules(random)
    const { mistakes, states, store } = recordingStore()
    const runs: Array<Run> = []
    const successes: Array<{ readonly process: string; readonly tool: string; readonly at: number }> = []
    const tools = Object.fromEntries(names.map((name): [string, ToolSpec] => [name, {
      class: pick(["ReadOnly", "ReadOnly", "ConcurrentMut", "SerialMut"]),
      handler: (params) =>
        Effect.gen(function*() {
          const { batch, process } = params as { readonly batch: string; readonly process: string }
          runs.push({ process, batch, tool: name, at: yield* VirtualTime.now, end: Infinity })
          return yield* params.deaf === true
            ? Effect.uninterruptible(act({ ...params, will: "do", millis: 100 }))
            : act(params)
        })
    }]))
    const options: Options = {
      rules,
      store,
      executionTimeout: 40,
      cleanupGrace: 20,
      mode: pick(["classes", "parallel", "sequential"]),
      pools: { read: 1 + int(4), concurrent: 1 + int(3) },
      dedupe: pick<Options["dedupe"]>([false, {}, { inFlight: "join", onDuplicate: "replay" }])
    }
    return run(tools, options, ({ executor }) =>
      Effect.gen(function*() {
        const batches = [yield* executor.batch(), yield* executor.batch()]
        const waves: Array<Fiber.Fiber<void>> = []
        for (let wave = 0; wave < 8; wave++) {
          const batch = pick(batches)
          const process = yield* batch.process()
          const again = 1 + int(2)
          const calls = () =>
            Array.from({ length: 1 + int(6) }, () =>
              ToolCall.make(String(int(30)), pick(names), {
                process: process.id,
                batch: batch.id,
                will: pick(["do", "do", "do", "fail", "die", "hang"]),
                millis: int(30),
                kind: int(3),
                op: "x",
                deaf: chance(0.1)
              }))
          const play = Effect.gen(function*() {
            for (let n = 0; n < again; n++) yield* process.executeWave(calls())
          })
          const note = (outcome: ToolOutcome.ToolOutcome, at: number) => {
            if (outcome._tag === "Succeeded") successes.push({ process: process.id, tool: outcome.tool, at })
            if (outcome.startedAt === undefined || ("replayOf" in outcome && outcome.replayOf !== undefined)) return
            const own = runs.find((it) =>
              it.process === process.id && it.tool === outcome.tool && it.at === outcome.startedAt &&
              it.end === Infinity
            )
            if (own !== undefined) own.end = outcome.startedAt + outcome.duration!
          }
          const observe = Stream.runForEach(
            process.events,
            (event) => Effect.sync(() => event._tag === "ToolCallComplete" ? note(event.outcome, event.at) : undefined)
          )
          yield* Effect.forkChild(observe, { startImmediately: true })
          const fiber = yield* Effect.forkChild(play, { startImmediately: true })
          waves.push(fiber)
          const later = (effect: Effect.Effect<unknown>) =>
            Effect.forkChild(Effect.andThen(Effect.sleep(int(50)), effect))
          if (chance(0.2)) yield* later(process.cancelCall(String(int(30))))
          if (chance(0.1)) yield* later(process.cancel("enough"))
          if (chance(0.2)) yield* later(Fiber.interrupt(fiber))
          if (chance(0.5)) yield* Fiber.await(fiber)
          if (chance(0.3)) yield* Effect.sleep(int(40))
        }
        yield* Effect.forEach(waves, (fiber) => Fiber.await(fiber))
        yield* Effect.sleep("1 second")
        const at = `seed ${seed}`
        assert.deepStrictEqual(mistakes, [], at)
        assert.notInclude(Array.from(states.values()), "open", at)
        assert.notInclude(Array.from(states.values()), "running", at)
        for (const { at: start, process, tool } of runs) {
          const before = (name: string) =>
            successes.some((it) => it.process === process && it.tool === name && it.at <= start)
          const longBefore = (name: string) =>
            successes.some((it) => it.process === process && it.tool === name && it.at < start)
          const isStart = rules.some((rule) => rule._tag === "StartConstraint" && rule.tool === tool)
          const broken = rules.filter((rule) => {
            if (rule._tag === "StartConstraint") return !isStart && rule.mode !== "any" && !before(rule.tool)
            if (rule._tag === "RequiresFollowingTools") {
              return (rule.tool === "*" || rule.tool === tool) && rule.tools.some(longBefore)
            }
            if (rule._tag !== "RequiresPrecedingTools") return false
            const concerns = rule.tool === "*" ? !rule.tools.includes(tool) : rule.tool === tool
            return concerns && !rule.tools.every(before)
          })
          assert.deepStrictEqual(broken, [], `${at}, ${tool} at ${start}`)
        }
        for (const rule of rules) {
          for (const tool of names) {
            for (const { id } of batches) {
              const there = runs.filter((it) => it.batch === id)
              if (rule._tag === "MaxCalls" && (rule.tool === "*" || rule.tool === tool)) {
                assert.isAtMost(there.filter((it) => it.tool === tool).length, rule.max, at)
              }
              if (rule._tag === "ExclusiveGroup") {
                const used = new Set(there.filter((it) => rule.tools.includes(it.tool)).map((it) => it.tool))
                assert.isAtMost(used.size, 1, at)
              }
            }
            if (rule._tag !== "Cooldown" || (rule.tool !== "*" && rule.tool !== tool)) continue
            const own = runs.filter((it) => it.tool === tool).toSorted((x, y) => x.at - y.at)
            own.slice(1).forEach((next, index) =>
              assert.isAtLeast(
                next.at - own[index]!.end,
                Number.parseInt(rule.duration),
                `${at}, ${tool} at ${next.at}`
              )
            )
          }
        }
      }))
  }

  it.effect("hold whatever overlaps, fails or is stopped", () =>
    Effect.gen(function*() {
      for (const seed of seeds(400)) yield* Effect.orDie(holds(seed))
    }), { tags: ["R4"], timeout })
})
