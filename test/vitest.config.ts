import { globSync, readFileSync } from "node:fs"
import { availableParallelism } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"
import { promises } from "../scripts/promises.ts"
import { sharedFolder } from "./support/once.ts"
import { Unchecked } from "./support/Unchecked.ts"

const root = fileURLToPath(new URL("..", import.meta.url))
const source = `${root}src`

const programs = "test/support/globalPrograms.ts"

/** What a test file needs beside this process. The first match is its project; all others are unit tests. */
const needs = {
  browser: /support\/Browser\.ts"/,
  postgres: /support\/(?:Postgres|twoRunners)\.ts"/
}

const files = globSync("test/**/*.test.ts", { cwd: root }).map((file) => {
  const text = readFileSync(join(root, file), "utf8")
  const project = Object.entries(needs).find(([, need]) => need.test(text))?.[0] ?? "unit"
  return { file, project, isRandom: /support\/seeds\.ts"/.test(text), isSlow: file.endsWith(".slow.test.ts") }
})

export default defineConfig(({ mode }) => {
  const share = mode === "all" || mode === "rest" ? mode : "tenth"
  const chosen = files.filter((it) => share === "all" || (share === "rest" ? it.isSlow || it.isRandom : !it.isSlow))
  const project = (name: string, options: object = {}) => ({
    extends: true as const,
    test: { name, include: chosen.filter((it) => it.project === name).map((it) => it.file), ...options }
  })
  const seed = process.env["SEED"] ?? String(Math.floor(Math.random() * 2 ** 31))
  if (share !== "rest") console.log(`Random tests use the fresh seed ${seed}; SEED=${seed} replays it.`)
  return {
    root,
    resolve: {
      // The same map as `paths` in tsconfig.json: tests read the sources under the published names.
      alias: [
        { find: /^effect-tool-executor$/, replacement: `${source}/index.ts` },
        { find: /^effect-tool-executor\/ai-sdk$/, replacement: `${source}/adapters/AiSdk.ts` },
        { find: /^effect-tool-executor\/langchain$/, replacement: `${source}/adapters/LangChain.ts` },
        { find: /^effect-tool-executor\/openai-agents$/, replacement: `${source}/adapters/OpenAiAgents.ts` },
        { find: /^effect-tool-executor\/mcp$/, replacement: `${source}/mcp/index.ts` },
        { find: /^effect-tool-executor\/functions$/, replacement: `${source}/adapters/Functions.ts` },
        {
          find: /^effect-tool-executor\/terminal$/,
          replacement: `${source}/terminal/TerminalApprover.ts`
        },
        { find: /^effect-tool-executor\/sqlite$/, replacement: `${source}/sql/Sqlite.ts` },
        {
          find: /^effect-tool-executor\/(agent|cluster|ports|server|sql|testing|tools)$/,
          replacement: `${source}/$1/index.ts`
        }
      ]
    },
    test: {
      env: {
        // what the command keeps for `undo` does not belong into the home of whoever runs the tests
        XDG_STATE_HOME: sharedFolder,
        // programs that tests start are compiled once
        NODE_COMPILE_CACHE: join(sharedFolder, "compiled"),
        SEED: seed,
        SEEDS: share
      },
      globals: false,
      reporters: ["default", new Unchecked()],
      // a tag that is no promise of the contract is an error
      tags: promises.map((name) => ({ name })),
      // files share a worker and what it has loaded: they leave nothing behind
      isolate: false,
      passWithNoTests: false,
      // one per core, also where there are two: much of the time a worker waits
      maxWorkers: Math.max(2, availableParallelism() - 1),
      // a net for what hangs: no test is judged by how fast this machine is
      testTimeout: 180_000,
      hookTimeout: 180_000,
      setupFiles: ["test/support/setup.ts"],
      projects: [
        project("unit", { globalSetup: [programs] }),
        project("postgres", { globalSetup: [programs, "test/support/globalPostgres.ts"] }),
        project("browser", { globalSetup: ["test/support/globalBrowser.ts"] })
      ]
    }
  }
})
