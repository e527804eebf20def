/**
 * Writes files of a workspace atomically: the complete content or nothing.
 *
 * The content goes to a temporary file in the same folder, which is then renamed over the target. The folder stays open
 * meanwhile, so swapping it for a link has no effect.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Random from "effect/Random"
import type * as Scope from "effect/Scope"
import type * as NodeFs from "node:fs"
import { constants } from "node:fs"
import * as NodeFsPromises from "node:fs/promises"
import * as NodePath from "node:path"
import * as ToolContext from "../../core/contract/ToolContext.ts"
import type { FileChange } from "../../core/vocabulary/FileChange.ts"
import * as PathTarget from "../workspace/PathTarget.ts"
import * as Workspace from "../workspace/Workspace.ts"
import * as WorkspaceFailure from "../workspace/WorkspaceFailure.ts"
import * as Descriptor from "./Descriptor.ts"

/** Bytes of the largest file that is read as a whole, to edit it or to show what changes. */
export const maxBytes = 10_000_000

/**
 * Gives the complete content of a file; `undefined` if the file does not exist. Fails if it has more than `maxBytes`,
 * or if the running call may not touch it.
 */
export const read = (
  workspace: Workspace.Workspace,
  path: string
): Effect.Effect<Uint8Array | undefined, WorkspaceFailure.WorkspaceFailure> =>
  Effect.map(readFile(workspace, path), (file) => file?.bytes)

/** The whole content of a file, and where it is. */
const readFile = Effect.fnUntraced(
  function*(
    workspace: Workspace.Workspace,
    path: string
  ): Effect.fn.Return<
    { readonly real: string; readonly bytes: Uint8Array } | undefined,
    WorkspaceFailure.WorkspaceFailure,
    Scope.Scope
  > {
    const { real, stats } = yield* findTarget(workspace, path)
    if (stats === undefined) return undefined
    const judge = yield* PathTarget.judge(workspace, "writes")
    const file = yield* Descriptor.openReal(workspace, real, "file", path)
    yield* judge.check(file.real, path)
    const chunks: Array<Buffer> = []
    let size = 0
    yield* Descriptor.readChunks(file, path, (chunk) => {
      size += chunk.length
      chunks.push(Buffer.from(chunk))
      return size <= maxBytes
    })
    return size <= maxBytes
      ? { real: file.real, bytes: Buffer.concat(chunks) }
      : yield* Effect.fail(
        WorkspaceFailure.make(
          "TooLarge",
          path,
          `The file has more than ${maxBytes} bytes, the limit of this tool. Use run_command instead.`
        )
      )
  },
  Effect.scoped
)

/**
 * Tells what a write would change (`ToolAnnotations.Preview`), with the path as policies know it
 * (`ToolAnnotations.Targets`).
 */
export const preview = <E>(
  workspace: Workspace.Workspace,
  path: string,
  target: Pick<FileChange, "kind" | "runBy"> & { readonly text: string },
  change: (before: Uint8Array | undefined) => Effect.Effect<string, E>
): Effect.Effect<ReadonlyArray<FileChange>, E | WorkspaceFailure.WorkspaceFailure> =>
  Effect.gen(function*() {
    const file = yield* readFile(workspace, path)
    // report the file that was read, even if a link was swapped meanwhile
    const targetOf = yield* PathTarget.targets(workspace, "writes")
    const { kind, runBy, text } = file === undefined ? target : targetOf(file.real)
    return [{ path: text, kind, runBy, before: file?.bytes, after: yield* change(file?.bytes) }]
  })

/**
 * Replaces the content of a file, or makes it, through `ToolContext.commit`.
 *
 * With `expected` the file must have that content when the write commits, or not be there, else it fails with
 * `ChangedMeanwhile`; so it does with `throughLinks: false` where a link is on the path. A write that fails or is
 * interrupted before its commit leaves neither a temporary file nor a folder it made. Mode and, where permitted, owner
 * of the file stay; hard links, extended attributes and access lists do not.
 */
export const replace = Effect.fnUntraced(
  function*(
    workspace: Workspace.Workspace,
    path: string,
    bytes: Uint8Array,
    options: {
      readonly createDirectories?: boolean | undefined
      readonly expected?: Uint8Array | "absent" | undefined
      readonly throughLinks?: boolean | undefined
    }
  ): Effect.fn.Return<
    { readonly path: string; readonly created: boolean },
    WorkspaceFailure.WorkspaceFailure,
    Scope.Scope
  > {
    const context = yield* ToolContext.ToolContext
    const target = yield* findTarget(workspace, path)
    if (options.throughLinks === false) yield* checkNoLinks(workspace, path)
    const judge = yield* PathTarget.judge(workspace, "writes")
    const targetOf = yield* PathTarget.targets(workspace, "writes")
    if (targetOf(target.real).kind === "protected") yield* workspace.beforeProtected ?? Effect.void
    const name = NodePath.basename(target.real)
    const folder = yield* openFolder(
      workspace,
      NodePath.dirname(target.real),
      path,
      options.createDirectories === true,
      (folder) => judge.check(NodePath.join(folder, name), path)
    )
    if (options.throughLinks === false && folder.real !== NodePath.dirname(target.real)) return yield* changed(path)
    const written = { path: Workspace.display(workspace, NodePath.join(folder.real, name)) }
    // writing the content that is there already touches neither the file nor what is kept for undoing
    if (options.expected === undefined && target.stats?.size === bytes.length && bytes.length <= maxBytes) {
      const there = yield* read(workspace, path)
      if (there !== undefined && Buffer.compare(there, bytes) === 0) return { ...written, created: false }
    }
    const temporary = yield* prepare(folder, path, bytes, target.stats)
    const { expected } = options
    const isAsExpected = expected === undefined || expected === "absent"
      ? Effect.void
      : checkIs(workspace, path, expected)
    const place = NodePath.join(folder.pinned, name)
    // a link is only made where nothing is; the temporary name goes with the scope
    const put = WorkspaceFailure.attempt(
      path,
      () => expected === "absent" ? NodeFsPromises.link(temporary, place) : NodeFsPromises.rename(temporary, place)
    )
    // it may have been moved since it was opened
    const isStillPermitted = Effect.flatMap(
      Descriptor.placeOf(folder, path),
      (real) => real === folder.real ? Effect.void : judge.check(NodePath.join(real, name), path)
    )
    yield* context.commit(Effect.uninterruptible(Effect.all([isAsExpected, isStillPermitted, put], { discard: true })))
    // The name itself reaches the disk with its folder; the content already did.
    yield* Effect.ignore(WorkspaceFailure.attempt(path, () => folder.handle.sync()))
    return { ...written, created: target.stats === undefined }
  },
  Effect.scoped
)

/** Removes a file that has this content, and no link on its path. */
export const remove = Effect.fnUntraced(
  function*(
    workspace: Workspace.Workspace,
    path: string,
    expected: Uint8Array
  ): Effect.fn.Return<void, WorkspaceFailure.WorkspaceFailure, Scope.Scope> {
    const { real } = yield* findTarget(workspace, path)
    yield* checkNoLinks(workspace, path)
    const folder = yield* openFolder(workspace, NodePath.dirname(real), path, false, () => Effect.void)
    if (folder.real !== NodePath.dirname(real)) return yield* changed(path)
    yield* checkIs(workspace, path, expected)
    yield* WorkspaceFailure.attempt(
      path,
      () => NodeFsPromises.unlink(NodePath.join(folder.pinned, NodePath.basename(real)))
    )
  },
  Effect.scoped
)

const changed = (path: string) =>
  Effect.fail(
    WorkspaceFailure.make("ChangedMeanwhile", path, "The file changed meanwhile. Read it again and retry.")
  )

const checkIs = (workspace: Workspace.Workspace, path: string, expected: Uint8Array) =>
  Effect.flatMap(
    read(workspace, path),
    (now) => now !== undefined && Buffer.compare(now, expected) === 0 ? Effect.void : changed(path)
  )

const checkNoLinks = Effect.fnUntraced(function*(workspace: Workspace.Workspace, path: string) {
  const absolute = yield* Workspace.locate(workspace, path)
  if ((yield* Workspace.resourceKey(workspace, path)) !== absolute) return yield* changed(path)
})

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
    const message = "The path is a link to a file that does not exist. Use the path of the file itself."
    return yield* Effect.fail(WorkspaceFailure.make("NotFound", path, message))
  }
  return { real: absolute, stats: undefined }
})

/**
 * Opens the folder of the target once `check` has let its real path pass, making what is missing if asked; what was
 * made goes again if the write fails.
 */
const openFolder = Effect.fnUntraced(function*(
  workspace: Workspace.Workspace,
  folder: string,
  path: string,
  create: boolean,
  check: (folder: string) => Effect.Effect<void, WorkspaceFailure.WorkspaceFailure>
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
  const real = NodePath.join(opened.real, ...missing)
  yield* check(real)
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
  if (opened.real !== real) yield* check(opened.real)
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
  bytes: Uint8Array,
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
    const temporary = NodePath.join(folder.pinned, `.write-${suffix}.tmp`)
    const flags = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW
    const handle = yield* WorkspaceFailure.attempt(path, () => NodeFsPromises.open(temporary, flags, mode))
    return { handle, temporary }
  }).pipe(
    // The name is taken: by another writer whose Random has the same seed.
    Effect.retry({ times: 5, while: (failure) => failure.error === "ChangedMeanwhile" })
  )

const writeAll = Effect.fnUntraced(function*(handle: NodeFsPromises.FileHandle, path: string, bytes: Uint8Array) {
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
