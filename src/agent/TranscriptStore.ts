/**
 * Stores sessions in a key-value store (`effect/persistence`).
 *
 * Each append is one entry under the session's next number. If a crash truncates the last entry, it is ignored and
 * overwritten. Any other unreadable entry is an error.
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
import * as Struct from "effect/Struct"
import * as FileChange from "../core/vocabulary/FileChange.ts"
import * as Versioned from "../internal/versioned.ts"
import { Below, type Session, type Transcript, TranscriptError, Transcripts } from "./Transcripts.ts"

export interface Options {
  /**
   * Claims a session for this process for the rest of the scope; fails with a message if another process has it. `id`
   * is the session's key prefix, 32 letters and digits. Default: this is the only process.
   */
  readonly claim?: ((id: string) => Effect.Effect<void, KeyValueStore.KeyValueStoreError, Scope.Scope>) | undefined
}

/** Creates the service over a store. A session can be open only once at a time. */
export const make = (
  store: KeyValueStore.KeyValueStore,
  { claim = () => Effect.void }: Options = {}
): Transcripts["Service"] => {
  const inUse = new Set<string>()
  /** Entries per session, as far as this process knows: keys are listed once. */
  let known: Map<string, number> | undefined
  const countOf = Effect.fnUntraced(function*(id: string) {
    known ??= yield* counts(store)
    let count = known.get(id) ?? 0
    // another process may have written more
    while (yield* store.has(keyOf(id, count))) count++
    return count
  })
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
    const kept = yield* read(store, id, yield* countOf(id))
    const turns = yield* Semaphore.make(1)
    let next = kept.length
    const append = (messages: Entry["messages"], below?: Entry["below"]) =>
      Effect.gen(function*() {
        const at = yield* Clock.currentTimeMillis
        const text = yield* encode({ session, principal, at, messages, ...(below === undefined ? {} : { below }) })
        // a failed append is retried under the same number
        yield* store.set(keyOf(id, next), text)
        known?.set(id, ++next)
      }).pipe(Effect.uninterruptible, turns.withPermits(1), failing(session, "append"))
    return {
      messages: kept.flatMap(({ below, messages }) => below === undefined ? messages : []),
      append: (messages) => messages.length === 0 ? Effect.void : append(messages),
      below: kept.flatMap(({ below, messages }) => below === undefined ? [] : { ...below, messages }),
      appendBelow: ({ messages, ...below }) => append(messages, below)
    }
  })
  return {
    open: (session, principal) => failing(session, "open")(allOrNothing(open(session, principal))),
    list: failing("", "list")(list(store))
  }
}

/** Stores sessions in the `KeyValueStore` of the context, for one process at a time. */
export const layer: Layer.Layer<Transcripts, never, KeyValueStore.KeyValueStore> = Layer.effect(
  Transcripts,
  Effect.map(KeyValueStore.KeyValueStore, (store) => make(store))
)

/** Keeps sessions in memory. */
export const layerMemory = (): Layer.Layer<Transcripts> => Layer.provide(layer, Layer.fresh(KeyValueStore.layerMemory))

const Entry = Schema.Struct({
  session: Schema.String,
  principal: Schema.String,
  /** Epoch milliseconds. */
  at: Schema.Int,
  messages: Schema.Array(Prompt.Message),
  /** Whose messages they are, if not the session's own but a sub-agent's. */
  below: Schema.optionalKey(Schema.Struct(Struct.omit(Below.fields, ["messages"])))
})

type Entry = typeof Entry.Type

const toJson = Schema.encodeEffect(Schema.fromJsonString(Entry))
const encode = (entry: Entry) => Effect.map(toJson(entry), (json) => Versioned.encode(1, json))
const readers = { 1: Schema.decodeUnknownResult(Entry) }
const decode = (text: string) => Versioned.decode(readers, text)

/** Derives a key safe in every store: names may hold `/`, differ in case only, or use non-ASCII text. */
const idOf = (session: string, principal: string): string =>
  FileChange.hashOf(JSON.stringify([principal, session])).slice(0, 32)

const keyOf = (id: string, index: number): string => `${id}.${index}`

const keyPattern = /^([0-9a-f]{32})\.(0|[1-9]\d*)$/

/** Releases what was acquired if opening fails. */
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

/** Entries per session, from the highest number. */
const counts = Effect.fnUntraced(function*(store: KeyValueStore.KeyValueStore) {
  const found = new Map<string, number>()
  for (const key of yield* store.keys) {
    const [, id, index] = keyPattern.exec(key) ?? []
    if (id !== undefined) found.set(id, Math.max(found.get(id) ?? 0, Number(index) + 1))
  }
  return found
})

const read = Effect.fnUntraced(function*(store: KeyValueStore.KeyValueStore, id: string, count: number) {
  const entries: Array<Entry> = []
  for (let index = 0; index < count; index++) {
    const key = keyOf(id, index)
    const text = yield* store.get(key)
    if (text === undefined) return yield* problem("get", key, `entry ${index} is missing`)
    const entry = decode(text)
    if (Result.isFailure(entry)) {
      const isCut = entry.failure.cause instanceof SyntaxError
      // a crash can truncate only the last entry
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

/** The first and last entry of each session, as far as they can be read. */
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

/** The first words of a session. */
const wordsOf = (messages: ReadonlyArray<Prompt.Message>): string => {
  const said = messages.find((it) => it.role === "user")
  return said === undefined ? "" : said.content.map((it) => it.type === "text" ? it.text : "").join("").trim()
}
