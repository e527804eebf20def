/**
 * Holds what the package shows: what users need, and no part of the engine.
 */
import { assert, describe, it } from "@effect/vitest"
import { readdirSync, readFileSync } from "node:fs"
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
    assert.deepStrictEqual(shown.filter((it) => /^(?:execution|internal|cli)\//.test(it)), [])
  })

  it("has a folder closed, or an entry of its own for it", () => {
    const folders = readdirSync(`${root}src`, { withFileTypes: true }).filter((it) => it.isDirectory())
    const entries = Object.values(exports).flatMap((it) =>
      typeof it === "object" && it !== null ? it.default.split("/")[2]! : []
    )
    assert.deepStrictEqual(
      folders.map(({ name }) => name).filter((name) => exports[`./${name}/*`] !== null && !entries.includes(name)),
      []
    )
    assert.isNull(exports["./execution/*"])
  })

  it("shows in its index what is public of a closed folder, by one way alone", () => {
    const closed = Object.entries(exports).flatMap(([path, it]) => it === null ? [path.slice(2, -1)] : [])
    const inside = shown.filter((it) => it.includes("/"))
    assert.deepStrictEqual(inside.filter((it) => !closed.some((folder) => it.startsWith(folder))), [])
  })
})
