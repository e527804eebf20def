/**
 * What a confined command may not change of the folder that it works in, and what becomes of such files if a command
 * makes them anew.
 *
 * Guarded are the files of which `PathTarget` says that they are protected: everything in a `.git`, what the host
 * protects, and what other programs execute without being asked. Those that exist are mounted read-only. No mount can
 * keep a name free that does not exist yet, unless it leaves an empty file there for everybody to see. So a command may
 * make such a file, and it is moved out of the folder when the command ends, before anybody is told the result.
 *
 * What lies in a `node_modules` is not looked at: programs execute that when they are told to, as any source file.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import { randomUUID } from "node:crypto"
import type * as NodeFs from "node:fs"
import {
  accessSync,
  constants,
  lstatSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  statSync
} from "node:fs"
import * as NodeFsPromises from "node:fs/promises"
import * as NodeOs from "node:os"
import * as NodePath from "node:path"
import { executedBy } from "../command/ExecutedFiles.ts"
import * as Workspace from "../workspace/Workspace.ts"
import * as WorkspaceFailure from "../workspace/WorkspaceFailure.ts"
import * as Descriptor from "./Descriptor.ts"
import * as OpenedFolder from "./OpenedFolder.ts"

/** What there is in a folder, by real paths. */
export interface GuardedFiles {
  /** Files and folders that cannot be changed. */
  readonly guarded: ReadonlyArray<string>
  /** The same that are links, with what they lead to: a link cannot be mounted over. */
  readonly links: ReadonlyMap<string, string>
  /** What these links lead to, inside the workspace. */
  readonly linked: ReadonlyArray<string>
  /**
   * Sockets, pipes and devices: through them a command could reach programs outside. And files that a command may not
   * read.
   */
  readonly hidden: ReadonlyArray<string>
  /** Which file or folder lay at each path that no link is. */
  readonly identities: ReadonlyMap<string, string>
  /** Where the repository lies that the workspace is a further working tree of. */
  readonly gitFolder: string | undefined
}

/** Folders between two pauses, so that a large workspace does not hold up other calls. */
const together = 100

/**
 * Looks through a workspace. With `opens`, also through folders that a command has closed to their owner. `isHidden`:
 * files that a command may not read, by their paths relative to the root.
 */
export const find = Effect.fnUntraced(function*(
  workspace: Workspace.Workspace,
  { isHidden = () => false, opens = false }: {
    readonly opens?: boolean
    readonly isHidden?: (path: string) => boolean
  } = {}
): Effect.fn.Return<GuardedFiles> {
  const resolved = (paths: ReadonlyArray<string> | undefined) =>
    Effect.forEach(paths ?? [], (path) => Workspace.resourceKey(workspace, path))
  const protect = yield* resolved(workspace.protect)
  const free = yield* resolved(workspace.unprotect)
  const guarded = new Set<string>()
  const links = new Map<string, string>()
  const linked = new Set<string>()
  const hidden = new Set<string>()
  const folders = [workspace.root]
  let seen = 0
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    if (opens && !isOpen(folder)) yield* Effect.ignore(Effect.scoped(OpenedFolder.open(workspace, folder)))
    for (const entry of entriesOf(folder)) {
      const path = NodePath.join(folder, entry.name)
      if (!entry.isDirectory() && isHidden(Workspace.display(workspace, path))) {
        // a link cannot be mounted over, but what it leads to
        const real = Result.getOrUndefined(Result.try(() => realpathSync(path)))
        if (real !== undefined && Workspace.isWithin(workspace.root, real) && statSync(real).isFile()) hidden.add(real)
      }
      if (isGuarded(entry.name, path, protect, free)) {
        if (entry.isSymbolicLink()) {
          const to = Result.getOrUndefined(Result.try(() => readlinkSync(path)))
          if (to !== undefined) links.set(path, to)
          const real = Result.getOrUndefined(Result.try(() => realpathSync(path)))
          if (real !== undefined && real !== workspace.root && Workspace.isWithin(workspace.root, real)) {
            linked.add(real)
          }
        } else guarded.add(path)
        if (entry.isDirectory() && entry.name.toLowerCase() !== ".git") folders.push(path)
      } else if (entry.isDirectory()) {
        if (entry.name !== "node_modules") folders.push(path)
      } else if (!entry.isFile() && !entry.isSymbolicLink()) hidden.add(path)
    }
    if (++seen % together === 0) yield* Effect.sleep(0)
  }
  const found = { guarded: outermost(guarded), links, linked: Array.from(linked), hidden: Array.from(hidden) }
  const mounted = new Set([...found.guarded, ...found.linked, ...found.hidden])
  return {
    ...found,
    identities: new Map(Array.from(mounted, (path) => [path, identityOf(path)] as const)),
    gitFolder: gitFolderOf(workspace)
  }
})

/**
 * Gives where something else lies now, relative to the root. A mount protects a file and not its name: what another
 * program puts in its place, as an editor does when it saves, is open to the commands that run.
 */
export const replaced = (workspace: Workspace.Workspace, { identities }: GuardedFiles): ReadonlyArray<string> =>
  Array.from(identities).flatMap(([path, before]) => {
    const now = identityOf(path)
    return now === "" || now === before ? [] : [Workspace.display(workspace, path)]
  })

/** Numbers of files are used again, so the moment of birth belongs to it. Empty: neither file nor folder. */
const identityOf = (path: string): string =>
  Result.getOrElse(
    Result.try(() => {
      const stats = lstatSync(path, { bigint: true })
      return stats.isFile() || stats.isDirectory() ? `${stats.dev}:${stats.ino}:${stats.birthtimeNs}` : ""
    }),
    () => ""
  )

/** What a command has made and may not make. */
export interface SetAside {
  /** Paths relative to the root. */
  readonly paths: ReadonlyArray<string>
  /** Those that could not be moved. */
  readonly left: ReadonlyArray<string>
  /** Where they are now. */
  readonly folder: string
}

/**
 * Moves what a command has made and may not make out of the workspace; gives the paths, relative to its root, and the
 * folder where they are now.
 */
export const setAside = Effect.fnUntraced(function*(
  workspace: Workspace.Workspace,
  before: GuardedFiles,
  isExpected: (path: string) => boolean
): Effect.fn.Return<SetAside | undefined> {
  const now = yield* find(workspace, { opens: true })
  const isKnown = (path: string): boolean =>
    before.guarded.some((it) => Workspace.isWithin(it, path)) || isExpected(path)
  const made = [
    ...now.guarded.filter((path) => !isKnown(path)),
    ...Array.from(now.links.keys()).filter((path) => !before.links.has(path) && !isExpected(path)),
    ...Array.from(before.links).filter(([path, to]) => linkAt(path) !== to).map(([path]) => path)
  ]
  if (made.length === 0) return undefined
  const folder = yield* Effect.promise(() => NodeFsPromises.mkdtemp(NodePath.join(NodeOs.tmpdir(), "set-aside-")))
  const [paths, left]: [Array<string>, Array<string>] = [[], []]
  for (const [index, path] of Array.from(new Set(made)).entries()) {
    // numbered, so that no two are one; without the folders, whose names together may be too long
    const to = NodePath.join(folder, `${index + 1}-${NodePath.basename(path).slice(-60)}`)
    const moved = yield* Effect.exit(Effect.scoped(moveOut(workspace, path, to, before.links.get(path))))
    const those = moved._tag === "Success" ? paths : left
    those.push(Workspace.display(workspace, path))
  }
  return { paths, left, folder }
})

/** Through the opened folder, because another command may put a link in its place. */
const moveOut = Effect.fnUntraced(function*(
  workspace: Workspace.Workspace,
  path: string,
  to: string,
  link: string | undefined
) {
  const shown = Workspace.display(workspace, path)
  const parent = yield* Descriptor.openReal(workspace, NodePath.dirname(path), "folder")
  const from = NodePath.join(parent.pinned, NodePath.basename(path))
  const attempt = <A>(run: () => Promise<A>) => WorkspaceFailure.attempt(shown, run)
  const exists = yield* Effect.option(attempt(() => NodeFsPromises.lstat(from)))
  yield* OpenedFolder.whileWritable(parent.pinned)
  if (exists._tag === "Some") {
    // under this name nobody executes it, whatever becomes of it
    const inert = NodePath.join(parent.pinned, `set-aside-${randomUUID()}`)
    yield* attempt(() => NodeFsPromises.rename(from, inert))
    yield* Effect.catch(
      attempt(() => NodeFsPromises.rename(inert, to)),
      // the folder for temporary files is often on another device
      () =>
        Effect.sync(() => OpenedFolder.openAll(inert)).pipe(
          Effect.andThen(
            attempt(() => NodeFsPromises.cp(inert, to, { recursive: true, verbatimSymlinks: true, filter: isPlain }))
          ),
          // what could not be copied stays
          Effect.andThen(attempt(() => NodeFsPromises.rm(inert, { recursive: true, force: true })))
        )
    )
  }
  if (link !== undefined) yield* attempt(() => NodeFsPromises.symlink(link, from))
})

/** What can be copied: no pipe and no socket. */
const isPlain = async (path: string): Promise<boolean> => {
  const stats = await NodeFsPromises.lstat(path)
  return stats.isFile() || stats.isDirectory() || stats.isSymbolicLink()
}

/**
 * The `.git` of the main working tree, if the workspace is a further one. Its own record must lead back here: the file
 * in the workspace alone could name any folder.
 */
const gitFolderOf = ({ root }: Workspace.Workspace): string | undefined =>
  Result.getOrUndefined(Result.try(() => {
    const link = NodePath.join(root, ".git")
    const [, named] = /^gitdir: (.+)$/m.exec(readFileSync(link, "utf8")) ?? []
    if (named === undefined) return undefined
    const own = realpathSync(NodePath.resolve(root, named))
    if (realpathSync(readFileSync(NodePath.join(own, "gitdir"), "utf8").trim()) !== link) return undefined
    const main = realpathSync(NodePath.resolve(own, readFileSync(NodePath.join(own, "commondir"), "utf8").trim()))
    // what the workspace lies in would show more than the repository
    if (Workspace.isWithin(main, root)) return undefined
    return Workspace.isWithin(main, own) && /(?:^|\.)git$/.test(NodePath.basename(main)) ? main : undefined
  }))

const isGuarded = (
  name: string,
  path: string,
  protect: ReadonlyArray<string>,
  free: ReadonlyArray<string>
): boolean =>
  // some file systems take any case for the same
  name.toLowerCase() === ".git" || protect.some((it) => Workspace.isWithin(it, path)) ||
  (executedBy([name]) === "themselves" && !free.some((it) => Workspace.isWithin(it, path)))

const entriesOf = (folder: string): ReadonlyArray<NodeFs.Dirent> =>
  Result.getOrElse(Result.try(() => readdirSync(folder, { withFileTypes: true })), () => [])

const isOpen = (folder: string): boolean =>
  Result.isSuccess(Result.try(() => accessSync(folder, constants.R_OK | constants.X_OK)))

const linkAt = (path: string): string | undefined => Result.getOrUndefined(Result.try(() => readlinkSync(path)))

/** Without what lies in another of them. */
const outermost = (paths: ReadonlySet<string>): ReadonlyArray<string> => {
  const sorted = Array.from(paths).sort()
  const kept: Array<string> = []
  for (const path of sorted) {
    if (!kept.some((it) => Workspace.isWithin(it, path))) kept.push(path)
  }
  return kept
}
