/** Real processes, killed at points that nobody has chosen, and resumed: see `scripts/crash`. */
import { assert, describe, it } from "@effect/vitest"
import { spawn } from "node:child_process"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("../", import.meta.url))

/** What a run of the harness prints, and how it ends. */
const crash = (...options: ReadonlyArray<string>): Promise<{ readonly code: number | null; readonly text: string }> =>
  new Promise((resolve) => {
    const args = ["--import", "./scripts/source-resolver.ts", "scripts/crash/crash.ts", ...options]
    const child = spawn(process.execPath, args, { cwd: root, stdio: ["ignore", "pipe", "pipe"] })
    const text: Array<string> = []
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (it) => text.push(String(it)))
    child.on("close", (code) => resolve({ code, text: text.join("") }))
  })

describe("processes that are killed in the middle of their waves", () => {
  for (const store of ["sqlite", "postgres"]) {
    it(`lose no call, and do nothing twice that may not be, where their records are in ${store}`, {
      tags: ["K1"],
      timeout: 180_000
    }, async () => {
      const { code, text } = await crash("--kills", "5", "--lanes", "2", "--store", store)
      assert.include(text, `${store}: 5 kills`)
      assert.strictEqual(code, 0, text)
    })
  }
})
