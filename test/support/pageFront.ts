/**
 * The page and a real server under one address, as a proxy before them gives it to browsers.
 */
import { readFileSync } from "node:fs"
import { createServer, request as ask } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { policy, typeOf } from "./scriptedServer.ts"

/** What stands before the server. */
export interface Front {
  readonly url: string
  readonly close: () => Promise<void>
}

/** Serves the page of a folder, and hands everything of the API on to the server. */
export const front = async (folder: string, server: string): Promise<Front> => {
  const proxy = createServer((request, response) => {
    const path = request.url ?? "/"
    if (!path.startsWith("/api/")) {
      const file = path === "/" ? "index.html" : path.slice(1)
      response.writeHead(200, { "content-type": typeOf(file), "content-security-policy": policy })
      return response.end(readFileSync(join(folder, file)))
    }
    const onward = ask(server + path, { method: request.method ?? "GET", headers: request.headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers)
      response.flushHeaders()
      answer.pipe(response)
      answer.on("error", () => response.destroy())
    })
    onward.on("error", () => response.destroy())
    response.on("close", () => onward.destroy())
    return request.pipe(onward)
  })
  await new Promise<void>((resolve) => proxy.listen(0, "127.0.0.1", resolve))
  return {
    url: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}/`,
    close: () =>
      new Promise((resolve) => {
        proxy.close(() => resolve())
        proxy.closeAllConnections()
      })
  }
}
