/**
 * Operations and conversations as rows of their sessions, so that unfinished operations are continued and clients find
 * the others again. `Transcripts` have the messages, the `Journal` the records of calls.
 *
 * A conversation names its operations and those without an end.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as AgentWire from "../../agent/AgentWire.ts"
import * as MemoryRows from "../../core/store/MemoryRows.ts"
import { type Rows, SessionRows } from "../../core/store/SessionRows.ts"
import * as FileChange from "../../core/vocabulary/FileChange.ts"
import { Conversation, Operation, WireAgentEvent } from "../api/ApiOperations.ts"
import { type Owner, toPrincipal } from "../users/Principals.ts"
import { type Text, textOf } from "../waves/WaveText.ts"

/** Error of a store that cannot be read or written, or that holds a record which this release cannot read. */
export class OperationStoreError
  extends Schema.TaggedError<OperationStoreError>("effect-tool-executor/server/OperationStoreError")(
    "OperationStoreError",
    { operation: Schema.String, cause: Schema.Defect() }
  )
{
  override get message(): string {
    return `OperationStore.${this.operation} failed`
  }
}

/** Schema of an operation as it was submitted, with what was said to it. */
export const SubmittedOperation = Schema.Struct({
  user: Schema.String,
  session: Schema.String,
  operation: Schema.String,
  agent: Schema.String,
  /** Epoch milliseconds. */
  startedAt: Schema.Finite,
  /** The prompt, under the id of the operation, and the messages after it. */
  inputs: Schema.NonEmptyArray(Schema.Struct({ id: Schema.String, text: Schema.String })),
  /** Why somebody cancelled it. */
  cancelled: Schema.optionalKey(Schema.String)
})

/** An operation as it was submitted, with what was said to it. */
export type SubmittedOperation = typeof SubmittedOperation.Type

/** Schema of events in the order of their places in a log. */
export const KeptEvents = Schema.Struct({
  log: Schema.String,
  events: Schema.Array(Schema.Struct({ place: Schema.Finite, event: WireAgentEvent }))
})

/** Events in the order of their places in a log. */
export type KeptEvents = typeof KeptEvents.Type

/** Schema of what a list needs of a conversation. */
export const KeptConversation = Schema.Struct({
  user: Schema.String,
  session: Schema.String,
  agent: Schema.String,
  title: Schema.String,
  usage: AgentWire.Usage,
  cost: Schema.optionalKey(Schema.Finite),
  /** Why the last operation ended. */
  ended: Schema.optionalKey(Schema.String),
  /** Epoch milliseconds. */
  updatedAt: Schema.Finite,
  /** The operations without an end, oldest first: more than one while the last interrupts the others. */
  open: Schema.Array(Schema.String),
  /** The latest operations, oldest first, with the ids of messages that joined them. */
  operations: Schema.Array(Schema.Struct({ id: Schema.String, said: Schema.Array(Schema.String) }))
})

/** What a list needs of a conversation. */
export type KeptConversation = typeof KeptConversation.Type

/** An operation in the store. */
export interface Kept {
  readonly submitted: SubmittedOperation
  readonly ended: Operation | undefined
}

/** A conversation, with what it needs to continue. */
export interface OpenConversation {
  readonly conversation: KeptConversation
  /** The operations that it lists as open, oldest first. One may have ended. */
  readonly open: ReadonlyArray<Kept & { readonly events: ReadonlyArray<KeptEvents> }>
}

/** The store of operations. */
export class OperationStore extends Context.Service<OperationStore, {
  /**
   * All conversations. Call it once, at startup. Empty where each session is opened by the process that holds it.
   */
  readonly conversations: Effect.Effect<ReadonlyArray<KeptConversation>, OperationStoreError>
  /** A conversation with its open operations. */
  readonly conversationOf: (owner: Owner) => Effect.Effect<OpenConversation | undefined, OperationStoreError>
  readonly keepConversation: (conversation: KeptConversation) => Effect.Effect<void, OperationStoreError>
  /** Lists a conversation of an open operation as it is now, until it is opened again. */
  readonly list: (conversation: Conversation) => Effect.Effect<void, OperationStoreError>
  readonly get: (owner: Owner, operation: string) => Effect.Effect<Kept | undefined, OperationStoreError>
  /** Stores an operation, for the first time or with more messages, or cancelled. */
  readonly submit: (operation: SubmittedOperation) => Effect.Effect<void, OperationStoreError>
  readonly end: (owner: Owner, operation: Operation) => Effect.Effect<void, OperationStoreError>
  /** All events of an operation. */
  readonly events: (owner: Owner, operation: string) => Effect.Effect<ReadonlyArray<KeptEvents>, OperationStoreError>
  /** Stores events under the next number, from 0. */
  readonly append: (
    owner: Owner,
    operation: string,
    number: number,
    events: KeptEvents
  ) => Effect.Effect<void, OperationStoreError>
  readonly removeOperation: (owner: Owner, operation: string) => Effect.Effect<void, OperationStoreError>
  /** Removes a conversation. Its operations were removed before. */
  readonly removeConversation: (owner: Owner) => Effect.Effect<void, OperationStoreError>
  /**
   * Deletes conversations without open operations that have not changed since a time, with their operations. Does nothing
   * where one process has all sessions: it removes what it has in memory.
   */
  readonly prune: (before: number) => Effect.Effect<void, OperationStoreError>
}>()("effect-tool-executor/server/OperationStore") {}

/** Creates the service over rows of sessions. */
export const make = (rows: SessionRows["Service"]): OperationStore["Service"] => {
  const of = (owner: Owner): Rows => rows.of(toPrincipal(owner))
  const isAlone = rows.summaries === undefined
  const kept = Effect.fnUntraced(function*(found: ReadonlyMap<string, string>, id: string) {
    const submitted = yield* decoded(texts.submitted, found.get(keys.operation(id)))
    return submitted && { submitted, ended: yield* decoded(texts.ended, found.get(keys.end(id))) }
  })
  const eventsIn = (found: ReadonlyMap<string, string>, id: string) =>
    Effect.gen(function*() {
      const events: Array<KeptEvents> = []
      for (;;) {
        const text = found.get(keys.events(id, events.length))
        if (text === undefined) return events
        events.push(yield* Effect.fromResult(texts.events.decode(text)))
      }
    })
  return {
    conversations: failing(
      "conversations",
      Effect.gen(function*() {
        const found: Array<KeptConversation> = []
        for (const { key, value } of yield* rows.found(kind, "all")) {
          const kept = texts.conversation.decode(value)
          // an unreadable record must not affect others
          if (Result.isFailure(kept)) yield* Effect.logError(`${key} cannot be read`, kept.failure)
          else found.push(kept.success)
        }
        return found
      })
    ),
    conversationOf: (owner) =>
      failing(
        "conversationOf",
        Effect.gen(function*() {
          const key = keys.conversation(idOf(owner))
          const conversation = yield* decoded(texts.conversation, (yield* of(owner).read({ keys: [key] })).get(key))
          if (conversation === undefined) return undefined
          const ids = conversation.open.map((name) => idOf(owner, name))
          if (ids.length === 0) return { conversation, open: [] }
          const rows = yield* of(owner).read({
            keys: ids.flatMap((id) => [keys.operation(id), keys.end(id)]),
            sequences: ids.map(keys.allEvents)
          })
          const open: Array<OpenConversation["open"][number]> = []
          for (const id of ids) {
            const operation = yield* kept(rows, id)
            if (operation !== undefined) open.push({ ...operation, events: yield* eventsIn(rows, id) })
          }
          return { conversation, open }
        })
      ),
    keepConversation: (it) =>
      failing(
        "keepConversation",
        of(it).write([{
          _tag: "Put",
          key: keys.conversation(idOf(it)),
          value: texts.conversation.encode(it),
          listed: { kind, isOpen: it.open.length > 0, at: it.updatedAt, summary: () => summary.encode(summaryOf(it)) }
        }])
      ),
    list: (it) =>
      failing(
        "list",
        of(it).write([{
          _tag: "List",
          key: keys.conversation(idOf(it)),
          listed: { kind, isOpen: true, at: it.updatedAt, summary: () => summary.encode(it) }
        }])
      ),
    get: (owner, operation) =>
      failing(
        "get",
        Effect.suspend(() => {
          const id = idOf(owner, operation)
          return Effect.flatMap(
            of(owner).read({ head: keys.operation(id), keys: [keys.end(id)] }),
            (found) => kept(found, id)
          )
        })
      ),
    submit: (it) =>
      failing(
        "submit",
        of(it).write([{
          _tag: "Put",
          key: keys.operation(idOf(it, it.operation)),
          value: texts.submitted.encode(it)
        }])
      ),
    end: (owner, operation) =>
      failing(
        "end",
        of(owner).write([{
          _tag: "Put",
          key: keys.end(idOf(owner, operation.id)),
          value: texts.ended.encode(operation)
        }])
      ),
    events: (owner, operation) =>
      failing(
        "events",
        Effect.suspend(() => {
          const id = idOf(owner, operation)
          return Effect.flatMap(of(owner).read({ sequences: [keys.allEvents(id)] }), (found) => eventsIn(found, id))
        })
      ),
    append: (owner, operation, number, events) =>
      failing(
        "append",
        of(owner).write([{
          _tag: "Put",
          key: keys.events(idOf(owner, operation), number),
          value: texts.events.encode(events)
        }])
      ),
    removeOperation: (owner, operation) =>
      failing(
        "removeOperation",
        Effect.suspend(() => {
          const id = idOf(owner, operation)
          return of(owner).write([
            { _tag: "RemoveSequence", key: keys.allEvents(id) },
            { _tag: "Remove", key: keys.end(id) },
            { _tag: "Remove", key: keys.operation(id) }
          ])
        })
      ),
    removeConversation: (owner) =>
      failing("removeConversation", of(owner).write([{ _tag: "Remove", key: keys.conversation(idOf(owner)) }])),
    prune: (before) =>
      isAlone
        ? Effect.void
        : failing("prune", rows.prune({ kind, before, parts: { prefix: keys.operation("") } }))
  }
}

/** Layer of the store over rows of sessions, of one process (`SqlOwnRows`) or of several (`SqlSessionRows`). */
export const layer: Layer.Layer<OperationStore, never, SessionRows> = Layer.effect(
  OperationStore,
  Effect.map(SessionRows, make)
)

/** Layer of a store in memory. */
export const layerMemory = (): Layer.Layer<OperationStore> => Layer.provide(layer, Layer.fresh(MemoryRows.layer))

/** The kind of the rows of conversations. */
export const kind = "conversation"

/** What lists over several processes show of a conversation. */
export const summary = textOf(Conversation)

/** What lists show of a conversation. The state of an open operation is what its process knows: here it runs. */
export const summaryOf = ({ open, operations: _, ...kept }: KeptConversation): Conversation => {
  const operation = open.at(-1)
  return {
    ...kept,
    state: operation === undefined ? "ended" : "running",
    pending: 0,
    ...operation === undefined ? {} : { operation }
  }
}

/** The texts of records. */
export const texts = {
  submitted: textOf(SubmittedOperation),
  ended: textOf(Operation),
  events: textOf(KeptEvents),
  conversation: textOf(KeptConversation)
}

const decoded = <A>({ decode }: Text<A>, text: string | undefined): Effect.Effect<A | undefined, Error> =>
  text === undefined ? Effect.undefined : Effect.fromResult(decode(text))

/** A hash, since names of users may contain any character. */
const idOf = ({ session, user }: Owner, operation = ""): string =>
  FileChange.hashOf(JSON.stringify([user, session, operation])).slice(0, 32)

const keys = {
  conversation: (id: string) => `served.conversation.${id}`,
  operation: (id: string) => `served.operation.${id}`,
  end: (id: string) => `served.operation.${id}.end`,
  allEvents: (id: string) => `served.operation.${id}.events`,
  events: (id: string, number: number) => `served.operation.${id}.events.${number}`
}

const failing = <A, E, R>(
  operation: string,
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, OperationStoreError, R> =>
  Effect.mapError(effect, (cause) => new OperationStoreError({ operation, cause }))
