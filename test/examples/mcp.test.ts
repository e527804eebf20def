/** The gateway of `docs/mcp.md`: its config as it stands, started as an editor starts it. */
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import { Client } from "@modelcontextprotocol/client"
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import { readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import * as GatewayConfig from "../../src/cli/gateway/GatewayConfig.ts"
import { folder } from "../cli/harness.ts"
import { program } from "../support/programs.ts"

const path = (file: string) => fileURLToPath(new URL(`../../${file}`, import.meta.url))

const example = path("scripts/examples/gateway.json")
const text = readFileSync(example, "utf8")

const read = (env: Record<string, string>) =>
  GatewayConfig.read(example).pipe(
    Effect.provideService(ConfigProvider.ConfigProvider, ConfigProvider.fromUnknown(env)),
    Effect.provide(NodeServices.layer)
  )

/** The example with the server of this repository, and a web server that is not there. */
const here = text
  .replace("\"npx\"", JSON.stringify(process.execPath))
  .replace(
    "\"-y\", \"@modelcontextprotocol/server-filesystem\"",
    () => JSON.stringify(path("node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"))
  )
  .replace("https://mcp.example.com/mcp", "http://127.0.0.1:9/mcp")

/** An editor whose person says `decision`; one without a decision cannot ask. */
const editor = Effect.fnUntraced(function*(config: string, workspace: string, decision?: string) {
  const asked: Array<string> = []
  const client = new Client({ name: "editor", version: "1.0.0" }, {
    capabilities: decision === undefined ? {} : { elicitation: {} }
  })
  if (decision !== undefined) {
    client.setRequestHandler("elicitation/create", ({ params }) => {
      asked.push(params.message)
      return { action: "accept", content: { decision } }
    })
  }
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [...program("src/cli/bin.ts"), "mcp", "--config", config],
    env: { ...process.env as Record<string, string>, TOKEN: "secret", WORKSPACE: workspace },
    stderr: "ignore"
  })
  yield* Effect.acquireRelease(
    Effect.promise(() => client.connect(transport)),
    () => Effect.promise(() => client.close())
  )
  const call = (name: string, args: Record<string, unknown>) =>
    Effect.map(Effect.promise(() => client.callTool({ name, arguments: args })), ({ content, isError }) => ({
      isError: isError === true,
      text: content.map((it) => it.type === "text" ? it.text : "").join("")
    }))
  return { asked, call, client }
})

describe("the gateway of the guide", () => {
  it.effect("has a config that is one, with the environment put in", () =>
    Effect.gen(function*() {
      const { mcpServers, policy } = yield* read({ TOKEN: "secret", WORKSPACE: "/home/ada/notes" })
      const { files, web } = mcpServers
      assert.deepStrictEqual("args" in files! ? files.args?.at(-1) : undefined, "/home/ada/notes")
      assert.deepStrictEqual("headers" in web! ? web.headers : undefined, { Authorization: "Bearer secret" })
      assert.deepStrictEqual(policy?.deny, ["files__move_file"])
    }))

  it.effect("says which variables are missing", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(read({}))
      assert.include(error.message, "mcpServers.files.args[2]: the environment has no WORKSPACE")
      assert.include(error.message, "mcpServers.web.headers.Authorization: the environment has no TOKEN")
    }))

  it("stands in the guide as it is", () => {
    assert.include(readFileSync(path("docs/mcp.md"), "utf8"), text)
  })

  it.live("lists what may be called, asks before a write, and runs reads unasked", () =>
    Effect.gen(function*() {
      const { file, root } = yield* folder({ "gateway.json": here, "a.md": "hello" })
      const { asked, call, client } = yield* editor(file("gateway.json"), root, "approve once")
      const { tools } = yield* Effect.promise(() => client.listTools())
      const names = tools.map((it) => it.name)
      assert.includeMembers(names, ["files__read_text_file", "files__write_file", "read_artifact"])
      // one is denied, the other left out
      assert.notIncludeMembers(names, ["files__move_file", "files__read_file"])
      assert.deepStrictEqual(yield* call("files__read_text_file", { path: file("a.md") }), {
        isError: false,
        text: "hello"
      })
      assert.isEmpty(asked)
      const written = yield* call("files__write_file", { path: file("b.md"), content: "new" })
      assert.isFalse(written.isError, written.text)
      assert.lengthOf(asked, 1)
      assert.include(asked[0], "May files__write_file run?")
      assert.strictEqual(readFileSync(file("b.md"), "utf8"), "new")
    }).pipe(Effect.scoped))

  it.live("refuses what would be asked where an editor cannot ask", () =>
    Effect.gen(function*() {
      const { file, root } = yield* folder({ "gateway.json": here, "a.md": "hello" })
      const { call } = yield* editor(file("gateway.json"), root)
      const refused = yield* call("files__write_file", { path: file("a.md"), content: "new" })
      assert.isTrue(refused.isError)
      assert.include(refused.text, "there is no approver")
      assert.strictEqual(readFileSync(file("a.md"), "utf8"), "hello")
    }).pipe(Effect.scoped))
})
