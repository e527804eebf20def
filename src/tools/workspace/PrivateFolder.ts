/**
 * A folder that a store keeps things in: apart from the root that tools work in, for its owner alone (mode 0700, files
 * 0600), and with nothing in it half-written under the name that it is read by.
 */
import * as Effect from "effect/Effect"
import * as NodeFsPromises from "node:fs/promises"
import * as NodePath from "node:path"
import { ConfigurationError, readOptions } from "../../core/vocabulary/ConfigurationError.ts"
import * as Workspace from "./Workspace.ts"
import * as WorkspaceFailure from "./WorkspaceFailure.ts"

/**
 * Gives the real path of a store's folder, also where it is not there yet; fails with `ConfigurationError` where that
 * lies in the root, or around it.
 */
export const locate = Effect.fnUntraced(function*(
  subject: string,
  options: { readonly directory: string; readonly root?: string | undefined }
): Effect.fn.Return<string, ConfigurationError> {
  const given = yield* readOptions(subject, (read) => read.text("directory", options.directory))
  const workspace = options.root === undefined ? undefined : yield* Workspace.make(options.root)
  const directory = yield* Workspace.resourceKey(workspace ?? everywhere, NodePath.resolve(given))
  if (workspace === undefined) return directory
  if (Workspace.isWithin(workspace.root, directory) || Workspace.isWithin(directory, workspace.root)) {
    return yield* new ConfigurationError({
      subject,
      problems: [{
        path: "directory",
        problem: `'${directory}' lies in the root '${workspace.root}', or around it, where tools could change it`,
        expected: "a folder apart from the root"
      }]
    })
  }
  return directory
})

/** The names in a folder; none if it is not there. */
export const namesIn = async (folder: string): Promise<ReadonlyArray<string>> => {
  try {
    return await NodeFsPromises.readdir(folder)
  } catch (cause) {
    if (WorkspaceFailure.codeOf(cause) === "ENOENT") return []
    throw cause
  }
}

/** Makes a folder, and those around it, if it is not there. */
export const make = async (folder: string): Promise<void> => {
  await NodeFsPromises.mkdir(folder, { recursive: true, mode: 0o700 })
}

/**
 * Makes a store's own folder. One that is there and that others may write to is closed to them; it is refused where it
 * is another user's or a common folder such as `/tmp`.
 */
export const makeOwn = async (folder: string): Promise<void> => {
  await make(folder)
  const { mode, uid } = await NodeFsPromises.stat(folder)
  if (process.platform === "win32" || (mode & writableByOthers) === 0) return
  if ((mode & sticky) !== 0 || !isOwn(uid)) {
    throw new Error(`others may write to it (mode ${shownMode(mode)}); give a folder of your own`)
  }
  await NodeFsPromises.chmod(folder, 0o700)
}

/**
 * Closes a store's file to others, if it is there. Refuses a link, which may lead to where tools can change it, and a
 * file of another user.
 */
export const closeToOthers = async (path: string): Promise<void> => {
  const found = await NodeFsPromises.lstat(path).catch((cause: unknown) => {
    if (WorkspaceFailure.codeOf(cause) === "ENOENT") return undefined
    throw cause
  })
  if (found === undefined || process.platform === "win32") return
  if (!found.isFile()) throw new Error(`${path} is not a file; remove it`)
  if (!isOwn(found.uid)) throw new Error(`${path} belongs to another user; remove it`)
  if ((found.mode & forOthers) !== 0) await NodeFsPromises.chmod(path, 0o600)
}

/** Writes a file that is not there yet; it is on the disk when this ends. */
export const write = async (path: string, content: string | Uint8Array): Promise<void> => {
  const handle = await NodeFsPromises.open(path, "wx", 0o600)
  try {
    await handle.writeFile(content)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

/** Renames a written file to the name that readers use, in the same folder; the name is on the disk when this ends. */
export const publish = async (from: string, to: string): Promise<void> => {
  await NodeFsPromises.rename(from, to)
  await sync(NodePath.dirname(to))
}

/** Has the names in a folder on the disk when this ends. */
export const sync = async (path: string): Promise<void> => {
  try {
    const folder = await NodeFsPromises.open(path)
    try {
      await folder.sync()
    } finally {
      await folder.close()
    }
  } catch {
    // not every system lets a folder be opened; the file is there
  }
}

/** Removes a file, or a folder with all in it, if it is there. */
export const remove = (path: string): Promise<void> => NodeFsPromises.rm(path, { recursive: true, force: true })

const writableByOthers = 0o022
const forOthers = 0o077
const sticky = 0o1000

const isOwn = (uid: number): boolean => uid === process.geteuid?.()

const shownMode = (mode: number): string => (mode & 0o7777).toString(8).padStart(4, "0")

const everywhere: Workspace.Workspace = { root: NodePath.parse(NodePath.resolve("/")).root, given: "/" }
