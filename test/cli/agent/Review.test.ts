/** A reviewer and a shadow policy from config files, against servers of the protocols that providers speak. */
import { assert, describe, it } from "@effect/vitest"
import * as ConfigProvider from "effect/ConfigProvider"
import * as Effect from "effect/Effect"
import { key, providers, world, write } from "../agents.ts"
import { folder, openai, run } from "../harness.ts"

const message = openai(["w", "write_file", { path: "new.txt", content: "made" }])

const says = (verdict: string) => [{ text: JSON.stringify({ reason: "It was asked for.", verdict }) }]

const env = {
  OPENAI_API_KEY: key,
  ANTHROPIC_API_KEY: key,
  GOOGLE_GENERATIVE_AI_API_KEY: key,
  OPENAI_COMPATIBLE_API_KEY: key
}

const here = (args: ReadonlyArray<string>) =>
  Effect.provide(run([...args, "--checkpoints", "none"]), ConfigProvider.layer(ConfigProvider.fromUnknown(env)))

const review = { allow: ["write_file"], deny: ["write_file"] }

const ran = Effect.fnUntraced(function*(config: object) {
  const { exists, file, root } = yield* folder({ "m.json": message, "config.json": config })
  const ran = yield* here(["run", file("m.json"), "--root", root, "--config", file("config.json")])
  return { ...ran, isWritten: yield* exists("new.txt") }
})

describe("a reviewer of tool-executor run", () => {
  for (const [provider, { model, path, serve }] of Object.entries(providers)) {
    it.live(`asks ${provider}, and a call runs that it allows`, () =>
      Effect.gen(function*() {
        const server = yield* serve(says("allow"))
        const reviewer = { model, baseUrl: `${server.url}${path}` }
        const { code, isWritten, stderr } = yield* ran({ policy: { review }, reviewer })
        assert.deepStrictEqual(server.refusals, [])
        assert.deepStrictEqual([code, isWritten], [0, true], stderr)
        assert.include(JSON.stringify(server.requests), "new.txt")
      }))
  }

  for (const verdict of ["deny", "person"]) {
    it.live(`refuses a call where it says ${verdict} and nobody is there`, () =>
      Effect.gen(function*() {
        const { model, path, serve } = providers["openai-compatible"]
        const server = yield* serve(says(verdict))
        const { isWritten, stdout } = yield* ran({
          policy: { review },
          reviewer: { model, baseUrl: `${server.url}${path}` }
        })
        assert.isFalse(isWritten)
        assert.include(stdout, verdict === "deny" ? "It was asked for." : "there is no approver")
      }))
  }

  it.live("refuses a call where it cannot be reached, and repeats no key", () =>
    Effect.gen(function*() {
      const reviewer = { model: "openai-compatible:local", baseUrl: "http://127.0.0.1:1/v1" }
      const { isWritten, stderr, stdout } = yield* ran({ policy: { review }, reviewer })
      assert.isFalse(isWritten)
      assert.notInclude(stderr + stdout, key)
    }))

  it.live("names what is wrong with it in the config", () =>
    Effect.gen(function*() {
      const wrong = yield* ran({ reviewer: { model: "nope:x" } })
      assert.strictEqual(wrong.code, 2)
      assert.include(wrong.stderr, "Unknown model \"nope:x\"")
      const unknown = yield* ran({ reviewer: { model: "openai:gpt-5", timeout: "soon" } })
      assert.strictEqual(unknown.code, 2)
      assert.include(unknown.stderr, "reviewer.timeout")
    }))
})

describe("a reviewer of tool-executor agent", () => {
  it.live("lets the agent write what the reviewer allows, with a model of its own", () =>
    Effect.gen(function*() {
      const reviewing = yield* providers.anthropic.serve(says("allow"))
      const { exists, file, here } = yield* world([{ calls: [write] }, { text: "done" }], {
        "config.json": {
          policy: { review },
          reviewer: { model: providers.anthropic.model, baseUrl: `${reviewing.url}/v1` }
        }
      })
      const { code, stdout } = yield* here(["--print", "Make the new file.", "--config", file("config.json")])
      assert.deepStrictEqual([code, stdout], [0, "done\n"])
      assert.isTrue(yield* exists("new.txt"))
      assert.strictEqual(reviewing.requests.length, 1)
      // the user's own words
      assert.include(JSON.stringify(reviewing.requests), "Make the new file.")
    }))
})

describe("a shadow policy of tool-executor run", () => {
  it.live("shows in the events what it would have decided", () =>
    Effect.gen(function*() {
      const { file, root } = yield* folder({
        "m.json": message,
        "config.json": { policy: { allow: ["write_file"] }, shadow: { name: "next", policy: { deny: ["write_file"] } } }
      })
      const { code, stderr } = yield* here([
        "run",
        file("m.json"),
        "--root",
        root,
        "--config",
        file("config.json"),
        "--events",
        "ndjson"
      ])
      assert.strictEqual(code, 0)
      const events = stderr.trim().split("\n").map((line) => JSON.parse(line) as Record<string, unknown>)
      assert.deepInclude(events.find((it) => it["_tag"] === "ToolShadowed"), { would: "deny", decided: "allow" })
    }))
})
