/**
 * What a state store is told: an outcome stands whatever the store does, so what
 * it could not take down is told again later.
 *
 * What is about one thing is told in order, one thing after the other.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as CallLog from "../../internal/callLog.ts"
import * as Detached from "../../internal/detached.ts"
import { exitOf } from "../../internal/exitOf.ts"
import type { Outages } from "../../internal/outages.ts"
import { type Settlement, StateStoreError } from "../store/StateStore.ts"
import * as Ports from "./Ports.ts"
import { Principal } from "./Principal.ts"

/**
 * The call that something is told for.
 *
 * @category models
 * @since 0.1.0
 */
export interface Told {
  readonly call: { readonly id: string; readonly name: string }
}

/**
 * What a message is about.
 *
 * @category options
 * @since 0.1.0
 */
export interface About {
  /** Such as the id of a reservation. */
  readonly about: string
  /** What is to become of the key of that reservation. */
  readonly key?: Settlement["key"] | undefined
  /** The call that it is told for, for the log. */
  readonly of?: Told | undefined
  /** Called once the store has noted it, or it is lost. */
  readonly onOver?: () => void
}

/**
 * How long a store is waited for, in milliseconds.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** For an answer. */
  readonly patience: number
  /** After a failure, before it is told again; twice as long each time. */
  readonly retry: number
  readonly outages: Outages
}

/** Milliseconds between two tries, at most. */
const longestPause = 60_000

/** Messages about so many things are kept until they can be told; more are lost. */
const maxUntold = 1_000

/** Something that a driver is told. */
interface Message {
  readonly operation: string
  /** The driver answers false where what it was told changes nothing. */
  readonly tell: () => Effect.Effect<boolean | void, StateStoreError>
  readonly key: Settlement["key"] | undefined
  readonly of: Told | undefined
}

/** What has to be told of one thing, in this order; the first is being told. */
interface Queue {
  readonly messages: Array<Message>
  hasFailed: boolean
  /** Nothing is being told now: the next try comes later. */
  isPausing: boolean
}

/**
 * What a state store is told.
 *
 * @category models
 * @since 0.1.0
 */
export class Telling {
  private readonly context: Context.Context<never>
  private readonly options: Options
  /** By what the messages are about; else by themselves. */
  private readonly untold = new Map<string | Queue, Queue>()
  private readonly fibers = new Map<Fiber.Fiber<unknown>, Queue>()
  private isOver = false

  constructor(context: Context.Context<never>, options: Options) {
    this.context = context
    this.options = options
  }

  /** Tells something; ends with the first try, whatever comes of it, or once `patience` is over. */
  tell(
    operation: string,
    tell: () => Effect.Effect<boolean | void, StateStoreError>,
    patience: number,
    { about, key, of, onOver }: Partial<About> = {}
  ): Effect.Effect<void> {
    if (about !== undefined && this.tellBehind(about, { operation, tell, key, of })) return Effect.void
    const said = attempted(tell)
    const exit = exitOf(said)
    if (exit?._tag === "Success" && isTakenDown(exit.value)) {
      onOver?.()
      return Effect.void
    }
    const answer = Ports.ask(operation, () => said, undefined, this.options.patience)
    const queue: Queue = { messages: [{ operation, tell, key, of }], hasFailed: false, isPausing: false }
    const id = about ?? queue
    this.untold.set(id, queue)
    const tried: { yet: boolean; then?: () => void } = { yet: false }
    const told = this.tellAll(queue, answer, () => {
      tried.yet = true
      tried.then?.()
    })
    const fiber = Effect.runForkWith(this.context)(told)
    this.fibers.set(fiber, queue)
    fiber.addObserver(() => {
      this.fibers.delete(fiber)
      this.untold.delete(id)
      onOver?.()
    })
    if (tried.yet) return Effect.void
    const first = Effect.callback<void>((resume) => {
      tried.then = () => resume(Effect.void)
      if (tried.yet) tried.then()
    })
    return Effect.asVoid(Detached.within(first, patience))
  }

  /** Tells something as soon as all else about the same thing has been told; false where nothing is waiting to be. */
  tellBehind(about: string, message: Message): boolean {
    const queue = this.untold.size === 0 ? undefined : this.untold.get(about)
    queue?.messages.push(message)
    return queue !== undefined
  }

  /** What is to become of the key of a reservation, where the store could not be told and does not know it yet. */
  pendingKey(reservation: string): Settlement["key"] | undefined {
    const queue = this.untold.get(reservation)
    return queue?.hasFailed === true ? queue.messages.at(-1)?.key : undefined
  }

  /** What is being told comes to its end, in time; nothing is told again. */
  get close(): Effect.Effect<void> {
    return Effect.suspend(() => {
      this.isOver = true
      for (const [fiber, queue] of Array.from(this.fibers)) if (queue.isPausing) fiber.interruptUnsafe()
      if (this.fibers.size === 0) return Effect.void
      return Effect.asVoid(Detached.within(Fiber.awaitAll(Array.from(this.fibers.keys())), this.options.patience))
    })
  }

  private now(): number {
    return Context.get(this.context, Clock.Clock).currentTimeMillisUnsafe()
  }

  private warn(of: Told | undefined, message: string, cause?: Cause.Cause<unknown>): Effect.Effect<void> {
    const principal = Context.get(this.context, Principal)
    return CallLog.log("Warn", message, cause, { callId: of?.call.id, tool: of?.call.name, principal })
  }

  private readonly tellAll = Effect.fnUntraced(function*(
    this: Telling,
    queue: Queue,
    first: Effect.Effect<boolean | void | StateStoreError>,
    onTried: () => void
  ) {
    const { messages } = queue
    const { patience, retry } = this.options
    let answer = first
    let millis = retry
    while (true) {
      const told: boolean | void | StateStoreError = yield* answer
      const { of, operation } = messages[0]!
      const hasFailed = told instanceof StateStoreError
      if (!hasFailed) {
        // it may have been told before, and the answer lost
        if (told === false && !queue.hasFailed) {
          yield* this.warn(of, `StateStore.${operation} changed nothing; the reservation was no longer held`)
        }
        messages.shift()
        millis = retry
      } else {
        // the outcome stands: what the store could not take down is for the operator to see
        const isLost = this.isOver || this.untold.size > maxUntold
        if (isLost || !queue.hasFailed) {
          const next = isLost ? "what it was told is lost" : "it is told again later"
          const what = this.options.outages.failed(`StateStore.${operation} failed; ${next}`, this.now())
          if (what !== undefined) yield* this.warn(of, what, Cause.die(told.cause))
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
      answer = Ports.ask(next.operation, next.tell, undefined, patience)
    }
  })
}

// Utilities

const attempted = <A>(tell: () => Effect.Effect<A, StateStoreError>): Effect.Effect<A, StateStoreError> => {
  try {
    return tell()
  } catch (defect) {
    return Effect.die(defect)
  }
}

/** The driver knows, and it counts. */
const isTakenDown = (told: boolean | void | StateStoreError): boolean =>
  told !== false && !(told instanceof StateStoreError)
