/** Makes what all test files share: once, however many ask for it at the same moment. */
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync } from "node:fs"
import { join } from "node:path"

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
