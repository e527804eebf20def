// Kills the server in the middle of its work and starts it again over the same records: every call of a wave that it had
// taken has its outcome or is `Unknown`, none is done twice, and every approval request that was open is there under its id.
//
//     npm run load:kill                     30 kills
//     npm run load:kill -- --kills 5 --seed 7
import type { ApiApprovals, ApiModels } from "effect-tool-executor/server"
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { parseArgs } from "node:util"
import { randomFrom } from "../../test/support/randomCase.ts"
import * as Client from "./client.ts"

const { values } = parseArgs({
  options: { kills: { type: "string", default: "30" }, seed: { type: "string", default: "1" } }
})

const random = randomFrom(Number(values.seed))
const problems: Array<string> = []
const outcomes = new Map<string, number>()
const folder = mkdtempSync(join(tmpdir(), "tool-executor-kill-"))
const users = 5

type Pending = typeof ApiApprovals.Approvals.Type

/** Waves that the server has taken for sure: their user, and how many calls they have. */
interface Taken {
  readonly user: number
  readonly name: string
  readonly size: number
}

const open = async (server: Client.Running): Promise<ReadonlyArray<string>> =>
  (await Client.send<Pending>(server.url, 0, "GET", "/api/approvals")).json.open.map(({ id }) => id)

const answerAll = async (server: Client.Running) => {
  const { json } = await Client.send<Pending>(server.url, 0, "GET", "/api/approvals")
  for (const { hash, id } of json.open) {
    await Client.send(server.url, 0, "POST", `/api/approvals/${id}/answer`, { hash, answer: { _tag: "ApproveOnce" } })
  }
}

/** The wave, once it has ended: approval requests are answered meanwhile. */
const ended = async (server: Client.Running, { name, user }: Taken): Promise<ApiModels.Wave | undefined> => {
  for (let tries = 0; tries < 300; tries++) {
    const { json, status } = await Client.send<ApiModels.Wave>(server.url, user, "GET", `/api/sessions/s/waves/${name}`)
    if (status === 404) return undefined
    if (json.status === "ended") return json
    await answerAll(server)
    await sleep(100)
  }
  return undefined
}

let server = await Client.start(folder, users)
let waves = 0
let kept = 0
for (let round = 0; round < Number(values.kills); round++) {
  const taken: Array<Taken> = []
  const sending: Array<Promise<unknown>> = []
  for (let n = 0; n < 8; n++) {
    const user = 1 + random.int(users - 1)
    const size = 1 + random.int(5)
    const name = `r${round}w${n}`
    const calls = Array.from(
      { length: size },
      (_, index) => [random.pick(["look", "note", "note", "ask"]), `${name}.${index}`, random.int(60)] as const
    )
    const body = { ...Client.message(calls), wave: name }
    // an answer says that it was taken; one that was cut off may have been
    sending.push(Client.send(server.url, user, "POST", "/api/sessions/s/waves", body).catch(() => undefined))
    taken.push({ user, name, size })
  }
  await sleep(random.int(250))
  const before = await open(server)
  const known: Array<Taken> = []
  for (const it of taken) {
    if ((await Client.send(server.url, it.user, "GET", `/api/sessions/s/waves/${it.name}`)).status === 200) {
      known.push(it)
    }
  }
  await server.kill("SIGKILL")
  await Promise.all(sending)
  server = await Client.start(folder, users)
  // what was killed has its lease for two seconds
  const wanted = new Set(before)
  for (let tries = 0; tries < 100 && wanted.size > 0; tries++) {
    for (const id of await open(server)) wanted.delete(id)
    if (wanted.size > 0) await sleep(100)
  }
  for (const id of wanted) problems.push(`round ${round}: approval ${id} is gone`)
  kept += before.length
  for (const it of known) {
    const wave = await ended(server, it)
    const results = wave?.end?._tag === "ToolsEnd" ? wave.end.executionResults : []
    if (results.length !== it.size) problems.push(`${it.name}: ${JSON.stringify(wave)?.slice(0, 300)}`)
    for (const { _tag } of results) outcomes.set(_tag, 1 + (outcomes.get(_tag) ?? 0))
    waves++
  }
}
await server.kill("SIGKILL")
const done = existsSync(join(folder, "done")) ? readFileSync(join(folder, "done"), "utf8").trim().split("\n") : []
if (new Set(done).size !== done.length) problems.push("a call was done twice")
rmSync(folder, { recursive: true, force: true })
console.log(`${values.kills} kills, ${waves} waves, ${kept} approvals open at a kill`)
console.log(Array.from(outcomes, ([tag, n]) => `${tag} ${n}`).join(", "))
for (const it of problems) console.log(`PROBLEM ${it}`)
process.exit(problems.length === 0 ? 0 : 1)
