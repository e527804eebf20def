/** Requests that nobody in their right mind sends, from a seed. */
import * as OpenApi from "effect/http-api/OpenApi"
import { connect } from "node:net"
import { Api } from "../../src/server/api/Api.ts"
import { tokens } from "./Server.ts"

/** A source of choices that is the same for the same seed (mulberry32). */
export const choices = (seed: number) => {
  let state = seed >>> 0
  const next = () => {
    state = (state + 0x6D2B79F5) >>> 0
    let it = Math.imul(state ^ (state >>> 15), 1 | state)
    it = (it + Math.imul(it ^ (it >>> 7), 61 | it)) ^ it
    return ((it ^ (it >>> 14)) >>> 0) / 2 ** 32
  }
  const of = <A>(all: ReadonlyArray<A>): A => all[Math.floor(next() * all.length)]!
  return { next, of }
}

interface Known {
  /** Endpoints of the API, as its document writes them. */
  readonly endpoints: ReadonlyArray<{ readonly method: string; readonly path: string }>
  /** The `Authorization` of somebody who may run calls. */
  readonly right: string
  /** `Authorization` values: right ones, wrong ones, and what is none. */
  readonly authorizations: ReadonlyArray<string>
}

/** What is known of the server for tests: bob may run calls there. */
export const known: Known = {
  endpoints: Object.entries(OpenApi.fromApi(Api).paths).flatMap(([path, methods]) =>
    Object.keys(methods).map((method) => ({ method: method.toUpperCase(), path }))
  ),
  right: `Bearer ${tokens.bob}`,
  authorizations: [
    `Bearer ${tokens.eve}`,
    `Bearer ${tokens.bob}`,
    "Bearer x",
    "Bearer",
    "Basic eDp5",
    `bearer  ${tokens.eve} `
  ]
}

/** The bytes of one request, whose connection is closed after its answer. */
export const request = ({ next, of }: ReturnType<typeof choices>): string => {
  // those that are right but for what they say come as far as what they are about
  const isPolite = next() < 0.5
  const ids = [
    "x",
    "work",
    "..",
    "%2e%2e",
    "%2F",
    "%00",
    "%",
    "%zz",
    "%ff%fe",
    "%F0%9F%92%A9",
    "__proto__",
    "constructor",
    "a".repeat(5_000),
    "0",
    "-1",
    "1e999",
    "NaN",
    "null",
    "*",
    "'--",
    "<script>",
    "${7*7}",
    "%0d%0aX-A:1",
    ":session",
    "~one"
  ]
  const endpoint = of(known.endpoints)
  const path = endpoint.path.replace(
    /\{\w+\}/g,
    () => next() < (isPolite ? 0.8 : 0.3) ? of(["work", "one", "a-1"]) : of(ids)
  )
    .replaceAll(/[ \r\n]/g, "")
  const twist = isPolite || next() < 0.6 ? (it: string) => it : of<(path: string) => string>([
    (it) => it,
    (it) => it,
    (it) => it,
    (it) => it.toUpperCase(),
    (it) => `/${it}`,
    (it) => `${it}/`,
    (it) => `${it}/../..${it}`,
    (it) => `http://evil.example${it}`,
    (it) => `${it}?after=${of(ids)}&limit=${of(ids)}&limit=${of(ids)}&${of(ids)}`,
    (it) => it.slice(1) || "x",
    (it) => `${it};a=b#c`,
    (it) => it.replaceAll("/", "\\"),
    (it) => `/.${it}`
  ])
  const values: ReadonlyArray<unknown> = [
    null,
    true,
    0,
    -1,
    1e308,
    "",
    "x".repeat(2_000),
    "\u0000",
    "\ud800",
    "__proto__",
    [],
    {},
    [[[]]],
    { __proto__: 1 },
    { toString: 1 },
    { role: "assistant", tool_calls: [{ id: "c", type: "function", function: { name: "break", arguments: "{" } }] },
    {
      role: "assistant",
      tool_calls: [{ id: "c", type: "function", function: { name: "break", arguments: "{\"key\":\"k\"}" } }]
    },
    { role: "assistant", content: [{ type: "tool_use", id: "t", name: "nothing", input: null }] }
  ]
  const fields = [
    "message",
    "format",
    "turn",
    "wave",
    "token",
    "hash",
    "answer",
    "answers",
    "call_id",
    "reason",
    "force",
    "__proto__"
  ]
  const object = () =>
    JSON.stringify(Object.fromEntries(Array.from({ length: Math.floor(next() * 5) }, () => [of(fields), of(values)])))
  const body = isPolite ? object() : of<() => string>([
    object,
    object,
    object,
    object,
    () => "",
    () => "{",
    () => "[".repeat(50_000),
    () => "\"".repeat(50_000),
    () => "\xff\xfe",
    () => JSON.stringify(of(values)),
    () => `{"message":${"{\"a\":".repeat(5_000)}1${"}".repeat(5_000)}}`,
    () => object().slice(0, 9)
  ])()
  const size = Buffer.byteLength(body, "latin1")
  const framing = isPolite || next() < 0.75 ? `Content-Length: ${size}` : of([
    `Content-Length: ${size}`,
    `Content-Length: ${size}`,
    `Content-Length: ${size}`,
    `Content-Length: -1`,
    `Content-Length: 99999999999`,
    `Content-Length: ${size}\r\nContent-Length: ${size + 1}`,
    "Transfer-Encoding: chunked",
    "Transfer-Encoding: chunked\r\nContent-Length: 4",
    "Transfer-Encoding: gzip",
    "X-No: framing"
  ])
  const headers = isPolite ? [] : Array.from({ length: Math.floor(next() * next() * 4) }, () =>
    of([
      "Cookie: tool_executor_session=x",
      "Cookie: a",
      `Cookie: ${"a=b; ".repeat(500)}`,
      "Origin: null",
      "Origin: http://evil.example",
      "Sec-Fetch-Site: cross-site",
      "Accept: text/event-stream",
      "Accept: */*;q=x",
      "Last-Event-ID: x:y:z",
      "Last-Event-ID: 99999999999999",
      "X-Forwarded-For: 1.2.3.4",
      "X-Forwarded-Host: evil.example",
      "Expect: 100-continue",
      "Upgrade: websocket\r\nConnection: Upgrade",
      "Range: bytes=0-99999",
      "If-None-Match: *",
      `X-Long: ${"y".repeat(9_000)}`,
      "X-Method-Override: DELETE",
      "Accept-Encoding: gzip;q=0"
    ]))
  const methods = [
    "GET",
    "GET",
    "POST",
    "POST",
    "POST",
    "DELETE",
    "PUT",
    "PATCH",
    "HEAD",
    "OPTIONS",
    "TRACE",
    "PROPFIND",
    "get"
  ]
  return [
    `${isPolite ? endpoint.method : of(methods)} ${twist(path)} HTTP/1.1`,
    `Host: ${isPolite || next() < 0.9 ? "localhost" : of(["evil.example", "a b", "[::1"])}`,
    `Content-Type: ${
      isPolite || next() < 0.85 ? "application/json" : of(["text/plain", "", "application/json; charset=x"])
    }`,
    ...(isPolite
      ? [`Authorization: ${known.right}`]
      : next() < 0.8
      ? [`Authorization: ${of(known.authorizations)}`]
      : []),
    ...headers,
    framing,
    "Connection: close",
    "",
    body
  ].join("\r\n")
}

/** Sends it; gives what came back until the server closed, or a while has passed: some of it are streams. */
export const send = (port: number, bytes: string, patience: number): Promise<string> =>
  new Promise((resolve) => {
    let text = ""
    const socket = connect(port, "127.0.0.1")
    const end = () => {
      socket.destroy()
      resolve(text)
    }
    socket.setTimeout(patience, end)
    socket.on("data", (data) => {
      text += data.toString("latin1")
    })
    socket.on("error", end)
    socket.on("close", end)
    socket.write(Buffer.from(bytes, "latin1"))
  })

/** What is wrong with an answer; `undefined`: nothing. No answer at all is one, too: the connection is closed. */
export const wrong = (answer: string, secrets: ReadonlyArray<string>): string | undefined => {
  const status = Number(/^HTTP\/1\.1 (\d+)/.exec(answer)?.[1] ?? 0)
  if (status >= 500) return `status ${status}`
  if (/node_modules|\.ts:\d|    at |Error: /.test(answer)) return "something of the inside"
  const told = secrets.find((it) => answer.includes(it))
  return told === undefined ? undefined : `the secret ${told.slice(0, 8)}`
}
