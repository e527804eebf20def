/**
 * The tool `write_file`: a file's whole content, at once or not at all.
 *
 * The content goes to a temporary file beside the target; renaming it over the
 * target is the write, and it goes through `ToolContext.commit`. The folder is
 * held open meanwhile, so that a folder swapped for a link takes nothing along.
 *
 * It does not keep hard links, extended attributes or access lists of the file
 * it replaces; it keeps mode and, where permitted, owner.
 *
 * @since 0.1.0
 */
import * as Tool from "effect/ai/Tool"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Random from "effect/Random"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as NodeFs from "node:fs"
import { constants } from "node:fs"
import * as NodeFsPromises from "node:fs/promises"
import * as NodePath from "node:path"
import * as ToolContext from "../ToolContext.ts"
import * as Descriptor from "./Descriptor.ts"
import * as Workspace from "./Workspace.ts"
import * as WorkspaceFailure from "./WorkspaceFailure.ts"

/**
 * The tool `write_file`.
 *
 * **Gotchas**
 *
 * It runs alone (`SerialMut`): only `WorkspaceTools.make` knows the root, and so
 * the resource keys that let writers of different files run at once.
 *
 * @category tools
 * @since 0.1.0
 */
export const tool = Tool.make("write_file", {
  description:
    "Writes a text file of the workspace: the whole content replaces what was there, at once or not at all. " +
    "Through a link inside the workspace the file it leads to is written. Folders, pipes and devices are refused.",
  parameters: Schema.Struct({
    path: Schema.String.annotate({ description: "Path of the file, relative to the workspace root" }),
    content: Schema.String.annotate({ description: "The whole content, written as UTF-8" }),
    createDirectories: Schema.optionalKey(
      Schema.Boolean.annotate({ description: "Whether to make missing folders of the path; default false" })
    )
  }),
  success: Schema.Struct({
    path: Schema.String,
    bytesWritten: Schema.Int,
    /** Whether there was no such file before. */
    created: Schema.Boolean
  }),
  failure: WorkspaceFailure.WorkspaceFailure
})
  .annotate(Tool.Title, "Write file")
  .annotate(Tool.Readonly, false)
  .annotate(Tool.Destructive, true)
  .annotate(Tool.Idempotent, true)
  .annotate(Tool.OpenWorld, false)

/**
 * Makes the handler of `write_file` for a workspace.
 *
 * **Details**
 *
 * A write that fails or is interrupted before its commit leaves neither a
 * temporary file nor a folder it made.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (
  workspace: Workspace.Workspace
): (params: Tool.Parameters<typeof tool>) => Effect.Effect<
  Tool.Success<typeof tool>,
  WorkspaceFailure.WorkspaceFailure
> =>
  Effect.fnUntraced(function*({ content, createDirectories, path }) {
    const context = yield* ToolContext.ToolContext
    const target = yield* findTarget(workspace, path)
    const folder = yield* openFolder(workspace, NodePath.dirname(target.real), path, createDirectories === true)
    const name = NodePath.basename(target.real)
    const bytes = Buffer.from(content, "utf8")
    const temporary = yield* prepare(folder, path, bytes, target.stats)
    yield* context.commit(
      Effect.uninterruptible(
        WorkspaceFailure.attempt(path, () => NodeFsPromises.rename(temporary, NodePath.join(folder.pinned, name)))
      )
    )
    // The name itself reaches the disk with its folder; the content already did.
    yield* Effect.ignore(WorkspaceFailure.attempt(path, () => folder.handle.sync()))
    return {
      path: Workspace.display(workspace, NodePath.join(folder.real, name)),
      bytesWritten: bytes.length,
      created: target.stats === undefined
    }
  }, Effect.scoped)

// -----------------------------------------------------------------------------
// Utilities
// -----------------------------------------------------------------------------

/** The path to write to, real where the file exists, and the stats of the file that is there. */
const findTarget = Effect.fnUntraced(function*(
  workspace: Workspace.Workspace,
  path: string
): Effect.fn.Return<
  { readonly real: string; readonly stats: NodeFs.Stats | undefined },
  WorkspaceFailure.WorkspaceFailure
> {
  const absolute = yield* Workspace.locate(workspace, path)
  if (path.endsWith("/") || absolute === workspace.root) {
    return yield* Effect.fail(WorkspaceFailure.fromUnknown({ code: "EISDIR" }, path))
  }
  const existing = yield* Effect.result(Workspace.realPath(workspace, path))
  if (existing._tag === "Success") {
    const real = existing.success
    const stats = yield* WorkspaceFailure.attempt(path, () => NodeFsPromises.lstat(real))
    if (!stats.isFile()) {
      return yield* Effect.fail(WorkspaceFailure.fromUnknown({ code: stats.isDirectory() ? "EISDIR" : "ENXIO" }, path))
    }
    // A rename would replace a write-protected file all the same.
    yield* WorkspaceFailure.attempt(path, () => NodeFsPromises.access(real, constants.W_OK))
    return { real, stats }
  }
  if (existing.failure.error !== "NotFound") return yield* Effect.fail(existing.failure)
  const link = yield* Effect.option(WorkspaceFailure.attempt(path, () => NodeFsPromises.lstat(absolute)))
  if (link._tag === "Some") {
    const message = "It is a link to something that does not exist. Write to the path of the file itself."
    return yield* Effect.fail(WorkspaceFailure.make("NotFound", path, message))
  }
  return { real: absolute, stats: undefined }
})

/** Opens the folder of the target, making what is missing if asked; what was made goes again if the write fails. */
const openFolder = Effect.fnUntraced(function*(
  workspace: Workspace.Workspace,
  folder: string,
  path: string,
  create: boolean
): Effect.fn.Return<Descriptor.Descriptor, WorkspaceFailure.WorkspaceFailure, Scope.Scope> {
  const missing: Array<string> = []
  let at = folder
  let existing = yield* Effect.result(Workspace.realPath(workspace, at))
  while (existing._tag === "Failure" && existing.failure.error === "NotFound" && at !== workspace.root) {
    missing.unshift(NodePath.basename(at))
    at = NodePath.dirname(at)
    existing = yield* Effect.result(Workspace.realPath(workspace, at))
  }
  if (existing._tag === "Failure") return yield* Effect.fail({ ...existing.failure, path })
  if (missing.length > 0 && !create) {
    const message =
      "The folder does not exist. Set createDirectories, or write into a folder that list_directory shows."
    return yield* Effect.fail(WorkspaceFailure.make("NotFound", path, message))
  }
  let opened = yield* Descriptor.openReal(workspace, existing.success, "folder", path)
  for (const name of missing) {
    const made = NodePath.join(opened.pinned, name)
    yield* Effect.acquireRelease(
      makeFolder(made, path),
      (isNew, exit) =>
        isNew && Exit.isFailure(exit)
          ? Effect.ignore(WorkspaceFailure.attempt(path, () => NodeFsPromises.rmdir(made)))
          : Effect.void
    )
    opened = yield* Descriptor.openReal(workspace, NodePath.join(opened.real, name), "folder", path)
  }
  return opened
})

/** Whether the folder was made now; another call may have been faster. */
const makeFolder = (made: string, path: string): Effect.Effect<boolean, WorkspaceFailure.WorkspaceFailure> =>
  WorkspaceFailure.attempt(path, () => NodeFsPromises.mkdir(made)).pipe(
    Effect.as(true),
    Effect.catchIf((failure) => failure.error === "ChangedMeanwhile", () => Effect.succeed(false))
  )

/** Writes the content to a new file in the folder, on disk when this ends; the scope removes it unless it was renamed. */
const prepare = Effect.fnUntraced(function*(
  folder: Descriptor.Descriptor,
  path: string,
  bytes: Buffer,
  replaced: NodeFs.Stats | undefined
): Effect.fn.Return<string, WorkspaceFailure.WorkspaceFailure, Scope.Scope> {
  const { handle, temporary } = yield* Effect.acquireRelease(
    createTemporary(folder, path, replaced === undefined ? 0o666 : 0o600),
    ({ handle, temporary }) =>
      Effect.andThen(
        Effect.ignore(WorkspaceFailure.attempt(path, () => handle.close())),
        Effect.ignore(WorkspaceFailure.attempt(path, () => NodeFsPromises.unlink(temporary)))
      )
  )
  yield* writeAll(handle, path, bytes)
  if (replaced !== undefined) {
    const own = yield* WorkspaceFailure.attempt(path, () => handle.stat())
    if (own.uid !== replaced.uid || own.gid !== replaced.gid) {
      yield* Effect.ignore(WorkspaceFailure.attempt(path, () => handle.chown(replaced.uid, replaced.gid)))
    }
    yield* WorkspaceFailure.attempt(path, () => handle.chmod(replaced.mode & 0o777))
  }
  yield* WorkspaceFailure.attempt(path, () => handle.sync())
  return temporary
})

const createTemporary = (folder: Descriptor.Descriptor, path: string, mode: number) =>
  Effect.gen(function*() {
    const suffix = Math.abs(yield* Random.nextInt).toString(36)
    const temporary = NodePath.join(folder.pinned, `.write_file-${suffix}.tmp`)
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
    const handle = yield* WorkspaceFailure.attempt(path, () => NodeFsPromises.open(temporary, flags, mode))
    return { handle, temporary }
  }).pipe(
    // The name is taken: by another writer whose Random has the same seed.
    Effect.retry({ times: 5, while: (failure) => failure.error === "ChangedMeanwhile" })
  )

const writeAll = Effect.fnUntraced(function*(handle: NodeFsPromises.FileHandle, path: string, bytes: Buffer) {
  let written = 0
  while (written < bytes.length) {
    const rest = written
    const { bytesWritten } = yield* WorkspaceFailure.attempt(
      path,
      () => handle.write(bytes, rest, Math.min(1_048_576, bytes.length - rest))
    )
    written += bytesWritten
  }
})
