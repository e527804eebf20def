/**
 * Which tools may be called next in a process: those that the ordering rules allow, minus those that another gate would
 * refuse now.
 */
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Permissions from "../../gates/Permissions.ts"
import * as RuleSet from "../../rules/RuleSet.ts"
import type { Claim } from "../../store/Claims.ts"
import type { Engine } from "../call/Engine.ts"
import * as SharedHistory from "../call/SharedHistory.ts"
import { hasTool, over, type ProcessState, scopeOf } from "../state/State.ts"

/** Gives the tools that may be called next. */
export const allowed = (engine: Engine, process: ProcessState): Effect.Effect<ReadonlyArray<string>> =>
  Effect.flatMap(Effect.andThen(SharedHistory.upToDate(engine, process), Clock.currentTimeMillis), (now) => {
    if (over(process) !== undefined || process.budget.check(now, false) !== undefined) return Effect.succeed([])
    const { rules } = engine
    const scope = scopeOf(process, engine)
    const ordered: Array<string> = []
    const limited = new Map<string, ReadonlyArray<Claim>>()
    for (const name of shown(engine, process)) {
      if (process.blocked.has(name) || rules.check(process.history, name) !== undefined) continue
      ordered.push(name)
      const claims = rules.claims(name, scope)
      if (claims.length > 0) limited.set(name, claims)
    }
    if (limited.size === 0) return Effect.succeed(ordered)
    // concurrently: a store that does not answer costs one timeout, not several
    const free = Effect.filter(limited, ([, claims]) => isFree(engine, claims, now), { concurrency: "unbounded" })
    return Effect.map(free, (it) => {
      const names = new Set(it.map(([name]) => name))
      return ordered.filter((tool) => names.has(tool) || !limited.has(tool))
    })
  })

/** Gives the tools of which one must be called next; empty if nothing is forced. */
export const forced = (engine: Engine, process: ProcessState): Effect.Effect<ReadonlyArray<string>> =>
  Effect.map(allowed(engine, process), (names) => {
    const forced = forcedOf(engine, process)
    return names.filter((name) => forced.includes(name))
  })

/** Gives the `toolChoice` for the next turn of a model. */
export const choice = (engine: Engine, process: ProcessState): Effect.Effect<LanguageModel.ToolChoice<string>> =>
  Effect.map(allowed(engine, process), (names) => {
    const forced = forcedOf(engine, process).filter((name) => names.includes(name))
    if (forced.length > 0) return { mode: "required", oneOf: forced }
    if (names.length === 0) return "none"
    return names.length === shown(engine, process).length ? "auto" : { oneOf: names }
  })

/** The tools that a model may see: the executor's, and those that its provider executes. */
const shown = (engine: Engine, process: ProcessState): ReadonlyArray<string> => {
  const registry = engine.handlers.current()
  const names: Array<string> = []
  for (const [name, tool] of registry) {
    if (hasTool(process, name) && Permissions.sees(engine.permissions, tool)) names.push(name)
  }
  for (const name of process.provided) if (!registry.has(name)) names.push(name)
  return names
}

const forcedOf = (engine: Engine, { history, provided }: ProcessState): ReadonlyArray<string> =>
  RuleSet.forcedNext(engine.rules.current(), history, provided)

/** Whether limits and cooldowns leave room for a call. */
const isFree = (engine: Engine, claims: ReadonlyArray<Claim>, now: number): Effect.Effect<boolean> => {
  // a store that cannot be reached refuses every claim
  return Effect.map(engine.store.check(claims, now), (refused) => refused === undefined)
}
