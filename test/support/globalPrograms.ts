/**
 * Bundles the programs that tests start, once for all test files of a run: `support/programs.ts` finds them.
 */
import { createHash } from "node:crypto"
import { globSync, readFileSync, rmSync, statSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"
import { rolldown } from "rolldown"
import { once } from "./once.ts"
import { folderVariable, programs } from "./programs.ts"

const root = fileURLToPath(new URL("../../", import.meta.url))

/** Where bundles are: among the packages, which they find from there. */
const shared = join(root, "node_modules/.programs")

export const setup = async (): Promise<void> => {
  process.env[folderVariable] ??= await once(shared, key(), async (folder) => {
    // what nobody has asked for since yesterday
    for (const old of globSync(`${shared}/*`)) {
      if (Date.now() - statSync(old).mtimeMs > 86_400_000) rmSync(old, { recursive: true, force: true })
    }
    await build(folder)
  })
}

/** Tells what the programs are built from. */
const key = (): string => {
  const hash = createHash("sha256")
  const sources = globSync(["src/**/*.ts", "test/support/**/*.ts", "scripts/**/*.ts"], { cwd: root }).sort()
  for (const file of ["package-lock.json", ...sources]) hash.update(`${file}\0`).update(readFileSync(join(root, file)))
  return hash.digest("hex").slice(0, 16)
}

/** What is neither a file nor Effect. */
const isPackage = (id: string): boolean => /^(?![./])(?!effect(?:-tool-executor)?(?:\/|$)|@effect\/)/.test(id)

/** Bundles the programs with what they share. Effect is in it; other packages stay outside. */
const build = async (folder: string): Promise<void> => {
  const bundle = await rolldown({
    cwd: root,
    input: Object.fromEntries(programs.map((it) => [it.replace(/\.ts$/, ""), join(root, it)])),
    platform: "node",
    tsconfig: join(root, "tsconfig.json"),
    external: (id) => !id.startsWith(root) && isPackage(id),
    treeshake: { moduleSideEffects: (id) => !id.includes("/node_modules/") },
    logLevel: "silent",
    plugins: [{
      // a source finds its neighbors, such as templates, from where it is
      name: "own-place",
      transform: (code, id) =>
        id.startsWith(join(root, "src"))
          ? code.replaceAll("import.meta.url", JSON.stringify(pathToFileURL(id).href))
          : undefined
    }]
  })
  await bundle.write({ dir: folder, format: "esm" })
  await bundle.close()
}
