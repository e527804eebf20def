import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as NodeHttp from "node:http"
import * as NodeNet from "node:net"
import * as PublicAddress from "../../../src/tools/fetch/PublicAddress.ts"
import * as SandboxProxy from "../../../src/tools/sandbox/SandboxProxy.ts"

/** A server of the internet, which here has a private address. */
const makeServer: Effect.Effect<
  { readonly port: number; readonly hosts: ReadonlyArray<string> },
  never,
  Scope.Scope
> = Effect.gen(function*() {
  const hosts: Array<string> = []
  const server = NodeHttp.createServer((request, response) => {
    hosts.push(`${request.headers.host} ${request.url} ${request.headers["proxy-authorization"] ?? ""}`.trim())
    if (request.url === "/away") {
      response.writeHead(302, { location: "http://other.example/secret" })
      response.end()
    } else response.end("reached")
  })
  yield* Effect.acquireRelease(
    Effect.callback<void>((resume) => void server.listen(0, "127.0.0.1", () => resume(Effect.void))),
    () => Effect.sync(() => server.close())
  )
  return { port: (server.address() as NodeNet.AddressInfo).port, hosts }
})

interface Given extends Partial<SandboxProxy.Options> {
  readonly private?: ReadonlyArray<string>
}

const open = ({ private: allowed = ["127.0.0.1"], ...given }: Given) =>
  SandboxProxy.make({
    allow: [],
    reach: Result.getOrThrow(PublicAddress.reach(allowed)),
    lookup: () => Effect.succeed(["127.0.0.1"]),
    mayReach: () => Effect.succeed(false),
    ...given
  })

/** Sends lines as they are; gives all that comes back. */
const send = (socket: string, lines: ReadonlyArray<string>) =>
  Effect.callback<string>((resume) => {
    let answer = ""
    let isThrough = false
    const connection = NodeNet.connect(socket, () => connection.write(`${lines.join("\r\n")}\r\n\r\n`))
    connection.on("data", (chunk) => {
      answer += chunk.toString()
      if (answer.includes("200 Connection Established") && !isThrough) {
        isThrough = true
        connection.write("GET /inside HTTP/1.1\r\nHost: inside\r\nConnection: close\r\n\r\n")
      }
    })
    connection.on("error", () => undefined)
    connection.on("close", () => resume(Effect.succeed(answer)))
    setTimeout(() => connection.destroy(), 3_000).unref()
  })

const get = (socket: string, url: string, ...headers: ReadonlyArray<string>) =>
  send(socket, [`GET ${url} HTTP/1.1`, ...headers.length === 0 ? ["Host: x"] : headers, "Connection: close"])

const tunnel = (socket: string, to: string) => send(socket, [`CONNECT ${to} HTTP/1.1`, `Host: ${to}`])

describe("the proxy of a sandbox", () => {
  it.live("lets listed hosts through, by request and by tunnel", () =>
    Effect.gen(function*() {
      const { hosts, port } = yield* makeServer
      const { refused, socket } = yield* open({ allow: [`a.example:${port}`, `*.b.example:${port}`] })
      assert.include(yield* get(socket, `http://a.example:${port}/x`), "reached")
      assert.include(yield* get(socket, `http://deep.b.example:${port}/x`), "reached")
      assert.include(yield* tunnel(socket, `a.example:${port}`), "reached")
      assert.deepStrictEqual(hosts, [`a.example:${port} /x`, `deep.b.example:${port} /x`, "inside /inside"])
      assert.deepStrictEqual(refused(), [])
    }).pipe(Effect.scoped))

  it.live("refuses other hosts, ports and spellings, without looking them up", () =>
    Effect.gen(function*() {
      const { hosts, port } = yield* makeServer
      const names: Array<string> = []
      const { refused, socket } = yield* open({
        allow: ["a.example", "*.b.example"],
        lookup: (name) => {
          names.push(name)
          return Effect.succeed(["127.0.0.1"])
        }
      })
      for (
        const url of [
          `http://c.example/`,
          `http://a.example:${port}/`,
          `http://a.example.evil.example/`,
          `http://evil.example#a.example/`,
          `http://xb.example/`,
          `http://b.example/`,
          `http://127.0.0.1:${port}/`,
          `http://2130706433:${port}/`,
          `http://0x7f.1:${port}/`,
          `http://[::ffff:127.0.0.1]:${port}/`
        ]
      ) {
        assert.match(yield* get(socket, url), /403|^$/, url)
      }
      for (const to of ["c.example:443", "a.example:22", "a.example:80", `127.0.0.1:${port}`, `[::1]:${port}`]) {
        assert.include(yield* tunnel(socket, to), "403", to)
      }
      assert.deepStrictEqual(names, [])
      assert.deepStrictEqual(hosts, [])
      assert.include(refused(), "c.example")
    }).pipe(Effect.scoped), { tags: ["SB6"] })

  it.live("refuses what is no host, and what is no request to a proxy", () =>
    Effect.gen(function*() {
      const { socket } = yield* open({ allow: ["*"] })
      for (const url of ["/x", "https://a.example/", "ftp://a.example/", "http://u:p@a.example/", "http://"]) {
        assert.include(yield* get(socket, url), "400", url)
      }
      for (const to of ["a.example", "a.example:0", "a.example:99999", "u@a.example:443", "a.example:443/x"]) {
        assert.match(yield* tunnel(socket, to), /400|^$/, to)
      }
      assert.notInclude(
        yield* send(socket, ["GET http://a.example/ HTTP/1.1", "Host: x", "Upgrade: websocket", "Connection: Upgrade"]),
        "101"
      )
    }).pipe(Effect.scoped))

  it.live("calls a server what was judged, whatever the command calls it, and follows no redirect", () =>
    Effect.gen(function*() {
      const { hosts, port } = yield* makeServer
      const { socket } = yield* open({ allow: [`a.example:${port}`] })
      yield* get(socket, `http://a.example:${port}/x`, "Host: other.example", "Proxy-Authorization: Basic eA==")
      assert.deepStrictEqual(hosts, [`a.example:${port} /x`])
      assert.include(yield* get(socket, `http://a.example:${port}/away`), "302")
      assert.include(yield* get(socket, "http://other.example/secret"), "403")
    }).pipe(Effect.scoped))

  it.live("connects to no private address, whichever of the addresses of a name it is", () =>
    Effect.gen(function*() {
      const { hosts, port } = yield* makeServer
      for (
        const addresses of [["127.0.0.1"], ["93.184.216.34", "127.0.0.1"], ["169.254.169.254"], ["::1"], ["10.0.0.1"]]
      ) {
        const { socket } = yield* open({ allow: ["*"], private: [], lookup: () => Effect.succeed(addresses) })
        assert.include(yield* get(socket, `http://rebound.example:${port}/`), "403", addresses.join())
        assert.include(yield* tunnel(socket, `rebound.example:${port}`), "403", addresses.join())
      }
      assert.deepStrictEqual(hosts, [])
    }).pipe(Effect.scoped), { tags: ["SB6"] })

  it.live("looks a name up once for each connection, and connects to what was checked", () =>
    Effect.gen(function*() {
      const { port } = yield* makeServer
      let times = 0
      const { socket } = yield* open({
        allow: ["*"],
        lookup: () => Effect.sync(() => times++ === 0 ? ["127.0.0.1"] : ["10.0.0.1"])
      })
      assert.include(yield* get(socket, `http://rebound.example:${port}/`), "reached")
      assert.strictEqual(times, 1)
      assert.include(yield* get(socket, `http://rebound.example:${port}/`), "403")
    }).pipe(Effect.scoped))

  it.live("asks once about a host that is not listed, for all connections to it", () =>
    Effect.gen(function*() {
      const { port } = yield* makeServer
      const asked: Array<string> = []
      const { refused, socket } = yield* open({
        mayReach: (host) =>
          Effect.andThen(
            Effect.sync(() => void asked.push(host)),
            Effect.as(Effect.sleep("50 millis"), host.startsWith("yes"))
          )
      })
      const yes = yield* Effect.all(
        Array.from({ length: 4 }, () => get(socket, `http://yes.example:${port}/`)),
        { concurrency: 4 }
      )
      assert.isTrue(yes.every((it) => it.includes("reached")))
      assert.include(yield* get(socket, `http://no.example:${port}/`), "may not reach no.example")
      assert.include(yield* get(socket, `http://no.example:${port}/`), "403")
      assert.deepStrictEqual(asked, [`yes.example:${port}`, `no.example:${port}`])
      assert.deepStrictEqual(refused(), [`no.example:${port}`])
    }).pipe(Effect.scoped))

  it("reads listed hosts, and says what is not one", () => {
    for (
      const [text, expected] of [
        ["Registry.NPMjs.org.", "registry.npmjs.org"],
        ["*.Example.com", "*.example.com"],
        ["localhost:3000", "localhost:3000"],
        ["bücher.example", "xn--bcher-kva.example"],
        ["*", "*"]
      ] as const
    ) {
      assert.deepStrictEqual(SandboxProxy.readHost(text), Result.succeed(expected))
    }
    for (const text of ["", "https://a.example", "a.example/x", "u@a.example", "a b", "a.*.example", "*example.com"]) {
      assert.isTrue(Result.isFailure(SandboxProxy.readHost(text)), text)
    }
  })
})
