/**
 * How long `tool-executor mcp` takes to its first answer, and to its list of tools,
 * with eight servers behind that need two seconds each. Needs a build.
 *
 *     node scripts/bench/first-answer.ts
 */
import { spawn } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import { fileURLToPath } from "node:url"

const slow = `
import { createInterface } from "node:readline"
setTimeout(() => createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line)
  if (id === undefined) return
  const result = method === "initialize"
    ? { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "slow", version: "1" } }
    : { tools: [{ name: "see", inputSchema: { type: "object" } }] }
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, result }) + "\\n")
}), 2000)`

const folder = mkdtempSync(join(tmpdir(), "first-answer-"))
const server = join(folder, "slow.mjs")
const config = join(folder, "gateway.json")
writeFileSync(server, slow)
const servers = Array.from(
  { length: 8 },
  (_, n) => [`s${n}`, { command: process.execPath, args: [server] }] as const
)
writeFileSync(config, JSON.stringify({ mcpServers: Object.fromEntries(servers) }))

const bin = fileURLToPath(new URL("../../dist/cli/bin.js", import.meta.url))

const once = () =>
  new Promise<{ readonly initialize: number; readonly list: number; readonly tools: number }>((resolve) => {
    const begun = performance.now()
    const child = spawn(process.execPath, [bin, "mcp", "--config", config], { stdio: ["pipe", "pipe", "ignore"] })
    const send = (message: object) => child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`)
    const clientInfo = { name: "bench", version: "1" }
    send({ id: 1, method: "initialize", params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo } })
    send({ method: "notifications/initialized" })
    send({ id: 2, method: "tools/list" })
    let initialize = NaN
    createInterface({ input: child.stdout }).on("line", (line) => {
      const message = JSON.parse(line) as {
        readonly id?: number
        readonly result?: { readonly tools?: Array<unknown> }
      }
      if (message.id === 1) initialize = performance.now() - begun
      if (message.id !== 2) return
      const list = performance.now() - begun
      child.stdin.end()
      child.once("close", () => resolve({ initialize, list, tools: message.result?.tools?.length ?? 0 }))
    })
  })

for (let run = 0; run < 3; run++) {
  const { initialize, list, tools } = await once()
  console.log(`initialize ${Math.round(initialize)} ms, tools/list ${Math.round(list)} ms (${tools} tools)`)
}
rmSync(folder, { recursive: true })
