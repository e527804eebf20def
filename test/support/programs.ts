/**
 * The programs that tests start as processes of their own. `support/globalPrograms.ts` bundles them once for a run:
 * a start from the sources loads hundreds of modules, and takes three times the processor time.
 */
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("../../", import.meta.url))

export const programs = [
  "src/cli/bin.ts",
  "test/support/journalWriter.ts",
  "test/support/keeper.ts",
  "test/support/permitWorker.ts",
  "test/support/resumeWorker.ts",
  "test/support/scriptedMcpServer.ts",
  "test/support/sessionWorker.ts",
  "test/support/stateWorker.ts",
  "test/support/talks/stoppedWorker.ts",
  "test/support/terminalWorker.ts",
  "test/support/transcriptWriter.ts",
  "test/support/treeWorker.ts",
  "test/support/workflowWorker.ts"
] as const

/** Names the folder of the bundled programs of this run. */
export const folderVariable = "TEST_PROGRAMS"

/** What Node is started with for a program: its bundle, or its source where nothing is bundled. */
export const program = (name: typeof programs[number]): ReadonlyArray<string> => {
  const folder = process.env[folderVariable]
  return folder === undefined
    ? ["--import", join(root, "scripts/source-resolver.ts"), join(root, name)]
    : [join(folder, name.replace(/\.ts$/, ".js"))]
}
