/** `tool-executor mcp` as a process of its own, spoken to line by line. */
import * as Effect from "effect/Effect"
import { existsSync, readFileSync } from "node:fs"
import * as Command from "./commandProcess.ts"
import { program } from "./programs.ts"
import type { Note, Script } from "./scriptedMcpServer.ts"

/** A server of the config that does what a script says. */
export const scripted = (script: Script) => ({
  command: process.execPath,
  args: [...program("test/support/scriptedMcpServer.ts"), JSON.stringify(script)]
})

/** What has happened in a server, by the file of its notes, as far as its lines are written to their ends. */
export const notesIn = (file: string): ReadonlyArray<Note> =>
  existsSync(file)
    ? readFileSync(file, "utf8").split("\n").slice(0, -1).map((line) => JSON.parse(line) as Note)
    : []

export type Message = Record<string, unknown>

/** Starts it for the rest of the scope. */
export const start = (...args: ReadonlyArray<string>) =>
  Effect.gen(function*() {
    const { child, ended, written } = yield* Command.start(["mcp", ...args])
    const messages = (): ReadonlyArray<Message> =>
      written.stdout.split("\n").slice(0, -1).map((line) => JSON.parse(line) as Message)
    const send = (message: Message) => void child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`)
    return {
      child,
      written,
      messages,
      send,
      /** The message that has it. */
      find: (key: string, value: unknown) => messages().find((it) => it[key] === value),
      /** Begins a session. */
      initialize: (capabilities: object = {}) => {
        const clientInfo = { name: "test", version: "1" }
        send({ id: 0, method: "initialize", params: { protocolVersion: "2025-11-25", capabilities, clientInfo } })
        send({ method: "notifications/initialized" })
      },
      call: (id: number, name: string, steps: unknown) =>
        send({ id, method: "tools/call", params: { name, arguments: { steps } } }),
      ended
    }
  })
