/** Undoes writes of a session from its checkpoints. Without this service there are no checkpoints. */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Checkpoints from "../../core/output/Checkpoints.ts"
import type { ConfigurationError } from "../../core/vocabulary/ConfigurationError.ts"
import * as Undo from "../../tools/workspace/Undo.ts"
import * as Workspace from "../../tools/workspace/Workspace.ts"
import type { WorkspaceFailure } from "../../tools/workspace/WorkspaceFailure.ts"
import { NotFound, NotUndone, Unavailable } from "../api/ApiProblems.ts"
import type * as Api from "../api/ApiRecords.ts"
import * as Principals from "../users/Principals.ts"

/** Undo in one root. Checkpoints of other sessions do not exist. */
export class Undoing extends Context.Service<Undoing, {
  /** The checkpoints of a session, newest first. */
  readonly list: (
    owner: Principals.Owner
  ) => Effect.Effect<ReadonlyArray<typeof Api.Checkpoint.Type>, Unavailable>
  /** The effect of undoing a checkpoint. */
  readonly plan: (
    owner: Principals.Owner,
    id: string
  ) => Effect.Effect<typeof Api.UndoPlan.Type, NotFound | Unavailable>
  /** Undoes all files of a checkpoint, or none. `force` overwrites later changes. */
  readonly restore: (
    owner: Principals.Owner,
    id: string,
    force: boolean
  ) => Effect.Effect<typeof Api.UndoPlan.Type, NotFound | NotUndone | Unavailable>
}>()("effect-tool-executor/server/Undoing") {}

/** Layer that undoes writes in the root of the workspace tools. */
export const layer = (
  options: { readonly root: string }
): Layer.Layer<Undoing, ConfigurationError, Checkpoints.Checkpoints> =>
  Layer.effect(
    Undoing,
    Effect.gen(function*() {
      const workspace = yield* Workspace.make(options.root)
      const checkpoints = yield* Checkpoints.Checkpoints
      const list = (owner: Principals.Owner) => checkpoints.list(Principals.toPrincipal(owner))
      const get = Effect.fnUntraced(function*(owner: Principals.Owner, id: string) {
        const found = (yield* list(owner)).find((it) => it.id === id)
        // calls that do not declare their changes have no checkpoint
        return found === undefined || found.files.length === 0 ? yield* new NotFound({}) : found
      })
      const provided = Effect.provideService(Checkpoints.Checkpoints, checkpoints)
      return Undoing.of({
        list: (owner) =>
          Effect.matchEffect(list(owner), {
            onFailure: (error) => Effect.flatMap(unreachable(error), Effect.fail),
            onSuccess: (all) => Effect.succeed(all.map(shown))
          }),
        plan: (owner, id) =>
          get(owner, id).pipe(
            Effect.flatMap((checkpoint) => provided(Undo.plan(workspace, checkpoint))),
            Effect.map(shownPlan),
            Effect.catch((error) => Effect.flatMap(problemOf(error), Effect.fail))
          ),
        restore: (owner, id, force) =>
          get(owner, id).pipe(
            Effect.flatMap((checkpoint) => provided(Undo.restore(workspace, checkpoint, { force }))),
            Effect.map(shownPlan),
            Effect.catch((error) => Effect.flatMap(problemOf(error), Effect.fail))
          )
      })
    })
  )

/** A service without checkpoints. */
export const none: Undoing["Service"] = {
  list: () => Effect.succeed([]),
  plan: () => Effect.fail(new NotFound({})),
  restore: () => Effect.fail(new NotFound({}))
}

/** Details of a store's problem go to the log. */
const unreachable = (error: Checkpoints.CheckpointError) =>
  Effect.as(Effect.logWarning("The checkpoints could not be read", error), new Unavailable({}))

function problemOf(error: NotFound | Checkpoints.CheckpointError): Effect.Effect<NotFound | Unavailable>
function problemOf(
  error: NotFound | Checkpoints.CheckpointError | Undo.UndoRefused | WorkspaceFailure
): Effect.Effect<NotFound | NotUndone | Unavailable>
function problemOf(
  error: NotFound | Checkpoints.CheckpointError | Undo.UndoRefused | WorkspaceFailure
): Effect.Effect<NotFound | NotUndone | Unavailable> {
  if (error instanceof NotFound) return Effect.succeed(error)
  if (error instanceof Checkpoints.CheckpointError) {
    // it was evicted meanwhile
    return error.reason === "Store" ? unreachable(error) : Effect.succeed(new NotFound({}))
  }
  if (error instanceof Undo.UndoRefused) {
    return Effect.succeed(new NotUndone({ isForceable: error.isForceable, errors: error.problems }))
  }
  const { message, path } = error
  // possibly undone in part: a new checkpoint has the previous content
  return Effect.succeed(new NotUndone({ isForceable: false, errors: [{ path, problem: message }] }))
}

const shown = ({ at, batch, callId, files, id, tool }: Checkpoints.Checkpoint): typeof Api.Checkpoint.Type => ({
  id,
  at,
  batch,
  callId,
  tool,
  paths: files.map(({ path }) => path)
})

const shownPlan = ({ checkpoint, diff, notCovered, steps }: Undo.Plan): typeof Api.UndoPlan.Type => ({
  checkpoint: shown(checkpoint),
  steps: steps.map(({ action, because, path }) => ({ path, action, ...because === undefined ? {} : { because } })),
  diff,
  notCovered: notCovered.map(shown)
})
