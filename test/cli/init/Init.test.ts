/** `tool-executor init`: what it writes, what it leaves alone, and that it writes all of it or nothing. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync
} from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Terminal } from "../../../src/terminal/Keyboard.ts"
import { run } from "../harness.ts"

const temporary = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "tool-executor-init-"))),
  (root) => Effect.sync(() => rmSync(root, { recursive: true, force: true }))
)

const init = (root: string, ...more: ReadonlyArray<string>) =>
  run(["init", "--dir", root, "--kind", "agent", "--provider", "openai", ...more])

const filesIn = (root: string): ReadonlyArray<string> =>
  !existsSync(root) ? [] : readdirSync(root, { recursive: true, withFileTypes: true })
    .filter((it) => !it.isDirectory())
    .map((it) => join(it.parentPath, it.name).slice(root.length + 1))
    .toSorted()

/** A person who presses these keys, and what they were shown. */
const person = (keys: ReadonlyArray<string>) => {
  const left = [...keys]
  const shown: Array<string> = []
  const keyboard = {
    columns: 100,
    rows: 40,
    color: false,
    write: (text: string) => Effect.sync(() => void shown.push(text)),
    key: (prompt: string) =>
      Effect.suspend(() => {
        shown.push(prompt)
        const key = left.shift()
        return key === undefined ? Effect.die("asked too often") : Effect.succeedSome(key)
      }),
    line: () => Effect.succeedNone
  }
  return { shown: () => shown.join(""), layer: Effect.succeed(Option.some(keyboard)) }
}

const agentFiles = [
  ".env.example",
  ".gitignore",
  "AGENTS.md",
  "package.json",
  "src/agent.ts",
  "src/key.ts",
  "src/main.ts",
  "src/model.ts",
  "src/tools.ts",
  "test/agent.test.ts",
  "tsconfig.json"
]

describe("tool-executor init", () => {
  it.effect("writes a project into an empty folder, and says what to do next", () =>
    Effect.gen(function*() {
      const root = join(yield* temporary, "My Shop")
      const { code, stdout } = yield* init(root)
      assert.strictEqual(code, 0)
      assert.deepStrictEqual(filesIn(root), agentFiles)
      const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Record<string, object>
      assert.strictEqual(manifest["name"] as unknown, "my-shop")
      assert.sameMembers(Object.keys(manifest["dependencies"]!), [
        "@ai-sdk/openai",
        "ai",
        "effect",
        "effect-tool-executor"
      ])
      assert.notInclude(Object.values(manifest["dependencies"]!), "*")
      assert.include(readFileSync(join(root, "src/model.ts"), "utf8"), "@ai-sdk/openai")
      assert.strictEqual(readFileSync(join(root, ".env.example"), "utf8"), "OPENAI_API_KEY=\n")
      for (const text of ["npm install", "npm test", "npm start", "cd "]) assert.include(stdout, text)
    }))

  it.effect("asks three things at a terminal", () =>
    Effect.gen(function*() {
      const root = join(yield* temporary, "p")
      const { layer, shown } = person(["x", "3", "1", "2"])
      const { code, stdout } = yield* Effect.provideService(run(["init", "--dir", root]), Terminal, layer)
      assert.strictEqual(code, 0)
      assert.include(shown(), "What are you building?")
      assert.include(shown(), "Who runs the model?")
      assert.include(filesIn(root), "src/server.ts")
      assert.include(readFileSync(join(root, "src/model.ts"), "utf8"), "@ai-sdk/anthropic")
      assert.include(stdout, "pnpm install")
    }))

  it.effect("writes nothing if the person leaves", () =>
    Effect.gen(function*() {
      const root = join(yield* temporary, "p")
      const { layer } = person(["1", "escape"])
      const { code } = yield* Effect.provideService(run(["init", "--dir", root]), Terminal, layer)
      assert.strictEqual(code, 1)
      assert.isFalse(existsSync(root))
    }))

  it.effect("names the flag that is missing where there is no terminal", () =>
    Effect.gen(function*() {
      const root = join(yield* temporary, "p")
      const { code, stderr } = yield* run(["init", "--dir", root, "--kind", "guard"])
      assert.strictEqual(code, 2)
      assert.include(
        stderr,
        "--provider is missing, and there is no terminal to ask. Set it to one of anthropic, openai"
      )
      assert.isFalse(existsSync(root))
    }))

  it.effect(
    "adds a folder to a project that exists, and shows what changes in package.json before it does",
    () =>
      Effect.gen(function*() {
        const root = yield* temporary
        const manifest =
          `{\n\t"name": "shop",\n\t"scripts": { "start": "node ." },\n\t"dependencies": { "effect": "4.1.0" }\n}\n`
        writeFileSync(join(root, "package.json"), manifest)
        mkdirSync(join(root, "src"))
        writeFileSync(join(root, "src/main.ts"), "mine")
        const refused = yield* init(root)
        assert.strictEqual(refused.code, 2)
        assert.include(refused.stdout, `"tool-executor:test": "node --test`)
        assert.include(refused.stderr, "--yes accepts them")
        assert.deepStrictEqual(filesIn(root), ["package.json", "src/main.ts"])
        assert.strictEqual(readFileSync(join(root, "package.json"), "utf8"), manifest)

        const { layer, shown } = person(["n"])
        const args = ["init", "--dir", root, "--kind", "agent", "--provider", "openai", "--package-manager", "npm"]
        assert.strictEqual((yield* Effect.provideService(run(args), Terminal, layer)).code, 1)
        assert.include(shown(), "Make these changes?")
        assert.strictEqual(readFileSync(join(root, "package.json"), "utf8"), manifest)

        const accepted = yield* init(root, "--yes")
        assert.strictEqual(accepted.code, 0)
        assert.include(accepted.stdout, "npm run tool-executor:test")
        const written = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Record<
          string,
          Record<string, string>
        >
        assert.strictEqual(written["scripts"]!["start"], "node .")
        assert.strictEqual(written["dependencies"]!["effect"], "4.1.0")
        assert.property(written["dependencies"], "@ai-sdk/openai")
        assert.strictEqual(readFileSync(join(root, "src/main.ts"), "utf8"), "mine")
        assert.deepStrictEqual(
          filesIn(join(root, "tool-executor")),
          agentFiles
        )
      }),
    { tags: ["IN2"] }
  )

  it.effect("changes nothing that is there already, and shows what it would replace", () =>
    Effect.gen(function*() {
      const root = yield* temporary
      yield* init(root)
      assert.include((yield* init(root)).stdout, "Every file is there already.")
      writeFileSync(join(root, "src/tools.ts"), "// mine\n")
      const refused = yield* init(root)
      assert.strictEqual(refused.code, 2)
      assert.include(refused.stdout, "-// mine")
      assert.strictEqual(readFileSync(join(root, "src/tools.ts"), "utf8"), "// mine\n")
    }))

  it.effect("leaves nothing behind when it fails in the middle", () =>
    Effect.gen(function*() {
      const root = yield* temporary
      // the last folder cannot be made
      writeFileSync(join(root, "test"), "a file")
      writeFileSync(join(root, "tsconfig.json"), "{}")
      const { code, stderr } = yield* init(root, "--yes")
      assert.strictEqual(code, 1)
      assert.include(stderr, "test")
      assert.deepStrictEqual(filesIn(root), ["test", "tsconfig.json"])
      assert.strictEqual(readFileSync(join(root, "tsconfig.json"), "utf8"), "{}")
      assert.deepStrictEqual(readdirSync(root).toSorted(), ["test", "tsconfig.json"])
    }), { tags: ["IN1"] })

  it.effect("does not follow links out of the folder, and does not replace folders", () =>
    Effect.gen(function*() {
      const root = yield* temporary
      const other = yield* temporary
      symlinkSync(other, join(root, "src"))
      const linked = yield* init(root, "--yes")
      assert.strictEqual(linked.code, 2)
      assert.include(linked.stderr, "is a link to another folder")
      assert.deepStrictEqual(readdirSync(other), [])
      rmSync(join(root, "src"))
      mkdirSync(join(root, "tsconfig.json"))
      assert.include((yield* init(root, "--yes")).stderr, "tsconfig.json exists and is not a plain file")
      assert.deepStrictEqual(readdirSync(root), ["tsconfig.json"])
    }), { tags: ["IN2"] })

  it.effect("says what is wrong with a package.json, and leaves it", () =>
    Effect.gen(function*() {
      const root = yield* temporary
      writeFileSync(join(root, "package.json"), "{ nothing")
      const { code, stderr } = yield* init(root, "--yes")
      assert.strictEqual(code, 2)
      assert.include(stderr, "package.json: it is not a JSON object")
      assert.deepStrictEqual(readdirSync(root), ["package.json"])
    }))

  it.live("writes all of it or nothing, whenever it is interrupted", () =>
    Effect.gen(function*() {
      const parent = yield* temporary
      const counts = new Set<number>()
      for (let turns = 0; turns < 40; turns++) {
        const root = join(parent, `p${turns}`)
        const fiber = yield* Effect.forkChild(init(root), { startImmediately: true })
        for (let turn = 0; turn < turns; turn++) yield* Effect.promise(() => new Promise((next) => setImmediate(next)))
        yield* Fiber.interrupt(fiber)
        counts.add(filesIn(root).length)
        if (filesIn(root).length === 0) assert.isFalse(existsSync(root))
      }
      for (const count of counts) assert.include([0, agentFiles.length], count)
    }), { tags: ["IN1"] })
})
