import { assert, describe, it } from "@effect/vitest"
import { Ajv2020 } from "ajv/dist/2020.js"
import * as Effect from "effect/Effect"
import { readdirSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { run } from "./harness.ts"

const scenarios = fileURLToPath(new URL("../scenarios/", import.meta.url))

const validator = Effect.fnUntraced(function*(of: "config" | "gateway" | "policy" | "scenario" | "rules") {
  const { code, stdout } = yield* run(["schema", of])
  assert.strictEqual(code, 0)
  return new Ajv2020({ strict: false }).compile(JSON.parse(stdout) as object)
})

describe("tool-executor schema", () => {
  it.live("prints a JSON Schema that takes a right config and no wrong one", () =>
    Effect.gen(function*() {
      const isConfig = yield* validator("config")
      assert.isTrue(isConfig({
        $schema: "./tool-executor.schema.json",
        rules: [{ _tag: "MaxCalls", tool: "*", max: 3 }],
        tools: { run_command: { timeout: "10 seconds", retryOnTimeout: false } },
        policy: { default: "readOnly", allow: ["run_command"] },
        dedupe: false,
        output: { maxChars: "unbounded", maxFileChars: 1_000 },
        environment: ["PATH"]
      }))
      for (
        const wrong of [
          { colour: true },
          { policy: { alow: ["read_file"] } },
          { tools: { reed_file: {} } },
          { tools: { read_file: { maxConcurrent: 0 } } },
          { dedupe: true }
        ]
      ) assert.isFalse(isConfig(wrong), JSON.stringify(wrong))
    }))

  it.live("prints a JSON Schema that takes a right policy and no wrong one", () =>
    Effect.gen(function*() {
      const isPolicy = yield* validator("policy")
      assert.isTrue(isPolicy({
        $schema: "./policy.schema.json",
        lock: true,
        deny: ["*(*.env*)", {
          tool: "refund",
          when: { amount: { gt: 100, lte: 1_000 }, force: true },
          roles: ["guest"]
        }],
        askAlways: [{
          tool: "deploy",
          target: "prod*",
          approvers: { roles: ["lead"], count: 2, remind: "10 minutes" }
        }],
        sandboxed: "allow",
        review: { allow: ["run_command"], deny: ["*"] }
      }))
      for (
        const wrong of [
          { deny: [{ when: { amount: 1 } }] },
          { deny: [{ tool: "refund", when: { amount: { above: 100 } } }] },
          { deny: [{ tool: "refund", when: { amount: { gt: "100" } } }] },
          { ask: [{ tool: "refund", roles: [] }] },
          { sandboxed: true },
          { review: ["*"] }
        ]
      ) assert.isFalse(isPolicy(wrong), JSON.stringify(wrong))
    }))

  it.live("prints a JSON Schema that takes a right gateway and no wrong one", () =>
    Effect.gen(function*() {
      const isGateway = yield* validator("gateway")
      const right = {
        $schema: "./gateway.schema.json",
        mcpServers: {
          files: { command: "npx", args: ["-y", "server", "."], env: { A: "${B}" }, readOnly: ["read_*"], prefix: "" },
          web: { type: "http", url: "https://example.com/mcp", headers: { authorization: "Bearer ${TOKEN}" } }
        },
        rules: [{ _tag: "MaxCalls", tool: "files__read", max: 3 }],
        policy: { default: "readOnly", allow: ["files__*"] },
        tools: { files__read: { timeout: "10 seconds" } },
        approvalTimeout: "1 minute"
      }
      assert.isTrue(isGateway(right))
      const { mcpServers } = right
      for (
        const wrong of [
          {},
          { ...right, colour: true },
          { ...right, fetch: {} },
          { mcpServers: { a: {} } },
          { mcpServers: { a: { ...mcpServers.files, colour: true } } },
          { mcpServers: { a: { ...mcpServers.files, url: "https://example.com" } } },
          { mcpServers: { a: { command: ["npx"] } } }
        ]
      ) assert.isFalse(isGateway(wrong), JSON.stringify(wrong))
    }))

  it.live("prints what the tools take, as providers are told", () =>
    Effect.gen(function*() {
      const { code, stdout } = yield* run(["schema", "tools"])
      assert.strictEqual(code, 0)
      const tools = JSON.parse(stdout) as ReadonlyArray<{ readonly name: string; readonly parameters: object }>
      const edit = tools.find((it) => it.name === "edit_file")!
      const takes = new Ajv2020({ strict: false }).compile(edit.parameters)
      assert.isTrue(takes({ path: "a", oldText: "b", newText: "c" }))
      assert.isFalse(takes({ path: "a", edits: [] }))
    }))

  it.live("prints a JSON Schema of rule sets", () =>
    Effect.gen(function*() {
      const isRules = yield* validator("rules")
      assert.isTrue(isRules([{ _tag: "MaxCalls", tool: "*", max: 3 }, { _tag: "ExclusiveGroup", tools: ["a", "b"] }]))
      for (const wrong of [{}, [{ _tag: "MaxCals", tool: "a", max: 1 }], [{ _tag: "MaxCalls", tool: "a", max: -1 }]]) {
        assert.isFalse(isRules(wrong), JSON.stringify(wrong))
      }
    }))

  it.live("prints a JSON Schema that takes every scenario and no unknown key", () =>
    Effect.gen(function*() {
      const isScenario = yield* validator("scenario")
      for (const name of readdirSync(scenarios).filter((it) => it.endsWith(".json"))) {
        assert.isTrue(isScenario(JSON.parse(readFileSync(scenarios + name, "utf8"))), name)
      }
      assert.isFalse(isScenario({ name: "a", tools: {}, script: [], tolls: {} }))
      assert.isFalse(isScenario({ name: "a", tools: { read: { klass: "ReadOnly" } }, script: [] }))
    }))
})
