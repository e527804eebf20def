/** Runs the tests that `docs/gates.md` shows. */
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import "../../scripts/examples/gates.ts"

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8")

describe("the guide about gates", () => {
  it("shows them as they are", () => {
    assert.include(read("docs/gates.md"), read("scripts/examples/gates.ts").replace(/^\/\*\*[^]*?\*\/\n/, ""))
  })
})
