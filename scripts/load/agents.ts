// Sessions of agents with a sub-agent and an approval, while the server is killed and stopped in the middle: every
// operation comes to its end, no call is done twice, every approval request that was open is there under its id, every
// history is valid, and a client that reconnects loses no event and gets none twice.
//
//     npm run try -- load:agents   a short run
//     npm run try -- load:agents --sessions 200 --seconds 300 --kills 30 --terms 10
import type { ApiApprovals, ApiOperations } from "effect-tool-executor/server"
import { setTimeout as sleep } from "node:timers/promises"
import { randomFrom } from "../../test/support/randomCase.ts"
import { flags } from "../flags.ts"
import * as Client from "./client.ts"
import * as Ledger from "./cluster/ledger.ts"
import * as Runners from "./cluster/runners.ts"

const { kills, seconds, seed, sessions, terms } = flags({ sessions: 20, seconds: 20, kills: 3, terms: 2, seed: 1 })
const random = randomFrom(seed)
const users = 1 + Math.ceil(sessions / 20)
const problems: Array<string> = []
const counted = {
  operations: 0,
  events: 0,
  resets: 0,
  reconnects: 0,
  approvals: 0,
  joined: 0,
  unknown: 0,
  cancelled: 0
}
const runners = await Runners.start({ runners: 1, isCluster: false, users, approvers: 1 })
const server = runners.all[0]!
/** `isEnding`: no operation begins any more. `isPaused`: approvers pause while the server is about to be killed. */
const now = { isEnding: false, isPaused: false, isOver: false }

/** Sends a request until a server answers it. */
const send = async <A>(user: number, method: string, path: string, body?: unknown): Promise<Client.Answer<A>> => {
  for (let tries = 0; tries < 600; tries++) {
    try {
      const answer = await Client.send<A>(server.url, user, method, path, body)
      if (answer.status !== 503) return answer
    } catch {
      // it is down
    }
    await sleep(100)
  }
  throw new Error(`${method} ${path}: no answer for a minute`)
}

type Pending = typeof ApiApprovals.Approvals.Type

const pending = async () => (await send<Pending>(0, "GET", "/api/approvals")).json.open

const approving = async () => {
  while (!now.isOver) {
    const open = now.isPaused ? [] : await pending()
    for (const { hash, id } of open) {
      if (now.isPaused) break
      const answer = { hash, answer: { _tag: random.int(5) === 0 ? "Deny" : "ApproveOnce" } }
      const { status } = await send(0, "POST", `/api/approvals/${id}/answer`, answer)
      if (status === 200) counted.approvals++
    }
    await sleep(50)
  }
}

const isFinal = (data: unknown): boolean => {
  const event = data as { readonly _tag: string; readonly reason?: { readonly _tag: string } }
  return event._tag === "OperationEnd" && event.reason?._tag !== "Suspended"
}

/** Fragments are not kept for long, and notes are not of the operation. */
const isKept = ({ event }: Client.Event): boolean =>
  !["gap", "reset", "heartbeat", "assistant_message_part"].includes(event) && !/^tool_(?:progress|status)$/.test(event)

/** Follows an operation to its end, cut at random, over all servers. */
const follow = async (user: number, path: string): Promise<ReadonlyArray<Client.Event>> => {
  let seen: Array<Client.Event> = []
  let last: string | undefined
  const until = Date.now() + 300_000
  while (Date.now() < until) {
    let listening: Client.Listening | undefined
    try {
      listening = await Client.listen(server.url, user, `${path}/events`, (event) => {
        if (event.event === "reset") {
          counted.resets++
          seen = []
        }
        if (event.id !== undefined) last = event.id
        if (isKept(event)) seen.push(event)
        if (random.int(40) === 0) listening?.cut()
      }, last)
      await listening.ended
    } catch {
      await sleep(100)
    }
    if (seen.some(({ data }) => isFinal(data))) return seen
    counted.reconnects++
    await sleep(20)
  }
  const { json } = await send(user, "GET", path)
  problems.push(`${path}: it has not ended, ${JSON.stringify([json, seen.slice(-3)])}`)
  return seen
}

/** All kept events of an operation, read at once. */
const all = async (user: number, path: string): Promise<ReadonlyArray<Client.Event>> => {
  for (let tries = 0; tries < 600; tries++) {
    const events: Array<Client.Event> = []
    try {
      const { ended } = await Client.listen(server.url, user, `${path}/events`, (it) => isKept(it) && events.push(it))
      await ended
    } catch {
      await sleep(100)
    }
    if (events.some(({ data }) => isFinal(data))) return events
  }
  return []
}

const dataOf = (events: ReadonlyArray<Client.Event>) => events.map(({ data }) => JSON.stringify(data))

const checkHistory = async (user: number, session: string) => {
  const { json: { messages } } = await send<typeof ApiOperations.History.Type>(
    user,
    "GET",
    `/api/sessions/${session}/history`
  )
  let open = new Set<string>()
  for (const { calls = [], results = [], role } of messages) {
    if (role !== "tool" && open.size > 0) {
      problems.push(`${session}: calls without an answer: ${Array.from(open).join()}`)
    }
    if (role !== "tool") open = new Set(calls.map(({ id }) => id))
    for (const { id, text } of results) {
      if (!open.delete(id)) problems.push(`${session}: ${id} has an answer and no call`)
      if (/may or may not/.test(text)) counted.unknown++
    }
  }
}

const talk = async (index: number) => {
  const user = 1 + index % (users - 1)
  const session = `s${index}`
  for (let n = 0; !now.isEnding; n++) {
    const id = `${session}o${n}`
    const path = `/api/sessions/${session}/operations`
    const { status } = await send(user, "POST", path, { agent: "helper", prompt: id, id })
    if (status !== 200) problems.push(`${id}: ${status}`)
    // sent again, nothing runs twice
    await send(user, "POST", path, { agent: "helper", prompt: id, id })
    const said = random.int(4) === 0
      ? await send(user, "POST", path, { agent: "helper", prompt: `${id}and`, id: `${id}and` })
      : undefined
    const seen = await follow(user, `${path}/${id}`)
    const kept = await all(user, `${path}/${id}`)
    const [mine, whole] = [dataOf(seen), dataOf(kept)]
    if (mine.join("\n") !== whole.join("\n")) {
      const lost = whole.filter((it) => !mine.includes(it))
      problems.push(`${id}: ${mine.length} events of ${whole.length}; lost ${lost.length}: ${lost[0]?.slice(0, 200)}`)
    }
    counted.operations++
    counted.events += mine.length
    const { json } = await send<ApiOperations.Operation>(user, "GET", `${path}/${id}`)
    const reason = json.end?.reason._tag
    if (reason === "Cancelled") counted.cancelled++
    else if (reason !== "Finished") problems.push(`${id}: ${JSON.stringify(json)}`)
    // it joined the operation, or began one of its own
    if (said !== undefined) {
      counted.joined++
      const own = (said.json as ApiOperations.Operation).id
      if (own !== id) await follow(user, `${path}/${own}`)
    }
    await checkHistory(user, session)
  }
}

const interrupting = async () => {
  const signals = [
    ...Array.from({ length: kills }, () => "SIGKILL" as const),
    ...Array.from({ length: terms }, () => "SIGTERM" as const)
  ]
  for (const signal of signals.toSorted(() => random.int(3) - 1)) {
    await sleep(seconds * 1_000 / (signals.length + 1) * (0.5 + random.int(100) / 100))
    now.isPaused = true
    // an answer that is under way has come
    await sleep(100)
    const before = new Set((await pending()).map(({ id }) => id))
    await runners.stop(server, signal)
    await runners.again(server)
    for (let tries = 0; tries < 150 && before.size > 0; tries++) {
      for (const { id } of await pending()) before.delete(id)
      if (before.size > 0) await sleep(100)
    }
    for (const id of before) problems.push(`${signal}: approval ${id} is gone`)
    now.isPaused = false
  }
}

const started = Date.now()
const approver = approving()
const talks = Array.from({ length: sessions }, (_, index) => talk(index))
await interrupting()
await sleep(Math.max(0, started + seconds * 1_000 - Date.now()))
// the last operations come to their end, with approvers
now.isEnding = true
await Promise.all(talks)
now.isOver = true
await approver
await runners.stop(server, "SIGKILL")
const done = Ledger.read(runners.ledger()).filter(({ phase }) => phase === "done").map(({ key }) => key)
const twice = done.filter((it, index) => done.indexOf(it) !== index)
if (twice.length > 0) problems.push(`done twice: ${twice.slice(0, 5).join(", ")}`)
await runners.end()
console.log(
  `${sessions} sessions, ${kills} SIGKILLs, ${terms} SIGTERMs, ${Math.round((Date.now() - started) / 1_000)} s`
)
console.log(Object.entries(counted).map(([name, count]) => `${name} ${count}`).join(", "), `calls ${done.length}`)
for (const it of problems) console.log(`PROBLEM ${it}`)
process.exit(problems.length === 0 ? 0 : 1)
