/**
 * Runs the official conformance suite of MCP against the gateway and against the
 * client behind it, and prints what became of each scenario.
 *
 * The suite is no dependency; how it is started is the argument:
 * `npm run try -- conformance npx -y @modelcontextprotocol/conformance`. Ends with 1
 * where a scenario fails that is not known to fail, and with 2 where nothing can run.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { once } from "node:events"
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const file = (path: string) => fileURLToPath(new URL(path, import.meta.url))

/** The newest revisions that the gateway serves: with sessions, and without, which suites before 0.2 do not know. */
const revisions = ["2025-11-25", "2026-07-28"]

const toolsOnly = "prompts, resources and completion of servers are not handed on"
const nobodyAsked = "what a server asks the client for is not handed on"
const noSuchTool = "some checks want tools that ask the client, or change the list"
const ofSuite = "suites before 0.2 name another revision than the one agreed on"

/** Scenarios that fail, and why that is so. */
const known: ReadonlyMap<string, string> = new Map([
  ["completion-complete", toolsOnly],
  ["prompts-get-embedded-resource", toolsOnly],
  ["prompts-get-simple", toolsOnly],
  ["prompts-get-with-args", toolsOnly],
  ["prompts-get-with-image", toolsOnly],
  ["resources-read-binary", toolsOnly],
  ["resources-read-text", toolsOnly],
  ["resources-subscribe", toolsOnly],
  ["resources-templates-read", toolsOnly],
  ["resources-unsubscribe", toolsOnly],
  ["elicitation-sep1034-client-defaults", nobodyAsked],
  ["elicitation-sep1034-defaults", nobodyAsked],
  ["elicitation-sep1330-enums", nobodyAsked],
  ["sep-2322-client-request-state", nobodyAsked],
  ["caching", toolsOnly],
  ["prompts-list", toolsOnly],
  ["input-required-result-basic-elicitation", nobodyAsked],
  ["input-required-result-basic-list-roots", nobodyAsked],
  ["input-required-result-basic-sampling", nobodyAsked],
  ["input-required-result-capability-check", nobodyAsked],
  ["input-required-result-ignore-extra-params", nobodyAsked],
  ["input-required-result-missing-input-response", nobodyAsked],
  ["input-required-result-multi-round", nobodyAsked],
  ["input-required-result-multiple-input-requests", nobodyAsked],
  ["input-required-result-non-tool-request", toolsOnly],
  ["input-required-result-request-state", nobodyAsked],
  ["input-required-result-result-type", nobodyAsked],
  ["input-required-result-tampered-state", nobodyAsked],
  ["http-custom-header-server-validation", noSuchTool],
  ["server-stateless", noSuchTool],
  ["tools-call-elicitation", nobodyAsked],
  ["tools-call-sampling", nobodyAsked],
  ["tools-call-with-logging", "what a server logs is not handed on"],
  ["http-custom-headers", "arguments against the schema of a tool, here null, do not leave the gateway"],
  ["server-sse-multiple-streams", ofSuite],
  ["server-sse-polling", ofSuite]
])

interface Check {
  readonly id: string
  readonly status: "FAILURE" | "INFO" | "SKIPPED" | "SUCCESS" | "WARNING"
  readonly errorMessage?: string
}

const freePort = async (): Promise<number> => {
  const server = createServer().listen(0, "127.0.0.1")
  await once(server, "listening")
  const address = server.address()
  server.close()
  await once(server, "close")
  return typeof address === "object" && address !== null ? address.port : 0
}

/** Runs a program to its end, and gives what it wrote to standard output. */
const run = async (command: string, args: ReadonlyArray<string>): Promise<string> => {
  const program = spawn(command, args, { stdio: ["ignore", "pipe", "ignore"] })
  let output = ""
  program.stdout.setEncoding("utf8").on("data", (text: string) => output += text)
  await once(program, "close")
  return output
}

/** Starts the gateway, with the server of the suite behind it; resolves once it serves. */
const startGateway = async (work: string, port: number): Promise<ChildProcess> => {
  const config = join(work, "gateway.json")
  const behind = { command: process.execPath, args: [file("server.ts")], prefix: "", trust: true }
  writeFileSync(config, JSON.stringify({ mcpServers: { suite: behind }, policy: { default: "allow" } }))
  const bin = ["--import", file("../source-resolver.ts"), file("../../src/cli/bin.ts")]
  const gateway = spawn(process.execPath, [...bin, "mcp", "--config", config, "--http", String(port)], {
    stdio: ["ignore", "inherit", "pipe"]
  })
  await new Promise<void>((resolve, reject) => {
    let said = ""
    gateway.stderr.setEncoding("utf8").on("data", (text: string) => {
      said += text
      if (said.includes("Serving http")) resolve()
    })
    gateway.once("close", () => reject(new Error(`The gateway has ended.\n${said}`)))
  })
  return gateway
}

/** Reads what the suite wrote: a folder for each scenario, `NAME-TIME`. */
const readResults = (folder: string, prefix: string): ReadonlyArray<readonly [string, ReadonlyArray<Check>]> =>
  existsSync(folder)
    ? readdirSync(folder).sort().map((name) => [
      name.slice(prefix.length).replace(/-\d{4}-\d\d-\d\dT.*$/, ""),
      JSON.parse(readFileSync(join(folder, name, "checks.json"), "utf8")) as ReadonlyArray<Check>
    ])
    : []

/** Prints a scenario a line; gives how many failed that are not known to. */
const print = (title: string, results: ReadonlyArray<readonly [string, ReadonlyArray<Check>]>): number => {
  const verdicts = results.map(([name, checks]) => {
    const count = (status: Check["status"]) => checks.filter((it) => it.status === status).length
    const failures = checks.filter((it) => it.status === "FAILURE" || it.status === "WARNING")
    const score = `${count("SUCCESS")} of ${count("SUCCESS") + failures.length}`
    const why = known.get(name)
    const verdict = failures.length === 0 ? "pass" : why === undefined ? "FAIL" : "known"
    const details = verdict === "known"
      ? [why]
      : failures.map(({ errorMessage, id }) => errorMessage === undefined ? id : `${id}: ${errorMessage}`)
    return { verdict, line: `${verdict.padEnd(6)}${score.padEnd(9)}${[name, ...details].join("\n                 ")}` }
  })
  const count = (verdict: string) => verdicts.filter((it) => it.verdict === verdict).length
  process.stdout.write(
    `${title}: ${count("pass")} pass, ${count("known")} are known to fail, ${count("FAIL")} fail\n` +
      `${verdicts.map(({ line }) => `  ${line}\n`).join("")}\n`
  )
  // that nothing ran is no success
  return results.length === 0 ? 1 : count("FAIL")
}

const main = async (command: string, args: ReadonlyArray<string>): Promise<number> => {
  const suite = (...more: ReadonlyArray<string>) => run(command, [...args, ...more])
  const work = mkdtempSync(join(tmpdir(), "conformance-"))
  const port = await freePort()
  const gateway = await startGateway(work, port)
  try {
    const servers = (revision: string) => join(work, `server-${revision}`)
    const url = `http://127.0.0.1:${port}/mcp`
    for (const revision of revisions) {
      const all = ["--suite", "all", "--spec-version", revision]
      await suite("server", "--url", url, ...all, "--output-dir", servers(revision))
    }
    const clients = join(work, "client")
    const client = [process.execPath, "--import", file("../source-resolver.ts"), file("client.ts")]
    const listed = (await suite("list")).split("Client scenarios")[1] ?? ""
    for (const [, name, versions] of listed.split("\n\n")[0]!.matchAll(/^ +- (\S+) \[(.*)\]/gm)) {
      // servers are reached with headers of the config: there is no OAuth
      if (name!.startsWith("auth/") || versions === "extension") continue
      await suite("client", "--command", client.join(" "), "--scenario", name!, "--output-dir", clients)
    }
    const failed = revisions.map((revision, index) => {
      const results = readResults(servers(revision), "server-")
      return index > 0 && results.length === 0 ? 0 : print(`The gateway, ${revision}`, results)
    })
    return failed.reduce((sum, it) => sum + it, print("Its client", readResults(clients, "")))
  } finally {
    gateway.removeAllListeners("close")
    gateway.kill()
    await once(gateway, "close")
    rmSync(work, { recursive: true, force: true })
  }
}

const [command, ...args] = process.argv.slice(2)
try {
  if (command === undefined) {
    throw new Error("Usage: npm run try -- conformance npx -y @modelcontextprotocol/conformance")
  }
  process.exitCode = await main(command, args) === 0 ? 0 : 1
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
  process.exitCode = 2
}
