/** Writing what is there already. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as NodeFs from "node:fs"
import { call, makeFolders, put, recorder } from "./fixture.ts"
import { throughPolicy } from "./policy.ts"

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
