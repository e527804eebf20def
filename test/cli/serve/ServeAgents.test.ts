/** Agents of `tool-executor serve`: their config, and servers in processes of their own that are killed and stopped. */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { assert, describe, it } from "@effect/vitest"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import { readFileSync } from "node:fs"
import { createServer } from "node:http"
import { type Http, HttpPort } from "../../../src/cli/serve/HttpPort.ts"
import type { Asked, Turn } from "../../support/providers/script.ts"
import { asking, openIn, start, user } from "../../support/serveProcess.ts"
import { listen } from "../../support/Server.ts"
import { key, providers, refusing, write } from "../agents.ts"
import { folder, run } from "../harness.ts"

const users = { ada: { tokens: [{ hash: `sha256:${"0".repeat(64)}` }], run: true } }

const http: Http = {
  server: (at) => NodeHttpServer.layerServer(createServer, at),
  services: NodeHttpServer.layerHttpServices
}

/** What the command says about a config that it refuses. */
const refused = Effect.fnUntraced(function*(config: object, env: Readonly<Record<string, string>> = {}) {
  const { file } = yield* folder({ "serve.json": { workspace: { root: "." }, server: { users }, ...config } })
  const command = ["serve", "--config", file("serve.json"), "--data", file("../data"), "--port", "0"]
  const { code, stderr } = yield* run(command).pipe(
    Effect.provideService(HttpPort, http),
    Effect.provide(ConfigProvider.layer(ConfigProvider.fromUnknown(env)))
  )
  assert.strictEqual(code, 2, stderr)
  return stderr
})

describe("agents in the config of a server", () => {
  it.live("are refused with all their mistakes and where these are", () =>
    Effect.gen(function*() {
      const said = yield* refused({
        agents: {
          helper: { tools: ["read_file", "raed_file"], subAgents: ["reviewer", "nobody"], policy: { deny: ["fly"] } },
          reviewer: {}
        }
      })
      for (
        const part of [
          "agents.helper.tools[1]",
          "no tool \"raed_file\"",
          "agents.helper.subAgents[1]",
          "no agent \"nobody\"",
          "agents.helper.policy",
          "agents.reviewer.description"
        ]
      ) assert.include(said, part)
    }))

  it.live("are refused without a model or its key, which is named", () =>
    Effect.gen(function*() {
      assert.include(yield* refused({ agents: { helper: {} } }), "agents.helper.model")
      const said = yield* refused({ agents: { helper: { model: "anthropic:claude-sonnet-4-5" } } })
      assert.include(said, "ANTHROPIC_API_KEY")
    }))

  it.live("are refused with limits and rules that cannot hold", () =>
    Effect.gen(function*() {
      const agent = { model: "anthropic:claude-sonnet-4-5" }
      const rules = [{ _tag: "MaxCalls", tool: "nothing", max: 1 }]
      const said = yield* refused({ agents: { helper: { ...agent, rules } } }, { ANTHROPIC_API_KEY: key })
      assert.include(said, "agents.helper.rules[0]")
      const window = yield* refused({ agents: { helper: { ...agent, compaction: { at: 2, by: "magic" } } } })
      for (const path of ["window", "at", "by"]) assert.include(window, `agents.helper.compaction.${path}`)
    }))
})

/** Calls the sub-agent, which writes; people are asked about that. */
const script = ({ messages }: Asked): Turn => {
  const last = messages.at(-1)
  if (last?.role === "tool") return { text: "It is written." }
  return JSON.stringify(messages).includes("write it yourself")
    ? { calls: [write] }
    : { calls: [{ name: "writer", args: { prompt: "write it yourself" } }] }
}

const limits = { operations: 9, operationsPerUser: 1, messages: 5, messageChars: 100 }

const world = Effect.fnUntraced(function*(baseUrl: string) {
  const me = yield* user
  const { file } = yield* folder({
    "a.txt": "text",
    "serve.json": {
      workspace: { root: "." },
      policy: { allow: ["writer"] },
      agents: {
        helper: { model: "openai-compatible:local", baseUrl, subAgents: ["writer"], system: "Help." },
        writer: { description: "Writes", model: "openai-compatible:local", baseUrl, tools: ["write_file"] }
      },
      server: { users: { ada: me.config }, drain: "2 seconds", limits }
    }
  })
  const data = yield* folder({})
  const command = ["serve", "--config", file("serve.json"), "--data", data.file("data"), "--port", "0"]
  const serving = Effect.gen(function*() {
    const server = yield* start(command, { OPENAI_COMPATIBLE_API_KEY: key })
    const url = yield* server.url
    const headers = { authorization: `Bearer ${me.token}`, accept: "text/event-stream" }
    const events = (last?: string) =>
      listen(`${url}${path}/x/events`, {
        headers: { ...headers, ...last === undefined ? {} : { "last-event-id": last } }
      })
    return { ...server, ...asking(url, me.token), events }
  })
  return { serving, file }
})

const path = "/api/sessions/chat/operations"

describe("a server with agents in a process of its own", () => {
  for (const signal of ["SIGKILL", "SIGTERM"] as const) {
    it.live(
      `that gets ${signal} while a sub-agent waits for approval continues where it was`,
      () =>
        Effect.gen(function*() {
          const { path: at, serve } = providers["openai-compatible"]
          const provider = yield* serve(script)
          const { file, serving } = yield* world(`${provider.url}${at}`)
          const first = yield* serving
          assert.deepInclude(yield* first.json("/api/agents").pipe(Effect.map((all) => (all as never)[0])), {
            name: "helper",
            subAgents: ["writer"],
            onBusy: "queue"
          })
          yield* first.post(path, { agent: "helper", prompt: "write new.txt", id: "x" })
          assert.deepEqual((yield* first.json("/api/status"))["limits"], limits)
          const more = { agent: "helper", prompt: "go", id: "y" }
          assert.include(yield* first.post("/api/sessions/more/operations", more), { status: 429 })
          const long = { ...more, prompt: "x".repeat(101) }
          assert.include(yield* first.post("/api/sessions/more/operations", long), { status: 400 })
          const reader = yield* first.events()
          const before = yield* reader.until(({ event }) => event === "request_tool_approvals")
          const [request] = openIn(yield* first.json("/api/approvals"))
          assert.deepInclude(request, { operation: "x", session: "chat", agentPath: ["writer"], tool: "write_file" })
          // what it has reported is stored a moment later
          yield* Effect.sleep("300 millis")
          first.child.kill(signal)
          yield* first.ended
          const late = signal === "SIGTERM" ? yield* reader.rest : []
          const second = yield* serving
          const again = yield* second.events([...before, ...late].at(-1)!.id)
          yield* again.until(({ event }) => event === "request_tool_approvals" || event === "tool_approval_request")
          const [same] = openIn(yield* second.json("/api/approvals"))
          assert.strictEqual(same?.["id"], request?.["id"])
          yield* second.post(`/api/approvals/${request!["id"]}/answer`, {
            hash: same!["hash"],
            answer: { _tag: "ApproveOnce" }
          })
          const rest = yield* again.rest
          assert.strictEqual(rest.at(-1)?.event, "operation_end")
          assert.deepInclude(rest.at(-1)?.data, { text: "It is written." })
          assert.strictEqual(readFileSync(file("new.txt"), "utf8"), "made")
          const ids = [...before, ...late, ...rest].map(({ id }) => id).filter((id) => id !== undefined)
          assert.strictEqual(new Set(ids).size, ids.length)
          const { messages } = yield* second.json("/api/sessions/chat/history")
          assert.deepStrictEqual((messages as ReadonlyArray<{ role: string }>).map(({ role }) => role), [
            "user",
            "assistant",
            "tool",
            "assistant"
          ])
        }),
      60_000
    )
  }

  it.live("tells that a key is wrong, and nobody the key", () =>
    Effect.gen(function*() {
      const url = yield* refusing({ error: { message: `The key ${key} is wrong` } })
      const { serving } = yield* world(url)
      const server = yield* serving
      yield* server.post(path, { agent: "helper", prompt: "go", id: "x" })
      const events = yield* (yield* server.events()).rest
      assert.deepInclude(events.at(-1)?.data.reason, { _tag: "ModelFailed", error: "AuthenticationError" })
      const journal = yield* server.json("/api/journal")
      const conversation = yield* server.json("/api/conversations/ada/chat")
      const all = JSON.stringify([events, journal, conversation, yield* server.json(`${path}/x`), server.written])
      assert.include(all, "is wrong")
      assert.notInclude(all, key)
    }))
})
