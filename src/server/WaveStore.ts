/**
 * Submitted waves and their results in a key-value store (`effect/persistence`), so that the next start resumes
 * unfinished waves and clients find results again. The `Journal` has the records of calls.
 *
 * Keys are listed once, at startup: they show which waves have no end. Ends are numbered, so that old ones are found
 * without listing.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as KeyValueStore from "effect/persistence/KeyValueStore"
import * as Random from "effect/Random"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as FileChange from "../core/vocabulary/FileChange.ts"
import type { Owner } from "./Principals.ts"
import * as WaveText from "./WaveText.ts"

/** Error of a store that cannot be read or written. */
export class WaveStoreError extends Schema.TaggedError<WaveStoreError>("effect-tool-executor/server/WaveStoreError")(
  "WaveStoreError",
  { operation: Schema.String, cause: Schema.Defect() }
) {
  override get message(): string {
    return `WaveStore.${this.operation} failed`
  }
}

/** Error of a record that this release cannot read: it is damaged, or has another version. */
export class WaveUnreadable extends Schema.TaggedError<WaveUnreadable>("effect-tool-executor/server/WaveUnreadable")(
  "WaveUnreadable",
  { wave: Schema.String, problem: Schema.String }
) {
  override get message(): string {
    return `The record of wave "${this.wave}" cannot be read: ${this.problem}`
  }
}

export { Ended, KeptTurn, SubmittedWave } from "./WaveText.ts"

/** A submitted wave. */
export type SubmittedWave = typeof WaveText.SubmittedWave.Type

/** The result of a wave: the messages for the provider, and its lifecycle events. */
export type Ended = typeof WaveText.Ended.Type

/** What a turn remembers between its waves. */
export type KeptTurn = typeof WaveText.KeptTurn.Type

/** The store of waves. */
export class WaveStore extends Context.Service<WaveStore, {
  /** Waves without an end, oldest first. Call it once, at startup: it also finds the records of earlier starts. */
  readonly open: Effect.Effect<ReadonlyArray<SubmittedWave>, WaveStoreError>
  readonly get: (owner: Owner, wave: string) => Effect.Effect<
    { readonly submitted: SubmittedWave; readonly ended: Ended | undefined } | undefined,
    WaveStoreError | WaveUnreadable
  >
  readonly begin: (wave: SubmittedWave) => Effect.Effect<void, WaveStoreError>
  readonly end: (wave: SubmittedWave, ended: Ended) => Effect.Effect<void, WaveStoreError>
  readonly turn: (owner: Owner, turn: string) => Effect.Effect<KeptTurn | undefined, WaveStoreError>
  /** Stores the state of a turn; `undefined` deletes it. */
  readonly keepTurn: (owner: Owner, turn: string, kept: KeptTurn | undefined) => Effect.Effect<void, WaveStoreError>
  /** Deletes waves that ended before a time, and turns of earlier starts that were idle since another time. */
  readonly prune: (before: { readonly waves: number; readonly turns: number }) => Effect.Effect<void, WaveStoreError>
}>()("effect-tool-executor/server/WaveStore") {}

/** Creates the service over a key-value store. */
export const make = Effect.fnUntraced(function*(
  store: KeyValueStore.KeyValueStore
): Effect.fn.Return<WaveStore["Service"]> {
  const own: Ends = { life: (yield* Random.nextIntBetween(0, 2 ** 48)).toString(36), from: 0, to: 0 }
  const ends = new Map([[own.life, own]])
  /** Numbers of ends that are being written. */
  const pending = new Set<number>()
  /** Keys of turns of earlier starts. */
  const left = new Set<string>()
  const read = <A>(key: string, text: WaveText.Text<A>) =>
    Effect.map(store.get(key), (found) => found === undefined ? undefined : text.decode(found))
  /** An unreadable record is logged and must not affect others. */
  const readable = <A>(key: string, text: WaveText.Text<A>) =>
    Effect.flatMap(read(key, text), (found) =>
      found === undefined || Result.isSuccess(found)
        ? Effect.succeed(found?.success)
        : Effect.as(Effect.logError(`${key} cannot be read`, found.failure), undefined))
  const forget = (id: string) => Effect.andThen(store.remove(keys.wave(id)), store.remove(keys.end(id)))
  /** Deletes the waves of one start that ended before a time. */
  const pruneEnds = Effect.fnUntraced(function*(of: Ends, before: number) {
    const to = of === own ? Math.min(own.to, ...pending) : of.to
    for (; of.from < to; of.from++) {
      const key = keys.ended(of.life, of.from)
      const ended = yield* readable(key, WaveText.endedAt)
      if (ended !== undefined && ended.at >= before) return
      // a wave whose end could not be stored is kept, and resumed
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
        const open: Array<SubmittedWave> = []
        for (const key of all) {
          if (turnPattern.test(key)) left.add(key)
          const [, life, number] = endedPattern.exec(key) ?? []
          if (life !== undefined && life !== own.life) {
            const of = ends.get(life) ?? { life, from: Number(number), to: 0 }
            ends.set(life, { life, from: Math.min(of.from, Number(number)), to: Math.max(of.to, Number(number) + 1) })
          }
          const [, id] = wavePattern.exec(key) ?? []
          if (id === undefined || all.has(keys.end(id))) continue
          const wave = yield* readable(key, WaveText.submitted)
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
          const orUnreadable = <A>(found: Result.Result<A, Error>) =>
            Effect.fromResult(Result.mapError(found, ({ message }) => new WaveUnreadable({ wave, problem: message })))
          const submitted = yield* read(keys.wave(id), WaveText.submitted)
          if (submitted === undefined) return undefined
          const ended = yield* read(keys.end(id), WaveText.ended)
          return {
            submitted: yield* orUnreadable(submitted),
            ended: ended === undefined ? undefined : yield* orUnreadable(ended)
          }
        })
      ),
    begin: (wave) =>
      failing(
        "begin",
        store.set(keys.wave(idOf(wave, wave.wave)), WaveText.submitted.encode(wave))
      ),
    end: (wave, ended) =>
      failing(
        "end",
        Effect.suspend(() => {
          const id = idOf(wave, wave.wave)
          const number = own.to++
          pending.add(number)
          return Effect.gen(function*() {
            // written first: only numbered ends are deleted later
            yield* store.set(keys.ended(own.life, number), WaveText.endedAt.encode({ at: ended.at, id }))
            yield* store.set(keys.end(id), WaveText.ended.encode(ended))
          }).pipe(Effect.ensuring(Effect.sync(() => pending.delete(number))))
        })
      ),
    turn: (owner, turn) =>
      failing(
        "turn",
        Effect.flatMap(read(keys.turn(idOf(owner, turn)), WaveText.keptTurn), (found) =>
          found === undefined ? Effect.undefined : Effect.fromResult(found))
      ),
    keepTurn: (owner, turn, kept) =>
      failing(
        "keepTurn",
        kept === undefined
          ? store.remove(keys.turn(idOf(owner, turn)))
          : store.set(keys.turn(idOf(owner, turn)), WaveText.keptTurn.encode(kept))
      ),
    prune: ({ turns, waves }) =>
      failing(
        "prune",
        Effect.gen(function*() {
          for (const of of Array.from(ends.values())) yield* pruneEnds(of, waves)
          for (const key of left) {
            const kept = yield* readable(key, WaveText.keptTurn)
            if (kept !== undefined && kept.at >= turns) continue
            yield* store.remove(key)
            left.delete(key)
          }
        })
      )
  }
})

/** Layer of the store over a key-value store, such as a database (`KeyValueStore.layerSql`). */
export const layer: Layer.Layer<WaveStore, never, KeyValueStore.KeyValueStore> = Layer.effect(
  WaveStore,
  Effect.flatMap(KeyValueStore.KeyValueStore, make)
)

/** Layer of a store in memory. */
export const layerMemory = (): Layer.Layer<WaveStore> => Layer.provide(layer, Layer.fresh(KeyValueStore.layerMemory))

/** The numbers of the ends that one start of the server has stored and not deleted. */
interface Ends {
  readonly life: string
  from: number
  to: number
}

/** A hash, since names of users may contain any character. */
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

const failing = <A, E, R>(
  operation: string,
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, WaveStoreError | Extract<E, WaveUnreadable>, R> =>
  Effect.mapError(
    effect,
    (cause) =>
      cause instanceof WaveUnreadable ? cause as Extract<E, WaveUnreadable> : new WaveStoreError({ operation, cause })
  )
