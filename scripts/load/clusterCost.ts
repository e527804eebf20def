// What a cluster costs: the same load on one server, and on one, two and three runners in cluster mode, over the same
// PostgreSQL in turn: processor time, statements and the database's processor time per call, as ratios of one run.
//
//     npm run try -- load:cluster:cost
//     npm run try -- load:cluster:cost --rounds 5 --waves 800 --sessions 48 --statements 12
import type { ApiModels } from "effect-tool-executor/server"
import { setTimeout as sleep } from "node:timers/promises"
import { median } from "../bench/measure.ts"
import { flags } from "../flags.ts"
import * as Client from "./client.ts"
import * as Database from "./cluster/database.ts"
import * as Runners from "./cluster/runners.ts"

const { rounds, sessions, warm, waves, ...wanted } = flags({
  rounds: 3,
  waves: 600,
  warm: 400,
  sessions: 16,
  sides: "single,1,2,3",
  statements: 0
})
const perWave = 5
/** One runner in cluster mode may cost this many times the single server. */
const most = 1.25

/** What a call costs. */
interface Cost {
  /** Milliseconds of processor time of the runners. */
  readonly cpu: number
  readonly statements: number
  /** Milliseconds of processor time of the database. */
  readonly database: number
  readonly perSecond: number
  /** Statements per second of runners without work. */
  readonly idle: number
}

const server = await Database.start()

const measure = async (side: string): Promise<Cost> => {
  const postgres = await server.database()
  const runners = await Runners.start({
    runners: side === "single" ? 1 : Number(side),
    isCluster: side !== "single",
    postgres,
    // a file for each call would be most of its cost
    hasLedger: false,
    users: sessions + 3
  })
  const database = Database.open(postgres)
  let sent = 0
  const send = async (name: string, count: number) => {
    let next = 0
    await Promise.all(Array.from({ length: sessions }, async (_, index) => {
      for (let n = next++; n < count; n = next++) {
        const calls = Array.from(
          { length: perWave },
          (_, at) => [at < 3 ? "look" : "note", `${name}${n}.${at}`, 0] as const
        )
        const { url } = runners.all[sent++ % runners.all.length]!
        const path = `/api/sessions/s${index}/waves`
        const body = { ...Client.message(calls), wave: `${name}${n}` }
        const submit = () => Client.send<ApiModels.Wave>(url, index + 3, "POST", path, body)
        let answer = await submit()
        // runners that have just come may still share out the sessions
        for (let tries = 0; answer.status === 503 && tries < 10; tries++) answer = await submit()
        const { json, status } = answer
        if (status !== 200 || json.status !== "ended") throw new Error(`${side}: ${status} ${JSON.stringify(json)}`)
      }
    }))
  }
  await send("warm", warm)
  await sleep(1_000)
  await database.forget()
  const [cpu, databaseCpu, begin] = [runners.cpu(), await database.cpu(), Date.now()]
  await send("w", waves)
  const seconds = (Date.now() - begin) / 1_000
  const calls = waves * perWave
  const statements = await database.statements()
  const cost = {
    cpu: (runners.cpu() - cpu) / calls,
    statements: statements / calls,
    database: (await database.cpu() - databaseCpu) / calls,
    perSecond: calls / seconds
  }
  if (wanted.statements > 0) {
    console.log(`${side}:`)
    for (const { calls, query } of await database.often(wanted.statements)) {
      console.log(`  ${(calls / waves).toFixed(2)} a wave  ${query.replaceAll(/\s+/g, " ").slice(0, 140)}`)
    }
  }
  await sleep(500)
  await database.forget()
  await sleep(5_000)
  const idle = await database.statements() / 5
  await runners.end()
  await database.end()
  return { ...cost, idle }
}

const sides = wanted.sides.split(",")
const measured = new Map(sides.map((side) => [side, [] as Array<Cost>]))
for (let round = 0; round < rounds; round++) {
  for (const side of sides) measured.get(side)!.push(await measure(side))
}
await server.end()

const of = (side: string, key: keyof Cost) => median(measured.get(side)!.map((it) => it[key]))
/** The median of the ratios of each round, so that a slow minute slows both sides. */
const ratio = (side: string, key: keyof Cost) => {
  const base = measured.get(sides[0]!)!
  return median(measured.get(side)!.map((it, round) => it[key] / base[round]![key]))
}
const name = (side: string) => side === "single" ? "one server" : side === "1" ? "one runner" : `${side} runners`

console.log(`${sessions} sessions at once, ${perWave} calls a wave, ${waves} waves, median of ${rounds} rounds`)
console.log(
  ["", "ms CPU a call", "", "statements a call", "", "ms of database", "", "calls/s", "idle statements/s"].map(
    (it, index) => index === 0 ? it.padEnd(12) : it.padStart(index % 2 === 0 && index < 7 ? 8 : 18)
  ).join("")
)
for (const side of sides) {
  const both = (key: keyof Cost, digits: number) =>
    of(side, key).toFixed(digits).padStart(18) + `×${ratio(side, key).toFixed(2)}`.padStart(8)
  console.log(
    name(side).padEnd(12) + both("cpu", 2) + both("statements", 2) + both("database", 2) +
      of(side, "perSecond").toFixed(0).padStart(18) + of(side, "idle").toFixed(1).padStart(18)
  )
}
const isOver = sides.includes("single") && sides.includes("1") &&
  (["cpu", "statements"] as const).some((key) => ratio("1", key) > most)
if (isOver) console.log(`PROBLEM one runner costs more than ${most} times the single server`)
process.exit(isOver ? 1 : 0)
