/**
 * Holds what the package shows: what users need, and no part of the engine.
 */
import { assert, describe, it } from "@effect/vitest"
import { existsSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"

const root = fileURLToPath(new URL("../", import.meta.url))

const { exports } = JSON.parse(readFileSync(`${root}package.json`, "utf8")) as {
  readonly exports: Readonly<Record<string, { readonly default: string } | string | null>>
}

const shown = Array.from(
  readFileSync(`${root}src/index.ts`, "utf8").matchAll(/from "\.\/([^"]+)"/g),
  ([, file]) => file!
)

describe("the package", () => {
  it("shows no part of the engine in its index", () => {
    assert.isAbove(shown.length, 30)
    assert.deepStrictEqual(shown.filter((it) => /^(?:internal|cli)\//.test(it)), [])
  })

  it("has entries for modules, and none for folders", () => {
    assert.deepStrictEqual(Object.keys(exports).filter((it) => it.includes("*")), [])
    assert.deepStrictEqual(
      Object.values(exports).filter((it) =>
        typeof it === "object" && it !== null &&
        !existsSync(it.default.replace("./dist/", `${root}src/`).replace(/\.js$/, ".ts"))
      ),
      []
    )
  })
})
