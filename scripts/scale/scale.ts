// What a cluster of many runners needs, from the costs that were measured on a small one.
//
//     npm run try -- scale
import { bytes, cases, measured } from "./costs.ts"
import { capacity, fixed, intervals, waiting } from "./estimate.ts"
import { simulate } from "./model.ts"

const row = (...cells: ReadonlyArray<number | string>) =>
  console.log(cells.map((it, index) => index === 0 ? String(it).padEnd(34) : String(it).padStart(16)).join(""))
const whole = (it: number) => Math.round(it).toLocaleString("en")
const percent = (it: number) => `${Math.round(it * 100)} %`

const load = {
  processors: 2,
  databases: 1,
  calls: 5,
  handler: 1,
  asks: 0,
  people: 0,
  millis: 20_000,
  seed: 1
}

console.log("Statements of a wave, measured and in the model")
row("runners, sessions at once", "measured", "model", "waves/s", "median ms")
for (const { runners, sessions, statements } of cases) {
  const it = simulate(measured, { ...load, runners, arrivals: { sessions } })
  row(
    `${runners}, ${sessions}`,
    statements.toFixed(1),
    it.statementsPerWave.toFixed(1),
    whole(it.perSecond),
    it.latency.median.toFixed(1)
  )
}

console.log("\nWaves per second of five calls until a part is 80 % busy")
row("runners, databases × processors", "waves/s", "calls/s", "busiest", "statements", "p99 ms")
for (
  const [runners, databases, processors] of [
    [1, 1, 16],
    [3, 1, 16],
    [10, 1, 16],
    [30, 1, 16],
    [100, 1, 16],
    [100, 1, 64],
    [100, 10, 16],
    [1_000, 1, 64],
    [1_000, 100, 16]
  ] as const
) {
  const some = {
    ...load,
    runners,
    databases,
    processors,
    handler: 200,
    asks: 0.05,
    people: 60_000,
    millis: runners > 100 ? 500 : 1_500
  }
  const { figures, first, perSecond } = capacity(measured, some)
  row(
    `${whole(runners)}, ${databases} × ${processors}`,
    whole(perSecond),
    whole(perSecond * 5),
    first,
    figures.statementsPerWave.toFixed(1),
    figures.latency.p99.toFixed(0)
  )
}

console.log("\nRunners without work, ten connections each")
row("runners", "connections", "statements/s", "runner rows/s", "database CPU", "shards needed")
for (const runners of [3, 30, 100, 300, 1_000]) {
  const it = fixed(runners, 10, measured, intervals.perRunnerRow)
  row(
    whole(runners),
    whole(it.connections),
    whole(it.statements),
    whole(it.rowsRead),
    percent(it.processors),
    whole(runners * 10)
  )
}

console.log("\nSessions that wait for people, answered within a day on average")
row("sessions", "GB", "GB of indexes", "answers/s", "answers' CPU")
for (const sessions of [10_000, 1_000_000, 10_000_000]) {
  const it = waiting(sessions, bytes, 24)
  const each = (measured.suspend.statements + measured.resume.statements) * measured.statement / 1_000
  row(
    whole(sessions),
    it.gigabytes.toFixed(1),
    it.indexes.toFixed(1),
    it.answers.toFixed(1),
    percent(it.answers * each)
  )
}
