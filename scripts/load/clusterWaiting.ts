// What sessions cost that wait for people: thousands of waves, each with one call that needs approval, over some runners.
// Bytes per session in each table, and what the runners hold behind a warm-up and a collection.
//
//     npm run try -- load:cluster:waiting   10,000 sessions, two runners
//     npm run try -- load:cluster:waiting --waiting 2000 --runners 1
//     npm run try -- load:cluster:waiting --alike   their waves have one name, and 100 are answered at once
import type { ApiApprovals, ApiModels } from "effect-tool-executor/server"
import { setTimeout as sleep } from "node:timers/promises"
import { median } from "../bench/measure.ts"
import { flags } from "../flags.ts"
import * as Client from "./client.ts"
import * as Database from "./cluster/database.ts"
import * as Runners from "./cluster/runners.ts"
import { approvers } from "./cluster/sessions.ts"

const { alike, answers, runners: count, single, waiting, warm } = flags({
  runners: 2,
  waiting: 10_000,
  warm: 5_000,
  answers: 200,
  alike: false,
  single: false
})
const users = approvers + 100
/** Megabytes of heap that the waiting sessions may add to a runner, and bytes of rows and indexes for each of them. */
const bars = { heap: 5, rows: 4_096, seconds: 12 }

/** The name of the wave of a session. */
const waveOf = (session: string): string => alike ? "refund" : session

const server = await Database.start()
const postgres = await server.database()
const runners = await Runners.start({
  runners: count,
  isCluster: !single,
  postgres,
  users
})
const database = Database.open(postgres)
const runner = (n: number) => runners.all[n % count]!

let refused = 0

/** Submits a wave that asks, and leaves once the server says that it waits. A refusal of a busy runner is tried again. */
const ask = async (n: number, name: string): Promise<void> => {
  const user = approvers + n % (users - approvers)
  const path = `/api/sessions/${name}${n}/waves`
  const body = { ...Client.message([["ask", `${name}${n}`, 0]]), wave: waveOf(`${name}${n}`) }
  // it is known before the first event of it comes
  try {
    const listening = await Client.listen(
      runner(n).url,
      user,
      path,
      ({ event }) => {
        if (event === "tool_approval_request") listening.cut()
      },
      undefined,
      body
    )
    await listening.ended
  } catch (error) {
    if (!String(error).endsWith("503")) throw error
    refused++
    await sleep(500)
    await ask(n, name)
  }
}

const askAll = async (name: string, size: number) => {
  let next = 0
  await Promise.all(Array.from({ length: 32 }, async () => {
    for (let n = next++; n < size; n = next++) await ask(n, name)
  }))
}

type Pending = typeof ApiApprovals.Approvals.Type

/** Answers requests at other runners than the one that asked; gives how long each took to the end of its wave. */
const answer = async (size: number): Promise<ReadonlyArray<number>> => {
  const { json } = await Client.send<Pending>(runner(0).url, 0, "GET", "/api/approvals")
  const times: Array<number> = []
  for (const { hash, id, session, user } of json.open.slice(0, size)) {
    // the runner that asked has the number of the session
    const n = Number(/\d+$/.exec(session)?.[0]) + 1
    const begin = Date.now()
    const body = { hash, answer: { _tag: "ApproveOnce" } }
    const { status } = await Client.send(runner(n).url, 0, "POST", `/api/approvals/${id}/answer`, body)
    if (status !== 200) throw new Error(`an answer had ${status}`)
    const path = `/api/sessions/${session}/waves/${waveOf(session)}`
    for (let isEnded = false; !isEnded;) {
      const wave = await Client.send<ApiModels.Wave>(runner(n + 1).url, Number(user.slice(1)), "GET", path)
      isEnded = wave.json.status === "ended"
      if (!isEnded) await sleep(10)
    }
    times.push(Date.now() - begin)
  }
  return times
}

/** Answers requests at once; gives in how many seconds how many of their waves have ended, at most a minute. */
const answerAtOnce = async (size: number): Promise<{ readonly ended: number; readonly seconds: number }> => {
  const { json } = await Client.send<Pending>(runner(0).url, 0, "GET", "/api/approvals")
  const asked = json.open.slice(0, size)
  const begin = Date.now()
  const body = (hash: string) => ({ hash, answer: { _tag: "ApproveOnce" } })
  await Promise.all(
    asked.map(({ hash, id }) => Client.send(runner(1).url, 0, "POST", `/api/approvals/${id}/answer`, body(hash)))
  )
  const waiting = new Set(asked)
  for (const until = begin + 60_000; waiting.size > 0 && Date.now() < until; await sleep(200)) {
    await Promise.all(Array.from(waiting, async (it) => {
      const path = `/api/sessions/${it.session}/waves/${waveOf(it.session)}`
      const wave = await Client.send<ApiModels.Wave>(runner(0).url, Number(it.user.slice(1)), "GET", path)
      if (wave.json.status === "ended") waiting.delete(it)
    }))
  }
  return { ended: asked.length - waiting.size, seconds: (Date.now() - begin) / 1_000 }
}

/** Waits until no runner holds a session. */
const left = async () => {
  for (const until = Date.now() + 300_000; Date.now() < until; await sleep(500)) {
    if ((await database.held()).length === 0) return
  }
  throw new Error("sessions were still held after five minutes")
}

const heaps = async () => {
  const all: Array<number> = []
  for (const it of runners.all) all.push(await runners.heap(it))
  return all
}

interface Size {
  readonly name: string
  readonly rows: number
  readonly table: number
  readonly indexes: number
}

const sizes = async (): Promise<ReadonlyMap<string, Size>> => {
  await database.query("VACUUM ANALYZE")
  const all = await database.query<Size>(`SELECT relname AS name, n_live_tup::float8 AS rows,
    (pg_total_relation_size(relid) - pg_indexes_size(relid))::float8 AS table, pg_indexes_size(relid)::float8 AS indexes
    FROM pg_stat_user_tables ORDER BY relname`)
  return new Map(all.map((it) => [it.name, it]))
}

await askAll("warm", warm)
if (warm > 0) await answer(Math.min(warm, 100))
await left()
await sleep(1_000)
const [heapBefore, sizeBefore] = [await heaps(), await sizes()]
const begin = Date.now()
await askAll("w", Math.ceil(waiting / 2))
await left()
const heapHalf = await heaps()
await askAll("x", Math.floor(waiting / 2))
const asked = (Date.now() - begin) / 1_000
await left()
const released = (Date.now() - begin) / 1_000
await sleep(2_000)
const [heapAfter, sizeAfter] = [await heaps(), await sizes()]
const atOnce = alike ? await answerAtOnce(100) : undefined
const times = await answer(answers)

console.log(
  `${waiting} sessions wait (${refused} refusals): asked in ${asked.toFixed(1)} s, all released after ${
    released.toFixed(1)
  } s`
)
console.log(`${"table".padEnd(36)}${"rows each".padStart(12)}${"bytes each".padStart(12)}${"of indexes".padStart(12)}`)
const total = { table: 0, indexes: 0 }
/** What is told to those who watch is a fixed number of rows, whatever the number of sessions. */
const passing = "tool_executor_live"
for (const [name, after] of sizeAfter) {
  const before = sizeBefore.get(name)
  const each = (key: "indexes" | "rows" | "table") => (after[key] - (before?.[key] ?? 0)) / waiting
  if (each("table") + each("indexes") === 0) continue
  if (name !== passing) {
    total.table += each("table")
    total.indexes += each("indexes")
  }
  const columns = [each("rows").toFixed(2), each("table").toFixed(0), each("indexes").toFixed(0)]
  console.log(name.padEnd(36) + columns.map((it) => it.padStart(12)).join(""))
}
console.log(
  `${`together, without ${passing}`.padEnd(48)}${total.table.toFixed(0).padStart(12)}${
    total.indexes.toFixed(0).padStart(12)
  }`
)
const grown = heapAfter.map((it, index) => it - heapBefore[index]!)
console.log(
  `heap per runner: ${heapBefore.map((it) => it.toFixed(1)).join(", ")} MB before, ` +
    `${heapHalf.map((it) => it.toFixed(1)).join(", ")} MB behind the first half, ${
      heapAfter.map((it) => it.toFixed(1)).join(", ")
    } MB behind all`
)
if (times.length > 0) {
  console.log(`from an answer to the end of its wave: median ${median(times)} ms, worst ${Math.max(...times)} ms`)
}
if (atOnce !== undefined) console.log(`${atOnce.ended} of 100 answered waves ended in ${atOnce.seconds.toFixed(1)} s`)
const problems = [
  ...atOnce !== undefined && (atOnce.ended < 100 || atOnce.seconds > bars.seconds)
    ? ["answered waves did not go on"]
    : [],
  ...Math.max(...grown) > bars.heap ? [`a runner holds ${Math.max(...grown).toFixed(1)} MB more`] : [],
  ...total.table + total.indexes > bars.rows
    ? [`a session has ${(total.table + total.indexes).toFixed(0)} bytes of rows and indexes`]
    : []
]
for (const it of problems) console.log(`PROBLEM ${it}`)
await runners.end()
await database.end()
await server.end()
process.exit(problems.length === 0 ? 0 : 1)
