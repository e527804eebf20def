/**
 * Operations and conversations in a key-value store (`effect/persistence`), so that the next start continues unfinished
 * operations and clients find the others again. `Transcripts` have the messages, the `Journal` the records of calls.
 *
 * A conversation names its operations and those without an end. Keys are listed once, at startup.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as KeyValueStore from "effect/persistence/KeyValueStore"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as AgentWire from "../agent/AgentWire.ts"
import * as FileChange from "../core/vocabulary/FileChange.ts"
import { Operation, WireAgentEvent } from "./ApiOperations.ts"
import type { Owner } from "./Principals.ts"
import { type Text, textOf } from "./WaveText.ts"

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

/** A conversation, and what it has left open, oldest first. */
export interface OpenConversation {
  readonly conversation: KeptConversation
  readonly open: ReadonlyArray<Kept & { readonly events: ReadonlyArray<KeptEvents> }>
}

/** The store of operations. */
export class OperationStore extends Context.Service<OperationStore, {
  /** All conversations. Call it once, at startup. */
  readonly conversations: Effect.Effect<ReadonlyArray<KeptConversation>, OperationStoreError>
  /** The conversation of a session, with its operations that have no end in the record of the conversation. */
  readonly conversationOf: (owner: Owner) => Effect.Effect<OpenConversation | undefined, OperationStoreError>
  readonly keepConversation: (conversation: KeptConversation) => Effect.Effect<void, OperationStoreError>
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
}>()("effect-tool-executor/server/OperationStore") {}

/** Creates the service over a key-value store. */
export const make = (store: KeyValueStore.KeyValueStore): OperationStore["Service"] => {
  const read = <A>(key: string, { decode }: Text<A>) =>
    Effect.flatMap(store.get(key), (text) => text === undefined ? Effect.undefined : Effect.fromResult(decode(text)))
  const chunks = Effect.fnUntraced(function*(id: string) {
    const found: Array<KeptEvents> = []
    for (;;) {
      const kept = yield* read(keys.events(id, found.length), texts.events)
      if (kept === undefined) return found
      found.push(kept)
    }
  })
  return {
    conversations: failing(
      "conversations",
      Effect.gen(function*() {
        const found: Array<KeptConversation> = []
        for (const key of yield* store.keys) {
          if (!conversationPattern.test(key)) continue
          // an unreadable record must not affect others
          const kept = yield* Effect.result(read(key, texts.conversation))
          if (Result.isFailure(kept)) yield* Effect.logError(`${key} cannot be read`, kept.failure)
          else if (kept.success !== undefined) found.push(kept.success)
        }
        return found
      })
    ),
    conversationOf: (owner) =>
      failing(
        "conversationOf",
        Effect.gen(function*() {
          const conversation = yield* read(keys.conversation(idOf(owner)), texts.conversation)
          if (conversation === undefined) return undefined
          const open: Array<OpenConversation["open"][number]> = []
          for (const name of conversation.open) {
            const id = idOf(owner, name)
            const submitted = yield* read(keys.operation(id), texts.submitted)
            if (submitted === undefined) continue
            open.push({ submitted, ended: yield* read(keys.end(id), texts.ended), events: yield* chunks(id) })
          }
          return { conversation, open }
        })
      ),
    keepConversation: (it) =>
      failing("keepConversation", store.set(keys.conversation(idOf(it)), texts.conversation.encode(it))),
    get: (owner, operation) =>
      failing(
        "get",
        Effect.gen(function*() {
          const id = idOf(owner, operation)
          const submitted = yield* read(keys.operation(id), texts.submitted)
          return submitted && { submitted, ended: yield* read(keys.end(id), texts.ended) }
        })
      ),
    submit: (it) => failing("submit", store.set(keys.operation(idOf(it, it.operation)), texts.submitted.encode(it))),
    end: (owner, operation) =>
      failing("end", store.set(keys.end(idOf(owner, operation.id)), texts.ended.encode(operation))),
    events: (owner, operation) => failing("events", chunks(idOf(owner, operation))),
    append: (owner, operation, number, events) =>
      failing("append", store.set(keys.events(idOf(owner, operation), number), texts.events.encode(events))),
    removeOperation: (owner, operation) =>
      failing(
        "removeOperation",
        Effect.gen(function*() {
          const id = idOf(owner, operation)
          for (let number = 0; yield* store.has(keys.events(id, number)); number++) {
            yield* store.remove(keys.events(id, number))
          }
          yield* store.remove(keys.end(id))
          yield* store.remove(keys.operation(id))
        })
      ),
    removeConversation: (owner) => failing("removeConversation", store.remove(keys.conversation(idOf(owner))))
  }
}

/** Layer of the store over a key-value store, such as a database (`KeyValueStore.layerSql`). */
export const layer: Layer.Layer<OperationStore, never, KeyValueStore.KeyValueStore> = Layer.effect(
  OperationStore,
  Effect.map(KeyValueStore.KeyValueStore, make)
)

/** Layer of a store in memory. */
export const layerMemory = (): Layer.Layer<OperationStore> =>
  Layer.provide(layer, Layer.fresh(KeyValueStore.layerMemory))

const texts = {
  submitted: textOf(SubmittedOperation),
  ended: textOf(Operation),
  events: textOf(KeptEvents),
  conversation: textOf(KeptConversation)
}

/** A hash, since names of users may contain any character. */
const idOf = ({ session, user }: Owner, operation = ""): string =>
  FileChange.hashOf(JSON.stringify([user, session, operation])).slice(0, 32)

const keys = {
  conversation: (id: string) => `served.conversation.${id}`,
  operation: (id: string) => `served.operation.${id}`,
  end: (id: string) => `served.operation.${id}.end`,
  events: (id: string, number: number) => `served.operation.${id}.events.${number}`
}

const conversationPattern = /^served\.conversation\.[0-9a-f]{32}$/

const failing = <A, E, R>(
  operation: string,
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, OperationStoreError, R> =>
  Effect.mapError(effect, (cause) => new OperationStoreError({ operation, cause }))
