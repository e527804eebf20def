/**
 * An MCP server as they should not be, by hand: it writes what is no message, it
 * may stay when it is told to go, and it dies when it is asked to. The first
 * argument is the file that its process id is added to, the second how it is odd.
 */
import { appendFileSync } from "node:fs"
import { createInterface } from "node:readline"

const [pids = "", how, ...others] = process.argv.slice(2)

const send = (message: object) =>
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\nthis is no message\n`)

const schema = { type: "object" }

const answer = (method: string, params: { readonly protocolVersion?: string; readonly name?: string }) => {
  switch (method) {
    case "initialize":
      return {
        protocolVersion: params.protocolVersion,
        capabilities: { tools: {} },
        serverInfo: { name: "odd", version: "1" }
      }
    case "tools/list":
      return {
        tools: [{ name: "see", description: "Shows\u001b[2J itself", inputSchema: schema }, {
          name: "die",
          inputSchema: schema
        }]
      }
    case "tools/call":
      if (params.name === "die") process.exit(7)
      return { content: [{ type: "text", text: JSON.stringify({ env: process.env, pid: process.pid, others }) }] }
    default:
      return {}
  }
}

appendFileSync(pids, `${process.pid}\n`)
console.log("Welcome!\n{\"a\":1}\n[]\nnull")
console.error("listening\u001b[2J")
if (how === "failing") {
  console.error("second line")
  process.exit(3)
}
if (how === "stubborn" || how === "silent") {
  process.on("SIGTERM", () => undefined)
  // a test that fails may leave it behind
  setTimeout(() => process.exit(), 60_000)
}
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line)
  if (id !== undefined && how !== "silent") send({ id, result: answer(method, params) })
})
