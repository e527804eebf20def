/**
 * Messages to a state store that must arrive. An outcome stands even if the store fails, so a failed message is retried
 * later. Messages about the same thing are sent in order, one at a time.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as CallLog from "../../../internal/callLog.ts"
import * as Detached from "../../../internal/detached.ts"
import { exitOf } from "../../../internal/exitOf.ts"
import type { Outages } from "../../../internal/outages.ts"
import { type Settlement, StateStoreError } from "../../store/StateStore.ts"
import { Principal } from "../data/Principal.ts"
import { inTime } from "./TimedPorts.ts"

/** The call that a message is sent for. */
export interface ForCall {
  readonly call: { readonly id: string; readonly name: string }
}

export interface Message {
  readonly operation: string
  /** The driver answers false if the message changed nothing. */
  readonly send: () => Effect.Effect<boolean | void, StateStoreError>
  /** What it is about, such as the id of a reservation. Without it, the message is in no particular order. */
  readonly about?: string | undefined
  /** The key of that reservation afterwards. */
  readonly key?: Settlement["key"] | undefined
  /** For the log. */
  readonly of?: ForCall | undefined
  /** Called once the message has arrived, or is lost. */
  readonly onOver?: (() => void) | undefined
}

/** How messages are sent. */
export interface Options {
  /** Milliseconds to wait for an answer. */
  readonly timeout: number
  /** Milliseconds after a failure before the next attempt; doubled each time. */
  readonly retry: number
  readonly outages: Outages
}

/** Longest time between two attempts, in milliseconds. */
const longestPause = 60_000

/** How many things may have failed messages waiting; further messages are lost. */
const maxUnsent = 1_000

/** Messages about one thing. The first is being sent. */
interface Queue {
  readonly messages: Array<Message>
  hasFailed: boolean
  /** Nothing is being sent now; the next attempt is scheduled. */
  isPausing: boolean
}

/** The driver's answer. If the driver throws, the effect dies with the defect. */
export const answered = <A>(ask: () => Effect.Effect<A, StateStoreError>): Effect.Effect<A, StateStoreError> => {
  try {
    return ask()
  } catch (defect) {
    return Effect.die(defect)
  }
}

/** Whether the driver has accepted the message already. */
export const isAccepted = (answer: Effect.Effect<boolean | void, StateStoreError>): boolean => {
  const exit = exitOf(answer)
  return exit?._tag === "Success" && exit.value !== false
}

/** Messages to a state store. */
export class StoreOutbox {
  private readonly context: Context.Context<never>
  private readonly options: Options
  /** By what the messages are about; by queue if that is absent. */
  private readonly unsent = new Map<string | Queue, Queue>()
  private readonly fibers = new Map<Fiber.Fiber<unknown>, Queue>()
  private isOver = false

  constructor(context: Context.Context<never>, options: Options) {
    this.context = context
    this.options = options
  }

  /** Whether no message waits for an answer or a retry. */
  get isEmpty(): boolean {
    return this.unsent.size === 0
  }

  /**
   * Sends a message. Ends with the first attempt, successful or not, or after `timeout` milliseconds. `first` is the
   * driver's answer if the message was sent already.
   */
  send(message: Message, timeout: number, first?: Effect.Effect<boolean | void, StateStoreError>): Effect.Effect<void> {
    if (first === undefined && message.about !== undefined && this.sendBehind(message.about, message)) {
      return Effect.void
    }
    const answer = first ?? answered(message.send)
    if (isAccepted(answer)) {
      message.onOver?.()
      return Effect.void
    }
    const queue: Queue = { messages: [message], hasFailed: false, isPausing: false }
    const id = message.about ?? queue
    this.unsent.set(id, queue)
    const tried: { yet: boolean; then?: () => void } = { yet: false }
    const sent = this.sendAll(queue, answer, () => {
      tried.yet = true
      tried.then?.()
    })
    const fiber = Effect.runForkWith(this.context)(sent)
    this.fibers.set(fiber, queue)
    fiber.addObserver(() => {
      this.fibers.delete(fiber)
      this.unsent.delete(id)
      message.onOver?.()
    })
    if (tried.yet) return Effect.void
    const attempt = Effect.callback<void>((resume) => {
      tried.then = () => resume(Effect.void)
      if (tried.yet) tried.then()
    })
    return Effect.asVoid(Detached.within(attempt, timeout))
  }

  /** Queues a message after the others about the same thing; false if there are no others. */
  sendBehind(about: string, message: Message): boolean {
    const queue = this.unsent.size === 0 ? undefined : this.unsent.get(about)
    queue?.messages.push(message)
    return queue !== undefined
  }

  /** The settlement of a reservation's key that could not be sent yet. */
  pendingKey(reservation: string): Settlement["key"] | undefined {
    const queue = this.unsent.get(reservation)
    return queue?.hasFailed === true ? queue.messages.at(-1)?.key : undefined
  }

  /** Waits for messages in flight, with a timeout. Stops retries. */
  get close(): Effect.Effect<void> {
    return Effect.suspend(() => {
      this.isOver = true
      for (const [fiber, queue] of Array.from(this.fibers)) if (queue.isPausing) fiber.interruptUnsafe()
      if (this.fibers.size === 0) return Effect.void
      return Effect.asVoid(Detached.within(Fiber.awaitAll(Array.from(this.fibers.keys())), this.options.timeout))
    })
  }

  private now(): number {
    return Context.get(this.context, Clock.Clock).currentTimeMillisUnsafe()
  }

  private warn(of: ForCall | undefined, message: string, cause?: Cause.Cause<unknown>): Effect.Effect<void> {
    const principal = Context.get(this.context, Principal)
    return CallLog.log("Warn", message, cause, { callId: of?.call.id, tool: of?.call.name, principal })
  }

  private readonly sendAll = Effect.fnUntraced(function*(
    this: StoreOutbox,
    queue: Queue,
    first: Effect.Effect<boolean | void, StateStoreError>,
    onTried: () => void
  ) {
    const { messages } = queue
    const { retry, timeout } = this.options
    let answer = first
    let millis = retry
    while (true) {
      const { of, operation } = messages[0]!
      const told = yield* Effect.result(inTime(answer, (cause) => storeError(operation, cause), timeout))
      const hasFailed = told._tag === "Failure"
      if (!hasFailed) {
        // an earlier attempt may have arrived and its answer got lost
        if (told.success === false && !queue.hasFailed) {
          yield* this.warn(of, `StateStore.${operation} changed nothing; the reservation was no longer held`)
        }
        messages.shift()
        millis = retry
      } else {
        // the outcome stands: the log reports that the store does not know it
        const isLost = this.isOver || this.unsent.size > maxUnsent
        if (isLost || !queue.hasFailed) {
          const next = isLost ? "the message is lost" : "it will be retried"
          const what = this.options.outages.failed(`StateStore.${operation} failed; ${next}`, this.now())
          if (what !== undefined) yield* this.warn(of, what, Cause.die(told.failure.cause))
        }
        if (isLost) messages.length = 0
        queue.hasFailed = true
      }
      onTried()
      if (hasFailed && messages.length > 0) {
        queue.isPausing = true
        yield* Effect.sleep(millis)
        queue.isPausing = false
        millis = Math.min(2 * millis, Math.max(retry, longestPause))
      }
      const next = messages[0]
      if (next === undefined) return
      answer = answered(next.send)
    }
  })
}

/** Wraps any cause as an error of the store. */
export const storeError = (operation: string, cause: unknown): StateStoreError =>
  cause instanceof StateStoreError ? cause : new StateStoreError({ operation, cause })
