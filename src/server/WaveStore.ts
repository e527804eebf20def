/**
 * What was handed over to the server and what became of it, in a key-value store
 * (`effect/persistence`), so that the next start goes on with waves that have no end, and
 * whoever hands one over again gets what it has come to.
 *
 * What a call has done is not in here: that is the `Journal`'s.
 *
 * All keys are listed once, at the start: they say which waves have no end, without reading
 * them. Ends are numbered one after the other, so that those of long ago are found from the
 * first one on, however many there are.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as KeyValueStore from "effect/persistence/KeyValueStore"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import * as ToolEvent from "../core/facts/ToolEvent.ts"
import { TurnState } from "../core/gates/TurnState.ts"
import * as FileChange from "../core/vocabulary/FileChange.ts"
import * as WireFormat from "../wire/WireFormat.ts"
import type { Owner } from "./Principals.ts"

/**
 * Error of a store that cannot be read or written.
 *
 * @category errors
 * @since 0.1.0
 */
export class WaveStoreError extends Schema.TaggedError<WaveStoreError>("effect-tool-executor/server/WaveStoreError")(
  "WaveStoreError",
  { operation: Schema.String, cause: Schema.Defect() }
) {
  override get message(): string {
    return `WaveStore.${this.operation} failed`
  }
}

const owner = { user: Schema.String, session: Schema.String }

/**
 * Schema of a wave as it was handed over.
 *
 * @category schemas
 * @since 0.1.0
 */
export const HandedOver = Schema.Struct({
  ...owner,
  turn: Schema.String,
  wave: Schema.String,
  format: WireFormat.Format,
  message: Schema.Json,
  /** Epoch milliseconds. */
  beganAt: Schema.Finite
})

/**
 * A wave as it was handed over.
 *
 * @category models
 * @since 0.1.0
 */
export type HandedOver = typeof HandedOver.Type

/**
 * Schema of what a wave has come to: what the provider is sent, and the events of the life of
 * its calls.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Ended = Schema.Struct({
  /** Epoch milliseconds. */
  at: Schema.Finite,
  messages: Schema.Json,
  events: Schema.Array(ToolEvent.Wire)
})

/**
 * What a wave has come to.
 *
 * @category models
 * @since 0.1.0
 */
export type Ended = typeof Ended.Type

/**
 * Schema of what a turn remembers between its waves.
 *
 * @category schemas
 * @since 0.1.0
 */
export const KeptTurn = Schema.Struct({
  state: TurnState,
  /** The last wave whose end is in the state. */
  wave: Schema.String,
  /** When that was, in epoch milliseconds. */
  at: Schema.Finite
})

/**
 * What a turn remembers between its waves.
 *
 * @category models
 * @since 0.1.0
 */
export type KeptTurn = typeof KeptTurn.Type

/**
 * The store of waves.
 *
 * @category services
 * @since 0.1.0
 */
export class WaveStore extends Context.Service<WaveStore, {
  /** Waves that were handed over and have no end, oldest first. What earlier lives have left is known from then on. */
  readonly open: Effect.Effect<ReadonlyArray<HandedOver>, WaveStoreError>
  readonly get: (owner: Owner, wave: string) => Effect.Effect<
    { readonly handedOver: HandedOver; readonly ended: Ended | undefined } | undefined,
    WaveStoreError
  >
  readonly begin: (wave: HandedOver) => Effect.Effect<void, WaveStoreError>
  readonly end: (wave: HandedOver, ended: Ended) => Effect.Effect<void, WaveStoreError>
  readonly turn: (owner: Owner, turn: string) => Effect.Effect<KeptTurn | undefined, WaveStoreError>
  /** Keeps what a turn remembers; `undefined`: it is over. */
  readonly keepTurn: (owner: Owner, turn: string, kept: KeptTurn | undefined) => Effect.Effect<void, WaveStoreError>
  /** Forgets waves that ended before a time, and turns of earlier lives that nothing happened in since another one. */
  readonly prune: (before: { readonly waves: number; readonly turns: number }) => Effect.Effect<void, WaveStoreError>
}>()("effect-tool-executor/server/WaveStore") {}

/**
 * Creates the service over a store.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = Effect.fnUntraced(function*(
  store: KeyValueStore.KeyValueStore
): Effect.fn.Return<WaveStore["Service"]> {
  const own: Ends = { life: (yield* Random.nextIntBetween(0, 2 ** 48)).toString(36), from: 0, to: 0 }
  const ends = new Map([[own.life, own]])
  /** Numbers of ends that are being written. */
  const pending = new Set<number>()
  /** Keys of turns that earlier lives have left. */
  const left = new Set<string>()
  const read = <A>(key: string, decode: (text: string) => Effect.Effect<A, Schema.SchemaError>) =>
    Effect.flatMap(store.get(key), (text) => text === undefined ? Effect.undefined : decode(text))
  const forget = (id: string) => Effect.andThen(store.remove(keys.wave(id)), store.remove(keys.end(id)))
  /** Forgets those of a life that ended before a time. */
  const pruneEnds = Effect.fnUntraced(function*(of: Ends, before: number) {
    const to = of === own ? Math.min(own.to, ...pending) : of.to
    for (; of.from < to; of.from++) {
      const key = keys.ended(of.life, of.from)
      const ended = yield* Effect.catchTag(read(key, decodeEndedAt), "SchemaError", () => Effect.undefined)
      if (ended !== undefined && ended.at >= before) return
      // one that could not be kept after all has no end, and is gone on with
      if (ended !== undefined && (yield* store.get(keys.end(ended.id))) !== undefined) yield* forget(ended.id)
      yield* store.remove(key)
    }
    if (of !== own && of.from === of.to) ends.delete(of.life)
  })
  return {
    open: failing(
      "open",
      Effect.gen(function*() {
        const all = new Set(yield* store.keys)
        const open: Array<HandedOver> = []
        for (const key of all) {
          if (turnPattern.test(key)) left.add(key)
          const [, life, number] = endedPattern.exec(key) ?? []
          if (life !== undefined && life !== own.life) {
            const of = ends.get(life) ?? { life, from: Number(number), to: 0 }
            ends.set(life, { life, from: Math.min(of.from, Number(number)), to: Math.max(of.to, Number(number) + 1) })
          }
          const [, id] = wavePattern.exec(key) ?? []
          if (id === undefined || all.has(keys.end(id))) continue
          // one that is damaged keeps no other from going on
          const wave = yield* Effect.catchTag(
            read(key, decodeHandedOver),
            "SchemaError",
            (error) =>
              Effect.as(Effect.logError(`a wave that was handed over cannot be read: ${key}`, error), undefined)
          )
          if (wave !== undefined) open.push(wave)
        }
        return open.sort((one, other) => one.beganAt - other.beganAt)
      })
    ),
    get: (owner, wave) =>
      failing(
        "get",
        Effect.gen(function*() {
          const id = idOf(owner, wave)
          const handedOver = yield* read(keys.wave(id), decodeHandedOver)
          return handedOver === undefined ? undefined : { handedOver, ended: yield* read(keys.end(id), decodeEnded) }
        })
      ),
    begin: (wave) =>
      failing(
        "begin",
        Effect.flatMap(encodeHandedOver(wave), (text) => store.set(keys.wave(idOf(wave, wave.wave)), text))
      ),
    end: (wave, ended) =>
      failing(
        "end",
        Effect.suspend(() => {
          const id = idOf(wave, wave.wave)
          const number = own.to++
          pending.add(number)
          return Effect.gen(function*() {
            // what is found by its number is forgotten some day, so this comes first
            yield* store.set(keys.ended(own.life, number), yield* encodeEndedAt({ at: ended.at, id }))
            yield* store.set(keys.end(id), yield* encodeEnded(ended))
          }).pipe(Effect.ensuring(Effect.sync(() => pending.delete(number))))
        })
      ),
    turn: (owner, turn) => failing("turn", read(keys.turn(idOf(owner, turn)), decodeTurn)),
    keepTurn: (owner, turn, kept) =>
      failing(
        "keepTurn",
        kept === undefined
          ? store.remove(keys.turn(idOf(owner, turn)))
          : Effect.flatMap(encodeTurn(kept), (text) => store.set(keys.turn(idOf(owner, turn)), text))
      ),
    prune: ({ turns, waves }) =>
      failing(
        "prune",
        Effect.gen(function*() {
          for (const of of Array.from(ends.values())) yield* pruneEnds(of, waves)
          for (const key of left) {
            // one that is damaged keeps no other from being forgotten, and is of no use to anybody
            const kept = yield* Effect.catchTag(read(key, decodeTurn), "SchemaError", () => Effect.undefined)
            if (kept !== undefined && kept.at >= turns) continue
            yield* store.remove(key)
            left.delete(key)
          }
        })
      )
  }
})

/**
 * Layer of the store over a key-value store, such as one in a database
 * (`KeyValueStore.layerSql`).
 *
 * @category layers
 * @since 0.1.0
 */
export const layer: Layer.Layer<WaveStore, never, KeyValueStore.KeyValueStore> = Layer.effect(
  WaveStore,
  Effect.flatMap(KeyValueStore.KeyValueStore, make)
)

/**
 * Layer of a store that ends with the process.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerMemory = (): Layer.Layer<WaveStore> => Layer.provide(layer, Layer.fresh(KeyValueStore.layerMemory))

// Utilities

const decodeHandedOver = Schema.decodeUnknownEffect(Schema.fromJsonString(HandedOver))
const encodeHandedOver = Schema.encodeEffect(Schema.fromJsonString(HandedOver))
const decodeEnded = Schema.decodeUnknownEffect(Schema.fromJsonString(Ended))
const encodeEnded = Schema.encodeEffect(Schema.fromJsonString(Ended))
const decodeTurn = Schema.decodeUnknownEffect(Schema.fromJsonString(KeptTurn))
const encodeTurn = Schema.encodeEffect(Schema.fromJsonString(KeptTurn))

/** When a wave ended. */
const EndedAt = Schema.fromJsonString(Schema.Struct({ at: Schema.Finite, id: Schema.String }))
const decodeEndedAt = Schema.decodeUnknownEffect(EndedAt)
const encodeEndedAt = Schema.encodeEffect(EndedAt)

/** The ends that one life of a server has kept and not forgotten: all numbers of a range, but for those that failed. */
interface Ends {
  readonly life: string
  from: number
  to: number
}

/** A user may have any name; what stands for it is good in every store. */
const idOf = ({ session, user }: Owner, name: string): string =>
  FileChange.hashOf(JSON.stringify([user, session, name])).slice(0, 32)

const keys = {
  wave: (id: string) => `served.wave.${id}`,
  end: (id: string) => `served.end.${id}`,
  ended: (life: string, number: number) => `served.ended.${life}.${number}`,
  turn: (id: string) => `served.turn.${id}`
}

const wavePattern = /^served\.wave\.([0-9a-f]{32})$/
const endedPattern = /^served\.ended\.([0-9a-z]{1,10})\.(\d{1,15})$/
const turnPattern = /^served\.turn\.[0-9a-f]{32}$/

const failing = <A, R>(
  operation: string,
  effect: Effect.Effect<A, KeyValueStore.KeyValueStoreError | Schema.SchemaError, R>
): Effect.Effect<A, WaveStoreError, R> => Effect.mapError(effect, (cause) => new WaveStoreError({ operation, cause }))
