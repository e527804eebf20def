/**
 * What a sandbox costs per command: the same command bare and confined, in turns, in one run.
 *
 *     npm run try -- bench:sandbox
 *     npm run try -- bench:sandbox 200 500   commands of each kind, folders in the workspace
 *
 * Exits with 1 if the median of a confined command is more than 80 ms over that of a bare one.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as RunCommand from "../../src/tools/command/RunCommand.ts"
import * as Sandbox from "../../src/tools/sandbox/Sandbox.ts"
import * as SandboxBwrap from "../../src/tools/sandbox/SandboxBwrap.ts"
import * as Workspace from "../../src/tools/workspace/Workspace.ts"

const [count = 60, folders = 300] = process.argv.slice(2).map(Number)
const most = 80

const root = realpathSync(mkdtempSync(join(tmpdir(), "sandbox-bench-")))
for (let index = 0; index < folders; index++) {
  mkdirSync(join(root, `src/${index % 20}/${index}`), { recursive: true })
  writeFileSync(join(root, `src/${index % 20}/${index}/a.ts`), "")
}
for (const folder of [".git/hooks", ".github", ".vscode", "packages/a", "packages/b"]) {
  mkdirSync(join(root, folder), { recursive: true })
}
for (const file of ["AGENTS.md", "packages/a/.npmrc", "packages/b/AGENTS.md"]) writeFileSync(join(root, file), "")

const median = (values: ReadonlyArray<number>): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? NaN

const program = Effect.gen(function*() {
  const workspace = yield* Workspace.make(root)
  const begun = performance.now()
  const sandbox = yield* SandboxBwrap.make({ mode: "auto" }, { home: process.env["HOME"], path: process.env["PATH"] })
  console.log(`probe: ${(performance.now() - begun).toFixed(0)} ms; ${Sandbox.describe(sandbox.status)}`)
  if (sandbox.status._tag !== "Holds") return 0
  const runWith = (sandbox: Sandbox.Sandbox["Service"]) =>
    RunCommand.make(workspace, {
      environment: { PATH: process.env["PATH"] ?? "" },
      killGrace: Duration.seconds(2),
      drain: Duration.millis(200),
      sandbox
    })
  const [bare, confined] = [runWith(Sandbox.off), runWith(sandbox)]
  const times = { bare: new Array<number>(), confined: new Array<number>() }
  const timed = (into: Array<number>, run: typeof bare) =>
    Effect.map(Effect.timed(run({ command: "true" })), ([spent]) => void into.push(Duration.toMillis(spent)))
  for (let round = 0; round < count; round++) {
    yield* timed(times.bare, bare)
    yield* timed(times.confined, confined)
  }
  const [one, other] = [median(times.bare), median(times.confined)]
  console.log(
    `${count} commands of each kind, ${folders} folders: bare ${one.toFixed(1)} ms, confined ${other.toFixed(1)} ms`
  )
  console.log(`median over the bare command: ${(other - one).toFixed(1)} ms (at most ${most})`)
  return other - one <= most ? 0 : 1
})

process.exitCode = await Effect.runPromise(program)
rmSync(root, { recursive: true, force: true })
