/**
 * Brings files of a workspace back to what they were at a checkpoint.
 *
 * A file that changed since its write stays unchanged unless the caller insists. A link, or a path through one, is
 * never written to. Overwritten content is kept as a separate checkpoint first, so that an undo can be undone.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as NodeFsPromises from "node:fs/promises"
import * as NodePath from "node:path"
import * as Checkpoints from "../../core/output/Checkpoints.ts"
import * as FileChange from "../../core/vocabulary/FileChange.ts"
import * as FileWriter from "../files/FileWriter.ts"
import * as Workspace from "./Workspace.ts"
import { attempt, type WorkspaceFailure } from "./WorkspaceFailure.ts"

/** What undoing does with one file. */
export interface Step {
  readonly path: string
  /**
   * `restore` writes what was there, `remove` takes away a file that the write made, `nothing` is to be done, `changed`
   * would overwrite later changes, `refused` is not possible.
   */
  readonly action: "restore" | "remove" | "nothing" | "changed" | "refused"
  readonly because?: string | undefined
}

/** What undoing a checkpoint does. */
export interface Plan {
  readonly checkpoint: Checkpoints.Checkpoint
  readonly steps: ReadonlyArray<Step>
  /** What changes, as a unified diff. */
  readonly diff: string
  /** Calls since then that may have changed things and did not say which: they are not undone. */
  readonly notCovered: ReadonlyArray<Checkpoints.Checkpoint>
}

/** Error of what cannot be undone, or not without insisting; nothing was written. */
export class UndoRefused extends Schema.TaggedError<UndoRefused>("effect-tool-executor/UndoRefused")("UndoRefused", {
  id: Schema.String,
  problems: Schema.Array(Schema.Struct({ path: Schema.String, problem: Schema.String })),
  /** With `force` it would be done. */
  isForceable: Schema.Boolean
}) {
  override get message(): string {
    const list = this.problems.map((it) => `${it.path}: ${it.problem}`).join("; ")
    return `Checkpoint ${this.id} was not undone: ${list}`
  }
}

/** Says what undoing a checkpoint would do; changes nothing. */
export const plan = (
  workspace: Workspace.Workspace,
  checkpoint: Checkpoints.Checkpoint
): Effect.Effect<Plan, Checkpoints.CheckpointError, Checkpoints.Checkpoints> =>
  Effect.map(look(workspace, checkpoint), ({ plan }) => plan)

/** Undoes a checkpoint: all of its files, or none. */
export const restore = Effect.fnUntraced(function*(
  workspace: Workspace.Workspace,
  checkpoint: Checkpoints.Checkpoint,
  options?: {
    /** Overwrites what changed after the write. Default false. */
    readonly force?: boolean | undefined
  }
): Effect.fn.Return<
  Plan,
  UndoRefused | Checkpoints.CheckpointError | WorkspaceFailure,
  Checkpoints.Checkpoints
> {
  const checkpoints = yield* Checkpoints.Checkpoints
  const { changes, plan } = yield* look(workspace, checkpoint)
  const refused = plan.steps.filter((it) => it.action === "refused")
  const changed = options?.force === true ? [] : plan.steps.filter((it) => it.action === "changed")
  if (refused.length + changed.length > 0) {
    return yield* new UndoRefused({
      id: checkpoint.id,
      problems: [...refused, ...changed].map(({ because = "", path }) => ({ path, problem: because })),
      isForceable: refused.length === 0
    })
  }
  if (changes.length > 0) {
    const { batch, id, principal } = checkpoint
    const kept = yield* checkpoints.save({ batch, principal, callId: id, tool: "undo", files: changes })
    const lost = kept.files.filter((it) => !it.isKept)
    if (lost.length > 0) {
      yield* checkpoints.forget(kept)
      const problems = lost.map(({ path }) => ({ path, problem: "the current content is too large to be kept" }))
      return yield* new UndoRefused({ id, problems, isForceable: false })
    }
  }
  // one after the other: what fails half-way is in the checkpoint that was just kept
  for (const { after, before, path } of changes) {
    const expected = before === undefined ? "absent" as const : FileChange.bytesOf(before)
    if (after !== undefined) {
      const options = { createDirectories: true, expected, throughLinks: false }
      yield* FileWriter.replace(workspace, path, FileChange.bytesOf(after), options)
    } else if (expected !== "absent") yield* FileWriter.remove(workspace, path, expected)
  }
  yield* checkpoints.forget(checkpoint)
  return plan
})

/** Whether a folder is there, or can be made. */
const mayHold = Effect.fnUntraced(function*(folder: string): Effect.fn.Return<boolean> {
  let at = folder
  while (true) {
    const current = at
    const stats = yield* Effect.option(attempt(current, () => NodeFsPromises.lstat(current)))
    if (stats._tag === "Some") return stats.value.isDirectory()
    at = NodePath.dirname(current)
    if (at === current) return false
  }
})

/** The content to write, in addition to the plan. */
const look = Effect.fnUntraced(function*(workspace: Workspace.Workspace, checkpoint: Checkpoints.Checkpoint) {
  const checkpoints = yield* Checkpoints.Checkpoints
  const found = yield* Effect.forEach(checkpoint.files, (file) => lookAt(workspace, checkpoint, file))
  const changes = found.flatMap((it) => it.change === undefined ? [] : [it.change])
  const later = (yield* checkpoints.list(checkpoint.principal)).filter((it) => it.id > checkpoint.id)
  const plan: Plan = {
    checkpoint,
    steps: found.map(({ step }) => step),
    diff: FileChange.diff(changes),
    notCovered: later.filter((it) => it.files.length === 0)
  }
  return { changes, plan }
})

const lookAt = Effect.fnUntraced(function*(
  workspace: Workspace.Workspace,
  checkpoint: Checkpoints.Checkpoint,
  file: Checkpoints.Checkpoint["files"][number]
): Effect.fn.Return<
  { readonly step: Step; readonly change?: FileChange.FileChange },
  Checkpoints.CheckpointError,
  Checkpoints.Checkpoints
> {
  const { path } = file
  const refused = (because: string) => ({ step: { path, action: "refused", because } as const })
  if (!file.isKept) return refused("it was too large to be kept")
  const absolute = yield* Effect.option(Workspace.locate(workspace, path))
  if (absolute._tag === "None") return refused("it is not in the root")
  // what is a link, or lies behind one, may be anything by now
  if ((yield* Workspace.resourceKey(workspace, path)) !== absolute.value) {
    return refused("there is a link on its path now")
  }
  if (!(yield* mayHold(NodePath.dirname(absolute.value)))) return refused("a part of its path is a file now")
  const current = yield* Effect.result(FileWriter.read(workspace, path))
  if (current._tag === "Failure") return refused(current.failure.message)
  const before = current.success
  const now = FileChange.hashOf(before)
  if (now === file.before) return { step: { path, action: "nothing" } }
  const after = yield* Effect.flatMap(Checkpoints.Checkpoints, (it) => it.content(checkpoint, path))
  const change = { path, before, after }
  if (now !== file.after) return { step: { path, action: "changed", because: "it changed after that write" }, change }
  return { step: { path, action: after === undefined ? "remove" : "restore" }, change }
})
