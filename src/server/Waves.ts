/**
 * The waves of all sessions: handed over once, run whether or not a client stays, found again
 * under their names, gone on with after the server was stopped or killed.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type * as Stream from "effect/Stream"
import type * as ToolEvent from "../ToolEvent.ts"
import type { HandOver, Session, Wave, WaveInfo, WaveSse } from "./ApiModels.ts"
import type { Invalid, TooMany, Unavailable, WaveConflict } from "./ApiProblems.ts"
import type { Owner } from "./Principals.ts"

/**
 * A wave that is known.
 *
 * @category models
 * @since 0.1.0
 */
export interface Handle {
  readonly info: Effect.Effect<WaveInfo>
  /** Where it stands, with its results once it has ended. */
  readonly wave: Effect.Effect<Wave>
  /** The same, once it has ended or is suspended. */
  readonly ended: Effect.Effect<Wave>
  /**
   * What happened behind a place, and then what happens, until its end, with ids and a heartbeat each 15
   * seconds. What is of the life of calls comes exactly once; of what tools emit only the latest is kept, and a
   * `Gap` counts the rest. A place that is not known gives a `Reset`, and everything on record.
   */
  readonly events: (after: string | undefined) => Stream.Stream<WaveSse>
  /** The events that are kept, for a picture of it. */
  readonly kept: Effect.Effect<ReadonlyArray<ToolEvent.Wire>>
  /** Cancels it, or the calls of an id in it. */
  readonly cancel: (of: { readonly callId?: string | undefined; readonly reason: string }) => Effect.Effect<void>
}

/**
 * The waves.
 *
 * @category services
 * @since 0.1.0
 */
export class Waves extends Context.Service<Waves, {
  /** Runs the calls of a message, or gives the wave that they are already. */
  readonly handOver: (
    owner: Owner,
    message: HandOver
  ) => Effect.Effect<Handle, Invalid | WaveConflict | TooMany | Unavailable>
  /** The wave of a name. */
  readonly get: (owner: Owner, wave: string) => Effect.Effect<Option.Option<Handle>>
  /** Those that run, and those that ended lately, oldest first. */
  readonly list: Effect.Effect<ReadonlyArray<Handle & { readonly owner: Owner }>>
  /** The sessions of a user that have an executor now. */
  readonly sessions: (user: string) => Effect.Effect<ReadonlyArray<typeof Session.Type>>
  /** Ends a session: its waves are cancelled. `false`: there is none. */
  readonly endSession: (owner: Owner) => Effect.Effect<boolean>
  /** Ends a turn: its counts are forgotten. `false`: there is none. */
  readonly endTurn: (owner: Owner, turn: string) => Effect.Effect<boolean>
  readonly counts: Effect.Effect<{ readonly sessions: number; readonly waves: number }>
  /**
   * Stops: nothing is taken any more, what waits for a person is suspended, what runs has `within` to come to
   * its end; then it is told to stop, and what has not begun is suspended.
   */
  readonly drain: (within: Duration.Input) => Effect.Effect<void>
}>()("effect-tool-executor/server/Waves") {}
