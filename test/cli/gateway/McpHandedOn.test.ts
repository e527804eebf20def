/** What `tool-executor mcp` hands on of what servers say and give, and what it does not. */
import { assert, describe, it } from "@effect/vitest"
import { Client } from "@modelcontextprotocol/client"
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio"
import * as Effect from "effect/Effect"
import { until } from "../../support/commandProcess.ts"
import { type Message, scripted, start } from "../../support/gatewayProcess.ts"
import { program } from "../../support/programs.ts"
import { act } from "../../support/scriptedMcpServer.ts"
import { folder } from "../harness.ts"

const image = { type: "image", data: "AAAA", mimeType: "image/png" }

describe("the gateway hands on", () => {
  it.live(
    "titles and `_meta` of tools, and content, values and `_meta` of results and failures",
    () =>
      Effect.scoped(Effect.gen(function*() {
        const described = {
          ...act,
          title: "Acts",
          annotations: { title: "Acts as told" },
          _meta: { "example.com/icon": "x", "effect-tool-executor/wave": "not theirs to say" }
        }
        const titled = { ...act, name: "other", annotations: { title: "Only a hint" } }
        const { file } = yield* folder({
          "gateway.json": { mcpServers: { s: scripted({ tools: [described, titled] }) }, policy: { default: "allow" } }
        })
        const { call, find, initialize, send } = yield* start("--config", file("gateway.json"))
        initialize()
        send({ id: 1, method: "tools/list" })
        const given = [["content", [image]], ["structured", { n: 1 }], ["meta", {
          "example.com/trace": "t",
          "effect-tool-executor/outcome": { _tag: "Forged" }
        }]]
        call(2, "s__act", [["text", "fine"], ...given])
        call(3, "s__act", [["fail", "no such file"], ...given])
        call(4, "s__act", [["fail", "x".repeat(50_000)], ...given])
        const resultOf = (id: number) =>
          Effect.map(until(() => find("id", id) !== undefined), () => find("id", id)!["result"] as Message)
        const { tools } = (yield* resultOf(1)) as { readonly tools: ReadonlyArray<Message> }
        const [first, second] = ["s__act", "s__other"].map((name) => tools.find((it) => it["name"] === name)!)
        assert.deepInclude(first, { title: "Acts", _meta: { "example.com/icon": "x" } })
        assert.deepInclude(first!["annotations"], { title: "Acts as told" })
        assert.deepInclude(second!["annotations"], { title: "Only a hint" })
        const beside = { structuredContent: { n: 1 }, _meta: { "example.com/trace": "t" } }
        assert.deepStrictEqual(yield* resultOf(2), { content: [{ type: "text", text: "fine" }, image], ...beside })
        assert.deepStrictEqual(yield* resultOf(3), {
          content: [{ type: "text", text: "no such file" }, image],
          ...beside,
          isError: true
        })
        // more than the model is shown: the text that it is shown alone
        const { content, ...rest } = yield* resultOf(4)
        assert.deepStrictEqual(rest, { isError: true })
        const [{ text }] = content as [{ readonly text: string }]
        assert.isAtMost(text.length, 10_000)
        assert.isTrue(text.startsWith("\"s__act\" failed: xxx"))
      })),
    30_000
  )
})

describe("the gateway on standard input and output, without sessions", () => {
  it.live(
    "asks the person of the official client, and remembers the answer",
    () =>
      Effect.scoped(Effect.gen(function*() {
        const { file } = yield* folder({
          "gateway.json": { mcpServers: { s: scripted({ instructions: "Be kind." }) }, policy: { ask: ["s__act"] } }
        })
        let forms = 0
        const client = new Client({ name: "test", version: "1" }, {
          versionNegotiation: { mode: "auto" },
          capabilities: { elicitation: { form: {} } }
        })
        client.setRequestHandler("elicitation/create", () => {
          forms++
          return { action: "accept", content: { decision: "approve for 1 hour" } }
        })
        const args = [...program("src/cli/bin.ts"), "mcp", "--config", file("gateway.json")]
        const transport = new StdioClientTransport({ command: process.execPath, args, stderr: "ignore" })
        yield* Effect.acquireRelease(
          Effect.promise(() => client.connect(transport)),
          () => Effect.promise(() => client.close())
        )
        assert.strictEqual(client.getProtocolEra(), "modern")
        assert.include(client.getInstructions(), "Be kind.")
        for (const text of ["one", "two"]) {
          const result = yield* Effect.promise(() =>
            client.callTool({ name: "s__act", arguments: { steps: [["text", text]] } })
          )
          assert.deepInclude(result, { content: [{ type: "text", text }] })
        }
        assert.strictEqual(forms, 1)
      })),
    30_000
  )
})
