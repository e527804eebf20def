/**
 * Lists of waves, conversations and sessions of all processes that share their rows.
 *
 * A list comes from summaries in the rows of sessions, so no process has to be asked, and no session has to be held.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { SessionRows, SessionRowsError } from "../../core/store/SessionRows.ts"
import type { User } from "../api/ApiAccess.ts"
import type { WaveInfo } from "../api/ApiModels.ts"
import type { Conversation } from "../api/ApiOperations.ts"
import { Unavailable } from "../api/ApiProblems.ts"
import * as OperationStore from "../operations/OperationStore.ts"
import type { Owner } from "../users/Principals.ts"
import * as Rights from "../users/Rights.ts"
import * as WaveStore from "../waves/WaveStore.ts"
import * as WaveText from "../waves/WaveText.ts"

export interface SharedLists {
  /** Waves that a user may see, oldest first: unfinished ones, and those that ended last. */
  readonly waves: (user: User, limit: number) => Effect.Effect<ReadonlyArray<WaveInfo>, Unavailable>
  /** Conversations that a user may see, those with the latest changes first. */
  readonly conversations: (user: User, limit: number) => Effect.Effect<ReadonlyArray<Conversation>, Unavailable>
  /** Sessions of a user with unfinished waves, and how many these are. */
  readonly sessions: (
    user: string,
    limit: number
  ) => Effect.Effect<ReadonlyArray<{ readonly session: string; readonly waves: number }>, Unavailable>
}

/** Creates the lists; `undefined` where one process has all sessions: it lists what it has in memory. */
export const make = ({ summaries }: SessionRows["Service"]): SharedLists | undefined => {
  if (summaries === undefined) return undefined
  const list = <A>(kind: string, text: WaveText.Text<A>) =>
    Effect.fnUntraced(function*(users: ReadonlyArray<string> | undefined, limit: number) {
      const found: Array<A> = []
      for (const { key, summary } of yield* orUnavailable(summaries({ kind, users, limit }))) {
        const it = text.decode(summary)
        // an unreadable record must not affect others
        if (Result.isSuccess(it)) found.push(it.success)
        else yield* Effect.logWarning(`The summary of ${key} cannot be read`, it.failure)
      }
      return found
    })
  const waves = list(WaveStore.kinds.wave, WaveText.info)
  const conversations = list(OperationStore.kind, OperationStore.summary)
  return {
    waves: (user, limit) =>
      Effect.map(waves(Rights.seenBy(user), limit), (all) => all.sort((one, other) => one.beganAt - other.beganAt)),
    conversations: (user, limit) =>
      Effect.map(
        conversations(Rights.seenBy(user), limit),
        (all) => all.sort((one, other) => other.updatedAt - one.updatedAt)
      ),
    sessions: (user, limit) =>
      Effect.map(waves([user], limit), (all) => {
        const counts = new Map<string, number>()
        for (const { session, status } of all) {
          if (status === "running") counts.set(session, (counts.get(session) ?? 0) + 1)
        }
        return Array.from(counts, ([session, waves]) => ({ session, waves }))
      })
  }
}

/** The latest waves, oldest first; unfinished ones are kept before others. */
export const latest = (waves: ReadonlyArray<WaveInfo>, limit: number): ReadonlyArray<WaveInfo> => {
  const sorted = waves.toSorted((one, other) => one.beganAt - other.beganAt)
  const over = sorted.length - limit
  const gone = new Set(sorted.filter(({ status }) => status !== "running").slice(0, Math.max(0, over)))
  return sorted.filter((it) => !gone.has(it)).slice(-limit)
}

/** Conversations with pending approval requests: an operation that has any waits for them. */
export const waiting = (
  conversations: ReadonlyArray<Conversation>,
  requests: ReadonlyArray<Owner & { readonly operation?: string }>
): ReadonlyArray<Conversation> => {
  const pending = new Map<string, number>()
  for (const it of requests) pending.set(operationKey(it), (pending.get(operationKey(it)) ?? 0) + 1)
  return conversations.map((it) => {
    const count = it.operation === undefined ? undefined : pending.get(operationKey(it))
    return count === undefined ? it : { ...it, state: "waiting", pending: count }
  })
}

const operationKey = ({ operation, session, user }: Owner & { readonly operation?: string }): string =>
  JSON.stringify([user, session, operation])

const orUnavailable = <A>(effect: Effect.Effect<A, SessionRowsError>): Effect.Effect<A, Unavailable> =>
  Effect.catch(effect, (error) => Effect.andThen(Effect.logWarning(error.message, error.cause), new Unavailable({})))
