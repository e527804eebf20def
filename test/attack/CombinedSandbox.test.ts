/** Confined commands that try to keep files in the workspace that other programs execute by themselves. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NodeFs from "node:fs"
import * as NodeOs from "node:os"
import * as SandboxBwrap from "../../src/tools/sandbox/SandboxBwrap.ts"
import { isInstalled } from "../support/installed.ts"
import { call } from "../tools/fixture.ts"

const user = { home: process.env.HOME, path: process.env.PATH }

const isThere = isInstalled("bwrap")

const deviceOf = (path: string) => NodeFs.statSync(path, { throwIfNoEntry: false })?.dev

/** Folders on the device of temporary files, and on another one. */
const places = [NodeOs.tmpdir(), "/dev/shm"].filter((it, index) =>
  index === 0 || ![undefined, deviceOf(NodeOs.tmpdir())].includes(deviceOf(it))
)

const rootIn = (place: string) =>
  Effect.acquireRelease(
    Effect.sync(() => NodeFs.realpathSync(NodeFs.mkdtempSync(`${place}/kept-`))),
    (root) => Effect.sync(() => NodeFs.rmSync(root, { recursive: true, force: true }))
  )

describe.skipIf(!isThere)("what other programs execute is moved away", () => {
  for (const place of places) {
    for (
      const [how, command, path] of [
        ["beside a pipe", "mkdir .husky && mkfifo .husky/p && echo x > .husky/pre-commit", ".husky"],
        [
          "in a folder closed to writers",
          "mkdir -p .vscode/a && echo {} > .vscode/tasks.json && chmod 555 .vscode/a .vscode",
          ".vscode"
        ],
        ["below a folder closed to writers", "mkdir d && echo x > d/.npmrc && chmod 555 d", "d/.npmrc"],
        ["below a folder closed to everybody", "mkdir -p d/e && echo x > d/e/.envrc && chmod 000 d", "d/e/.envrc"],
        ["in a workspace closed to everybody", "echo x > .npmrc; chmod 000 .", ".npmrc"]
      ] as const
    ) {
      it.live(`${how} (${place})`, () =>
        Effect.gen(function*() {
          const root = yield* rootIn(place)
          const sandbox = yield* SandboxBwrap.make({ mode: "required" }, user)
          const result = yield* call({ root, sandbox }, "run_command", { command })
          assert.include(result.sandbox, `moved out of the workspace`)
          assert.include(result.sandbox, path)
          assert.isFalse(NodeFs.existsSync(`${root}/${path}`))
          assert.deepStrictEqual(NodeFs.readdirSync(root).filter((it) => it.startsWith("set-aside")), [])
        }).pipe(Effect.scoped))
    }
  }
})
