/**
 * Checks `tool-executor init` as a user meets it: packs the package, runs `init` of the archive with `npm exec` in an
 * empty folder, then installs, type-checks, tests and starts the project, for every kind.
 *
 *     npm run try -- init:check [--kind guard,agent,backend,existing] [--every-provider]
 *
 * Needs a build (`npm run build`) and a package registry. Prints the wall clock of each project; two minutes are the
 * limit.
 */
import { spawnSync } from "node:child_process"
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { delimiter, dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { kinds, providers } from "../src/cli/init/InitProject.ts"

const root = fileURLToPath(new URL("../", import.meta.url))
const limitSeconds = 120

const { values } = parseArgs({ options: { kind: { type: "string" }, "every-provider": { type: "boolean" } } })
const chosen = values.kind?.split(",") ?? [...Object.keys(kinds), "existing"]

/** npm and node of a user: no key, and the Node that runs this script. */
const environment = Object.fromEntries(
  Object.entries(process.env).filter(([name]) => !/^(?:npm_|INIT_CWD|.*_API_KEY$)/.test(name))
)
environment["PATH"] = `${dirname(process.execPath)}${delimiter}${process.env["PATH"] ?? ""}`

const run = (cwd: string, command: string, args: ReadonlyArray<string>, env: Readonly<Record<string, string>> = {}) => {
  const { error, status, stderr, stdout } = spawnSync(command, args, {
    cwd,
    encoding: "utf8",
    env: { ...environment, ...env },
    stdio: ["ignore", "pipe", "pipe"],
    timeout: 300_000
  })
  return {
    status,
    stdout: stdout ?? "",
    output: `${stdout ?? ""}${stderr ?? ""}${error === undefined ? "" : String(error)}`
  }
}

const must = (cwd: string, command: string, ...args: ReadonlyArray<string>): string => {
  const { output, status, stdout } = run(cwd, command, args)
  if (status !== 0) throw new Error(`${command} ${args.join(" ")} in ${cwd}: ${status}\n${output}`)
  return stdout
}

const expect = (condition: boolean, problem: string): void => {
  if (!condition) throw new Error(problem)
}

const install = ["install", "--prefer-offline", "--no-audit", "--no-fund"]

/** One project, from the empty folder to its start. */
const check = (work: string, archive: string, kind: string, provider: string): void => {
  const project = join(work, `${kind}-${provider}`)
  mkdirSync(project)
  const began = performance.now()
  const flags = ["--kind", kind, "--provider", provider, "--package-manager", "npm"]
  must(project, "npm", "exec", "--yes", "--package", archive, "--", "tool-executor", "init", ...flags)
  must(project, "npm", ...install)
  const tested = must(project, "npm", "test")
  expect(/^. pass [1-9]/m.test(tested), `${kind}: no test ran\n${tested}`)
  const started = run(project, "npm", ["start"])
  const seconds = (performance.now() - began) / 1_000
  expect(
    started.status !== 0 && /API_KEY is not set, so the model cannot be reached/.test(started.output),
    `${kind}: npm start should explain the missing key\n${started.output}`
  )
  must(project, "npm", "run", "check")
  if (kind === "backend") serves(project)
  console.log(`${kind} with ${provider}: init, npm install, npm test and npm start in ${seconds.toFixed(1)} s`)
  expect(seconds < limitSeconds, `${kind} took more than ${limitSeconds} s`)
}

/** The backend listens, with its page, once it has a key. */
const serves = (project: string): void => {
  const probe = `
    import { spawn } from "node:child_process"
    const server = spawn(process.execPath, ["src/main.ts"], { stdio: ["ignore", "pipe", "inherit"] })
    let text = ""
    server.stdout.on("data", async (chunk) => {
      text += chunk
      if (!/Listening/.test(text) || text === "done") return
      text = "done"
      const health = await fetch("http://127.0.0.1:38517/health")
      const page = await fetch("http://127.0.0.1:38517/")
      console.log(health.status, page.status)
      server.kill("SIGTERM")
    })`
  const key = /keyName = "(\w+)"/.exec(readFileSync(join(project, "src/model.ts"), "utf8"))![1]!
  const { output } = run(project, process.execPath, ["--input-type=module", "-e", probe], {
    PORT: "38517",
    [key]: "none"
  })
  expect(output.includes("200 200"), `the backend does not serve:\n${output}`)
}

/** A project that exists gets a folder, and its package.json only what is missing. */
const checkInside = (work: string, archive: string): void => {
  const project = join(work, "existing")
  mkdirSync(project)
  writeFileSync(join(project, "package.json"), `{ "name": "existing", "scripts": { "test": "echo mine" } }\n`)
  const command = [
    "exec",
    "--yes",
    "--package",
    archive,
    "--",
    "tool-executor",
    "init",
    "--kind",
    "guard",
    "--provider",
    "openai"
  ]
  const refused = run(project, "npm", command)
  expect(
    refused.status !== 0 && /--yes accepts them/.test(refused.output),
    `init changed a project:\n${refused.output}`
  )
  must(project, "npm", ...command, "--yes")
  must(project, "npm", ...install)
  must(project, "npm", "run", "tool-executor:test")
  must(project, "npm", "run", "tool-executor:check")
  console.log("guard in a project that exists")
}

if (!existsSync(join(root, "dist"))) {
  console.error("dist is missing: npm run build")
  process.exit(1)
}
const work = mkdtempSync(join(tmpdir(), "effect-tool-executor-init-"))
try {
  const packed = JSON.parse(
    must(root, "npm", "pack", "--json", "--ignore-scripts", "--pack-destination", work)
  ) as ReadonlyArray<{ readonly filename: string }>
  const archive = join(work, packed[0]!.filename)
  for (const [index, kind] of chosen.entries()) {
    if (kind === "existing") {
      checkInside(work, archive)
      continue
    }
    const all = Object.keys(providers)
    for (const provider of values["every-provider"] === true ? all : [all[index % all.length]!]) {
      check(work, archive, kind, provider)
    }
  }
  console.log("init is sound")
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
} finally {
  rmSync(work, { recursive: true, force: true })
}
