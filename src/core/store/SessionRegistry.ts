/**
 * The session registry: which process holds which session, and since when.
 *
 * A process that begins to hold a session raises its *epoch*. Stores write the rows of a session only in its current
 * epoch, so a process that lost the session writes nothing more. Without a registry one process has all sessions, and
 * stores behave as if there were no epochs.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type { Epoch, Left, Released, Runner } from "./Epoch.ts"
import * as MemorySessions from "./MemorySessions.ts"

export type * from "./Epoch.ts"

/** Error of a registry that could not be reached. */
export class SessionRegistryError extends Schema.TaggedError<SessionRegistryError>(
  "effect-tool-executor/SessionRegistryError"
)("SessionRegistryError", { operation: Schema.String, cause: Schema.Defect() }) {
  override get message(): string {
    return `SessionRegistry.${this.operation} failed`
  }
}

/** Error of a write for a session that this process does not hold. Trying again cannot help. */
export class SessionLost extends Schema.TaggedError<SessionLost>("effect-tool-executor/SessionLost")(
  "SessionLost",
  { principal: Schema.String }
) {
  override get message(): string {
    return `This process does not hold the session of "${this.principal}". Another process may have it`
  }
}

/** The session registry. */
export class SessionRegistry extends Context.Service<SessionRegistry, {
  readonly runner: Runner
  /** The epoch in which this process holds a session now. */
  readonly current: (principal: string) => Epoch | undefined
  /**
   * Begins to hold a session, whoever has held it: earlier epochs write nothing from then on. Ends once no earlier epoch
   * can take its lease for valid, which takes a lease at most.
   */
  readonly activate: (principal: string) => Effect.Effect<Epoch, SessionRegistryError>
  /** Ends an epoch and says what is left. The epoch is over afterwards, also if this fails. */
  readonly release: (epoch: Epoch, left: Left) => Effect.Effect<Released, SessionRegistryError>
  /**
   * Notes that the session will look for what changed, so `wake` before this has been heard; false if the epoch is
   * over. Activation does it, too.
   */
  readonly heard: (epoch: Epoch) => Effect.Effect<boolean, SessionRegistryError>
  /** Notes that something changed for a session: who holds it has to look, or somebody has to activate it. */
  readonly wake: (principal: string) => Effect.Effect<void, SessionRegistryError>
  /**
   * Gives sessions that somebody has to look after: woken a while ago and not heard, at the end of their wait, left
   * open, or held by a process whose lease has expired. The same ones are not given again for a while, also not to
   * other processes.
   */
  readonly due: (limit: number) => Effect.Effect<ReadonlyArray<string>, SessionRegistryError>
}>()("effect-tool-executor/store/SessionRegistry") {}

/** Layer with a registry in memory, for one process. Registries over the same sessions take them from one another. */
export const layerMemory = (sessions = MemorySessions.world()): Layer.Layer<SessionRegistry> =>
  Layer.sync(SessionRegistry, () => MemorySessions.make(sessions))
