// Three runners over one PostgreSQL under load, while one of them is killed or frozen every twenty seconds and started
// again: every call has one outcome, what must not repeat happens once, limits hold over all runners, every approval
// request is answered once, and the sessions of the runner that is gone are served again soon.
//
//     npm run try -- load:cluster                          300 sessions, 30,000 calls, three minutes
//     npm run try -- load:cluster --sessions 30 --calls 1000 --minutes 0.5 --seed 7
//     npm run try -- load:cluster --faults cut,hole,slow   the database is away for one of them
//     npm run try -- load:cluster --runners 1 --single     one server without a cluster
//     npm run try -- load:kill                             the same over SQLite, killed 30 times
import { writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { randomFrom } from "../../src/testing/SeededRandom.ts"
import { median } from "../bench/measure.ts"
import { flags } from "../flags.ts"
import * as Database from "./cluster/database.ts"
import * as Ledger from "./cluster/ledger.ts"
import * as Runners from "./cluster/runners.ts"
import * as Sessions from "./cluster/sessions.ts"
import { cap, max, resourceOf } from "./cluster/tools.ts"

const { agents, calls, minutes, runners: count, seed, sessions, ...wanted } = flags({
  runners: 3,
  sessions: 300,
  agents: 30,
  calls: 30_000,
  asks: 0.08,
  minutes: 3,
  calm: 30,
  "kill-every": 20,
  faults: "kill,kill,kill,freeze",
  single: false,
  sqlite: false,
  seed: 1
})
const [calm, every] = [wanted.calm * 1_000, wanted["kill-every"] * 1_000]
const millis = minutes * 60_000
const isCut = /cut|hole|slow/.test(wanted.faults)
const users = Sessions.approvers + 20
const random = randomFrom(seed)

/** Sessions are served again within this time. */
const bar = 15_000

const server = wanted.sqlite ? undefined : await Database.start()
const postgres = await server?.database()
const runners = await Runners.start({
  runners: count,
  isCluster: !wanted.single && !wanted.sqlite,
  postgres,
  users,
  isProxied: isCut
})
const database = postgres === undefined ? undefined : Database.open(postgres)
const sessionsHeld = async () => await database?.held() ?? []
const balancer = Runners.balancer(runners)
const load = Sessions.make({
  balancer,
  random,
  users,
  sessions,
  calls,
  asks: wanted.asks,
  millis: calm + millis,
  isCut
})
const { counted, problem, problems } = load
const begun = Date.now()
console.log(`${count} runners, ${sessions} sessions, ${calls} calls wanted`)

const faults = wanted.faults.split(",")
const stops: Array<Ledger.Stop & { readonly fault: string }> = []
const recoveries: Array<{ readonly fault: string; readonly millis: number }> = []
const moves = { alarms: 0, ordered: 0 }
const watched = { isOver: false }

/** Counts sessions that a runner lost which was up, to one that had not just come. */
const watching = async () => {
  let before = new Map<string, Database.Held>()
  while (!watched.isOver) {
    const held = await sessionsHeld()
    const byName = new Map(runners.all.map((it) => [it.name, it]))
    for (const { epoch, principal, runner } of held) {
      const last = before.get(principal)
      if (last === undefined || last.epoch === epoch || last.runner === runner) continue
      const [from, to] = [byName.get(last.runner), byName.get(runner)]
      const isOrdered = from === undefined || from.state !== "up" || Date.now() - from.startedAt < 30_000 ||
        to === undefined || Date.now() - to.startedAt < 30_000 || stops.some((it) => Date.now() - it.to < 30_000)
      if (isOrdered) moves.ordered++
      else moves.alarms++
    }
    before = new Map([...before, ...held.map((it) => [it.principal, it] as const)])
    await sleep(500)
  }
}

/** How long it takes until sessions answer again that a runner had. */
const recovering = async (
  fault: string,
  name: string | undefined,
  since: number,
  held: ReadonlyArray<Database.Held>
) => {
  const own = held.filter(({ runner }) => runner === name).map(({ principal }) => principal)
  const chosen = own.toSorted(() => random.int(3) - 1).slice(0, 20)
  await Promise.all(chosen.map(async (principal, n) => {
    const index = Number(/s(\d+)$/.exec(principal)?.[1] ?? 0)
    await load.wave(index, `probe${since}.${n}.s${index}`, ["look"]).catch((error) => problem(String(error)))
    recoveries.push({ fault, millis: Date.now() - since })
    if (Date.now() - since > bar) console.log(`${principal} was served again ${Date.now() - since} ms after ${fault}`)
  }))
}

/** Tells when the lease of a runner that is gone was over, and its shards and sessions were taken. */
const leaving = async (fault: string, name: string | undefined, since: number) => {
  if (name === undefined || wanted.single || database === undefined) return
  const after = new Map<keyof Database.Left, number>()
  for (const until = since + every * 1.8; after.size < 3 && Date.now() < until;) {
    const left = await database.left(name)
    for (const part of ["lease", "shards", "sessions"] as const) {
      if (left[part] <= 0 && !after.has(part)) after.set(part, Date.now() - since)
    }
    await sleep(100)
  }
  console.log(`after ${fault}: ${Array.from(after, ([part, millis]) => `${part} ${millis} ms`).join(", ")}`)
}

let kills = 0
const most = every > 0 ? Math.floor(millis / every) : 0
const killing = async () => {
  const probes: Array<Promise<void>> = []
  while (kills < most) {
    await sleep(every * 0.8)
    const runner = runners.all[kills % count]!
    const held = await sessionsHeld()
    const fault = faults[kills % faults.length]!
    const { life, name } = runner
    kills++
    const since = Date.now()
    if (fault === "kill") {
      await runners.stop(runner, "SIGKILL")
      probes.push(recovering(fault, name, since, held), leaving(fault, name, since))
      await sleep(every * 0.2)
      await runners.again(runner)
    } else if (fault === "term") {
      probes.push(recovering(fault, name, since, held))
      await runners.stop(runner, "SIGTERM")
      await runners.again(runner)
    } else {
      if (fault === "freeze") runners.freeze(runner)
      else runner.proxy?.set(fault as "cut" | "hole" | "slow")
      probes.push(recovering(fault, name, since, held), leaving(fault, name, since))
      // longer than all leases
      await sleep(every * 0.9)
      if (fault === "freeze") runners.thaw(runner)
      else runner.proxy?.set("open")
    }
    const isOver = fault === "kill" || fault === "term"
    stops.push({ runner: life, fault, from: since, to: isOver ? Infinity : Date.now() })
  }
  await Promise.all(probes)
}

const watcher = watching()
const approving = Array.from(
  { length: Sessions.approvers },
  (_, index) => load.approving(index).catch((error) => problem(String(error)))
)
const work = Array.from(
  { length: sessions },
  (_, index) => index < agents ? load.talking(index).catch((error) => problem(String(error))) : load.working(index)
)
await sleep(calm)
const calmAlarms = moves.alarms + moves.ordered
await killing()
await Promise.all(work)
load.now.isOver = true
watched.isOver = true
await Promise.all([...approving, watcher])
const seconds = Math.round((Date.now() - begun) / 1_000)

const lines = Ledger.read(runners.ledger())
const still = stops.filter(({ fault }) => fault === "kill" || fault === "freeze")
const expected = { outcomes: load.outcomes, decisions: load.decided(), stops: still, max, cap, resourceOf }
for (const it of Ledger.problems(lines, expected)) problem(it)
if (counted.outcomes !== counted.calls) problem(`${counted.calls} calls and ${counted.outcomes} outcomes`)
const late = recoveries.filter(({ millis }) => millis > bar)
if (late.length > 0) problem(`${late.length} sessions were served again after more than ${bar / 1_000} s`)

const tags = new Map<string, number>()
for (const tag of load.outcomes.values()) tags.set(tag, 1 + (tags.get(tag) ?? 0))
const frozen = stops.filter(({ fault }) => fault === "freeze")
const thawed = lines.filter(({ at, phase, runner }) =>
  phase === "done" && frozen.some((it) => it.runner === runner && at >= it.to && at < it.to + 2_000)
)
// what begins has been recorded, so nothing begins without a database; a record may have been on its way back
const deaf = stops.filter(({ fault }) => fault === "cut" || fault === "hole")
for (const { from, runner, to } of deaf) {
  const begun = lines.filter((it) => it.phase === "began" && it.runner === runner && it.at > from + 500 && it.at < to)
  if (begun.length > 0) problem(`${runner} began ${begun.length} calls without a database`)
}
const sorted = load.latencies.toSorted((a, b) => a - b)
const share = (of: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * of))] ?? 0
const times = (fault: string) => {
  const all = recoveries.filter((it) => it.fault === fault).map((it) => it.millis)
  return all.length === 0 ? "-" : `median ${median(all)} ms, worst ${Math.max(...all)} ms, of ${all.length}`
}
const rows: ReadonlyArray<readonly [string, unknown]> = [
  ["seconds", seconds],
  ["faults", stops.map(({ fault }) => fault).join(", ")],
  ["waves", counted.waves],
  ["calls, outcomes", `${counted.calls}, ${counted.outcomes}`],
  ["outcomes by kind", Array.from(tags, ([tag, n]) => `${tag} ${n}`).join(", ")],
  ["operations of agents, not kept", `${counted.operations}, ${counted.notKept}`],
  ["waves submitted at two runners at once", counted.doubleSubmits],
  ["streams followed, cut", `${counted.followed}, ${counted.cuts}`],
  ["approvals taken, told who was first", `${counted.approvals}, ${counted.told}`],
  ["approvals answered at two runners at once", counted.doubleAnswers],
  ["wave without a person", `median ${share(0.5)} ms, p99 ${share(0.99)} ms, worst ${share(1)} ms`],
  ...Array.from(new Set(faults), (fault) => [`served again after ${fault}`, times(fault)] as const),
  ["sessions moved before the first kill", calmAlarms],
  ["sessions moved from a living runner later", moves.alarms],
  ["sessions moved in order", moves.ordered],
  ["effects within 2 s of a thaw", thawed.length]
]
for (const [name, value] of rows) console.log(`${name.padEnd(44)} ${String(value)}`)
for (const [failure, n] of Array.from(balancer.failures).toSorted(([, a], [, b]) => b - a).slice(0, 8)) {
  console.log(`${String(n).padStart(6)} × ${failure.slice(0, 160)}`)
}
for (const it of problems) console.log(`PROBLEM ${it}`)
if (problems.length > 0) {
  const log = join(tmpdir(), "tool-executor-cluster.log")
  writeFileSync(log, runners.log())
  console.log(`what the runners have logged: ${log}`)
}
balancer.end()
await runners.end()
await database?.end()
await server?.end()
process.exit(problems.length === 0 ? 0 : 1)
