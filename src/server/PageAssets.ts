/**
 * The page, as it was built: read once, kept in memory, and compressed for those who take it. Only what is in its
 * folder has an address, and it has one: no path is ever put together of what a client sends.
 */
import { sha256 } from "@noble/hashes/sha2.js"
import * as Effect from "effect/Effect"
import * as Hex from "effect/encoding/Hex"
import * as FileSystem from "effect/FileSystem"
import * as HttpRouter from "effect/http/HttpRouter"
import type * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"

/** Where the page is. */
export interface Options {
  /** Folder that the build wrote. Default: that of this package, or of the checkout. */
  readonly folder?: string | undefined
}

/** Layer that serves the page at `/`. Without one the address says how it is built. */
export const layer = (
  options?: Options
): Layer.Layer<never, never, HttpRouter.HttpRouter | FileSystem.FileSystem | Path.Path> =>
  Layer.effectDiscard(
    Effect.gen(function*() {
      const path = yield* Path.Path
      const router = yield* HttpRouter.HttpRouter
      const built = [new URL("../page/", import.meta.url), new URL("../../dist/page/", import.meta.url)]
      const folders = options?.folder === undefined
        ? yield* Effect.orDie(Effect.forEach(built, (it) => path.fromFileUrl(it)))
        : [options.folder]
      const found = yield* Effect.forEach(folders, read)
      const assets = found.find((it) => it.has("/index.html"))
      if (assets === undefined) {
        yield* Effect.logWarning(`There is no page in ${folders.join(" or ")}: npm run build`)
        return yield* router.add("GET", "/", notBuilt)
      }
      for (const [address, asset] of assets) {
        yield* router.add("GET", address === "/index.html" ? "/" : address as `/${string}`, (request) =>
          Effect.succeed(responseOf(asset, request)))
      }
    })
  )

// Utilities

interface Asset {
  readonly bytes: Uint8Array
  /** `undefined`: it is not worth it. */
  readonly gzip: Uint8Array | undefined
  readonly type: string
  readonly etag: string
  readonly cacheControl: string
}

const notBuilt = HttpServerResponse.text("The page has not been built: npm run build. The API is there without it.\n", {
  status: 404
})

const types: ReadonlyMap<string, string> = new Map([
  [".html", "text/html; charset=utf-8"],
  [".js", "text/javascript; charset=utf-8"],
  [".css", "text/css; charset=utf-8"],
  [".svg", "image/svg+xml"],
  [".png", "image/png"],
  [".txt", "text/plain; charset=utf-8"]
])

/** The files by address. What cannot be read is not there. */
const read = Effect.fnUntraced(function*(folder: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const names = yield* Effect.orElseSucceed(fs.readDirectory(folder, { recursive: true }), () => [])
  const assets = yield* Effect.forEach(names, (name) =>
    Effect.gen(function*() {
      const type = types.get(path.extname(name))
      if (type === undefined) return []
      const bytes = yield* fs.readFile(path.join(folder, name))
      const address = `/${name.replaceAll("\\", "/")}`
      const zipped = yield* Effect.promise(() => gzipped(bytes))
      const asset: Asset = {
        bytes,
        gzip: zipped.length < bytes.length ? zipped : undefined,
        type,
        etag: `"${Hex.encode(sha256(bytes)).slice(0, 32)}"`,
        // the names below have a hash of what is in them
        cacheControl: address.startsWith("/assets/") ? "public, max-age=31536000, immutable" : "no-cache"
      }
      return [[address, asset] as const]
    }).pipe(Effect.orElseSucceed(() => [])))
  return new Map(assets.flat())
})

const gzipped = async (bytes: Uint8Array): Promise<Uint8Array> => {
  const stream = new Blob([bytes.slice()]).stream().pipeThrough(new CompressionStream("gzip"))
  return new Uint8Array(await new Response(stream).arrayBuffer())
}

const responseOf = (
  asset: Asset,
  request: HttpServerRequest.HttpServerRequest
): HttpServerResponse.HttpServerResponse => {
  const headers = { "cache-control": asset.cacheControl, etag: asset.etag, vary: "accept-encoding" }
  const known = (request.headers["if-none-match"] ?? "").split(",").map((it) => it.trim().replace(/^W\//, ""))
  if (known.includes(asset.etag) || known.includes("*")) return HttpServerResponse.empty({ status: 304, headers })
  const isZipped = asset.gzip !== undefined && takesGzip(request.headers["accept-encoding"] ?? "")
  return HttpServerResponse.uint8Array(isZipped ? asset.gzip : asset.bytes, {
    contentType: asset.type,
    headers: isZipped ? { ...headers, "content-encoding": "gzip" } : headers
  })
}

const takesGzip = (accepted: string): boolean =>
  /(?:^|,)\s*gzip\s*(?:,|$|;\s*q=(?!0(?:\.0*)?\s*(?:,|$)))/i.test(accepted)
