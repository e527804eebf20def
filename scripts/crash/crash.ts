// Kills processes at random points of their waves, resumes each wave from another one, and looks whether a call was
// lost, or done twice, or is not known of although it could be.
//
//     npm run try -- crash                            1,000 kills over SQLite, and 1,000 over PostgreSQL
//     npm run try -- crash --kills 5 --store sqlite   fewer of them, one store
//     npm run try -- crash --seed 7                   other points
import { Effect, Layer, Stream } from "effect"
import { type ToolOutcome, type ToolProcess } from "effect-tool-executor"
import { spawn } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"
import * as Journal from "../../src/core/store/Journal.ts"
import * as Postgres from "../../test/support/Postgres.ts"
import { flags } from "../flags.ts"
import * as Service from "./service.ts"
import * as Subject from "./subject.ts"

const { kills, lanes, seed, store } = flags({ kills: 1_000, lanes: 4, seed: 1, store: "sqlite,postgres" })

/** What was seen over all kills. */
interface Seen {
  kills: number
  calls: number
  /** Calls that the killed process had begun and not ended. */
  open: number
  unknown: number
  /** Calls that happened, and of which the tool could tell. */
  reconciled: number
  readonly problems: Array<string>
}

/** The point at which a process is killed: after a time, or when something is about to be done, or was. */
type Point = { readonly millis: number } | { readonly hit: number; readonly side: "before" | "after" }

const pointOf = (name: string): Point => {
  const next = Subject.random(`${seed} ${name}`)
  return next() < 0.5
    ? { millis: next() * 250 }
    : { hit: 1 + Math.floor(next() * 25), side: next() < 0.5 ? "before" : "after" }
}

const folder = mkdtempSync(join(tmpdir(), "tool-executor-crash-"))

/** Kills by the name of the process, at a request. */
const onHit = new Map<string, (side: "before" | "after") => void>()
const nameOf = (id: string) => id.slice(0, id.lastIndexOf("."))

const service = await Service.start({
  before: (id) => onHit.get(nameOf(id))?.("before"),
  after: (id) => onHit.get(nameOf(id))?.("after")
})

/** Runs a process until it is killed; gives the batch that it was in. */
const killed = (database: string, name: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const point = pointOf(name)
    const child = spawn(
      process.execPath,
      ["--import", "./scripts/source-resolver.ts", "scripts/crash/worker.ts", database, service.url, name],
      { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, NODE_COMPILE_CACHE: join(folder, "cache") } }
    )
    const errors: Array<string> = []
    child.stderr.on("data", (it) => errors.push(String(it)))
    let last: string | undefined
    let hits = 0
    onHit.set(name, (side) => {
      if ("hit" in point && side === point.side && ++hits === point.hit) child.kill("SIGKILL")
    })
    createInterface(child.stdout).on("line", (batch) => {
      if (last === undefined && "millis" in point) setTimeout(() => child.kill("SIGKILL"), point.millis)
      last = batch
    })
    child.on("close", (code, signal) => {
      onHit.delete(name)
      if (signal === "SIGKILL" && last !== undefined) resolve(last)
      else reject(new Error(`process ${name} ended with ${code ?? signal}: ${errors.join("")}`))
    })
  })

const entriesOf = (batch: string) =>
  Effect.flatMap(
    Journal.Journal,
    (it) => Effect.map(Stream.runCollect(it.read({ batch })), (all) => all.map(({ entry }) => entry))
  )

/** Whoever was killed is taken for alive until its lease is over. */
const resumed = (turn: ToolProcess.ToolProcess, batch: string) =>
  Effect.gen(function*() {
    for (let tries = 0; tries < 300; tries++) {
      const result = yield* Effect.result(turn.resume(Subject.waveOf(batch)))
      if (result._tag === "Success") return result.success
      if (result.failure._tag !== "ResumeError" || result.failure.reason !== "Running") return yield* result.failure
      yield* Effect.sleep("50 millis")
    }
    return yield* Effect.die(new Error(`${batch} could not be resumed in 15 s`))
  })

/** Resumes a wave, and looks at what became of each call. */
const check = Effect.fnUntraced(function*(batch: string, seen: Seen) {
  const wave = Subject.waveOf(batch)
  const before = yield* entriesOf(batch)
  const { outcomes } = yield* resumed(yield* Subject.processOf(batch), batch)
  const after = yield* entriesOf(batch)
  const problem = (text: string) => void seen.problems.push(`${batch}: ${text}`)
  const idsOf = (all: ReadonlyArray<Journal.JournalEntry>, tag: Journal.Tag) =>
    new Set(all.flatMap((it) => it._tag === tag && Journal.isOfCall(it) ? [it.callId] : []))
  const [started, settled] = [idsOf(before, "Started"), idsOf(before, "Settled")]
  if (outcomes.map((it) => it.callId).join() !== wave.map((it) => it.id).join()) problem("a call was lost")
  let payments = 0
  outcomes.forEach((outcome: ToolOutcome.ToolOutcome, index) => {
    const { callId: id, tool } = outcome
    const count = service.count(`${batch}/${index}`)
    const says = `${tool} ${id} is ${outcome._tag} and was done ${count} times`
    seen.calls++
    if (started.has(id) && !settled.has(id)) seen.open++
    if (outcome._tag === "Unknown") {
      seen.unknown++
      if (tool !== "pay") problem(`${says}, although it may be run again or can be told`)
      if (!started.has(id)) problem(`${says}, although it had not started`)
    }
    if (tool === "told" && started.has(id) && !settled.has(id) && count === 1) seen.reconciled++
    // one that ran may be stopped in the middle, where its lease could not be renewed in time
    const mayBeDone = outcome._tag === "Unknown" || (outcome._tag === "Cancelled" && outcome.started)
    const isRight = outcome._tag === "Succeeded" ? count === 1 : count <= (mayBeDone ? 1 : 0)
    if (tool !== "read" && !isRight) problem(says)
    if (outcome._tag === "Denied" ? outcome.reason._tag !== "RuleViolation" : outcome.startedAt === undefined) {
      problem(`${says}: ${JSON.stringify(outcome)}`)
    }
    if (tool === "pay" && outcome.startedAt !== undefined) payments++
  })
  if (payments > Subject.maxPayments) problem(`${payments} payments started`)
  const open = Array.from(idsOf(after, "Started")).filter((id) => !idsOf(after, "Settled").has(id))
  if (open.length > 0) problem(`the journal has no end of ${open.join(", ")}`)
})

const run = (store: string, database: string, seen: Seen) =>
  Effect.gen(function*() {
    let next = 0
    const lane = Effect.gen(function*() {
      while (next < kills) {
        const name = `${store}-${seed}-${++next}`
        const batch = yield* Effect.promise(() => killed(database, name))
        yield* check(batch, seen)
        seen.kills++
        if (process.stderr.isTTY) process.stderr.write(`\r${seen.kills} kills `)
      }
    })
    yield* Effect.all(Array.from({ length: lanes }, () => lane), { concurrency: "unbounded" })
  }).pipe(
    // this process is not killed, and may stand still while others are busy
    Effect.provide(Subject.layer(database, service.url, { lease: "30 seconds" }))
  )

const databases: Readonly<Record<string, Effect.Effect<string, unknown, Postgres.Postgres>>> = {
  sqlite: Effect.succeed(join(folder, "records.db")),
  postgres: Effect.flatMap(Postgres.Postgres, (it) => it.database)
}

let isBroken = false
for (const name of store.split(",")) {
  const database = databases[name]
  if (database === undefined) throw new Error(`--store: ${name} is none; there is sqlite and postgres`)
  const seen: Seen = { kills: 0, calls: 0, open: 0, unknown: 0, reconciled: 0, problems: [] }
  const program = Effect.flatMap(database, (it) => run(name, it, seen))
  const server = name === "postgres" ? Postgres.layer : Layer.succeed(Postgres.Postgres, undefined as never)
  await Effect.runPromise(Effect.scoped(Effect.provide(program, server)))
  const { calls, open, problems, reconciled, unknown } = seen
  console.log(
    `${name}: ${seen.kills} kills, ${calls} calls, ${open} of them had started without an end; ` +
      `${unknown} unknown, ${reconciled} told by their tool; ${problems.length} problems`
  )
  for (const it of problems.slice(0, 20)) console.log(`  ${it}`)
  isBroken ||= problems.length > 0
}
rmSync(folder, { recursive: true, force: true })
service.close()
process.exit(isBroken ? 1 : 0)
