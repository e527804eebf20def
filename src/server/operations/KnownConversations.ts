/** The conversations of a server: those in memory, with the operations that are read from the store when needed. */
import type * as Prompt from "effect/ai/Prompt"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type { Cost } from "../../agent/AgentLimits.ts"
import { isLost } from "../../core/store/SessionRows.ts"
import { hashOf } from "../../core/vocabulary/FileChange.ts"
import type { Operation } from "../api/ApiOperations.ts"
import type { Owner } from "../users/Principals.ts"
import { Stirs } from "../work/Stirs.ts"
import { OperationLog } from "./OperationLog.ts"
import type * as OperationOptions from "./OperationOptions.ts"
import type { KeptConversation, OperationStore, OperationStoreError, SubmittedOperation } from "./OperationStore.ts"
import { ServedConversation } from "./ServedConversation.ts"
import { ServedOperation } from "./ServedOperation.ts"

export interface Given {
  readonly store: OperationStore["Service"]
  readonly bounds: Effect.Success<ReturnType<typeof OperationOptions.read>>
  /** Prefix of the names of logs, which no other start of the server has. */
  readonly life: string
  readonly costOf: (agent: string) => Cost | undefined
  /** Secrets in the arguments of calls. */
  readonly secretsIn: (messages: ReadonlyArray<Prompt.Message>) => ReadonlyArray<string>
}

export class KnownConversations {
  private readonly given: Given
  private readonly known = new Map<string, ServedConversation>()
  private logs = 0
  /** Tells when something changes. */
  readonly stirs = new Stirs()

  constructor(given: Given) {
    this.given = given
  }

  get size(): number {
    return this.known.size
  }

  get(owner: Owner): ServedConversation | undefined {
    return this.known.get(keyOf(owner))
  }

  /** The conversation of a session, which may be its first one. */
  open(owner: Owner, agent: string): ServedConversation {
    return this.get(owner) ?? this.restore({
      ...owner,
      agent,
      title: "",
      usage: { inputTokens: 0, outputTokens: 0, cachedInputTokens: 0, cacheWriteInputTokens: 0 },
      updatedAt: 0,
      open: [],
      operations: []
    })
  }

  /** Adds a conversation that was stored. */
  restore(kept: KeptConversation): ServedConversation {
    const owner = { user: kept.user, session: kept.session }
    const conversation = new ServedConversation(owner, kept)
    this.known.set(keyOf(owner), conversation)
    return conversation
  }

  /** Those that have had an operation: all, or that of one session. */
  begun(owner?: Owner): ReadonlyArray<ServedConversation> {
    return (owner === undefined ? Array.from(this.known.values()) : [this.get(owner)])
      .filter((it) => it !== undefined && it.names.length > 0) as ReadonlyArray<ServedConversation>
  }

  /** Operations that are not over. */
  get unfinished(): ReadonlyArray<ServedOperation> {
    return Array.from(this.known.values()).flatMap((it) => it.operations.filter((one) => !one.isOver))
  }

  /** An operation with a log of this start, or with one of a given id. */
  served(submitted: SubmittedOperation, id = `${this.given.life}.${++this.logs}`): ServedOperation {
    const { bounds, costOf, secretsIn } = this.given
    const log = new OperationLog(id, { events: bounds.keptEvents, chars: bounds.keptChars })
    return new ServedOperation(submitted, log, costOf(submitted.agent), (it) => secretsIn([it]), this.stirs)
  }

  /** Forgets a session and ends its readers; the store still has everything. */
  drop(owner: Owner): void {
    this.stirs.stir(owner)
    this.get(owner)?.close()
    this.known.delete(keyOf(owner))
  }

  /** An operation, in memory or in the store. */
  find(owner: Owner, name: string): Effect.Effect<ServedOperation | undefined, OperationStoreError> {
    return Effect.suspend(() => {
      const conversation = this.get(owner)
      const here = conversation?.operations.find((it) => it.id === name)
      const isElsewhere = here === undefined && conversation?.names.includes(name) === true
      return isElsewhere ? this.recall(owner, name) : Effect.succeed(here)
    })
  }

  /** The latest operations of a session, newest first. */
  list(owner: Owner): Effect.Effect<ReadonlyArray<Operation>, OperationStoreError> {
    const { store } = this.given
    return Effect.map(
      Effect.forEach(this.get(owner)?.names.toReversed() ?? [], (name) =>
        Effect.suspend(() => {
          const here = this.get(owner)?.operations.find((it) => it.id === name)
          return here === undefined
            ? Effect.map(store.get(owner, name), (kept) => kept?.ended)
            : Effect.succeed(here.info)
        })),
      (all) => all.filter((it) => it !== undefined)
    )
  }

  /** Stores ends that could not be stored before, and forgets what is old, also of sessions that are not in memory. */
  tidy(keepEnd: (operation: ServedOperation) => Effect.Effect<void, OperationStoreError>): Effect.Effect<void> {
    const { bounds: { listed, retention }, store } = this.given
    return Effect.gen({ self: this }, function*() {
      const now = yield* Clock.currentTimeMillis
      for (const conversation of Array.from(this.known.values())) {
        const { operations } = conversation
        for (const it of operations) if (it.hasEnded && it.remains !== "nothing") yield* logged(keepEnd(it))
        const isOld = (it: ServedOperation) => it.remains === "nothing" && it.overSince! + listed < now
        operations.splice(0, operations.length, ...operations.filter((it) => !isOld(it)))
        // a message that is being taken keeps it
        yield* conversation.turns.withPermitsIfAvailable(1)(this.forget(conversation, now))
      }
      yield* logged(store.prune(now - retention))
    })
  }

  /** Ends all readers of conversations. */
  close(): void {
    for (const conversation of this.known.values()) conversation.close()
  }

  /** An operation that is not in memory. */
  private recall(owner: Owner, name: string): Effect.Effect<ServedOperation | undefined, OperationStoreError> {
    const { store } = this.given
    return Effect.gen({ self: this }, function*() {
      const kept = yield* store.get(owner, name)
      if (kept?.ended === undefined) return undefined
      const events = yield* store.events(owner, name)
      // nothing is added to it, so positions in it are those of its last log, whichever process reads it
      const operation = this.served(kept.submitted, events.at(-1)?.log ?? hashOf(keyOf(owner) + name).slice(0, 16))
      operation.restore(events)
      operation.restoreEnd(kept.ended)
      return operation
    })
  }

  /** Forgets an idle conversation. */
  private forget(conversation: ServedConversation, now: number): Effect.Effect<void> {
    const { bounds, store } = this.given
    return Effect.suspend(() => {
      if (conversation.operations.length > 0 || conversation.updatedAt + bounds.retention >= now) return Effect.void
      const { names, owner } = conversation
      const removed = Effect.andThen(
        Effect.forEach(names, (name) => store.removeOperation(owner, name), { discard: true }),
        store.removeConversation(owner)
      )
      const forgotten = Effect.sync(() => {
        this.known.delete(keyOf(owner))
        conversation.close()
      })
      return Effect.andThen(logged(removed), forgotten)
    })
  }
}

/** What the next try, the next start, or whoever has the session now makes up for. */
export const logged = (effect: Effect.Effect<void, OperationStoreError>): Effect.Effect<void> =>
  Effect.catch(effect, (error) => isLost(error) ? Effect.void : Effect.logWarning(error.message, error.cause))

const keyOf = ({ session, user }: Owner): string => JSON.stringify([user, session])
