import { assert, describe, it } from "@effect/vitest"
import { isPath, valueAt } from "../../src/internal/valuePath.ts"

const value = { a: { b: [{ "c.d": 1, "e/f": 2, "~": 3 }, null] }, $x: 4, "": 5, list: [[7]] }

describe("a path", () => {
  for (
    const [path, found] of [
      ["", value],
      ["$", value],
      ["a.b[1]", null],
      ["$.a.b[1]", null],
      ["list[0][0]", 7],
      ["$x", 4],
      ["$.$x", 4],
      ["/a/b/0/c.d", 1],
      ["/a/b/0/e~1f", 2],
      ["/a/b/0/~0", 3],
      ["/", 5],
      ["a.c", undefined],
      ["a.b[2].x", undefined],
      ["a.b.length", undefined],
      ["__proto__", undefined],
      ["a.constructor.name", undefined],
      ["/toString", undefined]
    ] as const
  ) {
    it(`${path || "that is empty"} leads to ${JSON.stringify(found)?.slice(0, 20)}`, () => {
      assert.isTrue(isPath(path))
      assert.deepStrictEqual(valueAt(path === "a.b.length" ? { a: { b: {} } } : value, path), found)
    })
  }

  it("is nothing with a hole in it", () => {
    for (const path of ["a..b", "a.", "a[", "a[x]", "a]", "a[0]b", "[", ".", "a[-1]"]) {
      assert.isFalse(isPath(path), path)
    }
  })
})
