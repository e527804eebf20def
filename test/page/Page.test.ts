/**
 * Holds what the page is: its size, its files, and that a browser takes it under its policy.
 */
import { assert, describe, it } from "@effect/vitest"
import { readdirSync, readFileSync } from "node:fs"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { brotliCompressSync } from "node:zlib"
import { browserForFile, builtPage } from "../support/Browser.ts"

const assetsOf = (folder: string) =>
  readdirSync(join(folder, "assets")).map((name) => [name, readFileSync(join(folder, "assets", name))] as const)

describe("the page", () => {
  const { visit } = browserForFile()

  it("is at most 150 kB in all, uncompressed", async () => {
    const folder = await builtPage()
    const assets = assetsOf(folder)
    assert.isAtLeast(assets.length, 2)
    const bytes = assets.reduce((sum, [, content]) => sum + content.length, 0)
    assert.isAtMost(bytes, 150_000)
    const sent = assets.reduce((sum, [, content]) => sum + brotliCompressSync(content).length, 0)
    assert.isAtMost(sent, 50_000)
  })

  it("names the licences of what is in it", async () => {
    const licences = readFileSync(join(await builtPage(), "licences.txt"), "utf8")
    for (const name of ["preact", "htm"]) assert.include(licences, `${name}\n\n`)
  })

  it("is whole at every look, however many build it at once", async () => {
    const folders = await Promise.all([builtPage(), builtPage(), builtPage()])
    assert.strictEqual(new Set(folders).size, 1)
    assert.include(readdirSync(folders[0]), "index.html")
  })

  it("comes up", async () => {
    const folder = await builtPage()
    const server = createServer((request, response) => {
      const file = request.url === "/" ? "index.html" : request.url!.slice(1)
      const type = file.endsWith(".js") ? "text/javascript" : file.endsWith(".css") ? "text/css" : "text/html"
      response.writeHead(200, { "content-type": type }).end(readFileSync(join(folder, file)))
    })
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    try {
      const seen = await visit(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`)
      await seen.page.waitForSelector("h1")
      assert.deepStrictEqual(seen.problems, [])
      await seen.close()
    } finally {
      server.closeAllConnections()
      server.close()
    }
  })
})
