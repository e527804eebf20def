import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { folder, run } from "../harness.ts"

const scenario = (more: Record<string, unknown> = {}, tag = "Succeeded") => ({
  name: "one read",
  tools: { read: { class: "ReadOnly", takes: "50 millis" } },
  script: [{ wave: [{ id: "1", name: "read", params: {} }], expect: { outcomes: [{ id: "1", tag, start: 0 }] } }],
  ...more
})

interface Played {
  readonly file: string
  readonly status: string
  readonly waves?: ReadonlyArray<{
    readonly elapsed: number
    readonly outcomes: ReadonlyArray<Record<string, unknown>>
  }>
  readonly differences?: ReadonlyArray<unknown>
}

describe("tool-executor simulate", () => {
  it.live("draws a scenario that holds and succeeds", () =>
    Effect.gen(function*() {
      const { file } = yield* folder({ "a.json": scenario() })
      const { code, stderr, stdout } = yield* run(["simulate", file("a.json")])
      assert.strictEqual(code, 0)
      assert.include(stdout, "✓ one read")
      assert.match(stdout, /1 read {2}█+ {2}0–50 ms {2}Succeeded/)
      assert.strictEqual(stderr, "")
    }))

  it.live("ends with 1 where something differs and says where, what was expected and what came", () =>
    Effect.gen(function*() {
      const { file } = yield* folder({ "a.json": scenario({}, "Failed") })
      const { code, stdout } = yield* run(["simulate", file("a.json")])
      assert.strictEqual(code, 1)
      assert.include(
        stdout,
        "script[0].expect.outcomes[0].tag\n      expected \"Failed\"\n      got      \"Succeeded\""
      )
    }))

  it.live("takes a scenario that never ends for a difference", () =>
    Effect.gen(function*() {
      const { file } = yield* folder({
        "a.json": scenario({ tools: { read: { never: true } }, config: { executionTimeout: "Infinity" } })
      })
      const { code, stdout } = yield* run(["simulate", file("a.json")])
      assert.strictEqual(code, 1)
      assert.include(stdout, "expected \"a scenario that ends\"")
      assert.include(stdout, "Stuck")
    }))

  it.live("ends with 2 where files are wrong, names every mistake, and plays the others", () =>
    Effect.gen(function*() {
      const { file } = yield* folder({
        "differs.json": scenario({}, "Failed"),
        "syntax.json": "{ \"name\": ",
        "keys.json": scenario({ tolls: {}, tools: { read: { takes: "long", klass: "ReadOnly" } } }),
        "build.json": scenario({ tools: { read: { retry: 2 } } }),
        "holds.json": scenario({ name: "the last" })
      })
      const names = ["differs.json", "syntax.json", "keys.json", "missing.json", "build.json", "holds.json"]
      const { code, stderr, stdout } = yield* run(["simulate", ...names.map(file)])
      assert.strictEqual(code, 2)
      assert.include(stdout, "✗ one read")
      assert.include(stdout, "✓ the last")
      assert.match(stderr, /syntax\.json: it is not JSON/)
      assert.match(stderr, /keys\.json: .*3 problems/)
      for (const path of ["tolls", "tools.read.takes", "tools.read.klass"]) assert.include(stderr, `  ${path}: `)
      assert.match(stderr, /missing\.json: there is no such file/)
      assert.match(stderr, /build\.json: .*\n {2}.*retry/)
    }))

  it.live("does not hold names of tools against a file whose tools cannot be told", () =>
    Effect.gen(function*() {
      const { file } = yield* folder({
        "list.json": { tools: ["a"], rules: [{ _tag: "MaxCalls", tool: "a", max: 1 }], policy: { allow: ["a"] } }
      })
      const { code, stderr } = yield* run(["simulate", file("list.json")])
      assert.strictEqual(code, 2)
      assert.include(stderr, "tools: it is [\"a\"]; expected object")
      assert.notInclude(stderr, "there is no tool")
    }))

  it.live("prints one JSON document for programs, with the times of every outcome", () =>
    Effect.gen(function*() {
      const { file } = yield* folder({
        "holds.json": scenario(),
        "differs.json": scenario({}, "Failed"),
        "wrong.json": "[]"
      })
      const names = ["holds.json", "differs.json", "wrong.json"]
      const { code, stderr, stdout } = yield* run(["simulate", "--json", ...names.map(file)])
      const results = JSON.parse(stdout) as ReadonlyArray<Played>
      assert.strictEqual(code, 2)
      assert.include(stderr, "wrong.json")
      assert.deepStrictEqual(results.map((it) => it.status), ["holds", "differs", "wrong"])
      assert.deepStrictEqual(results.map((it) => it.file), names.map(file))
      const wave = results[0]?.waves?.[0]
      assert.strictEqual(wave?.elapsed, 50)
      assert.deepInclude(wave?.outcomes[0], { start: 0, end: 50, _tag: "Succeeded", callId: "1", tool: "read" })
      assert.deepStrictEqual(results[1]?.differences, [
        { where: "script[0].expect.outcomes[0].tag", expected: "Failed", got: "Succeeded" }
      ])
    }))
})
