/**
 * An MCP server that does what a script says: a program of its own
 * (`node scriptedMcpServer.ts <script as JSON>`), or part of a test.
 */
import { Server, type Tool } from "@modelcontextprotocol/server"
import { StdioServerTransport } from "@modelcontextprotocol/server/stdio"
import { spawn } from "node:child_process"
import { appendFileSync, existsSync } from "node:fs"
import { fileURLToPath } from "node:url"

export interface Script {
  /** File that what happens is written to, one JSON value a line. */
  readonly notes?: string
  /** Its tools; default `act` alone. */
  readonly tools?: ReadonlyArray<Tool>
  /** That many tools more: `tool_0`, `tool_1`, … */
  readonly count?: number
  readonly pageSize?: number
  /** Whether it ends neither when its input does nor when it is told to, and starts a child that is as deaf. */
  readonly stubborn?: boolean
  /** A file: it speaks to nobody before it is there. */
  readonly opensWith?: string
  /** What `tools/list` fails with, from the second time on. */
  readonly listsOnce?: boolean
  readonly instructions?: string
  /** The texts of its resources. */
  readonly resources?: Readonly<Record<string, string>>
}

/** One thing that happened in a server. */
export type Note = readonly [what: string, detail?: unknown]

/** A tool that does what its arguments say, step by step. */
export const act: Tool = {
  name: "act",
  description: "Does what it is told",
  inputSchema: {
    type: "object",
    properties: { steps: { type: "array", items: { type: "array" } } },
    required: ["steps"],
    additionalProperties: false
  }
}

export type Step =
  | readonly ["text", text: string]
  | readonly ["length", chars: number]
  | readonly ["content", content: ReadonlyArray<unknown>]
  /** A value in the place of a block, which a server of the SDK would not send. */
  | readonly ["malformed", block: unknown]
  | readonly ["structured", value: unknown]
  | readonly ["meta", value: unknown]
  | readonly ["fail", text: string]
  | readonly ["reject", message: string]
  | readonly ["hang"]
  | readonly ["progress", progress: number, total: number, message: string]
  | readonly ["wait", millis: number]
  | readonly ["say", text: string]
  | readonly ["write", text: string, times: number]
  | readonly ["die", code: number]
  | readonly ["env"]
  | readonly ["tools", tools: ReadonlyArray<Tool>]

const plain = (name: string): Tool => ({ name, inputSchema: { type: "object" } })

export const make = (script: Script, note: (...note: Note) => void): Server => {
  const server = new Server({ name: "scripted", version: "1.0.0" }, {
    capabilities: { tools: { listChanged: true }, ...script.resources === undefined ? {} : { resources: {} } },
    ...script.instructions === undefined ? {} : { instructions: script.instructions }
  })
  if (script.resources !== undefined) {
    const { resources } = script
    server.setRequestHandler("resources/read", ({ params: { uri } }) => {
      const text = resources[uri]
      if (text === undefined) throw new Error("no such resource")
      return { contents: [{ uri, text }] }
    })
  }
  let tools = [...script.tools ?? [act], ...Array.from({ length: script.count ?? 0 }, (_, n) => plain(`tool_${n}`))]
  let lists = 0
  server.oninitialized = () => note("initialized", server.getClientVersion())
  server.setRequestHandler("tools/list", ({ params }) => {
    if (lists++ > 0 && script.listsOnce === true) throw new Error("no list today")
    const from = Number(params?.cursor ?? 0)
    const to = from + (script.pageSize ?? Infinity)
    return { tools: tools.slice(from, to), ...to < tools.length ? { nextCursor: String(to) } : {} }
  })
  server.setRequestHandler("tools/call", async ({ params }, context) => {
    note("called", params)
    const result: { content: Array<unknown>; structuredContent?: unknown; isError?: boolean; _meta?: unknown } = {
      content: []
    }
    const { signal } = context.mcpReq
    for (const step of (params.arguments?.steps ?? []) as ReadonlyArray<Step>) {
      switch (step[0]) {
        case "text":
          result.content.push({ type: "text", text: step[1] })
          break
        case "length":
          result.content.push({ type: "text", text: "x".repeat(step[1]) })
          break
        case "content":
          result.content.push(...step[1])
          break
        case "malformed":
          result.content.push({ type: "text", text: malformed + JSON.stringify(step[1]) })
          break
        case "structured":
          result.structuredContent = step[1]
          break
        case "meta":
          result._meta = step[1]
          break
        case "fail":
          result.isError = true
          result.content.push({ type: "text", text: step[1] })
          break
        case "reject":
          throw new Error(step[1])
        case "hang":
          await new Promise((resolve) => signal.aborted ? resolve(0) : signal.addEventListener("abort", resolve))
          note("cancelled", params.arguments)
          break
        case "progress": {
          const [, progress, total, message] = step
          const progressToken = params._meta?.progressToken
          if (progressToken !== undefined) {
            await context.mcpReq.notify({
              method: "notifications/progress",
              params: { progressToken, progress, total, message }
            })
          }
          break
        }
        case "wait":
          await new Promise((resolve) => setTimeout(resolve, step[1]))
          break
        case "say":
          process.stderr.write(step[1])
          break
        case "write":
          for (let n = 0; n < step[2]; n++) process.stdout.write(step[1])
          break
        case "die":
          process.exit(step[1])
          break
        case "env":
          result.content.push({ type: "text", text: JSON.stringify(process.env) })
          break
        case "tools":
          tools = [...step[1]]
          await server.sendToolListChanged()
          break
      }
    }
    return result as never
  })
  const connect = server.connect.bind(server)
  server.connect = (transport) => {
    const send = transport.send.bind(transport)
    transport.send = (message, options) => send(JSON.parse(JSON.stringify(message), unwrapped), options)
    return connect(transport)
  }
  return server
}

const malformed = "malformed: "

const unwrapped = (_: string, value: { readonly text?: unknown } | null): unknown =>
  typeof value?.text === "string" && value.text.startsWith(malformed)
    ? JSON.parse(value.text.slice(malformed.length))
    : value

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const script = JSON.parse(process.argv[2]!) as Script
  const note = (...note: Note) =>
    script.notes === undefined ? undefined : appendFileSync(script.notes, `${JSON.stringify(note)}\n`)
  note("started", process.pid)
  if (script.stubborn === true) {
    process.on("SIGTERM", () => undefined)
    setInterval(() => undefined, 1_000)
    note("started", spawn("sh", ["-c", "trap '' TERM; while :; do sleep 100; done"], { stdio: "ignore" }).pid)
  }
  while (script.opensWith !== undefined && !existsSync(script.opensWith)) {
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  await make(script, note).connect(new StdioServerTransport())
}
