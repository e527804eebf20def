/**
 * Sessions in a key-value store (`effect/persistence`).
 *
 * What is appended together is one entry, under the next number of its session. An entry that a crash has torn is the
 * last one and no JSON: it is not there, and the next one takes its place. Whatever else cannot be read is an error,
 * and not a shorter conversation.
 */
import * as Prompt from "effect/ai/Prompt"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as KeyValueStore from "effect/persistence/KeyValueStore"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as FileChange from "../core/vocabulary/FileChange.ts"
import * as Versioned from "../internal/versioned.ts"
import { type Session, type Transcript, TranscriptError, Transcripts } from "./Transcripts.ts"

/** What a store is told beside where its entries are. */
export interface Options {
  /**
   * Takes a session for this process, as long as the scope is open; fails, with a sentence, where another process has
   * it. `id` stands for its name: 32 letters and digits, the beginning of its keys. Default: there is no other process.
   */
  readonly claim?: ((id: string) => Effect.Effect<void, KeyValueStore.KeyValueStoreError, Scope.Scope>) | undefined
}

/** Creates the service over a store. A session is open once at a time. */
export const make = (
  store: KeyValueStore.KeyValueStore,
  { claim = () => Effect.void }: Options = {}
): Transcripts["Service"] => {
  const inUse = new Set<string>()
  const claimHere = (id: string): Effect.Effect<void, KeyValueStore.KeyValueStoreError, Scope.Scope> =>
    Effect.asVoid(Effect.acquireRelease(
      Effect.suspend(() => {
        if (inUse.has(id)) return Effect.fail(problem("claim", id, "it is open already"))
        inUse.add(id)
        return Effect.void
      }),
      () => Effect.sync(() => inUse.delete(id))
    ))
  const open = Effect.fnUntraced(function*(session: string, principal: string): Effect.fn.Return<
    Transcript,
    KeyValueStore.KeyValueStoreError,
    Scope.Scope
  > {
    const id = idOf(session, principal)
    yield* claimHere(id)
    yield* claim(id)
    const kept = yield* read(store, id, yield* countOf(store, id))
    const turns = yield* Semaphore.make(1)
    let next = kept.length
    return {
      messages: kept.flatMap(({ messages }) => messages),
      append: (messages) =>
        messages.length === 0 ? Effect.void : Effect.gen(function*() {
          const text = yield* encode({ session, principal, at: yield* Clock.currentTimeMillis, messages })
          // one that failed is tried again in its place
          yield* store.set(keyOf(id, next), text)
          next++
        }).pipe(Effect.uninterruptible, turns.withPermits(1), failing(session, "append"))
    }
  })
  return {
    open: (session, principal) => failing(session, "open")(allOrNothing(open(session, principal))),
    list: failing("", "list")(list(store))
  }
}

/** Layer of sessions in the store of the context, for one process at a time. */
export const layer: Layer.Layer<Transcripts, never, KeyValueStore.KeyValueStore> = Layer.effect(
  Transcripts,
  Effect.map(KeyValueStore.KeyValueStore, (store) => make(store))
)

/** Layer of sessions that end with the process. */
export const layerMemory = (): Layer.Layer<Transcripts> => Layer.provide(layer, Layer.fresh(KeyValueStore.layerMemory))

// Utilities

const Entry = Schema.Struct({
  session: Schema.String,
  principal: Schema.String,
  /** Epoch milliseconds. */
  at: Schema.Int,
  messages: Schema.Array(Prompt.Message)
})

type Entry = typeof Entry.Type

const toJson = Schema.encodeEffect(Schema.fromJsonString(Entry))
const encode = (entry: Entry) => Effect.map(toJson(entry), (json) => Versioned.encode(1, json))
const readers = { 1: Schema.decodeUnknownResult(Entry) }
const decode = (text: string) => Versioned.decode(readers, text)

/** A name may be any text; what stands for it is good in every store, whatever it makes of `/`, `A` or `é`. */
const idOf = (session: string, principal: string): string =>
  FileChange.hashOf(JSON.stringify([principal, session])).slice(0, 32)

const keyOf = (id: string, index: number): string => `${id}.${index}`

const keyPattern = /^([0-9a-f]{32})\.(0|[1-9]\d*)$/

/** What failed in the middle holds nothing of the scope. */
const allOrNothing = <A, E>(open: Effect.Effect<A, E, Scope.Scope>): Effect.Effect<A, E, Scope.Scope> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.gen(function*() {
      const scope = yield* Scope.fork(yield* Effect.scope)
      return yield* restore(Scope.provide(open, scope)).pipe(
        Effect.onError((cause) => Scope.close(scope, Exit.failCause(cause)))
      )
    })
  )

const failing = (session: string, operation: string) => <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.mapError(effect, (cause) => new TranscriptError({ session, operation, cause }))

/** How many entries each session has, by the highest of their numbers. */
const counts = Effect.fnUntraced(function*(store: KeyValueStore.KeyValueStore) {
  const found = new Map<string, number>()
  for (const key of yield* store.keys) {
    const [, id, index] = keyPattern.exec(key) ?? []
    if (id !== undefined) found.set(id, Math.max(found.get(id) ?? 0, Number(index) + 1))
  }
  return found
})

const countOf = (store: KeyValueStore.KeyValueStore, id: string) =>
  Effect.map(counts(store), (found) => found.get(id) ?? 0)

const read = Effect.fnUntraced(function*(store: KeyValueStore.KeyValueStore, id: string, count: number) {
  const entries: Array<Entry> = []
  for (let index = 0; index < count; index++) {
    const key = keyOf(id, index)
    const text = yield* store.get(key)
    if (text === undefined) return yield* problem("get", key, `entry ${index} is missing`)
    const entry = decode(text)
    if (Result.isFailure(entry)) {
      const isCut = entry.failure.cause instanceof SyntaxError
      // a crash can cut only the last one
      if (isCut && index === count - 1) break
      const what = isCut ? "cannot be read" : `is not valid: ${entry.failure.message}`
      return yield* problem("get", key, `entry ${index} ${what}`, entry.failure)
    }
    entries.push(entry.success)
  }
  return entries
})

const problem = (method: string, key: string, message: string, cause?: unknown) =>
  new KeyValueStore.KeyValueStoreError({ method, key, message, cause })

/** Of each session its first and its last entry; of those that crashed in their first or are damaged, what can be read. */
const list = Effect.fnUntraced(function*(store: KeyValueStore.KeyValueStore) {
  const found = yield* Effect.forEach(yield* counts(store), ([id, count]) => summary(store, id, count))
  return found.flat().sort((one, other) => other.at - one.at)
})

const summary = Effect.fnUntraced(function*(
  store: KeyValueStore.KeyValueStore,
  id: string,
  count: number
): Effect.fn.Return<ReadonlyArray<Session>, KeyValueStore.KeyValueStoreError> {
  const at = (index: number) =>
    Effect.map(
      store.get(keyOf(id, index)),
      (text) => text === undefined ? undefined : Option.getOrUndefined(Result.getSuccess(decode(text)))
    )
  const first = yield* at(0)
  const last = (count > 1 ? yield* at(count - 1) : undefined) ?? (count > 2 ? yield* at(count - 2) : undefined) ?? first
  return last === undefined
    ? []
    : [{ name: last.session, principal: last.principal, at: last.at, words: wordsOf(first?.messages ?? []) }]
})

/** What was said first. */
const wordsOf = (messages: ReadonlyArray<Prompt.Message>): string => {
  const said = messages.find((it) => it.role === "user")
  return said === undefined ? "" : said.content.map((it) => it.type === "text" ? it.text : "").join("").trim()
}
