/**
 * The page's files, handed out as they were built. That nothing else gets in, no other host, no script that
 * is not in a file, no markup made of texts, is what `Door.headers` say with every response.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as HttpRouter from "effect/http/HttpRouter"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import type * as Layer from "effect/Layer"
import * as Path from "effect/Path"

/**
 * Options of the page.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** Where the page was built to. Default: what is in the package. */
  readonly folder?: string | undefined
}

/**
 * Layer of the page's routes: `/`, and what it names below `/assets/`. The files are read once,
 * when the layer is built, and there is a route for each of them and for nothing else: no path that
 * is asked for is ever looked up.
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (
  options: Options = {}
): Layer.Layer<never, never, HttpRouter.HttpRouter | FileSystem.FileSystem | Path.Path> =>
  HttpRouter.use(Effect.fnUntraced(function*(router) {
    const path = yield* Path.Path
    const built = [new URL("../page/", import.meta.url), new URL("../../dist/page/", import.meta.url)]
    const folders = options.folder === undefined ? yield* Effect.forEach(built, path.fromFileUrl) : [options.folder]
    const routes = yield* Effect.firstSuccessOf(folders.map(read)).pipe(Effect.orElseSucceed(() => notBuilt))
    for (const [at, response] of routes) yield* router.add("GET", at, response)
  }, Effect.orDie))

// Utilities

type Routes = ReadonlyArray<readonly [path: `/${string}`, response: HttpServerResponse.HttpServerResponse]>

const types: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8"
}

/** A name with a hash in it never stands for something else. */
const immutable = "public, max-age=31536000, immutable"

const read = Effect.fnUntraced(function*(folder: string) {
  const files = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const give = Effect.fnUntraced(function*(cacheControl: string, ...names: ReadonlyArray<string>) {
    const content = yield* files.readFile(path.join(folder, ...names))
    const contentType = types[path.extname(names.at(-1) ?? "")] ?? "application/octet-stream"
    return HttpServerResponse.uint8Array(content, { contentType, headers: { "cache-control": cacheControl } })
  })
  const assets = yield* files.readDirectory(path.join(folder, "assets"))
  const routes: Routes = [
    ["/", yield* give("no-cache", "index.html")],
    ...yield* Effect.forEach(
      assets,
      (name) => Effect.map(give(immutable, "assets", name), (it) => [`/assets/${name}` as const, it] as const)
    )
  ]
  return routes
})

/** A checkout has the page's sources alone until it is built. */
const notBuilt: Routes = [[
  "/",
  HttpServerResponse.text("The page is not built: npm run build", { status: 404 })
]]
