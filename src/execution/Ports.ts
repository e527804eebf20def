/**
 * What an executor leans on and is not its own: the state store, artifacts,
 * checkpoints, people. All have the same patience, here and nowhere else: a driver
 * that throws, dies, does not answer in time or gives what is no answer has failed
 * like one that says so.
 *
 * @since 0.1.0
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Fiber from "effect/Fiber"
import * as Schema from "effect/Schema"
import * as Detached from "../internal/detached.ts"
import { ArtifactError, type ArtifactStore } from "../output/ArtifactStore.ts"
import { Checkpoint, CheckpointError, type Checkpoints } from "../output/Checkpoints.ts"
import type { Approvals, Question, Resolution } from "../policy/Approvals.ts"
import { Grant } from "../store/Grant.ts"
import { type Answer, StateStoreError } from "../store/StateStore.ts"
import { ArtifactRef } from "../ToolOutcome.ts"
import type { ProcessState } from "./Engine.ts"

/**
 * Milliseconds that a driver has for an answer.
 *
 * @category constants
 * @since 0.1.0
 */
export const patience = 5_000

/**
 * Milliseconds that a call of a process waits for a driver: never longer than
 * its turn lasts.
 *
 * @category getters
 * @since 0.1.0
 */
export const patienceOf = ({ budget }: ProcessState, now: number): number =>
  Math.min(patience, Math.max(0, budget.left(now)))

/**
 * What a driver of the state store answers, at once or in time. It may come from
 * code that no compiler has seen: what is no answer is a failure, too.
 *
 * @category asking
 * @since 0.1.0
 */
export const ask = <A>(
  operation: string,
  question: () => Answer<A>,
  isAnswer: IsAnswer = isAny
): Answer<A> => {
  try {
    const answer = question()
    if (!Effect.isEffect(answer)) return isAnswer(answer) ? answer : Effect.fail(failure(operation, nonsense))
    return inTime(answer, (cause) => failure(operation, cause), isAnswer)
  } catch (cause) {
    return Effect.fail(failure(operation, cause))
  }
}

/**
 * An artifact store that answers in time.
 *
 * @category constructors
 * @since 0.1.0
 */
export const artifactStore = (driver: ArtifactStore["Service"]): ArtifactStore["Service"] => {
  const failed = (id: string) => (cause: unknown) =>
    cause instanceof ArtifactError ? cause : new ArtifactError({ reason: "StoreFailed", id })
  return {
    put: (owner, payload) => inTime(Effect.suspend(() => driver.put(owner, payload)), failed(""), isRef),
    read: (owner, id, range) => inTime(Effect.suspend(() => driver.read(owner, id, range)), failed(id), isPart)
  }
}

/**
 * Checkpoints that answer in time.
 *
 * @category constructors
 * @since 0.1.0
 */
export const checkpoints = (driver: Checkpoints["Service"]): Checkpoints["Service"] => {
  const failed = (id: string) => (cause: unknown) =>
    cause instanceof CheckpointError ? cause : new CheckpointError({ reason: "Store", id, cause })
  return {
    save: (write) => inTime(Effect.suspend(() => driver.save(write)), failed(""), isCheckpoint),
    list: (principal) => inTime(Effect.suspend(() => driver.list(principal)), failed(""), areCheckpoints),
    content: (checkpoint, path) =>
      inTime(Effect.suspend(() => driver.content(checkpoint, path)), failed(checkpoint.id), isContent),
    forget: (checkpoint) => inTime(Effect.suspend(() => driver.forget(checkpoint)), failed(checkpoint.id))
  }
}

/**
 * People, as an executor asks them.
 *
 * @category models
 * @since 0.1.0
 */
export interface People {
  /**
   * Asks; `undefined` where the question could not be put. `onEnd` is called at most
   * once, never before this returns, and never after `withdraw`.
   */
  readonly ask: (
    question: Question,
    onEnd: (resolution: Resolution) => void
  ) => { readonly id: string; readonly withdraw: () => void } | undefined
}

/**
 * People who answer once, and in time: what comes twice or too late changes
 * nothing, and what is no answer is a no.
 *
 * @category constructors
 * @since 0.1.0
 */
export const people = (driver: Approvals["Service"], context: Context.Context<never>): People => {
  const desk = new Desk(Effect.runForkWith(context), Context.get(context, Clock.Clock))
  return {
    ask: (question, onEnd) => {
      const open = new Open(desk, onEnd)
      try {
        open.put(driver.ask(question, (resolution) => open.answered(resolution)))
        return open
      } catch (cause) {
        open.close()
        desk.warn("failed", cause)
        return undefined
      }
    }
  }
}

// Utilities

/** Whether what a driver gave is an answer; it may throw like the driver. */
type IsAnswer = (answer: unknown) => boolean

const isAny = () => true

const nonsense = "it is no answer"

/** How long people have where their driver does not say so. */
const silentMillis = 300_000

type Asked = ReturnType<Approvals["Service"]["ask"]>

/** A question, until it is answered. */
class Open {
  id = ""
  /** Epoch milliseconds until which the driver may be silent. */
  until = Infinity
  private readonly desk: Desk
  private onEnd: ((resolution: Resolution) => void) | undefined
  private asked: Asked | undefined

  constructor(desk: Desk, onEnd: (resolution: Resolution) => void) {
    this.desk = desk
    this.onEnd = onEnd
  }

  /** The driver has it; throws where what it gave is no request. */
  put(asked: Asked): void {
    const { expiresAt, id } = asked.request
    if (typeof id !== "string") throw new TypeError("its request has no id")
    this.id = id
    this.asked = asked
    const now = this.desk.now()
    this.until = (typeof expiresAt === "number" && expiresAt >= now ? expiresAt : now + silentMillis) + patience
    this.desk.add(this)
  }

  /** Who answers before the question is put is heard after that. */
  answered(resolution: unknown): void {
    if (this.asked !== undefined) return this.end(resolution)
    this.desk.run(Effect.andThen(Effect.yieldNow, Effect.sync(() => this.end(resolution))))
  }

  /** Nobody has answered in time. */
  silent(): void {
    const onEnd = this.withdraw()
    onEnd?.({ _tag: "Denied", by: "timeout" })
  }

  /** Takes the question back; gives who is not told any more. */
  withdraw(): typeof this.onEnd {
    const onEnd = this.close()
    try {
      if (onEnd !== undefined) this.asked?.withdraw()
    } catch (cause) {
      this.desk.warn("did not take a question back", cause)
    }
    return onEnd
  }

  close(): typeof this.onEnd {
    const { onEnd } = this
    this.onEnd = undefined
    this.desk.delete(this)
    return onEnd
  }

  private end(resolution: unknown): void {
    const onEnd = this.close()
    if (onEnd === undefined) return
    if (isAnswered(resolution)) return onEnd(resolution)
    this.desk.warn("gave no answer", resolution)
    onEnd({ _tag: "Denied", by: "closed" })
  }
}

/** The open questions of a driver; one fiber waits for the first that nobody answers in time. */
class Desk {
  readonly run: (effect: Effect.Effect<void>) => Fiber.Fiber<void>
  private readonly clock: Clock.Clock
  private readonly all = new Set<Open>()
  private wakesAt = Infinity
  private fiber: Fiber.Fiber<void> | undefined

  constructor(run: (effect: Effect.Effect<void>) => Fiber.Fiber<void>, clock: Clock.Clock) {
    this.run = run
    this.clock = clock
  }

  now(): number {
    return this.clock.currentTimeMillisUnsafe()
  }

  warn(what: string, cause: unknown): void {
    this.run(Effect.logWarning(`Approvals.ask ${what}`, cause))
  }

  add(open: Open): void {
    this.all.add(open)
    this.wakeAt(open.until)
  }

  delete(open: Open): void {
    this.all.delete(open)
    if (this.all.size > 0) return
    this.fiber?.interruptUnsafe()
    this.wakesAt = Infinity
  }

  private wakeAt(time: number): void {
    if (time >= this.wakesAt) return
    this.fiber?.interruptUnsafe()
    this.wakesAt = time
    const wake = Effect.sync(() => {
      this.fiber = undefined
      this.wake()
    })
    this.fiber = this.run(Effect.andThen(Effect.sleep(Math.max(0, time - this.now())), wake))
  }

  private wake(): void {
    this.wakesAt = Infinity
    const now = this.now()
    for (const open of Array.from(this.all)) {
      if (open.until <= now) open.silent()
      else this.wakeAt(open.until)
    }
  }
}

const isRef = Schema.is(ArtifactRef)
const isPart = Schema.is(Schema.Struct({ text: Schema.String, chars: Schema.Finite }))
const isCheckpoint = Schema.is(Checkpoint)
const areCheckpoints = Schema.is(Schema.Array(Checkpoint))
const isContent = (answer: unknown) => answer === undefined || answer instanceof Uint8Array

const isResolution = Schema.is(Schema.Union([
  Schema.TaggedStruct("Approved", {
    grant: Schema.UndefinedOr(Grant),
    isOwn: Schema.Boolean,
    edited: Schema.optional(Schema.Struct({ params: Schema.Unknown }))
  }),
  Schema.TaggedStruct("Denied", {
    by: Schema.Literals(["user", "timeout", "closed", "noApprover"]),
    reason: Schema.optional(Schema.String)
  })
]))

const isAnswered = (answer: unknown): answer is Resolution => {
  try {
    return isResolution(answer)
  } catch {
    return false
  }
}

const failure = (operation: string, cause: unknown): StateStoreError =>
  cause instanceof StateStoreError ? cause : new StateStoreError({ operation, cause })

/** The value of an effect that nobody waits for any longer than that; `failed` makes the error of whatever went wrong. */
const inTime = <A, E>(
  effect: Effect.Effect<A, E>,
  failed: (cause: unknown) => E,
  isAnswer: IsAnswer = isAny
): Effect.Effect<A, E> =>
  Effect.flatMap(Detached.within(effect, patience), (exit) => {
    if (exit === undefined) return Effect.fail(failed("no answer in time"))
    if (Exit.isFailure(exit)) return Effect.fail(failed(Cause.squash(exit.cause)))
    try {
      return isAnswer(exit.value) ? Effect.succeed(exit.value) : Effect.fail(failed(nonsense))
    } catch (cause) {
      return Effect.fail(failed(cause))
    }
  })
