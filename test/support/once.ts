/** Makes what all test files share: once, however many ask for it at the same moment. */
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs"
import { tmpdir, userInfo } from "node:os"
import { join } from "node:path"

/** Folder for what runs share: of one user, since it is closed to others. */
export const sharedFolder = join(tmpdir(), `effect-tool-executor-tests-${userInfo().uid}`)

/**
 * Makes a folder in a shared one, unless it is there: under another name first, then moved into its place, so that
 * nobody ever sees half of it. Of two who made it, the second throws theirs away.
 */
export const once = async (shared: string, name: string, make: (folder: string) => Promise<void>): Promise<string> => {
  const place = join(shared, name)
  if (existsSync(place)) return place
  mkdirSync(shared, { recursive: true })
  const folder = mkdtempSync(join(shared, "making-"))
  try {
    await make(folder)
    renameSync(folder, place)
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    if (!existsSync(place)) throw error
  }
  return place
}
