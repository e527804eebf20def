/** Writing what is there already. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NodeFs from "node:fs"
import type { Policy } from "../../../src/index.ts"
import { call, makeFolders, put, recorder } from "../fixture.ts"
import { throughPolicy } from "../policy.ts"

describe("write_file with what is there already", () => {
  it.live("asks nobody, and leaves the very file", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "a.txt": "same\n" })
      const { ino, mtimeMs } = NodeFs.statSync(`${root}/a.txt`)
      const [same, other] = yield* throughPolicy({ root }, {}, [
        ["write_file", { path: "a.txt", content: "same\n" }],
        ["write_file", { path: "b.txt", content: "same\n" }]
      ])
      assert.include(same, "\"created\":false")
      assert.include(other, "approval")
      const after = NodeFs.statSync(`${root}/a.txt`)
      assert.deepStrictEqual([after.ino, after.mtimeMs], [ino, mtimeMs])
    }))

  it.live("asks where the file could not be read without asking: a guess tells nothing", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "pin.txt": "1234" })
      const policies: ReadonlyArray<Policy.Policy> = [
        { deny: ["read_file(pin*)"] },
        { deny: ["read_file"] },
        { ask: ["read_file"] },
        { default: "ask" },
        { default: "ask", allow: ["read_file(*.md)"] }
      ]
      for (const policy of policies) {
        const guesses = yield* throughPolicy({ root }, policy, [
          ["write_file", { path: "pin.txt", content: "1233" }],
          ["write_file", { path: "pin.txt", content: "1234" }]
        ])
        for (const text of guesses) assert.include(text, "approval", JSON.stringify(policy))
        assert.strictEqual(guesses[0], guesses[1])
      }
      const [read] = yield* throughPolicy({ root }, { default: "ask", allow: ["read_file(*.txt)"] }, [
        ["write_file", { path: "pin.txt", content: "1234" }]
      ])
      assert.include(read, "\"created\":false")
    }))

  it.live("commits nothing", () =>
    Effect.gen(function*() {
      const { root } = yield* makeFolders
      put(root, { "a.txt": "same\n" })
      const { layer, seen } = recorder()
      yield* Effect.provide(call({ root }, "write_file", { path: "a.txt", content: "same\n" }), layer)
      assert.strictEqual(seen.commits, 0)
      yield* Effect.provide(call({ root }, "write_file", { path: "a.txt", content: "SAME\n" }), layer)
      assert.strictEqual(seen.commits, 1)
    }))
})
