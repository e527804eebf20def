/**
 * Random waves that die at a random moment and are resumed, beside the same waves that
 * nothing happens to: their outcomes are the same.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Approvals from "../../../../src/core/gates/Approvals.ts"
import {
  Journal,
  RuleSet,
  ToolAnnotations,
  type ToolCall,
  ToolContext,
  type ToolOutcome,
  type ToolRule
} from "../../../../src/index.ts"
import * as VirtualTime from "../../../../src/testing/VirtualTime.ts"
import { call, open, type Options, type ToolSpec } from "../../../support/Harness.ts"
import { randomFrom, type SeededRandom } from "../../../support/randomCase.ts"
import { seeds, timeout } from "../../../support/seeds.ts"

const names = ["read", "look", "write", "send", "serial", "pay"]
const known = new Map(names.map((name) => [name, {}]))

const randomRule = ({ chance, int, pick }: SeededRandom): ToolRule.ToolRule => {
  const tool = chance(0.15) ? "*" : pick(names)
  const other = pick(names)
  switch (int(11)) {
    case 0:
      return { _tag: "StartConstraint", tool: other, ...(chance(0.5) ? { mode: "any" as const } : {}) }
    case 1:
    case 2:
      return { _tag: "RequiresPrecedingTools", tool, tools: [other] }
    case 3:
      return { _tag: "RequiresFollowingTools", tool, tools: [other] }
    case 4:
      return { _tag: "ChildTools", tool: pick(names), children: [other, pick(names)] }
    case 5:
      return { _tag: "ParentTools", tool: pick(names), children: [other] }
    case 6:
      return {
        _tag: "Conditional",
        tool: pick(names),
        path: "kind",
        cases: [{ equals: 0, tool: pick(names) }, { equals: 1, tool: pick(names) }],
        ...(chance(0.3) ? { default: pick(names) } : chance(0.3) ? { strict: true } : {})
      }
    case 7:
      return { _tag: "MaxCalls", tool, max: 1 + int(2) }
    case 8:
      return { _tag: "ExclusiveGroup", tools: [other, pick(names)] }
    case 9:
      return { _tag: "RequiresConsent", tool: pick(names), scope: "call" }
    default:
      return { _tag: "Cooldown", tool, duration: "1 hour" }
  }
}

const randomRules = (random: SeededRandom): ReadonlyArray<ToolRule.ToolRule> => {
  for (;;) {
    const rules = Array.from({ length: random.int(5) }, () => randomRule(random))
    if (RuleSet.problems(rules, known).length === 0) return rules
  }
}

/** What a call does, by its arguments: the same in every life. */
interface Does {
  readonly millis: number
  readonly kind: number
  readonly how: "succeeds" | "fails" | "is over" | "times out"
}

interface Case {
  /** One after the other, in one process. */
  readonly waves: ReadonlyArray<ReadonlyArray<ToolCall.ToolCall>>
  readonly options: Options
  readonly answers: ReadonlyMap<string, { readonly tag: "ApproveOnce" | "Deny"; readonly millis: number }>
}

const randomCase = (random: SeededRandom, count: number): Case => {
  const { chance, int, pick } = random
  const does = (): Does => ({
    millis: pick([0, 3, 7, 11, 19]),
    kind: int(3),
    how: chance(0.75) ? "succeeds" : pick(["fails", "is over", "times out"])
  })
  let ids = 0
  const waveOf = () =>
    Array.from(
      { length: (count === 1 ? 2 : 1) + int(count === 1 ? 6 : 3) },
      (_, index) => {
        const id = String(++ids)
        // keys of equal calls of earlier waves are the state store's
        const about = count === 1 ? {} : { n: index + 100 * ids }
        const does_ = chance(0.25) ? { millis: 3, kind: 0, how: "succeeds" } : does()
        return call(id, chance(0.03) ? "nothing" : pick(names), { ...does_, ...about })
      }
    )
  const waves = Array.from({ length: count }, waveOf)
  return {
    waves,
    options: {
      mode: pick(["classes", "classes", "classes", "parallel", "sequential"]),
      onExecutionError: chance(0.35) ? "stop" : "continue",
      approval: chance(0.4) ? "upfront" : "perCall",
      rules: randomRules(random),
      ...(chance(0.25) ? { turn: { maxCalls: 1 + int(4) } } : {}),
      ...(chance(0.4)
        ? { dedupe: { onDuplicate: pick(["reject", "replay"]), inFlight: pick(["reject", "join"]) } }
        : {}),
      policy: {
        default: "allow",
        ...(chance(0.5) ? { ask: [pick(names)] } : {}),
        ...(chance(0.1) ? { deny: [pick(names)] } : {})
      },
      tools: Object.fromEntries(names.map((name) => [name, { timeout: "50 millis" }]))
    },
    answers: new Map(
      waves.flat().map(({ id }) => [id, { tag: chance(0.75) ? "ApproveOnce" : "Deny", millis: pick([1, 5, 13]) }])
    )
  }
}

/** One life of the program: it hands over the waves, or resumes the one that has no end and goes on behind it. */
const live = Effect.fnUntraced(function*(
  { answers, options, waves }: Case,
  entries: ReadonlyArray<Journal.JournalEntry> | undefined,
  happened: (id: string) => boolean,
  asked: Array<string>
): Effect.fn.Return<
  { readonly outcomes: ReadonlyArray<ToolOutcome.ToolOutcome>; readonly entries: ReadonlyArray<Journal.JournalEntry> },
  never,
  Scope.Scope
> {
  const journal = Context.get(
    yield* Effect.orDie(Layer.build(Layer.fresh(Journal.layerMemory({ entries: entries ?? [] })))),
    Journal.Journal
  )
  const approvals = yield* Effect.orDie(Approvals.make({ timeout: "1 hour" }))
  yield* Effect.forkScoped(Stream.runForEach(approvals.changes, (change) => {
    if (change._tag === "Ended") return Effect.void
    const { callId, id } = change.request
    asked.push(callId)
    const { millis, tag } = answers.get(callId)!
    return Effect.forkDetach(
      Effect.andThen(Effect.sleep(millis), Effect.ignore(approvals.answer(id, { _tag: tag })))
    )
  }))
  yield* Effect.yieldNow
  const does = (params: object): Effect.Effect<unknown, unknown> => {
    const { how, kind, millis } = params as Does
    const after = Effect.sleep(how === "times out" ? 1_000 : millis)
    return Effect.andThen(
      after,
      how === "succeeds" ? Effect.succeed({ kind }) : Effect.fail(how === "fails" ? "no" : { over: true })
    )
  }
  const spec = (kind: ToolSpec["class"], annotate?: (tool: Tool.Any) => Tool.Any): ToolSpec => ({
    class: kind!,
    handler: (params) => Effect.andThen(ToolContext.ToolContext, does(params)),
    annotate: (tool) =>
      (annotate ?? ((it: Tool.Any) => it))(
        tool.annotate(ToolAnnotations.IsRetryable, (error: unknown) => error === "no")
      )
  })
  const reconciling = (tool: Tool.Any) =>
    tool.annotate(ToolAnnotations.Reconcile, (params: unknown, { callId }: ToolAnnotations.Earlier) =>
      Effect.succeed(
        happened(callId) && (params as Does).how === "succeeds"
          ? { _tag: "Happened" as const, result: { kind: (params as Does).kind } }
          : { _tag: "DidNotHappen" as const }
      ))
  const idempotent = (tool: Tool.Any) => tool.annotate(Tool.Idempotent, true)
  const { executor } = yield* open({
    read: spec("ReadOnly"),
    look: spec("ReadOnly"),
    write: spec("ConcurrentMut", idempotent),
    send: spec("ConcurrentMut", reconciling),
    serial: spec("SerialMut", idempotent),
    pay: spec("SerialMut", reconciling)
  }, { ...options, journal, approvals })
  const process = yield* executor.process({ batch: "b", ...(waves.length === 1 ? {} : { id: "p" }) })
  const outcomes: Array<ToolOutcome.ToolOutcome> = []
  const from = entries === undefined ? 0 : openOf(waves, entries)
  for (const [index, wave] of waves.entries()) {
    if (index < from) continue
    const isResumed = entries !== undefined && index === from
    const result = yield* isResumed ? Effect.orDie(process.resume(wave)) : process.executeWave(wave)
    outcomes.push(...result.outcomes)
    yield* Effect.sleep(1)
  }
  const all = yield* Effect.orDie(Stream.runCollect(journal.read({})))
  return { outcomes, entries: all.map(({ entry }) => entry) }
})

/** The first wave that has calls without an end, or the last one. */
const openOf = (waves: Case["waves"], entries: ReadonlyArray<Journal.JournalEntry>): number => {
  const ended = new Set(entries.flatMap((it) => it._tag === "Settled" ? [it.callId] : []))
  const open = waves.findIndex((wave) => wave.some(({ id }) => !ended.has(id)))
  return open === -1 ? waves.length - 1 : open
}

/** What is compared of an outcome: not when, nor how often. */
const told = (outcome: ToolOutcome.ToolOutcome): string => {
  switch (outcome._tag) {
    case "Denied": {
      const {
        changedSince: _c,
        endedMillisAgo: _e,
        remainingMillis: _m,
        retryAfterMillis: _a,
        runsAgain: _w,
        running: _r,
        ...reason
      } = outcome.reason as { readonly [key: string]: unknown }
      return JSON.stringify({ _tag: outcome._tag, reason })
    }
    case "Succeeded":
      return JSON.stringify([outcome._tag, outcome.output])
    case "Failed":
      return JSON.stringify([outcome._tag, outcome.error])
    case "Cancelled":
      return JSON.stringify([outcome._tag, outcome.reason])
    default:
      return outcome._tag
  }
}

/** Whoever knows more of how calls end asks up front about others: a person may have refused what a rule refuses, too. */
const isRefused = (outcome: ToolOutcome.ToolOutcome): boolean =>
  outcome._tag === "Denied" && (outcome.reason._tag === "PermissionDenied" || outcome.reason._tag === "RuleViolation")

/** Lets waves die at two moments, one after the other; gives what differs. */
const dies = Effect.fnUntraced(function*(seed: number, count: number) {
  const random = randomFrom(seed)
  const world = randomCase(random, count)
  const asked: Array<string> = []
  const whole = yield* Effect.scoped(live(world, undefined, () => false, asked))
  const problems: Array<string> = []
  for (let life = 0; life < 4; life++) {
    // what a tool says that happened is known at once: those that ran beside it would find it over before they start
    const isKnown = world.options.mode !== "parallel"
    const happened = new Set(world.waves.flat().filter(() => random.chance(0.5) && isKnown).map(({ id }) => id))
    const first = whole.entries.slice(0, random.int(whole.entries.length + 1))
    const deaths = [first]
    for (let again = 0; again < 2; again++) {
      const before = deaths.at(-1)!
      const asked: Array<string> = []
      const resumed = yield* Effect.scoped(live(world, before, (id) => happened.has(id), asked))
      for (const outcome of resumed.outcomes) {
        const { callId } = outcome
        const before = whole.outcomes.find((it) => it.callId === callId)!
        const [one, other] = [told(before), told(outcome)]
        if (one !== other && !(world.options.approval === "upfront" && isRefused(before) && isRefused(outcome))) {
          problems.push(`${seed}, ${deaths.map((it) => it.length).join()}: ${callId} ${one} became ${other}`)
        }
      }
      const answered = before.flatMap((it) => it._tag === "Answered" && it.by === "user" ? [it.callId] : [])
      for (const id of answered) if (asked.includes(id)) problems.push(`${seed}: ${id} was asked about again`)
      const more = resumed.entries.length - before.length
      deaths.push(resumed.entries.slice(0, before.length + random.int(more + 1)))
    }
  }
  return problems.length === 0 ? problems : [
    ...problems,
    JSON.stringify({ ...world, answers: Array.from(world.answers) }),
    whole.outcomes.map(told).join(" ")
  ]
})

const holds = Effect.fnUntraced(function*(waves: number, cases: number) {
  const problems: Array<string> = []
  for (const seed of seeds(cases)) {
    problems.push(...yield* VirtualTime.run(dies(seed, waves), { limit: "1 day" }))
  }
  assert.strictEqual(problems.slice(0, 30).join("\n"), "")
})

describe("a random wave that dies", () => {
  it.effect("has the outcomes of one that does not", () => holds(1, 100), { tags: ["K3"], timeout })

  it.effect("has them behind other waves of its process, and so have those behind it", () => holds(3, 60), {
    tags: ["K3"],
    timeout
  })
})
