/**
 * Runs an operation until it ends or the server stops, with or without readers.
 *
 * The name of the operation is the name of its batch, so a later server continues its calls from the journal. Whatever
 * was said to it and is not in the transcript is said again.
 */
import * as Prompt from "effect/ai/Prompt"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { EndReason, OperationEnd } from "../../agent/AgentEvent.ts"
import * as AgentEvent from "../../agent/AgentEvent.ts"
import * as AgentExecutor from "../../agent/AgentExecutor.ts"
import * as Conversation from "../../agent/Conversation.ts"
import { type TranscriptError, Transcripts } from "../../agent/Transcripts.ts"
import { ToolExecutor } from "../../core/engine/ToolExecutor.ts"
import type { ToolExecutors } from "../../core/engine/ToolExecutors.ts"
import * as Approvals from "../../core/gates/Approvals.ts"
import type { Journal } from "../../core/store/Journal.ts"
import { isLost } from "../../core/store/SessionRows.ts"
import type { ConfigurationError } from "../../core/vocabulary/ConfigurationError.ts"
import type { Operation } from "../api/ApiOperations.ts"
import * as Principals from "../users/Principals.ts"
import type { Agent } from "./Agents.ts"
import * as MissedEvents from "./MissedEvents.ts"
import type { OperationStore, OperationStoreError } from "./OperationStore.ts"
import type { ServedOperation } from "./ServedOperation.ts"

/** An agent and the executors of its sessions. */
export interface Runnable {
  readonly agent: Agent
  readonly executors: ToolExecutors["Service"]
}

/** What all operations share. */
export interface Around {
  readonly agents: ReadonlyMap<string, Runnable>
  readonly store: OperationStore["Service"]
  readonly transcripts: Transcripts["Service"]
  readonly approvals: Approvals.Approvals["Service"]
  readonly journal: Journal["Service"]
  /** The state of an operation has changed. */
  readonly changed: (operation: ServedOperation) => void
  /** Stores the conversation of an operation that has ended. */
  readonly ended: (operation: ServedOperation) => Effect.Effect<void, OperationStoreError>
}

type Input = ServedOperation["submitted"]["inputs"][number]

/** Runs an operation, or continues one of an earlier start. `before` ends first. */
export const run = (
  around: Around,
  operation: ServedOperation,
  { before, isAgain }: { readonly before?: ServedOperation | undefined; readonly isAgain: boolean }
): Effect.Effect<void> =>
  Effect.gen(function*() {
    if (before !== undefined) yield* before.over
    yield* Effect.forkScoped(Effect.forever(
      Effect.andThen(operation.unsaved.await, Effect.delay(saved(around, operation), "100 millis"))
    ))
    const exit = yield* Effect.exit(work(around, operation, isAgain))
    if (Exit.isSuccess(exit)) return yield* end(around, operation, exit.value)
    // the server stops: the next start continues it
    if (Cause.hasInterruptsOnly(exit.cause)) return
    if (isLost(Cause.squash(exit.cause))) return operation.leave("lost")
    yield* Principals.annotated(operation.submitted)(Effect.logError("An operation could not continue", exit.cause))
    yield* end(around, operation, operation.endOf(failed, yield* Clock.currentTimeMillis))
  }).pipe(
    Effect.scoped,
    Effect.ensuring(Effect.suspend(() => saved(around, operation))),
    Effect.ensuring(Effect.map(Clock.currentTimeMillis, (now) => {
      operation.close(now)
      around.changed(operation)
    }))
  )

const work = Effect.fnUntraced(function*(
  around: Around,
  operation: ServedOperation,
  isAgain: boolean
): Effect.fn.Return<OperationEnd, ConfigurationError | TranscriptError> {
  const { submitted } = operation
  const runnable = around.agents.get(submitted.agent)
  const now = yield* Clock.currentTimeMillis
  if (runnable === undefined) return operation.endOf(unconfigured(submitted.agent), now)
  const left = isAgain ? yield* leftOf(around, operation) : { inputs: submitted.inputs, text: undefined }
  // it was stored as ended by the model, but not by the server
  if (left.text !== undefined) {
    const { cancelled } = operation
    const reason: EndReason = cancelled === undefined
      ? { _tag: "Finished" }
      : { _tag: "Cancelled", reason: cancelled }
    return operation.endOf(reason, now, left.text)
  }
  const known = new Set(submitted.inputs.map(({ id }) => id))
  const run = Effect.gen(function*() {
    for (;;) {
      const ended = yield* once(around, operation, runnable, { inputs: left.inputs, known })
      const { reason } = ended
      if (!isAgain || reason._tag !== "NotResumed" || reason.because === "Changed") return ended
      // another process may still hold its calls, or the journal does not answer
      yield* Effect.sleep("2 seconds")
    }
  })
  // an idle session holds no executor: all that it remembers is stored
  return yield* Effect.ensuring(run, runnable.executors.invalidate(Principals.toPrincipal(submitted)))
})

/** What the transcript does not have of what was said, and the model's last text if nothing is left to do. */
const leftOf = Effect.fnUntraced(function*({ journal, transcripts }: Around, operation: ServedOperation) {
  const { submitted } = operation
  const { messages } = yield* transcripts.open(submitted.session, Principals.toPrincipal(submitted))
  yield* MissedEvents.tell(operation, messages, journal, yield* Clock.currentTimeMillis).pipe(
    Effect.catch((error) => Effect.logWarning("Events of an operation could not be restored", error))
  )
  const taken = new Set(messages.map(Conversation.inputOf))
  const inputs = submitted.inputs.filter(({ id }) => !taken.has(id))
  const last = messages.at(-1)
  const isOver = inputs.length === 0 && last?.role === "assistant" && Conversation.callsOf(last).length === 0 &&
    Conversation.behind(messages).length === 0
  return { inputs, text: isOver ? Conversation.textOf(last) : undefined }
}, Effect.scoped)

const once = Effect.fnUntraced(function*(
  around: Around,
  operation: ServedOperation,
  { agent, executors }: Runnable,
  { inputs, known }: { readonly inputs: ReadonlyArray<Input>; readonly known: ReadonlySet<string> }
): Effect.fn.Return<OperationEnd, ConfigurationError, Scope.Scope> {
  const { description: _, model, name: __, onBusy: ___, policy: ____, rules: _____, secrets: ______, ...options } =
    agent
  const executor = yield* executors.get(Principals.toPrincipal(operation.submitted))
  const agents = yield* Effect.provideContext(
    AgentExecutor.make,
    model.pipe(
      Context.add(ToolExecutor, executor),
      Context.add(Approvals.Approvals, around.approvals),
      Context.add(Transcripts, around.transcripts)
    )
  )
  const running = yield* agents.start({
    ...options,
    id: operation.id,
    session: operation.submitted.session,
    mode: "Interactive",
    cancelled: operation.cancelled,
    prompt: Prompt.fromMessages(inputs.map(({ id, text }) => Conversation.input(text, id)))
  })
  yield* operation.attach(running)
  // said before it ran
  for (const { id, text } of operation.submitted.inputs) {
    if (!known.has(id)) yield* running.say(text, { id, settle: operation.settling.has(id) })
  }
  around.changed(operation)
  yield* Stream.runForEachArray(running.events, (events) =>
    Effect.sync(() => {
      let isChanged = false
      for (const event of events) if (!AgentEvent.isLast(event)) isChanged = operation.tell(event) || isChanged
      if (isChanged) around.changed(operation)
    }))
  return yield* running.result
}, Effect.scoped)

/** Stores the end before anybody sees it. A suspended operation has no end yet. */
const end = (around: Around, operation: ServedOperation, ended: OperationEnd): Effect.Effect<void> =>
  Effect.uninterruptible(Effect.gen(function*() {
    // readers of a session that is closed or lost connect again
    if (operation.isLost) return
    if (ended.reason._tag === "Suspended") {
      return operation.leaving === undefined
        ? operation.finish(ended, false)
        : undefined
    }
    // without the end itself, which an ended operation has without its event
    yield* saved(around, operation)
    const isStored = yield* logged(operation, around.store.end(operation.submitted, operation.ending(ended)))
    if (operation.isLost) return
    operation.finish(ended, isStored)
    if (isStored) yield* logged(operation, around.ended(operation))
  }))

/** Stores the end of an operation that could not be stored before. */
export const keepEnd = (
  around: Around,
  operation: ServedOperation,
  ended: Operation
): Effect.Effect<void, OperationStoreError> =>
  Effect.andThen(
    around.store.end(operation.submitted, ended),
    Effect.suspend(() => {
      operation.keep()
      return around.ended(operation)
    })
  )

const saved = ({ store }: Around, operation: ServedOperation) =>
  Effect.suspend(() =>
    operation.isLost ? Effect.void : Effect.asVoid(Effect.uninterruptible(logged(operation, operation.save(store))))
  )

/** Whether something was stored. If not, the next start continues the operation, which has ended in its transcript. */
const logged = (
  operation: ServedOperation,
  effect: Effect.Effect<void, OperationStoreError>
): Effect.Effect<boolean> =>
  Effect.as(effect, true).pipe(
    Effect.catch((error) =>
      Effect.as(
        isLost(error)
          ? Effect.sync(() => operation.leave("lost"))
          : Effect.logWarning(error.message, error.cause),
        false
      )
    ),
    Principals.annotated(operation.submitted)
  )

const failed: EndReason = {
  _tag: "NotKept",
  message: "The operation could not continue. The log of the server has the cause."
}

const unconfigured = (agent: string): EndReason => ({
  _tag: "NotResumed",
  because: "Unavailable",
  message: `The agent ${JSON.stringify(agent)} is not configured any more.`,
  calls: []
})
