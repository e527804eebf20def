/**
 * Compiles and runs the examples of the README, the documents and the doc
 * comments.
 *
 * A fenced block of `ts` is compiled together with all the others, then run in
 * a process of its own. `ts no-run` is only compiled. A line that ends in
 * `// => VALUE` fails the example unless the expression it ends has that value;
 * the expression may begin on an earlier line, and may be the value of a
 * `const`. On a line of its own it is about the line before.
 *
 * Examples are named by file and line: `node scripts/doctest.ts README.md`
 * takes only the files whose path contains one of the words.
 */
import { spawn, spawnSync } from "node:child_process"
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { stripTypeScriptTypes } from "node:module"
import { availableParallelism } from "node:os"
import { join, relative } from "node:path"
import { fileURLToPath, pathToFileURL } from "node:url"
import { Script } from "node:vm"

interface Example {
  /** Path from the root of the repository. */
  readonly file: string
  /** Line of the first line of code, from 1. */
  readonly line: number
  readonly code: string
  readonly runs: boolean
}

const root = fileURLToPath(new URL("../", import.meta.url))
// Inside node_modules, so that packages resolve and no gate looks at it.
const work = join(root, "node_modules/.cache/doctest")
const timeoutMillis = 60_000

const problems: Array<string> = []

// Reading

/** Files that may hold examples. */
const documents = (): ReadonlyArray<string> => {
  const below = (folder: string, extension: string) =>
    existsSync(join(root, folder))
      ? readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
        .filter((file) => file.endsWith(extension))
        .map((file) => `${folder}/${file.replaceAll("\\", "/")}`)
        .sort()
      : []
  return [
    ...["README.md", "AGENTS.md", "CHANGELOG.md"].filter((file) => existsSync(join(root, file))),
    ...below("docs", ".md"),
    ...below("src", ".ts")
  ]
}

/** Finds the fenced blocks of `ts` in a file. */
const examplesOf = (file: string): ReadonlyArray<Example> => {
  const source = file.endsWith(".ts")
  const examples: Array<Example> = []
  let fence:
    | { readonly mark: string; readonly indent: number; readonly words: ReadonlyArray<string>; line: number }
    | undefined
  let code: Array<string> = []
  readFileSync(join(root, file), "utf8").split("\n").forEach((raw, index) => {
    // In a source only doc comments count, without their stars.
    const comment = source ? /^\s*\* ?(.*)$/.exec(raw) : undefined
    const line = source ? comment?.[1]?.replaceAll("*\\/", "*/") : raw
    if (line === undefined || (source && /^\s*\*\//.test(raw))) {
      if (fence !== undefined) problems.push(`${file}:${fence.line}: the block is not closed`)
      fence = undefined
      return
    }
    const match = /^(\s*)(`{3,}|~{3,})\s*(.*)$/.exec(line)
    if (fence === undefined) {
      if (match === null) return
      fence = {
        indent: match[1]?.length ?? 0,
        mark: match[2] ?? "",
        words: (match[3] ?? "").split(/\s+/),
        line: index + 1
      }
      code = []
      return
    }
    if (match === null || match[3] !== "" || !(match[2] ?? "").startsWith(fence.mark)) {
      code.push(line.slice(Math.min(fence.indent, line.length - line.trimStart().length)))
      return
    }
    const [language, ...flags] = fence.words
    if (language === "ts" || language === "typescript") {
      examples.push({ file, line: fence.line + 1, code: code.join("\n"), runs: !flags.includes("no-run") })
    }
    fence = undefined
  })
  if (fence !== undefined) problems.push(`${file}: a block is not closed`)
  return examples
}

// Compiling

const nameOf = (example: Example): string => `${example.file.replaceAll(/[^\w.-]/g, "_")}.L${example.line}`

/** Puts the code on the lines it has in its document, so that messages need no translation. */
const inPlace = (example: Example, code: string): string => "\n".repeat(example.line - 1) + code

/** Type-checks all examples in one go. */
const compile = (examples: ReadonlyArray<Example>): void => {
  const byName = new Map(examples.map((example) => [`${nameOf(example)}.ts`, example]))
  for (const [name, example] of byName) writeFileSync(join(work, name), `${inPlace(example, example.code)}\n`)
  writeFileSync(
    join(work, "tsconfig.json"),
    JSON.stringify({
      extends: relative(work, join(root, "tsconfig.json")).replaceAll("\\", "/"),
      compilerOptions: { noEmit: true, noUnusedLocals: false, noUnusedParameters: false },
      include: [],
      files: [...byName.keys()].map((name) => `./${name}`)
    })
  )
  const tsc = join(root, "node_modules/typescript/bin/tsc")
  const result = spawnSync(process.execPath, [tsc, "-p", work, "--pretty", "false"], { cwd: work, encoding: "utf8" })
  if (result.status === 0) return
  const before = problems.length
  for (const line of `${result.stdout}${result.stderr}`.split("\n")) {
    const match = /^(.*?)\((\d+),(\d+)\): (.*)$/.exec(line)
    if (match === null) {
      if (line.trim() !== "") problems.push(line)
      continue
    }
    const example = byName.get(match[1] ?? "")
    const file = example?.file ?? relative(root, join(work, match[1] ?? "")).replaceAll("\\", "/")
    problems.push(`${file}:${match[2]}: ${match[4]}`)
  }
  if (problems.length === before) problems.push(`tsc ended with ${result.status ?? result.signal}`)
}

// Running

const parses = (code: string): boolean => {
  try {
    return new Script(code) instanceof Script
  } catch {
    return false
  }
}

// An asynchronous generator accepts both `await` and `yield*`.
const isExpression = (code: string): boolean => parses(`(async function*() { return (${code}\n) })`)

/** A line that cannot begin a statement, or one whose predecessor is not finished. */
const continues = (line: string, previous: string | undefined): boolean =>
  /^\s*(?:[.?:)\]},]|&&|\|\||[*/%+-]\s)/.test(line) ||
  (previous !== undefined && /(?:[([,=?:.+*/%&|-]|=>)\s*$/.test(previous.replace(/\s*\/\/.*$/, "")))

/** Turns every `// => VALUE` into a call of the check, line by line. */
const withChecks = (example: Example, code: string): { readonly code: string; readonly checks: Array<string> } => {
  const lines = code.split("\n")
  const checks: Array<string> = []
  // on a line of its own it is about the one before
  lines.forEach((line, index) => {
    if (index === 0 || !/^\s*\/\/ => /.test(line)) return
    lines[index - 1] += ` ${line.trim()}`
    lines[index] = ""
  })
  lines.forEach((line, index) => {
    const match = /^(.*?\S)\s*\/\/ => (.*)$/.exec(line)
    if (match === null) return
    const where = `${example.file}:${example.line + index}`
    const written = (match[2] ?? "").trim()
    const call = (value: string) =>
      `;__doctest((${value}), ${JSON.stringify(where)}, ${JSON.stringify(written)}${
        isExpression(written) ? `, () => (${written})` : ""
      })`
    // Goes back to where the statement begins.
    for (let start = index; start >= 0; start--) {
      const block = [...lines.slice(start, index), (match[1] ?? "").replace(/;$/, "")]
      // A leading semicolon is how code without semicolons begins a line with a bracket.
      const text = block.join("\n").replace(/^\s*;/, "")
      if (continues(lines[start] ?? "", lines[start - 1])) continue
      const logged = /^\s*(?:yield\* Console|console)\.log\(([^]*)\)$/.exec(text)
      const value = logged?.[1] !== undefined && isExpression(logged[1]) ? logged[1] : text
      if (isExpression(value)) {
        // As many lines as before, so that stack traces stay true.
        lines.splice(start, block.length, ...call(value).split("\n"))
        break
      }
      const binding = /^\s*(?:export\s+)?(?:const|let)\s+(\w+)\s*=\s*([^]*)$/.exec(text)
      if (binding?.[1] !== undefined && isExpression(binding[2] ?? "")) {
        lines[index] = `${match[1]} ${call(binding[1])}`
        break
      }
      if (start === 0) {
        problems.push(`${where}: cannot tell which expression // => belongs to`)
        return
      }
    }
    checks.push(where)
  })
  return { code: lines.join("\n"), checks }
}

/** Runs one example in a process of its own; gives what it printed if it failed. */
const run = (example: Example): Promise<string | undefined> => {
  const name = nameOf(example)
  let javascript: string
  try {
    javascript = stripTypeScriptTypes(example.code)
  } catch (error) {
    return Promise.resolve(`cannot be run as JavaScript: ${String(error)}`)
  }
  const { code, checks } = withChecks(example, javascript)
  const path = join(work, `${name}.js`)
  writeFileSync(path, `${inPlace(example, code)}\n`)
  const runtime = new URL("./doctest-runtime.ts", import.meta.url).href
  return new Promise((resolve) => {
    const child = spawn(process.execPath, ["--no-warnings", "--import", runtime, path], {
      cwd: work,
      env: {
        ...process.env,
        DOCTEST_CHECKS: checks.join("\n"),
        NODE_COMPILE_CACHE: join(root, "node_modules/.cache/node")
      },
      stdio: ["ignore", "pipe", "pipe"],
      timeout: timeoutMillis,
      killSignal: "SIGKILL"
    })
    let printed = ""
    let errors = ""
    child.stdout.setEncoding("utf8").on("data", (chunk: string) => printed += chunk)
    child.stderr.setEncoding("utf8").on("data", (chunk: string) => errors += chunk)
    child.on("error", (error) => resolve(String(error)))
    child.on("close", (status, signal) => {
      if (status === 0) return resolve(undefined)
      if (signal === "SIGKILL") {
        return resolve(`did not end within ${timeoutMillis / 1000} s; mark it \`ts no-run\` if it is not meant to`)
      }
      const output = (errors.trim() === "" ? printed : errors).trim()
      resolve(output === "" ? `ended with ${status ?? signal}` : output)
    })
  })
}

const runAll = async (examples: ReadonlyArray<Example>): Promise<void> => {
  const queue = examples.values()
  const worker = async () => {
    for (const example of queue) {
      const failure = await run(example)
      if (failure === undefined) continue
      const here = pathToFileURL(join(work, `${nameOf(example)}.js`)).href
      const text = failure.replaceAll(here, example.file)
      // Checks name their own line already.
      problems.push(text.startsWith(`${example.file}:`) ? text : `${example.file}:${example.line}: ${text}`)
    }
  }
  await Promise.all(Array.from({ length: Math.max(2, availableParallelism()) }, worker))
}

// The whole

// Node calls its own type stripping experimental; that is no news to the reader of this output.
process.removeAllListeners("warning")

rmSync(work, { recursive: true, force: true })
mkdirSync(work, { recursive: true })
writeFileSync(join(work, "package.json"), `{ "type": "module" }\n`)

const words = process.argv.slice(2)
const chosen = documents().filter((file) => words.length === 0 || words.some((word) => file.includes(word)))
const examples = chosen.flatMap(examplesOf)

for (const file of chosen.filter((it) => it === "README.md")) {
  const fenced = /^\s*```/m.test(readFileSync(join(root, file), "utf8"))
  // A README whose code nobody checks is how examples rot.
  if (fenced && !examples.some((example) => example.file === file)) {
    problems.push(`${file}: has code, but no \`ts\` block`)
  }
}

const runnable = examples.filter((example) => example.runs)
if (examples.length === 0) {
  problems.push("no examples found")
} else {
  compile(examples)
  // What does not compile is not worth running: the second message would only hide the first.
  if (problems.length === 0) await runAll(runnable)
}

for (const problem of problems) console.error(problem)
console.log(
  problems.length === 0
    ? `${examples.length} examples compiled, ${runnable.length} run`
    : `${problems.length} failures in ${examples.length} examples`
)
process.exitCode = problems.length === 0 ? 0 : 1
