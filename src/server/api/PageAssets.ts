/**
 * The built page: read once, kept in memory, and compressed for clients that accept it. Only files in its folder have
 * an address; no path is made from what a client sends.
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

export interface Options {
  /** Folder of the build. Default: the one in this package or checkout. */
  readonly folder?: string | undefined
}

/** Layer that serves the page at `/`. If it is not built, the address says how to build it. */
export const layer = (
  options?: Options
): Layer.Layer<never, never, HttpRouter.HttpRouter | FileSystem.FileSystem | Path.Path> =>
  Layer.effectDiscard(
    Effect.gen(function*() {
      const path = yield* Path.Path
      const router = yield* HttpRouter.HttpRouter
      const built = [new URL("../../page/", import.meta.url), new URL("../../../dist/page/", import.meta.url)]
      const folders = options?.folder === undefined
        ? yield* Effect.orDie(Effect.forEach(built, (it) => path.fromFileUrl(it)))
        : [options.folder]
      const found = yield* Effect.forEach(folders, read)
      const assets = found.find((it) => it.has("/index.html"))
      if (assets === undefined) {
        yield* Effect.logWarning(`The page was not found in ${folders.join(" or ")}. Build it with: npm run build`)
        return yield* router.add("GET", "/", notBuilt)
      }
      for (const [address, asset] of assets) {
        yield* router.add("GET", address === "/index.html" ? "/" : address as `/${string}`, (request) =>
          Effect.succeed(responseOf(asset, request)))
      }
    })
  )

interface Asset {
  readonly bytes: Uint8Array
  /** `undefined` if compression gains too little. */
  readonly gzip: Uint8Array | undefined
  readonly type: string
  readonly etag: string
  readonly cacheControl: string
}

const notBuilt = HttpServerResponse.text("The page is not built. Run: npm run build. The API works without it.\n", {
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

/** The readable files by address. */
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
        // file names contain a hash of the content
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
