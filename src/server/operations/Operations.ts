/**
 * The operations of all sessions: started once, run with or without a client, steered by messages, and continued after a
 * restart. A session runs one operation at a time.
 */
import * as Prompt from "effect/ai/Prompt"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FiberMap from "effect/FiberMap"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import { Transcripts } from "../../agent/Transcripts.ts"
import * as TranscriptStore from "../../agent/TranscriptStore.ts"
import type { Gates } from "../../core/engine/ToolExecutor.ts"
import type { ToolExecutors } from "../../core/engine/ToolExecutors.ts"
import * as Approvals from "../../core/gates/Approvals.ts"
import * as Journal from "../../core/store/Journal.ts"
import type { ConfigurationError } from "../../core/vocabulary/ConfigurationError.ts"
import { ToolHandlers } from "../../core/vocabulary/ToolHandlers.ts"
import type { AgentSse, Conversation, Operation, OperationSubmission } from "../api/ApiOperations.ts"
import {
  type Invalid,
  type OperationConflict,
  OperationEnded,
  type SessionBusy,
  type TooMany,
  type Unavailable
} from "../api/ApiProblems.ts"
import type { Status } from "../api/ApiRecords.ts"
import { LiveLog } from "../live/LiveLog.ts"
import { Access } from "../users/Access.ts"
import { annotated, type Owner, toPrincipal } from "../users/Principals.ts"
import * as EndListener from "../work/EndListener.ts"
import * as RedactedEvents from "../work/RedactedEvents.ts"
import type { Works } from "../work/Work.ts"
import * as Agents from "./Agents.ts"
import * as History from "./History.ts"
import { KnownConversations } from "./KnownConversations.ts"
import * as OperationOptions from "./OperationOptions.ts"
import * as Refusals from "./OperationRefusals.ts"
import * as OperationRun from "./OperationRun.ts"
import { OperationRunner } from "./OperationRunner.ts"
import * as OperationStore from "./OperationStore.ts"
import * as RunnableAgents from "./RunnableAgents.ts"
import type { ServedOperation } from "./ServedOperation.ts"

/** A known operation. */
export interface Handle {
  readonly id: string
  readonly info: Effect.Effect<Operation>
  /** Waits until it has ended or is suspended. */
  readonly ended: Effect.Effect<Operation>
  /** The position after its latest event. */
  readonly cursor: Effect.Effect<string>
  /**
   * Streams the events after a position, and then new ones until its end, with ids and a heartbeat every 15 seconds. Of
   * fragments of texts and reports of tools the latest are kept, and a `Gap` counts the others. An unknown position gives
   * a `Reset` and all recorded events.
   */
  readonly events: (after: string | undefined) => Stream.Stream<AgentSse>
  /** Sends a message, which the model reads before its next turn; see `Agent.say`. The result is the message's id. */
  readonly say: (
    text: string,
    options?: { readonly settle?: boolean | undefined; readonly id?: string | undefined }
  ) => Effect.Effect<string, OperationConflict | OperationEnded | TooMany | Unavailable>
  /** Ends it, also if the server is killed as soon as this returns. */
  readonly cancel: (reason: string) => Effect.Effect<void, Unavailable>
}

/** An operation that a message has reached. */
export interface Reached extends Handle {
  /** The message joined the operation after this position. */
  readonly after: string | undefined
}

/** The operations. */
export class Operations extends Context.Service<Operations, {
  /** The agents that operations can be started with. */
  readonly agents: RunnableAgents.Listed
  /** Sends a message to an agent: starts an operation, joins the running one, or returns the existing one of that id. */
  readonly start: (
    owner: Owner,
    message: OperationSubmission
  ) => Effect.Effect<Reached, Invalid | OperationConflict | SessionBusy | TooMany | Unavailable>
  readonly get: (owner: Owner, operation: string) => Effect.Effect<Option.Option<Handle>, Unavailable>
  /** The operation of a session that has not ended. */
  readonly running: (owner: Owner) => Effect.Effect<Option.Option<Handle>>
  /** The latest operations of a session, newest first. */
  readonly list: (owner: Owner) => Effect.Effect<ReadonlyArray<Operation>, Unavailable>
  /** The messages of a session, those of its running operation included. */
  readonly history: (owner: Owner) => Effect.Effect<Prompt.Prompt, Unavailable>
  /** All conversations, those with the latest changes first. */
  readonly conversations: Effect.Effect<ReadonlyArray<Conversation>>
  readonly conversation: (owner: Owner) => Effect.Effect<Option.Option<Conversation>>
  /**
   * Streams the events of all operations of a conversation after a position; without one, of the operation that runs, and
   * of later ones. If shared, they are redacted and have no fragments of texts.
   */
  readonly events: (
    owner: Owner,
    after: string | undefined,
    isShared: boolean
  ) => Effect.Effect<Option.Option<Stream.Stream<AgentSse>>, Unavailable>
  /** Cancels the operation of a session and waits for its end. `false` if none runs. */
  readonly endSession: (owner: Owner) => Effect.Effect<boolean>
  /** What it does for one session at a time; see `SessionHost`. */
  readonly hosting: Works
  readonly counts: Effect.Effect<{ readonly operations: number; readonly conversations: number }>
  /** The limits of operations, as the API names them. */
  readonly limits: Status["limits"]
  /**
   * Stops accepting work immediately, waits `within` for running operations, then cancels them and ends all streams.
   * `PendingApprovals.suspend` suspends those that wait for approval.
   */
  readonly drain: (within: Duration.Input) => Effect.Effect<void>
}>()("effect-tool-executor/server/Operations") {}

/** Limits of the operations. */
export interface Options extends OperationOptions.Options {}

/** Default limits. */
export const defaults = OperationOptions.defaults

/**
 * Layer of the operations of `Agents`, over the executors of all sessions. Without `Agents` none can be started.
 *
 * With a persistent `OperationStore`, `Transcripts` and a `Journal`, the next start continues unfinished operations of
 * users who may still run calls (`Access`); without them they are forgotten. Fails if the store cannot be read.
 */
export const layer = (options?: Options): Layer.Layer<
  Operations,
  ConfigurationError | OperationStore.OperationStoreError,
  Access | Approvals.Approvals | Gates | LiveLog | ToolExecutors
> => Layer.effect(Operations, make(options))

/** Creates the service for the rest of the scope. */
export const make = Effect.fnUntraced(function*(options: Options = {}): Effect.fn.Return<
  Operations["Service"],
  ConfigurationError | OperationStore.OperationStoreError,
  Access | Approvals.Approvals | Gates | LiveLog | Scope.Scope | ToolExecutors
> {
  const access = yield* Access
  const bounds = yield* OperationOptions.read(options)
  const live = yield* LiveLog
  const store = Option.getOrUndefined(yield* Effect.serviceOption(OperationStore.OperationStore)) ??
    Context.get(yield* Layer.build(OperationStore.layerMemory()), OperationStore.OperationStore)
  const transcripts = Option.getOrUndefined(yield* Effect.serviceOption(Transcripts)) ??
    Context.get(yield* Layer.build(TranscriptStore.layerMemory()), Transcripts)
  const { agents, listed } = yield* RunnableAgents.make(
    Option.getOrElse(yield* Effect.serviceOption(Agents.Agents), () => new Map<string, Agents.Agent>())
  )
  const handlers = yield* ToolHandlers
  const secretsIn = (messages: ReadonlyArray<Prompt.Message>) =>
    History.secretsIn(messages, (tool) => handlers.current().get(tool)?.redactor)
  const known = new KnownConversations({
    store,
    bounds,
    life: (yield* Random.nextIntBetween(0, 2 ** 48)).toString(36),
    costOf: (agent) => agents.get(agent)?.agent.limits?.cost,
    secretsIn
  })
  const listener = Option.getOrUndefined(yield* Effect.serviceOption(EndListener.EndListener))
  const around: OperationRun.Around = {
    agents,
    store,
    transcripts,
    approvals: yield* Approvals.Approvals,
    journal: Option.getOrElse(yield* Effect.serviceOption(Journal.Journal), () => Journal.noop),
    changed: (operation) => {
      const conversation = known.get(operation.submitted)
      if (conversation === undefined) return
      live.tell(operation.submitted.user, { _tag: "ConversationChanged", conversation: conversation.summary })
    },
    ended: Effect.fnUntraced(function*(operation) {
      const conversation = known.get(operation.submitted)
      if (conversation === undefined) return
      conversation.end(operation, yield* Clock.currentTimeMillis)
      yield* store.keepConversation(conversation.record)
    })
  }
  const fibers = yield* FiberMap.make<ServedOperation, void, never>()
  const runner = new OperationRunner({ access, bounds, listener, around, known, fibers })
  yield* runner.continueAll
  yield* Effect.forkScoped(Effect.repeat(
    known.tidy((operation) => OperationRun.keepEnd(around, operation, operation.info)),
    Schedule.spaced(Math.min(bounds.listed, 60_000))
  ))
  const handle = (operation: ServedOperation): Handle => ({
    id: operation.id,
    info: Effect.sync(() => operation.info),
    ended: Effect.map(operation.over, () => operation.info),
    cursor: Effect.sync(() => operation.log.cursor),
    events: (after) => operation.log.stream(after),
    say: (text, how) =>
      Effect.flatMap(
        runner.say(operation, text, how),
        (id) => id === undefined ? Effect.fail(new OperationEnded({})) : Effect.succeed(id)
      ),
    cancel: (reason) => runner.cancel(operation, reason)
  })
  const history = (owner: Owner) => {
    const kept = Effect.map(
      Effect.scoped(transcripts.open(owner.session, toPrincipal(owner))),
      ({ messages }) => Prompt.fromMessages(messages)
    )
    return Effect.map(
      Refusals.orUnavailable(Effect.suspend(() => runner.history(owner, kept))),
      (it) => it ?? Prompt.empty
    )
  }

  return {
    agents: listed,
    start: (owner, message) =>
      runner.take(owner, message).pipe(
        Refusals.orUnavailable,
        annotated(owner),
        Effect.map(({ after, operation }) => ({ ...handle(operation), after }))
      ),
    get: (owner, name) =>
      Effect.map(
        Refusals.orUnavailable(known.find(owner, name)),
        (it) => Option.map(Option.fromUndefinedOr(it), handle)
      ),
    running: (owner) => Effect.sync(() => Option.map(Option.fromUndefinedOr(known.get(owner)?.current), handle)),
    list: (owner) => Refusals.orUnavailable(Effect.suspend(() => known.list(owner))),
    history,
    conversations: Effect.sync(() =>
      known.begun().map((it) => it.summary).toSorted((one, other) => other.updatedAt - one.updatedAt)
    ),
    conversation: (owner) =>
      Effect.sync(() => Option.map(Option.fromUndefinedOr(known.begun(owner)[0]), (it) => it.summary)),
    events: Effect.fnUntraced(function*(owner, after, isShared) {
      const conversation = known.get(owner)
      if (conversation === undefined) return Option.none()
      // events of an earlier start do not have them
      if (isShared) {
        const secrets = secretsIn((yield* history(owner)).content)
        for (const it of conversation.operations) it.log.hide(secrets)
      }
      return Option.some(conversation.events(after, isShared))
    }),
    endSession: Effect.fnUntraced(function*(owner) {
      const current = known.get(owner)?.current
      if (current === undefined) return false
      yield* Effect.ignore(runner.cancel(current, "the session has ended"))
      yield* current.over
      return true
    }),
    counts: Effect.sync(() => ({ operations: known.unfinished.length, conversations: known.size })),
    hosting: runner,
    limits: {
      operations: bounds.maxOperations,
      operationsPerUser: bounds.maxOperationsPerUser,
      messages: bounds.maxMessages,
      messageChars: bounds.maxMessageChars
    },
    drain: (within) => runner.drain(within)
  }
})

/** An operation as other users than its owner see it, without recognised and known secrets. */
export const shared = ({ end, prompt, ...operation }: Operation, known: ReadonlyArray<string>): Operation => {
  const shown = (text: string) => RedactedEvents.text(text, known)
  return {
    ...operation,
    prompt: shown(prompt),
    ...end === undefined ? {} : { end: { ...end, message: shown(end.message), text: shown(end.text) } }
  }
}
