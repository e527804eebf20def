/** The page's files, over real HTTP. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as RequestGuard from "../../../src/server/guard/RequestGuard.ts"
import { start } from "../../support/Server.ts"

const built = Effect.acquireRelease(
  Effect.sync(() => {
    const folder = mkdtempSync(join(tmpdir(), "effect-tool-executor-assets-"))
    mkdirSync(join(folder, "page/assets"), { recursive: true })
    writeFileSync(join(folder, "page/index.html"), "<title>the page</title>")
    writeFileSync(join(folder, "page/assets/page-1234.js"), "void 0")
    writeFileSync(join(folder, "secret.txt"), "hunter2")
    return folder
  }),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true }))
)

describe("the page's files", () => {
  it.live("are there for who is not logged in, under a policy that lets nothing else in", () =>
    Effect.gen(function*() {
      const folder = join(yield* built, "page")
      const server = yield* start({ server: { page: { folder } } })
      const page = yield* server.request(undefined, "GET", "/")
      assert.strictEqual(page.status, 200)
      assert.include(page.text, "the page")
      assert.match(page.headers.get("content-type")!, /^text\/html; charset=utf-8/)
      assert.strictEqual(page.headers.get("cache-control"), "no-cache")
      const script = yield* server.request(undefined, "GET", "/assets/page-1234.js")
      assert.match(script.headers.get("content-type")!, /^text\/javascript/)
      assert.include(script.headers.get("cache-control")!, "immutable")
      for (const { headers } of [page, script]) {
        for (const [name, value] of Object.entries(RequestGuard.headers)) assert.strictEqual(headers.get(name), value)
      }
    }))

  it.live("are the only ones", () =>
    Effect.gen(function*() {
      const folder = join(yield* built, "page")
      const server = yield* start({ server: { page: { folder } } })
      const paths = [
        "/assets/",
        "/assets/..%2f..%2fsecret.txt",
        "/assets/../../secret.txt",
        "/..%2fsecret.txt",
        "/index.html"
      ]
      for (const path of paths) {
        const { status, text } = yield* server.request(undefined, "GET", path)
        assert.strictEqual(status, 404, path)
        assert.notInclude(text, "hunter2")
      }
    }))

  it.live("are missed in words where they were not built, and not at all where none are wanted", () =>
    Effect.gen(function*() {
      const missing = yield* start({ server: { page: { folder: join(yield* built, "nowhere") } } })
      const answer = yield* missing.request(undefined, "GET", "/")
      assert.strictEqual(answer.status, 404)
      assert.include(answer.text, "npm run build")
      const without = yield* start({ server: { page: false } })
      assert.strictEqual((yield* without.request(undefined, "GET", "/")).status, 404)
    }))
})
