/** The page as it is served: what is in its folder, and nothing else. */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as HttpRouter from "effect/http/HttpRouter"
import * as Layer from "effect/Layer"
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as PageAssets from "../../../src/server/api/PageAssets.ts"
import * as RequestGuard from "../../../src/server/guard/RequestGuard.ts"
import * as Access from "../../../src/server/users/Access.ts"
import { send, sendRaw } from "../../support/Doors.ts"

const served = (files: Readonly<Record<string, string>>) =>
  Effect.provide(Layer.unwrap(Effect.gen(function*() {
    const parent = yield* Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "page-"))),
      (it) => Effect.sync(() => rmSync(it, { recursive: true }))
    )
    writeFileSync(join(parent, "secret.txt"), "hunter2")
    mkdirSync(join(parent, "page/assets"), { recursive: true })
    for (const [name, text] of Object.entries(files)) writeFileSync(join(parent, "page", name), text)
    const app = PageAssets.layer({ folder: join(parent, "page") }).pipe(
      Layer.provideMerge(RequestGuard.layer()),
      Layer.provide(Access.layer({ users: [] }))
    )
    return HttpRouter.serve(app, { disableListenLog: true, disableLogger: true }).pipe(
      Layer.provideMerge(NodeHttpServer.layer(createServer, { port: 0, host: "127.0.0.1" }))
    )
  })))

const page = {
  "index.html": "<!doctype html><title>page</title>",
  "assets/page-1a2b.js": "let a = 1;\n".repeat(500),
  "assets/page-1a2b.css": "a {}",
  "assets/page.js.map": "{}"
}

describe("the page", () => {
  it.live("is served with its types, compressed for who takes it, and not again to who has it", () =>
    Effect.gen(function*() {
      const index = yield* send("/")
      assert.deepStrictEqual([index.status, index.text], [200, page["index.html"]])
      assert.strictEqual(index.headers.get("content-type"), "text/html; charset=utf-8")
      assert.strictEqual(index.headers.get("cache-control"), "no-cache")
      assert.include(index.headers.get("content-security-policy"), "frame-ancestors 'none'")
      const again = yield* send("/", { headers: { "if-none-match": index.headers.get("etag")! } })
      assert.deepStrictEqual([again.status, again.text], [304, ""])
      const script = yield* send("/assets/page-1a2b.js", { headers: { "accept-encoding": "br, gzip;q=0.5" } })
      assert.strictEqual(script.text, page["assets/page-1a2b.js"])
      assert.strictEqual(script.headers.get("content-encoding"), "gzip")
      assert.strictEqual(script.headers.get("cache-control"), "public, max-age=31536000, immutable")
      assert.strictEqual(script.headers.get("vary"), "accept-encoding")
      const plain = yield* send("/assets/page-1a2b.js", { headers: { "accept-encoding": "gzip;q=0, identity" } })
      assert.isNull(plain.headers.get("content-encoding"))
      assert.strictEqual(plain.text, page["assets/page-1a2b.js"])
    }).pipe(served(page)))

  it.live("is all there is: no path leads to what is not of it", () =>
    Effect.gen(function*() {
      const paths = [
        "/secret.txt",
        "/../secret.txt",
        "/assets/../../secret.txt",
        "/assets/%2e%2e/%2e%2e/secret.txt",
        "/assets/..%2f..%2fsecret.txt",
        "/assets/..%5c..%5csecret.txt",
        "/assets/",
        "/assets",
        "/assets/page.js.map",
        "/assets/page-1a2b.js%00.html",
        "/index.html"
      ]
      for (const path of paths) {
        const text = yield* sendRaw(`GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`)
        assert.match(text, /^HTTP\/1\.1 404 /, path)
        assert.notInclude(text, "hunter2")
      }
    }).pipe(served(page)))
})
