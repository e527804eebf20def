/**
 * Holds what the page is: its size and its files.
 */
import { assert, describe, it } from "@effect/vitest"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { gzipSync } from "node:zlib"
import { builtPage } from "../support/Browser.ts"

const assetsOf = (folder: string) =>
  readdirSync(join(folder, "assets")).map((name) => [name, readFileSync(join(folder, "assets", name))] as const)

describe("the page", () => {
  it("is at most 150 kB uncompressed until somebody edits arguments or looks at the graph, and all of it is 100 kB sent", async () => {
    const folder = await builtPage()
    const index = readFileSync(join(folder, "index.html"), "utf8")
    const assets = assetsOf(folder)
    const first = assets.filter(([name]) => index.includes(name))
    assert.strictEqual(first.length, 2)
    assert.isAtLeast(assets.length, 4)
    const bytes = (of: typeof assets, size: (content: Uint8Array) => number) =>
      of.reduce((sum, [, content]) => sum + size(content), size(Buffer.from(index)))
    assert.isAtMost(bytes(first, (it) => it.length), 150_000)
    const worker = ["sw.js", readFileSync(join(folder, "sw.js"))] as const
    assert.isAtMost(bytes([...assets, worker], (it) => gzipSync(it).length), 100_000)
  })

  it("names the licences of what is in it", async () => {
    const licences = readFileSync(join(await builtPage(), "licences.txt"), "utf8")
    for (const name of ["preact", "@preact/signals", "htm", "effect", "@dagrejs/dagre"]) {
      assert.include(licences, `${name}\n\n`)
    }
  })

  it("is whole at every look, however many build it at once", async () => {
    const folders = await Promise.all([builtPage(), builtPage(), builtPage()])
    assert.strictEqual(new Set(folders).size, 1)
    assert.include(readdirSync(folders[0]), "index.html")
  })
})
