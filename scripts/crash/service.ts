// What the tools do happens here, outside of every process that is killed.
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"

/** What becomes of a request: whoever sent it may be killed before it counts, or before it is answered. */
export interface Hooks {
  readonly before: (id: string) => void
  readonly after: (id: string) => void
}

/** A service on loopback that counts what is done. */
export const start = async (hooks: Hooks) => {
  const done = new Map<string, number>()
  const keys = new Set<string>()
  const server = createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url!, "http://localhost")
    const [id = "", key = ""] = [searchParams.get("id"), searchParams.get("key")].map((it) => it ?? "")
    if (pathname === "/happened") return void response.end(keys.has(key) ? "yes" : "no")
    hooks.before(id)
    // what is keyed is done once for one key
    if (pathname !== "/keyed" || !keys.has(key)) done.set(id, (done.get(id) ?? 0) + 1)
    keys.add(key)
    hooks.after(id)
    response.end("done")
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    /** How often something was done. */
    count: (id: string) => done.get(id) ?? 0,
    close: () => {
      server.closeAllConnections()
      server.close()
    }
  }
}
