import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { defineConfig } from "vitest/config"

const root = fileURLToPath(new URL("..", import.meta.url))
const source = `${root}src`

export default defineConfig({
  root,
  resolve: {
    // The same map as `paths` in tsconfig.json: tests read the sources under the published names.
    alias: [
      { find: /^effect-tool-executor$/, replacement: `${source}/index.ts` },
      { find: /^effect-tool-executor\/ai-sdk$/, replacement: `${source}/adapters/AiSdk.ts` },
      { find: /^effect-tool-executor\/mcp$/, replacement: `${source}/mcp/index.ts` },
      { find: /^effect-tool-executor\/functions$/, replacement: `${source}/adapters/Functions.ts` },
      { find: /^effect-tool-executor\/sqlite$/, replacement: `${source}/sql/Sqlite.ts` },
      { find: /^effect-tool-executor\/(agent|ports|server|sql|testing|tools)$/, replacement: `${source}/$1/index.ts` }
    ]
  },
  test: {
    include: ["test/**/*.test.ts"],
    // what the command keeps for `undo` does not belong into the home of whoever runs the tests
    env: { XDG_STATE_HOME: join(tmpdir(), "effect-tool-executor-tests") },
    globals: false,
    passWithNoTests: false,
    testTimeout: 20_000,
    hookTimeout: 20_000
  }
})
