/**
 * Files and folders that were opened and found to lie inside the root.
 *
 * A link can be swapped between looking and opening, so the descriptor is asked where it is, and only what it turned
 * out to be is used. Opening never waits for the other end of a pipe.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as NodeFs from "node:fs"
import { constants } from "node:fs"
import * as NodeFsPromises from "node:fs/promises"
import * as Workspace from "../workspace/Workspace.ts"
import * as WorkspaceFailure from "../workspace/WorkspaceFailure.ts"

/** A file or folder that was opened and found to lie inside the root. */
export interface Descriptor {
  readonly handle: NodeFsPromises.FileHandle
  readonly stats: NodeFs.Stats
  /** Real path of what is open, which may be another than it was opened by: links can be swapped meanwhile. */
  readonly real: string
  /** Path of the descriptor itself, safe against renamed folders; the real path where there is no `/proc`. */
  readonly pinned: string
}

/** Opens a path of the model; closed with the scope. */
export const open = (
  self: Workspace.Workspace,
  path: string,
  kind: "file" | "folder"
): Effect.Effect<Descriptor, WorkspaceFailure.WorkspaceFailure, Scope.Scope> =>
  Effect.flatMap(Workspace.realPath(self, path), (real) => openReal(self, real, kind, path))

/**
 * Opens what lies at a real path for reading, without following a link at its end and without waiting for the other end
 * of a pipe, and checks on the descriptor that it is of the kind and inside the root.
 */
export const openReal = Effect.fnUntraced(function*(
  self: Workspace.Workspace,
  real: string,
  kind: "file" | "folder",
  path: string = Workspace.display(self, real)
): Effect.fn.Return<Descriptor, WorkspaceFailure.WorkspaceFailure, Scope.Scope> {
  // A look before opening: opening a device can do something.
  const before = yield* WorkspaceFailure.attempt(path, () => NodeFsPromises.lstat(real))
  if (before.isSymbolicLink()) return yield* Effect.fail(changed(path))
  if (!isKind(before, kind)) return yield* Effect.fail(wrongKind(before, kind, path))
  const handle = yield* Effect.acquireRelease(
    WorkspaceFailure.attempt(path, () => NodeFsPromises.open(real, flags[kind])),
    (handle) => Effect.ignore(WorkspaceFailure.attempt(path, () => handle.close()))
  )
  const stats = yield* WorkspaceFailure.attempt(path, () => handle.stat())
  if (!isKind(stats, kind)) return yield* Effect.fail(wrongKind(stats, kind, path))
  return { handle, stats, ...yield* confirm(self, handle, real, path) }
})

/** Gives the real path that what was opened has now; where there is no `/proc`, that which it had. */
export const placeOf = (
  { pinned, real }: Descriptor,
  path: string
): Effect.Effect<string, WorkspaceFailure.WorkspaceFailure> =>
  pinned === real ? Effect.succeed(real) : WorkspaceFailure.attempt(path, () => NodeFsPromises.readlink(pinned))

/** One name in a folder. */
export interface Name {
  readonly name: string
  readonly kind: "file" | "directory" | "link" | "other"
}

/**
 * Reads the names in an opened folder, sorted by code unit; of more than `limit` names any `limit` of them, and
 * `complete` is false.
 */
export const readNames = (
  self: Workspace.Workspace,
  folder: Descriptor,
  limit: number
): Effect.Effect<
  { readonly names: ReadonlyArray<Name>; readonly complete: boolean },
  WorkspaceFailure.WorkspaceFailure
> => {
  const path = Workspace.display(self, folder.real)
  return Effect.acquireUseRelease(
    WorkspaceFailure.attempt(path, () => NodeFsPromises.opendir(folder.pinned, { bufferSize: 256 })),
    Effect.fnUntraced(function*(directory) {
      const names: Array<Name> = []
      while (true) {
        const entry = yield* WorkspaceFailure.attempt(path, () => directory.read())
        if (entry === null || names.length === limit) {
          names.sort((a, b) => a.name < b.name ? -1 : a.name > b.name ? 1 : 0)
          return { names, complete: entry === null }
        }
        names.push({ name: entry.name, kind: kindOf(entry) })
      }
    }),
    (directory) => Effect.ignore(WorkspaceFailure.attempt(path, () => directory.close()))
  )
}

/**
 * Reads from an opened file, chunk by chunk from its start, until the end or until `use` answers false. A chunk is only
 * valid during its call.
 */
export const readChunks = Effect.fnUntraced(function*(
  file: Descriptor,
  path: string,
  use: (chunk: Buffer) => boolean
): Effect.fn.Return<void, WorkspaceFailure.WorkspaceFailure> {
  const buffer = Buffer.allocUnsafe(Math.min(262_144, Math.max(4_096, file.stats.size + 1)))
  let position = 0
  while (true) {
    const { bytesRead } = yield* WorkspaceFailure.attempt(
      path,
      () => file.handle.read(buffer, 0, buffer.length, position)
    )
    if (bytesRead === 0 || !use(buffer.subarray(0, bytesRead))) return
    position += bytesRead
  }
})

/** Gives the kind of a directory entry or of a file's stats. */
export const kindOf = (entry: NodeFs.Dirent | NodeFs.Stats): Name["kind"] =>
  entry.isSymbolicLink() ? "link" : entry.isDirectory() ? "directory" : entry.isFile() ? "file" : "other"

const flags = {
  file: constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK,
  folder: constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK | constants.O_DIRECTORY
}

const isKind = (stats: NodeFs.Stats, kind: "file" | "folder"): boolean =>
  kind === "file" ? stats.isFile() : stats.isDirectory()

const wrongKind = (stats: NodeFs.Stats, kind: "file" | "folder", path: string): WorkspaceFailure.WorkspaceFailure =>
  kind === "folder"
    ? WorkspaceFailure.make("NotADirectory", path, "It is not a folder. Give the path of a folder.")
    : stats.isDirectory()
    ? WorkspaceFailure.fromUnknown({ code: "EISDIR" }, path)
    : WorkspaceFailure.fromUnknown({ code: "ENXIO" }, path)

const changed = (path: string): WorkspaceFailure.WorkspaceFailure =>
  WorkspaceFailure.make("ChangedMeanwhile", path, "The path changed while it was being opened. Look again and retry.")

/** Asks the descriptor itself where it is; gives that, and the path to work through. */
const confirm = Effect.fnUntraced(function*(
  self: Workspace.Workspace,
  handle: NodeFsPromises.FileHandle,
  real: string,
  path: string
): Effect.fn.Return<Pick<Descriptor, "real" | "pinned">, WorkspaceFailure.WorkspaceFailure> {
  const descriptor = `/proc/self/fd/${handle.fd}`
  const actual = yield* Effect.option(WorkspaceFailure.attempt(path, () => NodeFsPromises.readlink(descriptor)))
  if (actual._tag === "Some" && actual.value === real) return { real, pinned: descriptor }
  // Elsewhere, removed, or no /proc: what it is called now must name the very file that is open.
  const found = actual._tag === "Some"
    ? actual.value
    : yield* WorkspaceFailure.attempt(path, () => NodeFsPromises.realpath(real))
  if (!Workspace.isWithin(self.root, found)) return yield* Effect.fail(Workspace.outside(path))
  const there = yield* Effect.option(
    WorkspaceFailure.attempt(path, () => NodeFsPromises.lstat(found, { bigint: true }))
  )
  const here = yield* WorkspaceFailure.attempt(path, () => handle.stat({ bigint: true }))
  const isSame = there._tag === "Some" && there.value.dev === here.dev && there.value.ino === here.ino
  if (!isSame) return yield* Effect.fail(changed(path))
  return { real: found, pinned: actual._tag === "Some" ? descriptor : found }
})
