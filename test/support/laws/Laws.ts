/**
 * The promises of an executor as properties that hold in random runs, for a composition
 * of layers, drivers and handlers of one's own.
 *
 * Runs are in virtual time and come from a seed. What the executor's layer requires is
 * the kit's: tools that note when they really run, rules, a policy, a person who answers,
 * a store. What it brings itself holds instead, and laws that are about the kit's part
 * are not judged then; with tools of its own, their handlers are called, so they should
 * be a test's. What they do is taken from events alone.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type { ConfigurationError } from "../../../src/core/vocabulary/ConfigurationError.ts"
import type { RegisteredTool } from "../../../src/core/vocabulary/ToolHandlers.ts"
import { randomFrom, type SeededRandom } from "../../../src/testing/SeededRandom.ts"
import { Facts, type Law } from "./LawFacts.ts"
import * as LawList from "./LawList.ts"
import * as LawPlay from "./LawPlay.ts"
import * as LawRun from "./LawRun.ts"
import * as LawWorld from "./LawWorld.ts"

/**
 * How much is tried.
 *
 * @category models
 * @since 0.1.0
 */
export interface Options {
  /** The same seed tries the same runs. Default 1. */
  readonly seed?: number | undefined
  /** Random runs, if none breaks a law before. Default 50. */
  readonly runs?: number | undefined
  /** Runs that are tried to make a broken one shorter. Default 200. */
  readonly shorten?: number | undefined
  /** Names of laws that the composition breaks on purpose: `mode: "parallel"` has no runs that wait for others. */
  readonly without?: ReadonlyArray<string> | undefined
  /** Arguments for calls of an executor's own tools. Default: what their JSON Schema requires, and nothing in it. */
  readonly params?: { readonly [tool: string]: (random: SeededRandom) => unknown } | undefined
}

/**
 * A law that does not hold.
 *
 * @category models
 * @since 0.1.0
 */
export interface Violation {
  /** The promise, as a sentence. */
  readonly law: string
  /** What was against it in the shortest run that was found. */
  readonly details: ReadonlyArray<string>
  /** The seed of the run: `laws(layer, { seed, runs: 1 })` plays it alone. */
  readonly seed: number
  /** The shortest run that was found, as data and as lines. */
  readonly run: LawRun.Run
  readonly lines: ReadonlyArray<string>
}

/**
 * What became of the laws.
 *
 * @category models
 * @since 0.1.0
 */
export interface Report {
  /** Runs that were played, without those that make one shorter. */
  readonly runs: number
  /** Those of the first run that broke a law. Empty if all hold. */
  readonly violations: ReadonlyArray<Violation>
  /** Laws that were judged. */
  readonly judged: ReadonlyArray<string>
  /** Laws that were not, because they are about what the executor brings itself, or were left out. */
  readonly unjudged: ReadonlyArray<string>
}

/**
 * Tries the laws on an executor.
 *
 * **Example** (In a test of any runner)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { ToolExecutor } from "effect-tool-executor"
 * import { Laws } from "effect-tool-executor/testing"
 * import * as assert from "node:assert"
 * import { test } from "node:test"
 *
 * test("my executor keeps its promises", async () => {
 *   const report = await Effect.runPromise(Laws.laws(ToolExecutor.layer, { runs: 5 }))
 *   assert.deepStrictEqual(report.violations, [], Laws.describe(report))
 * })
 * ```
 *
 * @category running
 * @since 0.1.0
 */
export const laws = Effect.fnUntraced(function*<E>(
  layer: LawPlay.ExecutorLayer<E>,
  options: Options = {}
): Effect.fn.Return<Report, E | ConfigurationError> {
  const { params = {}, runs = 50, seed = 1, shorten = 200, without = [] } = options
  const found = yield* LawPlay.toolsOf(layer, plainWorld)
  const own = found.filter((it) => !Object.hasOwn(LawWorld.tools, it.name))
  const callers = own.map((it) => ({ name: it.name, params: params[it.name] ?? (() => leastOf(it)) }))
  const trial: Trial<E> = {
    layer,
    plain: callers.length > 0,
    laws: LawList.all().filter((it) => !without.includes(it.name)),
    judged: new Set()
  }
  for (let played = 0; played < runs; played++) {
    const random = randomFrom(seed + played)
    const run = trial.plain ? LawRun.randomOver(random, callers) : LawRun.random(random)
    const broken = yield* tried(trial, run)
    if (broken.size === 0) continue
    const violations: Array<Violation> = []
    for (const law of broken.keys()) violations.push(yield* shortest(trial, run, law, seed + played, shorten))
    return reportOf(trial, played + 1, violations)
  }
  return reportOf(trial, runs, [])
})

/**
 * Tells a report: each law that does not hold, why, and the shortest run that breaks it.
 *
 * @category formatting
 * @since 0.1.0
 */
export const describe = ({ runs, unjudged, violations }: Report): string =>
  violations.length === 0
    ? `${runs} runs broke no law` + (unjudged.length === 0 ? "" : `; not judged: ${unjudged.join("; ")}`)
    : violations.map(({ details, law, lines, seed }) =>
      [
        `Broken: ${law}`,
        ...details.slice(0, 5).map((it) => `  ${it}`),
        `  in a run of seed ${seed}, made shorter:`,
        ...lines.map((it) => `    ${it}`)
      ].join("\n")
    ).join("\n\n")

// Utilities

interface Trial<E> {
  readonly layer: LawPlay.ExecutorLayer<E>
  /** The executor has tools of its own. */
  readonly plain: boolean
  readonly laws: ReadonlyArray<Law>
  readonly judged: Set<string>
}

const plainWorld: LawRun.World = { read: 20, concurrent: 10, max: 1, dedupe: "reject", approval: "perCall" }

/** The laws that a run breaks, with what is against them. */
const tried = Effect.fnUntraced(function*<E>({ judged, laws, layer, plain }: Trial<E>, run: LawRun.Run) {
  const facts = new Facts(yield* LawPlay.play(layer, run, plain))
  const broken = new Map<string, ReadonlyArray<string>>()
  for (const { about, against, name } of laws) {
    // of tools that are not the kit's nobody tells what their handlers do
    if (!facts.uses(...about) || plain && about.includes("ToolHandlers")) continue
    judged.add(name)
    const details = against(facts)
    if (details.length > 0) broken.set(name, details)
    // what has not come to its end breaks others, which says nothing
    if (facts.history.stuck !== undefined) break
  }
  return broken
})

const shortest = Effect.fnUntraced(function*<E>(
  trial: Trial<E>,
  run: LawRun.Run,
  law: string,
  seed: number,
  tries: number
) {
  let best = run
  let details = (yield* tried(trial, run)).get(law) ?? []
  let left = tries
  search: while (true) {
    for (const candidate of LawRun.shorter(best)) {
      if (left-- <= 0) break search
      const broken = (yield* tried(trial, candidate)).get(law)
      if (broken === undefined) continue
      best = candidate
      details = broken
      continue search
    }
    break
  }
  return { law, details, seed, run: best, lines: LawRun.lines(best) }
})

const reportOf = <E>({ judged }: Trial<E>, runs: number, violations: ReadonlyArray<Violation>): Report => ({
  runs,
  violations,
  judged: Array.from(judged),
  unjudged: LawList.all().map((it) => it.name).filter((it) => !judged.has(it))
})

/** Arguments that have what a tool requires, as little of it as possible. */
const leastOf = ({ jsonSchema }: Pick<RegisteredTool, "jsonSchema">): unknown => least(jsonSchema)

type Schema = Readonly<Record<string, unknown>>

const least = (schema: Schema): unknown => {
  if ("const" in schema) return schema["const"]
  if (Array.isArray(schema["enum"])) return schema["enum"][0]
  const either = schema["anyOf"] ?? schema["oneOf"]
  if (Array.isArray(either)) return least(either[0] as Schema)
  switch (schema["type"]) {
    case "string":
      return "a".repeat(Number(schema["minLength"] ?? 1))
    case "number":
    case "integer":
      return schema["minimum"] ?? 1
    case "boolean":
      return false
    case "null":
      return null
    case "array":
      return []
    default: {
      const properties = (schema["properties"] ?? {}) as { readonly [name: string]: Schema }
      const required = (schema["required"] ?? []) as ReadonlyArray<string>
      return Object.fromEntries(required.map((name) => [name, least(properties[name] ?? {})]))
    }
  }
}
