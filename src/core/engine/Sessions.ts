/**
 * The conversations of an executor, and what rules remember across their processes.
 *
 * The store has the truth, so that a restart loses nothing. Here is a copy that counts what happens in this executor
 * immediately, and is brought up to date before a call is judged by it.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { SharedScope } from "../rules/RuleKind.ts"
import { type Mark, type Place, SharedPast } from "../rules/SharedPast.ts"
import type { BatchClaim } from "../store/Claims.ts"
import { StateStoreError } from "../store/StateStore.ts"
import type { Engine } from "./Engine.ts"
import type { ProcessState, SessionState } from "./State.ts"

/** More sessions than these are not kept here; the store has them all. */
const maxSessions = 1_000

/** The sessions of an executor and its sub-agents. */
export class Sessions {
  private readonly principal: string
  private readonly unique: string
  private readonly all = new Map<string, SessionState>()
  private lastWave = 0

  constructor(principal: string, unique: string) {
    this.principal = principal
    this.unique = unique
  }

  /** Gives a session of the principal. Without a name, all that the principal does is one. */
  of(name: string | undefined): SessionState {
    const key = this.keyOf(name)
    const found = this.all.get(key) ?? { key, past: new SharedPast() }
    this.all.delete(key)
    this.all.set(key, found)
    if (this.all.size > maxSessions) this.all.delete(this.all.keys().next().value!)
    return found
  }

  /** Forgets a session here; gives its key in the store. */
  forget(name: string | undefined): string {
    const key = this.keyOf(name)
    this.all.delete(key)
    return key
  }

  /** The place of a wave that begins now. */
  placeOf(at: number): Place {
    return { at, serial: ++this.lastWave, by: this.unique }
  }

  private keyOf(name: string | undefined): string {
    return JSON.stringify(name === undefined ? [this.principal] : [this.principal, name])
  }
}

/**
 * Brings what a process remembers of shared scopes up to date with the store, where that is older than some
 * milliseconds. Gives the error if the store has no answer.
 */
export const refresh = (
  { store }: Pick<Engine, "store">,
  { batch, history, session }: ProcessState,
  scopes: Iterable<SharedScope>,
  now: number,
  { age, patience }: { readonly age: number; readonly patience?: number }
): Effect.Effect<StateStoreError | undefined> => {
  const old = Array.from(scopes).filter((scope) => now - history[scope].readAt >= age)
  if (old.length === 0) return fresh
  const of = old.map((scope): BatchClaim =>
    scope === "batch" ? { _tag: "Batch", batch: batch.key } : { _tag: "Batch", batch: session.key, scope }
  )
  return Effect.mapEager(store.recall(of, now, patience), (answer) => {
    if (answer instanceof StateStoreError) return answer
    for (const [index, scope] of old.entries()) history[scope].merge(answer[index] ?? { succeeded: [] }, now)
    return undefined
  })
}

/** The same before a host asks about the rules. What is known here must do if the store has no answer. */
export const upToDate = (engine: Engine, process: ProcessState): Effect.Effect<void> =>
  Effect.suspend(() => {
    const { remembers } = engine.rules.current()
    return remembers.length === 0
      ? Effect.void
      : Effect.flatMap(Clock.currentTimeMillis, (now) =>
        Effect.asVoid(refresh(engine, process, remembers, now, { age: 0 })))
  })

const fresh = Effect.undefined

/** Notes a success in the store that no reservation of its call notes. */
export const note = Effect.fnUntraced(function*(
  { store }: Pick<Engine, "store">,
  { batch, session }: ProcessState,
  scopes: ReadonlyArray<SharedScope>,
  mark: Mark,
  now: number
): Effect.fn.Return<void> {
  const claims = scopes.map((scope): BatchClaim =>
    scope === "batch" ? { _tag: "Batch", batch: batch.key } : { _tag: "Batch", batch: session.key, scope }
  )
  const [reserved] = yield* store.reserve([{ owner: "", session: store.session, claims }], now)
  if (reserved === undefined || "_tag" in reserved || "operation" in reserved) return
  yield* store.settle(
    reserved,
    { started: true, key: "release", windowMillis: 0, value: undefined, succeeded: mark },
    now
  )
})
