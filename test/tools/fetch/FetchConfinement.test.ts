/**
 * What `fetch_url` never reaches. A server on loopback listens where every URL
 * here leads to, if it leads anywhere: it must not see a connection.
 */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { failureOf, fetch, serve, text } from "../web.ts"

/** Names that lead to loopback, as names of an attacker do. */
const attacker = { lookup: () => Effect.succeed(["127.0.0.1"]) }

/** Without the port of the server, which takes the place of `PORT`. */
const refused: ReadonlyArray<readonly [url: string, error: "InvalidUrl" | "ForbiddenAddress"]> = [
  // loopback, however it is spelt
  ...[
    "http://127.0.0.1:PORT/",
    "https://127.0.0.1:PORT/",
    "http://127.1:PORT/",
    "http://127.0.1:PORT/",
    "http://2130706433:PORT/",
    "http://0x7f000001:PORT/",
    "http://0x7F.0x0.0x0.0x1:PORT/",
    "http://0x7f.1:PORT/",
    "http://017700000001:PORT/",
    "http://0177.0.0.1:PORT/",
    "http://0177.0.0.01:PORT/",
    "http://0000000177.0.0.1:PORT/",
    "http://127.0.0.1.:PORT/",
    "http://127.0.0.2:PORT/",
    "http://127.255.255.254:PORT/",
    "http://127。0。0。1:PORT/",
    "http://127．0．0．1:PORT/",
    "http://１２７.0.0.1:PORT/",
    "http://①②⑦.0.0.1:PORT/",
    "http://%31%32%37.0.0.1:PORT/",
    "http://127%2e0%2e0%2e1:PORT/",
    "http:127.0.0.1:PORT/",
    "http:/127.0.0.1:PORT/",
    "http:////127.0.0.1:PORT/",
    "http:\\\\127.0.0.1:PORT\\",
    "\u0000 http://127.0.0.1:PORT/",
    "ht\ntp://127.0.\t0.1:PORT/",
    "http://@127.0.0.1:PORT/",
    "http://127.0.0.1:PORT\\@example.com/",
    "http://127.0.0.1:PORT#@example.com/",
    "http://0:PORT/",
    "http://0.0.0.0:PORT/",
    "http://0x0:PORT/",
    "http://[::1]:PORT/",
    "http://[0:0:0:0:0:0:0:1]:PORT/",
    "http://[0000::0001]:PORT/",
    "http://[::]:PORT/",
    "http://[::127.0.0.1]:PORT/",
    "http://[::ffff:127.0.0.1]:PORT/",
    "http://[::FFFF:7f00:1]:PORT/",
    "http://[0:0:0:0:0:ffff:127.0.0.1]:PORT/",
    "http://[::ffff:0:127.0.0.1]:PORT/",
    "http://[64:ff9b::127.0.0.1]:PORT/",
    "http://[64:ff9b::7f00:1]:PORT/",
    "http://[64:ff9b:1::7f00:1]:PORT/",
    "http://[2002:7f00:1::]:PORT/",
    "http://[2001:0:4136:e378:8000:63bf:80ff:fffe]:PORT/",
    // names that lead there
    "http://localhost:PORT/",
    "http://LOCALHOST:PORT/",
    "http://localhost.:PORT/",
    "http://ⓛⓞⓒⓐⓛⓗⓞⓢⓣ:PORT/",
    "http://loc\u00adalhost:PORT/",
    "http://sub.localhost:PORT/",
    "http://localtest.me:PORT/",
    "http://127.0.0.1.nip.io:PORT/",
    "https://example.com:PORT/",
    "http://xn--exmple-cua.com:PORT/",
    // other networks that are not public
    "http://169.254.169.254/latest/meta-data/",
    "http://2852039166/",
    "http://0xA9FEA9FE/",
    "http://[::ffff:a9fe:a9fe]/",
    "http://[fd00:ec2::254]/",
    "http://100.100.100.200/",
    "http://192.0.0.192/",
    "http://168.63.129.16/",
    "http://10.0.0.1/",
    "http://167772161/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.1.1/",
    "http://3232235777/",
    "http://100.64.0.1/",
    "http://198.18.0.1/",
    "http://224.0.0.1/",
    "http://239.255.255.250/",
    "http://255.255.255.255/",
    "http://4294967295/",
    "http://[fe80::1]/",
    "http://[fec0::1]/",
    "http://[fc00::1]/",
    "http://[ff02::1]/",
    "http://[2001:db8::1]/",
    "http://[100::1]/"
  ].map((url) => [url, "ForbiddenAddress"] as const),
  // what is no URL of the web
  ...[
    "",
    "127.0.0.1:PORT",
    "localhost:PORT/",
    "//127.0.0.1:PORT/",
    "/etc/passwd",
    "file:///etc/passwd",
    "file://127.0.0.1:PORT/",
    "ftp://127.0.0.1:PORT/",
    "gopher://127.0.0.1:PORT/_x",
    "ws://127.0.0.1:PORT/",
    "data:text/plain,hello",
    "javascript:alert(1)",
    "blob:http://127.0.0.1:PORT/x",
    "view-source:http://127.0.0.1:PORT/",
    "jar:http://127.0.0.1:PORT/!/",
    "unix:/var/run/docker.sock",
    "http+unix://%2Fvar%2Frun%2Fdocker.sock/",
    "http://",
    "http://.:PORT/",
    "http://..:PORT/",
    "http://localhost..:PORT/",
    "http://a..b:PORT/",
    "http://*:PORT/",
    "http://*.example.com:PORT/",
    "http://exa mple.com:PORT/",
    "http://example.com%00.evil.com:PORT/",
    "http://127.0.0.1%0d%0aHost:evil.com:PORT/",
    "http://256.256.256.256:PORT/",
    "http://1.2.3.4.5:PORT/",
    "http://127.0.0.1:99999/",
    "http://127.0.0.1:-1/",
    "http://127.0.0.1:0/",
    "http://[::1:PORT/",
    "http://[fe80::1%25lo]:PORT/",
    "http://[127.0.0.1]:PORT/",
    "http://user@127.0.0.1:PORT/",
    "http://user:pass@127.0.0.1:PORT/",
    "http://:pass@127.0.0.1:PORT/",
    "http://example.com@127.0.0.1:PORT/",
    "http://example.com%40127.0.0.1:PORT@127.0.0.1:PORT/",
    "http:\\\\example.com@127.0.0.1:PORT/",
    `http://${"a.".repeat(127)}com:PORT/`,
    `http://${"a".repeat(64)}.com:PORT/`,
    `http://127.0.0.1:PORT/${"a".repeat(8_000)}`
  ].map((url) => [url, "InvalidUrl"] as const)
]

/** The same server, where the host allows it. */
const allowed: ReadonlyArray<readonly [url: string, host: string, allowPrivate: string]> = [
  ["http://127.0.0.1:PORT/", "127.0.0.1:PORT", "127.0.0.1"],
  ["http://127.1:PORT/", "127.0.0.1:PORT", "127.0.0.0/8"],
  ["http://2130706433:PORT/", "127.0.0.1:PORT", "127.0.0.1/32"],
  ["http://0x7f.1:PORT/", "127.0.0.1:PORT", "0.0.0.0/0"],
  ["http:\\\\127.0.0.1.:PORT\\", "127.0.0.1:PORT", "127.0.0.1"],
  ["http://１２７.0.0.1:PORT/", "127.0.0.1:PORT", "127.0.0.1"],
  ["http://[::ffff:127.0.0.1]:PORT/", "[::ffff:7f00:1]:PORT", "::ffff:0:0/96"],
  ["http://Localhost.:PORT/", "localhost:PORT", "LOCALHOST"],
  ["http://a.example.test:PORT/?q=\n1#x", "a.example.test:PORT", "127.0.0.1"],
  ["http://EXÄMPLE.test:PORT/", "xn--exmple-cua.test:PORT", "exämple.test"],
  ["http://under_score.example.test:PORT/@x:y", "under_score.example.test:PORT", "127.0.0.1"]
]

describe("fetch_url", () => {
  it.live(`refuses ${refused.length} spellings of what is not public or no URL, and connects to none`, () =>
    Effect.gen(function*() {
      assert.strictEqual(new Set(refused.map(([url]) => url)).size, refused.length)
      const { connections, port } = yield* serve(text("secret"))
      const elsewhere = yield* serve(text("secret"), { address: "127.0.0.2" })
      for (const [spelt, error] of refused) {
        const url = spelt.replaceAll("PORT", String(port))
        const failure = yield* failureOf({ url }, attacker)
        assert.strictEqual(failure.error, error, JSON.stringify(spelt))
        assert.isNotEmpty(failure.message)
        assert.isAtMost(failure.url.length, 301)
      }
      assert.deepStrictEqual([connections.made, elsewhere.connections.made], [0, 0])
    }))

  for (const [spelt, host, allowPrivate] of allowed) {
    it.live(`reaches ${JSON.stringify(spelt)} where ${allowPrivate} is allowed`, () =>
      Effect.gen(function*() {
        const { port, requests } = yield* serve(text("reached"))
        const url = spelt.replace("PORT", String(port))
        assert.include(yield* fetch({ url }, { ...attacker, allowPrivate: [allowPrivate] }), { text: "reached" })
        assert.strictEqual(requests[0]?.[1], host.replace("PORT", String(port)))
      }))
  }
})
