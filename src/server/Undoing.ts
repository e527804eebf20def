/**
 * Undoing, as the server offers it: checkpoints of a session's calls, and what undoing them does.
 * Without it there are none.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type { Checkpoint, CheckpointError } from "../output/Checkpoints.ts"
import type * as Undo from "../tools/Undo.ts"
import type { WorkspaceFailure } from "../tools/WorkspaceFailure.ts"

/**
 * Undoing in one root.
 *
 * @category services
 * @since 0.1.0
 */
export class Undoing extends Context.Service<Undoing, {
  readonly list: (principal: string) => Effect.Effect<ReadonlyArray<Checkpoint>, CheckpointError>
  /** What undoing one would do; `None`: the principal has none of that id. */
  readonly plan: (principal: string, id: string) => Effect.Effect<Option.Option<Undo.Plan>, CheckpointError>
  readonly restore: (
    principal: string,
    id: string,
    force: boolean
  ) => Effect.Effect<Option.Option<Undo.Plan>, Undo.UndoRefused | CheckpointError | WorkspaceFailure>
}>()("effect-tool-executor/server/Undoing") {}
