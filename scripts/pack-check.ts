/**
 * Checks the package as a user gets it: packs it, installs the archive into an
 * empty project, compiles and runs programs against it.
 *
 * Needs a build (`npm run build`). Nothing of the repository is reachable from
 * the project, so a file or dependency that was forgotten shows here.
 */
import { spawnSync } from "node:child_process"
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join, posix } from "node:path"
import { fileURLToPath } from "node:url"

interface Manifest {
  readonly name: string
  readonly version: string
  readonly bin: Readonly<Record<string, string>>
  readonly exports: Readonly<Record<string, unknown>>
}

const root = fileURLToPath(new URL("../", import.meta.url))
const readJson = <A>(path: string): A => JSON.parse(readFileSync(path, "utf8")) as A
const manifest = readJson<Manifest>(join(root, "package.json"))
const name = manifest.name
const problems: Array<string> = []

/** Folders that have no entry in `exports`, and an inner file of one that has. */
const closedModules: ReadonlyArray<string> = [
  "internal/version",
  "core/engine/call/Driver",
  "cli/bin",
  "server/api/Api"
]

const expect = (condition: boolean, problem: string): void => {
  if (!condition) problems.push(problem)
}

/** Runs a program to its end; `undefined` standard input, so that nothing waits for an answer. */
const run = (cwd: string, command: string, args: ReadonlyArray<string>) => {
  const result = spawnSync(command, args, {
    cwd,
    encoding: "utf8",
    stdio: ["ignore", "pipe", "pipe"],
    timeout: 300_000
  })
  return {
    ok: result.status === 0,
    code: result.status,
    stdout: result.stdout ?? "",
    output: `${result.stdout ?? ""}${result.stderr ?? ""}${result.error === undefined ? "" : String(result.error)}`
      .trim()
  }
}

/** Runs a program that has to succeed before anything else makes sense. */
const must = (cwd: string, command: string, args: ReadonlyArray<string>): string => {
  const result = run(cwd, command, args)
  if (!result.ok) throw new Error(`${command} ${args.join(" ")}\n${result.output}`)
  return result.stdout
}

/** What the archive holds, and what it must not. */
const checkFiles = (files: ReadonlyArray<string>): void => {
  for (
    const file of [
      "package.json",
      "README.md",
      "AGENTS.md",
      "docs/adapters.md",
      "docs/rules.md",
      "LICENSE",
      "dist/index.js",
      "dist/index.d.ts",
      "dist/adapters/AiSdk.js",
      "dist/adapters/AiSdk.d.ts",
      "dist/adapters/Functions.js",
      "dist/adapters/Functions.d.ts",
      "dist/page/index.html",
      "dist/page/licences.txt",
      "src/index.ts"
    ]
  ) {
    expect(files.includes(file), `the archive lacks ${file}`)
  }
  for (const path of Object.values(manifest.bin)) {
    expect(files.includes(path.replace(/^\.\//, "")), `the archive lacks ${path}`)
  }
  const allowed =
    /^(?:package\.json|README\.md|AGENTS\.md|CHANGELOG\.md|LICENSE|docs\/.*\.md|docs\/images\/.*\.png|scripts\/examples\/backend\.ts|scripts\/examples\/cluster\/(?:Dockerfile|[\w.]+\.(?:conf|json|yaml))|templates\/(?:.*\.ts|shared\/tsconfig\.json|shared\/gitignore|shared\/AGENTS\.md)|dist\/page\/(?:index\.html|licences\.txt|assets\/[\w-]+\.(?:js|css))|dist\/.*\.(?:js|d\.ts)(?:\.map)?|src\/.*\.(?:ts|html|css|json))$/
  for (const file of files) {
    expect(
      allowed.test(file) && (file.startsWith("templates/") || !file.endsWith(".test.ts")),
      `the archive should not hold ${file}`
    )
  }
  const page = readFileSync(join(root, "dist/page/index.html"), "utf8")
  const named = Array.from(page.matchAll(/assets\/[^"]+/g), ([file]) => `dist/page/${file}`)
  expect(
    named.length === 2 && named.every((it) => files.includes(it)),
    `the page names ${named.join(", ")}: build again`
  )
  for (const file of files.filter((it) => /^src\/(?!page\/).*\.ts$/.test(it))) {
    const built = file.replace(/^src\//, "dist/").replace(/\.ts$/, ".js")
    expect(files.includes(built), `${file} has no ${built}: build again`)
  }
}

/** Links of the documents that lead to nothing in the archive. */
const checkLinks = (files: ReadonlyArray<string>): void => {
  const folders = new Set(
    files.flatMap((file) => file.split("/").slice(0, -1).map((_, n, all) => all.slice(0, n + 1).join("/")))
  )
  for (const file of files.filter((it) => it.endsWith(".md"))) {
    const prose = readFileSync(join(root, file), "utf8").replaceAll(/^(`{3,})[^]*?^\1/gm, "")
    for (const [, inline, defined] of prose.matchAll(/\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)/gm)) {
      const link = inline ?? defined ?? ""
      if (/^(?:https?:|mailto:|#)/.test(link)) continue
      const target = posix.join(posix.dirname(file), link.replace(/#.*$/, "")).replace(/\/$/, "")
      expect(files.includes(target) || folders.has(target), `${file} links to ${link}, which is not in the archive`)
    }
  }
}

/** Every module a user may import, as specifiers. */
const publicModules: ReadonlyArray<string> = Object.keys(manifest.exports)
  .filter((path) => path !== "./package.json")
  .map((path) => `${name}${path.slice(1)}`)

/** Needs the optional peer `ai`. */
const needsAiSdk = (specifier: string): boolean => specifier === `${name}/ai-sdk`

/** What needs the optional peer `@modelcontextprotocol/client`. */
const needsMcpClient = (specifier: string): boolean => specifier.startsWith(`${name}/mcp`)

const consumer = (specifiers: ReadonlyArray<string>): string =>
  [
    `import { ToolCall, ToolRefusal } from "${name}"`,
    ...specifiers.map((specifier, index) => `import * as M${index} from "${specifier}"`),
    ``,
    `if (Object.keys(ToolCall).length === 0) throw new Error("ToolCall is empty")`,
    `if (Object.keys(ToolRefusal).length === 0) throw new Error("ToolRefusal is empty")`,
    `const modules: ReadonlyArray<object> = [${specifiers.map((_, index) => `M${index}`).join(", ")}]`,
    `console.log(\`\${modules.length} modules imported\`)`,
    ``
  ].join("\n")

const tsconfig = (resolution: "nodenext" | "bundler") => ({
  compilerOptions: {
    target: "es2022",
    // The declarations of Effect name types of the web; a project without them has `skipLibCheck`.
    lib: ["es2023", "dom", "dom.iterable", "dom.asynciterable"],
    module: resolution === "nodenext" ? "nodenext" : "esnext",
    moduleResolution: resolution,
    strict: true,
    exactOptionalPropertyTypes: true,
    skipLibCheck: false,
    types: ["node"],
    outDir: `out-${resolution}`
  },
  files: ["consumer.ts"]
})

const check = (work: string): void => {
  const packed = JSON.parse(
    must(root, "npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", work])
  ) as ReadonlyArray<{ readonly filename: string; readonly files: ReadonlyArray<{ readonly path: string }> }>
  const archive = packed[0]
  if (archive === undefined) throw new Error("npm pack made no archive")
  const files = archive.files.map((file) => file.path)
  checkFiles(files)
  checkLinks(files)

  const project = join(work, "project")
  mkdirSync(project)
  writeFileSync(join(project, "package.json"), `{ "name": "consumer", "private": true, "type": "module" }\n`)
  const versionOf = (dependency: string) =>
    `${dependency}@${readJson<Manifest>(join(root, "node_modules", dependency, "package.json")).version}`
  const install = ["install", "--prefer-offline", "--no-audit", "--no-fund", "--save-exact"]
  must(project, "npm", [
    ...install,
    join(work, archive.filename),
    ...["effect", "@effect/platform-node", "@types/node", "typescript"].map(versionOf)
  ])

  const specifiers = publicModules.filter((it) => !needsAiSdk(it) && !needsMcpClient(it))
  writeFileSync(join(project, "consumer.ts"), consumer(specifiers))
  for (const resolution of ["nodenext", "bundler"] as const) {
    writeFileSync(join(project, `tsconfig.${resolution}.json`), JSON.stringify(tsconfig(resolution)))
    const tsc = join(project, "node_modules/typescript/bin/tsc")
    const compiled = run(project, process.execPath, [tsc, "-p", `tsconfig.${resolution}.json`, "--pretty", "false"])
    expect(compiled.ok, `the consumer does not compile with ${resolution}:\n${compiled.output}`)
    const ran = run(project, process.execPath, [`out-${resolution}/consumer.js`])
    expect(ran.ok, `the consumer compiled with ${resolution} does not run:\n${ran.output}`)
    if (compiled.ok && ran.ok) console.log(`${resolution}: ${ran.stdout.trim()}`)
  }

  for (const specifier of closedModules.map((it) => `${name}/${it}`)) {
    const opened = run(project, process.execPath, ["--input-type=module", "-e", `await import("${specifier}")`])
    expect(
      !opened.ok && opened.output.includes("ERR_PACKAGE_PATH_NOT_EXPORTED"),
      `${specifier} should not be importable:\n${opened.output}`
    )
  }

  for (const command of Object.keys(manifest.bin)) {
    const installed = join(project, "node_modules/.bin", command)
    for (const flag of ["--help", "--version"]) {
      const called = run(project, installed, [flag])
      expect(called.ok && called.stdout.trim() !== "", `${command} ${flag} failed:\n${called.output}`)
      if (flag === "--version") {
        expect(called.stdout.includes(manifest.version), `${command} --version does not say ${manifest.version}`)
      }
    }
  }

  // servers alone need the MCP client
  const config = join(project, "gateway.json")
  const list = () =>
    run(project, join(project, "node_modules/.bin/tool-executor"), ["mcp", "--config", config, "--list"])
  writeFileSync(config, JSON.stringify({ mcpServers: { none: { command: "none", optional: true } } }))
  const withoutClient = list()
  expect(
    withoutClient.code === 2 && withoutClient.stdout === "" &&
      withoutClient.output.includes("npm install @modelcontextprotocol/client"),
    `tool-executor mcp should say what it lacks:\n${withoutClient.output}`
  )
  const schema = run(project, join(project, "node_modules/.bin/tool-executor"), ["schema", "gateway"])
  expect(schema.ok, `tool-executor schema gateway needs more than it should:\n${schema.output}`)
  must(project, "npm", [...install, versionOf("@modelcontextprotocol/client")])
  const withClient = list()
  expect(
    withClient.ok && withClient.stdout.includes("read_artifact"),
    `tool-executor mcp does not list its tools:\n${withClient.output}`
  )

  // the declarations of peers are not ours to check
  const { compilerOptions, ...rest } = tsconfig("nodenext")
  writeFileSync(
    join(project, "tsconfig.peers.json"),
    JSON.stringify({ ...rest, compilerOptions: { ...compilerOptions, skipLibCheck: true } })
  )
  const compileFor = (peer: string, modules: ReadonlyArray<string>) => {
    writeFileSync(join(project, "consumer.ts"), consumer(modules))
    const tsc = join(project, "node_modules/typescript/bin/tsc")
    const compiled = run(project, process.execPath, [tsc, "-p", "tsconfig.peers.json", "--pretty", "false"])
    expect(compiled.ok, `the consumer does not compile with ${peer}:\n${compiled.output}`)
  }
  compileFor("@modelcontextprotocol/client", publicModules.filter(needsMcpClient))

  const load = (specifier: string) =>
    run(project, process.execPath, ["--input-type=module", "-e", `await import("${specifier}")`])

  // Peers are optional: only what is there for one needs it.
  rmSync(join(project, "node_modules/@effect"), { recursive: true, force: true })
  for (const specifier of [name, `${name}/functions`]) {
    const alone = load(specifier)
    expect(alone.ok, `${specifier} does not load without peers:\n${alone.output}`)
  }
  const missing = load(`${name}/ai-sdk`)
  expect(
    !missing.ok && /Cannot find package 'ai'/.test(missing.output),
    `${name}/ai-sdk should say that it lacks ai:\n${missing.output}`
  )
  must(project, "npm", [...install, versionOf("ai"), versionOf("zod")])
  const found = load(`${name}/ai-sdk`)
  expect(found.ok, `${name}/ai-sdk does not load with ai:\n${found.output}`)
  compileFor("ai", publicModules.filter(needsAiSdk))
}

if (!existsSync(join(root, "dist"))) {
  console.error("dist is missing: npm run build")
  process.exit(1)
}

const work = mkdtempSync(join(tmpdir(), `${name}-pack-`))
try {
  check(work)
} catch (error) {
  problems.push(error instanceof Error ? error.message : String(error))
} finally {
  rmSync(work, { recursive: true, force: true })
}
for (const problem of problems) console.error(problem)
console.log(problems.length === 0 ? "the package is sound" : `${problems.length} problems with the package`)
process.exitCode = problems.length === 0 ? 0 : 1
