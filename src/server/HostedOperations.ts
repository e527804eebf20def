/** The operations of one session: opened, stopped and forgotten together. */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type { Access } from "./Access.ts"
import type { Conversation } from "./ApiOperations.ts"
import { type KnownConversations, logged } from "./KnownConversations.ts"
import * as Refusals from "./OperationRefusals.ts"
import type { OpenConversation, OperationStore, OperationStoreError } from "./OperationStore.ts"
import { annotated, type Owner } from "./Principals.ts"
import type { ServedOperation } from "./ServedOperation.ts"
import { retryMillis, type SessionPart, stateOf, type Unfinished, unfinished } from "./SessionPart.ts"

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
  const all = (owner: Owner): ReadonlyArray<ServedOperation> => known.get(owner)?.operations ?? []
  /** Conversations as they were before their requests were suspended. */
  const leaving = new WeakMap<ServedOperation, Conversation>()
  const running = (owner: Owner) => all(owner).filter((it) => !it.isOver)
  const interruptAll = (operations: ReadonlyArray<ServedOperation>) =>
    Effect.forEach(operations, interrupt, { concurrency: "unbounded", discard: true })
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
    state: (owner) => stateOf(running(owner).map((it) => it.isWaiting ? "waiting" : "running")),
    isAsking: (owner) => running(owner).some((it) => it.info.pending > 0),
    changed: (owner) => known.stirs.next(owner),
    leave: (owner) =>
      Effect.sync(() => {
        const conversation = known.get(owner)
        for (const operation of running(owner)) {
          if (operation.left === undefined && conversation !== undefined) leaving.set(operation, conversation.summary)
          operation.left ??= "closed"
        }
      }),
    stop: (owner) =>
      Effect.suspend(() => {
        const operations = running(owner)
        for (const operation of operations) operation.left = "stopped"
        const over = Effect.forEach(operations, (it) => Deferred.await(it.over), { discard: true })
        return Effect.andThen(interruptAll(operations), over)
      }),
    retryAt: (owner, now) => all(owner).some((it) => leftOf(it) === "failed") ? now + retryMillis : Infinity,
    forget: (owner) =>
      Effect.suspend(() => {
        const left = unfinished(all(owner).map(leftOf))
        const summary = all(owner).map((it) => leaving.get(it)).findLast((it) => it !== undefined)
        known.drop(owner)
        const listed = left === "waiting" && summary !== undefined
          ? logged(store.list(summary))
          : Effect.void
        return Effect.as(listed, left)
      }),
    lose: (owner) =>
      Effect.suspend(() => {
        const operations = running(owner)
        for (const operation of operations) {
          operation.left = "lost"
          operation.log.close()
        }
        known.drop(owner)
        return interruptAll(operations)
      })
  }
}

const leftOf = ({ hasEnded, isStored, left }: ServedOperation): Unfinished =>
  hasEnded && isStored ? "nothing" : left === "stopped" ? left : left === "closed" && !hasEnded ? "waiting" : "failed"

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
