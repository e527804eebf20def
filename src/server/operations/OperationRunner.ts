/**
 * Runs the operations of a server: takes each message, begins an operation or says it to the one that runs, and
 * continues what earlier starts left.
 *
 * What becomes of a message, in this order:
 *
 * | its id                | what runs in its session  | `onBusy`             | what is done                       |
 * |-----------------------|---------------------------|----------------------|------------------------------------|
 * | known, the same text  |                           |                      | the operation that has it          |
 * | known, another text   |                           |                      | a conflict                         |
 * | new                   | nothing                   |                      | `begin`                            |
 * | new                   | an operation              | `interrupt`          | `begin`, and it is cancelled       |
 * | new                   | one of another agent      |                      | refused: the session is busy       |
 * | new                   | one of its agent          | `reject`             | refused: the session is busy       |
 * | new                   | one of its agent          | `queue`, `settle`    | `say`; `begin` if it has just ended |
 *
 * A conversation takes one message or cancellation at a time (`turns`): `take`, `inTurn` and `history` wait for it, and
 * what they call does not.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Clock from "effect/Clock"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FiberMap from "effect/FiberMap"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type { Conversation, OperationSubmission } from "../api/ApiOperations.ts"
import type { Invalid, OperationConflict, SessionBusy, TooMany, Unavailable } from "../api/ApiProblems.ts"
import { randomName } from "../sessions/SessionDirectory.ts"
import type { Access } from "../users/Access.ts"
import { annotated, type Owner } from "../users/Principals.ts"
import * as EndListener from "../work/EndListener.ts"
import { orPutAside } from "../work/putAside.ts"
import { unfinished, type Works } from "../work/Work.ts"
import { type KnownConversations, logged } from "./KnownConversations.ts"
import type * as OperationOptions from "./OperationOptions.ts"
import * as Refusals from "./OperationRefusals.ts"
import * as OperationRun from "./OperationRun.ts"
import type { OpenConversation, OperationStoreError, SubmittedOperation } from "./OperationStore.ts"
import type { ServedConversation } from "./ServedConversation.ts"
import type { ServedOperation } from "./ServedOperation.ts"

export interface Given {
  readonly access: Access["Service"]
  readonly bounds: OperationOptions.Checked
  readonly listener: EndListener.EndListener["Service"] | undefined
  readonly around: OperationRun.Around
  readonly known: KnownConversations
  readonly fibers: FiberMap.FiberMap<ServedOperation, void, never>
}

/** How a message is said to an operation. */
export interface Saying {
  readonly id?: string | undefined
  readonly settle?: boolean | undefined
}

/** Where a message has arrived: it joined an operation after a position, or began it. */
export interface Arrival {
  readonly operation: ServedOperation
  readonly after: string | undefined
}

type Refused = Invalid | OperationConflict | OperationStoreError | SessionBusy | TooMany | Unavailable

export class OperationRunner implements Works {
  private readonly given: Given
  private isDraining = false
  /** Conversations as they were before their requests were suspended. */
  private readonly leaving = new WeakMap<ServedConversation, Conversation>()

  constructor(given: Given) {
    this.given = given
  }

  /** Takes a message whole, also if its client leaves meanwhile. */
  take(owner: Owner, message: OperationSubmission): Effect.Effect<Arrival, Refused> {
    const { known } = this.given
    return Effect.suspend(() => {
      const conversation = known.open(owner, message.agent)
      return conversation.turns.withPermit(Effect.suspend(() =>
        known.get(owner) === conversation
          ? Effect.asSome(Effect.uninterruptible(this.submit(conversation, message)))
          : Effect.succeedNone
      ))
    }).pipe(
      // it was forgotten while the message waited for its turn
      Effect.flatMap(Option.match({ onNone: () => this.take(owner, message), onSome: Effect.succeed }))
    )
  }

  /** Says something to an operation; `undefined` if it has ended. */
  say(operation: ServedOperation, text: string, how: Saying = {}) {
    return this.inTurn(operation, Effect.suspend(() => this.tell(operation, text, how)))
  }

  /** Stops an operation at once, and stores why: the next start does not continue it. */
  cancel(operation: ServedOperation, reason: string): Effect.Effect<void, Unavailable> {
    const stored = Effect.suspend(() => {
      if (operation.hasEnded) return Effect.void
      operation.submitted = { ...operation.submitted, cancelled: operation.cancelled ?? reason }
      return this.given.around.store.submit(operation.submitted)
    })
    return Effect.andThen(operation.cancel(reason), this.inTurn(operation, stored))
  }

  /** What a conversation has said; no operation begins meanwhile: a transcript is open once. */
  history<E>(owner: Owner, kept: Effect.Effect<Prompt.Prompt, E>): Effect.Effect<Prompt.Prompt | undefined, E> {
    const conversation = this.given.known.get(owner)
    return conversation === undefined
      ? Effect.undefined
      : conversation.turns.withPermit(Effect.suspend(() => conversation.current?.process?.history ?? kept))
  }

  /** Continues what earlier starts left. */
  readonly continueAll: Effect.Effect<void, OperationStoreError> = Effect.gen({ self: this }, function*() {
    const { around: { store } } = this.given
    for (const conversation of yield* store.conversations) {
      const opening = Effect.gen({ self: this }, function*() {
        const kept = conversation.open.length === 0 ? undefined : yield* store.conversationOf(conversation)
        yield* this.recall(kept ?? { conversation, open: [] })
      })
      yield* orPutAside(conversation, "A conversation")(opening)
    }
  })

  open(owner: Owner): Effect.Effect<void, Unavailable> {
    const { around: { store }, known } = this.given
    return Effect.gen({ self: this }, function*() {
      if (this.isDraining) return yield* Refusals.stopping
      const conversation = known.get(owner)
      if (conversation?.isSuspended === false) return
      const kept = yield* store.conversationOf(owner)
      // another request may have been first
      if (kept === undefined || known.get(owner) !== conversation) return
      known.drop(owner)
      yield* this.recall(kept)
    }).pipe(Refusals.orUnavailable, annotated(owner))
  }

  of(owner: Owner): ReadonlyArray<ServedOperation> {
    return this.given.known.get(owner)?.operations ?? []
  }

  changed(owner: Owner): Effect.Effect<void> {
    return this.given.known.stirs.next(owner)
  }

  leaves(owner: Owner): void {
    const conversation = this.given.known.get(owner)
    if (conversation?.operations.some((it) => !it.isOver && it.leaving === undefined) === true) {
      this.leaving.set(conversation, conversation.summary)
    }
  }

  halt(_: Owner, operations: ReadonlyArray<ServedOperation>): Effect.Effect<void> {
    return Effect.forEach(operations, (it) => this.interrupt(it), { concurrency: "unbounded", discard: true })
  }

  interrupt(operation: ServedOperation): Effect.Effect<void> {
    return FiberMap.remove(this.given.fibers, operation)
  }

  drop(owner: Owner): Effect.Effect<void> {
    const { around: { store }, known } = this.given
    return Effect.suspend(() => {
      const conversation = known.get(owner)
      const left = unfinished(conversation?.operations.map((it) => it.remains) ?? [])
      known.drop(owner)
      const listed = conversation === undefined ? undefined : this.leaving.get(conversation)
      return left === "waiting" && listed !== undefined ? logged(store.list(listed)) : Effect.void
    })
  }

  /** Refuses messages from now on, and ends what runs after a time. */
  drain(within: Duration.Input): Effect.Effect<void> {
    const { fibers, known } = this.given
    return Effect.gen({ self: this }, function*() {
      this.isDraining = true
      const empty = FiberMap.awaitEmpty(fibers)
      const waiting = new Set(known.unfinished.filter((it) => it.info.state === "waiting"))
      const cancel = (of: ReadonlyArray<ServedOperation>) =>
        Effect.forEach(of, (it) => it.cancel("the server is stopping"), { discard: true })
      const isEmpty = Effect.map(Effect.timeoutOption(empty, within), Option.isSome)
      if (!(yield* isEmpty)) {
        // what waited for people is being suspended; cancelling it would answer for them
        yield* cancel(known.unfinished.filter((it) => !waiting.has(it)))
        if (!(yield* isEmpty)) yield* cancel(known.unfinished)
      }
      yield* empty
      // streams end last: they still report the ends of operations
    }).pipe(Effect.ensuring(Effect.sync(() => known.close())))
  }

  private submit(
    conversation: ServedConversation,
    { agent: name, id: given, onBusy, prompt }: OperationSubmission
  ): Effect.Effect<Arrival, Refused> {
    const { around: { agents }, bounds, known } = this.given
    const { owner } = conversation
    return Effect.gen({ self: this }, function*() {
      const agent = agents.get(name)?.agent
      if (agent === undefined) return yield* Refusals.unknownAgent(name, Array.from(agents.keys()))
      const { current } = conversation
      const same = given === undefined ? undefined : conversation.operationOf(given)
      const found = same === undefined ? undefined : yield* known.find(owner, same)
      if (found !== undefined) {
        const { agent, inputs } = found.submitted
        if (agent !== name || !inputs.some((it) => it.id === given && it.text === prompt)) {
          return yield* Refusals.conflict
        }
        const isJoined = found === current && found.id !== given
        return { operation: found, after: isJoined ? found.log.cursor : undefined }
      }
      if (prompt.length > bounds.maxMessageChars) return yield* Refusals.tooLong(bounds.maxMessageChars)
      if (this.isDraining) return yield* Refusals.stopping
      const id = given ?? (yield* randomName("operation"))
      const how = onBusy ?? agent.onBusy
      if (current !== undefined && how !== "interrupt") {
        const other = current.submitted.agent
        if (other !== name) return yield* Refusals.busy(current, Refusals.otherAgent(other))
        if (how === "reject") return yield* Refusals.busy(current, Refusals.isRunning)
        // taken first: events of the message come after it
        const after = current.log.cursor
        const said = yield* this.tell(current, prompt, { id, settle: how === "settle" })
        if (said !== undefined) return { operation: current, after }
      }
      const startedAt = yield* Clock.currentTimeMillis
      const submitted = { ...owner, operation: id, agent: name, startedAt, inputs: [{ id, text: prompt }] } as const
      const operation = yield* this.begin(conversation, submitted, current)
      // a message that is refused interrupts nothing
      if (current !== undefined) yield* current.cancel(Refusals.interrupted)
      return { operation, after: undefined }
    })
  }

  /** Stores an operation and its place in the conversation, and runs it once the one before it is over. */
  private begin(
    conversation: ServedConversation,
    submitted: SubmittedOperation,
    before: ServedOperation | undefined
  ): Effect.Effect<ServedOperation, OperationStoreError | TooMany> {
    const { around, around: { store }, bounds, known } = this.given
    const remove = (name: string) => logged(store.removeOperation(submitted, name))
    return Effect.gen({ self: this }, function*() {
      yield* this.admit(submitted.user)
      const operation = known.served(submitted)
      yield* store.submit(submitted)
      const { gone, undo } = conversation.begin(operation, submitted.startedAt, bounds.maxListed)
      yield* Effect.onError(store.keepConversation(conversation.record), () => {
        undo()
        return remove(operation.id)
      })
      conversation.add(operation)
      yield* this.launch(operation, before, false)
      around.changed(operation)
      yield* Effect.forEach(gone, remove, { discard: true })
      return operation
    })
  }

  /** Says something to an operation; `undefined` if it has ended. It is stored first: the next start says it again. */
  private tell(
    operation: ServedOperation,
    text: string,
    { id, settle = false }: Saying
  ): Effect.Effect<string | undefined, OperationConflict | OperationStoreError | TooMany | Unavailable> {
    const { around: { store }, bounds, known } = this.given
    return Effect.gen({ self: this }, function*() {
      const before = operation.submitted
      const { inputs } = before
      const same = id === undefined ? undefined : inputs.find((it) => it.id === id)
      if (same !== undefined) return same.text === text ? id : yield* Refusals.conflict
      if (operation.phase._tag !== "Running") return undefined
      if (this.isDraining) return yield* Refusals.stopping
      if (inputs.length >= bounds.maxMessages) return yield* Refusals.tooManyMessages(bounds.maxMessages, "messages")
      const chars = inputs.reduce((sum, it) => sum + it.text.length, text.length)
      if (chars > bounds.maxMessageChars) return yield* Refusals.tooManyMessages(bounds.maxMessageChars, "characters")
      let number = inputs.length
      // a client may have chosen such an id
      while (inputs.some((it) => it.id === `${operation.id}-said-${number}`)) number++
      const said = { id: id ?? `${operation.id}-said-${number}`, text }
      const submitted: SubmittedOperation = { ...before, inputs: [...inputs, said] }
      yield* store.submit(submitted)
      operation.submitted = submitted
      if (settle) operation.settling.add(said.id)
      const { phase } = operation
      // before the agent runs, the message becomes a part of its prompt
      const isSaid = phase._tag === "Running" &&
        (phase.process === undefined || (yield* phase.process.say(text, { id: said.id, settle })))
      if (!isSaid) operation.submitted = before
      const conversation = known.get(operation.submitted)!
      conversation.joined(operation)
      yield* isSaid ? store.keepConversation(conversation.record) : store.submit(operation.submitted)
      return isSaid ? said.id : undefined
    })
  }

  /** Refuses an operation above the limits. */
  private admit(user: string): Effect.Effect<void, TooMany> {
    const { bounds: { maxOperations, maxOperationsPerUser }, known } = this.given
    return Effect.suspend(() => {
      const all = known.unfinished
      if (all.length >= maxOperations) return Refusals.tooMany(maxOperations, "operations")
      const mine = all.filter((it) => it.submitted.user === user)
      return mine.length >= maxOperationsPerUser
        ? Refusals.tooMany(maxOperationsPerUser, "of your operations")
        : Effect.void
    })
  }

  /** Adds a conversation that was stored, and continues what has no end. */
  private recall({ conversation: kept, open }: OpenConversation): Effect.Effect<void, OperationStoreError> {
    const { access, around, known } = this.given
    return Effect.gen({ self: this }, function*() {
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
          yield* around.ended(operation)
        } else if (Result.isFailure(mayRun)) {
          const { cause, message } = mayRun.failure
          yield* Effect.logWarning(`${message}; an operation of ${kept.user} is left for the next start`, cause)
          operation.rest(yield* Clock.currentTimeMillis)
        } else {
          if (!mayRun.success) yield* operation.cancel("its user may no longer run calls")
          else if (index < open.length - 1) yield* operation.cancel(Refusals.interrupted)
          yield* this.launch(operation, before, true)
          before = operation
        }
      }
    })
  }

  private launch(
    operation: ServedOperation,
    before: ServedOperation | undefined,
    isAgain: boolean
  ): Effect.Effect<unknown> {
    const { around, fibers, listener } = this.given
    const told = Effect.suspend(() =>
      operation.remains === "nothing"
        ? EndListener.tell(listener, operation.submitted, "operation", operation.id)
        : Effect.void
    )
    const ran = Effect.andThen(OperationRun.run(around, operation, { before, isAgain }), told)
    return FiberMap.run(fibers, operation, ran, { startImmediately: true })
  }

  /** One message or cancellation at a time. Nothing of a conversation that is not listed any more is running. */
  private inTurn<A, E>(operation: ServedOperation, effect: Effect.Effect<A, E>) {
    return Effect.suspend((): Effect.Effect<A | undefined, E> => {
      const conversation = this.given.known.get(operation.submitted)
      return conversation === undefined
        ? Effect.undefined
        : conversation.turns.withPermit(Effect.uninterruptible(effect))
    }).pipe(Refusals.orUnavailable)
  }
}
