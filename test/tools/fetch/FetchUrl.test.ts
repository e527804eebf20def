/** Fetching from real servers on loopback. */
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import { execFileSync } from "node:child_process"
import * as NodeFs from "node:fs"
import * as NodeNet from "node:net"
import * as NodeOs from "node:os"
import * as NodePath from "node:path"
import * as NodeZlib from "node:zlib"
import { until } from "../fixture.ts"
import { failureOf, fetch, loopback, serve, serveBytes, text } from "../web.ts"

/** Every name leads here. */
const here = { ...loopback, lookup: () => Effect.succeed(["127.0.0.1"]) }

describe("fetch_url", () => {
  it.live("gives a text with its status, type and size", () =>
    Effect.gen(function*() {
      const { port, requests } = yield* serve(text("grüße", { "content-type": "text/html; charset=utf-8" }))
      assert.deepStrictEqual(yield* fetch({ url: `http://127.0.0.1:${port}/a?b=c d#e` }), {
        url: `http://127.0.0.1:${port}/a?b=c%20d#e`,
        status: 200,
        contentType: "text/html; charset=utf-8",
        text: "grüße",
        bytes: 7,
        truncated: false
      })
      assert.deepStrictEqual(requests, [["/a?b=c%20d", `127.0.0.1:${port}`]])
    }))

  it.live("takes a status such as 404 for a result, and a body that is empty", () =>
    Effect.gen(function*() {
      const { port } = yield* serve((request, response) => {
        if (request.url === "/empty") response.writeHead(204).end()
        else response.writeHead(404, { "content-type": "application/json" }).end("{\"no\":1}")
      })
      const url = `http://127.0.0.1:${port}`
      assert.include(yield* fetch({ url }), { status: 404, text: "{\"no\":1}" })
      assert.deepStrictEqual(yield* fetch({ url: `${url}/empty` }), {
        url: `${url}/empty`,
        status: 204,
        text: "",
        bytes: 0,
        truncated: false
      })
    }))

  it.live("sends a GET without cookies, credentials or a body, by the name of the host", () =>
    Effect.gen(function*() {
      let seen: unknown
      const { port } = yield* serve((request, response) => {
        seen = [request.method, Object.keys(request.headers).toSorted(), request.headers.host]
        text("x")(request, response)
      })
      yield* fetch({ url: `http://API.example.test.:${port}/` }, here)
      assert.deepStrictEqual(seen, [
        "GET",
        ["accept", "accept-encoding", "connection", "host", "user-agent"],
        `api.example.test:${port}`
      ])
    }))

  it.live("decodes by the charset of the response, and says where it is not known", () =>
    Effect.gen(function*() {
      const { port } = yield* serve((request, response) =>
        text(Uint8Array.of(0xe4), { "content-type": `text/plain; charset=${request.url?.slice(1)}` })(request, response)
      )
      assert.include(yield* fetch({ url: `http://127.0.0.1:${port}/latin1` }), { text: "ä" })
      assert.include(yield* fetch({ url: `http://127.0.0.1:${port}/klingon` }), {
        text: "\ufffd",
        note: "The charset \"klingon\" is unknown. The body was decoded as UTF-8."
      })
    }))

  it.live("refuses what is not text, with its type and size, without reading it", () =>
    Effect.gen(function*() {
      const { connections, port } = yield* serve((request, response) => {
        if (request.url === "/sniffed") text(Uint8Array.of(0x89, 0x50, 0, 0x47), {})(request, response)
        else if (request.url === "/long") text(Buffer.alloc(2_000), {})(request, response)
        // never ends
        else response.writeHead(200, { "content-type": "image/png", "content-length": "123456789" }).write("x")
      })
      const url = `http://127.0.0.1:${port}`
      assert.deepStrictEqual(yield* failureOf({ url: `${url}/` }), {
        error: "BinaryContent",
        url: `${url}/`,
        message:
          "The content (status 200) is not text: image/png, 123456789 bytes. fetch_url returns only text. Look " +
          "for a text version of it."
      })
      yield* until(() => connections.open === 0)
      assert.include((yield* failureOf({ url: `${url}/sniffed` })).message, "of no type, 4 bytes.")
      assert.include(
        (yield* failureOf({ url: `${url}/long`, maxBytes: 1_000 })).message,
        "of no type, of unknown size."
      )
    }))
})

describe("the size of a body", () => {
  it.live("is cut at what the model asks for, what the host allows, or a million bytes", () =>
    Effect.gen(function*() {
      const { connections, port } = yield* serve((_, response) => {
        response.writeHead(200, { "content-type": "text/plain" })
        const flood = () => {
          while (response.write("x".repeat(65_536)));
        }
        response.on("drain", flood)
        flood()
      })
      const url = `http://127.0.0.1:${port}/`
      const sizeOf = (maxBytes: number | undefined, most?: number) =>
        Effect.map(
          fetch({ url, ...(maxBytes === undefined ? {} : { maxBytes }) }, { ...loopback, maxBytes: most }),
          (it) => [it.bytes, it.text.length, it.truncated, it.note]
        )
      const said = (
        bytes: number,
        more: string
      ) => [bytes, bytes, true, `The body continues after ${bytes} bytes. ${more}`]
      assert.deepStrictEqual(yield* sizeOf(1_000), said(1_000, "Raise maxBytes, up to 1000000, to see more."))
      assert.deepStrictEqual(yield* sizeOf(undefined), said(1_000_000, "The rest cannot be returned."))
      assert.deepStrictEqual(yield* sizeOf(9_000_000), said(1_000_000, "The rest cannot be returned."))
      assert.deepStrictEqual(yield* sizeOf(9_000, 5_000), said(5_000, "The rest cannot be returned."))
      yield* until(() => connections.open === 0)
    }))

  it.live("is not cut where it is exactly the limit", () =>
    Effect.gen(function*() {
      const { port } = yield* serve(text("x".repeat(1_000)))
      assert.include(yield* fetch({ url: `http://127.0.0.1:${port}`, maxBytes: 1_000 }), {
        bytes: 1_000,
        truncated: false
      })
      assert.include(yield* fetch({ url: `http://127.0.0.1:${port}`, maxBytes: 999 }), { bytes: 999, truncated: true })
    }))

  for (
    const [coding, pack] of [
      ["gzip", NodeZlib.gzipSync],
      ["X-Gzip", NodeZlib.gzipSync],
      ["deflate", NodeZlib.deflateSync],
      ["br", NodeZlib.brotliCompressSync]
    ] as const
  ) {
    it.live(`counts what ${coding} unpacks to`, () =>
      Effect.gen(function*() {
        const small = pack("grüße")
        const bomb = pack(Buffer.alloc(20_000_000, "x"))
        const { connections, port } = yield* serve((request, response) => {
          response.writeHead(200, { "content-type": "text/plain", "content-encoding": coding })
          // the answer to the other goes on for ever
          if (request.url === "/small") response.end(small)
          else response.write(bomb)
        })
        const url = `http://127.0.0.1:${port}`
        assert.include(yield* fetch({ url: `${url}/small` }), { text: "grüße", bytes: 7, truncated: false })
        assert.include(yield* fetch({ url: `${url}/small`, maxBytes: 3 }), { text: "gr", bytes: 3, truncated: true })
        assert.include(yield* fetch({ url: `${url}/bomb` }), { bytes: 1_000_000, truncated: true })
        yield* until(() => connections.open === 0)
      }))
  }

  it.live("counts what comes over the wire, where that unpacks to nothing for ever", () =>
    Effect.gen(function*() {
      // empty stored blocks, none of them the last
      const nothing = Buffer.concat(Array.from({ length: 10_000 }, () => Buffer.of(0, 0, 0, 0xff, 0xff)))
      const { connections, port } = yield* serve((_, response) => {
        response.writeHead(200, { "content-type": "text/plain", "content-encoding": "gzip" })
        response.write(Buffer.of(0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3))
        const flood = () => {
          while (response.write(nothing));
        }
        response.on("drain", flood)
        flood()
      })
      assert.include(yield* fetch({ url: `http://127.0.0.1:${port}` }), { text: "", truncated: true })
      yield* until(() => connections.open === 0)
    }))

  it.live("is nothing where it cannot be unpacked or breaks off", () =>
    Effect.gen(function*() {
      const packed = NodeZlib.gzipSync("x".repeat(10_000))
      const answers: Record<string, readonly [Uint8Array | string, Record<string, string>]> = {
        "/wrong": ["no gzip", { "content-encoding": "gzip" }],
        "/half": [packed.subarray(0, 20), { "content-encoding": "gzip" }],
        "/unknown": ["x", { "content-encoding": "zstd" }],
        "/twice": ["x", { "content-encoding": "gzip, gzip" }],
        "/proto": ["x", { "content-encoding": "__proto__" }],
        "/chunked": ["x", {}]
      }
      const { port } = yield* serve((request, response) => {
        const [body, headers] = answers[request.url ?? ""]!
        response.writeHead(200, { "content-type": "text/plain", ...headers })
        if (request.url === "/chunked") response.write(body, () => request.socket.destroy())
        else response.end(body)
      })
      for (const path of Object.keys(answers)) {
        assert.include(yield* failureOf({ url: `http://127.0.0.1:${port}${path}` }), { error: "InvalidResponse" }, path)
      }
      assert.include((yield* failureOf({ url: `http://127.0.0.1:${port}/twice` })).message, "\"gzip, gzip\"")
    }))
})

describe("a redirect", () => {
  it.live("is followed on the same host, five times", () =>
    Effect.gen(function*() {
      const { connections, port, requests } = yield* serve((request, response) => {
        const left = Number(request.url?.slice(1))
        if (left === 0) text("there")(request, response)
        else response.writeHead([301, 302, 303, 307, 308][left % 5]!, { location: `/${left - 1}` }).end("moved")
      })
      const url = `http://127.0.0.1:${port}`
      assert.include(yield* fetch({ url: `${url}/5` }), { url: `${url}/0`, status: 200, text: "there" })
      assert.lengthOf(requests, 6)
      assert.include(yield* failureOf({ url: `${url}/6` }), { error: "TooManyRedirects", url: `${url}/0` })
      assert.lengthOf(requests, 12)
      yield* until(() => connections.open === 0)
    }))

  it.live("to another host is a result that says where it leads, and nothing is asked there", () =>
    Effect.gen(function*() {
      const other = yield* serve(text("secret"))
      const { port } = yield* serve((request, response) => {
        response.writeHead(302, {
          location: decodeURIComponent(request.url?.slice(1) ?? ""),
          "content-type": "text/html"
        })
          .end("moved")
      })
      const from = `http://127.0.0.1:${port}`
      const leads = (location: string) => fetch({ url: `${from}/${encodeURIComponent(location)}` }, here)
      for (
        const location of [
          `http://127.0.0.1:${other.port}/`,
          `http://localhost:${port}/`,
          `http://127.0.0.2:${port}/`,
          `//evil.test:${other.port}/`,
          `https://127.0.0.1:${other.port}/`,
          `http://127.0.0.1.evil.test:${port}/`,
          "http://127.0.0.1/"
        ]
      ) {
        const { note, url: _, ...rest } = yield* leads(location)
        assert.deepStrictEqual(rest, {
          status: 302,
          contentType: "text/html",
          text: "",
          bytes: 0,
          truncated: false,
          location: new URL(location, from).href
        })
        assert.include(note, "another host and was not followed. To fetch it, call fetch_url with the URL in location.")
      }
      for (const location of ["file:///etc/passwd", `http://user:pass@127.0.0.1:${port}/`, "http://", "javascript:1"]) {
        const { location: shown, note, status } = yield* leads(location)
        assert.deepStrictEqual([status, shown], [302, location])
        assert.include(note, "cannot be followed.")
      }
      assert.deepStrictEqual(other.requests, [])
    }))

  it.live("leads on from any spelling of the same host", () =>
    Effect.gen(function*() {
      const { port } = yield* serve((request, response) => {
        if (request.url === "/there") text("there")(request, response)
        else response.writeHead(301, { location: `http://EXAMPLE.test.:${port}/there` }).end()
      })
      assert.include(yield* fetch({ url: `http://example.test:${port}/` }, here), { text: "there" })
    }))

  it.live("is checked like a first request: its name is looked up anew, and may lead nowhere else by now", () =>
    Effect.gen(function*() {
      const canary = yield* serve(text("secret"), { address: "127.0.0.2" })
      const { port, requests } = yield* serve((_, response) => {
        response.writeHead(302, { location: "/again" }).end()
      })
      const answers = [["127.0.0.1"], ["127.0.0.2"]]
      const failure = yield* failureOf({ url: `http://rebinding.test:${port}/` }, {
        allowPrivate: ["127.0.0.1"],
        lookup: () => Effect.sync(() => answers.shift() ?? [])
      })
      assert.include(failure, { error: "ForbiddenAddress", url: `http://rebinding.test:${port}/again` })
      assert.lengthOf(requests, 1)
      assert.strictEqual(canary.connections.made, 0)
    }))

  it.live("without a place, or that is none, is a result like any other", () =>
    Effect.gen(function*() {
      const { port } = yield* serve((request, response) => {
        if (request.url === "/300") {
          response.writeHead(300, { location: "/x", "content-type": "text/plain" }).end("choose")
        } else response.writeHead(302, { "content-type": "text/plain" }).end("lost")
      })
      assert.include(yield* fetch({ url: `http://127.0.0.1:${port}` }), { status: 302, text: "lost" })
      assert.include(yield* fetch({ url: `http://127.0.0.1:${port}/300` }), { status: 300, text: "choose" })
    }))
})

describe("a name", () => {
  it.live("is looked up once, and the connection goes to what was checked", () =>
    Effect.gen(function*() {
      const { port } = yield* serve(text("checked"))
      const canary = yield* serve(text("secret"), { address: "127.0.0.2" })
      let lookups = 0
      const rebinding = {
        allowPrivate: ["127.0.0.1"],
        lookup: () => Effect.sync(() => lookups++ === 0 ? ["127.0.0.1"] : ["127.0.0.2"])
      }
      const isPicky = NodeNet.getDefaultAutoSelectFamily()
      for (const pick of [true, false]) {
        NodeNet.setDefaultAutoSelectFamily(pick)
        lookups = 0
        assert.include(yield* fetch({ url: `http://rebinding.test:${port}` }, rebinding), { text: "checked" })
        assert.strictEqual(lookups, 1)
      }
      NodeNet.setDefaultAutoSelectFamily(isPicky)
      assert.strictEqual(canary.connections.made, 0)
    }))

  it.live("is refused where one of its addresses is not public, whichever", () =>
    Effect.gen(function*() {
      const { connections, port } = yield* serve(text("secret"))
      for (
        const addresses of [
          ["93.184.215.14", "127.0.0.1"],
          ["127.0.0.1", "93.184.215.14"],
          ["2606:4700::1111", "::1"],
          ["::ffff:127.0.0.1"],
          ["8.8.8.8", "nonsense"],
          ["169.254.169.254"]
        ]
      ) {
        const failure = yield* failureOf({ url: `http://example.test:${port}` }, {
          lookup: () => Effect.succeed(addresses)
        })
        assert.include(failure, { error: "ForbiddenAddress" }, addresses.join())
        // where names of an inner network lead is nobody's business
        for (const address of addresses) assert.notInclude(failure.message, address)
      }
      assert.strictEqual(connections.made, 0)
    }))

  it.live("may lead to several addresses, of which the next is tried where one does not answer", () =>
    Effect.gen(function*() {
      const { port } = yield* serve(text("second"))
      const options = { ...loopback, lookup: () => Effect.succeed(["127.0.0.3", "127.0.0.1"]) }
      assert.include(yield* fetch({ url: `http://example.test:${port}` }, options), { text: "second" })
    }))

  it.live("that leads nowhere is unknown, whatever went wrong", () =>
    Effect.gen(function*() {
      for (const lookup of [() => Effect.fail("broken"), () => Effect.succeed([])]) {
        assert.include(yield* failureOf({ url: "http://example.test" }, { lookup }), { error: "UnknownHost" })
      }
      assert.include(yield* failureOf({ url: "http://no-such-host.invalid/" }), { error: "UnknownHost" })
    }))

  it.live("is asked of the operating system, and localhost is allowed by its name", () =>
    Effect.gen(function*() {
      const { port } = yield* serve(text("local"))
      const url = `http://localhost:${port}`
      assert.include(yield* failureOf({ url }, {}), { error: "ForbiddenAddress" })
      assert.include(yield* fetch({ url }, { allowPrivate: ["localhost"] }), { text: "local" })
    }))
})

describe("a connection", () => {
  it.live("that is refused, hangs up or speaks no HTTP says so", () =>
    Effect.gen(function*() {
      const closed = yield* Effect.scoped(serve(text("x")))
      assert.include(yield* failureOf({ url: `http://127.0.0.1:${closed.port}` }), { error: "ConnectionFailed" })
      for (
        const [said, error] of [
          ["", "ConnectionFailed"],
          ["HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", "ConnectionFailed"],
          ["SSH-2.0-OpenSSH_9.6\r\n", "InvalidResponse"],
          [`HTTP/1.1 200 OK\r\nx: ${"y".repeat(100_000)}\r\n\r\n`, "InvalidResponse"],
          ["HTTP/1.1 200 OK\r\nx: a\u0001b\r\nContent-Type: text/plain\r\n\r\nabc", "InvalidResponse"],
          [
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\nzz\r\n",
            "InvalidResponse"
          ],
          ["HTTP/1.1 100 Continue\r\n\r\n", "ConnectionFailed"],
          ["HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", "InvalidResponse"],
          ["HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Type: text/plain\r\n\r\nabc", "InvalidResponse"]
        ] as const
      ) {
        const { port } = yield* serveBytes((socket) => socket.once("data", () => socket.end(said)))
        assert.include(yield* failureOf({ url: `http://127.0.0.1:${port}` }), { error }, said.slice(0, 60))
      }
    }))

  it.effect("is given up after ten seconds, TLS included, or what the host says", () =>
    Effect.gen(function*() {
      // takes connections, and never speaks TLS
      const { connections, port } = yield* serveBytes(() => undefined)
      for (const [options, seconds] of [[loopback, 10], [{ ...loopback, connectTimeout: "3 seconds" }, 3]] as const) {
        const fiber = yield* Effect.forkChild(failureOf({ url: `https://127.0.0.1:${port}` }, options), {
          startImmediately: true
        })
        yield* TestClock.withLive(until(() => connections.open === 1))
        yield* TestClock.adjust(seconds * 1_000 - 1)
        assert.isUndefined(fiber.pollUnsafe())
        yield* TestClock.adjust(1)
        assert.include(yield* Fiber.join(fiber), { error: "ConnectTimeout" })
        yield* TestClock.withLive(until(() => connections.open === 0))
      }
    }))

  it.effect("is given up while a name is looked up", () =>
    Effect.gen(function*() {
      const options = { ...loopback, lookup: () => Effect.never }
      const fiber = yield* Effect.forkChild(failureOf({ url: "http://example.test" }, options), {
        startImmediately: true
      })
      yield* TestClock.adjust("10 seconds")
      assert.include(yield* Fiber.join(fiber), { error: "ConnectTimeout" })
    }))

  it.effect("is not given up once it is there, however slow the server is", () =>
    Effect.gen(function*() {
      const answers: Array<() => void> = []
      const { port } = yield* serve((request, response) => answers.push(() => text("slow")(request, response)))
      const fiber = yield* Effect.forkChild(fetch({ url: `http://127.0.0.1:${port}` }), { startImmediately: true })
      yield* TestClock.withLive(until(() => answers.length === 1))
      yield* TestClock.adjust("1 hour")
      answers[0]?.()
      assert.include(yield* Fiber.join(fiber), { text: "slow" })
    }))

  it.live("is destroyed when the call is interrupted, before the head and in the body", () =>
    Effect.gen(function*() {
      const { connections, port, requests } = yield* serve((request, response) => {
        if (request.url === "/body") response.writeHead(200, { "content-type": "text/plain" }).write("x")
      })
      for (const path of ["/head", "/body"]) {
        const fiber = yield* Effect.forkChild(fetch({ url: `http://127.0.0.1:${port}${path}` }))
        yield* until(() => requests.at(-1)?.[0] === path)
        assert.strictEqual(connections.open, 1)
        assert.isUndefined(fiber.pollUnsafe())
        yield* Fiber.interrupt(fiber)
        yield* until(() => connections.open === 0)
      }
    }))

  it.live("is closed after every answer", () =>
    Effect.gen(function*() {
      const { connections, port } = yield* serve(text("x"))
      for (let n = 0; n < 5; n++) yield* fetch({ url: `http://127.0.0.1:${port}` })
      assert.strictEqual(connections.made, 5)
      yield* until(() => connections.open === 0)
    }))
})

describe("over TLS", () => {
  it.live("the certificate has to be for the name, and from somebody who is trusted", () =>
    Effect.gen(function*() {
      const tls = certificateOf("example.test")
      const { port } = yield* serve(text("over TLS"), { tls })
      const url = `https://example.test:${port}/`
      const trusting = { ...here, authorities: tls.cert }
      assert.include(yield* fetch({ url }, trusting), { url, text: "over TLS" })
      assert.include(yield* failureOf({ url }, here), { error: "TlsFailed" })
      assert.include(yield* failureOf({ url: `https://other.test:${port}/` }, trusting), { error: "TlsFailed" })
      assert.include(yield* failureOf({ url: `https://127.0.0.1:${port}/` }, trusting), { error: "TlsFailed" })
      const plain = yield* serve(text("no TLS"))
      assert.include(yield* failureOf({ url: `https://example.test:${plain.port}/` }, here), { error: "TlsFailed" })
      process.env["NODE_TLS_REJECT_UNAUTHORIZED"] = "0"
      const despite = yield* Effect.ensuring(
        failureOf({ url }, here),
        Effect.sync(() => delete process.env["NODE_TLS_REJECT_UNAUTHORIZED"])
      )
      assert.include(despite, { error: "TlsFailed" })
    }))

  it.live("the server is told the name, and an address has none", () =>
    Effect.gen(function*() {
      const tls = certificateOf("example.test")
      const names: Array<unknown> = []
      const { port } = yield* serve((request, response) => {
        names.push((request.socket as NodeNet.Socket & { readonly servername?: unknown }).servername)
        text("x")(request, response)
      }, { tls })
      yield* fetch({ url: `https://example.test:${port}/` }, { ...here, authorities: tls.cert })
      yield* fetch({ url: `https://127.0.0.1:${port}/` }, { ...here, authorities: certificateOf("example.test").cert })
        .pipe(Effect.ignore)
      assert.deepStrictEqual(names, ["example.test"])
    }))

  it.live("no redirect leads back to what is not", () =>
    Effect.gen(function*() {
      const tls = certificateOf("example.test")
      const { port } = yield* serve((_, response) => {
        response.writeHead(301, { location: `http://example.test:${port}/plain` }).end()
      }, { tls })
      const result = yield* fetch({ url: `https://example.test:${port}/` }, { ...here, authorities: tls.cert })
      assert.include(result, { status: 301, location: `http://example.test:${port}/plain` })
      assert.include(result.note, "from https to http and was not followed")
    }))
})

/** A certificate that signs itself. */
const certificateOf = (name: string): { readonly key: string; readonly cert: string } => {
  const folder = NodeFs.mkdtempSync(NodePath.join(NodeOs.tmpdir(), "certificate-"))
  const key = NodePath.join(folder, "key.pem")
  const args = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
  const cert = execFileSync("openssl", [
    ...args,
    "-subj",
    `/CN=${name}`,
    "-addext",
    `subjectAltName=DNS:${name}`,
    "-keyout",
    key
  ], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "ignore"]
  })
  const made = { key: NodeFs.readFileSync(key, "utf8"), cert }
  NodeFs.rmSync(folder, { recursive: true })
  return made
}
