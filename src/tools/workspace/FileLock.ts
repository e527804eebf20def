/**
 * A lock that one process holds on a file, and that ends with it however it ends.
 *
 * The system holds it, by way of SQLite, which has found out how on each: a process that is killed leaves nothing
 * behind that somebody has to tell from a live one's.
 */
import { closeSync, openSync } from "node:fs"
import { getBuiltinModule } from "node:process"

/** A lock that is held. */
export interface FileLock {
  readonly release: () => void
}

/** Takes the lock without waiting; `undefined` if another holder has it, in this process or another. */
export const take = (path: string): FileLock | undefined => {
  // SQLite would let everybody read it
  makeIfAbsent(path)
  // loaded where it is wanted: some versions of Node warn of it
  const { DatabaseSync } = getBuiltinModule("node:sqlite")
  const database = new DatabaseSync(path, { timeout: 0 })
  try {
    database.exec("BEGIN EXCLUSIVE")
    return { release: () => database.close() }
  } catch (cause) {
    database.close()
    if (isTaken(cause)) return undefined
    throw cause
  }
}

/** Closing any descriptor of a file releases its locks, so an existing file is left alone. */
const makeIfAbsent = (path: string): void => {
  try {
    closeSync(openSync(path, "wx", 0o600))
  } catch (cause) {
    if (!(cause instanceof Error && "code" in cause && cause.code === "EEXIST")) throw cause
  }
}

/** `SQLITE_BUSY`. */
const isTaken = (cause: unknown): boolean => cause instanceof Error && "errcode" in cause && cause.errcode === 5
