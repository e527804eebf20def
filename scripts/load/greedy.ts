// One user with every right sends `serve` over SQLite all that the limits allow: long lists and journals, large messages,
// bodies without an end, streams and answers that nobody reads, named turns, sessions. Meanwhile others run calls and
// somebody asks how the server is. Ends with 1 where a call of theirs did not have its outcome, /health took longer than
// 250 ms, or the server held more than twice what it holds idle.
//
//     npm run try -- load:greedy   a minute
//     npm run try -- load:greedy --seconds 20 --only lists,bodies
import { Redacted } from "effect"
import { Tokens } from "effect-tool-executor/server"
import { spawn } from "node:child_process"
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { Agent, request } from "node:http"
import { connect, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import process from "node:process"
import { setTimeout as sleep } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { flags } from "../flags.ts"
import { tokenOf } from "./tokens.ts"

const { only, seconds, ...started } = flags({
  seconds: 60,
  only: "journal,lists,messages,bodies,slow,streams,turns,sessions,small",
  // what this script starts itself as, to be greedy in a process of its own
  greedy: ""
})

const greedy = 0
const others = [1, 2, 3, 4, 5]
const millis = seconds * 1_000
const text = (size: number) => "x".repeat(size)

interface Answer {
  readonly status: number
  readonly text: string
}

const agent = new Agent({ keepAlive: true, maxSockets: 200 })

const send = (url: string, user: number, method: string, path: string, body?: string): Promise<Answer> =>
  new Promise((resolve, reject) => {
    const sent = request(`${url}${path}`, {
      agent,
      method,
      headers: {
        authorization: `Bearer ${tokenOf(user)}`,
        ...body === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(body) }
      }
    }, (response) => {
      const parts: Array<Buffer> = []
      response.on("data", (part: Buffer) => parts.push(part))
      response.on("end", () => resolve({ status: response.statusCode ?? 0, text: Buffer.concat(parts).toString() }))
      response.on("error", reject)
    })
    sent.on("error", reject)
    sent.end(body)
  })

/** A message with calls of a tool. */
const messageOf = (calls: ReadonlyArray<readonly [name: string, params: unknown]>, more: object = {}) =>
  JSON.stringify({
    format: "native",
    message: calls.map(([name, params], index) => ({ id: `c${index}`, name, params })),
    ...more
  })

const statuses = new Map<string, number>()

/** Sends again and again from so many at once, as fast as it is answered. */
const flood = (
  url: string,
  end: number,
  name: string,
  width: number,
  one: (n: number) => readonly [string, string, string?]
) => {
  let n = 0
  return Promise.all(Array.from({ length: width }, async () => {
    while (Date.now() < end) {
      const [method, path, body] = one(n++)
      const status = await send(url, greedy, method, path, body).then((it) => it.status, () => 0)
      const key = `${name} ${status}`
      statuses.set(key, (statuses.get(key) ?? 0) + 1)
      if (status !== 200 && status !== 204) await sleep(50)
    }
  }))
}

/** Connections of which nothing is read, or whose request never ends; again where the server closes them. */
const hold = async (url: string, end: number, width: number, bytesOf: (n: number) => string) => {
  const { hostname, port } = new URL(url)
  const sockets = new Set<Socket>()
  let n = 0
  while (Date.now() < end) {
    while (sockets.size < width) {
      const socket = connect(Number(port), hostname)
      sockets.add(socket)
      socket.pause()
      socket.on("error", () => {})
      socket.once("close", () => void sockets.delete(socket))
      socket.write(bytesOf(n++))
    }
    await sleep(200)
  }
  for (const socket of sockets) socket.destroy()
}

const head = (method: string, path: string, more = "") =>
  `${method} ${path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer ${tokenOf(greedy)}\r\n${more}\r\n`

const attacks: Record<string, (url: string, end: number) => Promise<unknown>> = {
  journal: (url, end) => {
    const queries = ["", "?limit=1", "?tool=nothing", "?search=nothing&order=oldest"]
    return flood(url, end, "journal", 60, (n) => ["GET", `/api/journal${queries[n % queries.length]!}`])
  },
  lists: (url, end) => {
    const paths = [
      "/api/waves",
      "/api/approvals",
      "/api/waves/u0/s0/fill0",
      "/api/sessions/s0/waves/fill0",
      "/api/sessions/s0/checkpoints",
      "/api/grants",
      "/api/rules",
      "/metrics"
    ]
    return flood(url, end, "lists", 60, (n) => ["GET", paths[n % paths.length]!])
  },
  messages: (url, end) =>
    flood(url, end, "messages", 30, (n) => [
      "POST",
      `/api/sessions/s${n % 10}/waves`,
      n % 2 === 0
        ? messageOf(Array.from({ length: 1_000 }, () => ["read_file", { path: "a.txt" }]))
        : messageOf(Array.from({ length: 30 }, () => ["write_file", { path: "greedy.txt", content: text(100_000) }]))
    ]),
  bodies: (url, end) =>
    hold(url, end, 150, (n) =>
      head(
        "POST",
        "/api/sessions/s0/waves",
        `content-type: application/json\r\n${
          n % 2 === 0 ? "content-length: 3900000" : "transfer-encoding: chunked"
        }\r\n`
      ) + (n % 2 === 0 ? text(3_800_000) : `${(3_800_000).toString(16)}\r\n${text(3_800_000)}\r\n`)),
  slow: (url, end) =>
    hold(url, end, 60, (n) => head("GET", ["/api/journal", "/api/sessions/s0/waves/fill0", "/api/waves"][n % 3]!)),
  streams: (url, end) =>
    hold(url, end, 100, (n) => head("GET", ["/api/live", "/api/sessions/s0/waves/fill0/events"][n % 2]!)),
  turns: (url, end) =>
    flood(url, end, "turns", 20, (n) => [
      "POST",
      "/api/sessions/s0/waves",
      messageOf([["read_file", { path: "a.txt" }]], { turn: `t${n}` })
    ]),
  sessions: (url, end) =>
    flood(url, end, "sessions", 10, (n) => [
      n % 3 === 2 ? "DELETE" : "GET",
      n % 3 === 2 ? `/api/sessions/more${n % 90}` : `/api/sessions/more${n % 90}/tools`
    ]),
  small: (url, end) =>
    flood(url, end, "small", 50, (n) => [
      "POST",
      `/api/sessions/s${n % 10}/waves`,
      messageOf([["write_file", { path: `small${n % 10}.txt`, content: "x" }], ["read_file", { path: "a.txt" }]])
    ])
}

if (started.greedy !== "") {
  const url = started.greedy
  // what there is to read
  for (let n = 0; n < 40; n++) {
    const calls = Array.from(
      { length: 20 },
      () => ["write_file", { path: `fill${n}.txt`, content: text(20_000) }] as const
    )
    await send(url, greedy, "POST", "/api/sessions/s0/waves", messageOf(calls, { wave: `fill${n}` }))
  }
  process.send?.("ready")
  const end = Date.now() + millis
  await Promise.all(only.split(",").map((name) => attacks[name]!(url, end)))
  console.log(Array.from(statuses).sort().map(([key, count]) => `${key}: ${count}`).join(", "))
  process.exit()
}

const root = mkdtempSync(join(tmpdir(), "greedy-"))
mkdirSync(join(root, "work"))
writeFileSync(join(root, "work", "a.txt"), "text")
const userOf = (index: number) => ({
  tokens: [{ hash: Tokens.hash(Redacted.make(tokenOf(index))) }],
  run: true,
  ...index === greedy ? { approve: ["*"], records: ["*"], operate: true } : {}
})
writeFileSync(
  join(root, "serve.json"),
  JSON.stringify({
    workspace: { root: "work" },
    policy: { default: "allow", mode: "acceptEdits" },
    dedupe: false,
    server: { users: Object.fromEntries([greedy, ...others].map((index) => [`u${index}`, userOf(index)])) }
  })
)
const bin = fileURLToPath(new URL("../../src/cli/bin.ts", import.meta.url))
/** How long its thread has worked on between two looks around, by its own clock: a busy machine does not count. */
const watch = `
  import { writeFileSync } from "node:fs"
  const used = () => { const { system, user } = process.threadCpuUsage(); return system + user }
  let [last, most] = [used(), 0]
  setInterval(() => {
    const now = used()
    if (now - last > most) writeFileSync(${
  JSON.stringify(join(root, "stretch"))
}, String(Math.round((most = now - last) / 1000)))
    last = now
  }, 5).unref()
  process.on("SIGUSR2", () => { most = 0 })`
const server = spawn(
  process.execPath,
  [
    "--import",
    `data:text/javascript,${encodeURIComponent(watch)}`,
    bin,
    "serve",
    "--config",
    join(root, "serve.json"),
    "--data",
    join(root, "data"),
    "--port",
    "0"
  ],
  { stdio: ["ignore", "pipe", "inherit"] }
)
const url = await new Promise<string>((resolve, reject) => {
  let said = ""
  server.stdout.setEncoding("utf8").on("data", (part: string) => {
    said += part
    const [, found] = /^Serving (\S+)\/$/m.exec(said) ?? []
    if (found !== undefined) resolve(found)
  })
  server.once("close", (code) => reject(new Error(`the server ended with ${code}`)))
})

/** Megabytes that the server holds. */
const held = (): number =>
  Math.round(Number(/^VmRSS:\s+(\d+)/m.exec(readFileSync(`/proc/${server.pid}/status`, "utf8"))?.[1] ?? NaN) / 1_024)

/** Milliseconds of the longest stretch since it was asked last. */
const stretch = (): number => {
  const most = Number(readFileSync(join(root, "stretch"), "utf8"))
  server.kill("SIGUSR2")
  return most
}

const problems: Array<string> = []
const calls: Array<number> = []
const health: Array<number> = []
let most = 0
const over = { is: false }

/** Somebody else at work: a call that writes, one that takes longer than a lease may be silent, one that reads. */
const work = async (user: number) => {
  for (let n = 0; !over.is; n++) {
    const began = Date.now()
    const list = [
      ["write_file", { path: `u${user}.txt`, content: String(n) }],
      ["run_command", { command: n % 5 === 0 ? "sleep 7; echo done" : "echo done" }],
      ["read_file", { path: `u${user}.txt` }]
    ] as const
    const { status, text } = await send(url, user, "POST", "/api/sessions/s/waves", messageOf(list))
    const found = status === 200 ? JSON.parse(text).end?.executionResults?.map((it: { _tag: string }) => it._tag) : []
    if (found?.length !== 3 || found.some((it: string) => it !== "Succeeded")) {
      problems.push(`u${user}: ${status} ${found?.join(", ")} ${/"error":"[^"]*"/.exec(text)?.[0] ?? text.slice(-300)}`)
    }
    if (n % 5 !== 0) calls.push(Date.now() - began)
    await sleep(200)
  }
}

const ask = async () => {
  while (!over.is) {
    const began = performance.now()
    const { status } = await send(url, greedy, "GET", "/health")
    health.push(performance.now() - began)
    if (status !== 200) problems.push(`/health: ${status}`)
    most = Math.max(most, held())
    await sleep(25)
  }
}

/** Runs alone for a while, and says what it holds then. */
const idle = async () => {
  await sleep(1_000)
  stretch()
  const alone = [...others.map(work), ask()]
  await sleep(9_000)
  over.is = true
  await Promise.all(alone)
  over.is = false
  await sleep(1_000)
  return held()
}

const before = await idle()
const quiet = { calls: calls.splice(0), health: health.splice(0), stretch: stretch() }
const child = spawn(
  process.execPath,
  [
    ...process.execArgv,
    fileURLToPath(import.meta.url),
    "--greedy",
    url,
    "--seconds",
    String(seconds),
    "--only",
    only
  ],
  { stdio: ["ignore", "inherit", "inherit", "ipc"] }
)
await new Promise((resolve) => child.once("message", resolve))
most = 0
stretch()
const all = [...others.map(work), ask()]
await new Promise((resolve) => child.once("close", resolve))
over.is = true
await Promise.all(all)
const longest = stretch()
await sleep(5_000)
const after = held()
server.kill("SIGTERM")
await new Promise((resolve) => server.once("close", resolve))
rmSync(root, { recursive: true, force: true })

const at = (times: Array<number>, share: number) =>
  Math.round(times.toSorted((a, b) => a - b)[Math.min(times.length - 1, Math.floor(times.length * share))] ?? NaN)
const said = (times: Array<number>) => `median ${at(times, 0.5)} ms, p99 ${at(times, 0.99)} ms, most ${at(times, 1)} ms`
console.log(`${only}, ${seconds} s`)
console.log(`/health alone: ${said(quiet.health)}; meanwhile: ${said(health)}`)
console.log(`the thread worked on for ${quiet.stretch} ms at most alone, ${longest} ms meanwhile`)
console.log(`waves of others alone: ${said(quiet.calls)}; meanwhile: ${said(calls)} (${calls.length})`)
console.log(`held idle ${before} MB, at most ${most} MB, five seconds later ${after} MB`)
if (at(health, 1) > 250) problems.push(`/health took ${at(health, 1)} ms`)
if (most > 2 * before) problems.push(`the server held ${(most / before).toFixed(1)} times what it holds idle`)
for (const it of problems.slice(0, 20)) console.log(`PROBLEM ${it}`)
process.exit(problems.length === 0 ? 0 : 1)
