/**
 * Submitted waves, their results, and what turns remember, as rows of their sessions, so that unfinished waves are
 * resumed and clients find results again. The `Journal` has the records of calls.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as MemoryRows from "../../core/store/MemoryRows.ts"
import { type Change, type Row, type Rows, SessionRows } from "../../core/store/SessionRows.ts"
import * as FileChange from "../../core/vocabulary/FileChange.ts"
import type { WaveInfo } from "../api/ApiModels.ts"
import { type Owner, toPrincipal } from "../users/Principals.ts"
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

/** The end of a wave. */
export interface End {
  readonly ended: typeof WaveText.Ended.Type
  /** What lists show of the wave. */
  readonly info: WaveInfo
  /** What the turn remembers after the wave, if it has a name. */
  readonly turn?: typeof WaveText.KeptTurn.Type | undefined
  /** Other waves of the turn have no end yet. */
  readonly isTurnOpen?: boolean | undefined
}

/** The store of waves. */
export class WaveStore extends Context.Service<WaveStore, {
  /**
   * Waves without an end, oldest first. Call it once, at startup: it also finds the records of earlier starts. Empty
   * where each session is opened by the process that holds it.
   */
  readonly open: Effect.Effect<ReadonlyArray<SubmittedWave>, WaveStoreError>
  /** Waves of one session without an end, oldest first. */
  readonly openOf: (owner: Owner) => Effect.Effect<ReadonlyArray<SubmittedWave>, WaveStoreError>
  readonly get: (owner: Owner, wave: string) => Effect.Effect<
    { readonly submitted: SubmittedWave; readonly ended: Ended | undefined } | undefined,
    WaveStoreError | WaveUnreadable
  >
  /** Stores a new wave, with what lists show of it. */
  readonly begin: (wave: SubmittedWave, info: WaveInfo) => Effect.Effect<void, WaveStoreError>
  /** Stores that a wave could not continue. */
  readonly stick: (wave: SubmittedWave, info: WaveInfo) => Effect.Effect<void, WaveStoreError>
  /** Stores the end of a wave and the state of its turn together. */
  readonly end: (wave: SubmittedWave, end: End) => Effect.Effect<void, WaveStoreError>
  readonly turn: (owner: Owner, turn: string) => Effect.Effect<KeptTurn | undefined, WaveStoreError>
  /** Names of turns that the rows of a session remember; none where one process has all sessions in memory. */
  readonly turns: (owner: Owner) => Effect.Effect<ReadonlyArray<string>, WaveStoreError>
  /** Deletes what a turn remembers. */
  readonly removeTurn: (owner: Owner, turn: string) => Effect.Effect<void, WaveStoreError>
  /** Deletes waves that ended before a time, and turns that were left and idle since another time. */
  readonly prune: (before: { readonly waves: number; readonly turns: number }) => Effect.Effect<void, WaveStoreError>
}>()("effect-tool-executor/server/WaveStore") {}

/** Creates the service over rows of sessions. */
export const make = (rows: SessionRows["Service"]): WaveStore["Service"] => {
  const of = (owner: Owner): Rows => rows.of(toPrincipal(owner))
  return {
    open: failing("open", Effect.flatMap(rows.found(kinds.wave), submittedIn)),
    openOf: (owner) => failing("openOf", Effect.flatMap(of(owner).open(kinds.wave), submittedIn)),
    get: (owner, wave) =>
      failing(
        "get",
        Effect.gen(function*() {
          const id = idOf(owner, wave)
          const found = yield* of(owner).read({ head: keys.wave(id), keys: [keys.end(id)] })
          const [submitted, ended] = [found.get(keys.wave(id)), found.get(keys.end(id))]
          const readable = <A>({ decode }: WaveText.Text<A>, text: string) =>
            Effect.fromResult(
              Result.mapError(decode(text), ({ message }) => new WaveUnreadable({ wave, problem: message }))
            )
          return submitted === undefined ? undefined : {
            submitted: yield* readable(WaveText.submitted, submitted),
            ended: ended === undefined ? undefined : yield* readable(WaveText.ended, ended)
          }
        })
      ),
    begin: (wave, info) =>
      failing(
        "begin",
        Effect.suspend(() => {
          const changes: Array<Change> = [{
            _tag: "Put",
            key: keys.wave(idOf(wave, wave.wave)),
            value: WaveText.submitted.encode(wave),
            isNew: true,
            listed: {
              kind: kinds.wave,
              isOpen: true,
              at: wave.beganAt,
              summary: () => WaveText.info.encode(info)
            }
          }, {
            // retention leaves what the wave starts from
            _tag: "List",
            key: keys.turn(idOf(wave, wave.turn)),
            listed: { kind: kinds.turn, isOpen: true, at: wave.beganAt }
          }]
          return of(wave).write(changes)
        })
      ),
    stick: (wave, info) =>
      failing(
        "stick",
        Effect.suspend(() =>
          of(wave).write([{
            _tag: "Put",
            key: keys.wave(idOf(wave, wave.wave)),
            value: WaveText.submitted.encode(wave),
            listed: { kind: kinds.wave, isOpen: true, at: wave.beganAt, summary: () => WaveText.info.encode(info) }
          }])
        )
      ),
    end: (wave, { ended, info, isTurnOpen = false, turn }) =>
      failing(
        "end",
        Effect.suspend(() => {
          const id = idOf(wave, wave.wave)
          const changes: Array<Change> = turn === undefined ? [] : [{
            _tag: "Put",
            key: keys.turn(idOf(wave, wave.turn)),
            value: WaveText.keptTurn.encode(turn),
            listed: {
              kind: kinds.turn,
              isOpen: isTurnOpen,
              at: turn.at,
              summary: () => WaveText.turnName.encode({ turn: wave.turn })
            }
          }]
          changes.push({
            _tag: "Put",
            key: keys.end(id),
            value: WaveText.ended.encode(ended)
          }, {
            _tag: "List",
            key: keys.wave(id),
            listed: { kind: kinds.wave, isOpen: false, at: ended.at, summary: () => WaveText.info.encode(info) }
          })
          return of(wave).write(changes)
        })
      ),
    turn: (owner, turn) =>
      failing(
        "turn",
        Effect.gen(function*() {
          const key = keys.turn(idOf(owner, turn))
          const text = (yield* of(owner).read({ keys: [key] })).get(key)
          return text === undefined ? undefined : yield* Effect.fromResult(WaveText.keptTurn.decode(text))
        })
      ),
    turns: (owner) =>
      failing(
        "turns",
        Effect.map(
          rows.summaries?.({ kind: kinds.turn, principal: toPrincipal(owner), limit: mostTurns }) ?? Effect.succeed([]),
          (all) =>
            all.flatMap(({ summary }) => {
              const named = WaveText.turnName.decode(summary)
              return Result.isSuccess(named) ? [named.success.turn] : []
            })
        )
      ),
    removeTurn: (owner, turn) =>
      failing("removeTurn", of(owner).write([{ _tag: "Remove", key: keys.turn(idOf(owner, turn)) }])),
    prune: ({ turns, waves }) =>
      failing(
        "prune",
        Effect.andThen(
          rows.prune({
            kind: kinds.wave,
            before: waves,
            parts: { prefix: keys.end(""), insteadOf: keys.wave("") }
          }),
          rows.prune({ kind: kinds.turn, before: turns })
        )
      )
  }
}

/** Layer of the store over rows of sessions, of one process (`SqlOwnRows`) or of several (`SqlSessionRows`). */
export const layer: Layer.Layer<WaveStore, never, SessionRows> = Layer.effect(
  WaveStore,
  Effect.map(SessionRows, make)
)

/** Layer of a store in memory. */
export const layerMemory = (): Layer.Layer<WaveStore> => Layer.provide(layer, Layer.fresh(MemoryRows.layer))

/** Turns of a session that are found by their names. */
const mostTurns = 1_000

/** Kinds of rows. Lists over processes are of waves. */
export const kinds = { wave: "wave", turn: "turn" } as const

/** A hash, since names of users may contain any character. */
export const idOf = ({ session, user }: Owner, name: string): string =>
  FileChange.hashOf(JSON.stringify([user, session, name])).slice(0, 32)

const keys = {
  wave: (id: string) => `served.wave.${id}`,
  end: (id: string) => `served.end.${id}`,
  turn: (id: string) => `served.turn.${id}`
}

/** The waves of rows. An unreadable row is logged and must not affect others. */
const submittedIn = Effect.fnUntraced(function*(rows: ReadonlyArray<Row>) {
  const waves: Array<SubmittedWave> = []
  for (const { key, value } of rows) {
    const wave = WaveText.submitted.decode(value)
    if (Result.isSuccess(wave)) waves.push(wave.success)
    else yield* Effect.logError(`${key} cannot be read`, wave.failure)
  }
  return waves.sort((one, other) => one.beganAt - other.beganAt)
})

const failing = <A, E, R>(
  operation: string,
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, WaveStoreError | Extract<E, WaveUnreadable>, R> =>
  Effect.mapError(
    effect,
    (cause) =>
      cause instanceof WaveUnreadable ? cause as Extract<E, WaveUnreadable> : new WaveStoreError({ operation, cause })
  )
