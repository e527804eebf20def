/**
 * Random waves and agents that die at a random entry of their record and are resumed:
 * their outcomes are those of the same run without a death, except where the contract
 * names a difference.
 */
import type { ToolRule } from "effect-tool-executor"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Scenario from "../../src/testing/Scenario.ts"
import * as ScenarioRunner from "../../src/testing/ScenarioRunner.ts"
import { randomFrom, type SeededRandom } from "./randomCase.ts"

/** Tools by what becomes of one of their calls that had started: those that are not here may be `Unknown`. */
const runsAgain: ReadonlySet<string> = new Set(["read", "look", "safe", "keyed", "asked", "fails"])

const tools = {
  read: { class: "ReadOnly", takes: "20 millis", returns: "text" },
  look: { class: "ReadOnly", takes: "10 millis", returns: { kind: 1 } },
  safe: { promoted: true, takes: "20 millis", idempotent: true, returns: 1 },
  keyed: { takes: "10 millis", usesIdempotencyKey: true, returns: { kind: 0 } },
  asked: { takes: "10 millis", idempotent: true, needsApproval: true },
  fails: { promoted: true, takes: "10 millis", idempotent: true, fails: "no" },
  plain: { takes: "10 millis" },
  wide: { promoted: true, takes: "30 millis" },
  told: { takes: "10 millis", reconcile: { happened: null } },
  never: {}
}

const names = Object.keys(tools)

const randomRule = ({ chance, int, pick }: SeededRandom): ToolRule.ToolRule => {
  const one = () => pick(names)
  const other = (tool: string) => pick(names.filter((it) => it !== tool))
  const tool = one()
  const scoped = chance(0.6) ? {} : { scope: pick(["process", "batch", "session"] as const) }
  switch (int(9)) {
    case 0:
      return { _tag: "StartConstraint", tool, ...scoped }
    case 1:
    case 2:
      return { _tag: "RequiresPrecedingTools", tool, tools: [other(tool)], ...scoped }
    case 3:
      return { _tag: "RequiresFollowingTools", tool, tools: [other(tool)], ...scoped }
    case 4:
      return chance(0.5)
        ? { _tag: "ChildTools", tool, children: [other(tool), one(), one()], ...scoped }
        : { _tag: "ParentTools", tool, children: [other(tool)], ...scoped }
    case 5:
      return { _tag: "MaxCalls", tool, max: 1 + int(2), ...scoped }
    case 6:
      return { _tag: "ExclusiveGroup", tools: [tool, other(tool)], ...scoped }
    case 7:
      return { _tag: "Cooldown", tool, duration: "1 hour", ...scoped }
    default:
      return { _tag: "RequiresConsent", tool }
  }
}

/** What a world runs. */
interface World {
  readonly isAgent: boolean
  /** The steps before the one that dies, that one, and the one that goes on. */
  readonly scenario: (crash: number | undefined) => unknown
}

/** A world in which something happens, from a seed. */
const worldOf = (seed: number): World => {
  const random = randomFrom(seed)
  const { chance, int, pick } = random
  const rules = Array.from({ length: int(4) }, () => randomRule(random))
  let last = 0
  const wave = () =>
    Array.from({ length: 1 + int(5) }, () => ({
      id: `c${++last}`,
      name: pick(names),
      params: chance(0.2) ? {} : { n: last }
    }))
  const waves = Array.from({ length: 1 + int(3) }, wave)
  const isAgent = chance(0.35)
  const common = {
    name: `seed ${seed}`,
    tools,
    rules,
    policy: { default: "allow", deny: ["never"], ask: chance(0.4) ? [pick(names)] : [] },
    config: {
      mode: pick(["classes", "classes", "sequential"]),
      onExecutionError: pick(["continue", "continue", "stop"]),
      approval: pick(["perCall", "upfront"]),
      dedupe: pick([
        {},
        false,
        { onDuplicate: "replay" },
        { inFlight: "join" }
      ])
    },
    answers: names.flatMap((tool, index) =>
      Array.from({ length: 30 }, () => ({
        tool,
        after: pick(["0 millis", "15 millis"]),
        answer: { _tag: (index + seed) % 4 === 0 ? "Deny" : "ApproveOnce" }
      }))
    )
  }
  const agent = {
    prompt: "go",
    session: "s",
    mode: "Interactive",
    model: [...waves.map((calls) => ({ calls })), { text: "done" }]
  }
  return {
    isAgent,
    scenario: (crash) => ({
      ...common,
      // what it had reserved is held for longer than that
      config: crash === 0 ? { ...common.config, lease: "1 hour" } : common.config,
      script: [
        ...isAgent ? [] : waves.slice(0, -1).map((it) => ({ wave: it })),
        ...crash === undefined ? [] : [{ crash }],
        isAgent ? { agent } : { wave: waves.at(-1)! },
        ...crash === undefined ? [] : [{ resume: true }]
      ]
    })
  }
}

/** What is compared of an outcome. */
const shapeOf = ({ outcome }: ScenarioRunner.TimedOutcome): string =>
  JSON.stringify([
    outcome.callId,
    outcome._tag,
    ...outcome._tag === "Denied" ? [outcome.reason._tag] : [],
    ...outcome._tag === "Denied" && outcome.reason._tag === "RuleViolation" ? [outcome.reason.rule._tag] : [],
    ...outcome._tag === "Succeeded" && "value" in outcome.output ? [outcome.output.value] : []
  ])

/** A death after which something was otherwise. */
export interface Found {
  readonly seed: number
  readonly crash: number
  readonly scenario: unknown
  readonly expected: ReadonlyArray<string>
  readonly got: ReadonlyArray<string>
}

/**
 * Plays the world of a seed without a death, and with one at each of so many entries;
 * undefined if its rules contradict each other.
 */
export const tried = Effect.fnUntraced(function*(
  seed: number,
  deaths: number,
  options: ScenarioRunner.Options
) {
  const { isAgent, scenario } = worldOf(seed)
  const decoded = yield* Effect.result(Scenario.decode(scenario(undefined)))
  if (Result.isFailure(decoded)) return undefined
  const whole = (yield* ScenarioRunner.run(decoded.success, options)).waves.at(-1)!.outcomes
  const random = randomFrom(seed + 1_000_003)
  const found: Array<Found> = []
  for (let left = deaths; left > 0; left--) {
    const crash = random.int(5) === 0 ? 0 : 1 + random.int(isAgent ? 40 : 20)
    const report = yield* ScenarioRunner.run(yield* Scenario.decode(scenario(crash)), options)
    // the wave was over before
    if (report.differences.some((it) => it.got === "its end")) continue
    const resumed = report.waves.at(-1)!.outcomes
    const problem = report.differences.map((it) => JSON.stringify(it))
    const isUnknown = resumed.some(({ outcome }) => outcome._tag === "Unknown")
    // what a call may have done that nobody knows of decides what comes later
    const ids = new Set(resumed.map(({ outcome }) => outcome.callId))
    // what the host calls, because rules demand it, is called anew by whoever goes on
    const isModels = ({ outcome }: ScenarioRunner.TimedOutcome) => outcome.callId.startsWith("c")
    const expected = whole.filter((it) => ids.has(it.outcome.callId) && isModels(it)).map(shapeOf)
    const got = resumed.filter(isModels).map(shapeOf)
    const wrong = resumed.filter(({ outcome }) => outcome._tag === "Unknown" && runsAgain.has(outcome.tool))
    const isSame = isUnknown ? wrong.length === 0 : JSON.stringify(got) === JSON.stringify(expected)
    if (!isSame || problem.length > 0) {
      found.push({ seed, crash, scenario: scenario(crash), expected, got: [...got, ...problem] })
    }
  }
  return found
})
