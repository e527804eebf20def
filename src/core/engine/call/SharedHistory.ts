/**
 * What rules remember of the batch and the session of a process, which other processes share.
 *
 * The store has the truth, so that a restart loses nothing. `RuleHistory` has a copy that counts what happens in this
 * executor immediately, and is brought up to date here before a call is judged by it.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { SharedScope } from "../../rules/RuleKind.ts"
import type { Mark } from "../../rules/SharedPast.ts"
import type { BatchClaim } from "../../store/Claims.ts"
import { StateStoreError } from "../../store/StateStore.ts"
import type { ProcessState } from "../state/State.ts"
import type { Engine } from "./Engine.ts"

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
  const old = Array.from(scopes).filter((scope) => now - history.shared[scope].readAt >= age)
  if (old.length === 0) return fresh
  const of = old.map((scope): BatchClaim =>
    scope === "batch" ? { _tag: "Batch", batch: batch.key } : { _tag: "Batch", batch: session.key, scope }
  )
  return Effect.mapEager(store.recall(of, now, patience), (answer) => {
    if (answer instanceof StateStoreError) return answer
    for (const [index, scope] of old.entries()) history.shared[scope].merge(answer[index] ?? { succeeded: [] }, now)
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
