/** The operations of one session: opened, stopped and forgotten together. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { Access } from "./Access.ts"
import type { Conversation } from "./ApiOperations.ts"
import { type KnownConversations, logged } from "./KnownConversations.ts"
import * as Refusals from "./OperationRefusals.ts"
import type { OpenConversation, OperationStore, OperationStoreError } from "./OperationStore.ts"
import { annotated } from "./Principals.ts"
import type { ServedConversation } from "./ServedConversation.ts"
import type { ServedOperation } from "./ServedOperation.ts"
import { type SessionPart, unfinished } from "./SessionPart.ts"

export interface Given {
  readonly access: Access["Service"]
  readonly known: KnownConversations
  readonly store: OperationStore["Service"]
  readonly isDraining: () => boolean
  /** Stores the conversation of an operation that has ended. */
  readonly ended: (operation: ServedOperation) => Effect.Effect<void, OperationStoreError>
  /** Continues an operation once the one before it is over. */
  readonly launch: (operation: ServedOperation, before: ServedOperation | undefined) => Effect.Effect<unknown>
  readonly interrupt: (operation: ServedOperation) => Effect.Effect<void>
}

/** The operations of one session at a time. */
export interface HostedOperations extends SessionPart {
  /** Opens every session that the store lists. */
  readonly openAll: Effect.Effect<void, OperationStoreError>
}

export const make = (given: Given): HostedOperations => {
  const { interrupt, isDraining, known, store } = given
  /** Conversations as they were before their requests were suspended. */
  const leaving = new WeakMap<ServedConversation, Conversation>()
  return {
    openAll: Effect.gen(function*() {
      for (const conversation of yield* store.conversations) {
        const kept = conversation.open.length === 0 ? undefined : yield* store.conversationOf(conversation)
        yield* recall(given, kept ?? { conversation, open: [] })
      }
    }),
    open: (owner) =>
      Effect.gen(function*() {
        if (isDraining()) return yield* Refusals.stopping
        const conversation = known.get(owner)
        if (conversation?.isSuspended === false) return
        const kept = yield* store.conversationOf(owner)
        // another request may have been first
        if (kept === undefined || known.get(owner) !== conversation) return
        known.drop(owner)
        yield* recall(given, kept)
      }).pipe(Refusals.orUnavailable, annotated(owner)),
    works: (owner) => known.get(owner)?.operations ?? [],
    changed: (owner) => known.stirs.next(owner),
    interrupt,
    leaves: (owner) => {
      const conversation = known.get(owner)
      if (conversation?.operations.some((it) => !it.isOver && it.left === undefined) === true) {
        leaving.set(conversation, conversation.summary)
      }
    },
    halt: (_, operations: ReadonlyArray<ServedOperation>) =>
      Effect.forEach(operations, interrupt, { concurrency: "unbounded", discard: true }),
    drop: (owner) =>
      Effect.suspend(() => {
        const conversation = known.get(owner)
        const left = unfinished(conversation?.operations.map((it) => it.remains) ?? [])
        known.drop(owner)
        const listed = conversation === undefined ? undefined : leaving.get(conversation)
        return left === "waiting" && listed !== undefined ? logged(store.list(listed)) : Effect.void
      })
  }
}

/** Adds a conversation that was stored, and continues what has no end. */
const recall = Effect.fnUntraced(function*(
  { access, ended: storeEnded, known, launch }: Given,
  { conversation: kept, open }: OpenConversation
) {
  const mayRun = open.some(({ ended }) => ended === undefined)
    ? yield* Effect.result(access.mayRun(kept.user))
    : Result.succeed(true)
  const conversation = known.restore(kept)
  let before: ServedOperation | undefined
  for (const [index, { ended, events, submitted }] of open.entries()) {
    const operation = known.served(submitted)
    operation.restore(events)
    conversation.add(operation)
    // a message that was stored may not be in the record of the conversation
    conversation.joined(operation)
    if (ended !== undefined) {
      operation.restoreEnd(ended)
      yield* storeEnded(operation)
      continue
    }
    if (Result.isFailure(mayRun)) {
      const { cause, message } = mayRun.failure
      yield* Effect.logWarning(`${message}; an operation of ${kept.user} is left for the next start`, cause)
      operation.close(yield* Clock.currentTimeMillis)
      continue
    }
    if (!mayRun.success) yield* operation.cancel("its user may no longer run calls")
    else if (index < open.length - 1) yield* operation.cancel(Refusals.interrupted)
    yield* launch(operation, before)
    before = operation
  }
})
