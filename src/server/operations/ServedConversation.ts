/** A conversation on the server: a session that has had operations, and what runs in it now. */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import * as Spending from "../../agent/Spending.ts"
import type { AgentSse, Conversation, Operation } from "../api/ApiOperations.ts"
import type { Owner } from "../users/Principals.ts"
import { beat, heartbeat } from "../work/EventLog.ts"
import * as RedactedEvents from "../work/RedactedEvents.ts"
import type { KeptConversation } from "./OperationStore.ts"
import type { ServedOperation } from "./ServedOperation.ts"

export class ServedConversation {
  readonly owner: Owner
  /** One message at a time. */
  readonly turns = Semaphore.makeUnsafe(1)
  /** Operations in memory, oldest first. */
  readonly operations: Array<ServedOperation> = []
  private kept: KeptConversation
  /** State of the last operation, while it is not in memory. */
  private state: Operation["state"] = "ended"
  private begun = Deferred.makeUnsafe<void>()
  private isClosed = false

  constructor(owner: Owner, kept: KeptConversation) {
    this.owner = owner
    this.kept = kept
  }

  /** The operation that has not ended. */
  get current(): ServedOperation | undefined {
    return this.operations.findLast((it) => !it.hasEnded)
  }

  /** Whether operations without an end are here, and none of them runs. */
  get isSuspended(): boolean {
    const open = this.operations.filter((it) => !it.hasEnded)
    return open.length > 0 && open.every((it) => it.isOver)
  }

  /** Names of the latest operations, oldest first. */
  get names(): ReadonlyArray<string> {
    return this.kept.operations.map(({ id }) => id)
  }

  /** The operation that a message of this id began or joined. */
  operationOf(message: string): string | undefined {
    return this.kept.operations.find(({ id, said }) => id === message || said.includes(message))?.id
  }

  get updatedAt(): number {
    return this.kept.updatedAt
  }

  /** What is stored. Tokens of an operation count once it has ended. */
  get record(): KeptConversation {
    return this.kept
  }

  get summary(): Conversation {
    const { agent, title, updatedAt } = this.kept
    const last = this.operations.at(-1)
    const ended = last === undefined ? this.kept.ended : last.info.end?.reason._tag
    const { current } = this
    const [usage, cost] = current === undefined ? [this.kept.usage, this.kept.cost] : this.with(current)
    return {
      ...this.owner,
      agent,
      title,
      state: last?.info.state ?? this.state,
      ...ended === undefined ? {} : { ended },
      pending: current?.info.pending ?? 0,
      ...current === undefined ? {} : { operation: current.id },
      usage,
      ...cost === undefined ? {} : { cost },
      updatedAt
    }
  }

  /** Records an operation; returns the names of those that are no longer listed, and how to undo it. */
  begin(
    operation: ServedOperation,
    at: number,
    maxListed: number
  ): { readonly gone: ReadonlyArray<string>; readonly undo: () => void } {
    const { agent, operations, title, updatedAt } = this.kept
    const all = [...operations, { id: operation.id, said: [] }]
    const gone = all.slice(0, Math.max(0, all.length - maxListed))
    this.kept = {
      ...this.kept,
      title: title === "" ? titleOf(operation.prompt) : title,
      agent: operation.submitted.agent,
      updatedAt: at,
      open: [...this.kept.open, operation.id],
      operations: all.slice(gone.length)
    }
    return {
      gone: gone.map(({ id }) => id),
      undo: () => {
        const isOther = (id: string) => id !== operation.id
        this.kept = {
          ...this.kept,
          title,
          agent,
          // another operation may have ended meanwhile
          updatedAt: this.kept.updatedAt === at ? updatedAt : this.kept.updatedAt,
          open: this.kept.open.filter(isOther),
          operations: [...gone, ...this.kept.operations].filter(({ id }) => isOther(id))
        }
      }
    }
  }

  /** Adds an operation that was stored. */
  add(operation: ServedOperation): void {
    this.operations.push(operation)
    Deferred.doneUnsafe(this.begun, Effect.void)
    this.begun = Deferred.makeUnsafe()
  }

  /** Messages have joined an operation. */
  joined({ id, submitted: { inputs: [, ...said] } }: ServedOperation): void {
    const operations = this.kept.operations.map((it) => it.id === id ? { id, said: said.map((one) => one.id) } : it)
    this.kept = { ...this.kept, operations }
  }

  end(operation: ServedOperation, at: number): void {
    this.joined(operation)
    const [usage, cost] = this.with(operation)
    const ended = this.operations.at(-1)?.info.end?.reason._tag
    const { ended: _, ...kept } = this.kept
    this.kept = {
      ...kept,
      ...ended === undefined ? {} : { ended },
      usage,
      ...cost === undefined ? {} : { cost },
      updatedAt: at,
      open: this.kept.open.filter((it) => it !== operation.id)
    }
  }

  /** Ends all readers once its operations have ended. */
  close(): void {
    this.isClosed = true
    Deferred.doneUnsafe(this.begun, Effect.void)
  }

  /** Streams the events of all operations after a position; without one, of the operation that runs, and of later ones. */
  events(after: string | undefined, isShared: boolean): Stream.Stream<AgentSse> {
    return Stream.suspend(() => {
      const from = after === undefined ? -1 : this.operations.findIndex((it) => it.log.has(after))
      const first = from >= 0 ? this.operations[from] : this.current
      // an unknown position makes the log say so
      const start = first === undefined ? Stream.empty : first.log.stream(after, isShared)
      return Stream.concat(start, this.later(first ?? this.operations.at(-1), isShared))
    })
  }

  private later(last: ServedOperation | undefined, isShared: boolean): Stream.Stream<AgentSse> {
    return Stream.suspend(() => {
      const next = this.after(last)
      if (next !== undefined) return Stream.concat(next.log.stream(undefined, isShared), this.later(next, isShared))
      return this.isClosed ? Stream.empty : Stream.concat(this.waiting(last), this.later(last, isShared))
    })
  }

  /** Waits for the operation after one, or the end of the conversation. */
  private waiting(last: ServedOperation | undefined): Stream.Stream<AgentSse> {
    return Stream.paginate<undefined, AgentSse>(
      undefined,
      () =>
        Effect.suspend(() =>
          this.isClosed || this.after(last) !== undefined
            ? Effect.succeedNone
            : Effect.timeoutOption(Deferred.await(this.begun), heartbeat).pipe(
              Effect.flatMap((news) =>
                Option.isSome(news) ? Effect.succeedNone : Effect.asSome(Clock.currentTimeMillis)
              )
            )
        ).pipe(
          Effect.map(Option.match({
            onNone: () => [[], Option.none()] as const,
            onSome: (now) => [[beat(now)], Option.some(undefined)] as const
          }))
        )
    )
  }

  private after(last: ServedOperation | undefined): ServedOperation | undefined {
    return this.operations[last === undefined ? 0 : this.operations.indexOf(last) + 1]
  }

  private with({ cost, usage }: ServedOperation) {
    const total = cost === undefined ? this.kept.cost : (this.kept.cost ?? 0) + cost
    return [Spending.sum(this.kept.usage, usage), total] as const
  }
}

/** The beginning of a text, on one line. */
const titleOf = (prompt: string): string => {
  const line = RedactedEvents.text(prompt).replace(/\s+/g, " ").trim()
  return line.length <= titleChars ? line : `${Array.from(line).slice(0, titleChars).join("").trimEnd()}…`
}

const titleChars = 80
