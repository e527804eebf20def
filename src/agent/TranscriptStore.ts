/**
 * Stores sessions as rows: in a database, of one process or of several, or in a store that has nothing else, such as a
 * folder.
 *
 * Each append is one entry under the session's next number. If a crash truncates the last entry, it is ignored and
 * overwritten. Any other unreadable entry is an error.
 */
import * as Prompt from "effect/ai/Prompt"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as KeyValueStore from "effect/persistence/KeyValueStore"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as Struct from "effect/Struct"
import * as KeyedSequences from "../core/store/KeyedSequences.ts"
import * as MemoryRows from "../core/store/MemoryRows.ts"
import type { SessionLost } from "../core/store/SessionRegistry.ts"
import { type RowExists, SessionRows, type SessionRowsError } from "../core/store/SessionRows.ts"
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

/** Creates the service over a store that has transcripts alone, such as a folder. */
export const makeKeyed = (store: KeyValueStore.KeyValueStore, options?: Options): Transcripts["Service"] =>
  make(KeyedSequences.make(store, /^([0-9a-f]{32})\.(0|[1-9]\d*)$/), options)

/**
 * Creates the service over rows of sessions. Where one process has all sessions, each can be open only once at a time;
 * elsewhere the rows tell who may write.
 */
export const make = (
  rows: SessionRows["Service"],
  { claim = () => Effect.void }: Options = {}
): Transcripts["Service"] => {
  const inUse = new Set<string>()
  const isAlone = rows.summaries === undefined
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
    KeyValueStore.KeyValueStoreError | SessionRowsError,
    Scope.Scope
  > {
    const id = idOf(session, principal)
    yield* isAlone ? Effect.andThen(claimHere(id), claim(id)) : claim(id)
    const of = rows.of(principal)
    const found = yield* of.read({ sequences: [id] })
    const kept = yield* read(id, found)
    const turns = yield* Semaphore.make(1)
    let next = kept.length
    /** The next entry may be there: it is cut, or the answer to its append was lost. */
    let isUnsure = next < found.size
    const append = (messages: Entry["messages"], below?: Entry["below"]) =>
      Effect.gen(function*() {
        const at = yield* Clock.currentTimeMillis
        const value = yield* encode({ session, principal, at, messages, ...(below === undefined ? {} : { below }) })
        const listed = next === 0 ? { kind, isOpen: false, at } : undefined
        // a failed append is retried under the same number
        yield* Effect.tapError(
          of.write([{ _tag: "Put", key: keyOf(id, next), value, isNew: !isUnsure, listed }]),
          (error) => Effect.sync(() => void (isUnsure ||= error._tag === "SessionRowsError"))
        )
        isUnsure = false
        next++
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
    list: failing("", "list")(
      Effect.map(rows.sequences(kind), (all) => all.flatMap(summary).sort((one, other) => other.at - one.at))
    )
  }
}

/** Stores sessions in rows, of one process (`SqlOwnRows`) or of several (`SqlSessionRows`). */
export const layer: Layer.Layer<Transcripts, never, SessionRows> = Layer.effect(
  Transcripts,
  Effect.map(SessionRows, (rows) => make(rows))
)

/** Stores sessions in the `KeyValueStore` of the context, which has nothing else, for one process at a time. */
export const layerKeyed: Layer.Layer<Transcripts, never, KeyValueStore.KeyValueStore> = Layer.effect(
  Transcripts,
  Effect.map(KeyValueStore.KeyValueStore, (store) => makeKeyed(store))
)

/** Keeps sessions in memory. */
export const layerMemory = (): Layer.Layer<Transcripts> => Layer.provide(layer, Layer.fresh(MemoryRows.layer))

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

/** Reads an entry of a session. */
export const decode = (text: string): Result.Result<Entry, Error> => Versioned.decode(readers, text)

/** Derives a key safe in every store: names may hold `/`, differ in case only, or use non-ASCII text. */
const idOf = (session: string, principal: string): string =>
  FileChange.hashOf(JSON.stringify([principal, session])).slice(0, 32)

const keyOf = (id: string, index: number): string => `${id}.${index}`

/** The kind of the first entry of a session. */
export const kind = "transcript"

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

type Internal = KeyValueStore.KeyValueStoreError | RowExists | Schema.SchemaError | SessionLost | SessionRowsError

const failing =
  (session: string, operation: string) =>
  <A, R>(effect: Effect.Effect<A, Internal, R>): Effect.Effect<A, TranscriptError, R> =>
    Effect.mapError(effect, (error) => {
      // what a key-value store says is said as it is
      const cause = error._tag === "SessionRowsError" && error.cause instanceof KeyValueStore.KeyValueStoreError
        ? error.cause
        : error
      return new TranscriptError({ session, operation, cause })
    })

/** The entries of a session among its rows. */
const read = Effect.fnUntraced(function*(id: string, rows: ReadonlyMap<string, string>) {
  const entries: Array<Entry> = []
  const count = Math.max(0, ...Array.from(rows.keys(), (key) => Number(key.slice(id.length + 1)) + 1))
  for (let index = 0; index < count; index++) {
    const key = keyOf(id, index)
    const text = rows.get(key)
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

/** A session in a list, from the first entry and the last two, as far as they can be read. */
const summary = ([first = "", ...rest]: ReadonlyArray<string>): ReadonlyArray<Session> => {
  const entries = [first, ...rest].map((it) => Result.getOrUndefined(decode(it)))
  const last = entries.findLast((it) => it !== undefined)
  return last === undefined
    ? []
    : [{ name: last.session, principal: last.principal, at: last.at, words: wordsOf(entries[0]?.messages ?? []) }]
}

/** The first words of a session. */
const wordsOf = (messages: ReadonlyArray<Prompt.Message>): string => {
  const said = messages.find((it) => it.role === "user")
  return said === undefined ? "" : said.content.map((it) => it.type === "text" ? it.text : "").join("").trim()
}
