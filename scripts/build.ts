/**
 * Builds dist from src with the TypeScript compiler, and the page beside it.
 */
import { spawnSync } from "node:child_process"
import { chmodSync, existsSync, readFileSync, rmSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { buildPage } from "./build-page.ts"

const root = fileURLToPath(new URL("../", import.meta.url))
const dist = join(root, "dist")

// What is left of an earlier build would be published with the new one.
rmSync(dist, { recursive: true, force: true })

const tsc = join(root, "node_modules/typescript/bin/tsc")
const result = spawnSync(process.execPath, [tsc, "-p", "scripts/tsconfig.build.json"], { cwd: root, stdio: "inherit" })
if (result.status !== 0) process.exit(result.status ?? 1)

const bin = join(dist, "cli/bin.js")
if (existsSync(bin)) {
  if (!readFileSync(bin, "utf8").startsWith("#!/usr/bin/env node\n")) {
    console.error("src/cli/bin.ts has to begin with #!/usr/bin/env node")
    process.exit(1)
  }
  chmodSync(bin, 0o755)
}
await buildPage(join(dist, "page"))
console.log("dist is built")
