/**
 * `tool-executor mcp --approve page` as editors start it, with the official client: where it cannot
 * ask its person, somebody at the page is asked.
 */
import { assert, describe, it } from "@effect/vitest"
import { Client } from "@modelcontextprotocol/client"
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import { fileURLToPath } from "node:url"
import { until } from "../../support/commandProcess.ts"
import { program } from "../../support/programs.ts"
import { asking, type Json, openIn } from "../../support/serveProcess.ts"
import { folder } from "../harness.ts"

const path = (relative: string) => fileURLToPath(new URL(relative, import.meta.url))

const said = /^Approve calls at (\S+) with the token of this run: (tex_\w+)$/m

/** The gateway with a client, and what it writes to standard error. */
const editor = Effect.fnUntraced(function*(capabilities: { readonly elicitation?: Record<string, never> }) {
  const { file } = yield* folder({})
  const server = { command: process.execPath, args: [path("../../support/oddServer.ts"), file("pids")] }
  const config = yield* folder({ "gateway.json": { mcpServers: { odd: server } } })
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [...program("src/cli/bin.ts"), "mcp", "--config", config.file("gateway.json"), "--approve", "page"],
    env: { PATH: process.env["PATH"] ?? "" },
    stderr: "pipe"
  })
  let stderr = ""
  transport.stderr?.on("data", (chunk) => stderr += String(chunk))
  const client = new Client({ name: "test", version: "1" }, { capabilities })
  if (capabilities.elicitation !== undefined) {
    client.setRequestHandler(
      "elicitation/create",
      () => Promise.resolve({ action: "accept" as const, content: { decision: "approve once" } })
    )
  }
  yield* Effect.acquireRelease(
    Effect.promise(() => client.connect(transport)),
    () => Effect.promise(() => client.close())
  )
  yield* until(() => said.test(stderr))
  const [, url = "", token = ""] = said.exec(stderr) ?? []
  const told: Array<string | undefined> = []
  const call = Effect.promise((signal) =>
    client.callTool({ name: "odd__see", arguments: {} }, {
      signal,
      onprogress: (it) => told.push((it as { readonly message?: string }).message)
    })
  )
  return { call, told, url, ...asking(url, token) }
})

/** The one question that waits, once there is one. */
const question = ({ json }: { readonly json: (path: string) => Effect.Effect<Json> }) =>
  Effect.map(
    Effect.repeat(json("api/approvals"), { until: (it) => openIn(it).length === 1 }),
    (it) => openIn(it)[0]! as Json & { readonly id: string; readonly hash: string }
  )

describe("a gateway with a page", () => {
  it.live(
    "asks there where the client cannot ask, and tells the client where it waits",
    () =>
      Effect.scoped(Effect.gen(function*() {
        const gateway = yield* editor({})
        assert.strictEqual((yield* asking(gateway.url, "wrong").send("api/approvals")).status, 401)
        const calls = yield* Effect.forkScoped(gateway.call)
        const { hash, id, tool } = yield* question(gateway)
        assert.strictEqual(tool, "odd__see")
        yield* until(() => gateway.told.length > 0)
        assert.include(gateway.told[0], gateway.url)
        yield* gateway.post(`api/approvals/${id}/answer`, { hash, answer: { _tag: "ApproveOnce" } })
        const result = yield* Fiber.join(calls)
        assert.isNotTrue(result.isError)

        const denied = yield* Effect.forkScoped(gateway.call)
        const next = yield* question(gateway)
        const answer = { _tag: "Deny", reason: "not today" }
        yield* gateway.post(`api/approvals/${next.id}/answer`, { hash: next.hash, answer })
        const refused = yield* Fiber.join(denied)
        assert.isTrue(refused.isError)
        assert.include(JSON.stringify(refused.content), "not today")
        // its person may answer and read, and nothing else
        const message = { message: [{ type: "function_call", call_id: "1", name: "odd__see", arguments: "{}" }] }
        const run = yield* gateway.send("api/sessions/s/waves", { method: "POST", body: JSON.stringify(message) })
        assert.strictEqual(run.status, 403)
      })),
    20_000
  )

  it.live("asks the client as before where it can ask", () =>
    Effect.scoped(Effect.gen(function*() {
      const { call, told } = yield* editor({ elicitation: {} })
      const result = yield* call
      assert.isNotTrue(result.isError)
      assert.deepStrictEqual(told, [])
    })))
})
