/**
 * Who may speak to `tool-executor mcp --http`: the command as people run it, on a
 * free port.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { spawn } from "node:child_process"
import { once } from "node:events"
import { request } from "node:http"
import { program } from "../../support/programs.ts"
import { folder, freePort } from "../harness.ts"

const bin = program("src/cli/bin.ts")

/** A gateway without servers; gives its port once it serves. */
const gateway = Effect.gen(function*() {
  const { file } = yield* folder({ "gateway.json": JSON.stringify({ mcpServers: {} }) })
  const port = yield* freePort
  const child = yield* Effect.acquireRelease(
    Effect.sync(() =>
      spawn(process.execPath, [...bin, "mcp", "--config", file("gateway.json"), "--http", String(port)])
    ),
    (child) =>
      Effect.promise(async () => {
        if (child.kill()) await once(child, "close")
      })
  )
  yield* Effect.callback<void>((resume) => {
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      if (text.includes("Serving http")) resume(Effect.void)
    })
    child.once("close", (code) => resume(Effect.die(new Error(`The gateway has ended with ${code}.`))))
  })
  return port
})

const initialize = JSON.stringify({
  jsonrpc: "2.0",
  id: 1,
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "test", version: "1.0.0" } }
})

/** Status of a request to begin a session, by `node:http`, which lets a host and an origin be named. */
const begin = (port: number, headers: Record<string, string>) =>
  Effect.callback<number | undefined>((resume) => {
    const sent = request({
      host: "127.0.0.1",
      port,
      path: "/mcp",
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/json, text/event-stream", ...headers }
    }, (response) => {
      response.resume().once("end", () => resume(Effect.succeed(response.statusCode)))
    })
    sent.once("error", (error) => resume(Effect.die(error)))
    sent.end(initialize)
  })

describe("the gateway over HTTP", () => {
  it.live("serves who calls it by a name of its own, and no page that got there by another", () =>
    Effect.scoped(Effect.gen(function*() {
      const port = yield* gateway
      const status = (headers: Record<string, string>) => begin(port, headers)
      assert.strictEqual(yield* status({}), 200)
      for (const name of ["127.0.0.1", "localhost", "[::1]"]) {
        const host = `${name}:${port}`
        assert.strictEqual(yield* status({ host, origin: `http://${host}` }), 200, host)
      }
      assert.strictEqual(yield* status({ host: "evil.example" }), 403)
      assert.strictEqual(yield* status({ host: `evil.example:${port}` }), 403)
      for (const origin of ["http://evil.example", `http://evil.example:${port}`, "http://localhost:1", "null"]) {
        assert.strictEqual(yield* status({ origin }), 403, origin)
      }
      // its own page would come over http
      assert.strictEqual(yield* status({ origin: `https://localhost:${port}` }), 403)
    })))
})
