/**
 * Tools that the provider of a model executes itself. Gates do not apply to their calls; rules that name them count
 * them.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { ProvidedCall } from "../../contract/ToolProcess.ts"
import * as RuleSet from "../../rules/RuleSet.ts"
import type { Engine } from "../call/Engine.ts"
import * as SharedHistory from "../call/SharedHistory.ts"
import { type ProcessState, scopeOf } from "../state/State.ts"

/** Records calls that a provider has executed, in order. If `isKnown`, limits have already counted them. */
export const note = (
  engine: Engine,
  process: ProcessState,
  calls: ReadonlyArray<ProvidedCall>,
  isKnown: boolean
): Effect.Effect<void> => {
  if (calls.length === 0) return Effect.void
  engine.conversations?.provided(process, calls)
  return Effect.flatMap(Clock.currentTimeMillis, (now) => {
    const set = engine.rules.current()
    const named = new Set(RuleSet.namesIn(set.rules))
    const registry = engine.handlers.current()
    const counted = calls.filter(({ name }) => named.has(name) && !registry.has(name))
    if (counted.length === 0) return Effect.void
    const { history } = process
    const wave = history.begin(set.remembers.length > 0 ? engine.sessions.placeOf(now) : undefined)
    for (const [index, { isFailure, name, output }] of counted.entries()) {
      if (!isFailure) history.record(set, wave, index, name, output)
    }
    history.end(wave)
    if (isKnown) return Effect.void
    return Effect.forEach(counted, ({ id, isFailure, name, output }, index) => {
      const spent = spend(engine, process, id, name, now)
      const { notedIn } = set.forTool(name)
      if (isFailure || wave.place === undefined || notedIn.length === 0) return spent
      const mark = { ...RuleSet.success(set, name, output), place: wave.place, index }
      return Effect.andThen(spent, SharedHistory.note(engine, process, notedIn, mark, now))
    }, { discard: true })
  })
}

/** Finds the calls that a provider has executed among the parts of an answer. */
export const callsIn = (
  parts: ReadonlyArray<unknown>
): ReadonlyArray<ProvidedCall> => {
  const provided = parts.filter(isProvided)
  return provided.flatMap((part) => {
    if (part.type !== "tool-call") return []
    const { id, name } = part
    const result = provided.findLast((it) => it.type === "tool-result" && it.id === id)
    return [{ id, name, isFailure: result?.isFailure !== false, output: result?.result }]
  })
}

/** The fields of a part that are read here. */
interface Provided {
  readonly type: "tool-call" | "tool-result"
  readonly id: string
  readonly name: string
  readonly isFailure?: boolean
  readonly result?: unknown
}

/** A part that cannot be read is ignored. */
const isProvided = (part: unknown): part is Provided => {
  try {
    const { preliminary, providerExecuted, type } = part as Readonly<Record<string, unknown>>
    return (type === "tool-call" || type === "tool-result") && providerExecuted === true && preliminary !== true
  } catch {
    return false
  }
}

/** Counts the call against its limits. A full limit changes nothing: the call has already happened. */
const spend = (engine: Engine, process: ProcessState, owner: string, tool: string, now: number) => {
  const { rules, store } = engine
  const claims = rules.claims(tool, scopeOf(process, engine)).filter((it) => it._tag !== "Batch")
  if (claims.length === 0) return Effect.void
  return Effect.flatMap(
    store.reserve([{ owner, session: store.session, claims }], now),
    ([reserved]) =>
      reserved === undefined || "_tag" in reserved || "operation" in reserved
        ? Effect.void
        : store.settle(reserved, { started: true, key: "release", windowMillis: 0, value: undefined }, now)
  )
}
