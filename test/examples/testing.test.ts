/** Runs the tests that `docs/testing.md` shows. */
import { assert, describe, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import "../../scripts/examples/testing.ts"

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), "utf8")

describe("the guide about tests", () => {
  it("shows them as they are", () => {
    assert.include(read("docs/testing.md"), read("scripts/examples/testing.ts").replace(/^\/\*\*[^]*?\*\/\n/, ""))
  })
})
