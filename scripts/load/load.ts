// Many sessions with a stream each, some calls a second in all, for minutes: no event lost or out of order, how long an
// event takes to its reader, what the server holds. One client is cut again and again, and has every event of its calls
// exactly once.
//
//     npm run try -- load   500 sessions, 20 calls a second, five minutes
//     npm run try -- load --minutes 1 --sessions 100 --rate 20
import type { ApiModels } from "effect-tool-executor/server"
import { setTimeout as sleep } from "node:timers/promises"
import { randomFrom } from "../../test/support/randomCase.ts"
import { median } from "../bench/measure.ts"
import { flags } from "../flags.ts"
import * as Client from "./client.ts"
import * as Runners from "./cluster/runners.ts"

const { minutes, rate, seed, sessions, ...wanted } = flags({ minutes: 5, sessions: 500, rate: 20, cuts: 100, seed: 1 })
const millis = minutes * 60_000
const random = randomFrom(seed)
const problems: Array<string> = []
const problem = (text: string) => problems.length < 20 ? void problems.push(text) : undefined

/** What a session's stream has told of a wave. */
interface Seen {
  readonly calls: number
  readonly stages: Map<number, Array<string>>
  last: number
  ended: boolean
}

const runners = await Runners.start({
  runners: 1,
  isCluster: false,
  users: sessions + 1,
  approvers: 1,
  hasLedger: false
})
const server = runners.all[0]!
const waves = new Map<string, Seen>()
const latencies: Array<number> = []
let events = 0

/** Which stages a call has, in order; anything else is a loss, or out of order. */
const whole = "tool_call_queued tool_call_start tool_call_complete"

const told = ({ at, data, event }: Client.Event) => {
  if (event === "gap" || event === "reset") problem(`a stream had a ${event}`)
  if (data._tag !== "WaveEvent") return
  const seen = waves.get(`${data.user}/${data.session}/${data.wave}`)
  if (seen === undefined) return problem(`an event of a wave that nobody handed over: ${data.wave}`)
  const it = data.event
  events++
  latencies.push(at - it.at)
  if (it.sequence <= seen.last) problem(`wave ${data.wave}: ${it.sequence} came behind ${seen.last}`)
  seen.last = it.sequence
  if (it._tag === "ToolsEnd") seen.ended = true
  if (!("index" in it)) return
  const stages = seen.stages.get(it.index) ?? []
  seen.stages.set(it.index, stages)
  const name = it._tag.replace(/[A-Z]/g, (letter: string) => `_${letter.toLowerCase()}`).slice(1)
  if (Client.isLife(name)) stages.push(name)
}

const streams = await Promise.all(
  Array.from({ length: sessions }, (_, index) => Client.listen(server.url, index + 1, "/api/live", told))
)
console.log(`${sessions} sessions, each with a stream`)

/** A wave of some calls in a session of its user; its results are as many. */
const wave = async (n: number) => {
  const user = 1 + random.int(sessions)
  const size = 1 + random.int(4)
  const name = `w${n}`
  const calls = Array.from(
    { length: size },
    (_, index) => [random.chance(0.5) ? "look" : "note", `${name}.${index}`, random.int(50)] as const
  )
  waves.set(`u${user}/s/${name}`, { calls: size, stages: new Map(), last: 0, ended: false })
  const answer = await Client.send<ApiModels.Wave>(server.url, user, "POST", "/api/sessions/s/waves", {
    ...Client.message(calls),
    wave: name
  })
  if (answer.status !== 200) return problem(`wave ${name}: ${answer.status} ${JSON.stringify(answer.json)}`)
  const { messages } = answer.json
  if (!Array.isArray(messages) || messages.length !== size) problem(`wave ${name}: ${JSON.stringify(messages)}`)
  return undefined
}

/** One client that is cut all the time: its wave is long, and each of its events comes once. */
const cutting = async (): Promise<number> => {
  let cuts = 0
  for (let round = 0; cuts < wanted.cuts; round++) {
    const name = `cut${round}`
    const size = 60
    const calls = Array.from({ length: size }, (_, index) => ["note", `${name}.${index}`, 10] as const)
    waves.set(`u1/s/${name}`, { calls: size, stages: new Map(), last: 0, ended: false })
    const answer = Client.send<ApiModels.Wave>(server.url, 1, "POST", "/api/sessions/s/waves", {
      ...Client.message(calls),
      wave: name
    })
    const got: Array<string> = []
    let after: string | undefined
    const over = { is: false }
    while (!over.is) {
      let left = 1 + random.int(8)
      let listening: Client.Listening | undefined
      try {
        listening = await Client.listen(
          server.url,
          1,
          `/api/sessions/s/waves/${name}/events`,
          ({ data, event, id }) => {
            if (left === 0 || event === "heartbeat") return
            if (event === "reset") problem(`wave ${name}: a reset`)
            after = id ?? after
            if (Client.isLife(event)) got.push(`${event} ${"index" in data ? data.index : ""}`)
            if (event === "tools_end") over.is = true
            if (--left === 0) listening?.cut()
          },
          after
        )
      } catch {
        // it may not have arrived yet
        await sleep(5)
        continue
      }
      await listening.ended
      if (!over.is) cuts++
    }
    await answer
    const expected = size * 3 + 1
    if (got.length !== expected || new Set(got).size !== expected) {
      problem(`wave ${name}: ${got.length} events, ${new Set(got).size} different ones, for ${expected}`)
    }
  }
  return cuts
}

const heaps: Array<number> = []
const begin = Date.now()
const running: Array<Promise<unknown>> = []
const cut = cutting()
let n = 0
let sampled = begin
while (Date.now() - begin < millis) {
  running.push(wave(n++))
  if (Date.now() - sampled > millis / 60) {
    sampled = Date.now()
    heaps.push(await runners.heap(server))
  }
  // 2.5 calls a wave on average
  await sleep(Math.max(0, begin + n * 2_500 / rate - Date.now()))
}
await Promise.all(running)
const cuts = await cut
await sleep(1_000)
for (const stream of streams) stream.cut()

let calls = 0
for (const [name, seen] of waves) {
  calls += seen.calls
  if (!seen.ended) problem(`${name}: no end`)
  for (let index = 0; index < seen.calls; index++) {
    const stages = seen.stages.get(index)?.join(" ")
    if (stages !== whole) problem(`${name}, call ${index}: ${stages}`)
  }
}
await sleep(500)
heaps.push(await runners.heap(server))
await runners.stop(server, "SIGTERM")
await runners.end()

const sorted = latencies.toSorted((a, b) => a - b)
const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]
const third = (from: number) =>
  median(heaps.slice(Math.floor(heaps.length * from / 3), Math.ceil(heaps.length * (from + 1) / 3)))
console.log(
  `${waves.size} waves, ${calls} calls, ${events} events told in ${Math.round((Date.now() - begin) / 1_000)} s`
)
console.log(`from event to client: median ${at(0.5)} ms, p99 ${at(0.99)} ms, most ${at(1)} ms`)
console.log(`held, by thirds: ${[0, 1, 2].map((from) => third(from).toFixed(1)).join(", ")} MB`)
console.log(`cut ${cuts} times and resumed`)
for (const it of problems) console.log(`PROBLEM ${it}`)
process.exit(problems.length === 0 ? 0 : 1)
